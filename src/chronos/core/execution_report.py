"""The occurrence and the report of an execution: what its hooks are told, and people who read its record.

The report is stored as JSON. What other records hold is added when it is written: the occurrence, and the attempts.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import msgspec
from msgspec import Struct

from chronos.core.calendar import rfc3339
from chronos.core.config import Mode, OnFailure
from chronos.core.execution import Attempt, Cause, Status, TaskStatus
from chronos.core.ids import attempt_id, task_run_id
from chronos.core.planner import CoveredSpan
from chronos.core.reasons import Reason, ReasonCode
from chronos.core.settle import End
from chronos.core.task_group import Layout, StoppedBy, TaskGroup, TaskState

BACKOFF_FIELD = "backoff_ms"  # in the detail of an attempt that was retried: the delay before the next one
_REPORTED_FIELDS = (
    *("number", "attempt_id", "status", "started_at", "finished_at", "error", "worker"),
    BACKOFF_FIELD,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Occurrence:
    """One firing of a job: which job, for which instant, and why."""

    execution: bytes
    job: bytes
    job_name: str | None  # None: the job and its name are deleted
    namespace: str | None
    job_version: int
    cause: Cause
    scheduled_us: int
    node: str | None  # the name of the node that runs it, or ran it last
    span: CoveredSpan | None = None
    replay_of: str | None = None  # the id of the execution, in hex


class TaskReport(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The outcome of one task."""

    name: str
    status: str
    attempts: int
    on_failure: OnFailure
    started_us: int | None = None
    finished_us: int | None = None
    worked_us: int = 0  # total time of its attempts, without waits
    error: str | None = None
    result: Any = None
    stopped_by: StoppedBy | None = None


