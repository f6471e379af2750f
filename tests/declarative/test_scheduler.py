"""States and events of a scheduler, concurrent calls of its methods, and what ``stop`` waits for."""

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
from tests.support.declarative_app import MINUTE, SchedulerHost, simulate

pytestmark = pytest.mark.usefixtures("rare_housekeeping")
ALL_EVENTS = [
    "SchedulerInitializationStarted",
    "PollingStarted",
    "SchedulerInitializationCompleted",
    "SchedulerStopRequested",
    "PollingStopRequested",
    "PollingStopped",
    "SchedulerStopped",
]


def get_state(scheduler: Scheduler) -> State:
    """The state, through a function so that the type checker does not narrow it."""
    return scheduler._state


def test_a_scheduler_has_exactly_two_methods() -> None:
    methods = {name for name, _ in inspect.getmembers(Scheduler, inspect.isfunction) if not name.startswith("_")}
    assert methods == {"initialize", "stop"}
    assert all(inspect.iscoroutinefunction(getattr(Scheduler, name)) for name in methods)
    assert [name for name in dir(Scheduler("sqlite://")) if not name.startswith("_")] == ["initialize", "stop"]


def test_a_scheduler_can_be_started_and_stopped_twice(url: str) -> None:
    async def scenario(host: SchedulerHost) -> None:
        scheduler = host.scheduler()
        assert get_state(scheduler) is State.UNINITIALIZED
        for starts in range(1, 3):
            await scheduler.initialize([host.task(cron="0 9 * * *")])
            assert get_state(scheduler) is State.RUNNING
            await scheduler.stop()
            assert get_state(scheduler) is State.STOPPED
            assert host.event_names() == ALL_EVENTS * starts

    simulate(scenario, url)


def test_polling_starts_only_if_there_are_tasks() -> None:
    async def scenario(host: SchedulerHost) -> None:
        scheduler = host.scheduler()
        await scheduler.initialize([])
        assert get_state(scheduler) is State.RUNNING
        await scheduler.stop()
        assert host.event_names() == [name for name in ALL_EVENTS if not name.startswith("Polling")]

    simulate(scenario)


def test_a_failed_initialization_changes_nothing(url: str, tmp_path: Path) -> None:
    async def scenario(host: SchedulerHost) -> None:
        scheduler = host.scheduler()
        with pytest.raises(InvalidRegistrationError) as caught:
            await scheduler.initialize([host.task("a"), host.task("")])
        assert get_state(scheduler) is State.UNINITIALIZED
        assert host.event_names() == ["SchedulerInitializationStarted", "SchedulerInitializationFailed"]
        assert isinstance(host.events[-1], SchedulerInitializationFailed)
        assert host.events[-1].error is caught.value
        assert os.listdir(tmp_path) == []  # no store was created
        await scheduler.initialize([host.task("a")])
        await scheduler.stop()

    simulate(scenario, url)


def test_initialize_while_initializing_raises_and_changes_nothing() -> None:
    async def scenario(host: SchedulerHost) -> None:
        scheduler = host.scheduler()
        results = await asyncio.gather(
            scheduler.initialize([host.task("a")]),
            scheduler.initialize([host.task("b")]),
            scheduler.initialize(cast(Any, "nonsense")),
            return_exceptions=True,
        )
        assert results[0] is None
        for error in results[1:]:
            assert isinstance(error, SchedulerAlreadyActiveError)
            assert str(error) == "Cannot initialize scheduler: scheduler is already initializing"
            assert error.details == {"currentState": "initializing"}
        await asyncio.sleep(120)
        await scheduler.stop()
        assert {name for name, _ in host.calls} == {"a"}
        assert host.event_names().count("SchedulerInitializationStarted") == 1
        assert "SchedulerInitializationFailed" not in host.event_names()

    simulate(scenario)


