"""Executions over HTTP: trigger, cancel, read, follow."""

import asyncio
import json
from typing import Any

from chronos.api.handlers.event_streams import OutputStream
from chronos.runners.python.context import Context
from chronos.runners.python.function_registry import FunctionRegistry
from chronos.store.commands import PROGRESS, OutputRow
from tests.support.api_server import SECRET, V1, World, in_world, shape

FAILS = {"command": {"argv": ["false"]}, "retry": {"max_attempts": 1}, "schedule": "manual"}


def test_a_triggered_execution_can_be_read() -> None:
    async def case(world: World) -> None:
        await world.create("digest", command={"argv": ["echo", "hello"]}, schedule="manual")
        reply = await world.call("POST", f"{V1}/jobs/digest/trigger", {"payload": {"n": 1}, "reason": "because"})
        assert reply.status == 202
        shown = await world.ended(reply.json["execution_id"])
        assert (shown["status"], shown["trigger"], shown["payload"]) == ("succeeded", "manual", {"n": 1})
        assert shown["asked_because"] == "because"
        [task] = shown["tasks"]
        [attempt] = task["attempts"]
        assert (task["name"], attempt["number"], attempt["exit_code"]) == ("main", 1, 0)
        assert shown["report"]["status"] == "succeeded"
        log = await world.call("GET", f"{V1}/executions/{shown['id']}/log?follow=true")
        assert (log.headers["Content-Type"], log.body) == ("text/plain; charset=utf-8", b"hello\n")
        assert (await world.call("GET", f"{V1}/executions/{shown['id']}/log")).body == b"hello\n"
        assert (await world.get("/jobs/digest"))["last_execution"]["id"] == shown["id"]
        for path in ("/executions", "/jobs/digest/executions", "/executions?job=digest&status=succeeded"):
            assert [one["id"] for one in (await world.get(path))["items"]] == [shown["id"]]
        for word in ("succeeded", "success", "SUCCESS"):
            assert len((await world.get(f"/jobs/digest/executions?status={word}"))["items"]) == 1
        for word in ("troubled", "pending", "in_progress", "timed_out"):
            assert (await world.get(f"/executions?status={word}"))["items"] == []
        wrong = await world.call("GET", f"{V1}/executions?status=done")
        assert (wrong.status, "use one of ready, queued" in wrong.json["detail"]) == (400, True)
        verdicts = [step["verdict"] for step in (await world.get(f"/executions/{shown['id']}/why"))["steps"]]
        assert {"due", "started", "ended"} <= set(verdicts)
        assert (await world.get("/jobs/digest/why"))["steps"]

    in_world(case, runs=True)


def test_a_waiting_retry_is_not_counted_as_an_attempt() -> None:
    functions, again = FunctionRegistry(), asyncio.Event()

    async def fails() -> None:
        raise ValueError("always")

    async def then_waits(ctx: Context) -> None:
        if ctx.attempt == 1:
            raise ValueError("once")
        again.set()
        await asyncio.sleep(600)

    for function in (fails, then_waits):
        functions.register(function.__name__, function)

    async def counts(world: World, id_: str, status: str) -> tuple[int, int]:
        await world.seen(f"/executions/{id_}", status)
        shown = await world.get(f"/executions/{id_}")
        [listed] = [one for one in (await world.get("/executions"))["items"] if one["id"] == id_]
        return shown["attempts"], listed["attempts"]

    async def case(world: World) -> None:
        later, soon = {"initial_interval": "1h"}, {"initial_interval": "1ms"}
        await world.create("waits", python={"name": "fails"}, schedule="manual", retry=later)
        await world.create("runs", python={"name": "then_waits"}, schedule="manual", retry=soon)
        id_ = (await world.post("/jobs/waits/trigger", status=202))["execution_id"]
        assert await counts(world, id_, "waiting") == (1, 1)
        await world.post(f"/executions/{id_}/cancel", status=202)
        assert await counts(world, id_, "canceled") == (1, 1)
        id_ = (await world.post("/jobs/runs/trigger", status=202))["execution_id"]
        await again.wait()
        assert await counts(world, id_, "running") == (2, 2)

    in_world(case, runs=True, functions=functions)


