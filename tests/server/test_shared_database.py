"""Two servers on one database share the work, with nothing to configure; a killed server loses none of it."""

import os
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.support.server_process import PATIENCE_S, Process

Start = Callable[..., Process]
MANY = 200
LIVELY = {
    "CHRONOS_SCHEDULER__HEARTBEAT_INTERVAL": "500ms",
    "CHRONOS_SCHEDULER__HEARTBEAT_TIMEOUT": "4s",
    "CHRONOS_SCHEDULER__REAPER_INTERVAL": "500ms",
}


def jobs(folder: Path, at: datetime, script: str) -> list[dict[str, Any]]:
    """Return jobs that are due at the same time; each writes its own file."""
    return [
        {
            "name": f"job-{number}",
            "schedule": {"at": at.isoformat()},
            "command": {"argv": ["/bin/sh", "-c", f"{script} echo ran >> {folder / str(number)}"]},
        }
        for number in range(MANY)
    ]


def save(server: Process, folder: Path, script: str = "") -> None:
    folder.mkdir()
    at = datetime.now(UTC).replace(microsecond=0) + timedelta(seconds=6)
    server.post("/api/v1/jobs/bulk", {"jobs": jobs(folder, at, script)})


@contextmanager
def open_gate(gate: Path) -> Iterator[None]:
    """Let the processes that read the gate continue. Until then, all of them wait."""
    held = os.open(gate, os.O_RDWR)
    try:
        yield
    finally:
        os.close(held)


def executions(server: Process) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    cursor = ""
    while True:
        page = server.read(f"/api/v1/executions?limit=100{cursor}")
        found += page["items"]
        if page["next_cursor"] is None:
            return found
        cursor = f"&cursor={page['next_cursor']}"


def wait_until_all_end(server: Process) -> list[dict[str, Any]]:
    end_s = time.monotonic() + 120
    while True:
        found = executions(server)
        if len(found) == MANY and all(one["finished_at"] for one in found):
            return found
        assert time.monotonic() < end_s, Counter(one["status"] for one in found)
        time.sleep(0.2)


def ran(folder: Path) -> dict[str, int]:
    return {path.name: len(path.read_text().splitlines()) for path in folder.iterdir()}


@pytest.mark.slow
def test_two_servers_run_everything_once(start: Start, tmp_path: Path, postgres_url: str) -> None:
    servers = [start("--store", postgres_url, "--node-id", name).ready() for name in ("a", "b")]
    os.mkfifo(gate := tmp_path / "gate")
    save(servers[0], tmp_path / "ran", f": < '{gate}';")
    for server in servers:
        server.until("/api/v1/status", lambda answer: answer["executions_here"] > 5)
    with open_gate(gate):
        found = wait_until_all_end(servers[1])
    assert {one["status"] for one in found} == {"succeeded"}
    assert {one["attempts"] for one in found} == {1}
    assert ran(tmp_path / "ran") == {str(number): 1 for number in range(MANY)}
    assert {one["node"] for one in found} == {"a", "b"}
    for server in servers:
        server.send(signal.SIGTERM)
    assert [server.wait() for server in servers] == [0, 0]


@pytest.mark.chaos
def test_a_server_that_is_killed_loses_nothing(start: Start, tmp_path: Path, postgres_url: str) -> None:
    first, second = (start("--store", postgres_url, "--node-id", name, **LIVELY).ready() for name in ("a", "b"))
    os.mkfifo(gate := tmp_path / "gate")
    save(second, tmp_path / "ran", f": < '{gate}';")
    first.until("/api/v1/status", lambda answer: answer["executions_here"] > 5)
    first.send(signal.SIGKILL)
    first.wait()
    with open_gate(gate):
        found = wait_until_all_end(second)
    assert {one["status"] for one in found} == {"succeeded"}
    counts = ran(tmp_path / "ran")
    assert len(counts) == MANY
    assert sum(one["attempts"] > 1 for one in found) >= 1, "the kill came when it did not matter"
    # What had written and was not settled may have run again: at least once, and never more often than tried.
    tries = {one["job_name"].removeprefix("job-"): one["attempts"] for one in found}
    assert not {name: count for name, count in counts.items() if count > tries[name]}
    metrics = second.get("/metrics")[1]
    assert 'status="lost"' in metrics
    assert "node lost" in second.errors


#: Whether it is another program's turn still is known by a lock, which the system frees when its last holder ends.
ALONE = """
exec 9> lock
flock --nonblock 9 || echo overlap >> ran
echo ran >> ran
test "$(wc -l < ran)" -gt 1 || exec sleep 1000
"""


@pytest.mark.chaos
@pytest.mark.parametrize("store", ["sqlite", "postgresql"])
def test_a_restarted_server_continues_the_work_of_its_killed_predecessor(
    start: Start, tmp_path: Path, request: pytest.FixtureRequest, store: str
) -> None:
    """At once: this test does not wait as long as the heartbeat timeout of the first server."""
    url = request.getfixturevalue("postgres_url") if store == "postgresql" else f"sqlite:///{tmp_path}/chronos.db"
    patient = {"CHRONOS_SCHEDULER__HEARTBEAT_TIMEOUT": "1h"}
    first = start("--store", url, **patient).ready()
    command = {"argv": ["sh", "-c", ALONE], "cwd": str(tmp_path)}
    first.post("/api/v1/jobs", {"name": "once", "command": command, "retry": {"initial_interval": "100ms"}})
    end_s = time.monotonic() + PATIENCE_S
    while not (tmp_path / "ran").exists():
        assert time.monotonic() < end_s
        time.sleep(0.01)
    first.send(signal.SIGKILL)
    second = start("--store", url, **patient).ready()
    found = second.until("/api/v1/executions", lambda answer: answer["items"][0]["status"] == "succeeded")
    assert found["items"][0]["attempts"] == 2
    assert (tmp_path / "ran").read_text().split() == ["ran", "ran"]
    first.wait()
