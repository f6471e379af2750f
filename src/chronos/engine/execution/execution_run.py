"""One execution on this node, from its claim until it is settled or put to sleep.

::

    claimed ─► first step ─► follow: start · cancel · record ─► wait: an outcome, a time, a word from outside ─► step …
                                      └─► asleep: suspend      └─► end: settle

Every decision is the core's (``settle``). The claim has recorded the start of what runs first; tasks that start later
are recorded before they begin. Most executions are one task that succeeds at its first try: these take the fast path
(``fast_path``) and come here only when they turn out otherwise.
"""

import asyncio
from collections.abc import Coroutine
from typing import Any

from msgspec.structs import replace

from chronos.core.execution import TaskStatus
from chronos.core.execution_detail import NO_DETAIL, RecordedTask, read_detail
from chronos.core.ids import attempt_id
from chronos.core.job import Target
from chronos.core.outcome import Outcome, Succeeded
from chronos.core.reasons import ReasonCode
from chronos.core.settle import Start, Step, apply_outcome, begin, stop, wake_tasks
from chronos.core.task_group import TaskGroup
from chronos.engine.execution.attempt import AttemptRun, run_attempt
from chronos.engine.execution.call_builder import FORCE_AT_SHUTDOWN_S, build_attempt_call
from chronos.engine.execution.recorder import ExecutionRecorder
from chronos.engine.job_catalog import CatalogEntry
from chronos.engine.node_clock import JUMP_US, ClockDrift
from chronos.engine.node_context import NodeContext
from chronos.runners.contract import AttemptCall, StopReason
from chronos.store.commands import Claimed

ON_START = "on_start"  # as a task's name: the hook before the first task


