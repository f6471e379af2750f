"""Bulk actions: selection, results per job, and permissions."""

import asyncio
from typing import Any

import pytest

from chronos.api.handlers import job_selection
from chronos.core.node import Actor
from chronos.service.bulk_actions import Action
from chronos.store.contract import JobFilter
from tests.support.api_server import SECRET, V1, World, in_world, shape

ACTIONS = f"{V1}/jobs/actions"
USERS: dict[str, dict[str, Any]] = {
    "ada": {"password_hash": SECRET, "role": "admin"},
    "otto-here": {"password_hash": SECRET, "role": "operator", "namespaces": ["here"]},
    "ada-here": {"password_hash": SECRET, "role": "admin", "namespaces": ["here"]},
    "vera": {"password_hash": SECRET, "role": "viewer"},
}


async def some_jobs(world: World, **options: Any) -> None:
    await world.create("bill-a", tags={"team": "billing", "stage": "live"}, **options)
    await world.create("bill-b", tags={"team": "billing", "stage": "test"}, **options)
    await world.create("data-a", tags={"team": "data", "stage": "live"}, owner="etl", **options)


async def states(world: World) -> dict[str, str]:
    return {job["name"]: job["state"] for job in (await world.get("/jobs"))["items"]}


def test_state_changes_apply_to_the_selected_jobs() -> None:
    async def case(world: World) -> None:
        await some_jobs(world)
        body = {"action": "pause", "reason": "moving"}
        would = await world.post("/jobs/actions?tag=team=billing&dry_run=true", body)
        assert set((await states(world)).values()) == {"active"}
        done = await world.post("/jobs/actions?tag=team=billing", body)
        assert done == would | {"dry_run": False}
        assert {key: done[key] for key in ("action", "matched", "done", "unchanged", "failed")} == {
            "action": "pause",
            "matched": 2,
            "done": 2,
            "unchanged": 0,
            "failed": 0,
        }
        assert [(one["name"], one["result"]) for one in done["results"]] == [("bill-a", "done"), ("bill-b", "done")]
        assert await states(world) == {"bill-a": "paused", "bill-b": "paused", "data-a": "active"}
        assert (await world.get("/jobs/bill-a"))["note"] == "moving"
        again = await world.post("/jobs/actions?tag=team=billing", body)
        assert (again["done"], again["unchanged"]) == (0, 2)
        lines = [(line["action"], line["subject"], line["detail"]) for line in (await world.get("/audit"))["items"]]
        assert sorted(line for line in lines if line[0] == "pause") == [
            ("pause", "bill-a", "moving"),
            ("pause", "bill-b", "moving"),
        ]
        for action, query, expected in (
            ("resume", "tag=stage=live&state=paused", ("active", "paused", "active")),
            ("disable", "prefix=bill", ("disabled", "disabled", "active")),
            ("enable", "q=ill-b", ("disabled", "active", "active")),
            ("disable", "owner=etl", ("disabled", "active", "disabled")),
            ("enable", "state=disabled", ("active", "active", "active")),
        ):
            assert (await world.post(f"/jobs/actions?{query}", {"action": action}))["failed"] == 0
            assert tuple((await states(world)).values()) == expected, (action, query)

    in_world(case)


def test_several_tags_must_all_match() -> None:
    async def case(world: World) -> None:
        await some_jobs(world)
        both = "tag=team=billing&tag=stage=live"
        assert [job["name"] for job in (await world.get(f"/jobs?{both}"))["items"]] == ["bill-a"]
        assert [job["name"] for job in (await world.get("/jobs?tag=stage&tag=team=data"))["items"]] == ["data-a"]
        first = await world.get(f"/jobs?limit=1&{both}")
        assert ([job["name"] for job in first["items"]], first["next_cursor"]) == (["bill-a"], None)
        assert (await world.post(f"/jobs/actions?{both}", {"action": "pause"}))["matched"] == 1
        assert (await world.call("GET", f"{V1}/jobs?" + "&".join(["tag=a"] * 21))).status == 400
        assert (await world.call("GET", f"{V1}/jobs?q=a&q=b")).status == 400

    in_world(case)


