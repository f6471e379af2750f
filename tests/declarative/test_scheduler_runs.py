"""Runs of tasks: occurrences, retries, preemption; one run per task at a time, tasks in parallel."""

import asyncio
from datetime import UTC, datetime, timedelta

import pytest

from chronos.declarative import Scheduler, SchedulerEvent, TaskRunFailed, TaskRunStarted
from tests.support.declarative_app import FRIDAY, MINUTE, Oops, SchedulerHost, simulate

pytestmark = pytest.mark.usefixtures("rare_housekeeping")


def test_a_task_runs_at_the_start_of_every_matching_minute() -> None:
    async def scenario(host: SchedulerHost) -> None:
        await host.run_for([host.task(), host.task("b", "2,4 * * * *")], 5 * MINUTE)
        assert host.times() == ["10:00:30", "10:01:00", "10:02:00", "10:03:00", "10:04:00", "10:05:00"]
        assert host.times("b") == ["10:02:00", "10:04:00"]

    simulate(scenario)


@pytest.mark.parametrize("seconds", [0, 1, 59])
def test_the_first_start_runs_tasks_of_the_current_minute_at_once(seconds: int) -> None:
    async def scenario(host: SchedulerHost) -> None:
        await host.run_for([host.task(cron="0 10 * * *")], timedelta(seconds=1))
        assert host.times() == [f"10:00:{seconds:02}"]

    simulate(scenario, start=FRIDAY.replace(second=seconds))


def test_the_first_start_does_not_run_tasks_of_an_earlier_minute() -> None:
    async def scenario(host: SchedulerHost) -> None:
        await host.run_for([host.task(cron="59 * * * *"), host.task("b", "1 * * * *")], 2 * MINUTE)
        assert host.times() == []
        assert host.times("b") == ["10:01:00"]

    simulate(scenario)


def test_the_current_minute_is_not_run_twice() -> None:
    async def scenario(host: SchedulerHost) -> None:
        await host.run_for([host.task(cron="0 * * * *")], 59 * MINUTE)
        assert host.times() == ["10:00:00"]

    simulate(scenario, start=FRIDAY.replace(second=0))


def test_a_failed_task_is_retried_after_the_delay_until_it_succeeds() -> None:
    async def scenario(host: SchedulerHost) -> None:
        task = host.task(cron="1 * * * *", delay=timedelta(minutes=5), fails=[True, True, True])
        await host.run_for([task], timedelta(minutes=40))
        assert host.times() == ["10:01:00", "10:06:00", "10:11:00", "10:16:00"]
        assert host.task_history() == [
            "10:01:00 TaskRunStarted",
            "10:01:00 TaskRunFailed",
            "10:06:00 TaskRetryStarted",
            "10:06:00 TaskRunFailed",
            "10:11:00 TaskRetryStarted",
            "10:11:00 TaskRunFailed",
            "10:16:00 TaskRetryStarted",
            "10:16:00 TaskRunCompleted",
        ]

    simulate(scenario)


def test_the_delay_counts_from_the_failure_and_does_not_grow() -> None:
    async def scenario(host: SchedulerHost) -> None:
        task = host.task(cron="1 * * * *", delay=timedelta(seconds=90), fails=[True] * 5, takes_s=10)
        await host.run_for([task], timedelta(minutes=30))
        assert host.times() == ["10:01:00", "10:02:40", "10:04:20", "10:06:00", "10:07:40", "10:09:20"]
        failed = [event for event in host.events if isinstance(event, TaskRunFailed)]
        assert [event.pending_retry_until - event.at for event in failed] == [timedelta(seconds=90)] * 5
        assert all(isinstance(event.error, Oops) for event in failed)

    simulate(scenario)


def test_a_delay_of_zero_retries_at_once() -> None:
    async def scenario(host: SchedulerHost) -> None:
        await host.run_for([host.task(cron="1 * * * *", delay=timedelta(0), fails=[True] * 3)], timedelta(minutes=5))
        assert host.times() == ["10:01:00"] * 4

    simulate(scenario)


def test_an_occurrence_preempts_a_pending_retry() -> None:
    async def scenario(host: SchedulerHost) -> None:
        await host.run_for([host.task(delay=timedelta(hours=1), fails=[True, True])], 4 * MINUTE)
        assert host.task_history() == [
            "10:00:30 TaskRunStarted",
            "10:00:30 TaskRunFailed",
            "10:01:00 TaskRetryPreempted",
            "10:01:00 TaskRunStarted",
            "10:01:00 TaskRunFailed",
            "10:02:00 TaskRetryPreempted",
            "10:02:00 TaskRunStarted",
            "10:02:00 TaskRunCompleted",
            "10:03:00 TaskRunStarted",
            "10:03:00 TaskRunCompleted",
            "10:04:00 TaskRunStarted",
            "10:04:00 TaskRunCompleted",
        ]

    simulate(scenario)


