"""JSON Schemas of the responses. They state what is promised, and no more."""

from typing import Any

from chronos.api.auth.permissions import Role
from chronos.api.openapi.guide_schema import GUIDE_SCHEMAS
from chronos.api.openapi.job_schema import JOB_FIELDS, JOB_SCHEMAS
from chronos.api.openapi.view_schemas import (
    EXECUTION_DETAIL_FIELDS,
    JOB_DETAIL_FIELDS,
    LETTER_DETAIL_FIELDS,
    NODE_DETAIL_FIELDS,
    QUEUE_DETAIL_FIELDS,
    TASK_DETAIL_FIELDS,
    VIEW_SCHEMAS,
    WHY_DETAIL_FIELDS,
)
from chronos.api.routing import ref
from chronos.core.config import Settings
from chronos.core.execution import Status
from chronos.core.job import JobState
from chronos.core.settings.cascade import Level

_TEXT = {"type": "string"}
_TEXT_OR_NULL = {"type": ["string", "null"]}
_INTEGER = {"type": "integer"}
_BOOLEAN = {"type": "boolean"}
_LEVEL = {"type": "string", "enum": [level.value for level in Level]}
_NUMBER_OR_NULL = {"type": ["number", "null"]}
_ID = {"type": "string", "format": "uuid"}
_AT = {"type": "string", "format": "date-time"}
_AT_OR_NULL = {"type": ["string", "null"], "format": "date-time"}
_MAP = {"type": "object", "additionalProperties": _TEXT}


