"""``chronos config``, ``doctor``, ``backup`` and ``restore`` as processes."""

import asyncio
import json
import signal
import socket
from collections.abc import Callable
from pathlib import Path

import pytest
from argon2 import PasswordHasher
from msgspec.structs import replace

from chronos.assembly import make_service, make_store
from chronos.clock import SystemClock
from chronos.service.serializers import Draft
from chronos.store.commands import RegisterNode
from tests.support.server_process import CHRONOS, Process, free_port, run

Start = Callable[..., Process]
JOB = {"name": "nightly", "schedule": "@daily", "command": {"argv": ["true"]}}


def free_address() -> str:
    return f"127.0.0.1:{free_port()}"


def test_config_show(tmp_path: Path) -> None:
    (tmp_path / "chronos.yaml").write_text(
        "logging: {format: json}\ncluster: {data_dir: /x}\nserver: {grpc: {address: x}}\n"
    )
    result = run(tmp_path, "config", "show", CHRONOS_SERVER__LISTEN="127.0.0.1:9")
    assert result.returncode == 0
    lines = {line.split()[0]: line.split()[1:] for line in result.stdout.splitlines()}
    assert lines["logging.format"] == ["json", "chronos.yaml"]
    assert lines["server.listen"] == ["127.0.0.1:9", "CHRONOS_SERVER__LISTEN"]
    assert lines["scheduler.grace_period"] == ["30s", "default"]
    assert (lines["cluster.data_dir"], lines["store"]) == (
        ["/x", "chronos.yaml"],
        ["sqlite:////x/chronos.db", "chronos.yaml"],
    )
    assert result.stderr == "! chronos.yaml: server.grpc.address is ignored: Chronos has no gRPC API\n"
    listed = json.loads(run(tmp_path, "config", "show", "-o", "json").stdout)
    assert {
        "name": "metrics.per_job",
        "value": True,
        "from": "default",
        "about": "a label with the name of the job",
    } in listed


def test_config_validate(tmp_path: Path) -> None:
    assert run(tmp_path, "config", "validate").stdout == "the configuration is valid\n"
    (tmp_path / "other.yaml").write_text("logging: {level: loud}\nqueue: {max_pending: 0}\n")
    result = run(tmp_path, "config", "validate", CHRONOS_CONFIG="other.yaml")
    assert (result.returncode, result.stdout) == (1, "")
    assert result.stderr.splitlines() == [
        "✗ the configuration is invalid:",
        "  other.yaml: logging.level is 'loud', expected one of debug, info, warning, error",
        "  other.yaml: queue.max_pending is 0, expected a whole number from 1 to 100000000",
    ]


def test_config_hash_password(tmp_path: Path) -> None:
    from subprocess import run as call  # noqa: PLC0415

    result = call([CHRONOS, "config", "hash-password"], input=b"open sesame\n", capture_output=True, check=True)
    assert PasswordHasher().verify(result.stdout.decode().strip(), "open sesame")
    empty = call([CHRONOS, "config", "hash-password"], input=b"", capture_output=True, check=False)
    assert empty.returncode == 1


def test_backup_and_restore(tmp_path: Path, start: Start) -> None:
    server = start().ready()
    server.post("/api/v1/jobs", JOB)
    result = run(tmp_path, "backup", "copy.db")
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout.startswith("copied the store to copy.db, ")
    server.post("/api/v1/jobs", JOB | {"name": "later"})
    server.send(signal.SIGTERM)
    server.wait()
    result = run(tmp_path, "restore", "copy.db", "--store", "sqlite:///new/again.db")
    assert (result.returncode, result.stderr) == (0, "")
    restored = start("--store", "sqlite:///new/again.db").ready()
    assert [job["name"] for job in restored.read("/api/v1/jobs")["items"]] == ["nightly"]


