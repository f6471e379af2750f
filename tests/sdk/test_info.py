"""What the SDK returns about jobs and runs is what REST returns, on a store and on a server."""

from collections.abc import Iterator
from dataclasses import fields
from datetime import timedelta
from pathlib import Path

import pytest

from chronos import AttemptInfo, Chronos, JobInfo, RunInfo, TaskInfo
from tests.support.cli_server import serving

SOON_S = 60


@pytest.fixture(params=["store", "server"])
def app(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Chronos]:
    if request.param == "store":
        with Chronos(f"sqlite:///{tmp_path / 'jobs.db'}") as app:
            yield app
        return
    with serving() as served:
        app = Chronos(served.url)
        yield app
        app.stop()


def test_a_run_has_its_attempts_with_times_errors_and_nodes(app: Chronos) -> None:
    job = app.command("bad", ["sh", "-c", "exit 3"], retries=1, retry={"initial_interval": "1ms"})
    info = job.trigger().wait(timeout=SOON_S)
    assert (info.status, info.job, info.attempts) == ("failed", "bad", 2)
    assert info.job_id == job.info().id
    assert info.node is not None
    assert info.admitted_at is not None
    assert info.started_at is not None
    assert info.finished_at is not None
    assert info.duration == info.finished_at - info.started_at
    assert info.lateness is not None
    assert info.lateness >= timedelta()
    [task] = info.tasks
    assert (task.name, task.status, task.attempts) == ("main", "failed", 2)
    assert [(one.number, one.status, one.node) for one in task.attempt_history] == [
        (1, "failed", info.node),
        (2, "failed", info.node),
    ]
    for attempt in task.attempt_history:
        assert "3" in str(attempt.error)
        assert attempt.started_at is not None
        assert attempt.finished_at is not None
        assert info.started_at <= attempt.started_at <= attempt.finished_at <= info.finished_at
        assert attempt.detail["exit_code"] == 3
    assert info.report is not None
    assert [(one["name"], one["status"]) for one in info.report["tasks"]] == [("main", "failed")]
    [listed] = job.executions()
    assert isinstance(listed, RunInfo)
    assert (listed.id, listed.job, listed.node, listed.duration) == (info.id, "bad", info.node, info.duration)


def test_a_job_has_its_settings_and_its_last_run(app: Chronos) -> None:
    job = app.webhook(
        "ping",
        "https://example.com/x",
        auth={"type": "basic", "username": "a", "password": "secret"},
        cron="0 9 * * *",
        end="2099-01-01",
        overlap="queue",
        retries=4,
    )
    info = job.info()
    assert info.last_run is None
    assert info.settings == {"overlap": "queue", "retry": {"max_attempts": 5}}
    assert info.end is not None
    assert (info.end.year, info.created_at, info.paused_at) == (2099, info.updated_at, None)
    assert "secret" not in str(info.definition)
    assert {"name", "namespace", "schedule", "tasks", "overlap", "retry", "end"} <= info.definition.keys()
    assert "version" not in info.definition
    job.pause("later")
    paused = job.info()
    assert paused.paused_at is not None
    other = app.command("good", ["true"])
    run = other.trigger()
    run.wait(timeout=SOON_S)
    last = other.info().last_run
    assert last is not None
    assert (last.id, last.status) == (run.id, "succeeded")
    assert {one.name: one.last_run and one.last_run.id for one in app.all_jobs()} == {"good": run.id, "ping": None}


def test_a_plain_success_has_an_attempt_and_a_report(app: Chronos) -> None:
    info = app.command("good", ["true"]).trigger().wait(timeout=SOON_S)
    [task] = info.tasks
    assert [(one.number, one.status, one.error) for one in task.attempt_history] == [(1, "succeeded", None)]
    assert task.started_at is not None
    assert info.report is not None
    assert info.report["tasks"][0]["status"] == "succeeded"


def test_a_program_sees_its_own_results_unmasked(tmp_path: Path) -> None:
    """A server hides credentials in URLs; a program that holds the store gets what its function returned."""
    app = Chronos(f"sqlite:///{tmp_path / 'jobs.db'}")
    job = app.job(name="url")(lambda: "https://user:password@example.com/")
    with app:
        info = job.trigger().wait(timeout=SOON_S)
    assert info.result == "https://user:password@example.com/"
    assert info.tasks[0].result == info.result


#: Fields of REST whose names in Python differ.
RENAMED = {
    "job_name": "job",
    "lateness_ms": "lateness",
    "duration_ms": "duration",
    "next_run_at": "next_run",
    "last_execution": "last_run",
    "worker": "node",
    "error": "error",
    "enabled": "state",
}


def test_infos_have_every_field_that_rest_has() -> None:
    with serving() as served:
        app = Chronos(served.url)
        job = app.command("bad", ["false"], retries=0, cron="0 9 * * *", tags=["a"], description="Fails", payload=1)
        job.pause("later")
        run = job.trigger(in_="1ms")
        run.wait(timeout=SOON_S)
        answer = served.rest(f"/executions/{run.id}")
        job_answer = served.rest("/jobs/bad")
        definition = job.info().definition
        app.stop()
    info_fields = {field.name for field in fields(JobInfo)} | definition.keys()
    run_fields, task_fields, attempt_fields = (
        {field.name for field in fields(kind)} for kind in (RunInfo, TaskInfo, AttemptInfo)
    )
    reasons = {"kind", "reason"}
    assert {RENAMED.get(name, name) for name in job_answer} <= info_fields
    assert {RENAMED.get(name, name) for name in answer} - reasons <= run_fields
    assert {RENAMED.get(name, name) for name in answer["tasks"][0]} <= task_fields
    assert {RENAMED.get(name, name) for name in answer["tasks"][0]["attempts"][0]} - {"exit_code"} <= attempt_fields
