"""Unsupported settings are rejected with a sentence; jobs that were stored with them still run."""

from typing import Any

import pytest
from msgspec.structs import replace

from chronos.core.job import JobSpec, Target
from chronos.service.serializers import Draft
from tests.support.api_server import V1, World, in_world, shape

NO_ALERTS = (
    "alerts are not supported yet, so none would be sent; leave the field out, or set it to null to remove it from a "
    "stored job"
)
ALERTS = [{"on": "failure", "slack": "#ops"}]


async def stored(w: World, name: str, **changes: Any) -> None:
    """Store a job as an older release did, without these checks."""
    read = w.service.jobs.read(shape(name, schedule="manual"))
    await w.service.job_saver.save([Draft(name=name, spec=replace(read.spec, **changes))])


def with_target(spec: JobSpec, kind: str, options: dict[str, Any]) -> Any:
    return (replace(spec.tasks[0], target=Target(kind=kind, options=options)),)


def test_alerts_are_refused() -> None:
    async def case(w: World) -> None:
        await w.create()
        for method, path, body in (
            ("POST", "/jobs", shape("other", alerts=ALERTS)),
            ("POST", "/jobs", shape("other", alerts="any nonsense")),
            ("PUT", "/jobs/job", shape(alerts=ALERTS)),
            ("PATCH", "/jobs/job", {"alerts": ALERTS}),
        ):
            reply = await w.call(method, V1 + path, body)
            assert (reply.status, reply.json["errors"]) == (422, [{"pointer": "/alerts", "message": NO_ALERTS}])
        for body in (shape(alerts=None), shape(alerts=[])):
            assert (await w.call("PUT", f"{V1}/jobs/job", body)).status == 200

    in_world(case)


def test_a_job_stored_with_alerts_still_runs() -> None:
    async def case(w: World) -> None:
        await stored(w, "old", alerts=tuple(ALERTS))
        assert (await w.get("/jobs/old"))["alerts"] == ALERTS
        asked = await w.post("/jobs/old/trigger", status=202)
        assert (await w.ended(asked["execution_id"]))["status"] == "succeeded"
        await w.post("/jobs/old/pause")
        await w.post("/jobs/old/resume")
        refused = await w.call("PATCH", f"{V1}/jobs/old", {"description": "x"})
        assert (refused.status, refused.json["errors"][0]["message"]) == (422, NO_ALERTS)
        changed = await w.call("PATCH", f"{V1}/jobs/old", {"description": "x", "alerts": None})
        assert (changed.status, "alerts" in changed.json) == (200, False)

    in_world(case, runs=True)


@pytest.mark.parametrize(
    ("says", "pointer"),
    [
        ({"http": {"url": "https://a.example/{{ secret.X }}"}}, "/http/url"),
        ({"http": {"url": "https://a.example", "headers": {"A": "{{ secret.X }}"}}}, "/http/headers/A"),
        ({"http": {"url": "https://a.example", "query": {"a": "{{secret.X}}"}}}, "/http/query/a"),
        ({"http": {"url": "https://a.example", "json": {"a": ["{{ secret.X }}"]}}}, "/http/json/a/0"),
        ({"http": {"url": "https://a.example", "body": "a {{ secret.X }}"}}, "/http/body"),
        (
            {"http": {"url": "https://a.example", "auth": {"type": "bearer", "token": "{{ secret.X }}"}}},
            "/http/auth/token",
        ),
        ({"command": {"argv": ["a", "{{ secret.X }}"]}}, "/command/argv/1"),
        ({"command": {"argv": ["a"], "env": {"A": "{{ secret.X }}"}}}, "/command/env/A"),
        ({"command": {"argv": ["a"], "stdin": "{{ secret.X }}"}}, "/command/stdin"),
        ({"on_start": {"command": {"argv": ["{{ secret.X }}"]}}}, "/on_start/command/argv/0"),
        ({"on_complete": {"http": {"url": "https://a.example/{{ secret.X }}"}}}, "/on_complete/http/url"),
        ({"tasks": [{"command": {"argv": ["{{ secret.X }}"]}}]}, "/tasks/0/command/argv/0"),
    ],
)
def test_secrets_are_refused_in_every_template(says: dict[str, Any], pointer: str) -> None:
    async def case(w: World) -> None:
        reply = await w.call("POST", f"{V1}/jobs", shape("job", **says))
        assert (reply.status, [one["pointer"] for one in reply.json["errors"]]) == (422, [pointer])
        [error] = reply.json["errors"]
        ending = '"secret.X" cannot be used: Chronos does not support secrets yet; write the value itself'
        assert error["message"].endswith(ending)

    in_world(case)


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        ("http", {"url": "https://a.example", "auth": {"type": "bearer", "token": "{{ secret.X }}"}}),
        ("command", {"argv": ["true"], "env": {"A": "{{ secret.X }}"}}),
    ],
)
def test_a_job_stored_with_a_secret_fails_without_retries(kind: str, options: dict[str, Any]) -> None:
    async def case(w: World) -> None:
        spec = w.service.jobs.read(shape()).spec
        await stored(w, "old", tasks=with_target(spec, kind, options))
        asked = await w.post("/jobs/old/trigger", status=202)
        ended = await w.ended(asked["execution_id"])
        assert (ended["status"], ended["attempts"]) == ("failed", 1)
        assert "Chronos does not support secrets yet" in str(ended)

    in_world(case, runs=True)
