"""Names of the job schedulers' guide for the fields of jobs and executions, in responses and in requests.

A response has both names of a field. A client may change either of them and send the whole back::

    job ──► with_job_names ──► client ──► to_own_names ──► job
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from chronos.core.calendar import SECOND_US, rfc3339
from chronos.core.schedule.iso8601 import is_instant, parse_instant
from chronos.core.schedule.parser import is_cron
from chronos.core.schedule.timezones import get_zone
from chronos.errors import InvalidSchedule
from chronos.service.serializers import InvalidJob, Problem
from chronos.service.serializers.object_reader import read_duration_us

Json = dict[str, Any]
_ONE_TIME, _RECURRING = "ONE_TIME", "RECURRING"
_STATUS_NAMES = {"succeeded": "SUCCESS", "ready": "PENDING", "queued": "PENDING", "waiting": "PENDING"}
_FAILED = ("failed", "stale", "completed_with_errors")
#: The guide's fields that are other names of one field.
_RENAMED = {"job_name": "name", "owner_id": "owner", "job_id": "id", "next_run_time": "next_run_at", "status": "state"}
#: The guide's fields that jobs take too, and the field that each replaces.
_REPLACED = {
    "job_type": "tasks",
    "cron_expression": "schedule",
    "execute_at": "schedule",
    "max_retries": "retry",
    "timeout_secs": "task_timeout",
}
_CHECKED = "schedule_type"  # changes nothing, but must fit the schedule


# --- responses


def with_job_names(job: Json) -> Json:
    """Add the guide's names to a job. A setting that the job does not set is null."""
    if job.get("dry_run"):
        return job
    translated = job | _to_guide_fields(job)
    if last := job.get("last_execution"):
        translated["last_execution"] = with_execution_names(last)
    return translated


def with_execution_names(execution: Json) -> Json:
    """Add the guide's names to an execution or a span."""
    status = str(execution.get("status", ""))
    reason = execution.get("reason") or {}
    return execution | {
        "execution_id": execution.get("id", execution.get("execution_id")),
        "status": to_status_name(status),
        "scheduled_time": execution.get("scheduled_at", execution.get("from")),
        "completed_at": execution.get("finished_at"),
        "worker_id": execution.get("node"),
        "attempt_number": execution.get("attempts"),
        "error_message": reason.get("message") if status in _FAILED else None,
    }


def to_status_name(status: str) -> str:
    """Return the guide's word for the status of an execution."""
    return _STATUS_NAMES.get(status, status.upper())


def _to_guide_fields(job: Mapping[str, Any]) -> Json:
    kind, cron, at = _describe_schedule(job)
    return {
        "job_id": job.get("id"),
        "job_name": job.get("name"),
        "job_type": _find_function(job),
        "schedule_type": kind,
        "cron_expression": cron,
        "execute_at": at,
        "next_run_time": job.get("next_run_at"),
        "status": str(job.get("state", "")).upper(),
        "max_retries": _find_max_retries(job),
        "timeout_secs": _find_timeout_s(job),
        "owner_id": job.get("owner"),
    }


def _find_function(job: Mapping[str, Any]) -> str | None:
    """Return the Python function of a job with a single task; None for any other job."""
    match job.get("tasks"):
        case [{"python": {"name": str(name)}}]:
            return name
        case _:
            return None


def _describe_schedule(job: Mapping[str, Any]) -> tuple[str | None, str | None, str | None]:
    """Return the guide's type, cron expression and time of a schedule; None where the schedule has none."""
    match job.get("schedule"):
        case None | "manual" | "now":
            return None, None, None
        case str(text) | {"cron": str(text)}:
            if is_instant(text):
                return _ONE_TIME, None, _to_instant(text, job.get("timezone"))
            if text.startswith("in "):
                return _ONE_TIME, None, job.get("next_run_at")
            return _RECURRING, text if is_cron(text) else None, None
        case _:
            return _RECURRING, None, None


