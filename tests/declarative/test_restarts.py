"""Restarts of a scheduler: persisted state, overrides, orphans and timestamps."""

import asyncio
from datetime import UTC, datetime, timedelta
from pathlib import Path

import apsw
import pytest

from chronos.declarative import (
    DeclaredTaskState,
    SchedulerInitializationCompleted,
    TaskRunFailed,
    read_states,
    scheduler_engine,
)
from chronos.engine.options import EngineOptions
from chronos.testing.clock import VirtualClock
from chronos.testing.loop import VirtualLoop
from tests.support.declarative_app import FRIDAY, MINUTE, SchedulerHost, simulate

pytestmark = pytest.mark.usefixtures("rare_housekeeping")
HOUR = timedelta(hours=1)


def classify_tasks(host: SchedulerHost) -> dict[str, tuple[str, ...]]:
    """The classes of tasks in the last initialization."""
    last = [event for event in host.events if isinstance(event, SchedulerInitializationCompleted)][-1]
    names = ("new", "preserved", "overridden", "orphaned", "unregistered")
    return {name: value for name in names if (value := getattr(last, name))}


@pytest.mark.parametrize("missed", [1, 4, 1_000])
def test_one_run_makes_up_for_missed_occurrences(url: str, missed: int) -> None:
    async def scenario(host: SchedulerHost) -> None:
        task = host.task(cron="0,15,30,45 * * * *")
        await host.run_for([task], timedelta(minutes=1))
        assert host.times() == ["10:00:30"]
        await asyncio.sleep(missed * 15 * 60)
        host.calls.clear()
        await host.run_for([task], timedelta(minutes=10))
        assert len(host.calls) == 1
        assert host.calls[0][1] == FRIDAY + MINUTE + missed * timedelta(minutes=15)

    simulate(scenario, url)


def test_a_restart_within_the_same_minute_does_not_run_it_again(url: str) -> None:
    async def scenario(host: SchedulerHost) -> None:
        await host.run_for([host.task()], timedelta(seconds=5))
        await host.run_for([host.task()], timedelta(seconds=5))
        assert host.times() == ["10:00:30"]
        assert classify_tasks(host) == {"preserved": ("a",)}

    simulate(scenario, url)


def test_the_schedule_continues_after_the_make_up_run(url: str) -> None:
    async def scenario(host: SchedulerHost) -> None:
        task = host.task(cron="0 * * * *")
        await host.run_for([task], MINUTE)
        await host.sleep_until(FRIDAY + timedelta(hours=5, minutes=10))
        await host.run_for([task], 2 * HOUR)
        assert host.times() == ["10:00:30", "15:10:30", "16:00:00", "17:00:00"]

    simulate(scenario, url)


def test_a_task_that_never_ran_makes_up_for_nothing(url: str) -> None:
    async def scenario(host: SchedulerHost) -> None:
        tasks = [host.task(cron="30 10 * * *"), host.task("b", cron="0 * * * *")]
        await host.run_for(tasks, MINUTE)
        await host.sleep_until(FRIDAY + 2 * HOUR)
        await host.run_for(tasks, MINUTE)
        assert host.times() == []
        await host.sleep_until(FRIDAY + 4 * HOUR)  # nor at the next start
        await host.run_for(tasks, timedelta(hours=21))
        assert host.times() == ["10:30:00"]
        assert host.times("b")[:2] == ["10:00:30", "12:00:30"]

    simulate(scenario, url)


def test_a_task_that_never_ran_still_runs_in_the_current_minute(url: str) -> None:
    async def scenario(host: SchedulerHost) -> None:
        task = host.task(cron="30 10,11,12 * * *")
        await host.run_for([task], MINUTE)
        await host.sleep_until(datetime(2027, 1, 1, 12, 30, 20, tzinfo=UTC))
        await host.run_for([task], MINUTE)
        assert host.times() == ["12:30:20"]

    simulate(scenario, url)


