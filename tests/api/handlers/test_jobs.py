"""Jobs over HTTP: every route for definitions."""

import asyncio
from typing import Any

from chronos.api import ApiOptions
from tests.support.api_server import V1, World, in_world, shape


def test_a_job_can_be_created_read_listed_and_deleted() -> None:
    async def case(world: World) -> None:
        reply = await world.call("POST", f"{V1}/jobs", shape("digest", tags={"team": "data"}))
        assert (reply.status, reply.headers["ETag"]) == (201, '"1"')
        job = reply.json
        assert (job["name"], job["version"], job["state"], job["last_execution"]) == ("digest", 1, "active", None)
        again = await world.call("POST", f"{V1}/jobs", shape("digest"))
        assert (again.status, again.code) == (409, "conflict")
        for ref in ("digest", job["id"], job["id"].replace("-", "")):
            assert (await world.get(f"/jobs/{ref}"))["id"] == job["id"]
        await world.create("backup")
        listed = await world.get("/jobs")
        assert [one["name"] for one in listed["items"]] == ["backup", "digest"]
        assert listed["items"][0]["last_execution"] is None
        assert [one["name"] for one in (await world.get("/jobs?tag=team=data"))["items"]] == ["digest"]
        assert [one["name"] for one in (await world.get("/jobs?q=ack&state=active"))["items"]] == ["backup"]
        gone = await world.call("DELETE", f"{V1}/jobs/digest")
        assert (gone.status, gone.json["name"]) == (200, "digest")
        missing = await world.call("GET", f"{V1}/jobs/digest")
        assert (missing.status, missing.code) == (404, "not_found")

    in_world(case)


def test_lists_are_paged() -> None:
    async def case(world: World) -> None:
        await world.post("/jobs/bulk", {"jobs": [shape(f"job-{n}") for n in range(5)]})
        seen, cursor = [], ""
        while True:
            page = await world.get(f"/jobs?limit=2{cursor}")
            seen += [job["name"] for job in page["items"]]
            if page["next_cursor"] is None:
                break
            cursor = f"&cursor={page['next_cursor']}"
        assert seen == [f"job-{n}" for n in range(5)]

    in_world(case)


def test_put_creates_and_replaces_and_honours_if_match() -> None:
    async def case(world: World) -> None:
        body = shape("digest")
        del body["name"]  # the path has the name
        created = await world.call("PUT", f"{V1}/jobs/digest", body)
        assert (created.status, created.headers["ETag"]) == (201, '"1"')
        body["description"] = "two"
        changed = await world.call("PUT", f"{V1}/jobs/digest", body, headers={"If-Match": '"1"'})
        assert (changed.status, changed.headers["ETag"]) == (200, '"2"')
        stale = await world.call("PUT", f"{V1}/jobs/digest", body, headers={"If-Match": '"1"'})
        assert (stale.status, stale.code) == (412, "stale")
        assert stale.json["detail"] == "digest changed since you read it (you have v1, it is v2, by anonymous)"
        for tag in ("2", "*", '"1", "2"', 'W/"2"'):
            same = await world.call("PUT", f"{V1}/jobs/digest", body, headers={"If-Match": tag})
            assert (same.status, same.headers["ETag"]) == (200, '"2"')
        other = await world.call("PUT", f"{V1}/jobs/digest", body | {"name": "else"})
        assert (other.status, other.json["errors"][0]["pointer"]) == (422, "/name")
        refused_put = await world.call("PUT", f"{V1}/jobs/digest", body, headers={"If-None-Match": "*"})
        assert refused_put.status == 412
        nowhere = await world.call("PUT", f"{V1}/jobs/new", body, headers={"If-Match": '"1"'})
        assert nowhere.status == 412
        odd = await world.call("PUT", f"{V1}/jobs/digest", body, headers={"If-Match": "seven"})
        assert (odd.status, odd.code) == (400, "malformed")

    in_world(case)