def _to_instant(text: str, timezone: Any) -> str:
    try:
        us = parse_instant(text, get_zone(timezone if isinstance(timezone, str) else "UTC"))
    except InvalidSchedule:
        us = None
    return text if us is None else rfc3339(us)


def _find_max_retries(job: Mapping[str, Any]) -> int | None:
    match job.get("retry"):
        case {"max_attempts": int(attempts)}:
            return attempts - 1
        case _:
            return None


def _find_timeout_s(job: Mapping[str, Any]) -> float | None:
    text = job.get("task_timeout")
    try:
        us = read_duration_us(text) if isinstance(text, str) else None
    except InvalidSchedule:
        return None
    if us is None:
        return None
    return us // SECOND_US if us % SECOND_US == 0 else us / SECOND_US


# --- requests


@dataclass(slots=True)
class TranslatedBody:
    """A job in its own names, and the guide's names that it was sent with."""

    data: Any
    guide_names: dict[str, str] = field(default_factory=dict)  # by the job's own name

    def rename_problems(self, error: InvalidJob) -> InvalidJob:
        """Return the error with pointers to the fields that the client sent."""
        problems = [
            Problem(f"/{self.guide_names.get(problem.pointer[1:], problem.pointer[1:])}", problem.message)
            if problem.pointer
            else problem
            for problem in error.problems
        ]
        return InvalidJob(problems, name=error.name, more=error.more)


def to_own_names(sent: Any, existing: Json | None) -> TranslatedBody:
    """Translate a sent job. Of two names of a field, the one that was changed counts.

    ``existing`` is the job as a response has it, or None for a new job. Raises ``InvalidJob`` if both names of a field
    have different new values.
    """
    if not isinstance(sent, dict):
        return TranslatedBody(sent)
    body = TranslatedBody(dict(sent))
    known, derived = _to_guide_fields(existing or {}), _to_guide_fields(sent)
    problems: list[Problem] = []
    for guide_name, own_name in (*_RENAMED.items(), *_REPLACED.items()):
        if guide_name not in sent:
            continue
        value, has_both = sent[guide_name], own_name in sent
        if has_both and (value == derived[guide_name] or (existing is not None and value == known[guide_name])):
            del body.data[guide_name]
        elif has_both and _is_changed(own_name, sent, existing):
            problems.append(Problem(f"/{guide_name}", f'contradicts "{own_name}"; change one of them'))
        elif guide_name in _RENAMED:
            body.data[own_name] = _to_own_value(guide_name, body.data.pop(guide_name))
            body.guide_names[own_name] = guide_name
        else:
            _replace(body.data, own_name)
    if sent.get(_CHECKED) in (derived[_CHECKED], known[_CHECKED]):
        body.data.pop(_CHECKED, None)
    if problems:
        raise InvalidJob(problems)
    return body


def _is_changed(own_name: str, sent: Json, existing: Json | None) -> bool:
    """Return whether the client set a field of a job under its own name; of ``retry``, the number of attempts."""
    value, known = sent[own_name], (existing or {}).get(own_name)
    if own_name == "retry":
        value, known = (one.get("max_attempts") if isinstance(one, dict) else None for one in (value, known))
    return value is not None and (existing is None or value != known)


def _to_own_value(guide_name: str, value: Any) -> Any:
    return value.lower() if guide_name == "status" and isinstance(value, str) else value


def _replace(data: Json, own_name: str) -> None:
    """Remove the field whose value the guide's field replaces; of ``retry``, only the number of attempts."""
    own = data.pop(own_name, None)
    if own_name == "retry" and isinstance(own, dict):
        data["retry"] = {name: value for name, value in own.items() if name != "max_attempts"}


Translate = Callable[[Json], Json]


def page_of(translate: Translate) -> Translate:
    """Return a translation of every item of a page."""

    def translate_page(page: Json) -> Json:
        return page | {"items": [translate(item) for item in page["items"]]}

    return translate_page
