"""JSON Schema of a job as it is sent, with a description of every field.

The schema never rejects what the server accepts: null means absent, fields with several forms have no pattern, and
packages may provide other targets. It may accept what the server rejects.
"""

import re
from typing import Any

from chronos.api.openapi.schema_builders import (
    Schema,
    any_of,
    closed,
    duration,
    integer,
    number,
    one_of,
    text,
    text_map,
    texts,
    with_description,
)
from chronos.api.openapi.target_schema import OTHER_TARGETS, TARGET_SCHEMAS, TARGETS
from chronos.api.openapi.view_schemas import JOB_DETAIL_FIELDS
from chronos.api.routing import ref
from chronos.core.config import (
    DEFAULTS,
    OVERLAP_ALIASES,
    RECOVERY_ALIASES,
    Delivery,
    Mode,
    OnFailure,
    Overlap,
    RecoveryStrategy,
    UpdatePolicy,
)
from chronos.core.job import UpstreamCondition
from chronos.core.schedule.parser import DIALECTS, DST_POLICIES, MAX_EXCLUSIONS, MAX_LENGTH
from chronos.core.schedule.union import MAX_EXPRESSIONS
from chronos.service.one_off_runs import SETTINGS as ONE_OFF_FIELDS
from chronos.service.serializers.job import (
    DEFAULT_TASK_NAME,
    MAX_DESCRIPTION,
    MAX_FOLLOWED,
    MAX_PAYLOAD,
    MAX_TAGS,
    MAX_TASKS,
)
from chronos.service.serializers.settings import write_settings

_MAX_COUNT = 1_000_000
_DEFAULT = write_settings(DEFAULTS)


def _default_clause(name: str, inner: str | None = None) -> str:
    """Return the end of a description: the default value."""
    value = _DEFAULT[name] if inner is None else _DEFAULT[name][inner]
    days = re.fullmatch(r"(\d+)h", str(value))
    shown = f"{int(days[1]) // 24}d" if days and int(days[1]) % 24 == 0 else value
    return f"default: {shown}, or the server's default"


def _object(name: str, description: str) -> Schema:
    return any_of(description, ref(name))


# --- schedule

_OPTIONS: Schema = {
    "timezone": text("the time zone of the schedule, an IANA name; UTC by default", "Europe/Paris"),
    "dst": one_of("how daylight saving changes are handled; robust by default", DST_POLICIES),
    "start": text(
        "the earliest scheduled time, from which intervals count; without an offset, in the zone of the schedule",
        "2027-01-01T00:00:00Z",
    ),
    "end": text(
        "the latest scheduled time, or a duration from `start` or from the save that sets it", "2027-12-31T00:00:00Z"
    ),
    "jitter": duration("the maximum random delay of a run, to spread the load", "30s"),
    "exclude": texts(
        "excluded times: dates, ranges of dates, cron expressions", MAX_EXCLUSIONS, ["2027-12-25", "* * * * SUN"]
    ),
}


def _expressions(description: str, *examples: Any) -> Schema:
    return texts(f"{description}; a list is the union of its items", MAX_EXPRESSIONS, *examples, max_length=MAX_LENGTH)


_SCHEDULE = closed(
    "a schedule: one of cron, every, iso8601, at, in, words, and its options",
    {
        "cron": _expressions("five fields, six with seconds first, seven with a year last, or a macro", "0 9 * * 1-5"),
        "every": duration("a fixed interval, 100 ms or more; two of them for a random one", "90s", "5m to 10m"),
        "iso8601": _expressions("a repeating interval or a period", "R5/2027-01-01T00:00:00Z/PT6H"),
        "at": _expressions("once, at this time", "2027-01-01T09:00:00Z"),
        "in": duration("once, this long after the job is saved", "24h"),
        "words": _expressions("plain English", "every weekday at 9am"),
        "dialect": one_of("the syntax of the text; detected by default", DIALECTS),
        **_OPTIONS,
    },
    {"cron": "0 9 * * 1-5", "timezone": "Europe/Paris"},
    {"every": "90s"},
)


