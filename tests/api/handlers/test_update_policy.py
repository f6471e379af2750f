"""The parameter ``update``: when the new schedule of one change takes over."""

from tests.support.api_server import V1, World, in_world


def test_the_update_policy_of_one_change() -> None:
    async def case(world: World) -> None:
        await world.create("digest", schedule="0 0 1 1 *")
        path = f"{V1}/jobs/digest"
        for method, change, url in (
            ("PATCH", {"schedule": "0 1 1 1 *"}, path),
            ("PUT", {"schedule": "0 1 1 1 *", "command": {"argv": ["true"]}}, path),
        ):
            for query, count in (("", 0), ("?update=graceful", 1), ("?update=windowed", 1), ("?update=immediate", 0)):
                saved = await world.call(method, f"{url}{query}{'&' if query else '?'}dry_run=true", change)
                first = saved.json["next_run_at"]
                assert first.endswith("-01-01T00:00:00Z" if count else "-01-01T01:00:00Z"), (method, query)
        saved = await world.call("PATCH", f"{path}?update=graceful", {"schedule": "0 1 1 1 *"})
        assert saved.json["next_run_at"].endswith("-01-01T00:00:00Z")
        assert "update" not in saved.json, "it is not a setting of the job"
        back = await world.call("POST", f"{path}/rollback?update=immediate", {"version": 1})
        assert back.json["version"] == 3
        plan = await world.call(
            "POST",
            f"{V1}/apply?update=graceful&dry_run=true",
            {"owner": "me", "jobs": [{"name": "digest", "schedule": "0 2 1 1 *", "command": {"argv": ["true"]}}]},
        )
        assert plan.json["changed"][0]["next_run_at"].endswith("-01-01T00:00:00Z")
        wrong = await world.call("PATCH", f"{path}?update=soon", {"priority": 3})
        assert (wrong.status, "immediate, graceful, windowed" in wrong.json["detail"]) == (400, True)

    in_world(case)
