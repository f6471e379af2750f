"""The execution report: a summary of an execution for hooks and people. Stored as JSON."""

from typing import Any

import msgspec
from msgspec import Struct

from chronos.core.calendar import rfc3339
from chronos.core.config import Mode, OnFailure
from chronos.core.execution import Status, TaskStatus
from chronos.core.reasons import Reason, ReasonCode
from chronos.core.settle import End
from chronos.core.task_group import Layout, StoppedBy, TaskGroup, TaskState


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


def to_report_body(report: Report) -> dict[str, Any]:
    """Convert a report to JSON for users and hooks, with RFC 3339 times."""
    return {
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
                "status": task.status,
                "attempts": task.attempts,
                "on_failure": task.on_failure.value,
                "started_at": _instant(task.started_us),
                "finished_at": _instant(task.finished_us),
                "worked_ms": task.worked_us / 1000,
                "error": task.error,
                "result": task.result,
                "stopped_by": None if task.stopped_by is None else msgspec.to_builtins(task.stopped_by),
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
