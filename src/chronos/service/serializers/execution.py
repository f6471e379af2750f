"""Executions as JSON, with their tasks and attempts if requested.

A task that succeeds at its first attempt stores only its execution's columns. This module derives the same JSON from
them that it writes for recorded tasks and attempts.
"""

from collections.abc import Mapping, Sequence
from typing import Any, assert_never

import msgspec

from chronos.core.calendar import rfc3339
from chronos.core.credentials import hide_url_credentials, hide_userinfo
from chronos.core.execution import Attempt, AttemptStatus, Execution, Span, Status, TaskStatus, due_us
from chronos.core.execution_detail import NO_DETAIL, Detail
from chronos.core.execution_report import Occurrence, Report, to_attempt_body, to_report_body, to_span_body
from chronos.core.ids import attempt_id, task_run_id
from chronos.core.reasons import Reason
from chronos.core.settings.levels import Levels
from chronos.core.task_group import TaskState
from chronos.service.serializers.identifiers import id_text
from chronos.store.contract import ExecutionView

#: The status of an execution's only attempt if no attempt is recorded.
_ATTEMPT_STATUS = {
    Status.RUNNING: AttemptStatus.RUNNING,
    Status.SUCCEEDED: AttemptStatus.SUCCEEDED,
    Status.COMPLETED_WITH_ERRORS: AttemptStatus.FAILED,
    Status.FAILED: AttemptStatus.FAILED,
    Status.CANCELED: AttemptStatus.CANCELED,
    Status.STALE: AttemptStatus.LOST,
}
_TASK_STATUS = {
    Status.READY: TaskStatus.PENDING,
    Status.QUEUED: TaskStatus.PENDING,
    Status.RUNNING: TaskStatus.RUNNING,
    Status.WAITING: TaskStatus.WAITING,
    Status.SUCCEEDED: TaskStatus.SUCCEEDED,
    Status.COMPLETED_WITH_ERRORS: TaskStatus.FAILED,
    Status.FAILED: TaskStatus.FAILED,
    Status.STALE: TaskStatus.FAILED,
    Status.CANCELED: TaskStatus.CANCELED,
    Status.SKIPPED: TaskStatus.SKIPPED,
    Status.MISSED: TaskStatus.SKIPPED,
}


def write_execution(
    item: Execution | Span | ExecutionView,
    *,
    job_name: str | None = None,
    namespace: str | None = None,
    tasks: Sequence[str] = (),
    nodes: Mapping[int, str] | None = None,
    report: Report | None = None,
    masked: bool = True,
) -> dict[str, Any]:
    """Write an execution. A view also gets its tasks with their attempts, and its report.

    ``tasks`` are the task names of the version that ran. ``nodes`` maps node numbers to names. ``report`` is used if
    the execution stores none. ``masked=False`` keeps credentials in results, for a program that holds the store.
    """
    match item:
        case Span():
            return write_span(item, job_name=job_name)
        case Execution():
            return _write_columns(item, read_detail(item), job_name, nodes or {}, masked=masked)
        case ExecutionView():
            execution, detail = item.execution, read_detail(item.execution)
            result = _write_columns(execution, detail, job_name, nodes or {}, masked=masked)
            result["tasks"] = _write_tasks(execution, detail, item.attempts, tasks, nodes or {})
            report_ = detail.report or report
            occurrence = _to_occurrence(execution, detail, job_name, namespace, nodes or {})
            attempts = {task["name"]: task["attempts"] for task in result["tasks"]}
            result["report"] = None if report_ is None else to_report_body(report_, occurrence, attempts)
            if detail.payload is not None:
                result["payload"] = detail.payload
            return hide_credentials(result) if masked else result
        case _:
            assert_never(item)


def hide_credentials(result: dict[str, Any]) -> dict[str, Any]:
    """Return the response without the user and password of any URL. Other credentials never enter a record."""
    hidden: dict[str, Any] = hide_url_credentials(result)
    return hidden


def write_span(span: Span, *, job_name: str | None = None) -> dict[str, Any]:
    """Write a span as one item of a list."""
    return {
        "kind": "span",
        "id": id_text(span.id),
        "job_id": id_text(span.job),
        "job_name": job_name,
        "status": span.status.name.lower(),
        "from": rfc3339(span.from_us),
        "to": rfc3339(span.to_us),
        "count": span.count,
        "reason": _write_reason(span.reason),
        "recorded_at": rfc3339(span.recorded_us),
    }


