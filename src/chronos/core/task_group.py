"""The tasks of one execution: their layout, from the job's version, and their states, stored as JSON."""

from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from chronos.core.config import EffectiveSettings, Mode, OnFailure, Settings, resolve_settings
from chronos.core.execution import TaskStatus
from chronos.core.job import JobSpec, ensure_readable
from chronos.core.reasons import ReasonCode
from chronos.errors import Invalid


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskPlan:
    """One task of a layout: its predecessors and settings."""

    name: str
    waits_for: tuple[int, ...]  # indexes of the tasks that must end before it starts
    effective: EffectiveSettings
    cleanup: bool  # has its own ``on_failure: continue``: runs even if other tasks fail


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """The fixed part of an execution. It is built from the job's version and never stored."""

    mode: Mode
    on_failure: OnFailure
    execution_timeout_us: int  # 0: no limit
    tasks: tuple[TaskPlan, ...]

    def index_of(self, task: str) -> int:
        """Return the index of a task. Raises ``Invalid`` for an unknown name."""
        for index, plan in enumerate(self.tasks):
            if plan.name == task:
                return index
        raise Invalid(f'unknown task "{task}" in this version of the job')


def build_layout(spec: JobSpec, *upper: Settings) -> Layout:
    """Build the layout of a job under server and namespace settings, outermost first.

    Raises ``Invalid`` if two tasks have the same name, a task needs an unknown one, the needs form a circle, or the job
    is unreadable.
    """
    ensure_readable(spec)
    job_settings = resolve_settings(*upper, spec.settings)
    indexes = {task.name: index for index, task in enumerate(spec.tasks)}
    if len(indexes) < len(spec.tasks):
        raise Invalid("two tasks of the job have the same name")
    plans = []
    for index, task in enumerate(spec.tasks):
        match job_settings.mode:
            case Mode.SEQUENTIAL:
                waits_for = tuple(range(index))
            case Mode.PARALLEL:
                waits_for = ()
            case Mode.GRAPH:
                unknown = [need for need in task.needs if need not in indexes]
                if unknown:
                    raise Invalid(f'task "{task.name}" needs unknown task "{unknown[0]}"')
                waits_for = tuple(indexes[need] for need in task.needs)
        effective = resolve_settings(*upper, spec.settings, task.settings)
        cleanup = task.settings.on_failure is OnFailure.CONTINUE
        plans.append(TaskPlan(name=task.name, waits_for=waits_for, effective=effective, cleanup=cleanup))
    if job_settings.mode is Mode.GRAPH:
        _refuse_circles(plans)
    return Layout(
        mode=job_settings.mode,
        on_failure=job_settings.on_failure,
        execution_timeout_us=job_settings.execution_timeout_us,
        tasks=tuple(plans),
    )


def _refuse_circles(plans: list[TaskPlan]) -> None:
    try:
        TopologicalSorter(dict(enumerate(plan.waits_for for plan in plans))).prepare()
    except CycleError as error:
        circle = " → ".join(f'"{plans[index].name}"' for index in error.args[1])
        raise Invalid(f"the tasks need each other in a circle: {circle}") from None


#: Reasons to stop a whole execution.
STOP_CODES = (ReasonCode.CANCELED, ReasonCode.REPLACED, ReasonCode.JOB_DELETED, ReasonCode.EXECUTION_TIMEOUT)


class StoppedBy(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Why a task was stopped: because ``task`` failed, or for the reason ``code``."""

    code: ReasonCode
    task: str | None = None


class TaskState(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The state of one task."""

    name: str
    status: TaskStatus = TaskStatus.PENDING
    attempts: int = 0
    started_us: int | None = None  # start of its first attempt
    finished_us: int | None = None
    attempt_us: int | None = None  # start of the running attempt
    worked_us: int = 0  # total time of its attempts
    error: str | None = None
    result: Any = None
    wake_us: int | None = None  # end of a backoff or a wait
    signal: str | None = None
    resumes: bool = False
    lost: bool = False  # its last attempt was lost with its node
    stopped_by: StoppedBy | None = None  # set while it runs: it should stop

    def backoff_us(self, attempt: int, now_us: int) -> int | None:
        """Return the delay between an attempt that has just ended and the next one; None if none follows."""
        if self.status is TaskStatus.RETRYING and self.wake_us is not None:
            return max(0, self.wake_us - now_us)
        return 0 if self.attempts > attempt else None

    def close(self, code: ReasonCode, now_us: int) -> "TaskState":
        """End the task with its execution: canceled or skipped after a stop, otherwise failed if it had started."""
        started = self.status in (TaskStatus.RUNNING, TaskStatus.RETRYING)
        status = TaskStatus.FAILED if started and code not in STOP_CODES else TaskStatus.CANCELED
        if self.status is TaskStatus.PENDING:
            status = TaskStatus.SKIPPED
        by = self.stopped_by or StoppedBy(code=code)
        ends: dict[str, Any] = {"status": status, "finished_us": now_us, "stopped_by": by}
        return replace(self, **ends, attempt_us=None, wake_us=None, signal=None, resumes=False)


class TaskGroup(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The state of an execution, stored in its detail, so that any node can continue it."""

    tasks: tuple[TaskState, ...]
    began_us: int
    worked_us: int = 0  # time with at least one running task; counts against the execution timeout
    busy_us: int | None = None  # start of the current time with at least one running task
    aborted_by: str | None = None  # the task whose failure aborts the group
    stop: ReasonCode | None = None  # the reason to stop all tasks
    stop_message: str | None = None

    def close(self, code: ReasonCode, now_us: int, message: str | None = None) -> "TaskGroup":
        """End every open task now, for a reason from outside, without a node."""
        stopped = code in STOP_CODES
        tasks = tuple(task if task.status.final else task.close(code, now_us) for task in self.tasks)
        stop = {"stop": code, "stop_message": message} if stopped and self.stop is None else {}
        return replace(self, tasks=tasks, busy_us=None, **stop)

    def shift(self, by_us: int) -> "TaskGroup":
        """Move the start of running attempts by ``by_us``, so that a jump of the clock does not count as work."""
        tasks = tuple(
            task if task.attempt_us is None else replace(task, attempt_us=task.attempt_us + by_us)
            for task in self.tasks
        )
        return replace(self, tasks=tasks, busy_us=None if self.busy_us is None else self.busy_us + by_us)
