"""Any input gives a job or an error that says what is wrong, and nothing else."""

from datetime import timedelta
from typing import Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace as with_fields

from chronos.core.config import NOTHING_SET
from chronos.core.job import ScheduleSpec
from chronos.core.schedule.parser import parse_schedule
from chronos.service.save_plan import PlanCache, plan_save
from chronos.service.serializers import InvalidJob, Problem, read_job
from chronos.service.serializers.json_values import _copy_checked, to_plain_json
from tests.support.service_world import CHECKS, START_US, shape

FIELDS = [
    "name",
    "namespace",
    "description",
    "schedule",
    "timezone",
    "dst",
    "start",
    "end",
    "jitter",
    "exclude",
    "tasks",
    "mode",
    "on_failure",
    "retry",
    "retry_policy",
    "execution_timeout",
    "task_timeout",
    "timeout",
    "timeout_secs",
    "overlap",
    "recovery",
    "delivery",
    "priority",
    "concurrency",
    "update",
    "retention",
    "queue",
    "queue_max",
    "placement",
    "after",
    "on_start",
    "on_complete",
    "alerts",
    "owner",
    "tags",
    "enabled",
    "payload",
    "http",
    "webhook",
    "command",
    "wait",
    "grpc",
    "job_type",
    "schedule_type",
    "cron_expression",
    "execute_at",
    "max_retries",
    "id",
    "version",
    "state",
]
INNER = [
    "cron",
    "every",
    "iso8601",
    "at",
    "in",
    "words",
    "dialect",
    "timezone",
    "start",
    "end",
    "jitter",
    "exclude",
    "name",
    "needs",
    "http",
    "command",
    "limit",
    "key",
    "policy",
    "count",
    "duration",
    "strategy",
    "max_count",
    "max_age",
    "after",
    "max_attempts",
    "initial_interval",
    "multiplier",
    "labels",
    "fallback",
    "job",
    "on",
    "url",
]
WORDS = st.sampled_from(
    [
        "",
        "0 9 * * *",
        "@every 1s",
        "@every 1ns",
        "P1M",
        "R0/PT1H",
        "now",
        "manual",
        "in 2 hours",
        "2027-01-01T00:00:00Z",
        "1h",
        "-1h",
        "0s",
        "PT5M",
        "P1Y",
        "9999999w",
        "skip",
        "queue",
        "all",
        "graceful",
        "UTC",
        "{{ payload.a }}",
        "{{",
    ]
)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | WORDS | st.text(max_size=10),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(INNER) | st.text(max_size=4), inner, max_size=4)
    ),
    max_leaves=10,
)


@settings(max_examples=150)
@given(st.dictionaries(st.sampled_from(FIELDS), VALUES, max_size=5))
def test_any_input_gives_a_job_or_an_error_with_pointers(fields: dict[str, Any]) -> None:
    try:
        draft = read_job(shape(**fields) if "command" not in fields else {"name": "job", **fields}, checks=CHECKS)
        plan_save(draft, None, cache=PlanCache(NOTHING_SET), now_us=START_US)
    except InvalidJob as error:
        assert error.problems
        assert all(problem.message for problem in error.problems)
        assert str(error)
    else:
        msgspec.json.encode(draft.spec)


ODD = st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary() | st.just("\ud800")
NESTED = st.recursive(
    ODD, lambda inner: st.lists(inner) | st.dictionaries(st.text() | st.integers(), inner) | st.tuples(inner)
)


@given(NESTED, st.integers(0, 40))
def test_the_fast_copy_equals_the_checked_one(value: Any, depth: int) -> None:
    for _ in range(depth):
        value = [value]
    quick: list[Problem] = []
    careful: list[Problem] = []
    copy = to_plain_json(value, quick)
    assert repr(copy) == repr(_copy_checked(value, careful, "", 0))
    assert quick == careful
    assert copy is not value or not isinstance(value, dict | list)


@given(
    st.sampled_from(["0 9 * * *", "*/7 3 * * 1-5", "@daily", "@every 90s", "H H * * *", "H/9 * * * *", "PT1H"]),
    st.sampled_from([None, "Europe/Paris"]),
    st.sampled_from([0, 30_000_000]),
    st.sampled_from(["a", "b"]),
)
def test_cached_schedules_do_not_depend_on_the_name(text: str, timezone: str | None, jitter_us: int, name: str) -> None:
    spec = ScheduleSpec(text=text, timezone=timezone, jitter_us=jitter_us)
    jitter = timedelta(microseconds=jitter_us)
    shared, own = spec.parse(name), parse_schedule(text, timezone=timezone, jitter=jitter, key=name)
    instant_us = shared.next_us(START_US)
    assert instant_us == own.next_us(START_US)
    assert instant_us is not None
    assert shared.due_us(instant_us) == own.due_us(instant_us)
    draft = read_job(shape(name, schedule=text, jitter=f"{jitter_us}us", timezone=timezone), checks=CHECKS)
    assert draft.schedule is not None
    assert draft.schedule.due_us(instant_us) == own.due_us(instant_us)
    other = with_fields(draft, spec=with_fields(draft.spec, schedule=ScheduleSpec(text="0 0 1 1 *")))
    assert other.schedule is not None
    assert other.schedule.text == "0 0 1 1 *"