def read_detail(execution: Execution) -> Detail:
    """Read the detail of an execution. Returns ``NO_DETAIL`` if a newer release wrote it in an unknown form."""
    try:
        return NO_DETAIL if execution.detail is None else msgspec.convert(execution.detail, Detail)
    except msgspec.ValidationError:
        return NO_DETAIL


def lateness_us(execution: Execution) -> int | None:
    """Return how long after its due time, or after its request, an execution started."""
    if execution.started_us is None:
        return None
    return max(0, execution.started_us - due_us(execution.cause, execution.scheduled_us, execution.admitted_us))


def count_attempts(execution: Execution, detail: Detail) -> int:
    """Count the attempts that an execution has made or is making; with several tasks, those of the task with the most.

    The row holds the number of the next attempt, so it is one ahead while a retry waits.
    """
    if execution.started_us is None:
        return 0
    if detail.report is not None:
        return max((task.attempts for task in detail.report.tasks), default=0)
    if detail.group is None:  # the first attempt; a ready execution was released before it started
        return execution.attempt - (execution.status is Status.READY)
    return max((_count_task_attempts(task, execution) for task in detail.group.tasks), default=0)


def _count_task_attempts(task: TaskState, execution: Execution) -> int:
    """Count the attempts of one task.

    A claim starts a retry that is due; the task's group is written with the next step.
    """
    is_running = execution.status is Status.RUNNING and task.status is TaskStatus.RETRYING
    is_due = task.wake_us is not None and execution.attempt_us is not None and task.wake_us <= execution.attempt_us
    return task.attempts + (is_running and is_due)


def _write_columns(
    execution: Execution, detail: Detail, job_name: str | None, nodes: Mapping[int, str], *, masked: bool
) -> dict[str, Any]:
    late_us = lateness_us(execution)
    duration_us = None
    if execution.started_us is not None and execution.finished_us is not None:
        duration_us = max(0, execution.finished_us - execution.started_us)
    result: dict[str, Any] = {
        "kind": "execution",
        "id": id_text(execution.id),
        "job_id": id_text(execution.job),
        "job_name": job_name,
        "job_version": execution.job_version,
        "settings": Levels.unpack(execution.levels)._asdict(),
        "trigger": execution.cause.name.lower(),
        "scheduled_at": rfc3339(execution.scheduled_us),
        "admitted_at": rfc3339(execution.admitted_us),
        "started_at": _format_instant(execution.started_us),
        "finished_at": _format_instant(execution.finished_us),
        "status": execution.status.name.lower(),
        "reason": None if execution.reason is None else _write_reason(execution.reason),
        "recovered": execution.recovered,
        "node": _node_name(execution.node, nodes),
        "attempts": count_attempts(execution, detail),
        "lateness_ms": None if late_us is None else _to_ms(late_us),
        "duration_ms": None if duration_us is None else _to_ms(duration_us),
    }
    extra = {
        "wakes_at": _format_instant(execution.wake_us),
        "held": True if execution.held else None,
        "replay_of": None if detail.replay_of is None else id_text(bytes.fromhex(detail.replay_of)),
        "asked_because": None if detail.reason is None else hide_userinfo(detail.reason),
        "upstream": [id_text(bytes.fromhex(one)) for one in detail.upstream] or None,
        "result": hide_url_credentials(detail.result) if masked else detail.result,
    }
    if detail.span is not None:
        extra["span"] = to_span_body(detail.span)
    return result | {name: value for name, value in extra.items() if value is not None}


def _to_occurrence(
    execution: Execution, detail: Detail, job_name: str | None, namespace: str | None, nodes: Mapping[int, str]
) -> Occurrence:
    return Occurrence(
        execution=execution.id,
        job=execution.job,
        job_name=job_name,
        namespace=namespace,
        job_version=execution.job_version,
        cause=execution.cause,
        scheduled_us=execution.scheduled_us,
        node=_node_name(execution.node, nodes),
        span=detail.span,
        replay_of=detail.replay_of,
    )


def _write_tasks(
    execution: Execution, detail: Detail, attempts: Sequence[Attempt], names: Sequence[str], nodes: Mapping[int, str]
) -> list[dict[str, Any]]:
    by_task: dict[str, list[dict[str, Any]]] = {}
    for attempt in attempts:
        by_task.setdefault(attempt.task, []).append(to_attempt_body(attempt, nodes))
    if detail.group is not None:
        return [_write_task(state, by_task.get(state.name, []), execution, nodes) for state in detail.group.tasks]
    if detail.report is not None:
        return [
            _write_task(
                TaskState(
                    name=task.name,
                    status=TaskStatus[task.status.upper()],
                    attempts=task.attempts,
                    started_us=task.started_us,
                    finished_us=task.finished_us,
                    error=task.error,
                    result=task.result,
                    stopped_by=task.stopped_by,
                ),
                by_task.get(task.name, []),
                execution,
                nodes,
            )
            for task in detail.report.tasks
        ]
    return [
        _write_unrecorded_task(execution, detail, name, by_task.get(name, []), nodes) for name in names or list(by_task)
    ]


