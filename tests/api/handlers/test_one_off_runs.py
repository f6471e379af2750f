"""``POST /executions``: work that runs once, without a job of its own."""

import asyncio
from typing import Any

import pytest

from chronos.runners.python.function_registry import FunctionRegistry
from tests.support.api_server import SECRET, V1, Reply, World, in_world

ECHO = {"command": {"argv": ["echo", "hi"]}}


def test_work_runs_once_and_keeps_its_history() -> None:
    async def case(world: World) -> None:
        reply = await world.call("POST", f"{V1}/executions", {**ECHO, "reason": "asked for", "payload": {"day": 1}})
        assert reply.status == 202
        asked = reply.json
        assert reply.headers["Location"] == f"{V1}/executions/{asked['execution_id']}"
        ended = await world.ended(asked["execution_id"])
        assert (ended["status"], ended["trigger"], ended["payload"]) == ("succeeded", "manual", {"day": 1})
        assert (ended["job_id"], ended["job_name"]) == (asked["job_id"], asked["job_name"])
        assert ended["asked_because"] == "asked for"
        log = await world.call("GET", f"{V1}/executions/{asked['execution_id']}/log")
        assert log.body == b"hi\n"
        job = await world.get(f"/jobs/{asked['job_name']}")
        assert (job["state"], job["overlap"], job["next_run_at"]) == ("done", "allow", None)
        assert job["tags"] == {"one-off": "command"}

    in_world(case, runs=True)


def test_equal_work_shares_a_job_and_other_work_has_another() -> None:
    async def case(world: World) -> None:
        first = await world.post("/executions", ECHO, status=202)
        equal = await world.post("/executions", {**ECHO, "payload": [1]}, status=202)
        other = await world.post("/executions", {**ECHO, "queue": "mail"}, status=202)
        assert first["job_id"] == equal["job_id"] != other["job_id"]
        assert first["execution_id"] != equal["execution_id"]
        assert len((await world.get(f"/jobs/{first['job_id']}/executions"))["items"]) == 2
        assert (await world.get(f"/jobs/{other['job_id']}"))["queue"] == "mail"
        assert (await world.get(f"/jobs/{first['job_id']}"))["version"] == 1

    in_world(case)


def test_requests_at_once_share_a_job() -> None:
    async def case(world: World) -> None:
        asked = await asyncio.gather(*(world.post("/executions", ECHO, status=202) for _ in range(10)))
        assert len({one["job_id"] for one in asked}) == 1
        assert len({one["execution_id"] for one in asked}) == 10

    in_world(case)


def test_a_deleted_job_is_created_again() -> None:
    async def case(world: World) -> None:
        first = await world.post("/executions", ECHO, status=202)
        assert (await world.call("DELETE", f"{V1}/jobs/{first['job_name']}")).status == 200
        again = await world.post("/executions", ECHO, status=202)
        assert again["job_name"] == first["job_name"]
        assert again["job_id"] != first["job_id"]

    in_world(case)


@pytest.mark.parametrize("place", ["header", "body"])
def test_the_same_key_returns_the_same_execution(place: str) -> None:
    async def case(world: World) -> None:
        async def ask(key: str) -> Any:
            headers = {"Idempotency-Key": key} if place == "header" else {}
            body = ECHO if place == "header" else {**ECHO, "idempotency_key": key}
            return (await world.call("POST", f"{V1}/executions", body, headers=headers)).json

        first, again, other = await ask("order-17"), await ask("order-17"), await ask("order-18")
        assert (first["created"], again["created"], other["created"]) == (True, False, True)
        assert first["execution_id"] == again["execution_id"] != other["execution_id"]

    in_world(case)


def test_a_function_gets_its_payload() -> None:
    functions = FunctionRegistry()
    functions.register("greet", lambda name: f"hello {name}")

    async def case(world: World) -> None:
        asked = await world.post("/executions", {"python": {"name": "greet"}, "payload": {"name": "ana"}}, status=202)
        ended = await world.ended(asked["execution_id"])
        assert (ended["status"], ended["result"]) == ("succeeded", "hello ana")

    in_world(case, runs=True, functions=functions)