def test_a_pending_retry_survives_a_restart(url: str) -> None:
    async def scenario(host: SchedulerHost) -> None:
        task = host.task(cron="0 10 * * *", delay=timedelta(minutes=30), fails=[True])
        await host.run_for([task], timedelta(minutes=5))
        await host.sleep_until(FRIDAY + timedelta(minutes=20))
        await host.run_for([task], HOUR)
        assert host.times() == ["10:00:30", "10:30:30"]
        assert host.task_history()[-2:] == ["10:30:30 TaskRetryStarted", "10:30:30 TaskRunCompleted"]

    simulate(scenario, url)


def test_a_retry_whose_time_has_passed_starts_at_once(url: str) -> None:
    async def scenario(host: SchedulerHost) -> None:
        task = host.task(cron="0 10 * * *", delay=timedelta(minutes=30), fails=[True])
        await host.run_for([task], timedelta(minutes=5))
        await host.sleep_until(FRIDAY + 3 * HOUR)
        await host.run_for([task], MINUTE)
        assert host.times() == ["10:00:30", "13:00:30"]

    simulate(scenario, url)


def test_missed_occurrences_preempt_a_retry_and_are_one_run(url: str) -> None:
    async def scenario(host: SchedulerHost) -> None:
        task = host.task(cron="0 * * * *", delay=timedelta(minutes=30), fails=[True])
        await host.run_for([task], timedelta(minutes=5))
        await host.sleep_until(FRIDAY + timedelta(hours=3, minutes=20))
        await host.run_for([task], 10 * MINUTE)
        assert host.times() == ["10:00:30", "13:20:30"]
        assert host.task_history()[2:] == [
            "13:20:30 TaskRetryPreempted",
            "13:20:30 TaskRunStarted",
            "13:20:30 TaskRunCompleted",
        ]

    simulate(scenario, url)


# --- overrides


def test_new_preserved_overridden_and_unregistered(url: str) -> None:
    async def scenario(host: SchedulerHost) -> None:
        await host.run_for([host.task("same"), host.task("cron"), host.task("delay"), host.task("gone")], MINUTE)
        host.calls.clear()
        changed = [
            host.task("same"),
            host.task("cron", "0,1,2,3,4,5-59 * * * *"),
            host.task("delay", delay=2 * MINUTE),
            host.task("more"),
        ]
        await host.run_for(changed, MINUTE)
        assert classify_tasks(host) == {
            "new": ("more",),
            "preserved": ("same",),
            "overridden": ("cron", "delay"),
            "unregistered": ("gone",),
        }
        assert host.times("gone") == []
        assert [host.times(name) for name in ("same", "cron", "delay")] == [["10:02:00"]] * 3
        assert host.times("more") == ["10:01:30", "10:02:00"]
        states = await read_states(url)
        assert states["delay"].retry_delay == 2 * MINUTE
        assert states["cron"].cron_expression == "0,1,2,3,4,5-59 * * * *"
        assert "gone" in states

    simulate(scenario, url)


def test_a_task_that_is_registered_again_continues(url: str) -> None:
    async def scenario(host: SchedulerHost) -> None:
        a, b = host.task("a"), host.task("b")
        await host.run_for([a, b], MINUTE)
        await host.run_for([b], 10 * MINUTE)
        assert len(host.times("a")) == 2
        await host.run_for([a, b], MINUTE)
        assert classify_tasks(host) == {"preserved": ("a", "b")}
        assert host.times("a")[2:] == ["10:11:30", "10:12:00"]  # the first makes up for the missed ones

    simulate(scenario, url)


def test_an_overridden_task_keeps_its_history(url: str) -> None:
    async def scenario(host: SchedulerHost) -> None:
        await host.run_for([host.task(cron="0 10 * * *")], MINUTE)
        before = (await read_states(url))["a"]
        await host.run_for([host.task(cron="30 10 * * *")], MINUTE)
        after = (await read_states(url))["a"]
        assert after.cron_expression == "30 10 * * *"
        assert (after.last_attempt_at, after.last_success_at) == (before.last_attempt_at, before.last_success_at)
        assert host.times() == ["10:00:30"]

    simulate(scenario, url)