def test_a_selection_that_would_read_too_many_pages_is_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job_selection, "_MAX_PAGES", 1)
    monkeypatch.setattr(job_selection, "_PAGE", 2)

    async def case(world: World) -> None:
        await some_jobs(world)
        pause = {"action": "pause"}
        refused = await world.post("/jobs/actions?tag=stage&tag=team=data", pause, status=400)
        assert "rarest tag first" in refused["detail"]
        assert (await world.post("/jobs/actions?tag=team=data&tag=stage", pause))["done"] == 1

    in_world(case)


def test_many_jobs_can_be_triggered() -> None:
    async def case(world: World) -> None:
        await some_jobs(world)
        key = {"Idempotency-Key": "once"}
        body = {"action": "trigger", "payload": {"day": 1}, "reason": "asked for"}
        triggered = await world.post("/jobs/actions?prefix=bill", body, headers=key)
        ids = [one["execution_id"] for one in triggered["results"]]
        assert triggered["done"] == len(set(ids)) == 2
        again = await world.post("/jobs/actions?prefix=bill", body, headers=key)
        assert [one["execution_id"] for one in again["results"]] == ids
        assert (again["done"], again["unchanged"]) == (0, 2)
        one = await world.post("/jobs/bill-a/trigger", body | {"action": None}, status=422)
        assert one["code"] == "invalid"
        same = await world.post("/jobs/bill-a/trigger", {"payload": {"day": 1}}, status=202, headers=key)
        assert same["execution_id"] == ids[0]
        found = await world.get(f"/executions/{ids[1]}")
        assert found["payload"] == {"day": 1}
        would = await world.post("/jobs/actions?prefix=bill&dry_run=true", {"action": "trigger"})
        assert (would["done"], len((await world.get("/executions"))["items"])) == (2, 2)

    in_world(case)


def test_triggers_beyond_the_queue_limit_fail() -> None:
    async def case(world: World) -> None:
        await some_jobs(world)
        triggered = await world.post("/jobs/actions", {"action": "trigger", "all": True})
        assert (triggered["done"], triggered["failed"]) == (2, 1)
        [failed] = [one for one in triggered["results"] if one["result"] == "failed"]
        assert (failed["code"], failed["status"]) == ("queue_full", 429)

    in_world(case, max_pending=2)


def test_failures_are_reported_per_job() -> None:
    async def case(world: World) -> None:
        await some_jobs(world)
        await world.post("/jobs/bill-b/disable")
        paused = await world.post("/jobs/actions", {"action": "pause", "all": True})
        assert (paused["matched"], paused["done"], paused["failed"]) == (3, 2, 1)
        [failed] = [one for one in paused["results"] if one["result"] == "failed"]
        assert (failed["name"], failed["code"], failed["status"]) == ("bill-b", "conflict", 409)
        assert "enable it first" in failed["message"]

    in_world(case)


def test_deleting_many_jobs_checks_the_expected_count() -> None:
    async def case(world: World) -> None:
        await some_jobs(world)
        await world.create("actions")
        assert (await world.get("/jobs/actions"))["name"] == "actions"
        stale = await world.call("POST", f"{ACTIONS}?prefix=bill", {"action": "delete", "expect": 3})
        assert (stale.status, stale.code) == (409, "conflict")
        assert len(await states(world)) == 4
        gone = await world.post("/jobs/actions?prefix=bill", {"action": "delete", "expect": 2})
        assert gone["done"] == 2
        assert sorted(await states(world)) == ["actions", "data-a"]
        lines = [line["subject"] for line in (await world.get("/audit"))["items"] if line["action"] == "delete"]
        assert sorted(lines) == ["bill-a", "bill-b"]
        none = await world.post("/jobs/actions?prefix=bill", {"action": "delete"})
        assert (none["matched"], none["results"]) == (0, [])

    in_world(case)


def test_a_job_that_changed_after_its_selection_fails_with_conflict() -> None:
    """A changed job may no longer match the selection."""

    async def case(world: World) -> None:
        await some_jobs(world)
        page = await world.service.jobs.list(JobFilter(namespace="default"))
        await world.call("PATCH", f"{V1}/jobs/bill-b", {"tags": {"team": "other"}})
        acted = await world.service.bulk_actions.act(Action.DELETE, page.items, actor=Actor(name="x"))
        assert [one.job.name for one in acted if one.error is not None] == ["bill-b"]
        assert list(await states(world)) == ["bill-b"]

    in_world(case)