class Stopped(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Tasks that were stopped together: by a failed task (``by``), or for the reason ``code``."""

    code: ReasonCode
    by: str | None = None
    tasks: tuple[str, ...]


class Report(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The summary of one execution."""

    mode: Mode
    strategy: OnFailure
    status: str | None = None  # None: in progress
    code: ReasonCode | None = None
    message: str | None = None
    began_us: int
    finished_us: int | None = None
    worked_us: int
    tasks: tuple[TaskReport, ...]
    stopped: tuple[Stopped, ...] = ()


def build_report(layout: Layout, group: TaskGroup, end: End | None) -> Report:
    """Build the report of an execution that has ended, or of one in progress (without ``end``)."""
    stopped: dict[tuple[ReasonCode, str | None], list[str]] = {}
    for task in group.tasks:
        by = task.stopped_by
        if by is not None and task.status in (TaskStatus.CANCELED, TaskStatus.SKIPPED):
            stopped.setdefault((by.code, by.task), []).append(task.name)
    finished = [task.finished_us for task in group.tasks if task.finished_us is not None]
    return Report(
        mode=layout.mode,
        strategy=layout.on_failure,
        status=None if end is None else to_status_name(end.status),
        code=None if end is None else end.reason.code,
        message=None if end is None else end.reason.message,
        began_us=group.began_us,
        finished_us=None if end is None else max(finished, default=group.began_us),
        worked_us=group.worked_us,
        tasks=tuple(
            TaskReport(
                name=task.name,
                status=to_status_name(task.status),
                attempts=task.attempts,
                on_failure=plan.effective.on_failure,
                started_us=task.started_us,
                finished_us=task.finished_us,
                worked_us=task.worked_us,
                error=task.error,
                result=task.result,
                stopped_by=task.stopped_by,
            )
            for plan, task in zip(layout.tasks, group.tasks, strict=True)
        ),
        stopped=tuple(Stopped(code=code, by=by, tasks=tuple(names)) for (code, by), names in stopped.items()),
    )


def build_first_success_report(layout: Layout, began_us: int, finished_us: int, result: Any) -> Report:
    """Build the report of a single task that succeeded at its first attempt, for which no report is stored."""
    took_us = max(0, finished_us - began_us)
    task = TaskState(
        name=layout.tasks[0].name,
        status=TaskStatus.SUCCEEDED,
        attempts=1,
        started_us=began_us,
        finished_us=finished_us,
        worked_us=took_us,
        result=result,
    )
    end = End(status=Status.SUCCEEDED, reason=Reason.of(ReasonCode.SUCCEEDED))
    return build_report(layout, TaskGroup(tasks=(task,), began_us=began_us, worked_us=took_us), end)


def to_occurrence_body(occurrence: Occurrence) -> dict[str, Any]:
    """Convert an occurrence to JSON for users and hooks."""
    span, replay_of = occurrence.span, occurrence.replay_of
    return {
        "execution_id": str(UUID(bytes=occurrence.execution)),
        "job_id": str(UUID(bytes=occurrence.job)),
        "job_name": occurrence.job_name,
        "namespace": occurrence.namespace,
        "job_version": occurrence.job_version,
        "scheduled_at": rfc3339(occurrence.scheduled_us),
        "trigger": occurrence.cause.name.lower(),
        "recovered": occurrence.cause is Cause.RECOVERY,
        "node": occurrence.node,
        "replay_of": None if replay_of is None else str(UUID(hex=replay_of)),
        "span": None if span is None else to_span_body(span),
    }


def to_span_body(span: CoveredSpan) -> dict[str, Any]:
    """Convert the missed instants that an execution covers to JSON."""
    return {"from": rfc3339(span.from_us), "to": rfc3339(span.to_us), "count": span.count, "exact": span.exact}


def to_attempt_body(attempt: Attempt, nodes: Mapping[int, str]) -> dict[str, Any]:
    """Convert an attempt to JSON: first the facts from its target. ``nodes`` maps node numbers to names."""
    fields = {
        "number": attempt.number,
        "attempt_id": str(UUID(bytes=attempt_id(attempt.execution, attempt.task, attempt.number))),
        "status": attempt.status.name.lower(),
        "started_at": rfc3339(attempt.started_us),
        "finished_at": _instant(attempt.finished_us),
        "error": attempt.error,
        "worker": None if attempt.node is None else nodes.get(attempt.node, str(attempt.node)),
    }
    return (attempt.detail or {}) | fields


def to_report_body(
    report: Report, occurrence: Occurrence, attempts: Mapping[str, Sequence[Mapping[str, Any]]]
) -> dict[str, Any]:
    """Convert a report to JSON for users and hooks, with RFC 3339 times.

    ``attempts`` are the attempts of each task, as from ``to_attempt_body``.
    """
    return {
        **to_occurrence_body(occurrence),
        "mode": report.mode.value,
        "strategy": report.strategy.value,
        "status": report.status,
        "reason": None if report.code is None else {"code": report.code.value, "message": report.message},
        "began_at": rfc3339(report.began_us),
        "finished_at": _instant(report.finished_us),
        "worked_ms": report.worked_us / 1000,
        "tasks": [
            {
                "name": task.name,
                "task_run_id": str(UUID(bytes=task_run_id(occurrence.execution, task.name))),
                "status": task.status,
                "on_failure": task.on_failure.value,
                "started_at": _instant(task.started_us),
                "finished_at": _instant(task.finished_us),
                "worked_ms": task.worked_us / 1000,
                "error": task.error,
                "result": task.result,
                "stopped_by": None if task.stopped_by is None else msgspec.to_builtins(task.stopped_by),
                "attempts": [
                    {field: attempt.get(field) for field in _REPORTED_FIELDS} for attempt in attempts.get(task.name, ())
                ],
            }
            for task in report.tasks
        ],
        "stopped": [{"code": stop.code.value, "by": stop.by, "tasks": list(stop.tasks)} for stop in report.stopped],
    }


def _instant(us: int | None) -> str | None:
    return None if us is None else rfc3339(us)


def to_status_name(status: Status | TaskStatus) -> str:
    """Return a status as users write it."""
    return status.name.lower()