def test_the_new_expression_counts_from_the_last_attempt(url: str) -> None:
    async def scenario(host: SchedulerHost) -> None:
        await host.run_for([host.task(cron="0 10 * * *")], MINUTE)
        await host.sleep_until(FRIDAY + 2 * HOUR)
        # The new expression has missed 10:30 and 11:30, which is one run. The second new one has missed nothing.
        await host.run_for([host.task(cron="30 * * * *")], MINUTE)
        assert host.times() == ["10:00:30", "12:00:30"]
        await host.run_for([host.task(cron="0 9 * * *")], MINUTE)
        assert len(host.times()) == 2

    simulate(scenario, url)


def test_an_override_does_not_run_a_minute_again(url: str) -> None:
    async def scenario(host: SchedulerHost) -> None:
        await host.run_for([host.task()], timedelta(seconds=5))
        await host.run_for([host.task(cron="0 * * * *")], timedelta(seconds=5))
        assert host.times() == ["10:00:30"]

    simulate(scenario, url)


def test_the_zone_of_the_host_may_change_without_an_override(url: str) -> None:
    async def scenario(host: SchedulerHost) -> None:
        task = host.task(cron="0 12 * * *")
        await host.run_for([task], MINUTE)
        host.zone = "Asia/Kolkata"
        await host.run_for([task], timedelta(hours=24))
        assert classify_tasks(host) == {"preserved": ("a",)}
        assert host.times() == ["06:30:00"]

    simulate(scenario, url)


def test_spaces_in_an_expression_are_a_difference(url: str) -> None:
    async def scenario(host: SchedulerHost) -> None:
        await host.run_for([host.task(cron="0 10 * * *")], MINUTE)
        await host.run_for([host.task(cron="0  10 * * *")], MINUTE)
        assert classify_tasks(host) == {"overridden": ("a",)}

    simulate(scenario, url)


def test_a_long_expression_is_accepted(url: str) -> None:
    fields = [range(60), range(24), range(1, 32), range(1, 13), range(7)]
    cron = " ".join(",".join(str(value) for value in field) for field in fields)
    assert len(cron) > 256

    async def scenario(host: SchedulerHost) -> None:
        await host.run_for([host.task(cron=cron)], MINUTE)
        await host.run_for([host.task(cron=cron)], MINUTE)
        assert classify_tasks(host) == {"preserved": ("a",)}
        assert len(host.times()) == 3

    simulate(scenario, url)


def test_a_retry_of_a_task_that_is_not_registered_waits_until_it_is(url: str) -> None:
    async def scenario(host: SchedulerHost) -> None:
        task = host.task(cron="0 10 * * *", delay=timedelta(minutes=5), fails=[True])
        await host.run_for([task, host.task("b")], MINUTE)
        await host.run_for([host.task("b")], HOUR)
        assert host.times() == ["10:00:30"]
        state = (await read_states(url))["a"]
        assert (state.last_attempt_at, state.pending_retry_until) == (FRIDAY, None)
        await host.run_for([task, host.task("b")], MINUTE)
        assert host.times() == ["10:00:30", "11:01:30"]
        assert (await read_states(url))["a"].last_success_at == datetime(2027, 1, 1, 11, 1, 30, tzinfo=UTC)

    simulate(scenario, url)


