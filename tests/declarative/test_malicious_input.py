"""What no program should do to a scheduler, and what becomes of it: an error that says so, and nothing else harmed."""

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
from tests.declarative.test_persistence import change, stored
from tests.support.declarative_app import MINUTE, Bed, Registration, simulate

pytestmark = pytest.mark.usefixtures("calm")


class Name(StrEnum):
    """Names of tasks, as programs like to have them."""

    A = "a"


class Text(str):
    """A text of another kind."""

    __slots__ = ()

    def __str__(self) -> str:
        return "something else"


class Ending(BaseException):
    """What is no ``Exception``, and yet raised by a callback."""


class Speechless(Exception):
    """What cannot be told."""

    def __str__(self) -> str:
        raise RuntimeError("no words")


def raising(error: BaseException) -> Callable[[], Awaitable[None]]:
    async def callback() -> None:
        raise error

    return callback


@pytest.mark.parametrize("name", [Name.A, Text("a")], ids=["enumeration", "subclass"])
def test_names_and_expressions_of_other_kinds_of_text(url: str, name: str) -> None:
    async def scenario(bed: Bed) -> None:
        for expression in (Text("* * * * *"), "* * * * *"):
            _, _, callback, delay = bed.task()
            await bed.lasting([(name, expression, callback, delay)], MINUTE)
        assert bed.told(TaskRunFailed) == []
        [state] = (await read_states(url)).values()
        assert (type(state.name), state.name, state.cron_expression) == (str, "a", "* * * * *")

    simulate(scenario, url)


@pytest.mark.parametrize(
    "error",
    [Ending("done"), Speechless(), SystemExit(3), asyncio.CancelledError(), BaseExceptionGroup("both", [Ending()])],
    ids=lambda error: type(error).__name__,
)
def test_whatever_a_callback_raises_is_its_failure_alone(error: BaseException) -> None:
    async def scenario(bed: Bed) -> None:
        bad = ("bad", "0 * * * *", raising(error), timedelta(seconds=30))
        await bed.lasting([bad, bed.task("good")], 2 * MINUTE)
        failed = [event for event in bed.events if isinstance(event, TaskRunFailed)]
        assert [(event.task, event.error) for event in failed] == [("bad", error)] * 4
        assert bed.times("good") == ["10:00:30", "10:01:00", "10:02:00"]

    simulate(scenario)


def test_the_words_of_a_failure_may_be_anything(any_url: str) -> None:
    """Names of files that are no text come with halves of surrogate pairs, for example."""
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
def test_a_watcher_harms_nobody(error: BaseException) -> None:
    def watch(event: SchedulerEvent) -> None:
        raise error

    async def scenario(bed: Bed) -> None:
        scheduler = Scheduler(bed.url, bed.clock, bed.zone, watch)
        await scheduler.initialize([bed.task()])
        await asyncio.sleep(120)
        await scheduler.stop()
        assert bed.times() == ["10:00:30", "10:01:00", "10:02:00"]

    simulate(scenario)


def test_a_watcher_is_no_coroutine() -> None:
    async def watch(event: SchedulerEvent) -> None:
        """Nobody would wait for it."""

    with pytest.raises(Invalid, match="plain function"):
        Scheduler("sqlite://", on_event=watch)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"store": None}, "the store is None"),
        ({"clock": 5}, "clock is 5"),
        ({"timezone": 5}, "timezone is 5"),
        ({"on_event": 5}, "on_event is 5"),
    ],
)
def test_wrong_arguments_are_told_at_once(options: dict[str, Any], told: str) -> None:
    with pytest.raises(Invalid, match=told):
        Scheduler(**{"store": "sqlite://", **options})


@pytest.mark.parametrize("method", ["stop", "initialize"])
def test_a_callback_cannot_wait_for_an_end_that_waits_for_it(method: str) -> None:
    async def scenario(bed: Bed) -> None:
        scheduler = bed.scheduler()
        caught: list[BaseException] = []

        async def callback() -> None:
            await asyncio.sleep(60)  # by then the scheduler stops
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


def test_a_callback_may_have_the_scheduler_stopped_and_started_again(url: str) -> None:
    async def scenario(bed: Bed) -> None:
        scheduler = bed.scheduler()
        tasks: list[Registration] = []
        again: list[asyncio.Task[None]] = []

        async def restart() -> None:
            await scheduler.stop()
            await scheduler.initialize([bed.task("b")])

        async def callback() -> None:
            with pytest.raises(SchedulerAlreadyActiveError):
                await scheduler.initialize(tasks)
            again.append(asyncio.create_task(restart()))
            await asyncio.sleep(10)

        tasks.append(("a", "0 * * * *", callback, MINUTE))
        await scheduler.initialize(tasks)
        await asyncio.sleep(61)
        [task] = again
        await task
        await scheduler.stop()
        assert bed.told(TaskRunFailed) == []
        assert bed.times("b") == ["10:00:40", "10:01:00"]

    simulate(scenario, url)


def test_initialize_cancelled_at_any_moment_leaves_nothing_behind(url: str, tmp_path: Path) -> None:
    async def scenario(bed: Bed) -> None:
        late = bed.task("late", "30 10 * * *")  # never runs, and has something to let go of
        await bed.lasting([late, bed.task("same", "0 9 * * *"), bed.task("changed", "0 9 * * *")], MINUTE)
        await asyncio.sleep(7_200)
        before = await stored(tmp_path)
        registrations = [late, bed.task("changed", "5 9 * * *"), bed.task("new", "0 9 * * *")]
        cancelled, turns = 0, 0
        while True:
            scheduler = bed.scheduler()
            beginning = asyncio.create_task(scheduler.initialize(registrations))
            for _ in range(turns):
                await asyncio.sleep(0)
            beginning.cancel()
            try:
                await beginning
            except asyncio.CancelledError:
                cancelled, turns = cancelled + 1, turns + 1 + turns // 8
                assert await stored(tmp_path) == before
                continue
            await scheduler.stop()
            break
        assert cancelled > 10
        assert await stored(tmp_path) != before
        assert bed.told(TaskRunStarted) == []

    simulate(scenario, url)


@pytest.mark.parametrize("spec", ['{"tasks": 7}', "no JSON", '{"tasks": [{"target": {}}]}'])
def test_a_definition_that_is_none_at_all(url: str, tmp_path: Path, spec: str) -> None:
    async def scenario(bed: Bed) -> None:
        await bed.lasting([bed.task("a"), bed.task("b")], MINUTE)
        change(tmp_path, f"update job set spec = '{spec}' where name = 'b'")
        before = rows(tmp_path)
        with pytest.raises(TaskInvalidStructureError) as caught:
            await bed.scheduler().initialize([bed.task("a", "0 * * * *"), bed.task("b")])
        assert 'the task "b"' in str(caught.value)
        assert caught.value.details["value"] is None
        assert isinstance(caught.value.details["cause"], Exception)
        assert rows(tmp_path) == before
        with pytest.raises(TaskInvalidStructureError):
            await read_states(url)

    simulate(scenario, url)


def rows(folder: Path) -> list[tuple[object, ...]]:
    with sqlite3.connect(folder / "tasks.db") as database:
        found = database.execute("select name, version, spec from job order by name").fetchall()
    database.close()
    return found