def test_initialize_while_running_raises_and_changes_nothing(url: str) -> None:
    async def scenario(host: SchedulerHost) -> None:
        scheduler = host.scheduler()
        await scheduler.initialize([host.task("a")])
        await asyncio.sleep(1)
        before, event_count = await read_states(url), len(host.events)
        for registrations in ([host.task("a")], [host.task("b")], cast(Any, None)):
            with pytest.raises(SchedulerAlreadyActiveError, match=r"^Cannot initialize scheduler: .* already running$"):
                await scheduler.initialize(registrations)
        assert await read_states(url) == before
        assert len(host.events) == event_count
        await asyncio.sleep(60)
        await scheduler.stop()
        assert host.times() == ["10:00:30", "10:01:00"]

    simulate(scenario, url)


def test_stop_waits_for_an_initialization_under_way() -> None:
    async def scenario(host: SchedulerHost) -> None:
        scheduler = host.scheduler()
        await asyncio.gather(scheduler.initialize([host.task(cron="0 9 * * *")]), scheduler.stop())
        assert get_state(scheduler) is State.STOPPED
        assert host.event_names() == ALL_EVENTS

    simulate(scenario)


def test_stop_after_a_failed_initialization_is_a_no_op() -> None:
    async def scenario(host: SchedulerHost) -> None:
        scheduler = Scheduler("sqlite://host/two-slashes", host.clock, "UTC", host.events.append)
        failed, stopped = await asyncio.gather(
            scheduler.initialize([host.task()]), scheduler.stop(), return_exceptions=True
        )
        assert isinstance(failed, SchedulerInitializationError)
        assert stopped is None
        assert get_state(scheduler) is State.UNINITIALIZED

    simulate(scenario)


def test_stop_is_a_no_op_when_nothing_runs() -> None:
    async def scenario(host: SchedulerHost) -> None:
        scheduler = host.scheduler()
        await scheduler.stop()
        assert host.events == []
        await scheduler.initialize([host.task(takes_s=10)])
        await asyncio.sleep(1)
        await asyncio.gather(*(scheduler.stop() for _ in range(3)))
        event_count = len(host.events)
        await scheduler.stop()
        assert len(host.events) == event_count
        assert host.event_names().count("SchedulerStopped") == 1
        assert host.event_names().count("TaskRunCompleted") == 1

    simulate(scenario)


def test_initialize_while_stopping_waits_for_the_stop(url: str) -> None:
    async def scenario(host: SchedulerHost) -> None:
        scheduler = host.scheduler()
        await scheduler.initialize([host.task(cron="0 10 * * *", takes_s=1_000)])
        await asyncio.sleep(1)
        stopping = asyncio.create_task(scheduler.stop())
        await asyncio.sleep(1)
        await scheduler.initialize([host.task("b")])
        assert stopping.done()
        assert f"{host.now():%H:%M:%S}" == "10:17:10"
        await scheduler.stop()

    simulate(scenario, url)


def test_stop_waits_for_callbacks_however_they_end() -> None:
    async def scenario(host: SchedulerHost) -> None:
        tasks = [
            host.task("good", takes_s=50),
            host.task("bad", takes_s=200, fails=[True]),
            host.task("long", takes_s=900),
        ]
        scheduler = host.scheduler()
        await scheduler.initialize(tasks)
        await asyncio.sleep(1)
        await scheduler.stop()
        assert host.running == []
        assert f"{host.now():%H:%M:%S}" == "10:15:30"
        assert len(host.calls) == 3  # nothing new was started
        assert host.event_names().count("TaskRunCompleted") == 2
        assert host.event_names()[-2:] == ["PollingStopped", "SchedulerStopped"]
        assert asyncio.all_tasks() == {asyncio.current_task()}

    simulate(scenario)


def test_stop_continues_after_its_caller_is_cancelled() -> None:
    async def scenario(host: SchedulerHost) -> None:
        scheduler = host.scheduler()
        await scheduler.initialize([host.task(takes_s=100)])
        await asyncio.sleep(1)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(scheduler.stop(), 5)
        assert get_state(scheduler) is State.STOPPING
        await scheduler.stop()
        assert get_state(scheduler) is State.STOPPED
        assert host.event_names().count("TaskRunCompleted") == 1

    simulate(scenario)


