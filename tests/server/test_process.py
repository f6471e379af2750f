"""``chronos server`` as a process: banner, readiness, shutdown, and errors at the start."""

import asyncio
import json
import os
import signal
import socket
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from chronos.api import hash_password
from tests.support.databases import on_server
from tests.support.server_process import PATIENCE_S, Process, free_port, run

Start = Callable[..., Process]
SLEEPER = {"name": "sleeper", "schedule": "now", "command": {"argv": ["sleep", "600"]}}


def running(answer: dict[str, object]) -> bool:
    return answer["executions_here"] == 1


def test_a_server_prints_its_banner_gets_ready_and_stops_on_sigterm(start: Start, tmp_path: Path) -> None:
    server = start().ready()
    assert "chronos-data/chronos.db" in server.banner
    assert server.get("/healthz")[0] == 200
    assert server.get("/readyz") == (200, '{"status":"ready"}')
    assert (tmp_path / "chronos-data" / "chronos.db").exists()
    server.send(signal.SIGTERM)
    assert server.wait() == 0
    rest = server.rest()
    assert f"chronosctl --server {server.url} jobs create hello --every 10s -- echo hi" in rest


def test_the_banner_suggests_a_first_job_only_for_a_new_store(start: Start) -> None:
    first = start().ready()
    first.post("/api/v1/jobs", SLEEPER | {"schedule": "@daily"})
    first.send(signal.SIGINT)
    assert first.wait() == 0
    second = start().ready()
    status = second.read("/api/v1/status")
    figures = ("jobs_held", "jobs_recovered", "jobs_persisted", "jobs_failed_to_recover")
    assert [status[name] for name in figures] == [1, 1, 1, 0]
    second.send(signal.SIGTERM)
    assert second.wait() == 0
    assert "jobs create" not in second.rest()


def test_a_shutdown_lets_running_work_finish(start: Start, tmp_path: Path) -> None:
    server = start().ready()
    waits = f"until test -e '{tmp_path}/go-on'; do sleep 0.05; done"
    server.post("/api/v1/jobs", SLEEPER | {"command": {"argv": ["sh", "-c", waits]}})
    server.until("/api/v1/status", running)
    server.send(signal.SIGTERM)
    while server.get("/readyz")[0] == 200:
        time.sleep(0.01)
    status, text = server.get("/readyz")
    assert (status, json.loads(text)["detail"]) == (503, "this node is shutting down")
    (tmp_path / "go-on").touch()
    assert server.wait() == 0
    again = start().ready()
    [execution] = again.read("/api/v1/executions")["items"]
    assert (execution["status"], execution["attempts"]) == ("succeeded", 1)


def test_the_second_signal_does_not_wait(start: Start) -> None:
    server = start().ready()
    server.post("/api/v1/jobs", SLEEPER)
    server.until("/api/v1/status", running)
    started_s = time.monotonic()
    server.send(signal.SIGTERM)
    while "shutting down" not in server.errors:
        time.sleep(0.01)
    server.send(signal.SIGTERM)
    assert server.wait() == 0
    assert time.monotonic() - started_s < 20
    again = start("--no-worker").ready()
    [execution] = again.read("/api/v1/executions")["items"]
    assert execution["status"] == "ready"


def test_the_grace_period_ends(start: Start) -> None:
    server = start(CHRONOS_SCHEDULER__GRACE_PERIOD="200ms").ready()
    server.post("/api/v1/jobs", SLEEPER)
    server.until("/api/v1/status", running)
    server.send(signal.SIGTERM)
    assert server.wait() == 0


def test_a_port_in_use_is_reported(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        result = run(tmp_path, "server", "--listen", f"127.0.0.1:{port}")
    assert (result.returncode, result.stdout) == (1, "")
    assert result.stderr == (
        f"✗ 127.0.0.1:{port} is already in use; stop the program there, "
        f"or choose another: --listen 127.0.0.1:{port + 1}\n"
    )
    assert not (tmp_path / "chronos-data").exists()


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        (("--config", "missing.yaml"), "missing.yaml cannot be read: No such file"),
        (("--config", "bad.yaml"), "bad.yaml: unknown setting sever.listen; did you mean server.listen?"),
        (("--listen", "8080"), "--listen: server.listen is '8080', expected HOST:PORT"),
        (("--listen", "0.0.0.0:0"), "can be reached from other machines"),
        (("--listen", "no-such-host.invalid:0"), 'unknown host "no-such-host.invalid"'),
        (("--store", "mysql://x"), "unknown store"),
        (("--store", "postgresql://nobody@127.0.0.1:1/x"), "PostgreSQL at 127.0.0.1:1"),
        (("--store", "sqlite:////proc/nowhere/x.db"), "the folder /proc/nowhere cannot be created"),
    ],
)
def test_an_error_at_the_start_is_one_message(tmp_path: Path, arguments: tuple[str, ...], part: str) -> None:
    (tmp_path / "bad.yaml").write_text("sever: {listen: 127.0.0.1:0}\n")
    listen = () if "--listen" in arguments else ("--listen", "127.0.0.1:0")
    result = run(tmp_path, "server", *arguments, *listen)
    assert (result.returncode, result.stdout) == (1, "")
    assert part in result.stderr
    assert "Traceback" not in result.stderr


