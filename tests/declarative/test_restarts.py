"""What outlives a scheduler: restarts with persisted state, overrides, orphans, and what the records say."""

import asyncio
from datetime import UTC, datetime, timedelta
from pathlib import Path

import apsw
import pytest

from chronos.declarative import (
    DeclaredTaskState,
    SchedulerInitializationCompleted,
    TaskRunFailed,
    instance,
    read_states,
)
from chronos.engine.options import EngineOptions
from chronos.testing.clock import VirtualClock
from chronos.testing.loop import VirtualLoop
from tests.support.declarative_app import FRIDAY, MINUTE, Bed, simulate

pytestmark = pytest.mark.usefixtures("calm")
HOUR = timedelta(hours=1)


def classes(bed: Bed) -> dict[str, tuple[str, ...]]:
    """How the last initialization saw its tasks."""
    last = [event for event in bed.events if isinstance(event, SchedulerInitializationCompleted)][-1]
    names = ("new", "preserved", "overridden", "orphaned", "unregistered")
    return {name: value for name in names if (value := getattr(last, name))}


@pytest.mark.parametrize("missed", [1, 4, 1_000])
def test_what_was_missed_is_made_up_for_by_one_run(url: str, missed: int) -> None:
    async def scenario(bed: Bed) -> None:
        task = bed.task(cron="0,15,30,45 * * * *")
        await bed.lasting([task], timedelta(minutes=1))
        assert bed.times() == ["10:00:30"]
        await asyncio.sleep(missed * 15 * 60)
        bed.calls.clear()
        await bed.lasting([task], timedelta(minutes=10))
        assert len(bed.calls) == 1
        assert bed.calls[0][1] == FRIDAY + MINUTE + missed * timedelta(minutes=15)

    simulate(scenario, url)


def test_a_restart_within_the_same_minute_does_not_run_it_again(url: str) -> None:
    async def scenario(bed: Bed) -> None:
        await bed.lasting([bed.task()], timedelta(seconds=5))
        await bed.lasting([bed.task()], timedelta(seconds=5))
        assert bed.times() == ["10:00:30"]
        assert classes(bed) == {"preserved": ("a",)}

    simulate(scenario, url)


def test_after_the_make_up_run_the_schedule_goes_on(url: str) -> None:
    async def scenario(bed: Bed) -> None:
        task = bed.task(cron="0 * * * *")
        await bed.lasting([task], MINUTE)
        await bed.until(FRIDAY + timedelta(hours=5, minutes=10))
        await bed.lasting([task], 2 * HOUR)
        assert bed.times() == ["10:00:30", "15:10:30", "16:00:00", "17:00:00"]

    simulate(scenario, url)


def test_a_task_that_never_ran_makes_up_for_nothing(url: str) -> None:
    async def scenario(bed: Bed) -> None:
        tasks = [bed.task(cron="30 10 * * *"), bed.task("b", cron="0 * * * *")]
        await bed.lasting(tasks, MINUTE)
        await bed.until(FRIDAY + 2 * HOUR)
        await bed.lasting(tasks, MINUTE)
        assert bed.times() == []
        await bed.until(FRIDAY + 4 * HOUR)  # nor the next time
        await bed.lasting(tasks, timedelta(hours=21))
        assert bed.times() == ["10:30:00"]
        assert bed.times("b")[:2] == ["10:00:30", "12:00:30"]

    simulate(scenario, url)


def test_a_task_that_never_ran_still_runs_in_the_current_minute(url: str) -> None:
    async def scenario(bed: Bed) -> None:
        task = bed.task(cron="30 10,11,12 * * *")
        await bed.lasting([task], MINUTE)
        await bed.until(datetime(2027, 1, 1, 12, 30, 20, tzinfo=UTC))
        await bed.lasting([task], MINUTE)
        assert bed.times() == ["12:30:20"]

    simulate(scenario, url)


def test_a_waiting_retry_outlives_its_scheduler(url: str) -> None:
    async def scenario(bed: Bed) -> None:
        task = bed.task(cron="0 10 * * *", delay=timedelta(minutes=30), fails=[True])
        await bed.lasting([task], timedelta(minutes=5))
        await bed.until(FRIDAY + timedelta(minutes=20))
        await bed.lasting([task], HOUR)
        assert bed.times() == ["10:00:30", "10:30:30"]
        assert bed.story()[-2:] == ["10:30:30 TaskRetryStarted", "10:30:30 TaskRunCompleted"]

    simulate(scenario, url)


