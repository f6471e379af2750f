"""A server whose store holds a job that it cannot read: it starts, runs the others, and reports the job."""

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
    second.until("/api/v1/status", lambda status: status["jobs_failed_to_recover"] == 1)
    assert "scheduler_jobs_recovery_failed_total 1.0" in second.get("/metrics")[1]
    assert [job.get("error", "")[:30] for job in second.read("/api/v1/jobs")["items"]] == [
        "its definition cannot be read ",
        "",
    ]
    assert "job broken" in second.errors
    second.send(signal.SIGTERM)
    assert second.wait() == 0
