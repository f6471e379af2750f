"""ExecutionRun: one execution on this node, from its claim until it is settled or suspended.

::

    claimed ─► first step ─► follow: start · cancel · record ─► wait: an outcome, a time, a request ─► step …
                                      └─► asleep: suspend      └─► end: settle

The core makes every decision (``settle``). The claim records the start of the first tasks; tasks that start later are
recorded before they start. Most executions are one task that succeeds at its first attempt: these take the fast path
(``fast_path``) and become an ExecutionRun only if something else happens.
"""

import asyncio
from collections.abc import Coroutine
from typing import Any

from msgspec.structs import replace

from chronos.core.config import EffectiveSettings
from chronos.core.execution import TaskStatus
from chronos.core.execution_detail import NO_DETAIL, RecordedTask, read_detail
from chronos.core.job import Target
from chronos.core.outcome import Outcome, Succeeded
from chronos.core.reasons import ReasonCode
from chronos.core.retry_policy import attempt_timeout_us, timeout_factor
from chronos.core.settle import Start, Step, apply_outcome, begin, stop, wake_tasks
from chronos.core.task_group import TaskGroup
from chronos.engine.execution.attempt import AttemptRun, run_attempt
from chronos.engine.execution.call_builder import FORCE_AT_SHUTDOWN_S, build_attempt_call, build_on_start_call
from chronos.engine.execution.recorder import EXPIRED_END, ExecutionRecorder
from chronos.engine.job_catalog import CatalogEntry
from chronos.engine.node_clock import JUMP_US, ClockDrift
from chronos.engine.node_context import NodeContext
from chronos.runners.contract import AttemptCall, StopReason
from chronos.store.commands import Claimed

ON_START = "on_start"  # the task name of the hook that runs before the first task


