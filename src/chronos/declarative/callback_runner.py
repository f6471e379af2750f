"""The runner of the declarative scheduler: it calls callbacks, knows where each task stands, and tells what happens.

::

    AwaitingRun ──► Running ──► AwaitingRun             TaskRunStarted, TaskRunCompleted
                       └──────► AwaitingRetry           TaskRunFailed
    AwaitingRetry ──► Running                           TaskRetryStarted
    AwaitingRetry ──► AwaitingRun ──► Running           TaskRetryPreempted, TaskRunStarted

Nobody ends a callback but itself: being asked to stop, and being cancelled, is not passed on. So an occurrence that
comes while a callback runs waits for its end, and ``stop`` waits as long as it takes. Should the store give a run to
this process a second time while it is under way (its node was thought dead), it is not called twice, but shared.
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
    in_words,
)
from chronos.declarative.reconcile import DesiredTask
from chronos.declarative.registration import Callback
from chronos.declarative.task_jobs import NAMESPACE
from chronos.runners.contract import AttemptCall

LAST_SUCCESS = "last_success_us"  # in the record of a try that failed
COVERED = "covered_by_us"  # in the result of an occurrence that needed no call
REGISTERED = "registered"  # the signal that a run waits for whose task this process does not have


class PendingCallback(NamedTuple):
    """A retry that waits, from before."""

    until_us: int
    called_us: int  # when the call began that failed


#: When a job's task last succeeded, as the records say.
Recall = Callable[[bytes], Awaitable[int | None]]


class _Task:
    """Where one task stands in this process."""

    __slots__ = (
        "callback",
        "called_us",
        "delay_us",
        "error",
        "last_attempt_us",
        "last_success_us",
        "pending_us",
        "recalled",
        "schedule",
        "under_way",
    )

    def __init__(self, want: DesiredTask, pending: PendingCallback | None) -> None:
        self.callback: Callback = want.registration.callback
        self.delay_us = want.registration.retry_delay_us
        self.schedule = want.schedule
        self.pending_us = pending and pending.until_us  # AwaitingRetry until then
        self.called_us = pending and pending.called_us  # and failed when it was called then, here or elsewhere
        self.last_attempt_us: int | None = None  # here
        self.last_success_us: int | None = None
        self.recalled = False  # whether the records were asked for the last success
        self.error = ""
        self.under_way: tuple[bytes, asyncio.Task[Outcome]] | None = None  # the execution it is called for

    def due_us(self, now_us: int) -> int | None:
        """While it awaits a retry: the latest occurrence that has come since it was called."""
        assert self.called_us is not None
        first_us = self.schedule.next_us(self.called_us)
        return None if first_us is None or first_us > now_us else last_us(self.schedule, first_us, now_us)


class CallbackRunner:
    """See the module. ``pending`` says which tasks await a retry from before."""

    def __init__(
        self,
        wants: Iterable[DesiredTask],
        pending: Mapping[str, PendingCallback],
        recall: Recall,
        clock: Clock,
        teller: EventEmitter,
    ) -> None:
        names = ((want, want.registration.name) for want in wants)
        self._tasks = {name: _Task(want, pending.get(name)) for want, name in names}
        self._recall, self._clock, self._teller = recall, clock, teller
        self._running: set[asyncio.Task[Outcome]] = set()

    def check(self, options: Mapping[str, Any]) -> None:
        """Registrations have been looked at when they were given."""

    @property
    def inside(self) -> bool:
        """Whether this is asked by a callback itself."""
        return asyncio.current_task() in self._running

    async def run(self, call: AttemptCall) -> Outcome:
        """Call the callback of a task, and say what came of it."""
        task = self._tasks.get(call.job_name) if call.namespace == NAMESPACE else None
        if task is None:
            return Waits(signal=REGISTERED, resumes=True)
        while task.under_way is not None:
            execution, running = task.under_way
            await _patiently(running)
            if execution == call.execution:
                return running.result()
        if call.number == 1 and task.last_attempt_us is not None and task.last_attempt_us >= call.scheduled_us:
            return _covered(task, task.last_attempt_us, self._clock.now_us())
        running = asyncio.ensure_future(self._make(task, call))
        self._running.add(running)
        task.under_way = (call.execution, running)
        await _patiently(running)
        return running.result()

    async def close(self) -> None:
        """Nothing is kept between calls."""

    def _tell_start(self, task: _Task, call: AttemptCall) -> None:
        """An occurrence that is due goes before a retry, also where the store was quicker to wake the retry."""
        at, name, occurrence_us = from_us(call.started_us), call.job_name, call.scheduled_us
        if task.pending_us is not None:
            if call.number > 1:
                due_us = task.due_us(call.started_us)
                if due_us is None:
                    late = at - from_us(min(task.pending_us, call.started_us))
                    self._teller.tell(TaskRetryStarted(at=at, task=name, attempt=call.number, late=late))
                    return
                occurrence_us = due_us
            self._teller.tell(TaskRetryPreempted(at=at, task=name))
        occurrence = from_us(occurrence_us)
        self._teller.tell(TaskRunStarted(at=at, task=name, occurrence=occurrence, late=at - min(occurrence, at)))

    async def _make(self, task: _Task, call: AttemptCall) -> Outcome:
        """One call, from its first event to its last, in a task that nobody here cancels."""
        current = asyncio.current_task()
        self._tell_start(task, call)
        task.pending_us, task.last_attempt_us, task.called_us = None, call.started_us, call.started_us
        try:
            await task.callback()
            outcome = self._succeeded(task, call)
        except (KeyboardInterrupt, GeneratorExit):
            raise  # somebody wants the program to end, or its loop is gone
        except BaseException as error:  # noqa: BLE001 - its failure, whatever it is
            outcome = await self._failed(task, call, error)
        finally:
            task.under_way = None
            if current is not None:
                self._running.discard(current)
        return outcome

    def _succeeded(self, task: _Task, call: AttemptCall) -> Outcome:
        task.last_success_us = now_us = self._clock.now_us()
        duration = timedelta(microseconds=max(0, now_us - call.started_us))
        self._teller.tell(TaskRunCompleted(at=from_us(now_us), task=call.job_name, duration=duration))
        return Succeeded()

    async def _failed(self, task: _Task, call: AttemptCall, error: BaseException) -> Outcome:
        now_us = self._clock.now_us()
        task.pending_us = now_us + task.delay_us
        task.error = in_words(error)
        self._teller.tell(
            TaskRunFailed(
                at=from_us(now_us),
                task=call.job_name,
                error=error,
                duration=timedelta(microseconds=max(0, now_us - call.started_us)),
                pending_retry_until=from_us(task.pending_us),
            )
        )
        if task.last_success_us is None and not task.recalled:
            task.recalled = True
            task.last_success_us = await self._recall(call.job)
        if task.last_success_us is not None:
            call.detail[LAST_SUCCESS] = task.last_success_us
        return Failed(error=task.error, kinds=(type(error).__name__,), retry_after_us=task.delay_us)


async def _patiently(running: asyncio.Task[Outcome]) -> None:
    """Wait for a callback's end, whoever wants to end it before."""
    while not running.done():
        try:
            await asyncio.wait([running])
        except asyncio.CancelledError:
            continue


def _covered(task: _Task, attempt_us: int, now_us: int) -> Outcome:
    """An occurrence that is not after the last call has had its run: a retry began in the same minute, before it.

    Where that call failed the task goes on waiting for its retry.
    """
    if task.pending_us is not None:
        return Failed(error=task.error, retry_after_us=max(0, task.pending_us - now_us))
    return Succeeded(result={COVERED: attempt_us})