def test_the_same_idempotency_key_returns_the_same_execution() -> None:
    async def case(world: World) -> None:
        await world.create("digest")
        await world.create("other")
        key = {"Idempotency-Key": "k1"}
        first = await world.post("/jobs/digest/trigger", status=202, headers=key)
        second = await world.post("/jobs/digest/trigger", status=202, headers=key)
        assert (second["execution_id"], second["created"]) == (first["execution_id"], False)
        third = await world.post("/jobs/digest/trigger", status=202, headers={"Idempotency-Key": "k2"})
        assert third["execution_id"] != first["execution_id"]
        elsewhere = await world.post("/jobs/other/trigger", status=202, headers=key)
        assert elsewhere["created"] is True
        long = await world.call("POST", f"{V1}/jobs/digest/trigger", headers={"Idempotency-Key": "x" * 256})
        assert (long.status, long.code) == (400, "malformed")

    in_world(case)


def test_invalid_triggers_are_rejected() -> None:
    async def case(world: World) -> None:
        await world.create("digest")
        twice = await world.call("POST", f"{V1}/jobs/digest/trigger", {"at": "2999-01-01T00:00:00Z", "delay": "1m"})
        assert (twice.status, twice.code) == (422, "invalid")
        odd = await world.call("POST", f"{V1}/jobs/digest/trigger", {"at": "tomorrow"})
        assert odd.json["errors"] == [
            {"pointer": "/at", "message": 'is "tomorrow"; write a time like 2027-01-01T09:00:00Z'}
        ]
        large = await world.call("POST", f"{V1}/jobs/digest/trigger", {"payload": "x" * 300_000})
        assert large.status == 422
        assert (await world.post("/jobs/digest/trigger?dry_run=true"))["dry_run"] is True
        assert (await world.get("/executions"))["items"] == []

    in_world(case)


def test_a_backfill_continues_from_next_from() -> None:
    async def case(world: World) -> None:
        await world.create("digest", overlap="allow")
        body = {"from": "2026-01-01T00:00:00Z", "to": "2026-01-01T05:30:00+01:00"}
        dry = await world.post("/jobs/digest/backfill?dry_run=true", body)
        assert (dry["count"], dry["next_from"]) == (5, None)
        key = {"Idempotency-Key": "once"}
        answer = await world.post("/jobs/digest/backfill", body, status=202, headers=key)
        assert (answer["count"], answer["next_from"]) == (5, None)
        again = await world.post("/jobs/digest/backfill", body, status=202, headers=key)
        assert again["execution_ids"] == answer["execution_ids"]
        backwards = {"from": body["to"], "to": body["from"]}
        assert (await world.call("POST", f"{V1}/jobs/digest/backfill", backwards)).status == 422
        missing = await world.call("POST", f"{V1}/jobs/digest/backfill", {"from": body["from"]})
        assert missing.json["errors"] == [{"pointer": "/to", "message": "is required"}]
        assert len((await world.get("/jobs/digest/next?count=3"))["items"]) == 3
        why = await world.get("/jobs/digest/why?at=2026-01-01T00:30:00Z")
        assert why["steps"][0]["verdict"] == "off"

    in_world(case)


def test_cancel() -> None:
    async def case(world: World) -> None:
        await world.create("digest")
        triggered = await world.post("/jobs/digest/trigger", status=202)
        path = f"/executions/{triggered['execution_id']}"
        assert (await world.post(f"{path}/cancel?dry_run=true"))["dry_run"] is True
        assert (await world.post(f"{path}/cancel", {"reason": "oops"}, status=202))["status"] == "canceled"
        assert (await world.get(path))["reason"]["message"] == "oops"
        # Canceling again is allowed, also as a dry run, and changes nothing.
        assert (await world.post(f"{path}/cancel?dry_run=true"))["status"] == "canceled"
        assert (await world.post(f"{path}/cancel", {"reason": "again"}, status=202))["status"] == "canceled"
        assert (await world.get(path))["reason"]["message"] == "oops"
        for odd in ("nothing", "00000000-0000-0000-0000-000000000000"):
            reply = await world.call("GET", f"{V1}/executions/{odd}")
            assert (reply.status, reply.code) == (404, "not_found")

    in_world(case)