@pytest.mark.parametrize("fails_again", [False, True])
def test_a_retry_and_an_occurrence_of_the_same_minute_are_one_run(fails_again: bool) -> None:
    async def scenario(host: SchedulerHost) -> None:
        task = host.task(cron="0,5 * * * *", delay=timedelta(minutes=5), fails=[True, fails_again])
        await host.run_for([task], timedelta(minutes=7))
        assert host.times() == ["10:00:00", "10:05:00"]

    simulate(scenario, start=FRIDAY.replace(second=0))


def test_one_run_makes_up_for_occurrences_missed_during_a_long_run() -> None:
    async def scenario(host: SchedulerHost) -> None:
        await host.run_for([host.task(takes_s=200)], timedelta(seconds=500))
        # 10:01 to 10:03 pass during the run; one run makes up for them, and so on.
        assert host.times() == ["10:00:30", "10:03:50", "10:07:10"]
        assert host.event_names(TaskRunStarted) == ["TaskRunStarted"] * 3
        assert "TaskRunFailed" not in host.event_names()

    simulate(scenario)


def test_a_missed_occurrence_preempts_the_retry_of_a_long_run() -> None:
    async def scenario(host: SchedulerHost) -> None:
        await host.run_for([host.task(takes_s=90, delay=timedelta(hours=1), fails=[True])], timedelta(seconds=120))
        assert host.task_history()[:4] == [
            "10:00:30 TaskRunStarted",
            "10:02:00 TaskRunFailed",
            "10:02:00 TaskRetryPreempted",
            "10:02:00 TaskRunStarted",
        ]

    simulate(scenario)


def test_a_task_is_serial_and_tasks_are_parallel() -> None:
    async def scenario(host: SchedulerHost) -> None:
        tasks = [host.task(f"t{number}", takes_s=100) for number in range(150)]
        await host.run_for(tasks, timedelta(minutes=10))
        assert host.max_running == 150  # each callback asserts that it does not run twice at once

    simulate(scenario)


def test_a_failing_task_does_not_affect_others() -> None:
    async def scenario(host: SchedulerHost) -> None:
        await host.run_for([host.task("bad", fails=[True] * 100), host.task("good", takes_s=5)], 5 * MINUTE)
        assert len(host.times("good")) == 6
        assert host.event_names().count("TaskRunCompleted") == 6

    simulate(scenario)


def test_a_callback_that_cancels_itself_has_failed() -> None:
    async def scenario(host: SchedulerHost) -> None:
        calls = 0

        async def gives_up() -> None:
            nonlocal calls
            calls += 1
            if calls == 1:
                raise asyncio.CancelledError

        await host.run_for([("a", "0 10 * * *", gives_up, MINUTE)], timedelta(minutes=5))
        assert calls == 2
        assert host.event_names(TaskRunFailed) == ["TaskRunFailed"]

    simulate(scenario)


def test_the_same_history_leads_to_the_same_decisions() -> None:
    def play() -> list[str]:
        async def scenario(host: SchedulerHost) -> list[str]:
            tasks = [host.task(f"t{n}", f"{n} * * * *", fails=[n % 3 == 0], delay=n * MINUTE) for n in range(20)]
            await host.run_for(tasks, timedelta(hours=2))
            return sorted(f"{at} {name}" for name, at in host.calls)

        return simulate(scenario)

    assert play() == play()


def test_callbacks_have_no_timeout() -> None:
    async def scenario(host: SchedulerHost) -> None:
        await host.run_for([host.task(cron="0 10 * * *", takes_s=20 * 3_600)], timedelta(hours=1))
        assert host.event_names()[-5:] == [
            "SchedulerStopRequested",
            "PollingStopRequested",
            "TaskRunCompleted",
            "PollingStopped",
            "SchedulerStopped",
        ]
        assert host.now() == datetime(2027, 1, 2, 6, 0, 30, tzinfo=UTC)

    simulate(scenario)


def test_an_on_event_that_raises_is_only_logged(caplog: pytest.LogCaptureFixture) -> None:
    def watch(event: SchedulerEvent) -> None:
        raise Oops(str(event))

    async def scenario(host: SchedulerHost) -> None:
        scheduler = Scheduler(host.url, host.clock, host.zone, watch)
        await scheduler.initialize([host.task()])
        await asyncio.sleep(60)
        await scheduler.stop()
        assert host.times() == ["10:00:30", "10:01:00"]

    simulate(scenario)
    assert "on_event raised for TaskRunStarted" in caplog.text