def test_a_repeated_change_with_an_idempotency_key_is_not_a_conflict() -> None:
    async def case(world: World) -> None:
        await world.create("digest")
        body = shape("digest", description="two")
        sent = {"If-Match": '"1"', "Idempotency-Key": "k"}
        for _ in range(2):
            put = await world.call("PUT", f"{V1}/jobs/digest", body, headers=sent)
            assert (put.status, put.headers["ETag"], put.json["description"]) == (200, '"2"', "two")
        for _ in range(2):
            patched = await world.call(
                "PATCH", f"{V1}/jobs/digest", {"owner": "me"}, headers=sent | {"If-Match": '"2"'}
            )
            assert (patched.status, patched.headers["ETag"]) == (200, '"3"')
        for _ in range(2):
            off = await world.call("PUT", f"{V1}/jobs/digest", body | {"version": 3}, headers={"Idempotency-Key": "k"})
            assert (off.status, off.headers["ETag"]) == (200, '"4"')
        other = await world.call("PUT", f"{V1}/jobs/digest", body | {"description": "three"}, headers=sent)
        assert (other.status, other.code) == (412, "stale")
        switched = await world.call("PUT", f"{V1}/jobs/digest", body | {"enabled": False}, headers=sent)
        assert (switched.status, switched.code) == (412, "stale")
        keyless = await world.call("PUT", f"{V1}/jobs/digest", body, headers={"If-Match": '"1"'})
        assert (keyless.status, keyless.code) == (412, "stale")

    in_world(case)


def test_read_only_fields_may_be_sent_back_but_not_contradicted() -> None:
    async def case(world: World) -> None:
        await world.create("digest")
        await world.create("other")
        path = f"{V1}/jobs/digest"
        for state in ("", "pause", "disable", "enable"):
            if state:
                await world.post(f"/jobs/digest/{state}", {"reason": "why not"} if state != "enable" else None)
            shown = await world.get("/jobs/digest")
            same = await world.call("PUT", path, shown)
            assert (same.status, same.json["version"], same.json["state"]) == (200, 1, shown["state"])
        shown = await world.get("/jobs/digest")
        lies: dict[str, Any] = {
            "state": "paused",
            "id": (await world.get("/jobs/other"))["id"],
            "next_run_at": "2099-01-01T00:00:00Z",
            "created_at": "2020-01-01T00:00:00Z",
            "paused_at": "2020-01-01T00:00:00Z",
            "note": "moved",
        }
        for name, lie in [*lies.items(), ("state", 5), ("id", "x"), ("id", []), ("next_run_at", 7), ("note", {})]:
            for method, body in (("PUT", shown | {name: lie}), ("PATCH", {name: lie})):
                refused = await world.call(method, path, body)
                assert (refused.status, [one["pointer"] for one in refused.json["errors"]]) == (422, [f"/{name}"])
        for method, body in (("PUT", shown | {"version": 999}), ("PATCH", {"version": 999})):
            stale = await world.call(method, path, body)
            assert (stale.status, stale.code) == (409, "conflict")
            assert "you have version 999, the current one is 1" in stale.json["detail"]
        odd = await world.call("PUT", path, shown | {"version": "1"})
        assert (odd.status, odd.json["errors"][0]["pointer"]) == (422, "/version")
        for name in ("id", "version", "state", "created_at"):
            assert (await world.call("PATCH", path, {name: None})).status == 422
        past = await world.call("PUT", path, shown | {"next_run_at": "2020-01-01T00:00:00Z", "last_execution": None})
        assert past.status == 200  # the job has run since
        off = await world.call("PUT", path, shown | {"enabled": False})
        assert (off.status, off.json["state"]) == (200, "disabled")
        assert (await world.call("PATCH", path, {"enabled": True, "state": "active"})).json["state"] == "active"
        assert (await world.get("/jobs/digest"))["version"] == 1

    in_world(case)