def _schedule(description: str, *examples: Any) -> Schema:
    expressions = {"type": "array", "minItems": 1, "maxItems": MAX_EXPRESSIONS, "items": {"type": "string"}}
    return any_of(description, {"type": "string"}, expressions, ref("Schedule"), examples=examples)


# --- settings

_RETRY = closed(
    "which failures are retried, how often and when",
    {
        "max_attempts": integer(
            f"attempts in total; 1: no retry, null: no limit; {_default_clause('retry', 'max_attempts')}",
            1,
            _MAX_COUNT,
            5,
        ),
        "max_retries": integer("attempts after the first; instead of max_attempts", 0, _MAX_COUNT - 1, 4),
        "initial_interval": duration(
            f"the delay after the first failure; {_default_clause('retry', 'initial_interval')}", "1s"
        ),
        "multiplier": number(
            f"the factor by which the delay grows; {_default_clause('retry', 'multiplier')}", 1, 1000, 2.0
        ),
        "max_interval": duration(f"the longest delay; {_default_clause('retry', 'max_interval')}", "1h"),
        "jitter": number(
            f"the random part added to a delay, from 0 to 1; {_default_clause('retry', 'jitter')}", 0, 1, 0.1
        ),
        "timeout_multiplier": number(
            "the factor by which the task timeout grows from attempt to attempt; "
            f"{_default_clause('retry', 'timeout_multiplier')}",
            1,
            1000,
            2.0,
        ),
        "retry_on": texts(
            "names of failures that are retried; empty: those that the target considers retryable",
            100,
            ["timeout", "http_503"],
        ),
    },
    {"max_attempts": 5, "initial_interval": "1s", "multiplier": 2.0, "max_interval": "1h"},
)
_RECOVERY = closed(
    "which missed scheduled times run later",
    {
        "strategy": one_of(
            f"which missed times run; {_default_clause('recovery', 'strategy')}", RecoveryStrategy, *RECOVERY_ALIASES
        ),
        "max_count": integer(
            f"for bounded: the maximum number; {_default_clause('recovery', 'max_count')}", 0, _MAX_COUNT, 10
        ),
        "max_age": duration(f"for bounded: the maximum age; {_default_clause('recovery', 'max_age')}", "2d"),
        "after": duration(
            f"the delay after which a late time counts as missed; {_default_clause('recovery', 'after')}", "5m"
        ),
    },
    {"strategy": "bounded", "max_count": 10, "max_age": "2d"},
)
_UPDATE = closed(
    "when a new schedule replaces the old one",
    {
        "policy": one_of(f"how it takes over; {_default_clause('update')}", UpdatePolicy),
        "count": integer("for windowed: after this many times of the old schedule", 1, 10_000, 3),
        "duration": duration("for windowed: after this long; with a count, whichever comes first", "1w"),
    },
    {"policy": "windowed", "count": 3},
)
_CONCURRENCY = closed(
    "how many executions may run at once",
    {
        "limit": integer(
            "executions of the job with overlap allow, or of all jobs that share a key; 0: no limit", 0, _MAX_COUNT, 2
        ),
        "key": text(
            "a template of payload, job, namespace; equal keys of a namespace share the limit, by default 1",
            "{{ payload.customer }}",
            max_length=1024,
        ),
    },
    {"limit": 2, "key": "{{ payload.customer }}"},
)
_RETENTION = closed(
    "how much history is kept",
    {
        "max_count": integer(
            f"the number of executions; {_default_clause('retention', 'max_count')}", 0, 1_000_000_000, 100
        ),
        "max_age": duration(f"their maximum age; {_default_clause('retention', 'max_age')}", "30d"),
    },
    {"max_count": 100, "max_age": "30d"},
)
_PLACEMENT = closed(
    "which nodes may run the job, by their labels",
    {
        "labels": text_map("labels that a node must have", 64, {"region": "eu"}),
        "fallback": duration("after this long any node of the queue may run it; never by default", "10m"),
    },
    {"labels": {"region": "eu"}, "fallback": "10m"},
)
#: Settings of a job for all its tasks, which a task can override.
_OVERRIDES: Schema = {
    "on_failure": one_of(f"how a failed task affects the others; {_default_clause('on_failure')}", OnFailure),
    "retry": _object("Retry", "which failures are retried, how often and when"),
    "retry_policy": _object("Retry", "another name of retry"),
    "max_retries": integer("attempts after the first; retry.max_attempts minus one", 0, _MAX_COUNT - 1, 4),
    "task_timeout": duration(f"the time limit of one attempt; {_default_clause('task_timeout')}", "30s"),
    "timeout": duration("another name of task_timeout", "30s"),
    "timeout_secs": number("task_timeout in seconds", 0.000_001, 3_155_760_000, 60),
    "delivery": one_of(f"at_most_once: no retry of an attempt that started; {_default_clause('delivery')}", Delivery),
}
_OVERLAP = "while an earlier execution is in progress; forbid means skip"
_SETTINGS: Schema = {
    "mode": one_of(f"the order of the tasks; graph if a task has needs; {_default_clause('mode')}", Mode),
    **_OVERRIDES,
    "execution_timeout": duration(
        f"the time limit of an execution; 0s: no limit; {_default_clause('execution_timeout')}", "2h"
    ),
    "overlap": one_of(
        f"what happens to a scheduled time {_OVERLAP}; {_default_clause('overlap')}", Overlap, *OVERLAP_ALIASES
    ),
    "queue_max": integer(f"the maximum number of queued executions; {_default_clause('queue_max')}", 0, _MAX_COUNT, 10),
    "concurrency": any_of(
        "a limit; or, as text, another name of overlap",
        {"type": "string", "enum": [*map(str, Overlap), *OVERLAP_ALIASES]},
        ref("Concurrency"),
    ),
    "recovery": any_of(
        "which missed scheduled times run later; a strategy, or an object",
        {"type": "string", "enum": [*map(str, RecoveryStrategy), *RECOVERY_ALIASES]},
        ref("Recovery"),
    ),
    "update": any_of(
        "when a new schedule takes over; a policy, or an object",
        {"type": "string", "enum": [*map(str, UpdatePolicy)]},
        ref("Update"),
    ),
    "priority": integer(
        f"higher runs first; each step equals a minute of waiting; {_default_clause('priority')}", 1, 10, 8
    ),
    "retention": _object("Retention", "how much history is kept"),
    "queue": any_of(
        f"the queue, which decides which nodes may run the job; {_default_clause('queue')}",
        ref("Name"),
        examples=["mail"],
    ),
    "placement": _object("Placement", "which nodes may run the job, by their labels"),
}