def test_a_signal_ends_a_wait() -> None:
    async def case(world: World) -> None:
        await world.create("approval", wait={"signal": "approved"}, schedule="manual")
        triggered = await world.post("/jobs/approval/trigger", status=202)
        path = f"/executions/{triggered['execution_id']}"
        await world.seen(path, "waiting")
        assert await world.post(f"{path}/signal?dry_run=true", {"name": "approved"}) == {
            "dry_run": True,
            "waiting": True,
        }
        wrong = await world.call("POST", f"{V1}{path}/signal", {"name": "denied"})
        assert (wrong.status, wrong.code) == (409, "conflict")
        await world.post(f"{path}/signal", {"name": "approved", "payload": {"by": "ana"}}, status=202)
        assert (await world.ended(triggered["execution_id"]))["status"] == "succeeded"
        for query in ("", "?dry_run=true"):  # it exists and has ended
            assert (await world.call("POST", f"{V1}{path}/signal{query}", {"name": "approved"})).status == 409
        nameless = await world.call("POST", f"{V1}{path}/signal", {})
        assert nameless.json["errors"][0]["pointer"] == "/name"

    in_world(case, runs=True)


async def read_events(
    world: World, count: int, listens: asyncio.Event | None = None, /, **headers: str
) -> list[dict[str, str]]:
    """Return the next events, without comments and signals. ``listens`` is set when the stream starts."""
    found: list[dict[str, str]] = []
    async with asyncio.timeout(60), world.client.get(f"{world.base}{V1}/events", headers=headers) as response:
        assert response.headers["Content-Type"] == "text/event-stream"
        assert response.headers["X-Request-Id"]
        if listens is not None:
            listens.set()
        event: dict[str, str] = {}
        while len(found) < count:
            line = (await response.content.readline()).decode().rstrip("\n")
            if line:
                name, _, value = line.partition(": ")
                event[name] = value
                continue
            if event.get("event") == "execution":
                found.append(event)
            event = {}
    return found


def test_events_resume_after_the_last_event_id() -> None:
    async def case(world: World) -> None:
        await world.create("digest", schedule="manual", overlap="allow")
        listens = asyncio.Event()
        listening = asyncio.create_task(read_events(world, 2, listens))
        await listens.wait()
        triggered = [await world.post("/jobs/digest/trigger", status=202) for _ in range(2)]
        for one in triggered:
            await world.ended(one["execution_id"])
        first, second = await listening
        received = sorted((json.loads(event["data"]) for event in (first, second)), key=lambda one: str(one["id"]))
        assert received[::-1] == (await world.get("/executions"))["items"]  # including its name
        await world.call("DELETE", f"{V1}/jobs/digest")
        assert await read_events(world, 1, **{"Last-Event-ID": first["id"]}) == [second]
        await world.create("digest", schedule="manual", overlap="allow")
        last = await world.post("/jobs/digest/trigger", status=202)
        await world.ended(last["execution_id"])
        resumed = await read_events(world, 2, **{"Last-Event-ID": first["id"]})
        assert resumed[0] == second
        assert last["execution_id"] in resumed[1]["data"]
        odd = await world.call("GET", f"{V1}/events", headers={"Last-Event-ID": "what"})
        assert (odd.status, odd.code) == (400, "malformed")

    in_world(case, runs=True)


