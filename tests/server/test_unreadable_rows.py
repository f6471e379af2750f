"""A server whose store holds a job that it cannot read: it starts, runs the others, and reports the job."""

import json
import signal
from collections.abc import Callable
from pathlib import Path

import apsw

from tests.support.server_process import Process, run

JOB = {"schedule": "@every 1s", "command": {"argv": ["true"]}}
#: A run that the first server leaves behind is given up soon; the job waits for that.
LIVELY = {
    "CHRONOS_SCHEDULER__HEARTBEAT_INTERVAL": "500ms",
    "CHRONOS_SCHEDULER__HEARTBEAT_TIMEOUT": "3s",
    "CHRONOS_SCHEDULER__REAPER_INTERVAL": "500ms",
}


def test_an_unreadable_job_does_not_stop_the_others(start: Callable[..., Process], tmp_path: Path) -> None:
    first = start(**LIVELY).ready()
    for name in ("good", "bad"):
        first.post("/api/v1/jobs", {"name": name, **JOB})
    first.until("/api/v1/executions", lambda page: len(page["items"]) > 1)
    first.send(signal.SIGKILL)
    first.wait()
    store = apsw.Connection(str(tmp_path / "chronos-data" / "chronos.db"))
    store.execute("update job set spec = '{\"schedule\": 5}' where name = 'bad'")
    store.close()

    told = run(tmp_path, "doctor", "--store", "sqlite:///chronos-data/chronos.db")
    assert told.returncode == 1
    assert "✓ store consistency: no violations" in told.stdout
    assert "✗ jobs: 1 stored job (default/bad) cannot be read: " in told.stdout
    assert "replace it, roll it back or delete it" in told.stdout
    second = start(**LIVELY).ready()
    assert second.get("/readyz")[0] == 200
    ran = len(second.read("/api/v1/jobs/good/executions")["items"])
    second.until("/api/v1/jobs/good/executions", lambda page: len(page["items"]) > ran + 1)
    status = second.read("/api/v1/status")
    assert (status["jobs_recovered"], status["jobs_failed_to_recover"]) == (1, 1)
    assert "scheduler_jobs_recovered_total 1.0" in second.get("/metrics")[1]
    assert "scheduler_jobs_recovery_failed_total 1.0" in second.get("/metrics")[1]
    assert [job.get("error", "")[:30] for job in second.read("/api/v1/jobs")["items"]] == [
        "its definition cannot be read ",
        "",
    ]
    lines = {line["event"]: line for line in map(json.loads, second.errors.splitlines())}
    assert lines["store opened"]["store"] == "sqlite:///chronos-data/chronos.db"
    figures = ("found", "recovered", "disabled", "done", "broken", "unchecked")
    assert [lines["jobs found"][name] for name in figures] == [2, 1, 0, 0, 1, 0]
    assert lines["job broken"]["job"] == "bad"
    assert "its definition cannot be read" in lines["job broken"]["error"]
    assert lines["started"]["took_ms"] >= lines["store opened"]["took_ms"]
    second.send(signal.SIGTERM)
    assert second.wait() == 0
