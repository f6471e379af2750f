"""The cache of the job reader does not change how a job is read."""

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chronos.errors import Invalid
from chronos.service.serializers import Draft, InvalidJob, JobReader, read_job
from chronos.service.serializers.object_reader import read_duration_us
from tests.service.serializers.test_fuzz import FIELDS, VALUES, WORDS
from tests.support.service_world import CHECKS, shape

NAMES = st.sampled_from(["job", "a.b-c_d", "", "-a", "a" * 200, "a" * 201, "0" * 32, "g" * 32, "é", "a\0", "a\n"])
SCHEDULES = st.sampled_from(
    ["0 9 * * 1-5", "*/5 * * * * *", "H 9 * * *", "@daily", "@every 5m", "@every 1ms", "0 9 30 2 *", "61 * * * *", "-"]
)
ZONES = st.sampled_from(["Europe/Paris", "UTC", "Nowhere", "", "europe/paris", "\0", "H"])
OPTIONS = st.sampled_from(
    [
        {"argv": ["true"]},
        {"argv": ["echo", "é", "\0"]},
        {"argv": []},
        {"argv": ["true"], "more": 1},
        {"argv": ["x" * 3_000]},
        {"argv": ["true"], "deep": json.loads("[" * 40 + "]" * 40)},
        {"argv": ["true"], "large": 1 << 63},
        {"argv": ["true"], "larger": 1 << 70},
        {"argv": ["true"], "half": "\ud800"},
    ]
)
TAGS = st.dictionaries(st.sampled_from(["team", "", "k" * 256, "k" * 257, "é", "a/b"]), st.text(max_size=3) | VALUES)
USUAL = st.fixed_dictionaries(
    {"name": NAMES | st.just("job"), "schedule": SCHEDULES | WORDS},
    optional={
        "namespace": NAMES,
        "timezone": ZONES,
        "command": OPTIONS | VALUES,
        "tags": TAGS | st.just({"team": "a"}) | VALUES,
        "description": st.text(max_size=5) | st.just("x" * 11_000) | VALUES,
        "overlap": WORDS,
        "retry": st.just({"max_attempts": 5}) | VALUES,
        "timeout": WORDS,
        "priority": st.integers(0, 11),
    },
)


def read(reader: JobReader | None, data: Any) -> tuple[Draft, Any] | list[tuple[str, str]]:
    """Return the draft and its schedule, or the problems."""
    try:
        draft = read_job(data, checks=CHECKS, namespace="own") if reader is None else reader.read(data, namespace="own")
    except InvalidJob as error:
        return [(problem.pointer, problem.message) for problem in error.problems]
    return draft, draft.schedule


@settings(max_examples=400)
@given(st.lists(USUAL | st.dictionaries(st.sampled_from(FIELDS), VALUES, max_size=5), min_size=1, max_size=4))
def test_the_cache_does_not_change_results(jobs: list[dict[str, Any]]) -> None:
    reader = JobReader(CHECKS)
    for data in [*jobs, *jobs]:  # the cache of the first ones must not matter either
        assert read(reader, data) == read(None, data)


def test_shared_parts_of_usual_jobs_are_read_once() -> None:
    reader = JobReader(CHECKS)
    one = shape("one", timezone="Europe/Paris", tags={"team": "a"}, description="x", overlap="queue", timeout="5s")
    expected = [read_job(one, checks=CHECKS), read_job({**one, "name": "two"}, checks=CHECKS)]
    found = [reader.read(one), reader.read({**one, "name": "two"})]
    assert found == expected
    assert found[0].spec.tasks is found[1].spec.tasks
    assert found[0].spec.settings is found[1].spec.settings
    assert found[0].schedule is found[1].schedule


def test_jobs_that_differ_only_in_name_share_their_parts() -> None:
    reader = JobReader(CHECKS)
    one, two = (reader.read(shape(name, tags={"team": "a"}), namespace=space) for name, space in ("ab", "cd"))
    assert one.spec is two.spec
    assert (one.namespace, one.name, two.namespace, two.name) == ("b", "a", "d", "c")
    assert reader.read(shape("a", namespace="own"), namespace="b").namespace == "own"


def test_rejected_jobs_are_not_cached() -> None:
    asked: list[Any] = []

    def check(options: Any) -> None:
        asked.append(options)
        raise Invalid("not today")

    reader = JobReader({"command": check})
    for _ in range(2):
        with pytest.raises(InvalidJob, match="not today"):
            reader.read(shape("job"))
    assert asked


def test_large_jobs_are_not_cached() -> None:
    reader = JobReader(CHECKS)
    kept = read_duration_us.cache_info().currsize
    for field, value in (("timezone", "x" * 10_000), ("timeout", "0" * 10_000 + "s"), ("timeout", "1s" * 5_000)):
        with pytest.raises(InvalidJob, match=field):
            reader.read(shape("job", **{field: value}))
    assert read_duration_us.cache_info().currsize == kept


def test_values_that_are_not_json_do_not_hit_the_cache() -> None:
    reader = JobReader(CHECKS)
    at = datetime(2027, 1, 1, tzinfo=UTC)
    reader.read(shape("one", description=at.isoformat().replace("+00:00", "Z")))
    with pytest.raises(InvalidJob, match="is a datetime, which is not JSON; use text"):
        reader.read(shape("two", description=at))


def test_name_dependent_schedules_are_not_shared() -> None:
    reader = JobReader(CHECKS)
    one, two = (reader.read(shape(name, schedule="H H * * *")) for name in ("one", "two"))
    assert one.schedule != two.schedule
    after = {"after": ["two"], "command": {"argv": ["true"]}}
    assert reader.read({"name": "one", **after}).spec.after
    with pytest.raises(InvalidJob, match="names the job itself"):
        reader.read({"name": "two", **after})