def test_a_new_job_with_a_contradicting_state_is_rejected() -> None:
    async def case(world: World) -> None:
        gone = await world.create("gone")
        for state in ("paused", "disabled", 5):
            for method, path in (("POST", "/jobs"), ("PUT", "/jobs/new")):
                refused = await world.call(method, f"{V1}{path}", shape("new", state=state))
                assert (refused.status, [one["pointer"] for one in refused.json["errors"]]) == (422, ["/state"])
        assert (await world.call("PUT", f"{V1}/jobs/new", shape("new", version=3))).status == 409
        many = await world.post("/jobs/bulk", {"jobs": [shape("new", state="paused"), shape("gone", state="active")]})
        assert (many["failed"], many["unchanged"]) == (1, 1)
        applied = await world.call("POST", f"{V1}/apply", {"owner": "me", "jobs": [shape("new", state="paused")]})
        assert (applied.status, applied.json["errors"][0]["pointer"]) == (422, "/jobs/0/state")
        assert (await world.call("GET", f"{V1}/jobs/new")).status == 404
        await world.create("new", state="disabled", enabled=False, version=1)
        copy = await world.call("POST", f"{V1}/jobs", gone | {"name": "copy", "version": 7})
        assert (copy.status, copy.json["version"]) == (201, 1)
        assert copy.json["id"] != gone["id"]

    in_world(case)


def test_every_change_honours_if_match() -> None:
    async def case(world: World) -> None:
        await world.create("digest")
        await world.call("PATCH", f"{V1}/jobs/digest", {"description": "two"})
        stale = {"If-Match": '"1"'}
        calls = [
            ("PATCH", "", {"description": "three"}),
            ("DELETE", "", None),
            ("POST", "/enable", None),
            ("POST", "/disable", None),
            ("POST", "/pause", None),
            ("POST", "/resume", None),
            ("POST", "/rollback", {"version": 1}),
        ]
        for method, path, body in calls:
            reply = await world.call(method, f"{V1}/jobs/digest{path}", body, headers=stale)
            assert (reply.status, reply.code) == (412, "stale"), (method, path)
        assert (await world.get("/jobs/digest"))["version"] == 2

    in_world(case)


def test_a_recreated_job_has_another_etag() -> None:
    async def case(world: World) -> None:
        await world.create("digest")
        await world.call("DELETE", f"{V1}/jobs/digest")
        await world.create("digest")
        reply = await world.call("GET", f"{V1}/jobs/digest")
        assert reply.headers["ETag"] == '"1-2"'
        stale = await world.call("DELETE", f"{V1}/jobs/digest", headers={"If-Match": '"1"'})
        assert stale.status == 412
        fresh = await world.call("DELETE", f"{V1}/jobs/digest", headers={"If-Match": '"1-2"'})
        assert fresh.status == 200

    in_world(case)


def test_a_merge_patch_changes_the_given_fields() -> None:
    async def case(world: World) -> None:
        await world.create("digest", description="one", tags={"a": "1", "b": "2"}, timezone="Europe/Paris")
        patch = {"schedule": "30 2 * * *", "description": None, "tags": {"a": None, "c": "3"}}
        typed = {"Content-Type": "application/merge-patch+json"}
        reply = await world.call("PATCH", f"{V1}/jobs/digest", patch, headers=typed)
        job = reply.json
        assert (reply.status, job["version"], job["schedule"]) == (200, 2, "30 2 * * *")
        assert (job["tags"], job["timezone"]) == ({"b": "2", "c": "3"}, "Europe/Paris")
        assert "description" not in job
        target = {"command": {"argv": ["false"]}}
        job = (await world.call("PATCH", f"{V1}/jobs/digest", target)).json
        assert job["tasks"] == [{"name": "main", "command": {"argv": ["false"]}}]
        wrong = await world.call("PATCH", f"{V1}/jobs/digest", {"schedule": "61 * * * *"})
        assert (wrong.status, wrong.json["errors"][0]["pointer"]) == (422, "/schedule")
        renamed = await world.call("PATCH", f"{V1}/jobs/digest", {"name": "else"})
        assert renamed.status == 422

    in_world(case)


