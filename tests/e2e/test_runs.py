"""Executions over HTTP, on a real server with each engine, and the server's own status."""

import http.client
import json
from typing import Any
from urllib.parse import urlsplit

import pytest

from chronos.api.handlers import ROUTES
from chronos.api.routing import Route
from tests.support.e2e_server import ADMIN, V1, Client, shape
from tests.support.server_process import PATIENCE_S

FAILS = {"command": {"argv": ["sh", "-c", "echo oh no; exit 3"]}, "retry": {"max_attempts": 1}}


def test_a_triggered_run_has_a_record_and_output(api: Client) -> None:
    api.create("hello", command={"argv": ["echo", "hello"]})
    ran = api.ended(api.trigger("hello", {"payload": {"n": 1}}))
    assert (ran["status"], ran["trigger"], ran["job_name"], ran["job_version"]) == ("succeeded", "manual", "hello", 1)
    assert (ran["node"], ran["attempts"], ran["recovered"], ran["payload"]) == ("one", 1, False, {"n": 1})
    assert ran["duration_ms"] >= 0
    assert ran["lateness_ms"] >= 0
    [task] = ran["tasks"]
    [attempt] = task["attempts"]
    assert (task["name"], task["status"], attempt["number"], attempt["exit_code"]) == ("main", "succeeded", 1, 0)
    assert ran["report"]["status"] == "succeeded"
    assert api.call("GET", f"{V1}/executions/{ran['id']}/log").body == b"hello\n"
    assert api.call("GET", f"{V1}/executions/{ran['id']}/log?follow=true").body == b"hello\n"
    for path in ("/jobs/hello/executions", "/executions?job=hello", "/jobs/hello/executions?status=succeeded"):
        assert [one["id"] for one in api.get(path)["items"]] == [ran["id"]]
    assert api.get("/jobs/hello")["last_execution"]["id"] == ran["id"]
    assert api.get("/jobs/hello/why")["steps"]
    assert api.call("POST", f"{V1}/executions/{ran['id']}/cancel").status == 409
    assert {"started", "ended"} <= {step["verdict"] for step in api.get(f"/executions/{ran['id']}/why")["steps"]}


def test_the_same_key_is_the_same_execution(api: Client) -> None:
    api.create("keyed", overlap="allow")
    first, second = (api.trigger("keyed", Idempotency_Key="k") for _ in range(2))
    assert first == second != api.trigger("keyed", Idempotency_Key="other")
    assert len(api.get("/jobs/keyed/executions")["items"]) == 2


def test_the_schedule_now_runs_at_once(api: Client) -> None:
    api.create("at-once", schedule="now")
    found = api.until("/jobs/at-once", lambda job: job["last_execution"] is not None)
    assert found["last_execution"]["job_name"] == "at-once"
    assert api.ended(found["last_execution"]["id"])["status"] == "succeeded"


def test_a_schedule_starts_runs(api: Client) -> None:
    api.create("ticking", schedule="every 1s")
    ran = api.until("/jobs/ticking/executions?status=succeeded", lambda page: len(page["items"]) >= 2)["items"]
    assert {one["trigger"] for one in ran} == {"schedule"}
    assert ran[0]["scheduled_at"] > ran[1]["scheduled_at"]
    api.call("DELETE", f"{V1}/jobs/ticking")
    assert api.get(f"/executions/{ran[0]['id']}")["status"] == "succeeded"


def test_a_backfill_runs_a_past_range(api: Client) -> None:
    api.create("filled", schedule="0 * * * *", overlap="allow")
    span = {"from": "2026-01-01T00:00:00Z", "to": "2026-01-01T03:00:00Z"}
    backfill = api.post("/jobs/filled/backfill", span, 202)
    assert backfill["count"] == 4
    for execution in backfill["execution_ids"]:
        assert api.ended(execution)["trigger"] == "backfill"
    page = api.get("/jobs/filled/executions?limit=3")
    rest = api.get(f"/jobs/filled/executions?limit=3&cursor={page['next_cursor']}")
    assert (len(page["items"]), len(rest["items"]), rest["next_cursor"]) == (3, 1, None)
    assert api.get("/jobs/filled/why?at=2026-01-01T01:00:00Z")["steps"]


def test_a_signal_ends_a_wait(api: Client) -> None:
    api.create("approval", wait={"signal": "approved"})
    execution = api.trigger("approval")
    api.until(f"/executions/{execution}", lambda one: one["status"] == "waiting")
    assert api.call("POST", f"{V1}/executions/{execution}/signal", {"name": "denied"}).status == 409
    api.post(f"/executions/{execution}/signal", {"name": "approved", "payload": {"by": "ana"}}, 202)
    assert api.ended(execution)["status"] == "succeeded"


def test_a_running_execution_is_canceled(api: Client) -> None:
    api.create("endless", command={"argv": ["sleep", "600"]})
    execution = api.trigger("endless")
    api.until(f"/executions/{execution}", lambda one: one["status"] == "running")
    assert any(queue["running"] for queue in api.get("/queues")["items"])
    api.post(f"/executions/{execution}/cancel", {"reason": "enough"}, 202)
    ended = api.ended(execution)
    assert (ended["status"], ended["reason"]["code"]) == ("canceled", "canceled")
    assert api.post(f"/executions/{execution}/cancel", None, 202)["status"] == "canceled"  # repeating it is a no-op


