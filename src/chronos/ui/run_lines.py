"""What a list shows of one run: a sentence instead of a code."""

from collections.abc import Mapping
from typing import Any

from chronos.core.credentials import hide_userinfo
from chronos.core.execution import Execution, Span, Status
from chronos.core.reasons import ReasonCode
from chronos.core.schedule.iso8601 import parse_instant
from chronos.core.schedule.timezones import get_zone
from chronos.service.serializers.execution import read_detail

TRIGGERS = {"schedule": "schedule", "recovery": "recovery", "backfill": "backfill", "dependency": "upstream"}
_WAITS = {
    Status.READY: "Waiting for a slot",
    Status.QUEUED: "Queued behind an earlier run",
    Status.RUNNING: "In progress",
}


def parse_us(text: str | None) -> int | None:
    """Read an RFC 3339 instant of a record."""
    return None if text is None else parse_instant(text, get_zone("UTC"))


def describe_run(run: Execution, record: Mapping[str, Any] | None = None) -> str:
    """Describe how a run ended, or what it waits for, in one sentence without a full stop."""
    if not run.status.final:
        return _describe_open_run(run)
    if run.status is Status.SUCCEEDED:
        attempts = 0 if record is None else record.get("attempts", 0)
        return f"All tasks succeeded on attempt {attempts}" if attempts > 1 else "All tasks succeeded"
    failed = _find_failed_task(run)
    if failed is not None and run.status is Status.FAILED:
        name, error, attempts = failed
        times = f" after {attempts} attempts" if attempts > 1 else ""
        return hide_userinfo(f"{name} failed{times}: {error}" if error else f"{name} failed{times}").rstrip(".")
    message = "" if run.reason is None else run.reason.message.rstrip(".")
    if run.status is Status.SKIPPED and run.reason is not None and run.reason.code is ReasonCode.OVERLAP:
        return "Skipped because an earlier run was still in progress"
    return hide_userinfo(message) or run.status.name.replace("_", " ").capitalize()


def describe_span(span: Span) -> str:
    """Describe a span of scheduled times that did not run."""
    return hide_userinfo(span.reason.message.rstrip("."))


def _describe_open_run(run: Execution) -> str:
    if run.held:
        return "Waiting: the job is paused"
    if run.status is Status.WAITING:
        return f"Waiting for attempt {run.attempt}" if run.attempt > 1 else "Waiting"
    return f"Attempt {run.attempt}" if run.status is Status.RUNNING and run.attempt > 1 else _WAITS[run.status]


def _find_failed_task(run: Execution) -> tuple[str, str | None, int] | None:
    detail = read_detail(run)
    tasks: Any = () if detail.report is None else detail.report.tasks
    for task in tasks:
        if task.status in ("failed", "timed_out"):
            return task.name, task.error, task.attempts
    return None