def test_a_server_without_any_role_only_serves_the_api(start: Start, tmp_path: Path) -> None:
    program = start().ready()
    program.post("/api/v1/jobs", SLEEPER | {"schedule": "@daily"})
    api = start("--no-scheduler", "--no-worker").ready()
    assert "only the API: it schedules and runs nothing" in api.banner
    assert api.get("/readyz")[0] == 200
    assert [job["name"] for job in api.read("/api/v1/jobs")["items"]] == ["sleeper"]
    status = api.read("/api/v1/status")
    assert (status["schedules"], status["works"], status["jobs_persisted"]) == (False, False, 1)
    assert "scheduler_nodes 1.0" in api.get("/metrics")[1]  # the API is not a node
    code, problem = api.try_post("/api/v1/jobs/sleeper/pause", {})
    assert code == 409
    assert "so it can only be read here" in problem
    program.send(signal.SIGTERM)
    assert program.wait() == 0
    assert api.try_post("/api/v1/jobs/sleeper/pause", {})[0] == 200
    assert api.read("/api/v1/jobs/sleeper")["state"] == "paused"
    api.send(signal.SIGTERM)
    assert api.wait() == 0


def test_a_server_without_any_role_needs_a_store(tmp_path: Path) -> None:
    result = run(tmp_path, "server", "--no-scheduler", "--no-worker", "--listen", "127.0.0.1:0")
    assert (result.returncode, result.stdout) == (1, "")
    assert "chronos.db does not exist; check the path of the store" in result.stderr
    assert not (tmp_path / "chronos-data").exists()


def test_insecure_allows_other_addresses_than_loopback(start: Start) -> None:
    server = start("--listen", "0.0.0.0:0", CHRONOS_SERVER__INSECURE="true").ready()
    assert server.url.startswith("http://127.0.0.1:")
    assert server.get("/healthz")[0] == 200


def test_with_users_requests_need_credentials(start: Start, tmp_path: Path) -> None:
    hashed = hash_password("open sesame")
    users = {"ana": {"password_hash": hashed, "role": "viewer"}}
    config = {"auth": {"type": "basic", "users": users}, "server": {"public_docs": False}}
    (tmp_path / "chronos.yaml").write_text(json.dumps(config))
    server = start("--listen", "0.0.0.0:0").ready()
    assert server.get("/healthz")[0] == 200
    for path in ("/api/v1/jobs", "/docs", "/openapi.json"):
        assert server.get(path)[0] == 401
        assert server.get(path, Authorization="Basic YW5hOm9wZW4gc2VzYW1l")[0] == 200
    assert hashed not in run(tmp_path, "config", "show").stdout


def test_a_server_answers_under_its_base_path(start: Start) -> None:
    server = start(CHRONOS_SERVER__BASE_PATH="/chronos").ready()
    assert server.url.endswith("/chronos")
    assert server.get("/readyz")[0] == 200
    assert "scheduler_nodes 1.0" in server.get("/metrics")[1]


def test_the_pending_limit_reaches_the_service(start: Start) -> None:
    server = start("--no-worker", CHRONOS_QUEUE__MAX_PENDING="1").ready()
    server.post("/api/v1/jobs", {"name": "a", "schedule": "manual", "overlap": "allow", "command": {"argv": ["true"]}})
    server.post("/api/v1/jobs/a/trigger", {})
    time.sleep(1.1)  # a count is cached for a second
    with pytest.raises(AssertionError, match="429"):
        server.post("/api/v1/jobs/a/trigger", {})


def test_roles(start: Start) -> None:
    scheduler = start("--no-worker", "--node-id", "brain").ready()
    job = {"name": "once", "schedule": "now", "command": {"argv": ["true"]}}
    scheduler.post("/api/v1/jobs", job)
    status = scheduler.until("/api/v1/status", lambda answer: answer["executions"].get("ready") == 1)
    assert status["slots"] == 0
    worker = start("--no-scheduler", "--node-id", "hands").ready()
    done = worker.until("/api/v1/executions", lambda answer: answer["items"][0]["status"] == "succeeded")
    assert done["items"][0]["node"] == "hands"
    assert "scheduler_leader 0.0" in worker.get("/metrics")[1]
    assert "scheduler_nodes 2.0" in scheduler.get("/metrics")[1]


