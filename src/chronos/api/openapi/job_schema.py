"""A job as it may be sent, as JSON Schema: every field with what it means, as far as a schema can tell.

It never refuses what the server accepts: null is a field that is left out, what may be written in several forms has no
pattern, and a package may bring targets of other kinds. What the server refuses it may let pass.
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
from chronos.api.routing import ref
from chronos.core.config import DEFAULTS, Delivery, Mode, OnFailure, Overlap, RecoveryStrategy, UpdatePolicy
from chronos.core.job import UpstreamCondition
from chronos.core.schedule.parser import DIALECTS, DST_POLICIES, MAX_EXCLUSIONS, MAX_LENGTH
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
    """The end of a sentence: what holds where nothing is said."""
    value = _DEFAULT[name] if inner is None else _DEFAULT[name][inner]
    days = re.fullmatch(r"(\d+)h", str(value))
    shown = f"{int(days[1]) // 24}d" if days and int(days[1]) % 24 == 0 else value
    return f"{shown} unless given here or in the server's defaults"


def _object(name: str, description: str) -> Schema:
    return any_of(description, ref(name))


# --- when it runs

_OPTIONS: Schema = {
    "timezone": text("the schedule's zone, an IANA name; UTC unless given", "Europe/Paris"),
    "dst": one_of("what a change of the clocks does to it; robust unless given", DST_POLICIES),
    "start": text(
        "the first instant at which it may run, from which intervals are counted; without an offset, in its zone",
        "2027-01-01T00:00:00Z",
    ),
    "end": text("the last instant at which it may run", "2027-12-31T00:00:00Z"),
    "jitter": duration("the most that a run may be delayed, to spread the load", "30s"),
    "exclude": texts(
        "what is left out: dates, ranges of dates, cron expressions", MAX_EXCLUSIONS, ["2027-12-25", "* * * * SUN"]
    ),
}
_SCHEDULE = closed(
    "a schedule under one of cron, every, iso8601, at, in, words, and what stands around it",
    {
        "cron": text("five fields, six with seconds first, or a macro", "0 9 * * 1-5"),
        "every": duration("a fixed interval, 100 ms or more", "90s"),
        "iso8601": text("a repeating interval or a period", "R5/2027-01-01T00:00:00Z/PT6H"),
        "at": text("once, at this instant", "2027-01-01T09:00:00Z"),
        "in": duration("once, so long after it is saved", "24h"),
        "words": text("plain words", "every weekday at 9am"),
        "dialect": one_of("how to read the text; told by its key and shape unless given", DIALECTS),
        **_OPTIONS,
    },
    {"cron": "0 9 * * 1-5", "timezone": "Europe/Paris"},
    {"every": "90s"},
)


def _schedule(description: str, *examples: Any) -> Schema:
    return any_of(description, {"type": "string", "maxLength": MAX_LENGTH}, ref("Schedule"), examples=examples)


# --- how it runs

_RETRY = closed(
    "which failures are tried again, how often and when",
    {
        "max_attempts": integer(
            f"tries in all; 1: no second one, null: no limit; {_default_clause('retry', 'max_attempts')}",
            1,
            _MAX_COUNT,
            5,
        ),
        "max_retries": integer("tries after the first; instead of max_attempts", 0, _MAX_COUNT - 1, 4),
        "initial_interval": duration(
            f"the wait after a first failure; {_default_clause('retry', 'initial_interval')}", "1s"
        ),
        "multiplier": number(f"the wait grows by it each time; {_default_clause('retry', 'multiplier')}", 1, 1000, 2.0),
        "max_interval": duration(f"the longest wait; {_default_clause('retry', 'max_interval')}", "1h"),
        "jitter": number(f"how much of a wait may be added to it; {_default_clause('retry', 'jitter')}", 0, 1, 0.1),
        "retry_on": texts(
            "names of failures: only these are tried again; empty: what the target holds worth another try",
            100,
            ["timeout", "http_503"],
        ),
    },
    {"max_attempts": 5, "initial_interval": "1s", "multiplier": 2.0, "max_interval": "1h"},
)
_RECOVERY = closed(
    "what becomes of instants that no node ran in time",
    {
        "strategy": one_of(f"which of them run; {_default_clause('recovery', 'strategy')}", RecoveryStrategy),
        "max_count": integer(
            f"of bounded: how many at most; {_default_clause('recovery', 'max_count')}", 0, _MAX_COUNT, 10
        ),
        "max_age": duration(f"of bounded: none older than this; {_default_clause('recovery', 'max_age')}", "2d"),
        "after": duration(f"before it they are late, and simply run; {_default_clause('recovery', 'after')}", "5m"),
    },
    {"strategy": "bounded", "max_count": 10, "max_age": "2d"},
)
_UPDATE = closed(
    "when a new schedule takes over from the old one",
    {
        "policy": one_of(f"how; {_default_clause('update')}", UpdatePolicy),
        "count": integer("of windowed: after so many instants of the old one", 1, 10_000, 3),
        "duration": duration("of windowed: after so long; with a count, whichever comes first", "1w"),
    },
    {"policy": "windowed", "count": 3},
)
_CONCURRENCY = closed(
    "how many executions at once",
    {
        "limit": integer("of the job under overlap allow, or of all that share a key; 0: no limit", 0, _MAX_COUNT, 2),
        "key": text(
            "a template of payload, job, namespace: equal keys of a namespace share the limit, which is 1 unless given",
            "{{ payload.customer }}",
            max_length=1024,
        ),
    },
    {"limit": 2, "key": "{{ payload.customer }}"},
)
_RETENTION = closed(
    "how much history is kept",
    {
        "max_count": integer(f"executions; {_default_clause('retention', 'max_count')}", 0, 1_000_000_000, 100),
        "max_age": duration(f"how old; {_default_clause('retention', 'max_age')}", "30d"),
    },
    {"max_count": 100, "max_age": "30d"},
)
_PLACEMENT = closed(
    "which workers may take it, by their labels",
    {
        "labels": text_map("what a worker has to carry", 64, {"region": "eu"}),
        "fallback": duration("after so long any worker of the queue may take it; never unless given", "10m"),
    },
    {"labels": {"region": "eu"}, "fallback": "10m"},
)
#: What a job says for all of its tasks, and a task for itself.
_OVERRIDES: Schema = {
    "on_failure": one_of(f"what a failed task means to the others; {_default_clause('on_failure')}", OnFailure),
    "retry": _object("Retry", "which failures are tried again, how often and when"),
    "retry_policy": _object("Retry", "another name of retry"),
    "max_retries": integer("tries after the first; retry.max_attempts less one", 0, _MAX_COUNT - 1, 4),
    "task_timeout": duration(f"of one try; {_default_clause('task_timeout')}", "30s"),
    "timeout": duration("another name of task_timeout", "30s"),
    "timeout_secs": number("task_timeout in seconds", 0.000_001, 3_155_760_000, 60),
    "delivery": one_of(f"at_most_once: no try after one that started; {_default_clause('delivery')}", Delivery),
}
_OVERLAP = "while an earlier execution is under way; forbid is skip"
_SETTINGS: Schema = {
    "mode": one_of(f"in which order tasks run; graph once one has needs; {_default_clause('mode')}", Mode),
    **_OVERRIDES,
    "execution_timeout": duration(f"of all its work; 0s: no limit; {_default_clause('execution_timeout')}", "2h"),
    "overlap": one_of(f"what an instant does {_OVERLAP}; {_default_clause('overlap')}", Overlap, "forbid"),
    "queue_max": integer(
        f"how many of its executions may be queued; {_default_clause('queue_max')}", 0, _MAX_COUNT, 10
    ),
    "concurrency": any_of(
        "a limit; or, as text, another name of overlap",
        {"type": "string", "enum": [*map(str, Overlap), "forbid"]},
        ref("Concurrency"),
    ),
    "recovery": any_of(
        "what becomes of missed instants; a strategy, or more",
        {"type": "string", "enum": [*map(str, RecoveryStrategy)]},
        ref("Recovery"),
    ),
    "update": any_of(
        "when a new schedule takes over; a policy, or more",
        {"type": "string", "enum": [*map(str, UpdatePolicy)]},
        ref("Update"),
    ),
    "priority": integer(
        f"higher goes first; each step is worth a minute of waiting; {_default_clause('priority')}", 1, 10, 8
    ),
    "retention": _object("Retention", "how much history is kept"),
    "queue": any_of(
        f"which workers may take it, by their queues; {_default_clause('queue')}", ref("Name"), examples=["mail"]
    ),
    "placement": _object("Placement", "which workers may take it, by their labels"),
}

# --- all of it

_NAME = any_of(f"unique among the tasks; {DEFAULT_TASK_NAME} where there is one", ref("Name"), examples=["extract"])
_TASK = with_description(
    "one unit of work: a target, what it needs, and what it overrides",
    {
        "type": "object",
        "properties": {
            "name": _NAME,
            **TARGETS,
            "needs": texts("names of tasks that have to succeed before", MAX_TASKS, ["extract"]),
            **_OVERRIDES,
        },
        **OTHER_TARGETS,
    },
    {"name": "load", "command": {"argv": ["./load.sh"]}, "needs": ["extract"], "timeout": "1h"},
)
_AFTER = closed(
    "a job that is followed",
    {
        "job": {"type": "string", "maxLength": 200, "description": "its name, in the same namespace"},
        "on": one_of("which end of it counts; success unless given", UpstreamCondition),
    },
    required=["job"],
)
_TAGS = text_map("names and values to find a job by", MAX_TAGS) | {"type": "object"}
_TAG_NAMES = with_description("names of tags whose values are empty", {"type": "array", "items": {"type": "string"}})
_READ_ONLY: dict[str, str] = {
    "id": "of the job",
    "version": "grows with every change",
    "state": "active, paused, disabled or done",
    "next_run_at": "when it runs next",
    "last_execution": "its latest execution",
    "created_at": "when it was created",
    "updated_at": "when it was changed last",
    "note": "why it is paused or disabled",
    "paused_at": "since when it is paused",
    "error": "why its definition cannot be read",
    "diff": "what a change did to its coming runs",
}
#: What says when a job runs, what it does and how, as it is sent and as it is answered.
JOB_FIELDS: Schema = {
    "description": text("for people", max_length=MAX_DESCRIPTION),
    "schedule": _schedule(
        "when it runs: text of any dialect, now, manual, or an object; unless given it runs once, when it is created",
        "0 9 * * 1-5",
        "every weekday at 9am",
        "manual",
        {"every": "90s"},
    ),
    **_OPTIONS,
    "tasks": with_description(
        "what it does; a single task may stand beside its name, as http, command, python or wait",
        {"type": ["array", "null"], "maxItems": MAX_TASKS, "items": ref("TaskInput")},
    ),
    **_SETTINGS,
    "after": with_description(
        "jobs of the namespace that it follows: it runs when all of them have ended so",
        {
            "type": ["array", "null"],
            "maxItems": MAX_FOLLOWED,
            "items": {"anyOf": [{"type": "string"}, ref("Followed")]},
        },
        ["extract", {"job": "load", "on": "completion"}],
    ),
    "on_start": _object("Hook", "runs before the first task, whatever comes of it"),
    "on_complete": _object("Hook", "runs after the last task, with the report as its payload"),
    "alerts": with_description(
        "refused, as alerts do not exist yet: leave it out; jobs that were stored with some answer with them",
        {"type": ["array", "null"], "items": ref("Anything"), "deprecated": True},
    ),
    "owner": text("who applied it", "billing", max_length=200),
    "tags": any_of(
        "to find it by; a list means empty values",
        ref("Tags"),
        ref("TagNames"),
        examples=[{"team": "data"}, ["urgent"]],
    ),
    "payload": {"description": f"any JSON of up to {MAX_PAYLOAD // 1024} KiB, which its targets are given"},
}
_JOB: Schema = {
    "name": {"description": "unique in its namespace, and never changes", **ref("Name")},
    "namespace": any_of('"default", or that of the request, unless given', ref("Name")),
    "enabled": with_description(
        "false: switched off; as it is unless given, and a new job is on", {"type": ["boolean", "null"]}
    ),
    **JOB_FIELDS,
    **TARGETS,
    "job_type": text("another name of python: the name of the function", "EMAIL_SENDER", max_length=200),
    "schedule_type": text(
        "one_time, once, delayed; recurring, cron, interval; immediate, now; upper or lower case; has to fit the rest",
        "RECURRING",
        max_length=64,
    ),
    "cron_expression": _schedule("another name of schedule, for a cron expression", "0 9 * * 1-5"),
    "execute_at": _schedule("another name of schedule, for an instant", "2027-01-01T09:00:00Z"),
    **{
        name: {
            "description": f"{description}; of an answer, and refused when it is sent and is not so",
            "readOnly": True,
        }
        for name, description in _READ_ONLY.items()
    },
}

JOB_SCHEMAS: dict[str, Schema] = {
    "JobFields": {"type": "object", "properties": _JOB, **OTHER_TARGETS},
    "JobInput": {
        "allOf": [
            ref("JobFields"),
            {"type": "object", "required": ["name"], "properties": {"name": _JOB["name"]}},
        ]
    },
    "JobPatch": with_description(
        "fields to change, of those of a job; null: what holds where nothing is said",
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