def test_a_patch_with_unknown_fields_is_rejected() -> None:
    async def case(world: World) -> None:
        await world.create("digest", description="one")
        unknown = await world.call("PATCH", f"{V1}/jobs/digest", {"descripton": None})
        assert (unknown.status, unknown.json["errors"][0]["pointer"]) == (422, "/descripton")
        state = await world.call("PATCH", f"{V1}/jobs/digest", {"state": "paused"})
        assert (state.status, state.json["errors"][0]["pointer"]) == (422, "/state")
        assert "pause" in state.json["detail"]
        full_job = await world.get("/jobs/digest")  # a returned job may be sent back
        same = await world.call("PATCH", f"{V1}/jobs/digest", {**full_job, "description": None, "retry": None})
        assert (same.status, same.json["version"], "description" in same.json) == (200, 2, False)

    in_world(case)


def test_every_invalid_field_is_named() -> None:
    async def case(world: World) -> None:
        bad = {"name": "no spaces", "schedule": "0 25 * * *", "http": {"urll": "x"}, "colour": "red"}
        reply = await world.call("POST", f"{V1}/jobs", bad)
        assert (reply.status, reply.code) == (422, "invalid_job")
        pointers = {error["pointer"] for error in reply.json["errors"]}
        assert {"/name", "/schedule", "/colour"} <= pointers
        assert any(pointer.startswith("/http") for pointer in pointers)
        assert "allowed 0–23" in reply.json["detail"]

    in_world(case)


def test_the_state_of_a_job_can_be_changed() -> None:
    async def case(world: World) -> None:
        await world.create("digest")
        paused = await world.post("/jobs/digest/pause", {"reason": "moving house"})
        assert (paused["state"], paused["note"], paused["held"]) == ("paused", "moving house", True)
        runs = await world.get("/jobs/digest/next?count=2")
        assert (runs["held"], runs["items"][0]) == (True, paused["next_run_at"])
        listed = (await world.get("/jobs"))["items"][0]
        assert (listed["held"], listed["next_run_at"]) == (True, paused["next_run_at"])
        sent_back = await world.call("PUT", f"{V1}/jobs/digest", paused)
        assert (sent_back.status, sent_back.json["version"]) == (200, paused["version"])
        resumed = await world.post("/jobs/digest/resume")
        assert (resumed["state"], resumed["next_run_at"]) == ("active", paused["next_run_at"])
        assert "held" not in resumed
        assert (await world.post("/jobs/digest/disable"))["enabled"] is False
        cannot = await world.call("POST", f"{V1}/jobs/digest/pause")
        assert (cannot.status, cannot.code) == (409, "conflict")
        assert (await world.post("/jobs/digest/enable"))["state"] == "active"
        dry = await world.post("/jobs/digest/pause?dry_run=true")
        assert dry["state"] == "paused"
        assert (await world.get("/jobs/digest"))["state"] == "active"
        unknown = await world.call("POST", f"{V1}/jobs/digest/pause", {"reson": "x"})
        assert (unknown.status, unknown.json["errors"][0]["pointer"]) == (422, "/reson")

    in_world(case)


def test_concurrent_state_changes_all_get_a_response() -> None:
    async def case(world: World) -> None:
        await world.create("digest")
        await world.post("/jobs/digest/pause")
        replies = await asyncio.gather(*(world.post("/jobs/digest/resume") for _ in range(5)))
        assert [reply["state"] for reply in replies] == ["active"] * 5
        lines = (await world.get("/audit"))["items"]
        assert sorted(line["action"] for line in lines) == ["create", "pause", "resume"]

    in_world(case)


