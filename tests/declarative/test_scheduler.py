"""The life of a scheduler: its states and their events, who may call what when, and what ``stop`` waits for."""

import asyncio
import inspect
import logging
import os
from datetime import timedelta
from pathlib import Path
from typing import Any, cast

import pytest

from chronos.declarative import (
    InvalidRegistrationError,
    Scheduler,
    SchedulerAlreadyActiveError,
    SchedulerEvent,
    SchedulerInitializationError,
    SchedulerInitializationFailed,
    read_states,
)
from chronos.declarative.scheduler import State
from chronos.errors import Invalid
from tests.support.declarative_app import MINUTE, Bed, simulate

pytestmark = pytest.mark.usefixtures("calm")
WHOLE_LIFE = [
    "SchedulerInitializationStarted",
    "PollingStarted",
    "SchedulerInitializationCompleted",
    "SchedulerStopRequested",
    "PollingStopRequested",
    "PollingStopped",
    "SchedulerStopped",
]


def state(scheduler: Scheduler) -> State:
    """Asked through a function, so that a type checker does not think that it knows."""
    return scheduler._state


def test_it_has_exactly_two_methods() -> None:
    methods = {name for name, _ in inspect.getmembers(Scheduler, inspect.isfunction) if not name.startswith("_")}
    assert methods == {"initialize", "stop"}
    assert all(inspect.iscoroutinefunction(getattr(Scheduler, name)) for name in methods)
    assert [name for name in dir(Scheduler("sqlite://")) if not name.startswith("_")] == ["initialize", "stop"]


def test_a_whole_life_and_another_one(url: str) -> None:
    async def scenario(bed: Bed) -> None:
        scheduler = bed.scheduler()
        assert state(scheduler) is State.UNINITIALIZED
        for life in range(2):
            await scheduler.initialize([bed.task(cron="0 9 * * *")])
            assert state(scheduler) is State.RUNNING
            await scheduler.stop()
            assert state(scheduler) is State.STOPPED
            assert bed.told() == WHOLE_LIFE * (life + 1)

    simulate(scenario, url)


def test_polling_begins_with_the_first_task() -> None:
    async def scenario(bed: Bed) -> None:
        scheduler = bed.scheduler()
        await scheduler.initialize([])
        assert state(scheduler) is State.RUNNING
        await scheduler.stop()
        assert bed.told() == [name for name in WHOLE_LIFE if not name.startswith("Polling")]

    simulate(scenario)


def test_a_failed_initialization_leaves_nothing_behind(url: str, tmp_path: Path) -> None:
    async def scenario(bed: Bed) -> None:
        scheduler = bed.scheduler()
        with pytest.raises(InvalidRegistrationError) as caught:
            await scheduler.initialize([bed.task("a"), bed.task("")])
        assert state(scheduler) is State.UNINITIALIZED
        assert bed.told() == ["SchedulerInitializationStarted", "SchedulerInitializationFailed"]
        assert isinstance(bed.events[-1], SchedulerInitializationFailed)
        assert bed.events[-1].error is caught.value
        assert os.listdir(tmp_path) == []  # not even a store was made
        await scheduler.initialize([bed.task("a")])
        await scheduler.stop()

    simulate(scenario, url)


def test_initialize_while_initializing_raises_and_changes_nothing() -> None:
    async def scenario(bed: Bed) -> None:
        scheduler = bed.scheduler()
        answers = await asyncio.gather(
            scheduler.initialize([bed.task("a")]),
            scheduler.initialize([bed.task("b")]),
            scheduler.initialize(cast(Any, "nonsense")),
            return_exceptions=True,
        )
        assert answers[0] is None
        for error in answers[1:]:
            assert isinstance(error, SchedulerAlreadyActiveError)
            assert str(error) == "Cannot initialize scheduler: scheduler is already initializing"
            assert error.details == {"currentState": "initializing"}
        await asyncio.sleep(120)
        await scheduler.stop()
        assert {name for name, _ in bed.calls} == {"a"}
        assert bed.told().count("SchedulerInitializationStarted") == 1
        assert "SchedulerInitializationFailed" not in bed.told()

    simulate(scenario)


