"""``CallbackRunner`` alone: a run given twice, and a run of an unregistered task."""

import asyncio
from datetime import timedelta
from typing import Any

from chronos.core.outcome import Succeeded, Waits
from chronos.declarative.callback_runner import REGISTERED, CallbackRunner
from chronos.declarative.events import EventEmitter, SchedulerEvent
from chronos.declarative.reconcile import to_desired_tasks
from chronos.declarative.registration import read_registrations
from chronos.declarative.task_jobs import NAMESPACE
from chronos.runners.contract import AttemptCall, StopReason
from chronos.testing.clock import VirtualClock
from chronos.testing.loop import run


class NoOutput:
    """A sink that refuses output."""

    def write(self, text: str) -> None:
        raise AssertionError(text)

    def progress(self, done: float, total: float | None) -> None:
        raise AssertionError(done)


def make_call(clock: VirtualClock, execution: bytes, **changes: Any) -> AttemptCall:
    now_us = clock.now_us()
    defaults: dict[str, Any] = {"job_name": "a", "namespace": NAMESPACE, "number": 1, "scheduled_us": now_us}
    return AttemptCall(
        execution=execution,
        job=bytes(16),
        task="callback",
        token=1,
        started_us=now_us,
        deadline_us=None,
        last_run_us=None,
        options={},
        sink=NoOutput(),
        **{**defaults, **changes},
    )


def make_runner(
    clock: VirtualClock, takes_s: float, calls: list[float], events: list[SchedulerEvent]
) -> CallbackRunner:
    async def work() -> None:
        calls.append(clock.loop.time())
        await asyncio.sleep(takes_s)

    async def find_last_success(job: bytes) -> int | None:
        return None

    [registration] = read_registrations([("a", "* * * * *", work, timedelta(0))])
    return CallbackRunner(
        to_desired_tasks([registration], "UTC", clock.now_us()),
        {},
        find_last_success,
        clock,
        EventEmitter(events.append),
    )


def test_a_run_given_twice_is_called_once() -> None:
    async def main() -> None:
        clock, calls, events = VirtualClock(), list[float](), list[SchedulerEvent]()
        runner = make_runner(clock, 100, calls, events)
        first = asyncio.create_task(runner.run(make_call(clock, b"1" * 16)))
        await asyncio.sleep(10)
        again = asyncio.create_task(runner.run(make_call(clock, b"1" * 16, number=2)))
        other = asyncio.create_task(runner.run(make_call(clock, b"2" * 16)))
        assert list(await asyncio.gather(first, again, other)) == [Succeeded()] * 3
        assert calls == [0, 100]

    run(main())


def test_neither_a_stop_nor_a_cancellation_ends_a_callback() -> None:
    async def main() -> None:
        clock, calls, events = VirtualClock(), list[float](), list[SchedulerEvent]()
        runner = make_runner(clock, 100, calls, events)
        attempt = make_call(clock, b"1" * 16)
        running = asyncio.create_task(runner.run(attempt))
        for _ in range(3):
            await asyncio.sleep(10)
            attempt.stop.request(StopReason.CANCELED)
            running.cancel()
        assert await running == Succeeded()
        assert clock.loop.time() == 100

    run(main())


def test_a_run_of_an_unregistered_task_waits() -> None:
    async def main() -> None:
        clock = VirtualClock()
        runner = make_runner(clock, 0, [], [])
        waits = Waits(signal=REGISTERED, resumes=True)
        assert await runner.run(make_call(clock, b"1" * 16, job_name="b")) == waits
        assert await runner.run(make_call(clock, b"1" * 16, namespace="other")) == waits

    run(main())
