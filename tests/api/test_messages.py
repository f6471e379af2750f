"""Messages of the API: they name what is wrong, then what to do."""

from typing import Any

import pytest

from tests.support.api_server import SECRET, V1, World, in_world

USERS: dict[str, dict[str, Any]] = {
    "ana": {"password_hash": SECRET, "role": "admin"},
    "bob": {"password_hash": SECRET, "role": "viewer", "namespaces": ["billing"]},
    "eve": {"password_hash": SECRET, "role": "viewer"},
}


@pytest.mark.parametrize(
    ("user", "method", "path", "status", "detail"),
    [
        (
            "bob",
            "POST",
            "/jobs/job/pause?namespace=billing",
            403,
            "needs the operator role in billing; bob has viewer; ask an admin of billing",
        ),
        (
            "eve",
            "POST",
            "/jobs?namespace=billing",
            403,
            "needs the admin role in billing; eve has viewer; ask an admin of billing",
        ),
        (
            "bob",
            "GET",
            "/queues",
            403,
            "needs the viewer role in all namespaces; bob has viewer in billing; ask an admin of all namespaces",
        ),
        (
            "bob",
            "GET",
            "/jobs",
            404,
            'namespace "default" not found; you have roles in billing: add ?namespace=billing',
        ),
    ],
)
def test_permission_errors_name_the_role_needed_and_the_role_held(
    user: str, method: str, path: str, status: int, detail: str
) -> None:
    async def case(world: World) -> None:
        body = {"name": "job", "schedule": "manual", "wait": {"for": "1s"}}
        await world.call("POST", f"{V1}/jobs?namespace=billing", body, user="ana")
        reply = await world.call(method, f"{V1}{path}", body if path.startswith("/jobs?") else None, user=user)
        assert (reply.status, reply.json["detail"]) == (status, detail)

    in_world(case, users=USERS)


def test_the_name_of_a_job_instead_of_an_execution_id_is_explained() -> None:
    async def case(world: World) -> None:
        await world.create("hello")
        reply = await world.call("GET", f"{V1}/executions/hello")
        assert (reply.status, reply.code) == (404, "not_found")
        assert '"hello" is a job, not an execution' in reply.json["detail"]
        assert "/api/v1/jobs/hello/executions" in reply.json["detail"]
        assert "is a job" not in (await world.call("GET", f"{V1}/executions/nope")).json["detail"]

    in_world(case)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"command": "echo hi"}, 'must be an object like {"argv": ["echo", "hi"]}'),
        ({"command": ["echo", "hi"]}, 'must be an object like {"argv": ["echo", "hi"]}'),
        ({"webhook": "https://a.example"}, 'must be an object like {"url": "https://a.example"}'),
        ({"python": "send"}, 'must be an object like {"name": "send"}'),
        ({"wait": 5}, "must be an object"),
        (
            {"apiVersion": "batch/v1", "kind": "CronJob"},
            "is a Kubernetes manifest; write a job with a name, a schedule and tasks",
        ),
    ],
)
def test_common_mistakes_are_answered_with_an_example(fields: dict[str, Any], message: str) -> None:
    async def case(world: World) -> None:
        reply = await world.call("POST", f"{V1}/jobs", {"name": "job", "schedule": "manual"} | fields)
        assert (reply.status, reply.code) == (422, "invalid_job")
        assert message in [one["message"] for one in reply.json["errors"]]

    in_world(case)


def test_both_spellings_of_canceled_are_sent_and_accepted() -> None:
    async def case(world: World) -> None:
        await world.create("digest", schedule="0 9 * * *")
        run = (await world.call("POST", f"{V1}/jobs/digest/trigger")).json["execution_id"]
        await world.call("POST", f"{V1}/executions/{run}/cancel")
        for status in ("canceled", "cancelled", "CANCELED", "CANCELLED"):
            [found] = (await world.get(f"/executions?status={status}"))["items"]
            assert (found["id"], found["status"]) == (run, "canceled")
        patched = await world.call("PATCH", f"{V1}/jobs/digest", {"schedule": "0 10 * * *"})
        diff = patched.json["diff"]
        assert diff["canceled"] == diff["cancelled"]
        assert diff["canceled"]["count"] == 30
        runs = (await world.get("/jobs/digest/diff"))["runs"]
        assert runs["canceled"] == runs["cancelled"]

    in_world(case)
