"""Misuse of a scheduler raises a clear error and harms no other task."""

import asyncio
import sqlite3
from collections.abc import Awaitable, Callable
from datetime import timedelta
from enum import StrEnum
from pathlib import Path
from typing import Any

import pytest

from chronos.declarative import (
    Scheduler,
    SchedulerAlreadyActiveError,
    SchedulerEvent,
    TaskInvalidStructureError,
    TaskRunFailed,
    TaskRunStarted,
    read_states,
)
from chronos.errors import Invalid
from tests.declarative.test_persistence import change_database, read_stored_jobs
from tests.support.declarative_app import MINUTE, Registration, SchedulerHost, simulate

pytestmark = pytest.mark.usefixtures("rare_housekeeping")


class Name(StrEnum):
    """Names of tasks as an enumeration."""

    A = "a"


class Text(str):
    """A subclass of ``str`` with another ``__str__``."""

    __slots__ = ()

    def __str__(self) -> str:
        return "something else"


class Ending(BaseException):
    """An error that is not an ``Exception``."""


class Speechless(Exception):
    """An error whose ``__str__`` fails."""

    def __str__(self) -> str:
        raise RuntimeError("no words")


def raising(error: BaseException) -> Callable[[], Awaitable[None]]:
    async def callback() -> None:
        raise error

    return callback


@pytest.mark.parametrize("name", [Name.A, Text("a")], ids=["enumeration", "subclass"])
def test_names_and_expressions_may_be_subclasses_of_str(url: str, name: str) -> None:
    async def scenario(host: SchedulerHost) -> None:
        for expression in (Text("* * * * *"), "* * * * *"):
            _, _, callback, delay = host.task()
            await host.run_for([(name, expression, callback, delay)], MINUTE)
        assert host.event_names(TaskRunFailed) == []
        [state] = (await read_states(url)).values()
        assert (type(state.name), state.name, state.cron_expression) == (str, "a", "* * * * *")

    simulate(scenario, url)


@pytest.mark.parametrize(
    "error",
    [Ending("done"), Speechless(), SystemExit(3), asyncio.CancelledError(), BaseExceptionGroup("both", [Ending()])],
    ids=lambda error: type(error).__name__,
)
def test_any_error_of_a_callback_fails_only_its_own_task(error: BaseException) -> None:
    async def scenario(host: SchedulerHost) -> None:
        bad = ("bad", "0 * * * *", raising(error), timedelta(seconds=30))
        await host.run_for([bad, host.task("good")], 2 * MINUTE)
        failed = [event for event in host.events if isinstance(event, TaskRunFailed)]
        assert [(event.task, event.error) for event in failed] == [("bad", error)] * 4
        assert host.times("good") == ["10:00:30", "10:01:00", "10:02:00"]

    simulate(scenario)


def test_the_message_of_a_failure_may_be_any_text(any_url: str) -> None:
    """For example, undecodable file names contain lone surrogates."""
    words = "\0 and half of \ud800, " + "long " * 1_000

    async def main() -> None:
        failed = asyncio.Event()

        def watch(event: SchedulerEvent) -> None:
            if isinstance(event, TaskRunFailed):
                failed.set()

        scheduler = Scheduler(any_url, timezone="UTC", on_event=watch)
        await scheduler.initialize([("a", "* * * * *", raising(ValueError(words)), timedelta(hours=1))])
        await asyncio.wait_for(failed.wait(), 70)
        await scheduler.stop()
        assert (await read_states(any_url))["a"].pending_retry_until is not None

    asyncio.run(main())


@pytest.mark.parametrize("error", [ValueError(), asyncio.CancelledError()], ids=lambda error: type(error).__name__)
def test_an_on_event_that_raises_does_not_affect_tasks(error: BaseException) -> None:
    def watch(event: SchedulerEvent) -> None:
        raise error

    async def scenario(host: SchedulerHost) -> None:
        scheduler = Scheduler(host.url, host.clock, host.zone, watch)
        await scheduler.initialize([host.task()])
        await asyncio.sleep(120)
        await scheduler.stop()
        assert host.times() == ["10:00:30", "10:01:00", "10:02:00"]

    simulate(scenario)


def test_an_async_on_event_is_refused() -> None:
    async def watch(event: SchedulerEvent) -> None:
        """Never awaited."""

    with pytest.raises(Invalid, match="plain function"):
        Scheduler("sqlite://", on_event=watch)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"store": None}, "the store is None"),
        ({"clock": 5}, "clock is 5"),
        ({"timezone": 5}, "timezone is 5"),
        ({"on_event": 5}, "on_event is 5"),
    ],
)
def test_wrong_arguments_are_refused_at_once(options: dict[str, Any], message: str) -> None:
    with pytest.raises(Invalid, match=message):
        Scheduler(**{"store": "sqlite://", **options})


