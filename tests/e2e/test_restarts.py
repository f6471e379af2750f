"""Acknowledged changes survive every kind of stop, and the example configuration starts a server."""

import json
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.e2e_server import V1, Client, shape
from tests.support.server_process import EXAMPLE, Process, free_port


def read_everything(api: Client) -> dict[str, Any]:
    """Jobs with their versions, and executions with their attempts."""
    jobs = api.get("/jobs?namespace=*&limit=1000")["items"]
    return {
        "jobs": jobs,
        "versions": {job["id"]: api.get(f"/jobs/{job['id']}/versions")["items"] for job in jobs},
        "executions": [api.get(f"/executions/{one['id']}") for one in api.get("/executions?limit=1000")["items"]],
        "dead letters": api.get("/dead-letters")["items"],
        "audit": api.get("/audit?limit=1000")["items"],
    }


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL], ids=["stopped", "killed"])
def test_acknowledged_changes_survive_a_stop(start_again: Callable[[], Process], number: signal.Signals) -> None:
    """Requests are sent one after the other, and the signal right after the last response."""
    first = start_again()
    api = Client(first)
    name = f"n{number.value}"
    api.create(f"{name}-fails", command={"argv": ["false"]}, retry={"max_attempts": 1})
    api.ended(api.trigger(f"{name}-fails"))
    api.create(f"{name}-edited", schedule="0 9 * * *")
    api.call("PATCH", f"{V1}/jobs/{name}-edited", {"schedule": "0 10 * * *"})
    api.post(f"/jobs/{name}-edited/pause", {"reason": "later"})
    api.post("/jobs/bulk?namespace=bulk", {"jobs": [shape(f"{name}-{number}") for number in range(30)]})
    api.create(f"{name}-waits", wait={"signal": "go"})
    waits = api.trigger(f"{name}-waits")
    api.until(f"/executions/{waits}", lambda one: one["status"] == "waiting")
    before = read_everything(api)
    last = api.create(f"{name}-last")
    first.send(number)
    assert first.wait() == (0 if number is signal.SIGTERM else -9)
    second = start_again()
    again = Client(second)
    assert again.get(f"/jobs/{name}-last")["id"] == last["id"]
    assert again.call("DELETE", f"{V1}/jobs/{name}-last").status == 200
    after = read_everything(again)
    for part in ("jobs", "versions", "executions", "dead letters"):
        assert after[part] == before[part]
    assert after["audit"][2:] == before["audit"]
    assert again.get("/status")["jobs_recovered"] == len(before["jobs"]) + 1
    again.post(f"/executions/{waits}/signal", {"name": "go"}, 202)
    assert again.ended(waits)["status"] == "succeeded"
    second.send(signal.SIGTERM)
    assert second.wait() == 0


def test_the_example_of_the_requirements_starts_a_server(
    start: Callable[..., Process], tmp_path: Path, make_database: Callable[..., str]
) -> None:
    """The store can be shared, and logs go to stdout, next to the greeting."""
    (tmp_path / "chronos.yaml").write_text(EXAMPLE.read_text())
    port = free_port()
    arguments = ("--config", "chronos.yaml", "--store", make_database(), "--listen", f"127.0.0.1:{port}")
    server = start(*arguments, CHRONOS_AUTH__TYPE="none")
    server.url = f"http://127.0.0.1:{port}"
    while f"address  {server.url}" not in server.errors:
        assert server.running, server.errors
        time.sleep(0.05)
    assert server.get("/readyz")[0] == 200
    status = server.read("/api/v1/status")
    assert (status["node"], status["slots"]) == ("chronos-1", 100)
    server.post("/api/v1/jobs", shape("first", schedule="now"))
    server.until("/api/v1/executions", lambda page: page["items"] and page["items"][0]["status"] == "succeeded")
    server.send(signal.SIGTERM)
    assert server.wait() == 0
    lines = [json.loads(line) for line in server.rest().splitlines()]
    assert any("cluster.raft.peers is ignored" in line["event"] for line in lines)


def test_a_creation_repeated_at_a_restarted_server_creates_one_job(start_again: Callable[[], Process]) -> None:
    first = start_again()
    body = shape("once", schedule={"every": "1h"})
    made = Client(first).post("/jobs", body, 201, Idempotency_Key="k")
    first.send(signal.SIGKILL)
    first.wait()
    again = Client(start_again())
    assert again.post("/jobs", body, 201, Idempotency_Key="k") == made
    assert again.call("POST", f"{V1}/jobs", body, Idempotency_Key="other").code == "conflict"
    assert again.call("POST", f"{V1}/jobs", body).code == "conflict"
