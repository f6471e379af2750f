"""What is persisted: state that cannot be read is told by name, and a failing override leaves everything as it was."""

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
from tests.support.declarative_app import MINUTE, Bed, simulate

pytestmark = pytest.mark.usefixtures("calm")
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
def test_state_that_cannot_be_read(change: Mapping[str, Any], error: type[TaskTryDeserializeError]) -> None:
    assert deserialize(STATE).retry_delay == timedelta(microseconds=5)
    with pytest.raises(error) as caught:
        deserialize({key: value for key, value in {**STATE, **change}.items() if value is not ...})
    assert caught.value.details["field"] in change


@pytest.mark.parametrize("value", [None, [], "state", 7])
def test_state_that_is_no_object(value: object) -> None:
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
        (f"json_set(spec, '{OPTIONS}.name', 'somebody.elses')", TaskInvalidStructureError),
    ],
)
def test_initialize_tells_what_cannot_be_read_and_changes_nothing(
    url: str, tmp_path: Path, statement: str, error: type[TaskTryDeserializeError]
) -> None:
    async def scenario(bed: Bed) -> None:
        await bed.lasting([bed.task("a"), bed.task("b")], MINUTE)
        change(tmp_path, f"update job set spec = {statement} where name = 'b'")
        before = await stored(tmp_path)
        with pytest.raises(error):
            await bed.scheduler().initialize([bed.task("a", "0 * * * *"), bed.task("b"), bed.task("c")])
        assert await stored(tmp_path) == before

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
    async def scenario(bed: Bed) -> None:
        late = bed.task("late", "30 10 * * *")  # never runs, and has something to let go of
        tasks = [late, bed.task("same"), bed.task("changed"), bed.task("gone"), bed.task("back")]
        await bed.lasting(tasks, MINUTE)
        await bed.lasting(tasks[:4], MINUTE)
        await asyncio.sleep(7_200)
        before, calls = await stored(tmp_path), len(bed.calls)
        change(tmp_path, f"create trigger fault {trigger}")
        registrations = [late, bed.task("same"), bed.task("changed", "0 * * * *"), bed.task("back"), bed.task("new")]
        scheduler = bed.scheduler()
        with pytest.raises(SchedulerInitializationError) as caught:
            await scheduler.initialize(registrations)
        assert isinstance(caught.value.details["cause"], Exception)
        assert await stored(tmp_path) == before
        await asyncio.sleep(300)
        assert len(bed.calls) == calls
        change(tmp_path, "drop trigger fault")
        await scheduler.initialize(registrations)
        await asyncio.sleep(1)
        await scheduler.stop()
        assert len(bed.calls) > calls
        assert bed.times("late") == []

    simulate(scenario, url)


def test_writing_the_same_again_writes_nothing(url: str, tmp_path: Path) -> None:
    async def scenario(bed: Bed) -> None:
        tasks = [bed.task(f"t{number}", "0 9 * * *") for number in range(10)]
        await bed.lasting(tasks, MINUTE)
        before = await stored(tmp_path)
        for _ in range(3):
            await bed.lasting(tasks, MINUTE)
        assert await stored(tmp_path) == before

    simulate(scenario, url)


def test_what_somebody_paused_stays_paused(url: str, tmp_path: Path) -> None:
    async def scenario(bed: Bed) -> None:
        await bed.lasting([bed.task()], MINUTE)
        change(tmp_path, f"update gate set state = {int(JobState.PAUSED)}")
        for task in (bed.task(), bed.task(cron="0 * * * *")):
            await bed.lasting([task], 2 * MINUTE)
            assert len(bed.calls) == 2
        assert (await stored(tmp_path))["a"][1] is JobState.PAUSED

    simulate(scenario, url)


def test_what_was_left_out_is_on_record(url: str, tmp_path: Path) -> None:
    async def scenario(bed: Bed) -> None:
        task = bed.task(cron="30 * * * *")
        await bed.lasting([task], MINUTE)
        await asyncio.sleep(5 * 3_600)
        await bed.lasting([task], MINUTE)
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


def test_states_of_a_store_with_other_jobs_in_it(url: str, tmp_path: Path) -> None:
    async def scenario(bed: Bed) -> None:
        await bed.lasting([bed.task("a"), bed.task("b")], MINUTE)
        change(tmp_path, "update job set spec = '{}' where name = 'b'")
        assert set(await read_states(url)) == {"a"}
        await bed.lasting([bed.task("a")], MINUTE)  # what is not registered and no task is left alone

    simulate(scenario, url)


def change(folder: Path, statement: str) -> None:
    """Do to the store what nobody should."""
    with sqlite3.connect(folder / "tasks.db") as database:
        database.execute(statement)
    database.close()


async def stored(folder: Path) -> dict[str, tuple[JobSpec, JobState, int | None, str]]:
    """All that an override may change."""
    store = SqliteStore(folder / "tasks.db")
    await store.open()
    try:
        jobs: dict[str, Job] = await read_jobs(store)
        return {name: (job.spec, job.state, job.next_us, job.note) for name, job in jobs.items()}
    finally:
        await store.close()


def test_a_state_is_json() -> None:
    assert deserialize(msgspec.json.decode(msgspec.json.encode(STATE))) == deserialize(STATE)