def test_initialize_while_running_raises_and_changes_nothing(url: str) -> None:
    async def scenario(bed: Bed) -> None:
        scheduler = bed.scheduler()
        await scheduler.initialize([bed.task("a")])
        await asyncio.sleep(1)
        before, told = await read_states(url), len(bed.events)
        for registrations in ([bed.task("a")], [bed.task("b")], cast(Any, None)):
            with pytest.raises(SchedulerAlreadyActiveError, match=r"^Cannot initialize scheduler: .* already running$"):
                await scheduler.initialize(registrations)
        assert await read_states(url) == before
        assert len(bed.events) == told
        await asyncio.sleep(60)
        await scheduler.stop()
        assert bed.times() == ["10:00:30", "10:01:00"]

    simulate(scenario, url)


def test_stop_waits_for_an_initialization_under_way() -> None:
    async def scenario(bed: Bed) -> None:
        scheduler = bed.scheduler()
        await asyncio.gather(scheduler.initialize([bed.task(cron="0 9 * * *")]), scheduler.stop())
        assert state(scheduler) is State.STOPPED
        assert bed.told() == WHOLE_LIFE

    simulate(scenario)


def test_stop_after_an_initialization_that_fails_has_nothing_to_do() -> None:
    async def scenario(bed: Bed) -> None:
        scheduler = Scheduler("sqlite://host/two-slashes", bed.clock, "UTC", bed.events.append)
        failed, stopped = await asyncio.gather(
            scheduler.initialize([bed.task()]), scheduler.stop(), return_exceptions=True
        )
        assert isinstance(failed, SchedulerInitializationError)
        assert stopped is None
        assert state(scheduler) is State.UNINITIALIZED

    simulate(scenario)


def test_stop_is_harmless_when_nothing_runs_and_when_it_is_called_twice() -> None:
    async def scenario(bed: Bed) -> None:
        scheduler = bed.scheduler()
        await scheduler.stop()
        assert bed.events == []
        await scheduler.initialize([bed.task(takes_s=10)])
        await asyncio.sleep(1)
        await asyncio.gather(*(scheduler.stop() for _ in range(3)))
        told = len(bed.events)
        await scheduler.stop()
        assert len(bed.events) == told
        assert bed.told().count("SchedulerStopped") == 1
        assert bed.told().count("TaskRunCompleted") == 1

    simulate(scenario)


def test_initialize_while_stopping_waits_for_the_end_of_it(url: str) -> None:
    async def scenario(bed: Bed) -> None:
        scheduler = bed.scheduler()
        await scheduler.initialize([bed.task(cron="0 10 * * *", takes_s=1_000)])
        await asyncio.sleep(1)
        stopping = asyncio.create_task(scheduler.stop())
        await asyncio.sleep(1)
        await scheduler.initialize([bed.task("b")])
        assert stopping.done()
        assert f"{bed.now():%H:%M:%S}" == "10:17:10"
        await scheduler.stop()

    simulate(scenario, url)


def test_stop_waits_for_callbacks_however_they_end() -> None:
    async def scenario(bed: Bed) -> None:
        tasks = [
            bed.task("good", takes_s=50),
            bed.task("bad", takes_s=200, fails=[True]),
            bed.task("long", takes_s=900),
        ]
        scheduler = bed.scheduler()
        await scheduler.initialize(tasks)
        await asyncio.sleep(1)
        await scheduler.stop()
        assert bed.running == []
        assert f"{bed.now():%H:%M:%S}" == "10:15:30"
        assert len(bed.calls) == 3  # nothing was started meanwhile
        assert bed.told().count("TaskRunCompleted") == 2
        assert bed.told()[-2:] == ["PollingStopped", "SchedulerStopped"]
        assert asyncio.all_tasks() == {asyncio.current_task()}

    simulate(scenario)


def test_stop_goes_on_when_whoever_waits_for_it_gives_up() -> None:
    async def scenario(bed: Bed) -> None:
        scheduler = bed.scheduler()
        await scheduler.initialize([bed.task(takes_s=100)])
        await asyncio.sleep(1)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(scheduler.stop(), 5)
        assert state(scheduler) is State.STOPPING
        await scheduler.stop()
        assert state(scheduler) is State.STOPPED
        assert bed.told().count("TaskRunCompleted") == 1

    simulate(scenario)


def test_initialize_that_is_cancelled_has_failed(url: str) -> None:
    async def scenario(bed: Bed) -> None:
        scheduler = bed.scheduler()
        beginning = asyncio.create_task(scheduler.initialize([bed.task()]))
        await asyncio.sleep(0)
        beginning.cancel()
        with pytest.raises(asyncio.CancelledError):
            await beginning
        assert state(scheduler) is State.UNINITIALIZED
        assert bed.told() == ["SchedulerInitializationStarted", "SchedulerInitializationFailed"]
        await scheduler.initialize([bed.task()])
        await scheduler.stop()

    simulate(scenario, url)