def test_a_log_can_be_followed_while_it_is_written() -> None:
    go_on = asyncio.Event()
    functions = FunctionRegistry()

    async def talk(ctx: Any) -> None:
        ctx.log.info("first")
        await go_on.wait()
        ctx.log.info("second")

    functions.register("talk", talk)

    async def case(world: World) -> None:
        await world.create("talk", python={"name": "talk"}, schedule="manual")
        triggered = await world.post("/jobs/talk/trigger", status=202)
        url = f"{world.base}{V1}/executions/{triggered['execution_id']}/log?follow=true"
        async with asyncio.timeout(60), world.client.get(url) as response:
            begun = await response.content.readline()
            assert b"first" in begun
            go_on.set()
            rest = await response.content.read()
            assert b"second" in rest
            assert b"first" not in rest

    in_world(case, runs=True, functions=functions)


def test_a_log_has_each_piece_of_output_once() -> None:
    def row(task: str, number: int, part: int, text: str) -> OutputRow:
        return OutputRow(b"x" * 16, task, number, part, text)

    log = OutputStream(None, 0)
    assert "".join(log.new_text([row("a", 1, 0, "one\n"), row("a", 1, PROGRESS, "{}")])) == "one\n"
    assert "".join(log.new_text([row("a", 1, 0, "one\n"), row("a", 1, 9, "two\n")])) == "two\n"
    assert "".join(log.new_text([row("a", 1, 0, "one\n"), row("a", 1, 9, "two\nthree\n")])) == "three\n"
    moved = [row("a", 1, 0, "one\n"), row("a", 1, 9, "three\nfour\n"), row("b", 1, 0, "five\n")]
    assert "".join(log.new_text(moved)).endswith("--- b, attempt 1\nfive\n")
    both = [row("a", 1, 0, "x"), row("b", 2, 0, "y")]
    assert "".join(OutputStream("b", 2).new_text(both)) == "y"
    assert "".join(OutputStream(None, 0).new_text(both)) == "--- a, attempt 1\nx--- b, attempt 2\ny"


def test_status_nodes_and_queues_are_reported() -> None:
    async def case(world: World) -> None:
        await world.create("digest")
        await world.post("/jobs/digest/trigger", status=202)
        status = await world.get("/status")
        assert (status["jobs_persisted"], status["executions"], status["node"]) == (1, {"ready": 1}, "node-a")
        [queue] = (await world.get("/queues"))["items"]
        assert (queue["queue"], queue["ready"]) == ("default", 1)
        assert (await world.get("/nodes"))["items"] == []
        actions = [entry["action"] for entry in (await world.get("/audit"))["items"]]
        assert actions == ["trigger", "create"]
        assert (await world.call("GET", "/healthz")).status == 200
        assert (await world.call("GET", "/readyz")).status == 200
        assert (await world.call("GET", "/metrics")).body == b"# nothing\n"
        world.facts |= {"ready": False, "reason": "this node is stopping"}
        reply = await world.call("GET", "/readyz")
        assert (reply.status, reply.code, reply.headers["Retry-After"]) == (503, "unavailable", "1")
        assert reply.json["detail"] == "this node is stopping"

    in_world(case)


def test_a_schedule_can_be_previewed() -> None:
    async def case(world: World) -> None:
        body = {"schedule": {"cron": "30 2 * * *"}, "timezone": "Europe/Paris", "count": 3}
        answer = await world.post("/schedule/preview", body)
        assert (len(answer["next"]), answer["timezone"]) == (3, "Europe/Paris")
        assert {warning["kind"] for warning in answer["warnings"]} >= {"moved"}
        assert answer["understood_as"] is None
        words = await world.post("/schedule/preview", {"schedule": "every weekday at 9am in New York"})
        assert (words["understood_as"], words["timezone"]) == ("0 9 * * 1-5", "America/New_York")
        wrong = await world.call("POST", f"{V1}/schedule/preview", {"schedule": "0 25 * * *"})
        assert (wrong.status, wrong.json["errors"][0]["pointer"]) == (422, "/schedule")
        nothing = await world.call("POST", f"{V1}/schedule/preview", {})
        assert nothing.json["errors"][0]["pointer"] == "/schedule"

    in_world(case)


