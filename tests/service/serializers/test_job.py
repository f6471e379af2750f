"""Jobs as JSON: fields, aliases and limits; a returned job can be sent back."""

import pickle
from datetime import UTC, datetime
from typing import Any

import pytest

from chronos.core.calendar import to_us
from chronos.core.config import (
    UNLIMITED,
    Concurrency,
    Delivery,
    Mode,
    OnFailure,
    Overlap,
    Placement,
    Recovery,
    RecoveryStrategy,
    Retention,
    Retry,
    Settings,
    Update,
    UpdatePolicy,
)
from chronos.core.ids import job_id
from chronos.core.job import JobSpec, JobState, ScheduleSpec, Target, Task, UpstreamCondition, UpstreamJob
from chronos.service.serializers import Draft, InvalidJob, Problem, id_text, read_id, read_job
from tests.support.service_world import CHECKS, shape

SECOND = 1_000_000
MINUTE = 60 * SECOND


def read(**fields: Any) -> Draft:
    return read_job(shape(**fields), checks=CHECKS)


def problems(**fields: Any) -> dict[str, str]:
    with pytest.raises(InvalidJob) as caught:
        read(**fields)
    return {problem.pointer: problem.message for problem in caught.value.problems}


# --- the examples of the source documents


def test_a_job_with_a_webhook() -> None:
    data = {
        "name": "daily-report",
        "schedule": "0 9 * * *",
        "timezone": "America/New_York",
        "webhook": {"url": "https://api.example.com/reports", "method": "POST"},
        "retry_policy": {"max_attempts": 3, "initial_interval": "1s", "multiplier": 2.0},
        "timeout": "5m",
        "enabled": True,
    }
    draft = read_job(data, checks=CHECKS)
    assert draft.spec == JobSpec(
        schedule=ScheduleSpec(text="0 9 * * *", timezone="America/New_York"),
        tasks=(Task(name="main", target=Target(kind="http", options=data["webhook"])),),  # type: ignore[arg-type]
        settings=Settings(retry=Retry(max_attempts=3, initial_us=SECOND, multiplier=2.0), task_timeout_us=5 * MINUTE),
    )
    assert (draft.namespace, draft.state, draft.runs_on_creation) == ("default", JobState.ACTIVE, False)


def test_a_job_with_a_job_type() -> None:
    data = {
        "name": "send-reminder-email",
        "job_type": "EMAIL_SENDER",
        "schedule_type": "ONE_TIME",
        "execute_at": "2024-01-16T09:00:00Z",
        "payload": {"user_id": "123"},
        "priority": 5,
        "max_retries": 3,
        "timeout_secs": 60,
    }
    assert read_job(data, checks=CHECKS).spec == JobSpec(
        schedule=ScheduleSpec(text="2024-01-16T09:00:00Z"),
        tasks=(Task(name="main", target=Target(kind="python", options={"name": "EMAIL_SENDER"})),),
        settings=Settings(retry=Retry(max_attempts=4), task_timeout_us=MINUTE, priority=5),
        payload={"user_id": "123"},
    )


