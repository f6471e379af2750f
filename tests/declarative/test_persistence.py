"""Persisted state: unreadable state raises, and a failed override changes nothing."""

import asyncio
import sqlite3
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest

from chronos.core.execution import Status
from chronos.core.job import Job, JobSpec, JobState
from chronos.declarative import (
    SchedulerInitializationError,
    TaskInvalidStructureError,
    TaskInvalidTypeError,
    TaskInvalidValueError,
    TaskMissingFieldError,
    TaskTryDeserializeError,
    read_states,
)
from chronos.declarative.task_jobs import deserialize
from chronos.declarative.task_state import read_jobs
from chronos.store.contract import ExecutionFilter
from chronos.store.sql.sqlite.store import SqliteStore
from tests.support.declarative_app import MINUTE, SchedulerHost, simulate

pytestmark = pytest.mark.usefixtures("rare_housekeeping")
STATE: dict[str, Any] = {"name": "a", "cron_expression": "* * * * *", "retry_delay_us": 5, "last_attempt_us": 0}


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"cron_expression": ...}, TaskMissingFieldError),
        ({"retry_delay_us": ...}, TaskMissingFieldError),
        ({"cron_expression": 7}, TaskInvalidTypeError),
        ({"retry_delay_us": "5"}, TaskInvalidTypeError),
        ({"retry_delay_us": True}, TaskInvalidTypeError),
        ({"last_success_us": "yesterday"}, TaskInvalidTypeError),
        ({"cron_expression": "@daily"}, TaskInvalidValueError),
        ({"cron_expression": ""}, TaskInvalidValueError),
        ({"retry_delay_us": -1}, TaskInvalidValueError),
        ({"last_attempt_us": 1 << 62}, TaskInvalidValueError),
    ],
)
def test_invalid_state_is_refused(change: Mapping[str, Any], error: type[TaskTryDeserializeError]) -> None:
    assert deserialize(STATE).retry_delay == timedelta(microseconds=5)
    with pytest.raises(error) as caught:
        deserialize({key: value for key, value in {**STATE, **change}.items() if value is not ...})
    assert caught.value.details["field"] in change


@pytest.mark.parametrize("value", [None, [], "state", 7])
def test_state_that_is_not_an_object_is_refused(value: object) -> None:
    with pytest.raises(TaskInvalidStructureError) as caught:
        deserialize(value)
    assert caught.value.details == {"value": value}


OPTIONS = "$.tasks[0].target.options"


@pytest.mark.parametrize(
    ("statement", "error"),
    [
        (f"json_remove(spec, '{OPTIONS}.retry_delay_us')", TaskMissingFieldError),
        (f"json_set(spec, '{OPTIONS}.cron_expression', 7)", TaskInvalidTypeError),
        (f"json_set(spec, '{OPTIONS}.retry_delay_us', -7)", TaskInvalidValueError),
        (f"json_set(spec, '{OPTIONS}.name', 'another.function')", TaskInvalidStructureError),
    ],
)
def test_initialize_with_unreadable_state_raises_and_changes_nothing(
    url: str, tmp_path: Path, statement: str, error: type[TaskTryDeserializeError]
) -> None:
    async def scenario(host: SchedulerHost) -> None:
        await host.run_for([host.task("a"), host.task("b")], MINUTE)
        change_database(tmp_path, f"update job set spec = {statement} where name = 'b'")
        before = await read_stored_jobs(tmp_path)
        with pytest.raises(error):
            await host.scheduler().initialize([host.task("a", "0 * * * *"), host.task("b"), host.task("c")])
        assert await read_stored_jobs(tmp_path) == before

    simulate(scenario, url)


# --- atomicity

FAIL = "begin select raise(abort, 'not today'); end"