#: Settings of a one-off run.
ONE_OFF_SETTINGS: Schema = {name: schema for name, schema in _SETTINGS.items() if name in ONE_OFF_FIELDS}

# --- the job

_NAME = any_of(f"unique within the job; {DEFAULT_TASK_NAME} for a single task", ref("Name"), examples=["extract"])
_TASK = with_description(
    "one step of a job: a target, the tasks it needs, and its settings",
    {
        "type": "object",
        "properties": {
            "name": _NAME,
            **TARGETS,
            "needs": texts("tasks that must succeed before this one starts", MAX_TASKS, ["extract"]),
            **_OVERRIDES,
        },
        **OTHER_TARGETS,
    },
    {"name": "load", "command": {"argv": ["./load.sh"]}, "needs": ["extract"], "timeout": "1h"},
)
_AFTER = closed(
    "an upstream job",
    {
        "job": {"type": "string", "maxLength": 200, "description": "the name of a job in the same namespace"},
        "on": one_of("the outcome that counts; success by default", UpstreamCondition),
    },
    required=["job"],
)
_TAGS = text_map("keys and values to find a job by", MAX_TAGS) | {"type": "object"}
_TAG_NAMES = with_description("keys of tags with empty values", {"type": "array", "items": {"type": "string"}})
_READ_ONLY: dict[str, str] = {
    "id": "the id of the job",
    "version": "grows with every change",
    "state": "active, paused, disabled or done",
    "next_run_at": "the next scheduled time",
    "last_execution": "the latest execution",
    "created_at": "when the job was created",
    "updated_at": "when the job was last changed",
    "note": "why the job is paused or disabled, or why this server leaves it alone",
    "held": "true while the job is paused: next_run_at is what resuming it would run",
    "paused_at": "when the job was paused",
    "error": "why the definition cannot be read",
    "diff": "how a change affects the upcoming runs",
    "warnings": "what may surprise in the schedule that was saved",
    **{name: f"`{name}` of a job that was read with `detail` or `include`" for name in JOB_DETAIL_FIELDS},
}
#: Fields of the definition, in requests and responses.
JOB_FIELDS: Schema = {
    "description": text("for people", max_length=MAX_DESCRIPTION),
    "schedule": _schedule(
        "when the job runs: text of any dialect, now, manual, or an object; by default once, when the job is created",
        "0 9 * * 1-5",
        "every weekday at 9am",
        "manual",
        {"every": "90s"},
    ),
    **_OPTIONS,
    "tasks": with_description(
        "the tasks; a single task may be given directly, as http, command, python or wait",
        {"type": ["array", "null"], "maxItems": MAX_TASKS, "items": ref("TaskInput")},
    ),
    **_SETTINGS,
    "after": with_description(
        "upstream jobs in the namespace: the job runs when all of them have finished with the given outcome",
        {
            "type": ["array", "null"],
            "maxItems": MAX_FOLLOWED,
            "items": {"anyOf": [{"type": "string"}, ref("Followed")]},
        },
        ["extract", {"job": "load", "on": "completion"}],
    ),
    "on_start": _object("Hook", "runs before the first task; its outcome is ignored"),
    "on_complete": _object("Hook", "runs after the last task, with the report as its payload"),
    "alerts": with_description(
        "rejected, because alerts are not supported yet; returned for jobs that were stored with some",
        {"type": ["array", "null"], "items": ref("Anything"), "deprecated": True},
    ),
    "owner": text("the program or file that declares the job", "billing", max_length=200),
    "tags": any_of(
        "tags to find the job by; a list means empty values",
        ref("Tags"),
        ref("TagNames"),
        examples=[{"team": "data"}, ["urgent"]],
    ),
    "payload": {"description": f"any JSON of up to {MAX_PAYLOAD // 1024} KiB, passed to the targets"},
}
#: Fields of the definition and read-only fields, in requests.
JOB_INPUT_FIELDS: Schema = {
    "name": {"description": "unique in the namespace; cannot be changed", **ref("Name")},
    "namespace": any_of('by default the namespace of the request, or "default"', ref("Name")),
    "enabled": with_description(
        "false: disabled; by default unchanged, and true for a new job", {"type": ["boolean", "null"]}
    ),
    **JOB_FIELDS,
    **TARGETS,
    "job_type": text("another name of python.name: the name of the function", "EMAIL_SENDER", max_length=200),
    "schedule_type": text(
        "one_time, once, delayed; recurring, cron, interval; immediate, now; any case; must fit the schedule",
        "RECURRING",
        max_length=64,
    ),
    "cron_expression": _schedule("another name of schedule, for a cron expression", "0 9 * * 1-5"),
    "execute_at": _schedule("another name of schedule, for an instant", "2027-01-01T09:00:00Z"),
    **{
        name: {
            "description": f"{description}; read-only, rejected if it contradicts the job",
            "readOnly": True,
        }
        for name, description in _READ_ONLY.items()
    },
}

JOB_SCHEMAS: dict[str, Schema] = {
    "JobFields": {"type": "object", "properties": JOB_INPUT_FIELDS, **OTHER_TARGETS},
    "JobInput": {
        "allOf": [
            ref("JobFields"),
            {"type": "object", "required": ["name"], "properties": {"name": JOB_INPUT_FIELDS["name"]}},
        ]
    },
    "JobPatch": with_description(
        "the fields of a job to change; null removes a field",
        {"type": "object", "additionalProperties": True},
    ),
    "TaskInput": _TASK,
    "Schedule": _SCHEDULE,
    "Retry": _RETRY,
    "Recovery": _RECOVERY,
    "Update": _UPDATE,
    "Concurrency": _CONCURRENCY,
    "Retention": _RETENTION,
    "Placement": _PLACEMENT,
    "Followed": _AFTER,
    "Tags": _TAGS,
    "TagNames": _TAG_NAMES,
    **TARGET_SCHEMAS,
}
