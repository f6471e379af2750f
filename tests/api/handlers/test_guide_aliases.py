"""The guide's paths: its names in responses, and jobs that are sent back in either names."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chronos.api.handlers.guide_names import to_own_names, with_job_names
from tests.support.api_server import V1, Reply, World, in_world

GUIDED = {
    "name": "daily-report",
    "job_type": "REPORT_GENERATOR",
    "schedule_type": "RECURRING",
    "cron_expression": "0 9 * * *",
    "timezone": "America/New_York",
    "payload": {"report_type": "daily_summary"},
    "priority": 7,
    "max_retries": 3,
    "timeout_secs": 60,
    "owner_id": "billing",
}


async def put(world: World, body: Any, name: str = "daily-report") -> Reply:
    return await world.call("PUT", f"/api/jobs/{name}", body)


def test_a_job_has_all_names_of_the_guide() -> None:
    async def case(world: World) -> None:
        created = await world.call("POST", "/api/jobs", GUIDED)
        assert created.status == 201, created.body
        shown = (await world.call("GET", "/api/jobs/daily-report")).json
        own = await world.get("/jobs/daily-report")
        assert {name: shown[name] for name in GUIDED} == GUIDED
        assert (shown["job_name"], shown["job_id"], shown["execute_at"]) == ("daily-report", own["id"], None)
        assert (shown["status"], shown["next_run_time"]) == ("ACTIVE", own["next_run_at"])
        assert own.items() <= shown.items()
        assert (await world.call("GET", "/api/jobs")).json["items"] == [shown]

    in_world(case)


def test_a_one_time_job_has_its_time() -> None:
    async def case(world: World) -> None:
        body = {"job_name": "reminder", "job_type": "EMAIL_SENDER", "execute_at": "2100-01-16T10:00:00+01:00"}
        created = await world.call("POST", "/api/jobs", body | {"schedule_type": "ONE_TIME"})
        assert (created.status, created.json["name"]) == (201, "reminder")
        assert (created.json["schedule_type"], created.json["execute_at"]) == ("ONE_TIME", "2100-01-16T09:00:00Z")
        assert created.json["cron_expression"] is None

    in_world(case)


def test_an_execution_has_all_names_of_the_guide() -> None:
    async def case(world: World) -> None:
        await world.create("digest", schedule="manual", command={"argv": ["false"]}, max_retries=1, retry={"jitter": 0})
        asked = (await world.call("POST", "/api/jobs/digest/trigger")).json
        own = await world.ended(asked["execution_id"])
        [run] = (await world.call("GET", "/api/jobs/digest/executions")).json["items"]
        assert (run["execution_id"], run["status"]) == (own["id"], "FAILED")
        assert (run["scheduled_time"], run["completed_at"]) == (own["scheduled_at"], own["finished_at"])
        assert (run["worker_id"], run["attempt_number"]) == (own["node"], 2)
        assert run["error_message"] == own["reason"]["message"]
        last = (await world.call("GET", "/api/jobs/digest")).json["last_execution"]
        assert {name: last[name] for name in run} == run

    in_world(case, runs=True)


SIGNED = {"url": "https://a.example/", "auth": {"type": "bearer", "token": "abc"}}
JOBS: list[dict[str, Any]] = [
    GUIDED,
    {"schedule": "manual", "command": {"argv": ["true"]}},
    {"schedule": "2100-01-01 09:00", "timezone": "Europe/Paris", "http": SIGNED},
    {"schedule": {"in": "24h"}, "command": {"argv": ["true"]}},
    {"schedule": ["0 9 * * *", "0 12 * * *"], "command": {"argv": ["true"]}, "retry": {"max_attempts": None}},
    {"schedule": {"cron": "0 9 * * *", "dialect": "posix"}, "command": {"argv": ["true"]}, "task_timeout": "1500ms"},
    {"schedule": "every weekday at 9am", "tasks": [{"name": n, "command": {"argv": [n]}} for n in ("a", "b")]},
    {"schedule": "@every 5m", "python": {"name": "f", "payload": 1}, "retry": {"max_attempts": 2, "jitter": 0}},
    {"command": {"argv": ["true"]}},
]


@pytest.mark.parametrize("fields", JOBS)
def test_what_get_returned_can_be_put_and_posted(fields: dict[str, Any]) -> None:
    async def case(world: World) -> None:
        created = await world.call("POST", "/api/jobs", {**fields, "name": "daily-report"})
        assert created.status == 201, created.body
        shown = (await world.call("GET", "/api/jobs/daily-report")).json
        again = await put(world, shown)
        assert (again.status, again.headers["ETag"]) == (200, '"1"'), again.body
        assert again.json == shown
        if "https://" not in str(fields):  # a credential is masked and cannot be copied
            copy = await world.call("POST", "/api/jobs", {**shown, "name": "copy", "job_name": "copy"})
            assert copy.status == 201, copy.body
            definition = {name: value for name, value in shown.items() if name in fields and name != "name"}
            assert {name: copy.json.get(name) for name in definition} == definition

    in_world(case)


@pytest.mark.parametrize(
    ("changes", "effect"),
    [
        ({"cron_expression": "0 10 * * *"}, {"schedule": "0 10 * * *"}),
        ({"schedule": "0 11 * * *"}, {"schedule": "0 11 * * *"}),
        ({"cron_expression": None, "execute_at": "2100-01-01T00:00:00Z"}, {"schedule": "2100-01-01T00:00:00Z"}),
        ({"job_type": "OTHER"}, {"tasks": [{"name": "main", "python": {"name": "OTHER"}}]}),
        ({"max_retries": 5}, {"retry": {"max_attempts": 6, "initial_interval": "2s"}}),
        ({"max_retries": None}, {"retry": {"initial_interval": "2s"}}),
        ({"retry": {"max_attempts": 9}}, {"retry": {"max_attempts": 9}}),
        ({"timeout_secs": 1.5}, {"task_timeout": "1.5s"}),
        ({"task_timeout": "2m"}, {"task_timeout": "2m"}),
        ({"owner_id": "web"}, {"owner": "web"}),
        ({"owner_id": None}, {"owner": None}),
        ({"priority": 1}, {"priority": 1}),
    ],
)
def test_a_change_of_either_name_counts(changes: dict[str, Any], effect: dict[str, Any]) -> None:
    async def case(world: World) -> None:
        created = await world.call("POST", "/api/jobs", {**GUIDED, "retry": {"initial_interval": "2s"}})
        assert created.status == 201, created.body
        shown = (await world.call("GET", "/api/jobs/daily-report")).json
        changed = await put(world, shown | changes)
        assert changed.status == 200, changed.body
        assert {name: changed.json.get(name) for name in effect} == effect
        assert changed.json["version"] == 2

    in_world(case)


@pytest.mark.parametrize(
    ("changes", "pointer", "part"),
    [
        ({"cron_expression": "0 10 * * *", "schedule": "0 11 * * *"}, "/cron_expression", 'contradicts "schedule"'),
        ({"cron_expression": "0 25 * * *"}, "/cron_expression", "hour"),
        ({"job_name": "other"}, "/job_name", "a job cannot be renamed"),
        ({"job_id": "0d4b6f9e-6f1c-5a52-9f0e-2a6f4c1f7f10"}, "/job_id", "the id of the job is"),
        ({"status": "PAUSED"}, "/status", "use pause, resume"),
        ({"next_run_time": "2100-01-01T00:00:00Z"}, "/next_run_time", "it is read-only"),
        ({"owner_id": 5}, "/owner_id", "must be text"),
        ({"timeout_secs": "soon"}, "/timeout_secs", "must be a number"),
        ({"max_retries": -1}, "/max_retries", "allowed 0"),
        ({"schedule_type": "SOMETIMES"}, "/schedule_type", "allowed"),
        ({"job_nam": "x"}, "/job_nam", "unknown field"),
    ],
)
def test_contradictions_and_bad_values_name_what_was_sent(changes: dict[str, Any], pointer: str, part: str) -> None:
    async def case(world: World) -> None:
        await world.call("POST", "/api/jobs", GUIDED)
        shown = (await world.call("GET", "/api/jobs/daily-report")).json
        refused = await put(world, shown | changes)
        assert refused.status == 422, refused.body
        assert [(one["pointer"], part in one["message"]) for one in refused.json["errors"]] == [(pointer, True)]
        assert (await world.get("/jobs/daily-report"))["version"] == 1

    in_world(case)


def test_put_creates_a_job_in_the_guides_names() -> None:
    async def case(world: World) -> None:
        created = await put(world, {**GUIDED, "job_name": "daily-report"})
        assert (created.status, created.json["version"]) == (201, 1)
        again = await put(world, {**GUIDED, "job_name": "daily-report"})  # without the job's own names
        assert (again.status, again.json["version"]) == (200, 1)
        for body, status in (([], 422), ("x", 422), (None, 400)):
            assert (await put(world, body)).status == status

    in_world(case)


def test_missed_instants_have_the_guides_words() -> None:
    async def case(world: World) -> None:
        for word, strategy in (("SKIP_MISSED", "skip"), ("RUN_ONCE", "compressed"), ("RUN_ALL", "all")):
            created = await world.call("POST", "/api/jobs", {**GUIDED, "name": word, "recovery": word})
            assert (created.status, created.json["recovery"]) == (201, strategy)
            assert (await world.get(f"/jobs/{word}"))["recovery"] == strategy
        assert (await world.call("POST", f"{V1}/jobs", {**GUIDED, "name": "v1"})).status == 422  # owner_id

    in_world(case)


_VALUES = st.none() | st.integers() | st.text() | st.lists(st.integers()) | st.dictionaries(st.text(), st.integers())
_NAMES = st.sampled_from(
    (*with_job_names({}), "name", "id", "state", "owner", "tasks", "schedule", "retry", "task_timeout", "timezone")
)


@given(st.dictionaries(_NAMES, _VALUES))
def test_any_job_can_be_translated(job: dict[str, Any]) -> None:
    shown = with_job_names(job)
    assert shown.keys() >= job.keys()
    own = {name: value for name, value in job.items() if name not in with_job_names({})}
    assert to_own_names(with_job_names(own), own).data.keys() >= own.keys()