class ExecutionRun:
    """An execution that this node holds."""

    def __init__(self, context: NodeContext, claimed: Claimed, entry: CatalogEntry) -> None:
        self.claimed, self.entry = claimed, entry
        self._context = context
        self._recorder = ExecutionRecorder(context, claimed, entry)
        self._detail = NO_DETAIL
        self._group: TaskGroup | None = None
        self._calls: dict[str, AttemptCall] = {}
        self._attempts: dict[str, AttemptRun] = {}
        self._stop_request: tuple[ReasonCode, str | None] | None = None
        self._wake_future: asyncio.Future[None] | None = None
        self._deadline_s: float | None = None
        self._begun = False
        self._starts = 0  # attempts and hooks started under this claim
        self._drift = ClockDrift(0, 0.0)  # measured from step to step
        self.task: asyncio.Task[None] | None = None  # runs drive()

    # --- called by the executor

    async def drive(self) -> None:
        """Work on the execution until it is settled, suspended or released."""
        await self._drive(self._first_step())

    async def drive_after_fast_path(
        self, call: AttemptCall, outcome: Outcome, stop_request: tuple[ReasonCode, str | None] | None
    ) -> None:
        """Continue an execution whose first and only attempt has already ended."""
        self._stop_request = stop_request or self._stop_request
        await self._drive(self._after_fast_path(call, outcome))

    async def _drive(self, first: Coroutine[Any, Any, Step | None]) -> None:
        try:
            step = await first
            while step is not None:
                step = await self._follow_step(step)
        finally:
            if self._attempts:
                await self._kill_attempts()

    def stop(self, code: ReasonCode, message: str | None = None) -> None:
        """Stop the execution (canceled, replaced, job deleted); the first reason counts."""
        if self._stop_request is not None:
            return
        self._stop_request = (code, message)
        self._wake_up()

    def announce_shutdown(self) -> None:
        """Tell the work that the node shuts down. It may finish within the grace period."""
        for call in self._calls.values():
            call.stopping.request(StopReason.SHUTDOWN)
        self._wake_up()

    def stop_for_shutdown(self) -> None:
        """Stop the work and release it: the grace period is over."""
        for call in self._calls.values():
            call.grace_s = min(call.grace_s, FORCE_AT_SHUTDOWN_S)
            call.stop.request(StopReason.SHUTDOWN)

    def kill(self) -> None:
        """Kill the work without settling it: the execution no longer belongs to this node."""
        if self.task is not None:
            self.task.cancel()

    # --- the first step

    async def _first_step(self) -> Step | None:
        entry, detail = self.entry, read_detail(self.claimed.detail)
        self._detail, self._group = detail, detail.group
        if self._has_expired():
            self._recorder.skip(EXPIRED_END)
            return None
        if entry.spec.on_start is not None and not detail.greeted:
            await self._run_on_start(entry.spec.on_start)
        now_us = self._context.clock.now_us()
        if self._group is None:
            return begin(entry.layout, now_us, carried=detail.carried, chosen=detail.chosen)
        return self._wake(self._group, now_us)

    def _has_expired(self) -> bool:
        """Whether the execution has not started before, and may no longer start."""
        expires_us, detail = self._detail.expires_us, self._detail
        if expires_us is None or self._group is not None or detail.greeted:
            return False
        return self._context.clock.now_us() >= expires_us

    async def _after_fast_path(self, call: AttemptCall, outcome: Outcome) -> Step | None:
        self._detail, self._starts = read_detail(self.claimed.detail), 1
        layout, started_us = self.entry.layout, call.started_us
        self._group = begin(layout, started_us).group
        if self._stop_request is not None:
            self._group = stop(layout, self._group, self._stop_request[0], started_us, self._stop_request[1]).group
        self._begun = True
        return await self._end_attempt(call, outcome)

    async def _run_on_start(self, target: Target) -> None:
        """Run ``on_start`` before the first task. The execution continues whatever the outcome."""
        call = self._calls[ON_START] = build_on_start_call(
            self._context, self.claimed, self.entry, self._detail, target, task=ON_START
        )
        self._starts += 1
        outcome = await run_attempt(self._context, call, target.kind, self.entry.effective.task_timeout_us)
        self._recorder.record(call, outcome)
        self._detail = replace(self._detail, greeted=True)
        del self._calls[ON_START]

    def _wake(self, group: TaskGroup, now_us: int) -> Step:
        """Return the first step after a sleep.

        A received signal is used up, and stored in the memory of its function.
        """
        signals, memory = dict(self._detail.signals), dict(self._detail.memory)
        step = wake_tasks(self.entry.layout, group, now_us, signals)
        for task in group.tasks:
            if task.status is TaskStatus.WAITING and task.signal is not None and task.signal in signals:
                if task.resumes and memory.get(task.name):
                    *before, pending = memory[task.name]
                    memory[task.name] = (*before, _record_signal_payload(pending, signals[task.signal]))
                del signals[task.signal]
        self._detail = replace(self._detail, memory=memory, signals=signals)
        return step

    # --- steps

    async def _follow_step(self, step: Step) -> Step | None:
        self._group = step.group
        self._drift = ClockDrift(self._context.clock.now_us(), asyncio.get_running_loop().time())
        if step.end is not None:
            self._recorder.finish(self._detail, step.group, step.end)
            return None
        if step.asleep:
            await self._recorder.sleep(self._detail, step)
            return None
        for name in step.cancel:
            call = self._calls[name]
            if step.group.stop is ReasonCode.EXECUTION_TIMEOUT:
                call.stop.overrides_success = True
                call.grace_s = call.timeout_grace_s
            call.stop.request(StopReason.CANCELED)
        if (
            self._begun
            and (step.start or self._recorder.has_unrecorded_attempts)
            and not await self._recorder.advance(self._detail, step.group)
        ):
            return None
        self._begun = True
        for start in step.start:
            self._start_attempt(start)
        if step.deadline_us is not None:
            left_us = step.deadline_us - self._context.clock.now_us()
            self._deadline_s = asyncio.get_running_loop().time() + left_us / 1e6
        return await self._wait_for_step(step)

    async def _wait_for_step(self, step: Step) -> Step | None:
        """Wait for the next event and return the step that follows from it."""
        loop, layout, group = asyncio.get_running_loop(), self.entry.layout, step.group
        deadline_s = self._deadline_s if group.stop is None else None
        wake_s = None
        if step.wake_us is not None:
            wake_s = loop.time() + (step.wake_us - self._context.clock.now_us()) / 1e6
        while True:
            self._wake_future = loop.create_future()
            if self._context.closing:
                wake_s = None  # the node that continues the execution wakes it
            until_s = [at_s for at_s in (deadline_s, wake_s) if at_s is not None]
            timeout_s = max(0.0, min(until_s) - loop.time()) if until_s else None
            if (self._stop_request is None or group.stop is not None) and not any(
                a.is_over for a in self._attempts.values()
            ):
                await asyncio.wait((self._wake_future,), timeout=timeout_s)
            now_us = self._context.clock.now_us()
            if (by_us := self._drift.measure_jump_us(now_us, loop.time())) > JUMP_US:
                group = self._group = group.shift(by_us)
            if self._stop_request is not None and group.stop is None:
                return stop(layout, group, self._stop_request[0], now_us, self._stop_request[1])
            for name, attempt in self._attempts.items():
                if attempt.is_over:
                    del self._attempts[name]
                    if attempt.outcome is None:
                        raise asyncio.CancelledError  # the loop is shutting down
                    return await self._end_attempt(self._calls.pop(name), attempt.outcome)
            if deadline_s is not None and loop.time() >= deadline_s:
                return stop(layout, group, ReasonCode.EXECUTION_TIMEOUT, now_us)
            if wake_s is not None and step.wake_us is not None and loop.time() >= wake_s:
                return wake_tasks(layout, group, max(now_us, step.wake_us))

    async def _end_attempt(self, call: AttemptCall, outcome: Outcome) -> Step | None:
        """Record an ended attempt. Returns None if the execution has been settled with it."""
        if call.memory:
            self._detail = replace(self._detail, memory={**self._detail.memory, call.task: tuple(call.memory)})
        now_us = self._context.clock.now_us()
        step = self._decide_after(call, outcome, now_us)
        if call.statements and isinstance(outcome, Succeeded):
            failure = await self._recorder.commit(call, outcome, self._detail, step)
            if failure is None:
                return None if step.end is not None else step
            now_us = self._context.clock.now_us()
            outcome, step = failure, self._decide_after(call, failure, now_us)
        task = step.group.tasks[self.entry.layout.index_of(call.task)]
        self._recorder.record(call, outcome, backoff_us=task.backoff_us(call.number, now_us))
        return step

    def _decide_after(self, call: AttemptCall, outcome: Outcome, now_us: int) -> Step:
        assert self._group is not None
        return apply_outcome(
            self.entry.layout,
            self._group,
            call.task,
            outcome,
            now_us,
            call.attempt_id,
            closing=self._context.closing,
        )

    def _wake_up(self) -> None:
        if self._wake_future is not None and not self._wake_future.done():
            self._wake_future.set_result(None)

    async def _kill_attempts(self) -> None:
        """Kill running attempts: the execution left this node, or the node stops."""
        for attempt in self._attempts.values():
            attempt.kill()
        for attempt in self._attempts.values():
            await attempt.wait()

    # --- attempts

    def _start_attempt(self, start: Start) -> None:
        target = self.entry.target(start.task)
        call = self._build_call(start.task, start.number, target)
        timeout_us = self._timeout_us(start.task, start.number)
        attempt = AttemptRun(self._context, call, target.kind, timeout_us, lambda _: self._wake_up())
        self._attempts[start.task] = attempt
        attempt.start()

    def _build_call(self, task: str, number: int, target: Target) -> AttemptCall:
        call = self._calls[task] = build_attempt_call(
            self._context,
            self.claimed,
            self.entry,
            self._detail,
            target,
            task=task,
            number=number,
            timeout_us=self._timeout_us(task, number),
            starts=self._starts,
        )
        call.timeout_factor = timeout_factor(self._effective(task), number)
        self._starts += 1
        return call

    def _timeout_us(self, task: str, number: int) -> int:
        return attempt_timeout_us(self._effective(task), number)

    def _effective(self, task: str) -> EffectiveSettings:
        return self.entry.layout.tasks[self.entry.layout.index_of(task)].effective


def _record_signal_payload(pending: RecordedTask, payload: object) -> RecordedTask:
    return replace(pending, done=True, value=payload)