def test_lists_leave_out_other_namespaces() -> None:
    async def case(world: World) -> None:
        await world.post("/jobs?namespace=billing", shape("theirs", overlap="allow"), status=201)
        await world.create("ours", overlap="allow")
        for _ in range(3):
            await world.post("/jobs/theirs/trigger?namespace=billing", status=202)
        mine = await world.post("/jobs/ours/trigger", status=202)
        assert len((await world.get("/executions"))["items"]) == 4
        found = await world.get("/executions?namespace=default&limit=2")
        assert [one["id"] for one in found["items"]] == [mine["execution_id"]]
        assert len((await world.get("/executions?namespace=billing&limit=2"))["items"]) == 2

    in_world(case)


def test_runs_of_a_deleted_job_keep_its_name() -> None:
    users: dict[str, dict[str, Any]] = {
        "ada": {"password_hash": SECRET, "role": "admin"},
        "here": {"password_hash": SECRET, "role": "viewer", "namespaces": ["here"]},
        "there": {"password_hash": SECRET, "role": "admin", "namespaces": ["there"]},
    }

    async def case(world: World) -> None:
        runs = []
        for _ in range(2):  # two jobs of the same name, one after the other
            await world.post("/jobs?namespace=here", shape("gone", **FAILS), status=201, user="ada")
            triggered = await world.post("/jobs/gone/trigger?namespace=here", status=202, user="ada")
            runs.append(triggered["execution_id"])
            await world.ended(runs[-1], user="ada")
            assert (await world.call("DELETE", f"{V1}/jobs/gone?namespace=here", user="ada")).status == 200
        for user in ("ada", "here"):
            listed = (await world.get("/executions", user=user))["items"]
            assert [(one["id"], one["job_name"]) for one in listed] == [(runs[1], "gone"), (runs[0], "gone")]
            letters = (await world.get("/dead-letters", user=user))["items"]
            assert [one["job_name"] for one in letters] == ["gone", "gone"]
            for run in runs:
                assert (await world.get(f"/executions/{run}", user=user))["job_name"] == "gone"
        assert (await world.get("/executions", user="there"))["items"] == []
        assert (await world.call("GET", f"{V1}/executions/{runs[0]}", user="there")).status == 404
        assert (await world.call("POST", f"{V1}/executions/{runs[0]}/cancel", user="here")).status == 403

    in_world(case, users=users, runs=True)


def test_namespaces_with_jobs_are_listed() -> None:
    users: dict[str, dict[str, Any]] = {
        "ada": {"password_hash": SECRET, "role": "admin"},
        "here": {"password_hash": SECRET, "role": "viewer", "namespaces": ["b"]},
    }

    async def case(world: World) -> None:
        for namespace in ("b", "a", "default"):
            await world.post(f"/jobs?namespace={namespace}", shape("job"), status=201, user="ada")
        assert [one["name"] for one in (await world.get("/namespaces", user="ada"))["items"]] == ["a", "b", "default"]
        assert (await world.get("/namespaces", user="here"))["items"] == [{"name": "b"}]
        await world.call("DELETE", f"{V1}/jobs/job?namespace=a", user="ada")
        assert [one["name"] for one in (await world.get("/namespaces", user="ada"))["items"]] == ["b", "default"]

    in_world(case, users=users)


def test_audit_actions_are_verbs() -> None:
    async def case(world: World) -> None:
        await world.create("job", command={"argv": ["sleep", "60"]}, schedule="manual")
        for verb in ("pause", "resume", "disable", "enable"):
            await world.post(f"/jobs/job/{verb}")
        triggered = await world.post("/jobs/job/trigger", status=202)
        await world.post(f"/executions/{triggered['execution_id']}/cancel", {"reason": "enough"}, status=202)
        await world.call("DELETE", f"{V1}/jobs/job")
        lines = [(line["action"], line["subject"]) for line in (await world.get("/audit"))["items"]]
        verbs = ("create", "pause", "resume", "disable", "enable", "trigger", "cancel", "delete")
        assert lines == [(verb, "job") for verb in reversed(verbs)]

    in_world(case)