def test_an_override_keeps_the_pending_retry_and_delays_the_next_one_as_new(url: str) -> None:
    async def scenario(host: SchedulerHost) -> None:
        cron = "0 10 * * *"
        await host.run_for([host.task(cron=cron, delay=timedelta(minutes=30), fails=[True])], 5 * MINUTE)
        overridden = host.task(cron=cron, delay=2 * HOUR, fails=[True])
        await host.run_for([overridden], MINUTE)
        assert classify_tasks(host) == {"overridden": ("a",)}
        state = (await read_states(url))["a"]
        assert (state.retry_delay, state.last_attempt_at) == (2 * HOUR, FRIDAY)
        assert state.pending_retry_until == FRIDAY + timedelta(minutes=30)
        await host.run_for([overridden], HOUR)
        state = (await read_states(url))["a"]
        assert state.pending_retry_until == FRIDAY + timedelta(minutes=30) + 2 * HOUR
        [*_, failed] = [event for event in host.events if isinstance(event, TaskRunFailed)]
        assert failed.pending_retry_until == state.pending_retry_until
        await host.run_for([overridden], 2 * HOUR)
        assert host.task_history() == [
            "10:00:30 TaskRunStarted",
            "10:00:30 TaskRunFailed",
            "10:30:30 TaskRetryStarted",
            "10:30:30 TaskRunFailed",
            "12:30:30 TaskRetryStarted",
            "12:30:30 TaskRunCompleted",
        ]

    simulate(scenario, url)


def test_a_longer_delay_does_not_preempt_a_pending_retry(url: str) -> None:
    """Occurrences before the failed call do not preempt its retry."""

    async def scenario(host: SchedulerHost) -> None:
        await host.run_for([host.task(cron="0 8,9,10 * * *", delay=timedelta(minutes=30), fails=[True])], MINUTE)
        await host.run_for([host.task(cron="0 8,9,10 * * *", delay=5 * HOUR)], HOUR)
        assert host.task_history()[2:] == ["10:30:30 TaskRetryStarted", "10:30:30 TaskRunCompleted"]

    simulate(scenario, url)


def test_a_first_run_that_waited_for_registration_is_not_a_retry(url: str, tmp_path: Path) -> None:
    """Another scheduler on the same store may claim a run of a task that it does not have."""

    async def scenario(host: SchedulerHost) -> None:
        with_a, with_b = host.scheduler(), host.scheduler()
        await with_b.initialize([host.task("b", "0 9 * * *")])
        await with_a.initialize([host.task("a", "0 11 * * *")])
        await with_a.stop()
        await host.sleep_until(FRIDAY + 2 * HOUR)
        await with_b.stop()
        assert host.calls == []
        await host.run_for([host.task("a", "0 11 * * *")], MINUTE)
        assert host.task_history() == ["12:00:30 TaskRunStarted", "12:00:30 TaskRunCompleted"]

    simulate(scenario, url)


# --- orphans


def abandon(url: str) -> None:
    """Run a scheduler whose loop ends without ``stop``, while a callback runs."""
    loop = VirtualLoop()
    host = SchedulerHost(url, VirtualClock(loop, start=FRIDAY))

    async def start() -> None:
        await host.scheduler().initialize([host.task(cron="0 10 * * *", takes_s=10**6), host.task("b", "0 10 * * *")])
        await asyncio.sleep(100)

    loop.run_until_complete(start())
    loop._ready.clear()
    loop.close()
    assert host.times() == ["10:00:30"]


def test_a_task_of_an_ended_scheduler_starts_again_at_once(url: str) -> None:
    async def scenario(host: SchedulerHost) -> None:
        await host.run_for([host.task(cron="0 10 * * *"), host.task("b", "0 10 * * *")], MINUTE)
        assert classify_tasks(host) == {"orphaned": ("a",), "preserved": ("b",)}
        assert host.task_history() == ["10:20:30 TaskRunStarted", "10:20:30 TaskRunCompleted"]

    abandon(url)
    simulate(scenario, url, start=FRIDAY + timedelta(minutes=20))


def test_an_orphan_is_overridden_and_started(url: str) -> None:
    async def scenario(host: SchedulerHost) -> None:
        await host.run_for([host.task(cron="0 9 * * *", delay=HOUR)], MINUTE)
        assert classify_tasks(host) == {"orphaned": ("a",), "unregistered": ("b",)}
        assert host.times() == ["10:20:30"]
        state = (await read_states(url))["a"]
        assert (state.cron_expression, state.retry_delay) == ("0 9 * * *", HOUR)

    abandon(url)
    simulate(scenario, url, start=FRIDAY + timedelta(minutes=20))


