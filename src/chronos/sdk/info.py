"""Values that the SDK returns about jobs and runs: snapshots that never change."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from chronos.core.calendar import from_us
from chronos.core.execution import Execution, Span, Status
from chronos.core.execution_detail import Detail
from chronos.core.execution_report import Report, TaskReport, to_status_name
from chronos.core.job import Job, JobState, Unreadable
from chronos.core.task_group import TaskState
from chronos.errors import ChronosError
from chronos.runners.python.context import MissedSpan, missed_span
from chronos.service.serializers import id_text
from chronos.service.serializers.execution import count_attempts, read_detail
from chronos.service.serializers.job import describe_note


@dataclass(frozen=True, slots=True, kw_only=True)
class JobInfo:
    """A job as the store holds it.

    - ``name``, ``namespace``, ``description``, ``owner``, ``tags``: as declared.
    - ``version``: counts the changes of the definition, from 1.
    - ``state``: ``active``, ``paused``, ``disabled`` or ``done``.
    - ``schedule``, ``timezone``: None for a job without a schedule.
    - ``next_run``: when the schedule fires next, or None if it does not.
    - ``note``: why the job is paused or disabled, or why this process leaves it alone.
    """

    name: str
    namespace: str
    version: int
    state: str
    schedule: str | None
    timezone: str | None
    next_run: datetime | None
    description: str
    owner: str | None
    tags: dict[str, str]
    note: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskInfo:
    """One task of a run.

    ``attempts`` is how many were started, ``error`` the message of the last failed one, ``result`` what the task
    returned.
    """

    name: str
    status: str
    attempts: int
    error: str | None
    result: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class RunInfo:
    """A run (an execution) as it was when it was read.

    - ``id``: the id for ``Chronos.get_run``.
    - ``status``: ``ready``, ``queued``, ``running``, ``waiting``, or a final one such as ``succeeded`` or ``failed``.
    - ``trigger``: the cause: ``schedule``, ``recovery``, ``backfill``, ``manual``, ``replay`` or ``dependency``.
    - ``scheduled_at``: the instant that the run is for.
    - ``started_at``, ``finished_at``: None until then.
    - ``attempts``: how many attempts were started.
    - ``reason``, ``message``: the code and the sentence that explain the status.
    - ``result``, ``payload``: JSON values.
    - ``tasks``: one ``TaskInfo`` per task.
    - ``job_version``: the version of the job that runs.
    - ``recovered``: True if the instant had been missed.
    - ``replay_of``: the id of the run that this one repeats.
    - ``span``: the missed instants that a compressed recovery stands for.
    """

    id: str
    status: str
    trigger: str
    scheduled_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    attempts: int
    reason: str | None
    message: str | None
    result: Any
    payload: Any
    tasks: tuple[TaskInfo, ...] = ()
    job_version: int = 1
    recovered: bool = False
    replay_of: str | None = None
    span: MissedSpan | None = None

    @property
    def is_over(self) -> bool:
        """Whether the status is final."""
        return self.status in _FINAL_STATUSES

    @property
    def succeeded(self) -> bool:
        """Whether the run ended with the status ``succeeded``."""
        return self.status == to_status_name(Status.SUCCEEDED)


@dataclass(frozen=True, slots=True, kw_only=True)
class SpanInfo:
    """One record for many instants that did not run.

    ``status`` is ``skipped`` or ``missed``. ``first`` and ``last`` are the instants at both ends, ``count`` is how many
    there were. ``reason`` and ``message`` are the code and the sentence that explain why.
    """

    status: str
    first: datetime
    last: datetime
    count: int
    reason: str
    message: str


class RunFailed(ChronosError):
    """A run ended without success.

    ``job`` is the name of the job, ``run`` the ``RunInfo`` with the status and the errors of the tasks.
    """

    def __init__(self, job: str, run: RunInfo) -> None:
        errors = "".join(f"\n  {task.name}: {task.error}" for task in run.tasks if task.error)
        super().__init__(f"{job} {run.status.replace('_', ' ')}: {run.message}{errors}")
        self.job = job
        self.run = run

    def __reduce__(self) -> tuple[Any, ...]:
        return RunFailed, (self.job, self.run)


_FINAL_STATUSES = frozenset(to_status_name(status) for status in Status if status.final)


def to_job_info(job: Job) -> JobInfo:
    """A stored job as users see it."""
    schedule = job.spec.schedule
    due_us = job.next_us if job.state is JobState.ACTIVE else None
    return JobInfo(
        name=job.name,
        namespace=job.namespace,
        version=job.version,
        state=job.state.name.lower(),
        schedule=None if schedule is None else schedule.text,
        timezone=None if schedule is None else schedule.timezone,
        next_run=_to_datetime(due_us),
        description=job.spec.description,
        owner=job.spec.owner,
        tags=dict(job.spec.tags),
        note=job.spec.error if isinstance(job.spec, Unreadable) else describe_note(job),
    )


def to_run_info(execution: Execution, report: Report | None = None) -> RunInfo:
    """A stored execution as users see it. ``report`` is used where the execution has none of its own."""
    return RunInfo(**to_run_fields(execution, report))


def to_run_fields(execution: Execution, report: Report | None = None) -> dict[str, Any]:
    """The fields of a ``RunInfo``, or of a subclass that adds more."""
    detail = read_detail(execution)
    reason = execution.reason
    return {
        "id": id_text(execution.id),
        "status": to_status_name(execution.status),
        "trigger": execution.cause.name.lower(),
        "scheduled_at": from_us(execution.scheduled_us),
        "started_at": _to_datetime(execution.started_us),
        "finished_at": _to_datetime(execution.finished_us),
        "attempts": count_attempts(execution, detail),
        "reason": None if reason is None else reason.code.value,
        "message": None if reason is None else reason.message,
        "result": detail.result,
        "payload": detail.payload,
        "tasks": _to_task_infos(detail, report),
        "job_version": execution.job_version,
        "recovered": execution.recovered,
        "replay_of": None if detail.replay_of is None else id_text(bytes.fromhex(detail.replay_of)),
        "span": missed_span(detail.span),
    }


def to_span_info(span: Span) -> SpanInfo:
    """A stored span as users see it."""
    return SpanInfo(
        status=to_status_name(span.status),
        first=from_us(span.from_us),
        last=from_us(span.to_us),
        count=span.count,
        reason=span.reason.code.value,
        message=span.reason.message,
    )


def _to_task_infos(detail: Detail, report: Report | None) -> tuple[TaskInfo, ...]:
    """The tasks: while the execution is open they are in the group, afterwards in the report."""
    tasks: Iterable[TaskState | TaskReport] = ()
    report = detail.report or report
    if detail.group is not None:
        tasks = detail.group.tasks
    elif report is not None:
        tasks = report.tasks
    return tuple(
        TaskInfo(
            name=task.name,
            status=task.status if isinstance(task, TaskReport) else to_status_name(task.status),
            attempts=task.attempts,
            error=task.error,
            result=task.result,
        )
        for task in tasks
    )


def _to_datetime(us: int | None) -> datetime | None:
    return None if us is None else from_us(us)