def test_restore_uses_the_store_of_the_configuration(tmp_path: Path, start: Start) -> None:
    server = start().ready()
    server.post("/api/v1/jobs", JOB)
    assert run(tmp_path, "backup", "copy.db").returncode == 0
    server.send(signal.SIGTERM)
    server.wait()
    refused = run(tmp_path, "restore", "copy.db")
    assert (refused.returncode, refused.stdout) == (1, "")
    (tmp_path / "chronos-data").rename(tmp_path / "before")
    restored = run(tmp_path, "restore", "copy.db")
    assert (restored.returncode, restored.stderr) == (0, "")
    assert restored.stdout.endswith("start a server on it: chronos server\n")
    assert [job["name"] for job in start().ready().read("/api/v1/jobs")["items"]] == ["nightly"]


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        (("backup", "x"), "chronos-data/chronos.db does not exist"),
        (("backup", "x", "--store", "sqlite://"), "a store in memory cannot be copied"),
        (("backup", "no/x", "--store", "sqlite:///there.db"), "no is not a folder"),
        (("restore", "x", "--store", "sqlite:///new.db"), "x does not exist"),
        (("restore", "there.db", "--store", "sqlite:///new.db"), "there.db is no"),
        (("restore", "x", "--store", "postgresql://db/x"), "pg_restore"),
    ],
)
def test_backup_and_restore_reject_impossible_paths(tmp_path: Path, arguments: tuple[str, ...], part: str) -> None:
    (tmp_path / "there.db").write_text("nothing of the sort" * 100)
    result = run(tmp_path, *arguments)
    assert (result.returncode, result.stdout) == (1, "")
    assert part in result.stderr
    assert not (tmp_path / "chronos-data").exists()


def test_doctor_passes_before_and_after_the_first_start(tmp_path: Path, start: Start) -> None:
    result = run(tmp_path, "doctor", CHRONOS_SERVER__LISTEN=(listen := free_address()))
    assert (result.returncode, result.stderr) == (0, "")
    assert [line.partition(":")[0] for line in result.stdout.splitlines()] == [
        "✓ configuration",
        "✓ permissions",
        "✓ disk space",
        "✓ store",
        "✓ clock",
        "✓ port",
    ]
    assert not (tmp_path / "chronos-data").exists()
    server = start("--listen", listen).ready()
    server.post("/api/v1/jobs", JOB)
    for _ in range(5):  # it waits two seconds for the server, and a busy machine may need longer
        result = run(tmp_path, "doctor", CHRONOS_SERVER__LISTEN=listen)
        if result.returncode == 0:
            break
    assert result.returncode == 0
    assert "✓ store: chronos-data/chronos.db, 1 jobs" in result.stdout
    assert "✓ store consistency: no violations" in result.stdout
    assert "✓ clock: it is 20" in result.stdout
    assert "is used by a Chronos server that is ready" in result.stdout


