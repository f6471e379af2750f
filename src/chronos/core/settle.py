"""The life of one execution's tasks, as a state machine without a clock: something happened → what to do next.

::

    begin ─► Step ─► the engine starts, cancels, sleeps ─► ended · tick · put_down · stop ─► Step … ─► end

A ``Step`` carries the new state, to be stored, and either goes on (tasks run, or are to be started), sleeps (nothing
runs: the execution may be suspended until ``wake_us`` or a signal), or ends with a status and a reason.

Retries come first, whatever the strategy. A task that failed for good then counts by its own ``on_failure``:
``continue`` tolerates it, ``fail_fast`` and ``retry`` abort the group. Aborting stops everything but clean-up tasks
(their own setting is ``continue``), which still run in their turn. A stop from outside (somebody cancels, the
execution timeout) is no failure of a task: it stops clean-up tasks too.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, assert_never

from msgspec.structs import replace

from chronos.core.config import Delivery, Mode, OnFailure
from chronos.core.execution import TASK_TRANSITIONS, Status, TaskStatus
from chronos.core.outcome import (
    Canceled,
    Failed,
    Lost,
    Outcome,
    Released,
    Succeeded,
    TimedOut,
    Waits,
    is_worth_retrying,
)
from chronos.core.policy import has_attempts_left, retry_delay_us
from chronos.core.reasons import Reason, ReasonCode
from chronos.core.task_group import STOP_CODES, Layout, StoppedBy, TaskGroup, TaskState

MAX_ERROR = 4_000
_NOTHING: Mapping[str, Any] = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """An attempt to start. ``resumed``: it goes on after a wait, under the number it had."""

    task: str
    number: int
    resumed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class End:
    """How the execution ends."""

    status: Status
    reason: Reason

    @property
    def dead_letter(self) -> bool:
        """Whether it failed for good and somebody should look at it."""
        return self.status in (Status.FAILED, Status.STALE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """What follows from what happened."""

    group: TaskGroup
    start: tuple[Start, ...] = ()
    cancel: tuple[str, ...] = ()  # running tasks to stop; their outcomes are awaited
    wake_us: int | None = None  # when to ``tick``: a retry or a wait comes up
    deadline_us: int | None = None  # when to ``stop`` for the execution timeout, if what runs still does
    asleep: bool = False  # nothing runs: no slot is needed until ``wake_us`` or one of ``signals``
    signals: tuple[str, ...] = ()
    end: End | None = None


def begin(layout: Layout, now_us: int, *, done: Mapping[str, Any] = _NOTHING) -> Step:
    """A new execution starts its first tasks. ``done``: what a replay carries over, tasks and their results."""
    tasks = tuple(
        TaskState(name=plan.name, status=TaskStatus.SUCCEEDED, finished_us=now_us, result=done[plan.name])
        if plan.name in done
        else TaskState(name=plan.name)
        for plan in layout.tasks
    )
    return _StepBuilder(layout, TaskGroup(tasks=tasks, began_us=now_us), now_us).step()


def apply_outcome(
    layout: Layout,
    group: TaskGroup,
    task: str,
    outcome: Outcome,
    now_us: int,
    attempt_id: bytes,
    *,
    closing: bool = False,
) -> Step:
    """The running attempt of a task came to an outcome. Raises ``ValueError`` when the task does not run.

    ``closing``: the node shuts down, so nothing is started here; a step that sleeps may then have to wake at once.
    """
    settling = _StepBuilder(layout, group, now_us)
    settling.ended(layout.index_of(task), outcome, attempt_id)
    return settling.step(start=not closing)


def wake_tasks(layout: Layout, group: TaskGroup, now_us: int, signals: Mapping[str, Any] = _NOTHING) -> Step:
    """Time passed, or signals came (name and payload): what waits for them goes on. Harmless when nothing does."""
    settling = _StepBuilder(layout, group, now_us)
    settling.wake(signals)
    return settling.step()


def end_running_tasks(
    layout: Layout, group: TaskGroup, outcome: Lost | Released, now_us: int, *, alive_us: int | None = None
) -> Step:
    """All that ran was put down with its worker, last seen at ``alive_us``: it died (``Lost``) or shut down.

    Nothing is started, as it is another claim that goes on: the step sleeps with a ``wake_us`` that has come, or ends.
    """
    settling = _StepBuilder(layout, group, now_us, worked_until_us=alive_us)
    for index, task in enumerate(group.tasks):
        if task.status is TaskStatus.RUNNING:
            settling.ended(index, outcome, b"")
    return settling.step(start=False)


def stop(layout: Layout, group: TaskGroup, code: ReasonCode, now_us: int, message: str | None = None) -> Step:
    """All of it is to stop: CANCELED, REPLACED, JOB_DELETED or EXECUTION_TIMEOUT. The first such word counts."""
    if code not in STOP_CODES:
        raise ValueError(f"{code} is no reason to stop an execution")
    settling = _StepBuilder(layout, group, now_us)
    settling.stop(code, message)
    return settling.step()


class _StepBuilder:
    """One event being dealt with: the group thawed, changed task by task, and frozen again."""

    def __init__(self, layout: Layout, group: TaskGroup, now_us: int, *, worked_until_us: int | None = None) -> None:
        if [task.name for task in group.tasks] != [plan.name for plan in layout.tasks]:
            raise ValueError("the group has other tasks than the version of the job it is said to run under")
        self._layout = layout
        self._group = group
        self._tasks = list(group.tasks)
        self._now_us = now_us
        self._until_us = now_us if worked_until_us is None else min(worked_until_us, now_us)
        self._start: list[Start] = []
        self._cancel: list[int] = []

    # --- what happened

    def ended(self, index: int, outcome: Outcome, attempt_id: bytes) -> None:
        task, plan = self._tasks[index], self._layout.tasks[index]
        if task.status is not TaskStatus.RUNNING:
            raise ValueError(f'the task "{task.name}" does not run, so no attempt of it can end')
        worked_us = task.worked_us + self._since(task.attempt_us)
        self._tasks[index] = task = replace(task, worked_us=worked_us, attempt_us=None, lost=isinstance(outcome, Lost))
        if task.stopped_by is not None and not isinstance(outcome, Succeeded):
            self._finish(index, TaskStatus.CANCELED, getattr(outcome, "error", None))
            return
        may_repeat = plan.effective.delivery is not Delivery.AT_MOST_ONCE
        match outcome:
            case Succeeded():
                self._finish(index, TaskStatus.SUCCEEDED, None, outcome.result)
            case Failed() | TimedOut():
                again = may_repeat and has_attempts_left(plan.effective, task.attempts)
                if again and is_worth_retrying(plan.effective, outcome):
                    said_us = outcome.retry_after_us if isinstance(outcome, Failed) else None
                    backoff_us = retry_delay_us(plan.effective, task.attempts, attempt_id)
                    self._retry(index, backoff_us if said_us is None else said_us, outcome.error)
                else:
                    timed_out = isinstance(outcome, TimedOut)
                    self._fail(index, TaskStatus.TIMED_OUT if timed_out else TaskStatus.FAILED, outcome.error)
            case Canceled():
                self._fail(index, TaskStatus.CANCELED, outcome.error)
            case Lost():
                if may_repeat and has_attempts_left(plan.effective, task.attempts):
                    self._retry(index, 0, outcome.error)
                else:
                    self._fail(index, TaskStatus.FAILED, outcome.error)
            case Released():
                if may_repeat:
                    self._retry(index, 0, task.error, attempts=task.attempts - 1)
                else:
                    self._fail(index, TaskStatus.FAILED, outcome.error)
            case Waits():
                self._change(
                    index,
                    TaskStatus.WAITING,
                    wake_us=outcome.until_us,
                    signal=outcome.signal,
                    resumes=outcome.resumes,
                )
            case _:
                assert_never(outcome)

    def wake(self, signals: Mapping[str, Any]) -> None:
        for index, task in enumerate(self._tasks):
            if task.status is not TaskStatus.WAITING:
                continue
            signalled = task.signal is not None and task.signal in signals
            if not signalled and not _is_wake_due(task.wake_us, self._now_us):
                continue
            if task.resumes:
                self._run(index, task.attempts)
            elif signalled or task.signal is None:
                self._finish(index, TaskStatus.SUCCEEDED, None, signals[task.signal] if task.signal else None)
            else:
                self._fail(index, TaskStatus.TIMED_OUT, f'the signal "{task.signal}" did not come in time')

    def stop(self, code: ReasonCode, message: str | None) -> None:
        if self._group.stop is not None:
            return
        self._group = replace(self._group, stop=code, stop_message=message)
        for index in range(len(self._tasks)):
            self._stop_task(index, StoppedBy(code=code))

    # --- what follows

    def step(self, *, start: bool = True) -> Step:
        self._skip_unreachable_tasks()
        if start:
            self._start_ready()
        group = self._frozen()
        if all(task.status.final for task in group.tasks):
            return Step(group=group, end=_decide_end(self._layout, group))
        running = group.busy_us is not None
        waking = [task.wake_us for task in group.tasks if task.wake_us is not None]
        if self._free():  # not started here: for whoever goes on
            waking.append(self._now_us)
        deadline_us = None
        if running and self._layout.execution_timeout_us and group.stop is None:
            deadline_us = self._now_us + max(0, self._layout.execution_timeout_us - group.worked_us)
        return Step(
            group=group,
            start=tuple(self._start),
            cancel=tuple(group.tasks[index].name for index in self._cancel if not group.tasks[index].status.final),
            wake_us=min(waking, default=None),
            deadline_us=deadline_us,
            asleep=not running,
            signals=tuple(dict.fromkeys(task.signal for task in group.tasks if task.signal is not None)),
        )

    def _start_ready(self) -> None:
        for index, task in enumerate(self._tasks):
            if task.status is TaskStatus.RETRYING and _is_wake_due(task.wake_us, self._now_us):
                self._run(index, task.attempts + 1)
        for index in self._free():
            self._run(index, 1)

    def _held(self) -> bool:
        """Under ``retry`` no other task starts while one is between its first failure and its last try."""
        return any(
            plan.effective.on_failure is OnFailure.RETRY
            and not task.status.final
            and (task.status is TaskStatus.RETRYING or task.attempts > 1)
            for plan, task in zip(self._layout.tasks, self._tasks, strict=True)
        )

    def _free(self) -> list[int]:
        """The indexes of tasks that have not started and may: all that they wait for has ended."""
        if self._held():
            return []
        return [
            index
            for index, task in enumerate(self._tasks)
            if task.status is TaskStatus.PENDING
            and all(self._tasks[need].status.final for need in self._layout.tasks[index].waits_for)
        ]

    def _skip_unreachable_tasks(self) -> None:
        """In a graph, what needs something that did not succeed cannot run; and what needs that, neither."""
        if self._layout.mode is not Mode.GRAPH:
            return
        skipped = True
        while skipped:
            skipped = False
            for index, task in enumerate(self._tasks):
                plan = self._layout.tasks[index]
                if task.status is not TaskStatus.PENDING or plan.cleanup:
                    continue
                needs = [self._tasks[need] for need in plan.waits_for]
                without = [need for need in needs if need.status.final and need.status is not TaskStatus.SUCCEEDED]
                if without:
                    by = StoppedBy(code=ReasonCode.UPSTREAM_FAILED, task=without[0].name)
                    self._change(index, TaskStatus.SKIPPED, stopped_by=by)
                    skipped = True

    def _frozen(self) -> TaskGroup:
        group = self._group
        busy = any(task.status is TaskStatus.RUNNING for task in self._tasks)
        return replace(
            group,
            tasks=tuple(self._tasks),
            worked_us=group.worked_us + self._since(group.busy_us),
            busy_us=self._now_us if busy else None,
        )

    def _since(self, us: int | None) -> int:
        """How long something went on; a clock that went back counts as none."""
        return 0 if us is None else max(0, self._until_us - us)

    # --- changes of one task

    def _run(self, index: int, number: int) -> None:
        task = self._tasks[index]
        started_us = self._now_us if task.started_us is None else task.started_us
        resumed = task.status is TaskStatus.WAITING
        self._change(index, TaskStatus.RUNNING, attempts=number, started_us=started_us, attempt_us=self._now_us)
        self._start.append(Start(task=task.name, number=number, resumed=resumed))

    def _retry(self, index: int, delay_us: int, error: str | None, **rest: Any) -> None:
        self._change(index, TaskStatus.RETRYING, wake_us=self._now_us + delay_us, error=_cut(error), **rest)

    def _fail(self, index: int, status: TaskStatus, error: str | None) -> None:
        """Failed for good: what that means for the others is for its own strategy to say."""
        self._finish(index, status, error)
        if self._layout.tasks[index].effective.on_failure is OnFailure.CONTINUE:
            return
        name = self._tasks[index].name
        self._group = replace(self._group, aborted_by=name)
        for other, plan in enumerate(self._layout.tasks):
            if not plan.cleanup:
                self._stop_task(other, StoppedBy(code=ReasonCode.TASK_FAILED, task=name))

    def _stop_task(self, index: int, by: StoppedBy) -> None:
        task = self._tasks[index]
        if task.status.final or task.stopped_by is not None:
            return
        if task.status is TaskStatus.RUNNING:
            self._tasks[index] = replace(task, stopped_by=by)
            self._cancel.append(index)
        elif task.status is TaskStatus.PENDING:
            self._change(index, TaskStatus.SKIPPED, stopped_by=by)
        else:
            self._change(index, TaskStatus.CANCELED, stopped_by=by)

    def _finish(self, index: int, status: TaskStatus, error: str | None, result: Any = None) -> None:
        self._change(index, status, error=_cut(error), result=result)

    def _change(self, index: int, status: TaskStatus, **fields: Any) -> None:
        """The only way from one status to another."""
        task = self._tasks[index]
        if status not in TASK_TRANSITIONS[task.status]:
            raise AssertionError(f"{task.name}: {task.status.name} never becomes {status.name}")
        asleep: dict[str, Any] = {"wake_us": None, "signal": None, "resumes": False}
        if status.final:
            fields["finished_us"] = self._now_us
        self._tasks[index] = replace(task, **{"status": status, **asleep, **fields})


def _is_wake_due(wake_us: int | None, now_us: int) -> bool:
    return wake_us is not None and wake_us <= now_us


def _cut(error: str | None) -> str | None:
    return error if error is None else error[:MAX_ERROR]


def _decide_end(layout: Layout, group: TaskGroup) -> End:
    """The status of a group all of whose tasks have ended."""
    statuses = [task.status for task in group.tasks]
    if all(status is TaskStatus.SUCCEEDED for status in statuses):
        return End(status=Status.SUCCEEDED, reason=Reason.of(ReasonCode.SUCCEEDED))
    if group.stop is not None:
        status = Status.FAILED if group.stop is ReasonCode.EXECUTION_TIMEOUT else Status.CANCELED
        return End(status=status, reason=Reason.of(group.stop, group.stop_message))
    if group.aborted_by is not None:
        culprit = group.tasks[layout.index_of(group.aborted_by)]
        return _failure(culprit, f'The task "{culprit.name}" failed for good')
    failed = [task for task in group.tasks if task.status is not TaskStatus.SUCCEEDED and task.stopped_by is None]
    if TaskStatus.SUCCEEDED not in statuses:
        first = next((task for task in failed if task.lost), failed[0])
        return _failure(first, "Every task failed" if len(statuses) > 1 else f'The task "{first.name}" failed for good')
    names = ", ".join(f'"{task.name}"' for task in failed[:5]) + (", …" if len(failed) > 5 else "")
    message = f"{len(failed)} of {len(statuses)} tasks failed, and the job tolerates that: {names}."
    return End(status=Status.COMPLETED_WITH_ERRORS, reason=Reason.of(ReasonCode.SOME_TASKS_FAILED, message))


def _failure(task: TaskState, what: str) -> End:
    if task.lost:
        return End(status=Status.STALE, reason=Reason.of(ReasonCode.WORKER_LOST))
    said = f": {task.error[:200]}" if task.error else "."
    return End(status=Status.FAILED, reason=Reason.of(ReasonCode.TASK_FAILED, what + said))