def test_a_cancelled_initialize_has_failed(url: str) -> None:
    async def scenario(host: SchedulerHost) -> None:
        scheduler = host.scheduler()
        initializing = asyncio.create_task(scheduler.initialize([host.task()]))
        await asyncio.sleep(0)
        initializing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await initializing
        assert get_state(scheduler) is State.UNINITIALIZED
        assert host.event_names() == ["SchedulerInitializationStarted", "SchedulerInitializationFailed"]
        await scheduler.initialize([host.task()])
        await scheduler.stop()

    simulate(scenario, url)


def test_a_callback_cannot_await_stop() -> None:
    async def scenario(host: SchedulerHost) -> None:
        scheduler = host.scheduler()
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
    async def scenario(host: SchedulerHost) -> None:
        scheduler = Scheduler("mongodb://nowhere", host.clock, "UTC", host.events.append)
        with pytest.raises(
            SchedulerInitializationError, match=r'^Cannot initialize scheduler: unknown store "mongodb://nowhere"'
        ) as caught:
            await scheduler.initialize([host.task()])
        assert isinstance(caught.value.details["cause"], Invalid)
        assert caught.value.__cause__ is caught.value.details["cause"]

    simulate(scenario)


def test_no_error_shows_a_password() -> None:
    async def scenario(host: SchedulerHost) -> None:
        scheduler = Scheduler("nosuch://user:hidden@host/db", host.clock, "UTC")
        with pytest.raises(SchedulerInitializationError) as caught:
            await scheduler.initialize([host.task()])
        assert "hidden" not in str(caught.value)

    simulate(scenario)


def test_a_zone_that_does_not_exist_is_refused_at_once() -> None:
    with pytest.raises(Invalid, match="Europe/Berlin"):
        Scheduler("sqlite://", timezone="Europe/Berlni")


def test_events_are_logged_under_their_names(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(host: SchedulerHost) -> None:
        await host.run_for([host.task(fails=[True])], MINUTE)

    with caplog.at_level(logging.INFO, "chronos.declarative"):
        simulate(scenario)
    records = [record for record in caplog.records if record.name == "chronos.declarative"]
    names = [record.getMessage().split()[0] for record in records]
    assert names[:5] == [*ALL_EVENTS[:3], "TaskRunStarted", "TaskRunFailed"]
    assert [record.levelname for record in records][3:5] == ["INFO", "WARNING"]
    assert records[4].exc_info is not None
    assert not [
        record for record in caplog.records if record.name == "chronos.engine"
    ]  # the engine would log the same again


def test_a_task_logs_one_traceback_per_minute(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(host: SchedulerHost) -> None:
        await host.run_for([host.task(cron="* * * * *", delay=timedelta(seconds=20), fails=[True] * 9)], 2 * MINUTE)

    simulate(scenario)
    failed = [record for record in caplog.records if record.getMessage().startswith("TaskRunFailed")]
    traced = [record.exc_info is not None for record in failed]
    assert traced[:5] == [True, False, False, False, True]


def test_a_late_start_is_a_warning(caplog: pytest.LogCaptureFixture, url: str) -> None:
    async def scenario(host: SchedulerHost) -> None:
        await host.run_for([host.task(cron="0 * * * *")], MINUTE)
        await asyncio.sleep(7_200)
        await host.run_for([host.task(cron="0 * * * *")], MINUTE)

    simulate(scenario, url)
    late = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert late == ['TaskRunStarted task="a" occurrence=2027-01-01T12:00:00+00:00 late=0:01:30']


def test_events_are_emitted_in_order() -> None:
    seen: list[tuple[str, str]] = []

    async def scenario(host: SchedulerHost) -> None:
        def watch(event: SchedulerEvent) -> None:
            seen.append((type(event).__name__, get_state(scheduler).value))

        scheduler = Scheduler(host.url, host.clock, host.zone, watch)
        await scheduler.initialize([host.task(cron="0 10 * * *")])
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