# --- fields and aliases


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"retry": {"max_attempts": None}}, Settings(retry=Retry(max_attempts=UNLIMITED))),
        ({"retry": {"max_retries": 0}}, Settings(retry=Retry(max_attempts=1))),
        ({"max_retries": 2, "retry": {"jitter": 0}}, Settings(retry=Retry(max_attempts=3, jitter=0.0))),
        ({"retry": {"retry_on": ["timeout"]}}, Settings(retry=Retry(retry_on=("timeout",)))),
        ({"retry": {}}, Settings()),
        ({"execution_timeout": "PT5M"}, Settings(execution_timeout_us=5 * MINUTE)),
        ({"execution_timeout": "0s"}, Settings(execution_timeout_us=0)),
        ({"task_timeout": "1h30m"}, Settings(task_timeout_us=90 * MINUTE)),
        ({"timeout": "1.5s"}, Settings(task_timeout_us=SECOND * 3 // 2)),
        ({"timeout_secs": 0.5}, Settings(task_timeout_us=SECOND // 2)),
        ({"overlap": "queue", "queue_max": 5}, Settings(overlap=Overlap.QUEUE, queue_max=5)),
        ({"concurrency": "forbid"}, Settings(overlap=Overlap.SKIP)),
        ({"concurrency": "allow"}, Settings(overlap=Overlap.ALLOW)),
        (
            {"concurrency": {"limit": 2, "key": "{{ payload.customer }}"}},
            Settings(concurrency=Concurrency(limit=2, key="{{ payload.customer }}")),
        ),
        ({"recovery": "all"}, Settings(recovery=Recovery(strategy=RecoveryStrategy.ALL))),
        ({"recovery": "RUN_ALL"}, Settings(recovery=Recovery(strategy=RecoveryStrategy.ALL))),
        ({"recovery": "SKIP_MISSED"}, Settings(recovery=Recovery(strategy=RecoveryStrategy.SKIP))),
        ({"recovery": {"strategy": "RUN_ONCE"}}, Settings(recovery=Recovery(strategy=RecoveryStrategy.COMPRESSED))),
        (
            {"recovery": {"strategy": "bounded", "max_count": 3, "max_age": "2d", "after": "0s"}},
            Settings(
                recovery=Recovery(
                    strategy=RecoveryStrategy.BOUNDED, max_count=3, max_age_us=48 * 60 * MINUTE, after_us=0
                )
            ),
        ),
        ({"update": "graceful"}, Settings(update=Update(policy=UpdatePolicy.GRACEFUL))),
        (
            {"update": {"policy": "windowed", "duration": "1w1d"}},
            Settings(update=Update(policy=UpdatePolicy.WINDOWED, duration_us=8 * 24 * 60 * MINUTE)),
        ),
        (
            {"retention": {"max_count": 5, "max_age": "90d"}},
            Settings(retention=Retention(max_count=5, max_age_us=90 * 24 * 60 * MINUTE)),
        ),
        ({"queue": "eu", "priority": 10}, Settings(queue="eu", priority=10)),
        (
            {"placement": {"labels": {"zone": "a"}, "fallback": "30s"}},
            Settings(placement=Placement(labels={"zone": "a"}, fallback_us=30 * SECOND)),
        ),
        (
            {"mode": "parallel", "on_failure": "continue", "delivery": "at_most_once"},
            Settings(mode=Mode.PARALLEL, on_failure=OnFailure.CONTINUE, delivery=Delivery.AT_MOST_ONCE),
        ),
    ],
)
def test_settings(fields: dict[str, Any], expected: Settings) -> None:
    assert read(**fields).spec.settings == expected


@pytest.mark.parametrize(
    ("schedule", "expected"),
    [
        ("*/5 * * * *", ScheduleSpec(text="*/5 * * * *")),
        ("every weekday at 9am", ScheduleSpec(text="every weekday at 9am")),
        ("@every 90s", ScheduleSpec(text="@every 90s")),
        ("P1M", ScheduleSpec(text="P1M")),
        ("2027-01-01T00:00:00Z", ScheduleSpec(text="2027-01-01T00:00:00Z")),
        (
            {"cron": "0 9 * * 1-5", "timezone": "Europe/Paris"},
            ScheduleSpec(text="0 9 * * 1-5", timezone="Europe/Paris"),
        ),
        ({"cron": "0 0 9 * * MON#2"}, ScheduleSpec(text="0 0 9 * * MON#2")),
        ({"cron": "@daily"}, ScheduleSpec(text="@daily")),
        ({"cron": "0 9 * * 1", "dialect": "posix"}, ScheduleSpec(text="0 9 * * 1", dialect="posix")),
        ({"every": "90s"}, ScheduleSpec(text="@every 1m30s")),
        ({"every": "PT6H"}, ScheduleSpec(text="@every 6h")),
        ({"every": "1d"}, ScheduleSpec(text="@every 24h")),
        ({"every": "100ms"}, ScheduleSpec(text="@every 0.1s")),
        ({"iso8601": "R5/PT6H"}, ScheduleSpec(text="R5/PT6H")),
        ({"at": "2027-01-01T09:00:00+01:00"}, ScheduleSpec(text="2027-01-01T09:00:00+01:00")),
        ({"in": "24h"}, ScheduleSpec(text="in 24 hours")),
        ({"words": "every day at noon"}, ScheduleSpec(text="every day at noon")),
        (
            {"every": "1h", "start": "2027-01-01T00:00:00Z", "end": "2027-02-01T00:00:00Z", "jitter": "30s"},
            ScheduleSpec(
                text="@every 1h",
                start_us=to_us(datetime(2027, 1, 1, tzinfo=UTC)),
                end_us=to_us(datetime(2027, 2, 1, tzinfo=UTC)),
                jitter_us=30 * SECOND,
            ),
        ),
        (
            {"cron": "0 9 * * *", "exclude": ["2027-12-25", "* * * * SUN"], "dst": "literal"},
            ScheduleSpec(text="0 9 * * *", exclude=("2027-12-25", "* * * * SUN"), dst="literal"),
        ),
    ],
)
def test_schedules(schedule: Any, expected: ScheduleSpec) -> None:
    assert read(schedule=schedule).spec.schedule == expected


def test_a_start_without_an_offset_is_in_the_zone_of_the_schedule() -> None:
    spec = read(schedule="@daily", timezone="Europe/Paris", start="2027-01-01T00:00:00").spec.schedule
    assert spec is not None
    assert spec.start_us == to_us(datetime(2026, 12, 31, 23, tzinfo=UTC))


@pytest.mark.parametrize(
    ("fields", "immediate", "now"),
    [
        ({"schedule": None}, True, False),
        ({"schedule": "now"}, True, True),
        ({"schedule": "manual"}, False, False),
        ({"schedule": None, "after": ["other"]}, False, False),
        ({"schedule": None, "enabled": False}, False, False),
        ({"schedule": None, "schedule_type": "IMMEDIATE"}, True, False),
        ({"schedule": "@daily"}, False, False),
    ],
)
def test_jobs_that_run_immediately(fields: dict[str, Any], immediate: bool, now: bool) -> None:
    draft = read(**fields)
    assert (draft.runs_on_creation, draft.runs_on_every_change) == (immediate, now)


def test_tasks_hooks_and_the_rest() -> None:
    draft = read(
        tasks=[
            {"name": "extract", "python": {"name": "f"}, "timeout": "1h", "max_retries": 1},
            {"name": "tidy", "http": {"url": "https://x"}, "needs": ["extract"], "on_failure": "continue"},
        ],
        after=["a", {"job": "b", "on": "completion"}],
        on_start={"python": {"name": "hello"}},
        on_complete={"webhook": {"url": "https://y"}},
        tags=["nightly", "etl"],
        owner="team",
        description="what it does",
        namespace="eu",
    )
    spec = draft.spec
    assert spec.settings.mode is Mode.GRAPH
    assert spec.tasks == (
        Task(
            name="extract",
            target=Target(kind="python", options={"name": "f"}),
            settings=Settings(retry=Retry(max_attempts=2), task_timeout_us=60 * MINUTE),
        ),
        Task(
            name="tidy",
            target=Target(kind="http", options={"url": "https://x"}),
            needs=("extract",),
            settings=Settings(on_failure=OnFailure.CONTINUE),
        ),
    )
    assert spec.after == (UpstreamJob(job="a"), UpstreamJob(job="b", on=UpstreamCondition.COMPLETION))
    assert spec.on_start == Target(kind="python", options={"name": "hello"})
    assert spec.on_complete == Target(kind="http", options={"url": "https://y"})
    assert (spec.tags, spec.owner, spec.description) == ({"nightly": "", "etl": ""}, "team", "what it does")
    assert draft.namespace == "eu"


# --- invalid jobs


@pytest.mark.parametrize(
    ("fields", "pointer", "says"),
    [
        ({"schedle": "x"}, "/schedle", 'did you mean "schedule"'),
        ({"every": "5m"}, "/every", 'write "schedule": {"every": "5m"}'),
        ({"cron": "0 9 * * *"}, "/cron", 'write "schedule": {"cron": "0 9 * * *"}'),
        ({"retry": {"max_attempt": 3}}, "/retry/max_attempt", 'did you mean "max_attempts"'),
        ({"name": "a b"}, "/name", "is not a valid name"),
        ({"name": None}, "/name", "is required"),
        ({"name": "0" * 201}, "/name", "is not a valid name"),
        ({"name": "6d1f1f38-6a0e-5c8e-9c0b-0f6b6c5f2a11"}, "/name", "looks like an id"),
        ({"name": "6d1f1f386a0e5c8e9c0b0f6b6c5f2a11"}, "/name", "looks like an id"),
        ({"name": 7}, "/name", "must be text"),
        ({"namespace": "-"}, "/namespace", "is not a valid name"),
        ({"schedule": "0 25 * * *"}, "/schedule", 'cron field "hour"'),
        ({"schedule": 7}, "/schedule", "must be text, a list of texts, or an object"),
        ({"schedule": {}}, "/schedule", "has no schedule"),
        ({"schedule": {"cron": "every day"}}, "/schedule/cron", ""),
        ({"schedule": {"cron": "P1D"}}, "/schedule/cron", ""),
        ({"schedule": {"cron": "@daily", "every": "1h"}}, "/schedule/every", "duplicates"),
        ({"schedule": {"cron": "@daily", "timezon": "UTC"}}, "/schedule/timezon", "timezone"),
        ({"schedule": {"cron": "@daily", "timezone": "Mars/Base"}}, "/schedule/timezone", "unknown time zone"),
        ({"timezone": "Europe/Pariss"}, "/timezone", "Europe/Paris"),
        ({"timezone": "UTC", "schedule": {"cron": "@daily", "timezone": "UTC"}}, "/timezone", "give it once"),
        ({"start": "yesterday"}, "/start", "not a date and time"),
        ({"dst": "summer"}, "/dst", "robust, literal"),
        ({"exclude": ["soon"]}, "/exclude/0", ""),
        ({"schedule": {"every": "99ms"}}, "/schedule/every", "100ms"),
        ({"schedule": "@every 10ms"}, "/schedule", "100ms"),
        ({"schedule": "PT0.01S"}, "/schedule", "100ms"),
        ({"schedule": {"every": "0s"}}, "/schedule/every", "above zero"),
        ({"schedule": {"every": "P1M"}}, "/schedule/every", "length varies"),
        ({"schedule": {"at": "every day"}}, "/schedule/at", "not a date and time"),
        ({"schedule": None, "schedule_type": "RECURRING"}, "/schedule_type", "cron_expression"),
        ({"schedule": None, "schedule_type": "ONE_TIME"}, "/schedule_type", "execute_at"),
        (
            {"schedule": None, "schedule_type": "RECURRING", "execute_at": "2027-01-01T00:00:00Z"},
            "/schedule_type",
            "no recurring schedule",
        ),
        (
            {"schedule": None, "schedule_type": "ONE_TIME", "cron_expression": "@daily"},
            "/cron_expression",
            "give the time in execute_at",
        ),
        ({"schedule": "@every 5m", "schedule_type": "ONE_TIME"}, "/schedule", "give the time in execute_at"),
        ({"schedule_type": "IMMEDIATE"}, "/schedule_type", "leave one of them out"),
        ({"schedule_type": "SOMETIMES"}, "/schedule_type", "allowed"),
        ({"cron_expression": "@daily"}, "/cron_expression", "duplicates"),
        ({"timeout": 30}, "/timeout", "must be a duration"),
        ({"timeout": "30"}, "/timeout", "unit"),
        ({"timeout": "5m", "task_timeout": "5m"}, "/timeout", "duplicates"),
        ({"priority": 11}, "/priority", "allowed 1 to 10"),
        ({"priority": True}, "/priority", "must be an integer"),
        ({"enabled": "yes"}, "/enabled", "true or false"),
        ({"overlap": "sometimes"}, "/overlap", "skip, allow, queue, replace"),
        ({"overlap": "skip", "concurrency": "allow"}, "/concurrency", "duplicates"),
        ({"concurrency": {"key": "{{ secret.x }}"}}, "/concurrency/key", "a key may use"),
        ({"concurrency": {"key": "{{ payload"}}, "/concurrency/key", "without"),
        ({"concurrency": 3}, "/concurrency", "an object"),
        ({"retry": {"multiplier": 0.5}}, "/retry/multiplier", "allowed 1 to 1000"),
        ({"max_retries": 1, "retry": {"max_attempts": 2}}, "/retry/max_attempts", "duplicates"),
        ({"recovery": {"strategy": "never"}}, "/recovery/strategy", "allowed"),
        ({"update": 4}, "/update", "an object"),
        ({"webhook": {}}, "/webhook/url", "is missing"),
        ({"http": {"url": "x", "urll": "y"}}, "/http/urll", "no option"),
        ({"http": "https://x"}, "/http", "an object"),
        ({"grpc": {}, "command": None}, "/grpc", "unsupported target"),
        ({"tasks": []}, "/tasks", "give a list of tasks"),
        ({"tasks": [{"name": "a"}]}, "/tasks/0", "has no target"),
        ({"tasks": [{"name": "a", "http": {"url": "x"}, "wait": {}}]}, "/tasks/0", "one target"),
        ({"tasks": [{"name": "a", "http": {}}]}, "/tasks/0/http/url", "is missing"),
        ({"tasks": [{"command": {}}, {"name": "b", "command": {}}]}, "/tasks/0/name", "is required"),
        ({"tasks": [{"name": "a", "command": {}, "overlap": "skip"}]}, "/tasks/0/overlap", "unknown field"),
        ({"tasks": [{"name": "a", "command": {}, "needs": ["b"]}]}, "/tasks/0/needs/0", "has no task of this name"),
        ({"tasks": [{"name": "a", "command": {}, "needs": ["a"]}]}, "/tasks", "circle"),
        ({"tasks": [{"name": "a", "command": {}}] * 2}, "/tasks/1/name", "its own name"),
        ({"tasks": ["x"]}, "/tasks/0", "an object"),
        ({"tasks": [{"name": "a", "command": {}}] * 1001}, "/tasks", "allowed 1000"),
        ({"mode": "parallel", "tasks": [{"name": "a", "command": {}, "needs": ["b"]}]}, "/mode", "graph"),
        ({"on_start": {}}, "/on_start", "one target"),
        ({"on_start": {"http": {}}}, "/on_start/http/url", "is missing"),
        ({"after": [{"on": "success"}]}, "/after/0/job", "is required"),
        ({"after": ["job"]}, "/after", "itself"),
        ({"after": ["a", "a"]}, "/after", "twice"),
        ({"tags": {str(n): "" for n in range(65)}}, "/tags", "allowed 64"),
        ({"tags": {"a/b": 7}}, "/tags/a~1b", "must be text"),
        ({"tags": ["a", 1]}, "/tags/1", "must be text"),
        ({"tags": 65 * [1]}, "/tags", "allowed 64"),
        ({"payload": "x" * 262_145}, "/payload", "256 KiB"),
        ({"payload": {"a": [{"b": "\0"}]}}, "/payload/a/0/b", "NUL"),
        ({"payload": "\ud800"}, "/payload", "Unicode"),
        ({"payload": 1 << 63}, "/payload", "64 bits"),
        ({"payload": float("nan")}, "/payload", "JSON"),
        ({"payload": {1: 2}}, "/payload", "keys must be text"),
        ({"payload": b"x"}, "/payload", "JSON"),
        ({"description": "x" * 10_241}, "/description", "allowed 10240"),
        ({"alerts": ["x"]}, "/alerts", "alerts are not supported yet"),
        ({"alerts": [{"on": "failure", "slack": "#x"}]}, "/alerts", "leave the field out"),
        ({"alerts": {}}, "/alerts", "alerts are not supported yet"),
        ({"tasks": [{"name": f"t{n}", "command": {"x": "y" * 200_000}} for n in range(6)]}, "", "allowed 1048576"),
    ],
)
def test_invalid_jobs_are_rejected(fields: dict[str, Any], pointer: str, says: str) -> None:
    found = problems(**fields)
    assert pointer in found, found
    assert says in found[pointer]


def test_all_problems_are_reported_at_once() -> None:
    found = problems(name="a b", schedule="0 25 * * *", retry={"max_attempt": 3}, timeout=30, colour="red")
    assert set(found) == {"/name", "/schedule", "/retry/max_attempt", "/timeout", "/colour"}


def test_the_message_lists_all_problems_and_can_be_pickled() -> None:
    error = InvalidJob([Problem("/a", "is wrong"), Problem("/b", "too")], name="job")
    assert str(error) == 'invalid job "job", 2 problems:\n  /a: is wrong\n  /b: too'
    copy = pickle.loads(pickle.dumps(error))
    assert (copy.problems, copy.name) == (error.problems, "job")


@pytest.mark.parametrize("data", [None, 7, "job", [], [[]]])
def test_a_job_must_be_an_object(data: Any) -> None:
    with pytest.raises(InvalidJob):
        read_job(data, checks=CHECKS)


def test_endlessly_nested_values_are_rejected() -> None:
    deep: Any = None
    for _ in range(2_000):
        deep = [deep]
    assert any("nested" in message for message in problems(payload=deep).values())


def test_ids_in_both_forms() -> None:
    job = job_id("default", "a", 1)
    assert read_id(id_text(job)) == read_id(job.hex()) == job
    assert read_id("a") is None
