"""The state machine of an execution's tasks: takes a state and an event, and returns the next ``Step``. It is pure.

::

    begin ─► Step ─► the engine starts, cancels or waits ─► event ─► Step ─► … ─► Step with ``end``

    events: apply_outcome, wake_tasks, end_running_tasks, stop

A ``Step`` carries the new state, to be stored. The execution then continues (tasks run or must be started), sleeps (no
task runs, so it may be suspended until ``wake_us`` or a signal), or ends with a status and a reason.

A failed task is retried while it has attempts left, whatever its ``on_failure`` is. After its last attempt,
``on_failure`` decides: ``continue`` lets the other tasks go on; ``fail_fast`` and ``retry`` abort the group. Aborting
stops all tasks except clean-up tasks (those with their own ``on_failure: continue``), which still run in their turn. A
stop from outside (a user cancels, or the execution timeout passes) is not a failure of a task, and stops clean-up tasks
too.
"""

from collections.abc import Collection, Mapping
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
from chronos.core.reasons import Reason, ReasonCode
from chronos.core.retry_policy import has_attempts_left, retry_delay_us
from chronos.core.task_group import STOP_CODES, Layout, StoppedBy, TaskGroup, TaskState

MAX_ERROR_CHARS = 4_000
_NOTHING: Mapping[str, Any] = {}
_NOT_CHOSEN = StoppedBy(code=ReasonCode.NOT_CHOSEN)


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """An attempt that the engine must start. ``resumed``: it continues after a wait and keeps its number."""

    task: str
    number: int
    resumed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class End:
    """The final status of an execution, and its reason."""

    status: Status
    reason: Reason

    @property
    def is_dead_letter(self) -> bool:
        """Whether a person has to decide about the execution."""
        return self.status in (Status.FAILED, Status.STALE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """The next step of an execution: its new state, and what the engine must do."""

    group: TaskGroup
    start: tuple[Start, ...] = ()
    cancel: tuple[str, ...] = ()  # running tasks to stop; their outcomes still follow
    wake_us: int | None = None  # when to call ``wake_tasks``: a retry or a wait is due
    deadline_us: int | None = None  # when to call ``stop`` for the execution timeout
    asleep: bool = False  # no task runs, so no slot is needed until ``wake_us`` or one of ``signals``
    signals: tuple[str, ...] = ()
    end: End | None = None


def begin(
    layout: Layout,
    now_us: int,
    *,
    carried: Mapping[str, Any] | None = None,
    chosen: Collection[str] | None = None,
) -> Step:
    """Start the first tasks of a new execution.

    ``carried``: the results of tasks that a replay does not repeat. ``chosen``: the only tasks that a replay runs.
    """
    tasks = tuple(_begin_task(plan.name, now_us, carried or _NOTHING, chosen) for plan in layout.tasks)
    return _StepBuilder(layout, TaskGroup(tasks=tasks, began_us=now_us), now_us).build()


def _begin_task(name: str, now_us: int, carried: Mapping[str, Any], chosen: Collection[str] | None) -> TaskState:
    if name in carried:
        return TaskState(name=name, status=TaskStatus.SUCCEEDED, finished_us=now_us, result=carried[name])
    if chosen is not None and name not in chosen:
        return TaskState(name=name, status=TaskStatus.SKIPPED, finished_us=now_us, stopped_by=_NOT_CHOSEN)
    return TaskState(name=name)


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
    """Apply the outcome of a task's running attempt. Raises ``ValueError`` if the task does not run.

    ``closing``: the node shuts down, so no task is started. A sleeping step may then have a ``wake_us`` of now.
    """
    builder = _StepBuilder(layout, group, now_us)
    builder.apply_outcome(layout.index_of(task), outcome, attempt_id)
    return builder.build(start=not closing)


def wake_tasks(layout: Layout, group: TaskGroup, now_us: int, signals: Mapping[str, Any] = _NOTHING) -> Step:
    """Continue tasks whose wait is over, or whose signal arrived (name and payload). Harmless without such tasks."""
    builder = _StepBuilder(layout, group, now_us)
    builder.wake(signals)
    return builder.build()


def end_running_tasks(
    layout: Layout, group: TaskGroup, outcome: Lost | Released, now_us: int, *, worked_until_us: int | None = None
) -> Step:
    """End all running tasks, because their node died or shut down.

    ``worked_until_us``: when a dead node was last seen. Time after it does not count as work.
    Starts nothing, because another claim continues the execution. The step sleeps with a ``wake_us`` of now, or ends.
    """
    builder = _StepBuilder(layout, group, now_us, worked_until_us=worked_until_us)
    for index, task in enumerate(group.tasks):
        if task.status is TaskStatus.RUNNING:
            builder.apply_outcome(index, outcome, b"")
    return builder.build(start=False)


def stop(layout: Layout, group: TaskGroup, code: ReasonCode, now_us: int, message: str | None = None) -> Step:
    """Stop the whole execution: CANCELED, REPLACED, JOB_DELETED or EXECUTION_TIMEOUT. Only the first stop counts."""
    if code not in STOP_CODES:
        raise ValueError(f"{code} cannot stop an execution; use one of {', '.join(STOP_CODES)}")
    builder = _StepBuilder(layout, group, now_us)
    builder.stop(code, message)
    return builder.build()


class _StepBuilder:
    """Applies one event to a mutable copy of a group, and builds the next step from it."""

    def __init__(self, layout: Layout, group: TaskGroup, now_us: int, *, worked_until_us: int | None = None) -> None:
        if [task.name for task in group.tasks] != [plan.name for plan in layout.tasks]:
            raise ValueError("the tasks of the group differ from those of the job's version")
        self._layout = layout
        self._group = group
        self._tasks = list(group.tasks)
        self._now_us = now_us
        self._worked_until_us = now_us if worked_until_us is None else min(worked_until_us, now_us)
        self._start: list[Start] = []
        self._cancel: list[int] = []

    # --- events

    def apply_outcome(self, index: int, outcome: Outcome, attempt_id: bytes) -> None:
        task, plan = self._tasks[index], self._layout.tasks[index]
        if task.status is not TaskStatus.RUNNING:
            raise ValueError(f'task "{task.name}" is not running, so its attempt cannot end')
        worked_us = task.worked_us + self._elapsed_us(task.attempt_us)
        self._tasks[index] = task = replace(task, worked_us=worked_us, attempt_us=None, lost=isinstance(outcome, Lost))
        if task.stopped_by is not None and not isinstance(outcome, Succeeded):
            self._finish(index, TaskStatus.CANCELED, getattr(outcome, "error", None))
            return
        may_repeat = plan.effective.delivery is not Delivery.AT_MOST_ONCE
        match outcome:
            case Succeeded():
                self._finish(index, TaskStatus.SUCCEEDED, None, outcome.result)
            case Failed() | TimedOut():
                may_retry = may_repeat and has_attempts_left(plan.effective, task.attempts)
                if may_retry and is_worth_retrying(plan.effective, outcome):
                    retry_after_us = outcome.retry_after_us if isinstance(outcome, Failed) else None
                    backoff_us = retry_delay_us(plan.effective, task.attempts, attempt_id)
                    self._schedule_retry(index, backoff_us if retry_after_us is None else retry_after_us, outcome.error)
                else:
                    timed_out = isinstance(outcome, TimedOut)
                    self._fail(index, TaskStatus.TIMED_OUT if timed_out else TaskStatus.FAILED, outcome.error)
            case Canceled():
                self._fail(index, TaskStatus.CANCELED, outcome.error)
            case Lost():
                if may_repeat and has_attempts_left(plan.effective, task.attempts):
                    self._schedule_retry(index, 0, outcome.error)
                else:
                    self._fail(index, TaskStatus.FAILED, outcome.error)
            case Released():
                if may_repeat:
                    self._schedule_retry(index, 0, task.error, attempts=task.attempts - 1)
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
                self._start_attempt(index, task.attempts)
            elif signalled or task.signal is None:
                self._finish(index, TaskStatus.SUCCEEDED, None, signals[task.signal] if task.signal else None)
            else:
                self._fail(index, TaskStatus.TIMED_OUT, f'signal "{task.signal}" did not arrive in time')

    def stop(self, code: ReasonCode, message: str | None) -> None:
        if self._group.stop is not None:
            return
        self._group = replace(self._group, stop=code, stop_message=message)
        for index in range(len(self._tasks)):
            self._stop_task(index, StoppedBy(code=code))

    # --- the next step

    def build(self, *, start: bool = True) -> Step:
        self._skip_unreachable_tasks()
        if start:
            self._start_ready()
        group = self._build_group()
        if all(task.status.final for task in group.tasks):
            return Step(group=group, end=_decide_end(self._layout, group))
        running = group.busy_us is not None
        waking = [task.wake_us for task in group.tasks if task.wake_us is not None]
        if self._find_startable():  # not started here: the next claim starts them
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
                self._start_attempt(index, task.attempts + 1)
        for index in self._find_startable():
            self._start_attempt(index, 1)

    def _is_blocked_by_retry(self) -> bool:
        """Return whether a task with ``on_failure: retry`` is being retried. No other task starts meanwhile."""
        return any(
            plan.effective.on_failure is OnFailure.RETRY
            and not task.status.final
            and (task.status is TaskStatus.RETRYING or task.attempts > 1)
            for plan, task in zip(self._layout.tasks, self._tasks, strict=True)
        )

    def _find_startable(self) -> list[int]:
        """Return the indexes of pending tasks whose predecessors have all ended."""
        if self._is_blocked_by_retry():
            return []
        return [
            index
            for index, task in enumerate(self._tasks)
            if task.status is TaskStatus.PENDING
            and all(self._tasks[need].status.final for need in self._layout.tasks[index].waits_for)
        ]

    def _skip_unreachable_tasks(self) -> None:
        """In a graph, skip tasks whose needs did not succeed, and the tasks that need those."""
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
                unmet = [need for need in needs if need.status.final and need.status is not TaskStatus.SUCCEEDED]
                if unmet:
                    by = StoppedBy(code=ReasonCode.UPSTREAM_FAILED, task=unmet[0].name)
                    self._change(index, TaskStatus.SKIPPED, stopped_by=by)
                    skipped = True

    def _build_group(self) -> TaskGroup:
        group = self._group
        busy = any(task.status is TaskStatus.RUNNING for task in self._tasks)
        return replace(
            group,
            tasks=tuple(self._tasks),
            worked_us=group.worked_us + self._elapsed_us(group.busy_us),
            busy_us=self._now_us if busy else None,
        )

    def _elapsed_us(self, since_us: int | None) -> int:
        """Return the time worked since ``since_us``; 0 if the clock went back."""
        return 0 if since_us is None else max(0, self._worked_until_us - since_us)

    # --- changes of one task

    def _start_attempt(self, index: int, number: int) -> None:
        task = self._tasks[index]
        started_us = self._now_us if task.started_us is None else task.started_us
        resumed = task.status is TaskStatus.WAITING
        self._change(index, TaskStatus.RUNNING, attempts=number, started_us=started_us, attempt_us=self._now_us)
        self._start.append(Start(task=task.name, number=number, resumed=resumed))

    def _schedule_retry(self, index: int, delay_us: int, error: str | None, **rest: Any) -> None:
        self._change(index, TaskStatus.RETRYING, wake_us=self._now_us + delay_us, error=_cut(error), **rest)

    def _fail(self, index: int, status: TaskStatus, error: str | None) -> None:
        """End a task that has no attempts left. Its ``on_failure`` decides about the other tasks."""
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
        """Change the status of a task. Every transition goes through here."""
        task = self._tasks[index]
        if status not in TASK_TRANSITIONS[task.status]:
            raise AssertionError(f"{task.name}: invalid transition from {task.status.name} to {status.name}")
        no_wait: dict[str, Any] = {"wake_us": None, "signal": None, "resumes": False}
        if status.final:
            fields["finished_us"] = self._now_us
        self._tasks[index] = replace(task, **{"status": status, **no_wait, **fields})


def _is_wake_due(wake_us: int | None, now_us: int) -> bool:
    return wake_us is not None and wake_us <= now_us


def _cut(error: str | None) -> str | None:
    return error if error is None else error[:MAX_ERROR_CHARS]


def _decide_end(layout: Layout, group: TaskGroup) -> End:
    """Decide the status of a group in which every task has ended. Tasks that a replay leaves out do not count."""
    tasks = [task for task in group.tasks if task.stopped_by != _NOT_CHOSEN]
    statuses = [task.status for task in tasks]
    if all(status is TaskStatus.SUCCEEDED for status in statuses):
        return End(status=Status.SUCCEEDED, reason=Reason.of(ReasonCode.SUCCEEDED))
    if group.stop is not None:
        status = Status.FAILED if group.stop is ReasonCode.EXECUTION_TIMEOUT else Status.CANCELED
        return End(status=status, reason=Reason.of(group.stop, group.stop_message))
    if group.aborted_by is not None:
        aborting = group.tasks[layout.index_of(group.aborted_by)]
        return _build_failure(aborting, _describe_failure(aborting))
    failed = [task for task in tasks if task.status is not TaskStatus.SUCCEEDED and task.stopped_by is None]
    if TaskStatus.SUCCEEDED not in statuses:
        first = next((task for task in failed if task.lost), failed[0])
        return _build_failure(first, "Every task failed" if len(statuses) > 1 else _describe_failure(first))
    names = ", ".join(f'"{task.name}"' for task in failed[:5]) + (", …" if len(failed) > 5 else "")
    message = f"{len(failed)} of {len(statuses)} tasks failed: {names}. The job continued without them."
    return End(status=Status.COMPLETED_WITH_ERRORS, reason=Reason.of(ReasonCode.SOME_TASKS_FAILED, message))


def _describe_failure(task: TaskState) -> str:
    after = f" after {task.attempts} attempts" if task.attempts > 1 else ""
    return f'Task "{task.name}" failed{after}'


def _build_failure(task: TaskState, sentence: str) -> End:
    if task.lost:
        return End(status=Status.STALE, reason=Reason.of(ReasonCode.WORKER_LOST))
    error = f": {task.error[:200]}" if task.error else "."
    return End(status=Status.FAILED, reason=Reason.of(ReasonCode.TASK_FAILED, sentence + error))
