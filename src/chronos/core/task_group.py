"""The tasks of one execution: how they are laid out (from the job's version), and where they stand (stored as JSON)."""

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
    """One task as its execution sees it."""

    name: str
    waits_for: tuple[int, ...]  # the indexes of the tasks that must have ended before it starts
    effective: EffectiveSettings
    cleanup: bool  # its own setting is ``continue``: others' failures neither stop it nor leave it unstarted


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """What does not change while an execution runs; made anew from the version it runs under, never stored."""

    mode: Mode
    on_failure: OnFailure
    execution_timeout_us: int  # 0: without limit
    tasks: tuple[TaskPlan, ...]

    def index_of(self, task: str) -> int:
        """Where a task stands. Raises ``Invalid`` for a name that the job does not have."""
        for index, plan in enumerate(self.tasks):
            if plan.name == task:
                return index
        raise Invalid(f'there is no task "{task}" in this version of the job')


def build_layout(spec: JobSpec, *upper: Settings) -> Layout:
    """The tasks of a job under server and namespace settings, given from the outermost in.

    Raises ``Invalid`` when names repeat, a task needs one that is not there, or needs go round in a circle; or when it
    is not known what the job says.
    """
    ensure_readable(spec)
    whole = resolve_settings(*upper, spec.settings)
    indexes = {task.name: index for index, task in enumerate(spec.tasks)}
    if len(indexes) < len(spec.tasks):
        raise Invalid("two tasks of the job have the same name")
    plans = []
    for index, task in enumerate(spec.tasks):
        match whole.mode:
            case Mode.SEQUENTIAL:
                waits_for = tuple(range(index))
            case Mode.PARALLEL:
                waits_for = ()
            case Mode.GRAPH:
                unknown = [need for need in task.needs if need not in indexes]
                if unknown:
                    raise Invalid(f'the task "{task.name}" needs "{unknown[0]}", which the job does not have')
                waits_for = tuple(indexes[need] for need in task.needs)
        effective = resolve_settings(*upper, spec.settings, task.settings)
        cleanup = task.settings.on_failure is OnFailure.CONTINUE
        plans.append(TaskPlan(name=task.name, waits_for=waits_for, effective=effective, cleanup=cleanup))
    if whole.mode is Mode.GRAPH:
        _refuse_circles(plans)
    return Layout(
        mode=whole.mode,
        on_failure=whole.on_failure,
        execution_timeout_us=whole.execution_timeout_us,
        tasks=tuple(plans),
    )


def _refuse_circles(plans: list[TaskPlan]) -> None:
    try:
        TopologicalSorter(dict(enumerate(plan.waits_for for plan in plans))).prepare()
    except CycleError as error:
        circle = " → ".join(f'"{plans[index].name}"' for index in error.args[1])
        raise Invalid(f"the tasks need each other in a circle: {circle}") from None


#: Why all of an execution may be told to stop.
STOP_CODES = (ReasonCode.CANCELED, ReasonCode.REPLACED, ReasonCode.JOB_DELETED, ReasonCode.EXECUTION_TIMEOUT)


class StoppedBy(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Who ended a task before its time: another task, or what the code says."""

    code: ReasonCode
    task: str | None = None


class TaskState(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Where one task stands."""

    name: str
    status: TaskStatus = TaskStatus.PENDING
    attempts: int = 0
    started_us: int | None = None  # its first attempt
    finished_us: int | None = None
    attempt_us: int | None = None  # since when it runs, while it does
    worked_us: int = 0  # over all its attempts
    error: str | None = None
    result: Any = None
    wake_us: int | None = None  # of a retry or a wait
    signal: str | None = None
    resumes: bool = False
    lost: bool = False  # its last attempt ended with its worker
    stopped_by: StoppedBy | None = None  # set while it still runs: it has been asked to stop

    def close(self, code: ReasonCode, now_us: int) -> "TaskState":
        """The task where its execution ends around it: canceled or skipped by a stop, else failed if it had begun."""
        begun = self.status in (TaskStatus.RUNNING, TaskStatus.RETRYING)
        status = TaskStatus.FAILED if begun and code not in STOP_CODES else TaskStatus.CANCELED
        if self.status is TaskStatus.PENDING:
            status = TaskStatus.SKIPPED
        by = self.stopped_by or StoppedBy(code=code)
        ends: dict[str, Any] = {"status": status, "finished_us": now_us, "stopped_by": by}
        return replace(self, **ends, attempt_us=None, wake_us=None, signal=None, resumes=False)


class TaskGroup(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Where an execution stands: stored in its detail, so that any node can go on with it."""

    tasks: tuple[TaskState, ...]
    began_us: int
    worked_us: int = 0  # while at least one task ran; what the execution timeout counts
    busy_us: int | None = None  # since when at least one task runs, while one does
    aborted_by: str | None = None  # the task whose failure ends the group
    stop: ReasonCode | None = None  # why all of it was told to stop: canceled, replaced, its job deleted, too long
    stop_message: str | None = None

    def close(self, code: ReasonCode, now_us: int, message: str | None = None) -> "TaskGroup":
        """All of it ends now, for this reason, without the node that would settle it: no task is left open."""
        stopped = code in STOP_CODES
        tasks = tuple(task if task.status.final else task.close(code, now_us) for task in self.tasks)
        said = {"stop": code, "stop_message": message} if stopped and self.stop is None else {}
        return replace(self, tasks=tasks, busy_us=None, **said)

    def shift(self, by_us: int) -> "TaskGroup":
        """As if what runs had begun so much later: the clock was set forward, and that was no work."""
        tasks = tuple(
            task if task.attempt_us is None else replace(task, attempt_us=task.attempt_us + by_us)
            for task in self.tasks
        )
        return replace(self, tasks=tasks, busy_us=None if self.busy_us is None else self.busy_us + by_us)