@pytest.mark.parametrize(
    "trigger",
    [
        f"before insert on job when new.name = 'new' {FAIL}",
        f"before update on job when new.name = 'changed' and new.version > old.version {FAIL}",
        f"before update on gate when new.state = {int(JobState.DISABLED)} {FAIL}",
        f"before insert on node {FAIL}",
    ],
    ids=["creating", "overriding", "switching off", "starting"],
)
def test_an_override_that_fails_changes_nothing(url: str, tmp_path: Path, trigger: str) -> None:
    async def scenario(host: SchedulerHost) -> None:
        late = host.task("late", "30 10 * * *")  # never runs, so its missed occurrence is skipped
        tasks = [late, host.task("same"), host.task("changed"), host.task("gone"), host.task("back")]
        await host.run_for(tasks, MINUTE)
        await host.run_for(tasks[:4], MINUTE)
        await asyncio.sleep(7_200)
        before, calls = await read_stored_jobs(tmp_path), len(host.calls)
        change_database(tmp_path, f"create trigger fault {trigger}")
        registrations = [
            late,
            host.task("same"),
            host.task("changed", "0 * * * *"),
            host.task("back"),
            host.task("new"),
        ]
        scheduler = host.scheduler()
        with pytest.raises(SchedulerInitializationError) as caught:
            await scheduler.initialize(registrations)
        assert isinstance(caught.value.details["cause"], Exception)
        assert await read_stored_jobs(tmp_path) == before
        await asyncio.sleep(300)
        assert len(host.calls) == calls
        change_database(tmp_path, "drop trigger fault")
        await scheduler.initialize(registrations)
        await asyncio.sleep(1)
        await scheduler.stop()
        assert len(host.calls) > calls
        assert host.times("late") == []

    simulate(scenario, url)


def test_the_same_registrations_write_nothing(url: str, tmp_path: Path) -> None:
    async def scenario(host: SchedulerHost) -> None:
        tasks = [host.task(f"t{number}", "0 9 * * *") for number in range(10)]
        await host.run_for(tasks, MINUTE)
        before = await read_stored_jobs(tmp_path)
        for _ in range(3):
            await host.run_for(tasks, MINUTE)
        assert await read_stored_jobs(tmp_path) == before

    simulate(scenario, url)


def test_a_paused_task_stays_paused(url: str, tmp_path: Path) -> None:
    async def scenario(host: SchedulerHost) -> None:
        await host.run_for([host.task()], MINUTE)
        change_database(tmp_path, f"update gate set state = {int(JobState.PAUSED)}")
        for task in (host.task(), host.task(cron="0 * * * *")):
            await host.run_for([task], 2 * MINUTE)
            assert len(host.calls) == 2
        assert (await read_stored_jobs(tmp_path))["a"][1] is JobState.PAUSED

    simulate(scenario, url)


def test_skipped_occurrences_are_recorded_as_a_span(url: str, tmp_path: Path) -> None:
    async def scenario(host: SchedulerHost) -> None:
        task = host.task(cron="30 * * * *")
        await host.run_for([task], MINUTE)
        await asyncio.sleep(5 * 3_600)
        await host.run_for([task], MINUTE)
        store = SqliteStore(tmp_path / "tasks.db")
        await store.open()
        page = await store.list_executions(ExecutionFilter(status=Status.MISSED), limit=10)
        [span] = page.items
        assert getattr(span, "count", None) == 5
        assert span.reason is not None
        assert "never run before" in span.reason.message
        assert await store.verify() == []
        await store.close()

    simulate(scenario, url)


def test_states_leave_out_jobs_that_are_not_tasks(url: str, tmp_path: Path) -> None:
    async def scenario(host: SchedulerHost) -> None:
        await host.run_for([host.task("a"), host.task("b")], MINUTE)
        change_database(tmp_path, "update job set spec = '{}' where name = 'b'")
        assert set(await read_states(url)) == {"a"}
        await host.run_for([host.task("a")], MINUTE)  # jobs that are not tasks stay as they are

    simulate(scenario, url)


def change_database(folder: Path, statement: str) -> None:
    """Change the database behind the back of the store."""
    with sqlite3.connect(folder / "tasks.db") as database:
        database.execute(statement)
    database.close()


async def read_stored_jobs(folder: Path) -> dict[str, tuple[JobSpec, JobState, int | None, str]]:
    """Everything that an override may change."""
    store = SqliteStore(folder / "tasks.db")
    await store.open()
    try:
        jobs: dict[str, Job] = await read_jobs(store)
        return {name: (job.spec, job.state, job.next_us, job.note) for name, job in jobs.items()}
    finally:
        await store.close()


def test_a_state_survives_json() -> None:
    assert deserialize(msgspec.json.decode(msgspec.json.encode(STATE))) == deserialize(STATE)
