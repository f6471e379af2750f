"""What a running scheduler does: occurrences, retries, pre-emption; tasks one after the other and side by side."""

import asyncio
from datetime import UTC, datetime, timedelta

import pytest

from chronos.declarative import Scheduler, SchedulerEvent, TaskRunFailed, TaskRunStarted
from tests.support.declarative_app import FRIDAY, MINUTE, Bed, Oops, simulate

pytestmark = pytest.mark.usefixtures("calm")


def test_it_runs_at_the_start_of_every_minute_that_matches() -> None:
    async def scenario(bed: Bed) -> None:
        await bed.lasting([bed.task(), bed.task("b", "2,4 * * * *")], 5 * MINUTE)
        assert bed.times() == ["10:00:30", "10:01:00", "10:02:00", "10:03:00", "10:04:00", "10:05:00"]
        assert bed.times("b") == ["10:02:00", "10:04:00"]

    simulate(scenario)


@pytest.mark.parametrize("seconds", [0, 1, 59])
def test_first_start_runs_at_once_what_matches_the_current_minute(seconds: int) -> None:
    async def scenario(bed: Bed) -> None:
        await bed.lasting([bed.task(cron="0 10 * * *")], timedelta(seconds=1))
        assert bed.times() == [f"10:00:{seconds:02}"]

    simulate(scenario, start=FRIDAY.replace(second=seconds))


def test_first_start_does_not_run_what_matched_a_minute_ago() -> None:
    async def scenario(bed: Bed) -> None:
        await bed.lasting([bed.task(cron="59 * * * *"), bed.task("b", "1 * * * *")], 2 * MINUTE)
        assert bed.times() == []
        assert bed.times("b") == ["10:01:00"]

    simulate(scenario)


def test_the_current_minute_is_not_run_twice() -> None:
    async def scenario(bed: Bed) -> None:
        await bed.lasting([bed.task(cron="0 * * * *")], 59 * MINUTE)
        assert bed.times() == ["10:00:00"]

    simulate(scenario, start=FRIDAY.replace(second=0))


