"""Schemas of the guide's paths: the names that they add to jobs and executions."""

from typing import Any

from chronos.api.openapi.job_schema import JOB_INPUT_FIELDS
from chronos.api.openapi.schema_builders import Schema, text, with_description
from chronos.api.openapi.target_schema import OTHER_TARGETS
from chronos.api.routing import ref

_TEXT: Schema = {"type": ["string", "null"]}
_AT: Schema = {"type": ["string", "null"], "format": "date-time"}
_JOB: Schema = {
    "job_id": with_description("another name of id", _TEXT),
    "job_name": with_description("another name of name", _TEXT),
    "job_type": with_description("the Python function of a job with a single task; null for other jobs", _TEXT),
    "schedule_type": with_description("ONE_TIME or RECURRING; null without a schedule", _TEXT),
    "cron_expression": with_description("the schedule, if it is a cron expression", _TEXT),
    "execute_at": with_description("the time of a one-time job", _AT),
    "next_run_time": with_description("another name of next_run_at", _AT),
    "status": with_description("state in capitals", {"type": "string"}),
    "max_retries": with_description("attempts after the first; null if not set", {"type": ["integer", "null"]}),
    "timeout_secs": with_description("task_timeout in seconds; null if not set", {"type": ["number", "null"]}),
    "owner_id": with_description("another name of owner", _TEXT),
}
_EXECUTION: Schema = {
    "execution_id": with_description("another name of id", _TEXT),
    "status": with_description("PENDING, RUNNING, SUCCESS, FAILED, or another status in capitals", {"type": "string"}),
    "scheduled_time": with_description("another name of scheduled_at", _AT),
    "completed_at": with_description("another name of finished_at", _AT),
    "worker_id": with_description("another name of node", _TEXT),
    "attempt_number": with_description("another name of attempts", {"type": ["integer", "null"]}),
    "error_message": with_description("the message of the reason, if it failed", _TEXT),
}
GUIDE_JOB_EXAMPLE: dict[str, Any] = {
    "name": "daily-report",
    "job_type": "REPORT_GENERATOR",
    "schedule_type": "RECURRING",
    "cron_expression": "0 9 * * *",
    "timezone": "America/New_York",
    "payload": {"report_type": "daily_summary"},
    "priority": 7,
}


def _page(name: str) -> Schema:
    properties = {"items": {"type": "array", "items": ref(name)}, "next_cursor": _TEXT}
    return {"type": "object", "required": ["items", "next_cursor"], "properties": properties}


GUIDE_SCHEMAS: dict[str, Schema] = {
    "GuideJob": with_description(
        "a job, with the guide's names beside its own", {"type": "object", "properties": _JOB}
    ),
    "GuideJobs": _page("GuideJob"),
    "GuideExecution": with_description(
        "an execution, with the guide's names beside its own", {"type": "object", "properties": _EXECUTION}
    ),
    "GuideExecutions": _page("GuideExecution"),
    "GuideJobInput": {
        "type": "object",
        "properties": {
            **JOB_INPUT_FIELDS,
            "job_name": text("another name of name", "daily-report", max_length=200),
            "owner_id": text("another name of owner", "billing", max_length=200),
            **{name: {**_JOB[name], "readOnly": True} for name in ("job_id", "status", "next_run_time")},
        },
        **OTHER_TARGETS,
    },
}
