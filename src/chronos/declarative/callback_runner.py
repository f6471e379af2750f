"""The runner of the declarative scheduler: calls callbacks, tracks the state of each task, and emits events.

::

    AwaitingRun ──► Running ──► AwaitingRun             TaskRunStarted, TaskRunCompleted
                       └──────► AwaitingRetry           TaskRunFailed
    AwaitingRetry ──► Running                           TaskRetryStarted
    AwaitingRetry ──► AwaitingRun ──► Running           TaskRetryPreempted, TaskRunStarted

A callback is never interrupted: neither a stop nor a cancellation is passed on to it. So an occurrence that comes while
the callback runs waits for its end, and ``stop`` waits as long as it takes. If the store gives this process the same
run again meanwhile (its node was taken for dead), both wait for the same call.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from datetime import timedelta
from typing import Any, NamedTuple

from chronos.clock import Clock
from chronos.core.calendar import from_us
from chronos.core.outcome import Failed, Outcome, Succeeded, Waits
from chronos.core.schedule.occurrences import last_us
from chronos.declarative.events import (
    EventEmitter,
    TaskRetryPreempted,
    TaskRetryStarted,
    TaskRunCompleted,
    TaskRunFailed,
    TaskRunStarted,
    describe_error,
)
from chronos.declarative.reconcile import DesiredTask
from chronos.declarative.registration import Callback
from chronos.declarative.task_jobs import NAMESPACE
from chronos.runners.contract import AttemptCall

LAST_SUCCESS = "last_success_us"  # in the record of a failed attempt
COVERED = "covered_by_us"  # in the result of an occurrence that needed no call
REGISTERED = "registered"  # the signal for runs whose task is not registered in this process


class PendingCallback(NamedTuple):
    """A pending retry of an earlier process."""

    until_us: int
    called_us: int  # when the failed call started


#: Finds in the records when the task of a job last succeeded.
FindLastSuccess = Callable[[bytes], Awaitable[int | None]]


class _Task:
    """The state of one task in this process."""

    __slots__ = (
        "callback",
        "called_us",
        "delay_us",
        "error",
        "last_attempt_us",
        "last_success_us",
        "looked_up_success",
        "pending_us",
        "running",
        "schedule",
    )

    def __init__(self, desired: DesiredTask, pending: PendingCallback | None) -> None:
        self.callback: Callback = desired.registration.callback
        self.delay_us = desired.registration.retry_delay_us
        self.schedule = desired.schedule
        self.pending_us = pending and pending.until_us  # AwaitingRetry until then; None: no retry is pending
        self.called_us = pending and pending.called_us  # the start of the last call, in any process
        self.last_attempt_us: int | None = None  # in this process
        self.last_success_us: int | None = None
        self.looked_up_success = False  # whether the records were searched for the last success
        self.error = ""
        self.running: tuple[bytes, asyncio.Task[Outcome]] | None = None  # the execution, and its call

    def find_due_us(self, now_us: int) -> int | None:
        """While a retry is pending: the latest occurrence since the last call, if there is one."""
        assert self.called_us is not None
        first_us = self.schedule.next_us(self.called_us)
        return None if first_us is None or first_us > now_us else last_us(self.schedule, first_us, now_us)


class CallbackRunner:
    """Runs the callbacks of the registered tasks. ``pending`` has the pending retries of earlier processes."""

    def __init__(
        self,
        desired_tasks: Iterable[DesiredTask],
        pending: Mapping[str, PendingCallback],
        find_last_success: FindLastSuccess,
        clock: Clock,
        emitter: EventEmitter,
    ) -> None:
        names = ((desired, desired.registration.name) for desired in desired_tasks)
        self._tasks = {name: _Task(desired, pending.get(name)) for desired, name in names}
        self._find_last_success, self._clock, self._emitter = find_last_success, clock, emitter
        self._running: set[asyncio.Task[Outcome]] = set()

    def check(self, options: Mapping[str, Any]) -> None:
        """No-op: ``initialize`` checked the registrations."""

    @property
    def is_in_callback(self) -> bool:
        """Whether a callback is the caller."""
        return asyncio.current_task() in self._running

    async def run(self, call: AttemptCall) -> Outcome:
        """Call the callback of a task, and return its outcome."""
        task = self._tasks.get(call.job_name) if call.namespace == NAMESPACE else None
        if task is None:
            return Waits(signal=REGISTERED, resumes=True)
        while task.running is not None:
            execution, running = task.running
            await _wait_to_end(running)
            if execution == call.execution:
                return running.result()
        if call.number == 1 and task.last_attempt_us is not None and task.last_attempt_us >= call.scheduled_us:
            return _to_covered_outcome(task, task.last_attempt_us, self._clock.now_us())
        running = asyncio.ensure_future(self._call(task, call))
        self._running.add(running)
        task.running = (call.execution, running)
        await _wait_to_end(running)
        return running.result()

    async def close(self) -> None:
        """No-op: nothing is kept between calls."""

    def _emit_start(self, task: _Task, call: AttemptCall) -> None:
        """Emit the events of a start. A due occurrence preempts a retry, even if the store woke the retry first."""
        at, name, occurrence_us = from_us(call.started_us), call.job_name, call.scheduled_us
        if task.pending_us is not None:
            if call.number > 1:
                due_us = task.find_due_us(call.started_us)
                if due_us is None:
                    late = at - from_us(min(task.pending_us, call.started_us))
                    self._emitter.emit(TaskRetryStarted(at=at, task=name, attempt=call.number, late=late))
                    return
                occurrence_us = due_us
            self._emitter.emit(TaskRetryPreempted(at=at, task=name))
        occurrence = from_us(occurrence_us)
        self._emitter.emit(TaskRunStarted(at=at, task=name, occurrence=occurrence, late=at - min(occurrence, at)))

    async def _call(self, task: _Task, call: AttemptCall) -> Outcome:
        """Call the callback and emit its events, in an asyncio task that is never cancelled."""
        current = asyncio.current_task()
        self._emit_start(task, call)
        task.pending_us, task.last_attempt_us, task.called_us = None, call.started_us, call.started_us
        try:
            await task.callback()
            outcome = self._to_success(task, call)
        except (KeyboardInterrupt, GeneratorExit):
            raise  # the program is to end, or its loop is closed
        except BaseException as error:  # noqa: BLE001 - any error is a failure of the callback
            outcome = await self._to_failure(task, call, error)
        finally:
            task.running = None
            if current is not None:
                self._running.discard(current)
        return outcome

    def _to_success(self, task: _Task, call: AttemptCall) -> Outcome:
        task.last_success_us = now_us = self._clock.now_us()
        duration = timedelta(microseconds=max(0, now_us - call.started_us))
        self._emitter.emit(TaskRunCompleted(at=from_us(now_us), task=call.job_name, duration=duration))
        return Succeeded()

    async def _to_failure(self, task: _Task, call: AttemptCall, error: BaseException) -> Outcome:
        now_us = self._clock.now_us()
        task.pending_us = now_us + task.delay_us
        task.error = describe_error(error)
        self._emitter.emit(
            TaskRunFailed(
                at=from_us(now_us),
                task=call.job_name,
                error=error,
                duration=timedelta(microseconds=max(0, now_us - call.started_us)),
                pending_retry_until=from_us(task.pending_us),
            )
        )
        if task.last_success_us is None and not task.looked_up_success:
            task.looked_up_success = True
            task.last_success_us = await self._find_last_success(call.job)
        if task.last_success_us is not None:
            call.detail[LAST_SUCCESS] = task.last_success_us
        return Failed(error=task.error, kinds=(type(error).__name__,), retry_after_us=task.delay_us)


async def _wait_to_end(running: asyncio.Task[Outcome]) -> None:
    """Wait until a callback ends, even if the waiter is cancelled."""
    while not running.done():
        try:
            await asyncio.wait([running])
        except asyncio.CancelledError:
            continue


def _to_covered_outcome(task: _Task, attempt_us: int, now_us: int) -> Outcome:
    """The outcome of an occurrence that the last call covers: a retry started in the same minute, before it.

    If that call failed, the task still waits for its retry.
    """
    if task.pending_us is not None:
        return Failed(error=task.error, retry_after_us=max(0, task.pending_us - now_us))
    return Succeeded(result={COVERED: attempt_us})
