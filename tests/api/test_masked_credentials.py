"""Credentials inside a job: masked in responses, kept when the mask is sent back, rejected otherwise."""

from typing import Any

import pytest

from chronos.core.job import JobSpec
from tests.support.api_server import V1, World, in_world, shape

URL = "https://api.example.com/v1/run"
BEARER = {"type": "bearer", "token": "tok-0123456789"}
HTTP = {"url": URL, "auth": BEARER, "headers": {"X-Api-Key": "key-0123456789", "Accept": "text/plain"}}
ENV = {"API_TOKEN": "tok-0123456789", "MODE": "fast", "DB": "postgres://robot:pw-0123456789@db/orders"}
COMMAND = {"argv": ["sync", "--to", "ftp://robot:pw-9876543210@files:2121/x"], "env": ENV}


async def spec_of(world: World, name: str) -> JobSpec:
    job = await world.store.job_named("default", name)
    assert job is not None
    return job.spec


def answered(job: dict[str, Any]) -> dict[str, Any]:
    """Return a job as returned, without the server's own fields."""
    return {name: value for name, value in job.items() if name in ("name", "schedule", "tasks", "payload", "on_start")}


def test_responses_mask_credentials() -> None:
    async def case(world: World) -> None:
        made = await world.create("hook", http=HTTP)
        assert made["tasks"][0]["http"] == {
            "url": URL,
            "auth": {"type": "bearer", "token": "***"},
            "headers": {"X-Api-Key": "***", "Accept": "text/plain"},
        }
        run = await world.create("run", command=COMMAND)
        assert run["tasks"][0]["command"] == {
            "argv": ["sync", "--to", "ftp://***@files:2121/x"],
            "env": {"API_TOKEN": "***", "MODE": "fast", "DB": "postgres://***@db/orders"},
        }
        assert (await world.get("/jobs/hook"))["tasks"] == made["tasks"]
        assert [one["tasks"] for one in (await world.get("/jobs"))["items"]] == [made["tasks"], run["tasks"]]
        assert (await world.get("/jobs/run/versions/1"))["spec"]["tasks"] == run["tasks"]

    in_world(case)


@pytest.mark.parametrize(
    ("auth", "shown"),
    [
        (
            {"type": "basic", "username": "ana", "password": "x"},
            {"type": "basic", "username": "ana", "password": "***"},
        ),
        ({"type": "basic", "username": "sk_live_1"}, {"type": "basic", "username": "***"}),
        ({"type": "basic", "username": "sk", "password": ""}, {"type": "basic", "username": "***", "password": ""}),
        ({"type": "api_key", "name": "X-K", "value": "v"}, {"type": "api_key", "name": "X-K", "value": "***"}),
        ({"type": "hmac", "secret": "s"}, {"type": "hmac", "secret": "***"}),
        ({"type": "bearer", "token": "{{ payload.token }}"}, {"type": "bearer", "token": "{{ payload.token }}"}),
    ],
)
def test_the_visible_parts_of_auth(auth: dict[str, Any], shown: dict[str, Any]) -> None:
    async def case(world: World) -> None:
        made = await world.create(http={"url": URL, "auth": auth})
        assert made["tasks"][0]["http"]["auth"] == shown
        back = await world.call("PUT", f"{V1}/jobs/job", answered(made))
        assert (back.status, back.json["version"]) == (200, 1)
        assert (await spec_of(world, "job")).tasks[0].target.options["auth"] == auth

    in_world(case)


def test_masked_values_sent_back_keep_the_stored_ones() -> None:
    hook = {"http": {"url": URL, "headers": {"Authorization": "Bearer tok-0123456789"}}}

    async def case(world: World) -> None:
        payload = {"from": ["see amqp://robot:pw-0123456789@mq:5672/ and amqp://other:pw-555555555@mq2/"]}
        made = await world.create("hook", http=HTTP, on_start=hook, payload=payload)
        before = await spec_of(world, "hook")
        same = await world.call("PUT", f"{V1}/jobs/hook", answered(made))
        assert (same.status, same.json["version"]) == (200, 1)
        as_it_is = await world.call("PUT", f"{V1}/jobs/hook", made)
        assert (as_it_is.status, as_it_is.json["version"]) == (200, 1)
        changed = await world.call("PUT", f"{V1}/jobs/hook", {**answered(made), "description": "nightly"})
        assert (changed.status, changed.json["version"]) == (200, 2)
        patched = await world.call("PATCH", f"{V1}/jobs/hook", {"priority": 9})
        assert (patched.status, patched.json["version"]) == (200, 3)
        after = await spec_of(world, "hook")
        assert (after.tasks, after.on_start, after.payload) == (before.tasks, before.on_start, before.payload)
        moved = {**HTTP, "url": "https://api.example.com:443/v2", "auth": {"type": "bearer", "token": "***"}}
        moved["headers"] = {"x-api-key": "***"}
        assert (await world.call("PUT", f"{V1}/jobs/hook", shape("hook", http=moved))).status == 200
        options = (await spec_of(world, "hook")).tasks[0].target.options
        assert (options["auth"], options["headers"]) == (BEARER, {"x-api-key": "key-0123456789"})

    in_world(case)