def test_doctor_reports_a_broken_store_and_a_used_port(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        where = f"127.0.0.1:{other.getsockname()[1]}"
        (tmp_path / "broken.db").write_text("nothing of the sort" * 100)
        result = run(tmp_path, "doctor", "--store", "sqlite:///broken.db", CHRONOS_SERVER__LISTEN=where)
    assert result.returncode == 1
    assert "✗ store: broken.db is not a SQLite database" in result.stdout
    assert f"✗ port: {where} is already in use" in result.stdout
    (tmp_path / "chronos.yaml").write_text("nothing: 1\n")
    result = run(tmp_path, "doctor")
    assert (result.returncode, result.stdout.partition(":")[0]) == (1, "✗ configuration")
    assert run(tmp_path, "doctor", PYTHONIOENCODING="ascii").stdout.startswith("wrong: configuration")


def test_doctor_checks_a_postgresql_store(tmp_path: Path, postgres_url: str) -> None:
    result = run(tmp_path, "doctor", "--store", postgres_url, CHRONOS_SERVER__LISTEN=free_address())
    assert (result.returncode, result.stderr) == (0, "")
    assert "✓ clock: " in result.stdout
    result = run(tmp_path, "doctor", "--store", "postgresql://nobody@127.0.0.1:1/x")
    assert result.returncode == 1
    assert "✗ store: PostgreSQL at 127.0.0.1:1" in result.stdout


def test_doctor_reports_a_clock_that_was_set_back(tmp_path: Path) -> None:
    async def leave_a_node() -> None:
        store = make_store(f"sqlite:///{tmp_path}/jobs.db")
        await store.open()
        later_us = SystemClock().now_us() + 3_600_000_000
        await store.apply(RegisterNode(name="a", incarnation=bytes(16), now_us=later_us, slots=1))
        await store.close()

    asyncio.run(leave_a_node())
    result = run(tmp_path, "doctor", "--store", "sqlite:///jobs.db", CHRONOS_SERVER__LISTEN=free_address())
    assert result.returncode == 1
    assert "✗ clock: it is 20" in result.stdout
    assert "set this machine's clock" in result.stdout


def test_doctor_lists_stored_jobs_with_unsupported_fields(tmp_path: Path) -> None:
    async def store_jobs() -> None:
        store = make_store(f"sqlite:///{tmp_path}/jobs.db")
        await store.open()
        service = make_service(store, SystemClock(), checks={"command": lambda _: None, "http": lambda _: None})
        for number in range(21):
            draft = service.jobs.read({**JOB, "name": f"old-{number:02}"})
            await service.job_saver.save(
                [Draft(name=draft.name, spec=replace(draft.spec, alerts=({"slack": "#ops"},)))]
            )
        asking = {"name": "asking", "http": {"url": "https://a.example", "json": [{"a": "{{ secret.X }}"}]}}
        told = {"name": "told", "command": {"argv": ["a"], "env": {"A": "{{ secret.X }}"}}, "namespace": "eu"}
        quiet = {"name": "quiet", "command": {"shell": True, "command": "echo {{ secret.X }}"}}
        for shape in (JOB, asking, told, quiet):
            await service.job_saver.save([service.jobs.read({"schedule": "@daily", **shape})])
        await store.close()

    asyncio.run(store_jobs())
    result = run(tmp_path, "doctor", "--store", f"sqlite:///{tmp_path}/jobs.db", CHRONOS_SERVER__LISTEN=free_address())
    assert result.returncode == 1
    names = ", ".join(f"default/old-{number:02}" for number in range(20))
    assert [line for line in result.stdout.splitlines() if line.startswith("✗")] == [
        f"✗ jobs: 21 stored jobs ({names} and 1 more) with alerts, which are not supported yet: the jobs run, but "
        "no alerts are sent; remove the field (chronosctl jobs edit NAME)",
        "✗ jobs: 2 stored jobs (default/asking, eu/told) with {{ secret.NAME }}, which is not supported yet: the tasks "
        "that use it fail; write the value instead (chronosctl jobs edit NAME)",
    ]


def test_peers_without_a_shared_store_are_rejected(tmp_path: Path) -> None:
    (tmp_path / "chronos.yaml").write_text("cluster: {raft: {peers: [b:7000, c:7000]}}\n")
    refused = (
        "✗ the configuration is invalid:\n"
        "  chronos.yaml: cluster.raft.peers names other servers, but the store is not shared, so "
    )
    for command in (("server", "--listen", "127.0.0.1:0"), ("config", "validate")):
        result = run(tmp_path, *command)
        assert (result.returncode, result.stdout) == (1, "")
        assert result.stderr.startswith(refused)
        assert "set store to one PostgreSQL database for all of them" in result.stderr
    assert not (tmp_path / "chronos-data").exists()
    assert "cluster.raft.peers names other servers" in run(tmp_path, "doctor").stdout
    shown = run(tmp_path, "config", "show")
    assert shown.returncode == 0
    assert "cluster.raft.peers is ignored: servers work together by sharing a PostgreSQL store" in shown.stderr
    shared = run(tmp_path, "config", "validate", CHRONOS_STORE="postgresql://chronos@db.example/chronos")
    assert (shared.returncode, shared.stdout) == (0, "the configuration is valid\n")