def test_versions_diff_and_rollback() -> None:
    async def case(world: World) -> None:
        await world.create("digest")
        await world.call("PATCH", f"{V1}/jobs/digest", {"schedule": "30 * * * *"})
        versions = await world.get("/jobs/digest/versions")
        assert [one["version"] for one in versions["items"]] == [2, 1]
        page = await world.get("/jobs/digest/versions?limit=1")
        assert page["next_cursor"] == "2"
        assert (await world.get("/jobs/digest/versions?limit=1&cursor=2"))["items"][0]["version"] == 1
        assert (await world.get("/jobs/digest/versions/1"))["spec"]["schedule"] == "0 * * * *"
        for number in ("9", "x"):
            assert (await world.call("GET", f"{V1}/jobs/digest/versions/{number}")).status == 404
        diff = await world.get("/jobs/digest/diff?from=1&to=2")
        assert diff["fields"] == [{"pointer": "/schedule", "old": "0 * * * *", "new": "30 * * * *"}]
        assert diff["runs"]["added"]["count"] > 0
        assert (await world.get("/jobs/digest/diff"))["fields"] == diff["fields"]
        dry = await world.post("/jobs/digest/rollback?dry_run=true", {"version": 1})
        assert (dry["result"], dry["version"]) == ("changed", 3)
        back = await world.post("/jobs/digest/rollback", {"version": 1})
        assert (back["version"], back["schedule"]) == (3, "0 * * * *")

    in_world(case)


def test_bulk_returns_a_result_per_job() -> None:
    async def case(world: World) -> None:
        await world.create("there")
        jobs = [shape("there"), shape("new"), shape("bad", schedule="never ever"), shape("there-too"), "what"]
        dry = await world.post("/jobs/bulk?dry_run=true", {"jobs": jobs})
        assert (dry["created"], dry["failed"]) == (2, 2)
        assert len((await world.get("/jobs"))["items"]) == 1
        answer = await world.post("/jobs/bulk", {"jobs": jobs})
        assert [one["result"] for one in answer["results"]] == ["unchanged", "created", "failed", "created", "failed"]
        assert answer["results"][2]["code"] == "invalid_job"
        assert answer["results"][2]["errors"][0]["pointer"] == "/schedule"
        follower = [{"name": "down", "command": {"argv": ["true"]}, "after": ["up"]}, shape("up")]
        for query in ("?dry_run=true", ""):
            assert (await world.post(f"/jobs/bulk{query}", {"jobs": follower}))["created"] == 2, query
        wrong = await world.call("POST", f"{V1}/jobs/bulk", {"job": []})
        assert (wrong.status, wrong.code) == (422, "invalid")

    in_world(case)


def test_apply_returns_a_plan_and_is_all_or_nothing() -> None:
    async def case(world: World) -> None:
        first = {"jobs": [shape("a"), shape("b")], "owner": "team"}
        dry = await world.post("/apply?dry_run=true", first)
        assert (len(dry["created"]), dry["dry_run"]) == (2, True)
        assert (await world.get("/jobs"))["items"] == []
        await world.post("/apply", first)
        await world.create("c")
        bad = await world.call("POST", f"{V1}/apply", {"jobs": [shape("d"), shape("e", schedule="x")], "owner": "team"})
        assert (bad.status, bad.json["errors"][0]["pointer"]) == (422, "/jobs/1/schedule")
        assert (await world.call("GET", f"{V1}/jobs/d")).status == 404
        second = {"jobs": [shape("a", schedule="30 * * * *")], "owner": "team", "prune": True}
        plan = await world.post("/apply", second)
        assert [one["name"] for one in plan["changed"]] == ["a"]
        assert plan["changed"][0]["diff"]["added"]["count"] > 0
        assert [one["name"] for one in plan["pruned"]] == ["b"]
        assert [one["name"] for one in (await world.get("/jobs"))["items"]] == ["a", "c"]
        switched = {"jobs": [shape("a", schedule="30 * * * *", enabled=False)], "owner": "team"}
        for query in ("?dry_run=true", ""):
            [off] = (await world.post(f"/apply{query}", switched))["changed"]
            assert (off["name"], off["result"], off["diff"]["cancelled"]["count"] > 0) == ("a", "changed", True), query
        assert (await world.get("/jobs/a"))["state"] == "disabled"
        assert [one["name"] for one in (await world.post("/apply", switched))["unchanged"]] == ["a"]
        nobody = await world.call("POST", f"{V1}/apply", {"jobs": []})
        assert (nobody.status, nobody.json["errors"][0]["pointer"]) == (422, "/owner")
        same, other = shape("f", owner="team"), shape("g", owner="zz")
        refused = await world.call("POST", f"{V1}/apply", {"owner": "team", "jobs": [same, other]})
        assert (refused.status, refused.json["errors"][0]["pointer"]) == (422, "/jobs/1/owner")
        plan = await world.post("/apply", {"owner": "team", "jobs": [same]})
        assert [one["name"] for one in plan["created"]] == ["f"]

    in_world(case)


