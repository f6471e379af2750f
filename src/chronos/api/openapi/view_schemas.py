"""JSON Schemas of overviews: counts, facets, statistics, days, log windows, groups of dead letters."""

from typing import Any

from chronos.api.routing import ref
from chronos.core.execution import Status
from chronos.core.job import JobStatus
from chronos.store.day_counts import DayCount

_TEXT = {"type": "string"}
_TEXT_OR_NULL = {"type": ["string", "null"]}
_INTEGER = {"type": "integer"}
_INTEGER_OR_NULL = {"type": ["integer", "null"]}
_NUMBER_OR_NULL = {"type": ["number", "null"]}
_BOOLEAN = {"type": "boolean"}
_AT = {"type": "string", "format": "date-time"}
_AT_OR_NULL = {"type": ["string", "null"], "format": "date-time"}
_ID_OR_NULL = {"type": ["string", "null"], "format": "uuid"}
_ID = {"type": "string", "format": "uuid"}


def _object(required: dict[str, Any], optional: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    return {"type": "object", "required": list(required), "properties": required | (optional or {}), **more}


def _list(item: Any) -> dict[str, Any]:
    return {"type": "array", "items": item}


_FACETS = _list(_object({"value": _TEXT, "jobs": _INTEGER}))
_STATUS_COUNTS = {
    "type": "object",
    "properties": {status.name.lower(): _INTEGER for status in Status if status.final},
}
_DELAY_MINUTES = _object(
    {
        "start": _AT,
        "minutes": _INTEGER,
        "started": _INTEGER,
        "delay_p50_ms": _NUMBER_OR_NULL,
        "delay_p99_ms": _NUMBER_OR_NULL,
        "commits": _INTEGER,
        "commit_p50_ms": _NUMBER_OR_NULL,
        "commit_p99_ms": _NUMBER_OR_NULL,
    }
)
_RECENT = {
    "type": "array",
    "description": "oldest first, each `[status, duration_ms, retried]`",
    "items": {
        "type": "array",
        "minItems": 3,
        "maxItems": 3,
        "items": {"type": ["string", "number", "boolean", "null"]},
    },
}

#: Fields that `detail` and `include` add to a job.
JOB_DETAIL_FIELDS: dict[str, Any] = {
    "status": {"type": "string", "enum": [status.value for status in JobStatus]},
    "schedule_words": _TEXT_OR_NULL,
    "schedule_zone": _TEXT_OR_NULL,
    "understood_as": _TEXT_OR_NULL,
    "overdue_by_ms": _NUMBER_OR_NULL | {"description": "for how long a run is late"},
    "failing_since": _AT_OR_NULL | {"description": "the end of the first failure since the last success"},
    "last_success_at": _AT_OR_NULL,
    "running_since": _AT_OR_NULL,
    "open_runs": _INTEGER | {"description": "runs that are not finished"},
    "recent": _RECENT,
    "p50_ms": _NUMBER_OR_NULL,
    "p95_ms": _NUMBER_OR_NULL,
    "failing": {"anyOf": [ref("Failing"), {"type": "null"}], "description": "since when and why the job fails"},
    "paused": {
        "anyOf": [ref("PausedBy"), {"type": "null"}],
        "description": "who paused or disabled the job, when and why",
    },
    "upstream": _list(_TEXT) | {"description": "jobs that this job follows"},
    "downstream": _list(_TEXT) | {"description": "jobs that follow this job"},
    "version_author": _TEXT_OR_NULL,
    "version_saved_at": _AT_OR_NULL,
    "delay_p99_ms": _NUMBER_OR_NULL | {"description": "from due to started, of the recent runs"},
    "retried_runs": _INTEGER,
    "recent_runs": _INTEGER,
}
#: Fields that `detail` adds to a task of an execution.
TASK_DETAIL_FIELDS: dict[str, Any] = {
    "needs": _list(_TEXT) | {"description": "tasks that must end before it starts"},
    "kind": _TEXT_OR_NULL,
    "max_attempts": _INTEGER_OR_NULL,
    "backoff_until": _AT_OR_NULL | {"description": "when its next attempt starts"},
    "progress": {"anyOf": [ref("Progress"), {"type": "null"}]},
}
#: Fields that `detail` adds to an execution.
EXECUTION_DETAIL_FIELDS: dict[str, Any] = {
    "queue": _TEXT_OR_NULL,
    "labels": {"type": "object", "additionalProperties": _TEXT},
    "previous_execution_id": _ID_OR_NULL,
    "next_execution_id": _ID_OR_NULL,
}
#: Fields that `detail` adds to a step of an explanation.
WHY_DETAIL_FIELDS: dict[str, Any] = {
    "status": _TEXT_OR_NULL,
    "task": _TEXT_OR_NULL,
    "attempt": _INTEGER_OR_NULL,
    "refs": _list(_object({"kind": _TEXT, "id": _TEXT, "text": _TEXT})),
    "numbers": {
        "anyOf": [ref("WhyNumbers"), {"type": "null"}],
        "description": "how much of a limit is used",
    },
}
#: Fields of a node beside its registration.
NODE_DETAIL_FIELDS: dict[str, Any] = {
    "running": _INTEGER,
    "longest_since": _AT_OR_NULL,
    "version": _TEXT_OR_NULL,
    "address": _TEXT_OR_NULL,
    "skew_ms": _INTEGER_OR_NULL | {"description": "how far the store's clock is ahead of the node's"},
    "queues": {"anyOf": [_list(_TEXT), {"type": "null"}], "description": "null: any"},
    "taken_over": _INTEGER_OR_NULL | {"description": "executions that other nodes took over when it was lost"},
}
#: Fields that `detail` adds to a queue.
QUEUE_DETAIL_FIELDS: dict[str, Any] = {
    "held": _INTEGER | {"description": "executions that wait because their job is paused"},
    "oldest_ready_at": _AT_OR_NULL,
    "slots": _INTEGER | {"description": "of the nodes that serve it, shared with their other queues"},
    "served_by": _list(_TEXT) | {"description": "live nodes that can run it"},
    "shortage": _TEXT_OR_NULL | {"description": "why no live node can run some of it"},
}
#: Fields that `detail` adds to a dead letter.
LETTER_DETAIL_FIELDS: dict[str, Any] = {
    "group": _TEXT | {"description": "the key of its group"},
    "payload": {},
    "attempts": _INTEGER_OR_NULL,
    "last_output": _TEXT_OR_NULL | {"description": "the last lines that it wrote"},
}

VIEW_SCHEMAS: dict[str, Any] = {
    "Failing": _object(
        {
            "since": _AT,
            "failures_in_a_row": _INTEGER,
            "counted_all": _BOOLEAN,
            "first_execution_id": _ID_OR_NULL,
            "last_execution_id": _ID_OR_NULL,
            "task": _TEXT_OR_NULL,
            "error": _TEXT_OR_NULL,
            "version": _INTEGER_OR_NULL | {"description": "the version whose first run is the first failure"},
            "last_success_at": _AT_OR_NULL,
            "last_success_execution_id": _ID_OR_NULL,
        }
    ),
    "PausedBy": _object({"by": _TEXT_OR_NULL, "at": _AT_OR_NULL, "reason": _TEXT_OR_NULL}),
    "Progress": _object({"done": {"type": "number"}, "total": _NUMBER_OR_NULL}),
    "WhyNumbers": _object({"what": _TEXT, "used": _INTEGER, "allowed": _INTEGER}),
    "StatusCounts": _STATUS_COUNTS,
    "JobCounts": _object(
        {
            "total": _INTEGER,
            "by_status": {"type": "object", "additionalProperties": _INTEGER},
            "cap": _INTEGER | {"description": "a count of one more means more than this"},
        }
    ),
    "Facets": _object(
        {
            "tags": _FACETS,
            "owners": _FACETS,
            "zones": _FACETS,
            "targets": _FACETS,
            "queues": _list(_TEXT),
            "complete": _BOOLEAN | {"description": "false if zones and targets are those of the first 2,000 jobs"},
        }
    ),
    "RunStats": _object(
        {
            "from": _AT,
            "to": _AT,
            "bucket_ms": _INTEGER,
            "complete": _BOOLEAN,
            "totals": ref("StatusCounts"),
            "buckets": _list(
                _object(
                    {
                        "start": _AT,
                        "counts": {"anyOf": [ref("StatusCounts"), {"type": "null"}]},
                        "capped": _BOOLEAN | {"description": "true if the stretch has more runs than were counted"},
                    }
                )
            ),
        }
    ),
    "Delays": _object({"recent": _DELAY_MINUTES, "series": _list(_DELAY_MINUTES)}),
    "Days": _object(
        {
            "zone": _TEXT,
            "today": {"type": "string", "format": "date"},
            "complete": _BOOLEAN,
            "success_rate": _NUMBER_OR_NULL | {"description": "of the last 30 days, from 0 to 1"},
            "days": _list(
                _object(
                    {
                        "day": {"type": "string", "format": "date"},
                        "planned": _INTEGER_OR_NULL | {"description": "scheduled times to come; null: too many"},
                        "clock_changes": _BOOLEAN,
                    },
                    dict.fromkeys(DayCount._fields, _INTEGER),
                )
            ),
        }
    ),
    "UpcomingRun": _object(
        {"at": _AT, "wall": _TEXT, "offset": _TEXT, "clock_changed": _BOOLEAN, "note": _TEXT_OR_NULL}
    ),
    "LogWindow": _object(
        {
            "task": _TEXT,
            "attempt": _INTEGER,
            "lines": _list(
                _object(
                    {
                        "number": _INTEGER,
                        "at_byte": _INTEGER,
                        "text": _TEXT,
                        "cut_bytes": _INTEGER,
                        "matches": _BOOLEAN,
                    }
                )
            ),
            "total_lines": _INTEGER,
            "total_bytes": _INTEGER,
            "left_out_bytes": _INTEGER | {"description": "output that was not kept"},
            "previous_byte": _INTEGER_OR_NULL,
            "next_byte": _INTEGER_OR_NULL,
            "match_count": _INTEGER_OR_NULL,
            "match_lines": _list(_INTEGER),
            "parts": _list(_object({"task": _TEXT, "attempt": _INTEGER, "lines": _INTEGER, "bytes": _INTEGER})),
        }
    ),
    "LetterGroups": _object(
        {
            "items": _list(
                _object(
                    {
                        "key": _TEXT,
                        "error": _TEXT | {"description": "numbers, ids and quoted text are placeholders"},
                        "jobs": _list(_TEXT),
                        "count": _INTEGER,
                        "latest_at": _AT,
                        "latest_id": _ID,
                        "trend": _list(_INTEGER) | {"description": "per day of the last week, oldest first, in UTC"},
                    }
                )
            ),
            "letters": _INTEGER,
            "complete": _BOOLEAN,
            "latest_at": _AT_OR_NULL,
        }
    ),
}