class ExecutionRun:
    """An execution that this node holds."""

    def __init__(self, crew: NodeContext, claimed: Claimed, entry: CatalogEntry) -> None:
        self.claimed, self.entry = claimed, entry
        self._crew = crew
        self._recorder = ExecutionRecorder(crew, claimed, entry)
        self._detail = NO_DETAIL
        self._group: TaskGroup | None = None
        self._calls: dict[str, AttemptCall] = {}
        self._attempts: dict[str, AttemptRun] = {}
        self._stop: tuple[ReasonCode, str | None] | None = None
        self._wake_future: asyncio.Future[None] | None = None
        self._deadline_s: float | None = None
        self._begun = False
        self._starts = 0  # of attempts and hooks under this claim
        self._drift = ClockDrift(0, 0.0)  # from step to step
        self.task: asyncio.Task[None] | None = None  # the one that drives it

    # --- from outside

    async def drive(self) -> None:
        """Work on it until it is settled, asleep or given back."""
        await self._drive(self._first())

    async def drive_after_fast_path(
        self, call: AttemptCall, outcome: Outcome, stopped: tuple[ReasonCode, str | None] | None
    ) -> None:
        """Go on with one whose first and only attempt has ended already."""
        self._stop = stopped or self._stop
        await self._drive(self._after_fast_path(call, outcome))

    async def _drive(self, first: Coroutine[Any, Any, Step | None]) -> None:
        try:
            step = await first
            while step is not None:
                step = await self._follow(step)
        finally:
            if self._attempts:
                await self._end_by_force()

    def stop(self, code: ReasonCode, message: str | None = None) -> None:
        """All of it is to end: canceled, replaced, its job deleted. The first word counts."""
        if self._stop is not None:
            return
        self._stop = (code, message)
        self._wake_up()

    def announce_shutdown(self) -> None:
        """The node shuts down; the work may finish within the grace period."""
        for call in self._calls.values():
            call.stopping.ask(StopReason.SHUTDOWN)
        self._wake_up()

    def stop_for_shutdown(self) -> None:
        """The grace period is over: it is stopped, and given back."""
        for call in self._calls.values():
            call.grace_s = min(call.grace_s, FORCE_AT_SHUTDOWN_S)
            call.stop.ask(StopReason.SHUTDOWN)

    def kill(self) -> None:
        """It is not this node's any more: end it by force, and settle nothing."""
        if self.task is not None:
            self.task.cancel()

    # --- the first step

    async def _first(self) -> Step | None:
        entry, detail = self.entry, read_detail(self.claimed.detail)
        self._detail, self._group = detail, detail.group
        if entry.spec.on_start is not None and not detail.greeted:
            await self._greet(entry.spec.on_start)
        now_us = self._crew.clock.now_us()
        if self._group is None:
            return begin(entry.layout, now_us, done=detail.carried or {})
        return self._woken(self._group, now_us)

    async def _after_fast_path(self, call: AttemptCall, outcome: Outcome) -> Step | None:
        self._detail, self._starts = read_detail(self.claimed.detail), 1
        layout, started_us = self.entry.layout, call.started_us
        self._group = begin(layout, started_us).group
        if self._stop is not None:
            self._group = stop(layout, self._group, self._stop[0], started_us, self._stop[1]).group
        self._begun = True
        return await self._ended(call, outcome)

    async def _greet(self, target: Target) -> None:
        """``on_start``, before the first task. Whatever comes of it, the execution goes on."""
        call = self._call(ON_START, 1, target)
        outcome = await run_attempt(self._crew, call, target.kind, self._timeout_us(ON_START))
        self._recorder.record(call, outcome)
        self._detail = replace(self._detail, greeted=True)
        del self._calls[ON_START]

    def _woken(self, group: TaskGroup, now_us: int) -> Step:
        """It slept: what it waited for may have come. A signal is used up, and remembered by the function it woke."""
        came, memory = dict(self._detail.signals), dict(self._detail.memory)
        step = wake_tasks(self.entry.layout, group, now_us, came)
        for task in group.tasks:
            if task.status is TaskStatus.WAITING and task.signal is not None and task.signal in came:
                if task.resumes and memory.get(task.name):
                    *before, pending = memory[task.name]
                    memory[task.name] = (*before, _record_signal_payload(pending, came[task.signal]))
                del came[task.signal]
        self._detail = replace(self._detail, memory=memory, signals=came)
        return step

    # --- steps

    async def _follow(self, step: Step) -> Step | None:
        self._group = step.group
        self._drift = ClockDrift(self._crew.clock.now_us(), asyncio.get_running_loop().time())
        if step.end is not None:
            self._recorder.finish(self._detail, step.group, step.end)
            return None
        if step.asleep:
            await self._recorder.sleep(self._detail, step)
            return None
        for name in step.cancel:
            call = self._calls[name]
            if step.group.stop is ReasonCode.EXECUTION_TIMEOUT:
                call.stop.late = True
                call.grace_s = call.timeout_grace_s
            call.stop.ask(StopReason.CANCELED)
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
            left_us = step.deadline_us - self._crew.clock.now_us()
            self._deadline_s = asyncio.get_running_loop().time() + left_us / 1e6
        return await self._next(step)

    async def _next(self, step: Step) -> Step | None:
        """Wait until something happens, and decide about it."""
        loop, layout, group = asyncio.get_running_loop(), self.entry.layout, step.group
        deadline_s = self._deadline_s if group.stop is None else None
        wake_s = None
        if step.wake_us is not None:
            wake_s = loop.time() + (step.wake_us - self._crew.clock.now_us()) / 1e6
        while True:
            self._wake_future = loop.create_future()
            if self._crew.closing:
                wake_s = None  # for whoever goes on
            until_s = [at_s for at_s in (deadline_s, wake_s) if at_s is not None]
            timeout_s = max(0.0, min(until_s) - loop.time()) if until_s else None
            if (self._stop is None or group.stop is not None) and not any(a.over for a in self._attempts.values()):
                await asyncio.wait((self._wake_future,), timeout=timeout_s)
            now_us = self._crew.clock.now_us()
            if (by_us := self._drift.measure_jump_us(now_us, loop.time())) > JUMP_US:
                group = self._group = group.shift(by_us)
            if self._stop is not None and group.stop is None:
                return stop(layout, group, self._stop[0], now_us, self._stop[1])
            for name, attempt in self._attempts.items():
                if attempt.over:
                    del self._attempts[name]
                    if attempt.outcome is None:
                        raise asyncio.CancelledError  # with the loop that ran it
                    return await self._ended(self._calls.pop(name), attempt.outcome)
            if deadline_s is not None and loop.time() >= deadline_s:
                return stop(layout, group, ReasonCode.EXECUTION_TIMEOUT, now_us)
            if wake_s is not None and step.wake_us is not None and loop.time() >= wake_s:
                return wake_tasks(layout, group, max(now_us, step.wake_us))

    async def _ended(self, call: AttemptCall, outcome: Outcome) -> Step | None:
        """An attempt is over; None: so is the execution, and it is settled."""
        if call.memory:
            self._detail = replace(self._detail, memory={**self._detail.memory, call.task: tuple(call.memory)})
        step = self._decide_after(call, outcome)
        if call.statements and isinstance(outcome, Succeeded):
            refused = await self._recorder.commit(call, outcome, self._detail, step)
            if refused is None:
                return None if step.end is not None else step
            outcome, step = refused, self._decide_after(call, refused)
        self._recorder.record(call, outcome)
        return step

    def _decide_after(self, call: AttemptCall, outcome: Outcome) -> Step:
        assert self._group is not None
        tried = attempt_id(call.execution, call.task, call.number)
        now_us = self._crew.clock.now_us()
        return apply_outcome(
            self.entry.layout, self._group, call.task, outcome, now_us, tried, closing=self._crew.closing
        )

    def _wake_up(self) -> None:
        if self._wake_future is not None and not self._wake_future.done():
            self._wake_future.set_result(None)

    async def _end_by_force(self) -> None:
        """The work is no longer this node's, or the node goes down: nothing of it may be left."""
        for attempt in self._attempts.values():
            attempt.kill()
        for attempt in self._attempts.values():
            await attempt.wait()

    # --- attempts

    def _start_attempt(self, start: Start) -> None:
        target = self.entry.target(start.task)
        call = self._call(start.task, start.number, target)
        timeout_us = self._timeout_us(start.task)
        attempt = AttemptRun(self._crew, call, target.kind, timeout_us, lambda _: self._wake_up())
        self._attempts[start.task] = attempt
        attempt.start()

    def _call(self, task: str, number: int, target: Target) -> AttemptCall:
        call = self._calls[task] = build_attempt_call(
            self._crew,
            self.claimed,
            self.entry,
            self._detail,
            target,
            task=task,
            number=number,
            timeout_us=self._timeout_us(task),
            starts=self._starts,
        )
        self._starts += 1
        return call

    def _timeout_us(self, task: str) -> int:
        if task == ON_START:
            return self.entry.effective.task_timeout_us
        return self.entry.layout.tasks[self.entry.layout.index_of(task)].effective.task_timeout_us


def _record_signal_payload(pending: RecordedTask, payload: object) -> RecordedTask:
    return replace(pending, done=True, value=payload)