def test_dry_runs_change_nothing() -> None:
    async def case(world: World) -> None:
        dry = await world.post("/jobs?dry_run=true", shape("digest"))
        assert (dry["result"], dry["dry_run"]) == ("created", True)
        await world.create("digest")
        put = await world.call("PUT", f"{V1}/jobs/digest?dry_run=true", shape("digest", schedule="5 * * * *"))
        assert put.json["diff"]["cancelled"]["count"] > 0
        patch = await world.call("PATCH", f"{V1}/jobs/digest?dry_run=true", {"description": "x"})
        assert (patch.json["result"], patch.json["version"]) == ("changed", 2)
        assert (await world.call("DELETE", f"{V1}/jobs/digest?dry_run=true")).status == 200
        assert (await world.get("/jobs/digest"))["version"] == 1

    in_world(case)


def test_creating_again_with_the_same_key_returns_the_job() -> None:
    async def case(world: World) -> None:
        key = {"Idempotency-Key": "abc"}
        body = shape("digest", schedule={"every": "10m"})
        first = await world.call("POST", f"{V1}/jobs", body, headers=key)
        second = await world.call("POST", f"{V1}/jobs", body, headers=key)
        assert (first.status, second.status) == (201, 201)
        assert first.json == second.json
        other = await world.call("POST", f"{V1}/jobs", body | {"description": "x"}, headers=key)
        assert other.status == 409
        for headers in ({"Idempotency-Key": "another"}, {}):
            taken = await world.call("POST", f"{V1}/jobs", body, headers=headers)
            assert (taken.status, taken.code) == (409, "conflict")
        await world.call("PATCH", f"{V1}/jobs/digest", {"description": "since"})
        changed = await world.call("POST", f"{V1}/jobs", body, headers=key)
        assert (changed.status, changed.json["version"], changed.json["description"]) == (201, 2, "since")
        assert changed.headers["ETag"] == '"2"'
        await world.call("DELETE", f"{V1}/jobs/digest")
        assert (await world.call("POST", f"{V1}/jobs", body, headers=key)).status == 404
        assert (await world.get("/jobs"))["items"] == []

    in_world(case)


def test_an_immediate_job_that_is_created_again_with_the_same_key_runs_once() -> None:
    async def case(world: World) -> None:
        body = {"name": "once", "command": {"argv": ["true"]}}
        for _ in range(2):
            await world.post("/jobs", body, status=201, headers={"Idempotency-Key": "k"})
        assert len((await world.get("/jobs/once/executions"))["items"]) == 1

    in_world(case)