def test_a_callback_cannot_wait_for_its_own_end() -> None:
    async def scenario(bed: Bed) -> None:
        scheduler = bed.scheduler()
        errors: list[Exception] = []

        async def stops() -> None:
            try:
                await scheduler.stop()
            except Invalid as error:
                errors.append(error)

        await scheduler.initialize([("a", "0 10 * * *", stops, MINUTE)])
        await asyncio.sleep(1)
        assert len(errors) == 1
        await scheduler.stop()

    simulate(scenario)


def test_unexpected_errors_are_wrapped_with_their_cause() -> None:
    async def scenario(bed: Bed) -> None:
        scheduler = Scheduler("mongodb://nowhere", bed.clock, "UTC", bed.events.append)
        with pytest.raises(
            SchedulerInitializationError, match=r"^Cannot initialize scheduler: mongodb://nowhere"
        ) as got:
            await scheduler.initialize([bed.task()])
        assert isinstance(got.value.details["cause"], Invalid)
        assert got.value.__cause__ is got.value.details["cause"]

    simulate(scenario)


def test_no_error_shows_a_password() -> None:
    async def scenario(bed: Bed) -> None:
        scheduler = Scheduler("nosuch://user:geheim@host/db", bed.clock, "UTC")
        with pytest.raises(SchedulerInitializationError) as got:
            await scheduler.initialize([bed.task()])
        assert "geheim" not in str(got.value)

    simulate(scenario)


def test_a_zone_that_does_not_exist_is_refused_at_once() -> None:
    with pytest.raises(Invalid, match="Europe/Berlin"):
        Scheduler("sqlite://", timezone="Europe/Berlni")


def test_events_are_logged_under_their_names(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(bed: Bed) -> None:
        await bed.lasting([bed.task(fails=[True])], MINUTE)

    with caplog.at_level(logging.INFO, "chronos.declarative"):
        simulate(scenario)
    records = [record for record in caplog.records if record.name == "chronos.declarative"]
    names = [record.getMessage().split()[0] for record in records]
    assert names[:5] == [*WHOLE_LIFE[:3], "TaskRunStarted", "TaskRunFailed"]
    assert [record.levelname for record in records][3:5] == ["INFO", "WARNING"]
    assert records[4].exc_info is not None
    assert not [record for record in caplog.records if record.name == "chronos.engine"]  # it would say the same again


def test_a_task_has_one_traceback_in_a_minute(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(bed: Bed) -> None:
        await bed.lasting([bed.task(cron="* * * * *", delay=timedelta(seconds=20), fails=[True] * 9)], 2 * MINUTE)

    simulate(scenario)
    failed = [record for record in caplog.records if record.getMessage().startswith("TaskRunFailed")]
    traced = [record.exc_info is not None for record in failed]
    assert traced[:5] == [True, False, False, False, True]


def test_a_late_start_is_a_warning(caplog: pytest.LogCaptureFixture, url: str) -> None:
    async def scenario(bed: Bed) -> None:
        await bed.lasting([bed.task(cron="0 * * * *")], MINUTE)
        await asyncio.sleep(7_200)
        await bed.lasting([bed.task(cron="0 * * * *")], MINUTE)

    simulate(scenario, url)
    late = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert late == ['TaskRunStarted task="a" occurrence=2027-01-01T12:00:00+00:00 late=0:01:30']


def test_the_order_of_events_is_the_order_of_things() -> None:
    seen: list[tuple[str, str]] = []

    async def scenario(bed: Bed) -> None:
        def watch(event: SchedulerEvent) -> None:
            seen.append((type(event).__name__, state(scheduler).value))

        scheduler = Scheduler(bed.url, bed.clock, bed.zone, watch)
        await scheduler.initialize([bed.task(cron="0 10 * * *")])
        await asyncio.sleep(timedelta(seconds=2).total_seconds())
        await scheduler.stop()

    simulate(scenario)
    assert seen == [
        ("SchedulerInitializationStarted", "initializing"),
        ("PollingStarted", "initializing"),
        ("SchedulerInitializationCompleted", "running"),
        ("TaskRunStarted", "running"),
        ("TaskRunCompleted", "running"),
        ("SchedulerStopRequested", "stopping"),
        ("PollingStopRequested", "stopping"),
        ("PollingStopped", "stopping"),
        ("SchedulerStopped", "stopped"),
    ]