@pytest.mark.parametrize(
    ("query", "body", "status", "pointer"),
    [
        ("", {"action": "pause"}, 422, "/all"),
        ("", {"action": "pause", "all": False}, 422, "/all"),
        ("?namespace=default", {"action": "pause"}, 422, "/all"),
        ("?q=&tag=&prefix=", {"action": "delete"}, 422, "/all"),
        ("?q=a", {"action": "pause", "all": True}, 422, "/all"),
        ("?q=a", {"action": "explode"}, 422, "/action"),
        ("?q=a", {}, 422, "/action"),
        ("?q=a", {"action": "resume", "reason": "x"}, 422, "/reason"),
        ("?q=a", {"action": "pause", "payload": 1}, 422, "/payload"),
        ("?q=a", {"action": "pause", "reason": "x" * 1001}, 422, "/reason"),
        ("?q=a", {"action": "pause", "expect": -1}, 422, "/expect"),
        ("?q=a", {"action": "pause", "filter": {}}, 422, "/filter"),
        ("?state=odd", {"action": "pause"}, 400, None),
        ("?label=a", {"action": "pause"}, 400, None),
    ],
)
def test_invalid_actions_are_rejected(query: str, body: Any, status: int, pointer: str | None) -> None:
    async def case(world: World) -> None:
        await world.create("a")
        reply = await world.call("POST", ACTIONS + query, body)
        assert reply.status == status, reply.body
        assert (None if status == 400 else reply.json["errors"][0]["pointer"]) == pointer
        assert await states(world) == {"a": "active"}

    in_world(case)


def test_too_many_matching_jobs_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("chronos.api.handlers.bulk_actions.MAX_JOBS", 2)

    async def case(world: World) -> None:
        await some_jobs(world)
        reply = await world.call("POST", ACTIONS, {"action": "pause", "all": True})
        assert (reply.status, reply.code) == (422, "invalid")
        assert "more than 2 jobs" in reply.json["detail"]
        assert set((await states(world)).values()) == {"active"}
        assert (await world.post("/jobs/actions?prefix=bill", {"action": "pause"}))["done"] == 2

    in_world(case)


def test_actions_need_the_permission_in_the_namespace() -> None:
    async def case(world: World) -> None:
        for namespace in ("here", "default"):
            await world.post(f"/jobs?namespace={namespace}", shape("job"), status=201, user="ada")
        everything = {"action": "pause", "all": True}
        for user_name, query, body, status in (
            ("otto-here", "", everything, 404),
            ("otto-here", "?namespace=*", everything, 403),
            ("otto-here", "?namespace=here", {"action": "delete", "all": True}, 403),
            ("vera", "?namespace=here", everything, 403),
            ("otto-here", "?namespace=here", everything, 200),
            ("ada-here", "?namespace=here", {"action": "delete", "all": True}, 200),
            ("ada", "?namespace=*", everything, 200),
        ):
            reply = await world.call("POST", ACTIONS + query, body, user=user_name)
            assert reply.status == status, (user_name, query, reply.body)
        left = await world.get("/jobs?namespace=*", user="ada")
        assert [(job["namespace"], job["state"]) for job in left["items"]] == [("default", "paused")]
        lines = (await world.get("/audit", user="ada"))["items"]
        assert {line["actor"] for line in lines if line["namespace"] == "here"} == {"ada", "otto-here", "ada-here"}

    in_world(case, users=USERS)


@pytest.mark.parametrize("action", ["pause", "trigger", "delete"])
def test_many_jobs_take_few_transactions(action: str) -> None:
    async def case(world: World) -> None:
        await world.post("/jobs/bulk", {"jobs": [shape(f"job-{number:04}") for number in range(1_000)]})
        sizes: list[int] = []
        world.store.on_commit(lambda rows, _: sizes.append(rows))
        async with asyncio.timeout(60):
            done = await world.post("/jobs/actions?prefix=job-", {"action": action})
        assert done["done"] == 1_000
        assert len(sizes) <= 4
        lines = await world.store.audit(namespace=None, limit=2_000)
        assert len({line.subject for line in lines.items if line.action == action}) == 1_000
        assert await world.store.verify() == []

    in_world(case)