def _object(required: dict[str, Any], optional: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    return {"type": "object", "required": list(required), "properties": required | (optional or {}), **more}


def _list(item: Any) -> dict[str, Any]:
    return {"type": "array", "items": item}


_STATE = {"type": "string", "enum": [state.name.lower() for state in JobState]}
_STATUS = {"type": "string", "enum": [status.name.lower() for status in Status]}
_JOB_REQUIRED: dict[str, Any] = {
    "id": _ID,
    "name": ref("Name"),
    "namespace": ref("Name"),
    "version": _INTEGER,
    "state": _STATE,
    "enabled": _BOOLEAN,
    "tasks": _list(ref("TaskInput")),
    "next_run_at": _AT_OR_NULL,
    "created_at": _AT,
    "updated_at": _AT,
}
_JOB_OPTIONAL: dict[str, Any] = {
    **{name: schema for name, schema in JOB_FIELDS.items() if name not in _JOB_REQUIRED},
    "tags": ref("Tags"),
    "note": {"type": "string", "description": "why the job is paused or disabled, or why this server leaves it alone"},
    "held": _BOOLEAN,
    "paused_at": _AT,
    "error": {"type": "string", "description": "why the definition cannot be read; such a job does not run"},
    **JOB_DETAIL_FIELDS,
}
_LAST = {"anyOf": [ref("ExecutionItem"), {"type": "null"}]}

_EXECUTION: dict[str, Any] = {
    "kind": {"type": "string", "const": "execution"},
    "id": _ID,
    "job_id": _ID,
    "job_name": _TEXT_OR_NULL,
    "job_version": _INTEGER,
    "settings": _object({"defaults": _INTEGER, "namespace": _INTEGER})
    | {"description": "the numbers of the defaults and of the namespace's settings that it was admitted under"},
    "trigger": {"type": "string", "enum": ["schedule", "recovery", "backfill", "manual", "replay", "dependency"]},
    "scheduled_at": _AT,
    "admitted_at": _AT,
    "started_at": _AT_OR_NULL,
    "finished_at": _AT_OR_NULL,
    "status": _STATUS,
    "reason": {"anyOf": [ref("Reason"), {"type": "null"}]},
    "recovered": _BOOLEAN,
    "node": _TEXT_OR_NULL,
    "attempts": _INTEGER,
    "lateness_ms": _NUMBER_OR_NULL,
    "duration_ms": _NUMBER_OR_NULL,
}
_SPAN: dict[str, Any] = {
    "kind": {"type": "string", "const": "span"},
    "id": _ID,
    "job_id": _ID,
    "job_name": _TEXT_OR_NULL,
    "status": _STATUS,
    "from": _AT,
    "to": _AT,
    "count": _INTEGER,
    "reason": ref("Reason"),
    "recorded_at": _AT,
}
_COUNTS: dict[str, Any] = {"type": "object", "additionalProperties": _INTEGER}
#: The state of the node that responds.
_NODE_FACTS: dict[str, Any] = {
    "node": _TEXT | {"description": "the name of the node"},
    "number": _INTEGER,
    "version": _TEXT,
    "ready": _BOOLEAN,
    "reason": _TEXT_OR_NULL | {"description": "why the node is not ready"},
    "schedules": _BOOLEAN,
    "works": _BOOLEAN,
    "slots": _INTEGER,
    "executions_here": _INTEGER,
    "jobs_held": _INTEGER,
    "jobs_recovered": _INTEGER | {"description": "active or paused jobs found at the start, without broken ones"},
    "jobs_failed_to_recover": _INTEGER | {"description": "jobs that this node cannot schedule"},
}
_ATTEMPT = _object(
    {
        "number": _INTEGER,
        "attempt_id": _ID,
        "status": _TEXT,
        "started_at": _AT_OR_NULL,
        "finished_at": _AT_OR_NULL,
        "error": _TEXT_OR_NULL,
        "worker": _TEXT_OR_NULL,
    },
    {"backoff_ms": _NUMBER_OR_NULL | {"description": "the delay before the next attempt, if one followed"}},
)
_REPORT_TASK = _object(
    {
        "name": _TEXT,
        "task_run_id": _ID,
        "status": _TEXT,
        "on_failure": _TEXT,
        "started_at": _AT_OR_NULL,
        "finished_at": _AT_OR_NULL,
        "worked_ms": {"type": "number", "description": "the time of its attempts, without waits"},
        "error": _TEXT_OR_NULL,
        "result": {"description": "what the task returned"},
        "stopped_by": {"anyOf": [ref("Anything"), {"type": "null"}]},
        "attempts": _list(ref("Attempt")),
    }
)
_REPORT = _object(
    {
        "execution_id": _ID,
        "job_id": _ID,
        "job_name": _TEXT_OR_NULL,
        "namespace": _TEXT_OR_NULL,
        "job_version": _INTEGER,
        "scheduled_at": _AT,
        "trigger": _TEXT,
        "recovered": _BOOLEAN,
        "node": _TEXT_OR_NULL,
        "replay_of": {"anyOf": [_ID, {"type": "null"}]},
        "span": {"anyOf": [ref("Anything"), {"type": "null"}]},
        "mode": _TEXT,
        "strategy": _TEXT,
        "status": _TEXT_OR_NULL,
        "reason": {"anyOf": [ref("Reason"), {"type": "null"}]},
        "began_at": _AT,
        "finished_at": _AT_OR_NULL,
        "worked_ms": {"type": "number"},
        "tasks": _list(ref("ReportTask")),
        "stopped": _list(ref("Anything")),
    }
)
_TASK = _object(
    {
        "name": _TEXT,
        "task_run_id": _ID,
        "status": _TEXT,
        "started_at": _AT_OR_NULL,
        "finished_at": _AT_OR_NULL,
        "error": _TEXT_OR_NULL,
        "attempts": _list(ref("Attempt")),
    },
    {"retired": {"type": "boolean", "description": "true if the job no longer has this task"}, **TASK_DETAIL_FIELDS},
)
_SOME_RUNS = ref("SomeRuns")
_RUNS = _object(
    {
        "added": _SOME_RUNS,
        "canceled": _SOME_RUNS,
        "cancelled": {
            "allOf": [_SOME_RUNS],
            "deprecated": True,
            "description": "the same as canceled; removed in the next release",
        },
        "kept": _SOME_RUNS,
        "until": _AT,
        "whole": _BOOLEAN,
    }
)
_FIELD_ERRORS = _list(ref("FieldError"))
_ROLES_INPUT = {
    "type": "object",
    "description": "a role per namespace",
    "minProperties": 1,
    "additionalProperties": {"type": "string", "enum": [role.name.lower() for role in Role]},
}

SCHEMAS: dict[str, Any] = {
    "Anything": {"type": "object", "additionalProperties": True},
    "Name": {"type": "string", "pattern": "^[A-Za-z0-9][A-Za-z0-9._-]{0,199}$"},
    **JOB_SCHEMAS,
    **GUIDE_SCHEMAS,
    "Job": _object(_JOB_REQUIRED | {"last_execution": _LAST}, _JOB_OPTIONAL),
    "Saved": _object(
        {
            "id": _ID,
            "namespace": ref("Name"),
            "name": ref("Name"),
            "version": _INTEGER,
            "result": {"type": "string", "enum": ["created", "changed", "unchanged"]},
            "state": _STATE,
            "next_run_at": _AT_OR_NULL,
        },
        {"diff": ref("ChangedRuns"), "warnings": _list(ref("Warning")), "dry_run": _BOOLEAN},
    ),
    "ChangedRuns": _RUNS,
    "SomeRuns": _object({"first": _list(_AT), "count": _INTEGER}),
    "ChangedJob": {"allOf": [ref("Job"), _object({}, {"diff": ref("ChangedRuns"), "warnings": _list(ref("Warning"))})]},
    "Warning": _object({"kind": _TEXT, "message": _TEXT}),
    "JobOrSaved": {"anyOf": [ref("ChangedJob"), ref("Saved")]},
    "Bulk": _object(
        {
            "created": _INTEGER,
            "changed": _INTEGER,
            "unchanged": _INTEGER,
            "failed": _INTEGER,
            "dry_run": _BOOLEAN,
            "results": _list({"anyOf": [ref("Saved"), ref("NotSaved")]}),
        }
    ),
    "NotSaved": _object(
        {"result": {"type": "string", "const": "failed"}, "code": _TEXT, "status": _INTEGER, "message": _TEXT},
        {"name": _TEXT_OR_NULL, "errors": _FIELD_ERRORS},
    ),
    "Acted": _object(
        {
            "action": _TEXT,
            "dry_run": _BOOLEAN,
            "matched": _INTEGER,
            "done": _INTEGER,
            "unchanged": _INTEGER,
            "failed": _INTEGER,
            "results": _list(
                _object(
                    {
                        "id": _ID,
                        "namespace": ref("Name"),
                        "name": ref("Name"),
                        "result": {"type": "string", "enum": ["done", "unchanged", "failed"]},
                    },
                    {"execution_id": _ID, "code": _TEXT, "status": _INTEGER, "message": _TEXT},
                )
            ),
        }
    ),
    "Plan": _object(
        {
            "dry_run": _BOOLEAN,
            "created": _list(ref("Saved")),
            "changed": _list(ref("Saved")),
            "unchanged": _list(ref("Saved")),
            "pruned": _list(ref("Job")),
        }
    ),
    "EffectiveSetting": _object(
        {"value": {}, "from": _LEVEL}, {"fields": {"type": "object", "additionalProperties": _LEVEL}}
    ),
    "EffectiveSettings": _object(
        {
            **{name.removesuffix("_us"): ref("EffectiveSetting") for name in Settings.__struct_fields__},
            "tasks": {
                "type": "object",
                "description": "by task, the settings that it may override",
                "additionalProperties": {"type": "object", "additionalProperties": ref("EffectiveSetting")},
            },
            "versions": _object({"job": _INTEGER, "defaults": _INTEGER, "namespace": _INTEGER}),
        }
    ),
    "Version": _object(
        {"version": _INTEGER, "saved_at": _AT, "author": _TEXT, "spec": ref("Anything")},
    ),
    "VersionDiff": _object(
        {
            "from": _INTEGER,
            "to": _INTEGER,
            "fields": _list(_object({"pointer": _TEXT, "old": {}, "new": {}})),
            "runs": ref("ChangedRuns"),
        }
    ),
    "Asked": _object({"execution_id": _ID, "status": _STATUS, "created": _BOOLEAN}, {"replay_of": _ID}),
    "OneOff": _object(
        {"execution_id": _ID, "status": _STATUS, "created": _BOOLEAN, "job_id": _ID, "job_name": _TEXT},
    ),
    "Enqueued": _object({"execution_ids": _list(_ID), "count": _INTEGER}),
    "Backfilled": _object({"execution_ids": _list(_ID), "count": _INTEGER, "next_from": _AT_OR_NULL}),
    "Why": _object({"steps": _list(_object({"at": _AT, "verdict": _TEXT, "sentence": _TEXT}, WHY_DETAIL_FIELDS))}),
    "Signalled": _object({"execution_id": _ID, "signal": _TEXT}),
    "Cancelled": _object({"execution_id": _ID, "status": _STATUS}),
    "Reason": _object({"code": _TEXT, "message": _TEXT}),
    "ExecutionItem": {"anyOf": [ref("ListedExecution"), ref("Span")]},
    "ListedExecution": _object(_EXECUTION),
    "Span": _object(_SPAN),
    "Attempt": _ATTEMPT,
    "Task": _TASK,
    "ReportTask": _REPORT_TASK,
    "Report": _REPORT,
    "Execution": _object(
        _EXECUTION | {"tasks": _list(ref("Task")), "report": {"anyOf": [ref("Report"), {"type": "null"}]}},
        {"payload": {}, "result": {}, "replay_of": _ID, **EXECUTION_DETAIL_FIELDS},
    ),
    "DeadLetter": _object(
        {
            "id": _ID,
            "execution_id": _ID,
            "job_id": _ID,
            "job_name": _TEXT_OR_NULL,
            "namespace": _TEXT,
            "failed_at": _AT,
            "reason": ref("Reason"),
        },
        LETTER_DETAIL_FIELDS,
    ),
    "Preview": _object(
        {
            "words": _TEXT,
            "understood_as": _TEXT_OR_NULL
            | {"description": "the expression that words, names and macros stand for; null if the text is one"},
            "timezone": _TEXT,
            "next": _list(_AT),
            "warnings": _list(
                _object({"kind": _TEXT, "message": _TEXT}, {"at": _AT, "wall": _TEXT, "count": _INTEGER})
            ),
        }
    ),
    "Status": _object(
        {"now": _AT},
        {
            "jobs_persisted": _INTEGER,
            "jobs": _COUNTS | {"description": "by state"},
            "executions": _COUNTS | {"description": "executions in progress, by status"},
            **_NODE_FACTS,
        },
    ),
    "Node": _object(
        {
            "number": _INTEGER,
            "name": _TEXT,
            "state": {"type": "string", "enum": ["alive", "draining", "lost", "stopped"]},
            "started_at": _AT,
            "beat_at": _AT,
            "stopped_at": _AT_OR_NULL,
            "slots": _INTEGER,
            "labels": _MAP,
            "defaults": {
                "type": ["object", "null"],
                "description": "the defaults that the server is configured with: their number, and whether the same "
                "values are in force; null: the node has none",
                "properties": {"number": _INTEGER, "in_force": _BOOLEAN},
            },
        },
        NODE_DETAIL_FIELDS,
    ),
    "Queue": _object(
        {
            "queue": _TEXT,
            "ready": _INTEGER,
            "queued": _INTEGER,
            "running": _INTEGER,
            "waiting": _INTEGER,
        },
        {"labels": _MAP, "functions": _list(_TEXT), **QUEUE_DETAIL_FIELDS},
    ),
    "Namespace": _object({"name": ref("Name")}),
    "AuditEntry": _object(
        {
            "at": _AT,
            "actor": _TEXT,
            "action": _TEXT,
            "namespace": _TEXT,
            "subject": _TEXT,
            "origin": _TEXT,
            "detail": _TEXT,
        }
    ),
    "Token": _object(
        {
            "name": _TEXT,
            "role": _TEXT,
            "namespaces": {"anyOf": [_list(ref("Name")), ref("Roles"), {"type": "null"}]},
            "created_at": _AT_OR_NULL,
            "expires_at": _AT_OR_NULL,
            "created_by": _TEXT_OR_NULL,
        },
        {"token": {"type": "string", "description": "only in the response that creates it"}},
    ),
    "Roles": _MAP | {"description": "a role per namespace"},
    "RolesInput": _ROLES_INPUT,
    "User": _object({"name": _TEXT, "role": _TEXT_OR_NULL, "namespaces": {"anyOf": [ref("Roles"), {"type": "null"}]}}),
    **VIEW_SCHEMAS,
    "FieldError": _object({"pointer": _TEXT, "message": _TEXT}),
    "Problem": _object(
        {
            "type": {"type": "string", "format": "uri-reference", "description": "the page that explains the code"},
            "title": _TEXT,
            "status": _INTEGER,
            "code": _TEXT | {"description": "stable; match on this"},
            "detail": _TEXT,
            "request_id": _TEXT,
        },
        {"errors": _FIELD_ERRORS},
    ),
}
