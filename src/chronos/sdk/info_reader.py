"""Reads jobs and runs from the JSON that the service writes, for a store and for a server alike."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from chronos.core.schedule.union import join_expressions
from chronos.runners.python.context import MissedSpan
from chronos.sdk.info import AttemptInfo, JobInfo, RunInfo, SpanInfo, TaskInfo
from chronos.service.serializers.job import READ_ONLY_FIELDS
from chronos.service.serializers.settings import FIELDS

MANUAL = "manual"
JsonObject = Mapping[str, Any]
_ATTEMPT_FIELDS = ("number", "status", "started_at", "finished_at", "error", "worker", "attempt_id")


def read_job_info(job: JsonObject, last_run: RunInfo | None = None) -> JobInfo:
    """Read a job. ``last_run`` is used where the JSON has no last execution."""
    last_execution = job.get("last_execution")
    return JobInfo(
        name=job["name"],
        namespace=job["namespace"],
        version=job["version"],
        state=job["state"],
        schedule=_read_schedule(job.get("schedule")),
        timezone=job.get("timezone"),
        next_run=read_instant(job.get("next_run_at")),
        description=job.get("description", ""),
        owner=job.get("owner"),
        tags=dict(job.get("tags") or {}),
        note=job.get("error") or job.get("note", ""),
        id=job["id"],
        start=read_instant(job.get("start")),
        end=read_instant(job.get("end")),
        payload=job.get("payload"),
        settings={name: value for name, value in job.items() if name in FIELDS},
        tasks=tuple(dict(task) for task in job["tasks"]),
        definition={name: value for name, value in job.items() if name not in READ_ONLY_FIELDS},
        last_run=last_run if last_execution is None else read_run_info(last_execution),
        created_at=parse_instant(job["created_at"]),
        updated_at=parse_instant(job["updated_at"]),
        paused_at=read_instant(job.get("paused_at")),
        held=job.get("held", False),
    )


def read_run_info(execution: JsonObject) -> RunInfo:
    """Read an execution."""
    reason = execution.get("reason") or {}
    return RunInfo(
        id=execution["id"],
        status=execution["status"],
        trigger=execution["trigger"],
        scheduled_at=parse_instant(execution["scheduled_at"]),
        started_at=read_instant(execution.get("started_at")),
        finished_at=read_instant(execution.get("finished_at")),
        attempts=execution["attempts"],
        reason=reason.get("code"),
        message=reason.get("message"),
        result=execution.get("result"),
        payload=execution.get("payload"),
        tasks=tuple(_read_task(task) for task in execution.get("tasks", ())),
        job_version=execution["job_version"],
        recovered=execution["recovered"],
        replay_of=execution.get("replay_of"),
        span=_read_span(execution.get("span")),
        job=execution.get("job_name"),
        job_id=execution["job_id"],
        admitted_at=read_instant(execution.get("admitted_at")),
        node=execution.get("node"),
        lateness=_read_ms(execution.get("lateness_ms")),
        duration=_read_ms(execution.get("duration_ms")),
        wakes_at=read_instant(execution.get("wakes_at")),
        held=execution.get("held", False),
        asked_because=execution.get("asked_because"),
        upstream=tuple(execution.get("upstream", ())),
        settings=dict(execution.get("settings", {})),
        report=execution.get("report"),
    )


def _read_span(span: JsonObject | None) -> MissedSpan | None:
    if span is None:
        return None
    return MissedSpan(
        from_=parse_instant(span["from"]),
        to=parse_instant(span["to"]),
        count=span["count"],
        exact=span.get("exact", True),
    )


def read_history_item(item: JsonObject) -> RunInfo | SpanInfo:
    """Read an item of a job's history."""
    if item.get("kind") != "span":
        return read_run_info(item)
    return SpanInfo(
        status=item["status"],
        first=parse_instant(item["from"]),
        last=parse_instant(item["to"]),
        count=item["count"],
        reason=item["reason"]["code"],
        message=item["reason"]["message"],
    )


def read_instant(text: str | None) -> datetime | None:
    """Read an instant that may be null."""
    return None if text is None else parse_instant(text)


def parse_instant(text: str) -> datetime:
    """Read an instant."""
    return datetime.fromisoformat(text)


def _read_schedule(schedule: Any) -> str | None:
    """The text of a schedule. A schedule that names its dialect is an object."""
    if isinstance(schedule, Mapping):
        schedule = next((value for key, value in schedule.items() if key != "dialect"), None)
    if isinstance(schedule, list):
        return join_expressions(map(str, schedule))
    return None if schedule in (None, MANUAL) else str(schedule)


def _read_task(task: JsonObject) -> TaskInfo:
    history = tuple(_read_attempt(attempt) for attempt in task.get("attempts", ()))
    return TaskInfo(
        name=task["name"],
        status=task["status"],
        attempts=max((attempt.number for attempt in history), default=0),
        error=task.get("error"),
        result=task.get("result"),
        started_at=read_instant(task.get("started_at")),
        finished_at=read_instant(task.get("finished_at")),
        attempt_history=history,
        task_run_id=task.get("task_run_id"),
        wakes_at=read_instant(task.get("wakes_at")),
        waits_for_signal=task.get("waits_for_signal"),
        stopped_by=task.get("stopped_by"),
        retired=task.get("retired", False),
    )


def _read_attempt(attempt: JsonObject) -> AttemptInfo:
    return AttemptInfo(
        number=attempt.get("number", 1),
        status=attempt["status"],
        started_at=read_instant(attempt.get("started_at")),
        finished_at=read_instant(attempt.get("finished_at")),
        error=attempt.get("error"),
        node=attempt.get("worker"),
        attempt_id=attempt.get("attempt_id"),
        detail={name: value for name, value in attempt.items() if name not in _ATTEMPT_FIELDS},
    )


def _read_ms(milliseconds: float | None) -> timedelta | None:
    return None if milliseconds is None else timedelta(microseconds=round(milliseconds * 1_000))