def test_log_lines_name_their_job_execution_and_request(start: Start) -> None:
    server = start("--node-id", "a", CHRONOS_LOGGING__FORMAT="json", CHRONOS_LOGGING__LEVEL="debug").ready()
    job = {"name": "wrong", "schedule": "now", "command": {"argv": ["false"]}, "retry": {"max_attempts": 1}}
    server.post("/api/v1/jobs", job)
    server.until("/api/v1/executions", lambda answer: answer["items"] and answer["items"][0]["status"] == "failed")
    assert server.get("/api/v1/jobs/wrong", **{"X-Request-Id": "mine"})[0] == 200
    asked = server.post("/api/v1/jobs/wrong/trigger", {}, **{"X-Request-Id": "asked"})["execution_id"]
    assert server.get(f"/api/v1/executions/{asked}", **{"X-Request-Id": "looked"})[0] == 200
    server.send(signal.SIGTERM)
    assert server.wait() == 0
    lines = [json.loads(line) for line in server.errors.splitlines()]
    assert {line["node"] for line in lines} == {"a"}
    by_event = {line["event"]: line for line in lines}
    tried, ended = by_event["attempt failed"], by_event["execution failed"]
    assert (tried["job"], tried["attempt"], tried["task"], tried["level"]) == ("wrong", 1, "main", "warning")
    assert (ended["job"], ended["execution"], ended["level"]) == ("wrong", tried["execution"], "error")
    about = [line["event"] for line in lines if line.get("execution") == tried["execution"]]
    assert (about.count("attempt failed"), about.count("execution failed")) == (1, 1)
    assert [line["path"] for line in lines if line.get("request_id") == "mine"] == ["/api/v1/jobs/wrong"]
    [admitted, request] = [line for line in lines if line.get("request_id") == "asked"]
    assert (admitted["event"], admitted["cause"]) == ("execution admitted", "manual")
    assert [(line["job"], line["execution"]) for line in (admitted, request)] == [("wrong", asked)] * 2
    [looked] = [line for line in lines if line.get("request_id") == "looked"]
    assert (looked["event"], looked["execution"], "job" in looked) == ("request", asked, True)


@pytest.mark.slow
def test_a_blocked_log_pipe_does_not_block_the_server(tmp_path: Path) -> None:
    """The log goes to a pipe that is never read."""
    reading, writing = os.pipe()
    try:
        process = Process(tmp_path, (), {"CHRONOS_LOGGING__LEVEL": "debug", "CHRONOS_LOGGING__FORMAT": "json"}, writing)
        with process as server:
            server.ready()
            for _ in range(1_500):  # more than a pipe holds
                assert server.get("/healthz")[0] == 200
            assert server.get("/readyz")[0] == 200
            server.send(signal.SIGTERM)
            assert server.wait() == 0
    finally:
        os.close(reading)
        os.close(writing)


def test_a_duty_that_keeps_failing_makes_a_node_unhealthy(tmp_path: Path, start: Start, postgres_url: str) -> None:
    where = f"127.0.0.1:{free_port()}"
    fast_settings = {
        "CHRONOS_STORE": postgres_url,
        "CHRONOS_SERVER__LISTEN": where,
        "CHRONOS_SCHEDULER__TICK_INTERVAL": "50ms",
        "CHRONOS_SCHEDULER__HEARTBEAT_INTERVAL": "500ms",
        "CHRONOS_SCHEDULER__HEARTBEAT_TIMEOUT": "1500ms",
    }
    server = start(**fast_settings).ready()

    def wait_for(status: int, text: str) -> str:
        end_s = time.monotonic() + PATIENCE_S
        while (found := server.get("/readyz"))[0] != status or text not in found[1]:
            assert time.monotonic() < end_s, found
            time.sleep(0.05)
        return found[1]

    wait_for(200, "ready")
    asyncio.run(on_server(postgres_url, "alter table chronos.idempotency rename column created_us to other_us"))
    detail = wait_for(503, "retention has failed")
    assert "times in a row with the same error" in detail
    assert 'column \\"created_us\\" does not exist' in detail
    metrics = server.get("/metrics")[1]
    assert "scheduler_duties_failing 1.0" in metrics
    assert 'scheduler_duty_failures_total{duty="retention"}' in metrics
    report = run(tmp_path, "doctor", **fast_settings)
    assert report.returncode == 1
    assert f"✗ server: {where} is not ready: retention has failed" in report.stdout
    assert "✗ statements: PostgreSQL " in report.stdout
    asyncio.run(on_server(postgres_url, "alter table chronos.idempotency rename column other_us to created_us"))
    wait_for(200, "ready")
    assert "scheduler_duties_failing 0.0" in server.get("/metrics")[1]
    report = run(tmp_path, "doctor", **fast_settings)
    assert f"✓ port: {where} is used by a Chronos server that is ready" in report.stdout
    assert "statements" not in report.stdout
