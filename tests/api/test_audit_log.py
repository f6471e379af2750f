"""Entries of the audit log."""

from tests.support.api_server import SECRET, World, in_world, shape

USERS = {"ada": {"password_hash": SECRET, "role": "admin"}}


def test_a_rollback_is_audited_with_both_versions() -> None:
    async def case(world: World) -> None:
        await world.post("/jobs", shape("job"), status=201, user="ada")
        for minute in (10, 20):
            await world.call("PATCH", "/api/v1/jobs/job", {"schedule": f"{minute} * * * *"}, user="ada")
        await world.post("/jobs/job/rollback", {"version": 1}, user="ada")
        lines = (await world.get("/audit", user="ada"))["items"]
        assert [(line["action"], line["subject"], line["detail"]) for line in lines] == [
            ("rollback", "job", "version 3 to 4, as version 1"),
            ("update", "job", "version 3"),
            ("update", "job", "version 2"),
            ("create", "job", "version 1"),
        ]

    in_world(case, users=USERS)


def test_a_replay_is_audited_with_both_executions() -> None:
    async def case(world: World) -> None:
        await world.post("/jobs", shape("job"), status=201, user="ada")
        first = await world.post("/jobs/job/trigger", status=202, user="ada")
        await world.ended(first["execution_id"], user="ada")
        again = await world.post(f"/executions/{first['execution_id']}/replay", status=202, user="ada")
        old, new = (one["execution_id"].replace("-", "") for one in (first, again))
        lines = (await world.get("/audit", user="ada"))["items"]
        assert [(line["action"], line["detail"]) for line in lines[:2]] == [
            ("replay", f"{new} of {old}"),
            ("trigger", old),
        ]
        steps = (await world.get(f"/executions/{again['execution_id']}/why", user="ada"))["steps"]
        assert any("ada" in step["sentence"] for step in steps)

    in_world(case, users=USERS, runs=True)
