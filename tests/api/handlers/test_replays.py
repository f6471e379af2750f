"""Failed executions over HTTP: lists of them, replays and dead letters."""

from typing import Any

from tests.support.api_server import V1, World, in_world

FAILS = {"command": {"argv": ["false"]}, "retry": {"max_attempts": 1}, "schedule": "manual"}


def test_executions_that_timed_out_are_listed() -> None:
    async def case(world: World) -> None:
        sleeps: dict[str, Any] = {"command": {"argv": ["sleep", "600"]}, "retry": {"max_attempts": 1}}
        await world.create("task", schedule="manual", timeout="50ms", **sleeps)
        await world.create("whole", schedule="manual", execution_timeout="50ms", **sleeps)
        await world.create("fails", **FAILS)
        ids = []
        for name in ("task", "whole", "fails"):
            ids.append((await world.post(f"/jobs/{name}/trigger", status=202))["execution_id"])
            await world.ended(ids[-1])
        listed = await world.get("/executions?status=timed_out")
        assert [one["id"] for one in listed["items"]] == [ids[1], ids[0]]
        first = await world.get("/executions?status=timed_out&limit=1")
        rest = await world.get(f"/executions?status=timed_out&limit=1&cursor={first['next_cursor']}")
        assert [one["id"] for page in (first, rest) for one in page["items"]] == [ids[1], ids[0]]
        assert (await world.get("/jobs/fails/executions?status=timed_out"))["items"] == []

    in_world(case, runs=True)


def test_chosen_tasks_are_replayed() -> None:
    async def case(world: World) -> None:
        tasks = [{"name": name, "command": {"argv": ["true"]}} for name in ("load", "publish")]
        await world.create("steps", schedule="manual", tasks=tasks)
        first = await world.post("/jobs/steps/trigger", status=202)
        path = f"/executions/{first['execution_id']}/replay"
        await world.ended(first["execution_id"])
        again = await world.post(path, {"tasks": ["publish"]}, status=202)
        ended = await world.ended(again["execution_id"])
        assert [(task["name"], len(task["attempts"])) for task in ended["tasks"]] == [("load", 0), ("publish", 1)]
        assert (await world.post(f"{path}?dry_run=true", {"tasks": "load"}))["dry_run"] is True
        wrongs: list[dict[str, Any]] = [{"tasks": ["publis"]}, {"tasks": []}, {"tasks": [1]}]
        for wrong in [*wrongs, {"tasks": ["load"], "from_failed": True}]:
            for query in ("", "?dry_run=true"):
                assert (await world.call("POST", f"{V1}{path}{query}", wrong)).status == 422, wrong

    in_world(case, runs=True)


def test_dead_letters_and_replay() -> None:
    async def case(world: World) -> None:
        await world.create("fails", **FAILS)
        first = await world.post("/jobs/fails/trigger", status=202)
        await world.ended(first["execution_id"])
        [letter] = (await world.get("/dead-letters"))["items"]
        assert (letter["id"], letter["job_name"]) == (first["execution_id"], "fails")
        assert (await world.get("/dead-letters?namespace=default"))["items"] == [letter]
        assert (await world.post(f"/dead-letters/{letter['id']}/replay?dry_run=true"))["dry_run"] is True
        again = await world.post(f"/dead-letters/{letter['id']}/replay", {"reason": "fixed"}, status=202)
        assert again["replay_of"] == letter["id"]
        second = await world.ended(again["execution_id"])
        assert (second["trigger"], second["replay_of"]) == ("replay", letter["id"])
        [letter] = (await world.get("/dead-letters"))["items"]
        third = await world.post(f"/executions/{letter['id']}/replay", {"from_failed": True}, status=202)
        await world.ended(third["execution_id"])
        for letter in (await world.get("/dead-letters"))["items"]:
            path = f"{V1}/dead-letters/{letter['id']}"
            assert (await world.call("DELETE", f"{path}?dry_run=true")).json == {"dry_run": True, "id": letter["id"]}
            assert (await world.call("DELETE", path)).status == 204
            assert (await world.call("DELETE", path)).status == 404
            assert (await world.call("DELETE", f"{path}?dry_run=true")).status == 404
            for query in ("", "?dry_run=true"):
                refused = await world.call("POST", f"{path}/replay{query}")
                assert (refused.status, refused.json["code"]) == (404, "not_found")
                assert "is not a dead letter" in refused.json["detail"]
            line = (await world.get("/audit?limit=1"))["items"][0]
            assert (line["action"], line["detail"]) == ("discard dead letters", letter["id"].replace("-", ""))
        assert (await world.get("/dead-letters"))["items"] == []

    in_world(case, runs=True)
