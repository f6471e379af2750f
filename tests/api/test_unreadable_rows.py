"""A stored job that this release cannot read, as the API shows it."""

from chronos.testing import StoreProbe
from tests.support.api_server import V1, World, in_world, shape


def spoil(w: World, name: str) -> None:
    """Corrupt the stored definition of a job."""
    StoreProbe(w.store).execute("update job set spec = '{\"schedule\": 5}' where name = ?", name)


def test_an_unreadable_job_is_listed_with_its_error() -> None:
    async def case(w: World) -> None:
        await w.create("good")
        await w.create("bad", tags={"team": "a"})
        spoil(w, "bad")
        bad, good = (await w.get("/jobs"))["items"]
        assert (bad["name"], bad["state"], bad["tasks"], bad["next_run_at"]) == ("bad", "active", [], None)
        assert bad["error"].startswith("its definition cannot be read (")
        assert "error" not in good
        assert await w.get("/jobs/bad") == bad
        assert (await w.get("/jobs?tag=team:a"))["items"] == [bad]
        [version] = (await w.get("/jobs/bad/versions"))["items"]
        assert version["spec"] == {"tasks": [], "error": bad["error"]}
        assert bad["error"] in (await w.get("/jobs/bad/why"))["steps"][-1]["sentence"]
        assert bad["error"] in (await w.get("/jobs/bad/why?at=2030-01-01T00:00:00Z"))["steps"][0]["sentence"]

    in_world(case)


def test_requests_that_need_an_unreadable_definition_are_rejected() -> None:
    async def case(w: World) -> None:
        await w.create("bad")
        await w.call("PATCH", f"{V1}/jobs/bad", {"description": "once more"})
        spoil(w, "bad")
        for method, path, body in (
            ("POST", "/jobs/bad/trigger", {}),
            ("PATCH", "/jobs/bad", {"description": "another one"}),
            ("PATCH", "/jobs/bad", shape("bad")),
            ("GET", "/jobs/bad/next", None),
            ("GET", "/jobs/bad/diff", None),
            ("POST", "/jobs/bad/rollback", {"version": 2}),
            ("PUT", "/jobs/bad", await w.get("/jobs/bad")),
        ):
            reply = await w.call(method, V1 + path, body)
            assert reply.status == 422, (path, reply.body)
            assert path.endswith("bad") or "cannot be read" in reply.json["detail"]
        assert (await w.get("/executions"))["items"] == []

    in_world(case)


def test_an_unreadable_job_can_be_paused_replaced_rolled_back_and_deleted() -> None:
    async def case(w: World) -> None:
        first = await w.create("bad", description="one", payload={"n": 1})
        spoil(w, "bad")
        assert (await w.post("/jobs/bad/pause"))["state"] == "paused"
        assert (await w.call("POST", f"{V1}/jobs/bad/resume")).status == 422
        put = await w.call("PUT", f"{V1}/jobs/bad", shape("bad", description="two"))
        assert (put.status, put.json["id"], put.json["version"]) == (200, first["id"], 2)
        assert put.json["state"] == "paused"
        assert (await w.post("/jobs/bad/resume"))["next_run_at"] is not None

        await w.call("PUT", f"{V1}/jobs/bad", shape("bad", description="three"))
        spoil(w, "bad")
        back = await w.post("/jobs/bad/rollback", {"version": 2})
        assert (back["version"], back["description"]) == (4, "two")
        assert [("error" in one["spec"]) for one in (await w.get("/jobs/bad/versions"))["items"]] == [
            *(False, True, False, True),
        ]
        spoil(w, "bad")
        assert (await w.call("DELETE", f"{V1}/jobs/bad")).status == 200
        assert (await w.get("/jobs"))["items"] == []
        assert await w.store.verify() == []

    in_world(case)


def test_an_unreadable_job_can_be_replaced_by_one_without_a_schedule() -> None:
    """The new job keeps nothing of the unreadable schedule."""

    async def case(w: World) -> None:
        await w.create("bad")
        spoil(w, "bad")
        put = await w.call("PUT", f"{V1}/jobs/bad", shape("bad", schedule="manual"))
        assert (put.status, put.json["next_run_at"]) == (200, None)
        assert await w.store.next_due_us() is None

    in_world(case)