def test_a_retry_whose_time_has_passed_starts_at_once(url: str) -> None:
    async def scenario(bed: Bed) -> None:
        task = bed.task(cron="0 10 * * *", delay=timedelta(minutes=30), fails=[True])
        await bed.lasting([task], timedelta(minutes=5))
        await bed.until(FRIDAY + 3 * HOUR)
        await bed.lasting([task], MINUTE)
        assert bed.times() == ["10:00:30", "13:00:30"]

    simulate(scenario, url)


def test_what_was_missed_goes_before_a_retry_and_is_one_run(url: str) -> None:
    async def scenario(bed: Bed) -> None:
        task = bed.task(cron="0 * * * *", delay=timedelta(minutes=30), fails=[True])
        await bed.lasting([task], timedelta(minutes=5))
        await bed.until(FRIDAY + timedelta(hours=3, minutes=20))
        await bed.lasting([task], 10 * MINUTE)
        assert bed.times() == ["10:00:30", "13:20:30"]
        assert bed.story()[2:] == [
            "13:20:30 TaskRetryPreempted",
            "13:20:30 TaskRunStarted",
            "13:20:30 TaskRunCompleted",
        ]

    simulate(scenario, url)


# --- overrides


def test_new_preserved_overridden_and_unregistered(url: str) -> None:
    async def scenario(bed: Bed) -> None:
        await bed.lasting([bed.task("same"), bed.task("cron"), bed.task("delay"), bed.task("gone")], MINUTE)
        bed.calls.clear()
        changed = [
            bed.task("same"),
            bed.task("cron", "0,1,2,3,4,5-59 * * * *"),
            bed.task("delay", delay=2 * MINUTE),
            bed.task("more"),
        ]
        await bed.lasting(changed, MINUTE)
        assert classes(bed) == {
            "new": ("more",),
            "preserved": ("same",),
            "overridden": ("cron", "delay"),
            "unregistered": ("gone",),
        }
        assert bed.times("gone") == []
        assert [bed.times(name) for name in ("same", "cron", "delay")] == [["10:02:00"]] * 3
        assert bed.times("more") == ["10:01:30", "10:02:00"]
        states = await read_states(url)
        assert states["delay"].retry_delay == 2 * MINUTE
        assert states["cron"].cron_expression == "0,1,2,3,4,5-59 * * * *"
        assert "gone" in states

    simulate(scenario, url)


def test_a_task_that_is_registered_again_goes_on(url: str) -> None:
    async def scenario(bed: Bed) -> None:
        a, b = bed.task("a"), bed.task("b")
        await bed.lasting([a, b], MINUTE)
        await bed.lasting([b], 10 * MINUTE)
        assert len(bed.times("a")) == 2
        await bed.lasting([a, b], MINUTE)
        assert classes(bed) == {"preserved": ("a", "b")}
        assert bed.times("a")[2:] == ["10:11:30", "10:12:00"]  # one for what it missed

    simulate(scenario, url)


def test_an_overridden_task_keeps_its_history(url: str) -> None:
    async def scenario(bed: Bed) -> None:
        await bed.lasting([bed.task(cron="0 10 * * *")], MINUTE)
        before = (await read_states(url))["a"]
        await bed.lasting([bed.task(cron="30 10 * * *")], MINUTE)
        after = (await read_states(url))["a"]
        assert after.cron_expression == "30 10 * * *"
        assert (after.last_attempt_at, after.last_success_at) == (before.last_attempt_at, before.last_success_at)
        assert bed.times() == ["10:00:30"]

    simulate(scenario, url)


def test_the_new_expression_counts_from_the_last_attempt(url: str) -> None:
    async def scenario(bed: Bed) -> None:
        await bed.lasting([bed.task(cron="0 10 * * *")], MINUTE)
        await bed.until(FRIDAY + 2 * HOUR)
        # Of the new expression 10:30, 11:30 have passed: one run. Of the other new one nothing has.
        await bed.lasting([bed.task(cron="30 * * * *")], MINUTE)
        assert bed.times() == ["10:00:30", "12:00:30"]
        await bed.lasting([bed.task(cron="0 9 * * *")], MINUTE)
        assert len(bed.times()) == 2

    simulate(scenario, url)


