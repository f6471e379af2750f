"""Reads the JSON of a server's responses into the values of the SDK."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from chronos.core.schedule.union import join_expressions
from chronos.runners.python.context import MissedSpan
from chronos.sdk.info import JobInfo, RunInfo, SpanInfo, TaskInfo

MANUAL = "manual"
JsonObject = Mapping[str, Any]


def read_job_info(job: JsonObject) -> JobInfo:
    """Read a job."""
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
    )


def read_run_info(execution: JsonObject) -> RunInfo:
    """Read an execution."""
    reason = execution.get("reason") or {}
    return RunInfo(
        id=execution["id"],
        status=execution["status"],
        trigger=execution["trigger"],
        scheduled_at=_parse_instant(execution["scheduled_at"]),
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
    )


def _read_span(span: JsonObject | None) -> MissedSpan | None:
    if span is None:
        return None
    return MissedSpan(
        from_=_parse_instant(span["from"]),
        to=_parse_instant(span["to"]),
        count=span["count"],
        exact=span.get("exact", True),
    )


def read_history_item(item: JsonObject) -> RunInfo | SpanInfo:
    """Read an item of a job's history."""
    if item.get("kind") != "span":
        return read_run_info(item)
    return SpanInfo(
        status=item["status"],
        first=_parse_instant(item["from"]),
        last=_parse_instant(item["to"]),
        count=item["count"],
        reason=item["reason"]["code"],
        message=item["reason"]["message"],
    )


def read_instant(text: str | None) -> datetime | None:
    """Read an instant that may be null."""
    return None if text is None else _parse_instant(text)


def _parse_instant(text: str) -> datetime:
    return datetime.fromisoformat(text)


def _read_schedule(schedule: Any) -> str | None:
    """The text of a schedule. A schedule that names its dialect is an object."""
    if isinstance(schedule, Mapping):
        schedule = next((value for key, value in schedule.items() if key != "dialect"), None)
    if isinstance(schedule, list):
        return join_expressions(map(str, schedule))
    return None if schedule in (None, MANUAL) else str(schedule)


def _read_task(task: JsonObject) -> TaskInfo:
    attempts = task.get("attempts", ())
    return TaskInfo(
        name=task["name"],
        status=task["status"],
        attempts=max((attempt.get("number", 1) for attempt in attempts), default=0),
        error=task.get("error"),
        result=task.get("result"),
    )