@pytest.mark.parametrize(
    "url",
    [
        "https://evil.example.com/v1/run",
        "http://api.example.com/v1/run",
        "https://api.example.com:8443/v1/run",
        "https://api.example.com.evil.org/v1/run",
        "https://{{ payload.host }}/v1/run",
    ],
)
def test_another_host_does_not_get_stored_credentials(url: str) -> None:
    async def case(world: World) -> None:
        made = await world.create("hook", http=HTTP)
        masked = {**made["tasks"][0]["http"], "url": url}
        for method, body in (
            ("PUT", shape("hook", http=masked)),
            ("PATCH", {"http": masked}),
            ("PUT", {**answered(made), "tasks": [{"name": "main", "http": masked}]}),
        ):
            reply = await world.call(method, f"{V1}/jobs/hook", body)
            assert (reply.status, reply.code) == (422, "invalid_job"), reply.body
            at = "/tasks/0/http" if "tasks" in body else "/http"
            assert [one["pointer"] for one in reply.json["errors"]] == [f"{at}/auth/token", f"{at}/headers/X-Api-Key"]
            assert "masked" in reply.json["errors"][0]["message"]
        bulk = await world.post("/jobs/bulk", {"jobs": [shape("hook", http=masked)]})
        assert bulk["results"][0]["errors"][0]["pointer"] == "/http/auth/token"
        applied = await world.call("POST", f"{V1}/apply", {"jobs": [shape("hook", http=masked)], "owner": "ana"})
        assert applied.status == 422
        assert (await world.get("/jobs/hook"))["version"] == 1

    in_world(case)


def test_a_hook_patched_to_another_host_does_not_get_stored_credentials() -> None:
    async def case(world: World) -> None:
        await world.create("hook", on_complete={"http": HTTP})
        reply = await world.call("PATCH", f"{V1}/jobs/hook", {"on_complete": {"http": {"url": "https://evil.org"}}})
        assert [one["pointer"] for one in reply.json["errors"]] == [
            "/on_complete/http/auth/token",
            "/on_complete/http/headers/X-Api-Key",
        ]
        same = await world.call("PATCH", f"{V1}/jobs/hook", {"on_complete": {"http": {"url": URL + "/2"}}})
        assert same.status == 200
        hook = (await spec_of(world, "hook")).on_complete
        assert hook is not None
        assert hook.options == {**HTTP, "url": URL + "/2"}

    in_world(case)


@pytest.mark.parametrize(
    "changes",
    [
        {"argv": ["curl", "https://evil.org"]},
        {"argv": ["sync", "--to", "ftp://***@evil.org:2121/x"]},
        {"env": {**ENV, "API_TOKEN": "***", "DB": "postgres://***@db/orders", "LD_PRELOAD": "/tmp/evil.so"}},
        {"env": {**ENV, "API_TOKEN": "***", "DB": "postgres://***@evil.org/orders"}},
        {"stdin": "env"},
        {"cwd": "/tmp"},
    ],
)
def test_another_command_does_not_get_stored_credentials(changes: dict[str, Any]) -> None:
    async def case(world: World) -> None:
        made = await world.create("run", command=COMMAND)
        masked = made["tasks"][0]["command"]
        reply = await world.call("PUT", f"{V1}/jobs/run", shape("run", command={**masked, **changes}))
        assert (reply.status, reply.code) == (422, "invalid_job")
        assert "/command/env/API_TOKEN" in [one["pointer"] for one in reply.json["errors"]]
        limits = {**masked, "limits": {"cpu_s": 5}, "success_codes": [0, 3]}
        assert (await world.call("PUT", f"{V1}/jobs/run", shape("run", command=limits))).status == 200
        rotated = {**limits, "env": {**masked["env"], "API_TOKEN": "tok-new"}}
        assert (await world.call("PUT", f"{V1}/jobs/run", shape("run", command=rotated))).status == 200
        options = (await spec_of(world, "run")).tasks[0].target.options
        assert options["env"] == {**ENV, "API_TOKEN": "tok-new"}
        assert options["argv"] == COMMAND["argv"]

    in_world(case)


def test_a_masked_payload_is_not_kept_for_another_target() -> None:
    async def case(world: World) -> None:
        stored = {"dsn": "postgres://robot:pw-0123456789@db/orders"}
        made = await world.create("hook", http={"url": URL}, payload=stored)
        assert made["payload"] == {"dsn": "postgres://***@db/orders"}
        moved = {**answered(made), "tasks": [{"name": "main", "http": {"url": "https://evil.org"}}]}
        reply = await world.call("PUT", f"{V1}/jobs/hook", moved)
        assert [one["pointer"] for one in reply.json["errors"]] == ["/payload/dsn"]
        patched = await world.call("PATCH", f"{V1}/jobs/hook", {"payload": {"more": 1}})
        assert patched.status == 200
        assert (await spec_of(world, "hook")).payload == {**stored, "more": 1}

    in_world(case)


