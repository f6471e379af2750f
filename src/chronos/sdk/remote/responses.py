"""Answers of a server as the values that the SDK gives."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from chronos.runners.python.context import MissedSpan
from chronos.sdk.info import JobInfo, RunInfo, SpanInfo, TaskInfo

MANUAL = "manual"
Answer = Mapping[str, Any]


def job_info(job: Answer) -> JobInfo:
    """A job."""
    return JobInfo(
        name=job["name"],
        namespace=job["namespace"],
        version=job["version"],
        state=job["state"],
        schedule=_schedule(job.get("schedule")),
        timezone=job.get("timezone"),
        next_run=instant(job.get("next_run_at")),
        description=job.get("description", ""),
        owner=job.get("owner"),
        tags=dict(job.get("tags") or {}),
        note=job.get("error") or job.get("note", ""),
    )


def run_info(execution: Answer) -> RunInfo:
    """An execution."""
    reason = execution.get("reason") or {}
    return RunInfo(
        id=execution["id"],
        status=execution["status"],
        trigger=execution["trigger"],
        scheduled_at=_needed(execution["scheduled_at"]),
        started_at=instant(execution.get("started_at")),
        finished_at=instant(execution.get("finished_at")),
        attempts=execution["attempts"],
        reason=reason.get("code"),
        message=reason.get("message"),
        result=execution.get("result"),
        payload=execution.get("payload"),
        tasks=tuple(_task(task) for task in execution.get("tasks", ())),
        job_version=execution["job_version"],
        recovered=execution["recovered"],
        replay_of=execution.get("replay_of"),
        span=_span(execution.get("span")),
    )


def _span(span: Answer | None) -> MissedSpan | None:
    if span is None:
        return None
    return MissedSpan(
        from_=_needed(span["from"]), to=_needed(span["to"]), count=span["count"], exact=span.get("exact", True)
    )


def past_info(item: Answer) -> RunInfo | SpanInfo:
    """An item of a job's history."""
    if item.get("kind") != "span":
        return run_info(item)
    return SpanInfo(
        status=item["status"],
        first=_needed(item["from"]),
        last=_needed(item["to"]),
        count=item["count"],
        reason=item["reason"]["code"],
        message=item["reason"]["message"],
    )


def instant(text: str | None) -> datetime | None:
    """A moment of an answer."""
    return None if text is None else _needed(text)


def _needed(text: str) -> datetime:
    return datetime.fromisoformat(text)


def _schedule(said: Any) -> str | None:
    """The text of a schedule; one that had to name its dialect is an object."""
    if isinstance(said, Mapping):
        return next((str(value) for key, value in said.items() if key != "dialect"), None)
    return None if said in (None, MANUAL) else str(said)


def _task(task: Answer) -> TaskInfo:
    attempts = task.get("attempts", ())
    return TaskInfo(
        name=task["name"],
        status=task["status"],
        attempts=max((attempt.get("number", 1) for attempt in attempts), default=0),
        error=task.get("error"),
        result=task.get("result"),
    )