def _write_task(
    state: TaskState, attempts: list[dict[str, Any]], execution: Execution, nodes: Mapping[int, str]
) -> dict[str, Any]:
    if state.status is TaskStatus.RUNNING and len(attempts) < max(1, state.attempts):
        running = _write_unrecorded_attempt(
            execution,
            nodes,
            task=state.name,
            number=max(1, state.attempts),
            status=AttemptStatus.RUNNING,
            began_us=state.attempt_us or state.started_us,
        )
        attempts = [*attempts, running]
    elif state.status.final and state.started_us is not None and state.attempts > len(attempts):
        status = AttemptStatus.__members__.get(state.status.name, AttemptStatus.FAILED)
        last = _write_unrecorded_attempt(
            execution,
            nodes,
            task=state.name,
            number=state.attempts,
            status=status,
            began_us=state.started_us if state.attempts == 1 else None,
            finished_us=state.finished_us,
            error=state.error,
        )
        attempts = [*attempts, last]
    task: dict[str, Any] = {
        "name": state.name,
        "task_run_id": id_text(task_run_id(execution.id, state.name)),
        "status": state.status.name.lower(),
        "started_at": _format_instant(state.started_us),
        "finished_at": _format_instant(state.finished_us),
        "error": state.error,
        "attempts": attempts,
    }
    extra = {
        "result": state.result,
        "wakes_at": _format_instant(state.wake_us),
        "waits_for_signal": state.signal,
        "stopped_by": None if state.stopped_by is None else msgspec.to_builtins(state.stopped_by),
    }
    return task | {name: value for name, value in extra.items() if value is not None}


def _write_unrecorded_task(
    execution: Execution, detail: Detail, name: str, attempts: list[dict[str, Any]], nodes: Mapping[int, str]
) -> dict[str, Any]:
    """Write a task without records, from its execution's columns."""
    status = _TASK_STATUS.get(execution.status, TaskStatus.PENDING)
    if execution.status is Status.WAITING and attempts:
        status = TaskStatus.RETRYING
    report_ = _ATTEMPT_STATUS.get(execution.status)
    error = execution.reason.message if execution.reason and report_ is AttemptStatus.FAILED else None
    recorded = {attempt["number"] for attempt in attempts}
    if execution.started_us is not None and report_ is not None and execution.attempt not in recorded:
        last = _write_unrecorded_attempt(
            execution,
            nodes,
            task=name,
            number=execution.attempt,
            status=report_,
            began_us=execution.started_us if execution.attempt == 1 else None,
            finished_us=execution.finished_us,
            error=error,
        )
        attempts = [*attempts, last]
    task: dict[str, Any] = {
        "name": name,
        "task_run_id": id_text(task_run_id(execution.id, name)),
        "status": status.name.lower(),
        "started_at": _format_instant(execution.started_us),
        "finished_at": _format_instant(execution.finished_us),
        "error": error,
        "attempts": attempts,
    }
    return task if detail.result is None else task | {"result": detail.result}


def _write_unrecorded_attempt(
    execution: Execution,
    nodes: Mapping[int, str],
    *,
    task: str,
    number: int,
    status: AttemptStatus,
    began_us: int | None,
    finished_us: int | None = None,
    error: str | None = None,
) -> dict[str, Any]:
    return {
        "number": number,
        "attempt_id": id_text(attempt_id(execution.id, task, number)),
        "status": status.name.lower(),
        "started_at": _format_instant(began_us),
        "finished_at": _format_instant(finished_us),
        "error": error,
        "worker": _node_name(execution.node, nodes),
    }


def _write_reason(reason: Reason) -> dict[str, str]:
    return {"code": reason.code.value, "message": hide_userinfo(reason.message)}


def _node_name(number: int | None, nodes: Mapping[int, str]) -> str | None:
    return None if number is None else nodes.get(number, str(number))


def _format_instant(us: int | None) -> str | None:
    return None if us is None else rfc3339(us)


def _to_ms(us: int) -> float:
    return us / 1000