def test_an_override_does_not_run_a_minute_again(url: str) -> None:
    async def scenario(bed: Bed) -> None:
        await bed.lasting([bed.task()], timedelta(seconds=5))
        await bed.lasting([bed.task(cron="0 * * * *")], timedelta(seconds=5))
        assert bed.times() == ["10:00:30"]

    simulate(scenario, url)


def test_the_zone_of_the_host_may_change_without_an_override(url: str) -> None:
    async def scenario(bed: Bed) -> None:
        task = bed.task(cron="0 12 * * *")
        await bed.lasting([task], MINUTE)
        bed.zone = "Asia/Kolkata"
        await bed.lasting([task], timedelta(hours=24))
        assert classes(bed) == {"preserved": ("a",)}
        assert bed.times() == ["06:30:00"]

    simulate(scenario, url)


def test_blanks_in_an_expression_are_a_difference(url: str) -> None:
    async def scenario(bed: Bed) -> None:
        await bed.lasting([bed.task(cron="0 10 * * *")], MINUTE)
        await bed.lasting([bed.task(cron="0  10 * * *")], MINUTE)
        assert classes(bed) == {"overridden": ("a",)}

    simulate(scenario, url)


def test_an_expression_written_out_in_full_is_taken(url: str) -> None:
    fields = [range(60), range(24), range(1, 32), range(1, 13), range(7)]
    cron = " ".join(",".join(str(value) for value in field) for field in fields)
    assert len(cron) > 256

    async def scenario(bed: Bed) -> None:
        await bed.lasting([bed.task(cron=cron)], MINUTE)
        await bed.lasting([bed.task(cron=cron)], MINUTE)
        assert classes(bed) == {"preserved": ("a",)}
        assert len(bed.times()) == 3

    simulate(scenario, url)


def test_a_retry_of_a_task_that_is_not_registered_waits_until_it_is(url: str) -> None:
    async def scenario(bed: Bed) -> None:
        task = bed.task(cron="0 10 * * *", delay=timedelta(minutes=5), fails=[True])
        await bed.lasting([task, bed.task("b")], MINUTE)
        await bed.lasting([bed.task("b")], HOUR)
        assert bed.times() == ["10:00:30"]
        state = (await read_states(url))["a"]
        assert (state.last_attempt_at, state.pending_retry_until) == (FRIDAY, None)
        await bed.lasting([task, bed.task("b")], MINUTE)
        assert bed.times() == ["10:00:30", "11:01:30"]
        assert (await read_states(url))["a"].last_success_at == datetime(2027, 1, 1, 11, 1, 30, tzinfo=UTC)

    simulate(scenario, url)


def test_a_retry_that_waits_keeps_its_time_and_the_next_one_has_the_new_delay(url: str) -> None:
    async def scenario(bed: Bed) -> None:
        cron = "0 10 * * *"
        await bed.lasting([bed.task(cron=cron, delay=timedelta(minutes=30), fails=[True])], 5 * MINUTE)
        overridden = bed.task(cron=cron, delay=2 * HOUR, fails=[True])
        await bed.lasting([overridden], MINUTE)
        assert classes(bed) == {"overridden": ("a",)}
        state = (await read_states(url))["a"]
        assert (state.retry_delay, state.last_attempt_at) == (2 * HOUR, FRIDAY)
        assert state.pending_retry_until == FRIDAY + timedelta(minutes=30)
        await bed.lasting([overridden], HOUR)
        state = (await read_states(url))["a"]
        assert state.pending_retry_until == FRIDAY + timedelta(minutes=30) + 2 * HOUR
        [*_, failed] = [event for event in bed.events if isinstance(event, TaskRunFailed)]
        assert failed.pending_retry_until == state.pending_retry_until
        await bed.lasting([overridden], 2 * HOUR)
        assert bed.story() == [
            "10:00:30 TaskRunStarted",
            "10:00:30 TaskRunFailed",
            "10:30:30 TaskRetryStarted",
            "10:30:30 TaskRunFailed",
            "12:30:30 TaskRetryStarted",
            "12:30:30 TaskRunCompleted",
        ]

    simulate(scenario, url)