def test_a_failure_is_tried_again_after_the_delay_until_success() -> None:
    async def scenario(bed: Bed) -> None:
        task = bed.task(cron="1 * * * *", delay=timedelta(minutes=5), fails=[True, True, True])
        await bed.lasting([task], timedelta(minutes=40))
        assert bed.times() == ["10:01:00", "10:06:00", "10:11:00", "10:16:00"]
        assert bed.story() == [
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
    async def scenario(bed: Bed) -> None:
        task = bed.task(cron="1 * * * *", delay=timedelta(seconds=90), fails=[True] * 5, takes_s=10)
        await bed.lasting([task], timedelta(minutes=30))
        assert bed.times() == ["10:01:00", "10:02:40", "10:04:20", "10:06:00", "10:07:40", "10:09:20"]
        failed = [event for event in bed.events if isinstance(event, TaskRunFailed)]
        assert [event.pending_retry_until - event.at for event in failed] == [timedelta(seconds=90)] * 5
        assert all(isinstance(event.error, Oops) for event in failed)

    simulate(scenario)


def test_no_delay_is_a_delay() -> None:
    async def scenario(bed: Bed) -> None:
        await bed.lasting([bed.task(cron="1 * * * *", delay=timedelta(0), fails=[True] * 3)], timedelta(minutes=5))
        assert bed.times() == ["10:01:00"] * 4

    simulate(scenario)


def test_an_occurrence_goes_before_a_waiting_retry() -> None:
    async def scenario(bed: Bed) -> None:
        await bed.lasting([bed.task(delay=timedelta(hours=1), fails=[True, True])], 4 * MINUTE)
        assert bed.story() == [
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


@pytest.mark.parametrize("again", [False, True])
def test_a_retry_and_an_occurrence_of_the_same_minute_are_one_run(again: bool) -> None:
    async def scenario(bed: Bed) -> None:
        task = bed.task(cron="0,5 * * * *", delay=timedelta(minutes=5), fails=[True, again])
        await bed.lasting([task], timedelta(minutes=7))
        assert bed.times() == ["10:00:00", "10:05:00"]

    simulate(scenario, start=FRIDAY.replace(second=0))


def test_a_long_run_is_not_disturbed_and_what_it_missed_is_made_up_for_once() -> None:
    async def scenario(bed: Bed) -> None:
        await bed.lasting([bed.task(takes_s=200)], timedelta(seconds=500))
        # 10:01 to 10:03 pass while it runs; one run stands for them, and so on.
        assert bed.times() == ["10:00:30", "10:03:50", "10:07:10"]
        assert bed.told(TaskRunStarted) == ["TaskRunStarted"] * 3
        assert "TaskRunFailed" not in bed.told()

    simulate(scenario)


def test_a_long_run_that_fails_gives_its_retry_up_for_what_it_missed() -> None:
    async def scenario(bed: Bed) -> None:
        await bed.lasting([bed.task(takes_s=90, delay=timedelta(hours=1), fails=[True])], timedelta(seconds=120))
        assert bed.story()[:4] == [
            "10:00:30 TaskRunStarted",
            "10:02:00 TaskRunFailed",
            "10:02:00 TaskRetryPreempted",
            "10:02:00 TaskRunStarted",
        ]

    simulate(scenario)


def test_a_task_is_serial_and_tasks_are_parallel() -> None:
    async def scenario(bed: Bed) -> None:
        tasks = [bed.task(f"t{number}", takes_s=100) for number in range(150)]
        await bed.lasting(tasks, timedelta(minutes=10))
        assert bed.most == 150  # that none runs twice at once each callback sees to

    simulate(scenario)


def test_a_failing_task_does_not_touch_others() -> None:
    async def scenario(bed: Bed) -> None:
        await bed.lasting([bed.task("bad", fails=[True] * 100), bed.task("good", takes_s=5)], 5 * MINUTE)
        assert len(bed.times("good")) == 6
        assert bed.told().count("TaskRunCompleted") == 6

    simulate(scenario)


def test_a_callback_that_cancels_itself_has_failed() -> None:
    async def scenario(bed: Bed) -> None:
        calls = 0

        async def gives_up() -> None:
            nonlocal calls
            calls += 1
            if calls == 1:
                raise asyncio.CancelledError

        await bed.lasting([("a", "0 10 * * *", gives_up, MINUTE)], timedelta(minutes=5))
        assert calls == 2
        assert bed.told(TaskRunFailed) == ["TaskRunFailed"]

    simulate(scenario)


def test_the_same_history_makes_the_same_decisions() -> None:
    def play() -> list[str]:
        async def scenario(bed: Bed) -> list[str]:
            tasks = [bed.task(f"t{n}", f"{n} * * * *", fails=[n % 3 == 0], delay=n * MINUTE) for n in range(20)]
            await bed.lasting(tasks, timedelta(hours=2))
            return sorted(f"{at} {name}" for name, at in bed.calls)

        return simulate(scenario)

    assert play() == play()


def test_callbacks_run_without_any_timeout() -> None:
    async def scenario(bed: Bed) -> None:
        await bed.lasting([bed.task(cron="0 10 * * *", takes_s=20 * 3_600)], timedelta(hours=1))
        assert bed.told()[-5:] == [
            "SchedulerStopRequested",
            "PollingStopRequested",
            "TaskRunCompleted",
            "PollingStopped",
            "SchedulerStopped",
        ]
        assert bed.now() == datetime(2027, 1, 2, 6, 0, 30, tzinfo=UTC)

    simulate(scenario)


def test_a_watcher_that_raises_is_only_logged(caplog: pytest.LogCaptureFixture) -> None:
    def watch(event: SchedulerEvent) -> None:
        raise Oops(str(event))

    async def scenario(bed: Bed) -> None:
        scheduler = Scheduler(bed.url, bed.clock, bed.zone, watch)
        await scheduler.initialize([bed.task()])
        await asyncio.sleep(60)
        await scheduler.stop()
        assert bed.times() == ["10:00:30", "10:01:00"]

    simulate(scenario)
    assert "on_event raised for TaskRunStarted" in caplog.text
