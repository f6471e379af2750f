"""The declarative scheduler on every store, in real time: runs, retries, restarts, overrides, killed processes."""

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
from tests.support.declarative_app import SchedulerHost

SHORT = timedelta(milliseconds=20)
ROOT = Path(__file__).parents[2]


async def wait_for_cron_of_this_minute() -> str:
    """The expression of the current minute, with at least 20 s of it left."""
    second = datetime.now(UTC).second
    if second > 40:
        await asyncio.sleep(60.05 - second)
    return f"{datetime.now(UTC):%M %H} * * *"


async def wait_until(condition: Callable[[], bool]) -> None:
    """Wait until a condition holds, at most 70 s."""
    async with asyncio.timeout(70):
        while not condition():  # noqa: ASYNC110 - it cannot wait for an event
            await asyncio.sleep(0.01)


def run_in_real_time(scenario: Callable[[SchedulerHost], Awaitable[None]], url: str) -> None:
    async def main() -> None:
        await scenario(SchedulerHost(url, SystemClock()))

    asyncio.run(main())


@pytest.mark.slow
def test_runs_retries_and_restarts(any_url: str) -> None:
    async def scenario(host: SchedulerHost) -> None:
        cron = await wait_for_cron_of_this_minute()
        task = host.task(cron=cron, delay=SHORT, fails=[True, True])
        scheduler = host.scheduler()
        await scheduler.initialize([task, host.task("other", "0 0 29 2 *")])
        await wait_until(lambda: "TaskRunCompleted" in host.event_names())
        await scheduler.stop()
        assert len(host.calls) == 3
        assert host.event_names(TaskRunStarted, TaskRunFailed, TaskRetryStarted, TaskRunCompleted) == [
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
        assert host.calls[1][1] < states["a"].last_attempt_at <= host.calls[2][1]
        assert states["other"].last_attempt_at is None

        since = len(host.events)
        await scheduler.initialize([task, host.task("more", "0 0 29 2 *")])
        await asyncio.sleep(0.3)
        await scheduler.stop()
        assert len(host.calls) == 3
        [completed] = [e for e in host.events[since:] if isinstance(e, SchedulerInitializationCompleted)]
        assert (completed.preserved, completed.new, completed.unregistered) == (("a",), ("more",), ("other",))

        await scheduler.initialize([host.task(cron=cron, delay=2 * SHORT), host.task("other", "0 0 29 2 *")])
        await scheduler.stop()
        assert (await read_states(any_url))["a"].retry_delay == 2 * SHORT
        assert len(host.calls) == 3

    run_in_real_time(scenario, any_url)


@pytest.mark.chaos
def test_a_task_whose_process_was_killed_starts_again_at_once(any_url: str) -> None:
    async def scenario(host: SchedulerHost) -> None:
        cron = await wait_for_cron_of_this_minute()
        command = [sys.executable, "-m", "tests.declarative.killed_process", any_url, cron]
        victim = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT)  # noqa: ASYNC220
        try:
            assert victim.stdout is not None
            assert {victim.stdout.readline(), victim.stdout.readline()} == {"started\n", "done\n"}
            while (await read_states(any_url))["done"].last_success_at is None:  # noqa: ASYNC110
                await asyncio.sleep(0.05)
            victim.send_signal(signal.SIGKILL)
            victim.wait()
        finally:
            victim.kill()
            victim.communicate()
        hour = timedelta(hours=1)
        scheduler = host.scheduler()
        killed = time.monotonic()
        await scheduler.initialize([host.task("stuck", cron, delay=hour), host.task("done", cron, delay=hour)])
        await wait_until(lambda: "TaskRunCompleted" in host.event_names())
        assert time.monotonic() - killed < 15  # a node is taken for dead after 30 s
        await scheduler.stop()
        [completed] = [e for e in host.events if isinstance(e, SchedulerInitializationCompleted)]
        assert (completed.orphaned, completed.preserved) == (("stuck",), ("done",))
        assert [name for name, _ in host.calls] == ["stuck"]
        state = (await read_states(any_url))["stuck"]
        assert state.last_success_at is not None
        assert state.pending_retry_until is None

    run_in_real_time(scenario, any_url)


@pytest.mark.chaos
def test_a_process_killed_while_overriding_leaves_all_changes_or_none(any_url: str) -> None:
    rng, generation = random.Random(7), 0
    for _ in range(8):
        command = [sys.executable, "-m", "tests.declarative.override_process", any_url, str(generation)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT) as program:
            assert program.stdout is not None
            written = int(program.stdout.readline())
            time.sleep(rng.uniform(0, 0.3))
            program.kill()
            written = max([written, *(int(line) for line in program.stdout if line.endswith("\n"))])
        states = asyncio.run(read_states(any_url))
        [delay] = {state.retry_delay for name, state in states.items() if name.startswith("task ")}
        generation = int(delay.total_seconds())
        assert written <= generation <= written + 1
        assert f"only {generation}" in states
        assert f"only {generation + 1}" not in states


@pytest.mark.slow
def test_two_processes_with_the_same_tasks_share_them(any_url: str) -> None:
    """Neither takes over a running task of the other."""

    async def scenario(host: SchedulerHost) -> None:
        cron = await wait_for_cron_of_this_minute()
        first, second = host.scheduler(), host.scheduler()
        await first.initialize([host.task(cron=cron, takes_s=1)])
        await wait_until(lambda: bool(host.calls))
        await second.initialize([host.task(cron=cron, takes_s=1)])
        await asyncio.sleep(1.5)
        await asyncio.gather(first.stop(), second.stop())
        assert len(host.calls) == 1
        completed = [e for e in host.events if isinstance(e, SchedulerInitializationCompleted)]
        assert [event.orphaned for event in completed] == [(), ()]

    run_in_real_time(scenario, any_url)


@pytest.mark.slow
def test_the_next_minute_preempts_a_retry(any_url: str) -> None:
    async def scenario(host: SchedulerHost) -> None:
        scheduler = Scheduler(any_url, timezone="UTC", on_event=host.events.append)
        await wait_until(lambda: 50 <= datetime.now(UTC).second < 55)
        await scheduler.initialize([host.task(delay=timedelta(hours=1), fails=[True])])
        await wait_until(lambda: "TaskRunCompleted" in host.event_names())
        await scheduler.stop()
        names = [line.split()[1] for line in host.task_history()]
        assert names == ["TaskRunStarted", "TaskRunFailed", "TaskRetryPreempted", "TaskRunStarted", "TaskRunCompleted"]
        assert host.calls[1][1].second < 20  # at the start of the minute, not when other work is due

    run_in_real_time(scenario, any_url)