def test_an_orphan_that_also_missed_occurrences_runs_once(url: str) -> None:
    async def scenario(host: SchedulerHost) -> None:
        await host.run_for([host.task(cron="0 10 * * *")], 5 * MINUTE)
        assert len(host.calls) == 1

    abandon(url)
    simulate(scenario, url, start=FRIDAY + timedelta(days=3))


def test_a_scheduler_on_another_machine_is_detected_by_missing_heartbeats(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario(host: SchedulerHost) -> None:
        await host.run_for([host.task(cron="0 10 * * *")], MINUTE)
        assert classify_tasks(host) == {"preserved": ("a",), "unregistered": ("b",)}
        [(_, at)] = host.calls
        assert timedelta(seconds=30) <= at - (FRIDAY + HOUR) <= timedelta(seconds=40)

    abandon(url)
    database = apsw.Connection(str(tmp_path / "tasks.db"))  # sqlite3 would be another copy of SQLite in this process
    database.execute("update node set labels = json_set(labels, '$.\"chronos/world\"', 'another')")
    database.close()
    monkeypatch.setattr(scheduler_engine, "OPTIONS", EngineOptions(grace_s=1e9))
    simulate(scenario, url, start=FRIDAY + HOUR)


# --- timestamps


def test_the_timestamps_of_a_task(url: str) -> None:
    async def scenario(host: SchedulerHost) -> None:
        task = host.task(
            cron="0 10,11,12 * * *", delay=timedelta(minutes=10), fails=[False, True, True, False], takes_s=5
        )
        scheduler = host.scheduler()

        async def at(hour: int, minute: int, second: int) -> DeclaredTaskState:
            await host.sleep_until(datetime(2027, 1, 1, hour, minute, second, tzinfo=UTC))
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
    async def scenario(host: SchedulerHost) -> None:
        await host.run_for([host.task(cron="0 9 * * *")], MINUTE)
        expected = DeclaredTaskState(name="a", cron_expression="0 9 * * *", retry_delay=MINUTE)
        assert await read_states(url) == {"a": expected}

    simulate(scenario, url)


def test_a_callback_that_fails_during_stop_is_retried_after_a_restart(url: str) -> None:
    async def scenario(host: SchedulerHost) -> None:
        task = host.task(cron="0 10 * * *", takes_s=100, delay=timedelta(minutes=10), fails=[True])
        await host.run_for([task], MINUTE)
        state = (await read_states(url))["a"]
        assert state.pending_retry_until == FRIDAY + timedelta(seconds=700)
        await host.run_for([task], HOUR)
        assert host.times() == ["10:00:30", "10:12:10"]

    simulate(scenario, url)


def test_the_last_success_is_known_after_many_failures(url: str) -> None:
    async def scenario(host: SchedulerHost) -> None:
        await host.run_for([host.task(delay=timedelta(seconds=40), fails=[False] + [True] * 10_000)], 30 * MINUTE)
        first = (await read_states(url))["a"].last_success_at
        await host.run_for([host.task(delay=timedelta(seconds=40), fails=[True] * 10_000)], 30 * MINUTE)
        assert (await read_states(url))["a"].last_success_at == first == FRIDAY

    simulate(scenario, url)


def test_each_scheduler_has_its_own_identifier(url: str) -> None:
    async def scenario(host: SchedulerHost) -> None:
        first, second = host.scheduler(), host.scheduler()
        identifiers = []
        for scheduler in (first, second, first):
            await scheduler.initialize([host.task()])
            identifiers.append(scheduler._identifier)
            await scheduler.stop()
        assert identifiers[0] == identifiers[2] != identifiers[1]
        assert all(identifiers)

    simulate(scenario, url)
