"""What the SDK answers about jobs and executions: plain values, read once, that never change."""

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


@dataclass(frozen=True, slots=True, kw_only=True)
class JobInfo:
    """A job as the store holds it."""

    name: str
    namespace: str
    version: int
    state: str  # active, paused, disabled, done
    schedule: str | None
    timezone: str | None
    next_run: datetime | None
    description: str
    owner: str | None
    tags: dict[str, str]
    note: str  # why it is paused or disabled


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskInfo:
    """One task of an execution."""

    name: str
    status: str
    attempts: int
    error: str | None
    result: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class RunInfo:
    """An execution as it stood when it was read."""

    id: str
    status: str
    trigger: str  # schedule, recovery, backfill, manual, replay, dependency
    scheduled_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    attempts: int
    reason: str | None  # the code
    message: str | None  # the sentence
    result: Any
    payload: Any
    tasks: tuple[TaskInfo, ...] = ()
    job_version: int = 1  # under which it ran, or will
    recovered: bool = False  # its instant had been missed
    replay_of: str | None = None  # the id of the execution that it repeats
    span: MissedSpan | None = None  # that a compressed recovery stands for

    @property
    def is_over(self) -> bool:
        """Whether it has come to its final status."""
        return self.status in _FINAL

    @property
    def succeeded(self) -> bool:
        return self.status == to_status_name(Status.SUCCEEDED)


@dataclass(frozen=True, slots=True, kw_only=True)
class SpanInfo:
    """Many instants that did not run, as one record."""

    status: str  # skipped or missed
    first: datetime
    last: datetime
    count: int
    reason: str
    message: str


class RunFailed(ChronosError):
    """An execution ended, but not well; ``run`` says how."""

    def __init__(self, job: str, run: RunInfo) -> None:
        errors = "".join(f"\n  {task.name}: {task.error}" for task in run.tasks if task.error)
        super().__init__(f"{job} {run.status.replace('_', ' ')}: {run.message}{errors}")
        self.job = job
        self.run = run

    def __reduce__(self) -> tuple[Any, ...]:
        return RunFailed, (self.job, self.run)


_FINAL = frozenset(to_status_name(status) for status in Status if status.final)


def job_info(job: Job) -> JobInfo:
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
        next_run=_instant(due_us),
        description=job.spec.description,
        owner=job.spec.owner,
        tags=dict(job.spec.tags),
        note=job.spec.error if isinstance(job.spec, Unreadable) else job.note,
    )


def run_info(execution: Execution, report: Report | None = None) -> RunInfo:
    """A stored execution as users see it. ``report`` is that of one which left none."""
    return RunInfo(**run_fields(execution, report))


def run_fields(execution: Execution, report: Report | None = None) -> dict[str, Any]:
    """What a ``RunInfo`` of it, or one that says more, is made of."""
    detail = read_detail(execution)
    reason = execution.reason
    return {
        "id": id_text(execution.id),
        "status": to_status_name(execution.status),
        "trigger": execution.cause.name.lower(),
        "scheduled_at": from_us(execution.scheduled_us),
        "started_at": _instant(execution.started_us),
        "finished_at": _instant(execution.finished_us),
        "attempts": count_attempts(execution, detail),
        "reason": None if reason is None else reason.code.value,
        "message": None if reason is None else reason.message,
        "result": detail.result,
        "payload": detail.payload,
        "tasks": _tasks(detail, report),
        "job_version": execution.job_version,
        "recovered": execution.recovered,
        "replay_of": None if detail.replay_of is None else id_text(bytes.fromhex(detail.replay_of)),
        "span": missed_span(detail.span),
    }


def span_info(span: Span) -> SpanInfo:
    """A stored span as users see it."""
    return SpanInfo(
        status=to_status_name(span.status),
        first=from_us(span.from_us),
        last=from_us(span.to_us),
        count=span.count,
        reason=span.reason.code.value,
        message=span.reason.message,
    )


def _tasks(detail: Detail, report: Report | None) -> tuple[TaskInfo, ...]:
    """While it runs its tasks are in the group, afterwards in the report."""
    found: Iterable[TaskState | TaskReport] = ()
    told = detail.report or report
    if detail.group is not None:
        found = detail.group.tasks
    elif told is not None:
        found = told.tasks
    return tuple(
        TaskInfo(
            name=task.name,
            status=task.status if isinstance(task, TaskReport) else to_status_name(task.status),
            attempts=task.attempts,
            error=task.error,
            result=task.result,
        )
        for task in found
    )


def _instant(us: int | None) -> datetime | None:
    return None if us is None else from_us(us)