def test_a_retry_is_no_occurrence_however_long_its_new_delay(url: str) -> None:
    """What passed before the call that failed is no reason to give its retry up."""

    async def scenario(bed: Bed) -> None:
        await bed.lasting([bed.task(cron="0 8,9,10 * * *", delay=timedelta(minutes=30), fails=[True])], MINUTE)
        await bed.lasting([bed.task(cron="0 8,9,10 * * *", delay=5 * HOUR)], HOUR)
        assert bed.story()[2:] == ["10:30:30 TaskRetryStarted", "10:30:30 TaskRunCompleted"]

    simulate(scenario, url)


def test_what_waited_to_be_registered_before_its_first_call_awaits_no_retry(url: str, tmp_path: Path) -> None:
    """Another instance of the same store may be given a run of a task that it does not have."""

    async def scenario(bed: Bed) -> None:
        with_a, with_b = bed.scheduler(), bed.scheduler()
        await with_b.initialize([bed.task("b", "0 9 * * *")])
        await with_a.initialize([bed.task("a", "0 11 * * *")])
        await with_a.stop()
        await bed.until(FRIDAY + 2 * HOUR)
        await with_b.stop()
        assert bed.calls == []
        await bed.lasting([bed.task("a", "0 11 * * *")], MINUTE)
        assert bed.story() == ["12:00:30 TaskRunStarted", "12:00:30 TaskRunCompleted"]

    simulate(scenario, url)


# --- orphans


def abandon(url: str) -> None:
    """A scheduler whose loop ends without ``stop``, in the middle of a callback."""
    loop = VirtualLoop()
    bed = Bed(url, VirtualClock(loop, start=FRIDAY))

    async def begin() -> None:
        await bed.scheduler().initialize([bed.task(cron="0 10 * * *", takes_s=10**6), bed.task("b", "0 10 * * *")])
        await asyncio.sleep(100)

    loop.run_until_complete(begin())
    loop._ready.clear()
    loop.close()
    assert bed.times() == ["10:00:30"]


def test_what_ran_when_its_instance_was_gone_starts_again_at_once(url: str) -> None:
    async def scenario(bed: Bed) -> None:
        await bed.lasting([bed.task(cron="0 10 * * *"), bed.task("b", "0 10 * * *")], MINUTE)
        assert classes(bed) == {"orphaned": ("a",), "preserved": ("b",)}
        assert bed.story() == ["10:20:30 TaskRunStarted", "10:20:30 TaskRunCompleted"]

    abandon(url)
    simulate(scenario, url, start=FRIDAY + timedelta(minutes=20))


def test_an_orphan_is_overridden_and_started(url: str) -> None:
    async def scenario(bed: Bed) -> None:
        await bed.lasting([bed.task(cron="0 9 * * *", delay=HOUR)], MINUTE)
        assert classes(bed) == {"orphaned": ("a",), "unregistered": ("b",)}
        assert bed.times() == ["10:20:30"]
        state = (await read_states(url))["a"]
        assert (state.cron_expression, state.retry_delay) == ("0 9 * * *", HOUR)

    abandon(url)
    simulate(scenario, url, start=FRIDAY + timedelta(minutes=20))


def test_an_orphan_that_also_missed_occurrences_runs_once(url: str) -> None:
    async def scenario(bed: Bed) -> None:
        await bed.lasting([bed.task(cron="0 10 * * *")], 5 * MINUTE)
        assert len(bed.calls) == 1

    abandon(url)
    simulate(scenario, url, start=FRIDAY + timedelta(days=3))


