"""The face on every store, in real time: runs, retries, restarts, overrides, and a process that is killed."""

import asyncio
import random
import signal
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from chronos.clock import SystemClock
from chronos.declarative import (
    Scheduler,
    SchedulerInitializationCompleted,
    TaskRetryStarted,
    TaskRunCompleted,
    TaskRunFailed,
    TaskRunStarted,
    read_states,
)
from tests.support.declarative_app import Bed

SHORT = timedelta(milliseconds=20)
TOP = Path(__file__).parents[2]


async def this_minute() -> str:
    """An expression of the current minute alone, of which enough is left."""
    second = datetime.now(UTC).second
    if second > 40:
        await asyncio.sleep(60.05 - second)
    return f"{datetime.now(UTC):%M %H} * * *"


async def until(true: Callable[[], bool]) -> None:
    """Wait for something that comes soon."""
    async with asyncio.timeout(70):
        while not true():  # noqa: ASYNC110 - it looks at what has no event of its own
            await asyncio.sleep(0.01)


def real(scenario: Callable[[Bed], Awaitable[None]], url: str) -> None:
    async def main() -> None:
        await scenario(Bed(url, SystemClock()))

    asyncio.run(main())


@pytest.mark.slow
def test_runs_retries_and_restarts(any_url: str) -> None:
    async def scenario(bed: Bed) -> None:
        cron = await this_minute()
        task = bed.task(cron=cron, delay=SHORT, fails=[True, True])
        scheduler = bed.scheduler()
        await scheduler.initialize([task, bed.task("other", "0 0 29 2 *")])
        await until(lambda: "TaskRunCompleted" in bed.told())
        await scheduler.stop()
        assert len(bed.calls) == 3
        assert bed.told(TaskRunStarted, TaskRunFailed, TaskRetryStarted, TaskRunCompleted) == [
            "TaskRunStarted",
            "TaskRunFailed",
            "TaskRetryStarted",
            "TaskRunFailed",
            "TaskRetryStarted",
            "TaskRunCompleted",
        ]
        states = await read_states(any_url)
        assert states["a"].last_success_at is not None
        assert states["a"].last_attempt_at is not None
        assert bed.calls[1][1] < states["a"].last_attempt_at <= bed.calls[2][1]
        assert states["other"].last_attempt_at is None

        since = len(bed.events)
        await scheduler.initialize([task, bed.task("more", "0 0 29 2 *")])
        await asyncio.sleep(0.3)
        await scheduler.stop()
        assert len(bed.calls) == 3
        [completed] = [e for e in bed.events[since:] if isinstance(e, SchedulerInitializationCompleted)]
        assert (completed.preserved, completed.new, completed.unregistered) == (("a",), ("more",), ("other",))

        await scheduler.initialize([bed.task(cron=cron, delay=2 * SHORT), bed.task("other", "0 0 29 2 *")])
        await scheduler.stop()
        assert (await read_states(any_url))["a"].retry_delay == 2 * SHORT
        assert len(bed.calls) == 3

    real(scenario, any_url)


@pytest.mark.chaos
def test_what_ran_when_its_process_was_killed_starts_again_at_once(any_url: str) -> None:
    async def scenario(bed: Bed) -> None:
        cron = await this_minute()
        command = [sys.executable, "-m", "tests.declarative.killed_process", any_url, cron]
        victim = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=TOP)  # noqa: ASYNC220
        try:
            assert victim.stdout is not None
            assert {victim.stdout.readline(), victim.stdout.readline()} == {"began\n", "done\n"}
            while (await read_states(any_url))["done"].last_success_at is None:  # noqa: ASYNC110
                await asyncio.sleep(0.05)
            victim.send_signal(signal.SIGKILL)
            victim.wait()
        finally:
            victim.kill()
            victim.communicate()
        hour = timedelta(hours=1)
        scheduler = bed.scheduler()
        killed = time.monotonic()
        await scheduler.initialize([bed.task("stuck", cron, delay=hour), bed.task("done", cron, delay=hour)])
        await until(lambda: "TaskRunCompleted" in bed.told())
        assert time.monotonic() - killed < 15  # a node is taken for dead after 30 s
        await scheduler.stop()
        [completed] = [e for e in bed.events if isinstance(e, SchedulerInitializationCompleted)]
        assert (completed.orphaned, completed.preserved) == (("stuck",), ("done",))
        assert [name for name, _ in bed.calls] == ["stuck"]
        state = (await read_states(any_url))["stuck"]
        assert state.last_success_at is not None
        assert state.pending_retry_until is None

    real(scenario, any_url)


@pytest.mark.chaos
def test_who_is_killed_while_overriding_leaves_all_of_it_behind_or_nothing(any_url: str) -> None:
    dice, generation = random.Random(7), 0
    for _ in range(8):
        command = [sys.executable, "-m", "tests.declarative.override_process", any_url, str(generation)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=TOP) as program:
            assert program.stdout is not None
            said = int(program.stdout.readline())
            time.sleep(dice.uniform(0, 0.3))
            program.kill()
            said = max([said, *(int(line) for line in program.stdout if line.endswith("\n"))])
        states = asyncio.run(read_states(any_url))
        [delay] = {state.retry_delay for name, state in states.items() if name.startswith("task ")}
        generation = int(delay.total_seconds())
        assert said <= generation <= said + 1
        assert f"only {generation}" in states
        assert f"only {generation + 1}" not in states


@pytest.mark.slow
def test_two_processes_with_the_same_tasks_share_them(any_url: str) -> None:
    """Neither takes what the other runs for orphaned."""

    async def scenario(bed: Bed) -> None:
        cron = await this_minute()
        first, second = bed.scheduler(), bed.scheduler()
        await first.initialize([bed.task(cron=cron, takes_s=1)])
        await until(lambda: bool(bed.calls))
        await second.initialize([bed.task(cron=cron, takes_s=1)])
        await asyncio.sleep(1.5)
        await asyncio.gather(first.stop(), second.stop())
        assert len(bed.calls) == 1
        completed = [e for e in bed.events if isinstance(e, SchedulerInitializationCompleted)]
        assert [event.orphaned for event in completed] == [(), ()]

    real(scenario, any_url)


@pytest.mark.slow
def test_the_next_minute_goes_before_a_retry(any_url: str) -> None:
    async def scenario(bed: Bed) -> None:
        scheduler = Scheduler(any_url, timezone="UTC", on_event=bed.events.append)
        await until(lambda: 50 <= datetime.now(UTC).second < 55)
        await scheduler.initialize([bed.task(delay=timedelta(hours=1), fails=[True])])
        await until(lambda: "TaskRunCompleted" in bed.told())
        await scheduler.stop()
        story = [line.split()[1] for line in bed.story()]
        assert story == ["TaskRunStarted", "TaskRunFailed", "TaskRetryPreempted", "TaskRunStarted", "TaskRunCompleted"]
        assert bed.calls[1][1].second < 20  # as its minute begins, and not when anything else is due

    real(scenario, any_url)