def test_a_job_without_a_schedule_runs_once_and_is_done() -> None:
    async def case(world: World) -> None:
        for name, when in (("once", {}), ("at-once", {"schedule": "now"})):
            body = {"name": name, "command": {"argv": ["true"]}, **when}
            created = await world.post("/jobs", body, status=201)
            assert (created["state"], created["next_run_at"], "schedule" in created) == ("done", None, False)
            first = await world.ended(created["last_execution"]["id"])
            assert (first["status"], (await world.get(f"/jobs/{name}"))["state"]) == ("succeeded", "done")
            again = await world.post(f"/jobs/{name}/trigger", status=202)
            assert (await world.ended(again["execution_id"]))["status"] == "succeeded"
            job = await world.get(f"/jobs/{name}")
            sent = await world.call("PUT", f"{V1}/jobs/{name}", job)
            assert (sent.status, sent.json["version"], sent.json["state"]) == (200, 1, "done")
            changed = await world.call("PATCH", f"{V1}/jobs/{name}", {"description": "new"})
            assert (changed.json["version"], changed.json["state"]) == (2, "done")
            assert len((await world.get(f"/jobs/{name}/executions"))["items"]) == 2
        copy = await world.post("/jobs", {**job, "name": "copy"}, status=201)
        assert copy["state"] == "done"
        assert (await world.ended(copy["last_execution"]["id"]))["status"] == "succeeded"
        manual = await world.call("PATCH", f"{V1}/jobs/once", {"schedule": "manual"})
        assert (manual.json["state"], manual.json["schedule"]) == ("active", "manual")
        asked = {"name": "by-hand", "schedule": "manual", "command": {"argv": ["true"]}}
        assert (await world.post("/jobs", asked, status=201))["state"] == "active"
        assert (await world.get("/jobs/by-hand/executions"))["items"] == []

    in_world(case, runs=True)


def test_names_are_unique_per_namespace() -> None:
    async def case(world: World) -> None:
        await world.create("digest")
        in_billing = await world.call("POST", f"{V1}/jobs?namespace=billing", shape("digest", description="theirs"))
        assert (in_billing.status, in_billing.json["namespace"]) == (201, "billing")
        assert (await world.get("/jobs/digest?namespace=billing"))["description"] == "theirs"
        assert "description" not in await world.get("/jobs/digest")
        assert len((await world.get("/jobs?namespace=*"))["items"]) == 2
        assert [one["namespace"] for one in (await world.get("/jobs"))["items"]] == ["default"]
        assert await world.get("/namespaces") == {"items": [{"name": "billing"}, {"name": "default"}]}
        wrong = await world.call("PUT", f"{V1}/jobs/digest", shape("digest", namespace="billing"))
        assert (wrong.status, wrong.json["errors"][0]["pointer"]) == (422, "/namespace")

    in_world(case)


def test_the_guides_paths_return_its_names() -> None:
    async def case(world: World) -> None:
        body = {
            "name": "daily-report",
            "job_type": "REPORT_GENERATOR",
            "schedule_type": "RECURRING",
            "cron_expression": "0 9 * * *",
            "timezone": "America/New_York",
            "payload": {"report_type": "daily_summary"},
            "priority": 7,
            "max_retries": 3,
            "timeout_secs": 60,
        }
        created = await world.call("POST", "/api/jobs", body)
        assert (created.status, created.json["status"]) == (201, "ACTIVE")
        job = created.json["job_id"]
        shown = (await world.call("GET", f"/api/jobs/{job}")).json
        assert shown["next_run_time"] is not None
        assert shown["last_execution"] is None
        asked = await world.call("POST", f"/api/jobs/{job}/trigger")
        assert (asked.status, asked.json["status"]) == (202, "PENDING")
        [one] = (await world.call("GET", f"/api/jobs/{job}/executions?limit=10")).json["items"]
        assert (one["execution_id"], one["completed_at"]) == (asked.json["execution_id"], None)
        assert (await world.call("POST", f"/api/jobs/{job}/pause")).json["status"] == "PAUSED"
        assert (await world.call("POST", f"/api/jobs/{job}/resume")).json["status"] == "ACTIVE"
        assert (await world.call("GET", "/api/jobs")).json["items"][0]["job_id"] == job
        assert (await world.call("DELETE", f"/api/jobs/{job}")).status == 200

    in_world(case)


def test_a_base_path_prefixes_every_route() -> None:
    async def case(world: World) -> None:
        await world.create("digest")
        assert (await world.call("GET", "/healthz")).status == 200
        root = world.base.removesuffix("/chronos")
        async with world.client.get(f"{root}/healthz") as response:
            assert response.status == 404

    in_world(case, options=ApiOptions(base_path="/chronos"))