def test_an_instance_on_another_machine_is_missed_by_its_heartbeats(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario(bed: Bed) -> None:
        await bed.lasting([bed.task(cron="0 10 * * *")], MINUTE)
        assert classes(bed) == {"preserved": ("a",), "unregistered": ("b",)}
        [(_, at)] = bed.calls
        assert timedelta(seconds=30) <= at - (FRIDAY + HOUR) <= timedelta(seconds=40)

    abandon(url)
    database = apsw.Connection(str(tmp_path / "tasks.db"))  # the copy of SQLite that has the store open
    database.execute("update node set labels = json_set(labels, '$.\"chronos/world\"', 'another')")
    database.close()
    monkeypatch.setattr(instance, "OPTIONS", EngineOptions(grace_s=1e9))
    simulate(scenario, url, start=FRIDAY + HOUR)


# --- timestamps


def test_the_timestamps_of_a_task(url: str) -> None:
    async def scenario(bed: Bed) -> None:
        task = bed.task(
            cron="0 10,11,12 * * *", delay=timedelta(minutes=10), fails=[False, True, True, False], takes_s=5
        )
        scheduler = bed.scheduler()

        async def at(hour: int, minute: int, second: int) -> DeclaredTaskState:
            await bed.until(datetime(2027, 1, 1, hour, minute, second, tzinfo=UTC))
            return (await read_states(url))["a"]

        def clock(hour: int, minute: int, second: int) -> datetime:
            return datetime(2027, 1, 1, hour, minute, second, tzinfo=UTC)

        await scheduler.initialize([task])
        running = await at(10, 0, 32)
        assert (running.last_attempt_at, running.last_success_at) == (clock(10, 0, 30), None)
        done = await at(10, 1, 0)
        assert (done.last_attempt_at, done.last_success_at) == (clock(10, 0, 30), clock(10, 0, 35))
        failed = await at(11, 1, 0)
        assert (failed.last_attempt_at, failed.last_success_at) == (clock(11, 0, 0), clock(10, 0, 35))
        assert failed.pending_retry_until == clock(11, 10, 5)
        again = await at(11, 10, 7)
        assert (again.last_attempt_at, again.pending_retry_until) == (clock(11, 10, 5), None)
        twice = await at(11, 11, 0)
        assert (twice.last_attempt_at, twice.pending_retry_until) == (clock(11, 10, 5), clock(11, 20, 10))
        assert twice.last_success_at == clock(10, 0, 35)
        over = await at(11, 30, 0)
        assert (over.last_attempt_at, over.last_success_at) == (clock(11, 20, 10), clock(11, 20, 15))
        assert over.pending_retry_until is None
        await scheduler.stop()

    simulate(scenario, url)


def test_a_task_that_was_never_called_has_no_timestamps(url: str) -> None:
    async def scenario(bed: Bed) -> None:
        await bed.lasting([bed.task(cron="0 9 * * *")], MINUTE)
        expected = DeclaredTaskState(name="a", cron_expression="0 9 * * *", retry_delay=MINUTE)
        assert await read_states(url) == {"a": expected}

    simulate(scenario, url)


def test_a_callback_that_fails_while_the_scheduler_stops_is_tried_again_later(url: str) -> None:
    async def scenario(bed: Bed) -> None:
        task = bed.task(cron="0 10 * * *", takes_s=100, delay=timedelta(minutes=10), fails=[True])
        await bed.lasting([task], MINUTE)
        state = (await read_states(url))["a"]
        assert state.pending_retry_until == FRIDAY + timedelta(seconds=700)
        await bed.lasting([task], HOUR)
        assert bed.times() == ["10:00:30", "10:12:10"]

    simulate(scenario, url)


def test_the_last_success_is_known_after_many_failures(url: str) -> None:
    async def scenario(bed: Bed) -> None:
        await bed.lasting([bed.task(delay=timedelta(seconds=40), fails=[False] + [True] * 10_000)], 30 * MINUTE)
        first = (await read_states(url))["a"].last_success_at
        await bed.lasting([bed.task(delay=timedelta(seconds=40), fails=[True] * 10_000)], 30 * MINUTE)
        assert (await read_states(url))["a"].last_success_at == first == FRIDAY

    simulate(scenario, url)


def test_each_instance_has_an_identifier_of_its_own(url: str) -> None:
    async def scenario(bed: Bed) -> None:
        first, second = bed.scheduler(), bed.scheduler()
        found = []
        for scheduler in (first, second, first):
            await scheduler.initialize([bed.task()])
            found.append(scheduler._identifier)
            await scheduler.stop()
        assert found[0] == found[2] != found[1]
        assert all(found)

    simulate(scenario, url)