@pytest.mark.parametrize("method", ["stop", "initialize"])
def test_a_callback_cannot_await_a_stop_that_waits_for_it(method: str) -> None:
    async def scenario(host: SchedulerHost) -> None:
        scheduler = host.scheduler()
        caught: list[BaseException] = []

        async def callback() -> None:
            await asyncio.sleep(60)  # the scheduler stops meanwhile
            try:
                await (scheduler.stop() if method == "stop" else scheduler.initialize([]))
            except Invalid as error:
                caught.append(error)

        await scheduler.initialize([("a", "0 * * * *", callback, MINUTE)])
        await asyncio.sleep(1)
        async with asyncio.timeout(600):
            await scheduler.stop()
        assert [f"{method}() waits" in str(error) for error in caught] == [True]
        await scheduler.initialize([])
        await scheduler.stop()

    simulate(scenario)


def test_a_callback_may_start_a_task_that_restarts_the_scheduler(url: str) -> None:
    async def scenario(host: SchedulerHost) -> None:
        scheduler = host.scheduler()
        tasks: list[Registration] = []
        restarts: list[asyncio.Task[None]] = []

        async def restart() -> None:
            await scheduler.stop()
            await scheduler.initialize([host.task("b")])

        async def callback() -> None:
            with pytest.raises(SchedulerAlreadyActiveError):
                await scheduler.initialize(tasks)
            restarts.append(asyncio.create_task(restart()))
            await asyncio.sleep(10)

        tasks.append(("a", "0 * * * *", callback, MINUTE))
        await scheduler.initialize(tasks)
        await asyncio.sleep(61)
        [task] = restarts
        await task
        await scheduler.stop()
        assert host.event_names(TaskRunFailed) == []
        assert host.times("b") == ["10:00:40", "10:01:00"]

    simulate(scenario, url)


def test_initialize_cancelled_at_any_moment_changes_nothing(url: str, tmp_path: Path) -> None:
    async def scenario(host: SchedulerHost) -> None:
        late = host.task("late", "30 10 * * *")  # never runs, so its missed occurrence is skipped
        await host.run_for([late, host.task("same", "0 9 * * *"), host.task("changed", "0 9 * * *")], MINUTE)
        await asyncio.sleep(7_200)
        before = await read_stored_jobs(tmp_path)
        registrations = [late, host.task("changed", "5 9 * * *"), host.task("new", "0 9 * * *")]
        cancelled, turns = 0, 0
        while True:
            scheduler = host.scheduler()
            initializing = asyncio.create_task(scheduler.initialize(registrations))
            for _ in range(turns):
                await asyncio.sleep(0)
            initializing.cancel()
            try:
                await initializing
            except asyncio.CancelledError:
                cancelled, turns = cancelled + 1, turns + 1 + turns // 8
                assert await read_stored_jobs(tmp_path) == before
                continue
            await scheduler.stop()
            break
        assert cancelled > 10
        assert await read_stored_jobs(tmp_path) != before
        assert host.event_names(TaskRunStarted) == []

    simulate(scenario, url)


@pytest.mark.parametrize("spec", ['{"tasks": 7}', "no JSON", '{"tasks": [{"target": {}}]}'])
def test_an_unreadable_definition_is_refused(url: str, tmp_path: Path, spec: str) -> None:
    async def scenario(host: SchedulerHost) -> None:
        await host.run_for([host.task("a"), host.task("b")], MINUTE)
        change_database(tmp_path, f"update job set spec = '{spec}' where name = 'b'")
        before = read_rows(tmp_path)
        with pytest.raises(TaskInvalidStructureError) as caught:
            await host.scheduler().initialize([host.task("a", "0 * * * *"), host.task("b")])
        assert 'the task "b"' in str(caught.value)
        assert caught.value.details["value"] is None
        assert isinstance(caught.value.details["cause"], Exception)
        assert read_rows(tmp_path) == before
        with pytest.raises(TaskInvalidStructureError):
            await read_states(url)

    simulate(scenario, url)


def read_rows(folder: Path) -> list[tuple[object, ...]]:
    with sqlite3.connect(folder / "tasks.db") as database:
        rows = database.execute("select name, version, spec from job order by name").fetchall()
    database.close()
    return rows