def test_settings_apply_to_the_run() -> None:
    async def case(world: World) -> None:
        body = {"command": {"argv": ["false"]}, "max_retries": 0, "timeout": "5s", "priority": 8}
        asked = await world.post("/executions", body, status=202)
        ended = await world.ended(asked["execution_id"])
        assert (ended["status"], ended["attempts"]) == ("failed", 1)
        later = await world.post("/executions", {**ECHO, "delay": "1h", "expires": "2h"}, status=202)
        assert (await world.get(f"/executions/{later['execution_id']}"))["status"] == "waiting"

    in_world(case, runs=True)


BAD: list[tuple[Any, int, str]] = [
    ({}, 422, "has no target; give one of command, http, python, wait"),
    (None, 400, "the body is missing"),
    ([], 422, "the body must be an object"),
    ({**ECHO, "http": {"url": "https://a.example"}}, 422, "has command and http; give one target"),
    ({"command": "echo hi"}, 422, 'must be an object like {"argv": ["echo", "hi"]}'),
    ({"grpc": {}}, 422, 'unsupported target "grpc"'),
    ({"http": {"url": "http://127.0.0.1/"}}, 422, "allow_private"),
    ({**ECHO, "schedule": "@daily"}, 422, "unknown field"),
    ({**ECHO, "queu": "mail"}, 422, 'did you mean "queue"?'),
    ({**ECHO, "queue": "no blanks"}, 422, "queue"),
    ({**ECHO, "delay": "soon"}, 422, "soon"),
    ({**ECHO, "at": "2027-01-01T00:00:00Z", "delay": "1h"}, 422, "use one of them"),
    ({**ECHO, "payload": "x" * 300_000}, 422, "256 KiB"),
    ({**ECHO, "reason": "x" * 1_001}, 422, "characters, allowed 1000"),
    ({**ECHO, "idempotency_key": "é"}, 422, "printable ASCII"),
    ({"http": {"url": "https://a.example", "auth": {"type": "bearer", "token": "***"}}}, 422, "no value is stored"),
]


@pytest.mark.parametrize(("body", "status", "part"), BAD)
def test_bad_requests_are_rejected_and_write_nothing(body: Any, status: int, part: str) -> None:
    async def case(world: World) -> None:
        reply = await world.call("POST", f"{V1}/executions", body)
        assert reply.status == status, reply.body
        assert part in str(reply.json)
        assert (await world.get("/jobs"))["items"] == []
        assert (await world.get("/executions"))["items"] == []

    in_world(case)


def test_two_different_keys_are_rejected() -> None:
    async def case(world: World) -> None:
        body = {**ECHO, "idempotency_key": "a"}
        reply = await world.call("POST", f"{V1}/executions", body, headers={"Idempotency-Key": "b"})
        assert (reply.status, reply.json["errors"][0]["pointer"]) == (422, "/idempotency_key")

    in_world(case)


def test_a_dry_run_writes_nothing() -> None:
    async def case(world: World) -> None:
        planned = await world.post("/executions?dry_run=true", ECHO)
        assert planned["dry_run"] is True
        assert (await world.get("/jobs"))["items"] == []
        assert (await world.post("/executions", ECHO, status=202))["job_name"] == planned["job_name"]

    in_world(case)


def test_permissions_are_those_of_a_new_job() -> None:
    users: dict[str, dict[str, Any]] = {
        "ana": {"password_hash": SECRET, "role": "admin"},
        "ben": {"password_hash": SECRET, "role": "admin", "namespaces": ["billing"]},
        "olga": {"password_hash": SECRET, "role": "operator"},
    }

    async def case(world: World) -> None:
        async def ask(user: str, body: Any, namespace: str = "default") -> Reply:
            return await world.call("POST", f"{V1}/executions?namespace={namespace}", body, user=user)

        web = {"http": {"url": "https://api.example.org/"}}
        assert (await ask("ana", ECHO)).status == 202
        assert (await ask("olga", web)).status == 403  # may trigger jobs, but not define work
        assert (await ask("ben", web)).status == 404
        assert (await ask("ben", web, "billing")).status == 202
        refused = await ask("ben", ECHO, "billing")
        assert (refused.status, "dispatcher.command.roles" in refused.json["detail"]) == (403, True)

    in_world(case, users=users)