def test_dead_letters_and_replay(api: Client) -> None:
    space = "?namespace=dead"
    api.post(f"/jobs{space}", shape("fails", **FAILS), 201)
    execution = api.post(f"/jobs/fails/trigger{space}", None, 202)["execution_id"]
    failed = api.ended(execution)
    [attempt] = failed["tasks"][0]["attempts"]
    assert (failed["status"], attempt["exit_code"]) == ("failed", 3)
    assert attempt["error"]
    [letter] = api.get(f"/dead-letters{space}")["items"]
    assert (letter["id"], letter["job_name"]) == (execution, "fails")
    again = api.post(f"/dead-letters/{execution}/replay", {"reason": "fixed"}, 202)
    assert api.ended(again["execution_id"])["replay_of"] == execution
    third = api.post(f"/executions/{execution}/replay", {"from_failed": True}, 202)["execution_id"]
    api.ended(third)
    letters = [one["id"] for one in api.get(f"/dead-letters{space}")["items"]]
    assert set(letters) == {again["execution_id"], third}
    for one in letters:
        assert [api.call("DELETE", f"{V1}/dead-letters/{one}").status for _ in range(2)] == [204, 404]
    assert api.get(f"/dead-letters{space}")["items"] == []


def test_events_arrive_and_resume(api: Client) -> None:
    space = "?namespace=streamed"
    api.post(f"/jobs{space}", shape("seen", overlap="allow"), 201)
    connection = http.client.HTTPConnection(urlsplit(api.process.url).netloc, timeout=PATIENCE_S)
    connection.request("GET", f"{V1}/events{space}", headers={"Authorization": ADMIN})
    stream = connection.getresponse()
    assert stream.headers["Content-Type"] == "text/event-stream"
    assert stream.readline().startswith(b"retry:")
    ids = [api.post(f"/jobs/seen/trigger{space}", None, 202)["execution_id"] for _ in range(2)]
    events: list[tuple[str, str]] = []
    last = ""
    while len(events) < 2:
        name, _, value = stream.readline().decode().rstrip("\n").partition(": ")
        if name == "id":
            last = value
        if name == "data":
            events.append((last, json.loads(value)["id"]))
    connection.close()
    assert {execution for _, execution in events} == set(ids)
    connection.request("GET", f"{V1}/events{space}", headers={"Authorization": ADMIN, "Last-Event-ID": events[0][0]})
    stream = connection.getresponse()
    while not (line := stream.readline()).startswith(b"data: "):
        pass
    assert json.loads(line[6:])["id"] == events[1][1]
    connection.close()


def test_health_metrics_and_status_of_a_server(api: Client) -> None:
    anybody = Client(api.process, None)
    assert anybody.call("GET", "/healthz").json == {"status": "ok"}
    assert anybody.call("GET", "/readyz").json == {"status": "ready"}
    assert anybody.call("GET", "/openapi.json").json["openapi"].startswith("3.1")
    assert b"/api/v1/jobs" in anybody.call("GET", "/docs").body
    assert anybody.call("GET", f"{V1}/jobs").status == 401
    status = api.get("/status")
    assert {"jobs_held", "jobs_persisted", "jobs_recovered", "jobs_failed_to_recover"} <= status.keys()
    [node] = api.get("/nodes")["items"]
    assert (node["name"], node["state"]) == ("one", "alive")
    metrics = api.call("GET", "/metrics").body.decode()
    for name in ("scheduler_jobs_running_total", "scheduler_start_lateness_seconds", "scheduler_store_batch_size"):
        assert name in metrics
    assert any(user["name"] == "ana" for user in api.get("/users")["items"])


def test_a_token_has_only_its_permissions(api: Client) -> None:
    made = api.post("/tokens", {"name": "reader", "role": "viewer"}, 201)
    reader = Client(api.process, f"Bearer {made['token']}")
    assert reader.call("GET", f"{V1}/jobs").status == 200
    assert reader.call("POST", f"{V1}/jobs", shape("not-mine")).status == 403
    assert [token["name"] for token in api.get("/tokens")["items"]] == ["reader"]
    assert made["token"].encode() not in api.call("GET", f"{V1}/tokens").body
    assert api.call("DELETE", f"{V1}/tokens/reader").status == 204
    assert reader.call("GET", f"{V1}/jobs").status == 401


@pytest.mark.parametrize("route", ROUTES, ids=lambda route: f"{route.method} {route.path}")
def test_every_route_answers_as_documented(api: Client, route: Route) -> None:
    """Without data, and with a meaningless body, each route returns a documented status, never a 500."""
    path = route.path
    for name in ("ref", "id", "name", "version"):
        path = path.replace(f"{{{name}}}", "nothing")
    if route.is_stream:
        path += "?after=x" if path.endswith("/events") else ""
    bodies: tuple[Any, ...] = (None, {"no": "such"}, [], b"\xff")
    for body in bodies:
        reply = api.call(route.method, path, body)
        assert reply.status < 500, reply.body
        if reply.status >= 400:
            assert reply.code not in ("no_such_path", "method_not_allowed")