def test_why_names_the_awaited_signal() -> None:
    async def case(world: World) -> None:
        await world.create("ask", schedule="manual", wait={"signal": "approved", "timeout": "1h"})
        id_ = (await world.post("/jobs/ask/trigger", status=202))["execution_id"]
        await world.seen(f"/executions/{id_}", "waiting")
        steps = (await world.get(f"/executions/{id_}/why"))["steps"]
        verdicts = [step["verdict"] for step in steps]
        assert verdicts.index("started") < verdicts.index("waits")
        assert 'Waiting for the signal "approved", until ' in steps[verdicts.index("waits")]["sentence"]

    in_world(case, runs=True)


def test_invalid_fields_are_named_by_pointer() -> None:
    async def case(world: World) -> None:
        await world.create("tick")
        early, late, never = "2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z", "2099-01-01T00:00:00Z"
        for path, body, pointer in (
            ("/jobs/tick/trigger", {"at": "never"}, "/at"),
            ("/jobs/tick/backfill", {"from": late, "to": early}, "/to"),
            ("/jobs/tick/backfill", {"from": early, "to": never}, "/to"),
            ("/apply", {"owner": "me", "jobs": [shape("a"), shape("b"), shape("a")]}, "/jobs/2/name"),
        ):
            refused = await world.call("POST", V1 + path, body)
            assert (refused.status, [one["pointer"] for one in refused.json["errors"]]) == (422, [pointer])

    in_world(case)


def test_the_guide_accepts_the_status_that_it_returns() -> None:
    async def case(world: World) -> None:
        await world.create("tick", schedule="manual")
        id_ = (await world.post("/jobs/tick/trigger", status=202))["execution_id"]
        await world.ended(id_)
        found = await world.call("GET", "/api/jobs/tick/executions?status=SUCCESS")
        assert [(one["id"], one["status"]) for one in found.json["items"]] == [(id_, "SUCCESS")]

    in_world(case, runs=True)


def test_bytes_that_are_not_http_are_refused_and_the_connection_ends() -> None:
    async def case(world: World) -> None:
        port = int(world.base.rpartition(":")[2])
        for sent in (b"GET / HTTP/1.1\r\nHost: a\r\nContent-Length: x\r\n\r\n", b"\x16\x03\x01 nonsense\r\n\r\n"):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(sent)
            received = (await asyncio.wait_for(reader.read(), 60)).decode()  # until the server closes the connection
            writer.close()
            await writer.wait_closed()
            head, _, body = received.partition("\r\n\r\n")
            assert head.startswith(("HTTP/1.1 400 ", "HTTP/1.0 400 "))
            assert "Content-Type: text/plain" in head
            assert body
            assert "Traceback" not in body

    in_world(case)


def test_a_delayed_trigger_waits_and_many_runs_are_enqueued() -> None:
    async def case(world: World) -> None:
        await world.create("digest", overlap="allow")
        later = await world.post("/jobs/digest/trigger", {"delay": "1h", "expires": "2h"}, status=202)
        assert later["status"] == "waiting"
        why = await world.get(f"/executions/{later['execution_id']}/why")
        assert any("when it was requested to start" in step["sentence"] for step in why["steps"])
        key, body = {"Idempotency-Key": "mails"}, {"payloads": [{"to": "ana"}, {"to": "ben"}]}
        dry = await world.post("/jobs/digest/enqueue?dry_run=true", body)
        assert (dry["dry_run"], dry["count"]) == (True, 2)
        answer = await world.post("/jobs/digest/enqueue", body, status=202, headers=key)
        assert answer["count"] == 2
        assert await world.post("/jobs/digest/enqueue", body, status=202, headers=key) == answer
        shown = await world.get(f"/executions/{answer['execution_ids'][1]}")
        assert (shown["status"], shown["payload"]) == ("ready", {"to": "ben"})
        bodies: list[dict[str, object]] = [
            {},
            {"payloads": {}},
            {"payloads": [], "delay": "soon"},
            {"payloads": [], "at": "soon"},
        ]
        for wrong in bodies:
            assert (await world.call("POST", f"{V1}/jobs/digest/enqueue", wrong)).status == 422, wrong

    in_world(case)
