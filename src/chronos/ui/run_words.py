"""Runs in words: a sentence instead of a code."""

from typing import Any

from chronos.core.credentials import hide_userinfo
from chronos.core.execution import Execution, Span, Status
from chronos.core.reasons import ReasonCode
from chronos.service.serializers.execution import read_detail

TRIGGERS = {"dependency": "upstream", "schedule": "schedule"}


def describe_run(run: Execution, attempts: int = 1, details: str | None = None) -> str:
    """Describe how a run ended, or what it waits for, in one sentence without a full stop.

    ``details`` is what the service says about a run in progress.
    """
    if not run.status.final:
        return (details or ("In progress" if attempts < 2 else f"Attempt {attempts} in progress")).rstrip(".")
    if run.status is Status.SUCCEEDED:
        return f"All tasks succeeded on attempt {attempts}" if attempts > 1 else "All tasks succeeded"
    failed = _find_failed_task(run)
    if failed is not None and run.status is Status.FAILED:
        name, error, count = failed
        times = f" after {count} attempts" if count > 1 else ""
        return hide_userinfo(f"{name} failed{times}: {error}" if error else f"{name} failed{times}").rstrip(".")
    if run.status is Status.SKIPPED and run.reason is not None and run.reason.code is ReasonCode.OVERLAP:
        return "Skipped because an earlier run was still in progress"
    message = "" if run.reason is None else run.reason.message.rstrip(".")
    return hide_userinfo(message) or run.status.name.replace("_", " ").capitalize()


def describe_span(span: Span) -> str:
    """Describe a span of scheduled times that did not run."""
    return hide_userinfo(span.reason.message.rstrip("."))


def _find_failed_task(run: Execution) -> tuple[str, str | None, int] | None:
    detail = read_detail(run)
    tasks: Any = () if detail.report is None else detail.report.tasks
    for task in tasks:
        if task.status in ("failed", "timed_out"):
            return task.name, task.error, task.attempts
    return None