def test_a_new_job_with_masked_values_is_rejected() -> None:
    async def case(world: World) -> None:
        masked = {**HTTP, "auth": {"type": "bearer", "token": "***"}}
        for method, path, body in (
            ("POST", "/jobs", shape("new", webhook=masked)),
            ("POST", "/jobs?dry_run=true", shape("new", webhook=masked)),
            ("PUT", "/jobs/new", shape("new", webhook=masked)),
        ):
            reply = await world.call(method, V1 + path, body)
            assert (reply.status, reply.code) == (422, "invalid_job"), reply.body
            assert [one["pointer"] for one in reply.json["errors"]] == ["/webhook/auth/token"]
        await world.create("taken", http=HTTP)
        assert (await world.call("POST", f"{V1}/jobs", shape("taken", http=masked))).status == 409
        renamed = {"name": "other", "http": masked}
        reply = await world.call("PUT", f"{V1}/jobs/taken", shape("taken", tasks=[renamed]))
        assert [one["pointer"] for one in reply.json["errors"]] == ["/tasks/0/http/auth/token"]
        literal = await world.create("literal", command={"argv": ["echo", "***"], "env": {"STARS": "***"}})
        assert literal["tasks"][0]["command"] == {"argv": ["echo", "***"], "env": {"STARS": "***"}}

    in_world(case)


def test_bulk_saves_keep_stored_credentials() -> None:
    async def case(world: World) -> None:
        jobs = [shape(f"job-{number}", http=HTTP) for number in range(15)]
        await world.post("/jobs/bulk", {"jobs": jobs})
        await world.call("DELETE", f"{V1}/jobs/job-7")
        await world.post("/jobs", jobs[7], status=201)  # it has a new id
        listed = (await world.get("/jobs?limit=100"))["items"]
        bulk = await world.post("/jobs/bulk", {"jobs": [answered(one) for one in listed]})
        assert (bulk["unchanged"], bulk["failed"]) == (15, 0)
        applied = await world.post("/apply", {"jobs": jobs, "owner": "ana"})
        assert len(applied["changed"]) == 15
        listed = (await world.get("/jobs?limit=100"))["items"]
        again = await world.post("/apply", {"jobs": listed, "owner": "ana"})
        assert (len(again["unchanged"]), again["changed"], again["created"]) == (15, [], [])
        assert (await spec_of(world, "job-7")).tasks[0].target.options == HTTP

    in_world(case)


def test_versions_and_diffs_mask_credentials() -> None:
    async def case(world: World) -> None:
        await world.create("hook", http=HTTP)
        rotated = {**HTTP, "auth": {"type": "bearer", "token": "tok-rotated"}}
        await world.call("PUT", f"{V1}/jobs/hook", shape("hook", http=rotated))
        diff = await world.call("GET", f"{V1}/jobs/hook/diff")
        assert diff.json["fields"] == [{"pointer": "/tasks/0/http/auth/token", "old": "***", "new": "***"}]
        two = [{"name": "a", "http": HTTP}, {"name": "b", "http": HTTP}]
        await world.call("PUT", f"{V1}/jobs/hook", shape("hook", tasks=two))
        diff = await world.call("GET", f"{V1}/jobs/hook/diff?from=1")
        assert b"0123456789" not in diff.body
        back = await world.post("/jobs/hook/rollback", {"version": 1})
        assert back["tasks"][0]["http"]["auth"]["token"] == "***"
        assert (await spec_of(world, "hook")).tasks[0].target.options == HTTP

    in_world(case)


def test_a_masked_payload_of_a_run_is_rejected() -> None:
    async def case(world: World) -> None:
        await world.create("hook", http=HTTP)
        payload = {"to": ["postgres://***@db/orders"]}
        for path in ("/jobs/hook/trigger", "/jobs/hook/trigger?dry_run=true"):
            reply = await world.call("POST", V1 + path, {"payload": payload})
            assert reply.status == 422
            assert "payload/to/0 is masked" in reply.json["detail"]

    in_world(case)


def test_rejected_credentials_are_not_quoted() -> None:
    async def case(world: World) -> None:
        for http in (
            {"url": "ftp://robot:pw-0123456789@files/x"},
            {"url": "https://robot:pw-0123456789@files/x"},
            {"url": "https://robot:pw-0123456789@[bad/x"},
        ):
            reply = await world.call("POST", f"{V1}/jobs", shape(http=http))
            assert reply.status == 422
            assert b"0123456789" not in reply.body
        reply = await world.call("POST", f"{V1}/jobs", shape(http={"url": URL, "headers": {"X-Key: secretvalue": "1"}}))
        assert "secretvalue" not in reply.json["errors"][0]["message"]

    in_world(case)


def test_a_target_in_a_log_line_or_traceback_shows_no_credentials() -> None:
    async def case(world: World) -> None:
        await world.create("hook", http=HTTP)
        shown = repr(await spec_of(world, "hook"))
        assert "***" in shown
        assert "0123456789" not in shown

    in_world(case)
