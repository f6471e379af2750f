"""Schedules over HTTP: unions, and warnings in previews and when saving."""

from tests.support.api_server import V1, World, in_world, shape

QUARTZ = "0 0 12 ? * 2-6"
STEP = {
    "kind": "step_beyond_field",
    "message": 'minute "*/90" has a step beyond its range, so it is only 0; for an interval, write "@every 90m"',
}


def test_a_list_of_expressions_is_a_union() -> None:
    async def case(world: World) -> None:
        created = await world.call("POST", f"{V1}/jobs", shape("digest", schedule=["0 9 * * *", "@every 5h"]))
        assert created.status == 201
        job = created.json
        assert job["schedule"] == ["0 9 * * *", "@every 5h"]
        assert job["start"] == job["created_at"]  # the interval counts from there
        assert "warnings" not in job
        again = await world.call("PUT", f"{V1}/jobs/digest", job)
        assert (again.status, again.json["version"]) == (200, 1)
        changed = await world.call("PATCH", f"{V1}/jobs/digest", {"schedule": ["0 9 * * *", "0 10 * * *"]})
        assert changed.json["version"] == 2
        assert changed.json["diff"]["added"]["count"] > 0
        assert changed.json["diff"]["kept"]["count"] > 0
        wrong = await world.call("PATCH", f"{V1}/jobs/digest", {"schedule": ["0 9 * * *", "0 25 * * *"]})
        assert wrong.status == 422
        assert [error["pointer"] for error in wrong.json["errors"]] == ["/schedule/1"]
        assert (await world.get("/jobs/digest"))["version"] == 2

    in_world(case)


def test_saving_warns() -> None:
    async def case(world: World) -> None:
        created = await world.call("POST", f"{V1}/jobs", shape("digest", schedule="*/90 * * * *"))
        assert created.json["warnings"] == [STEP]
        assert "warnings" not in await world.get("/jobs/digest")
        put = await world.call("PUT", f"{V1}/jobs/digest", created.json | {"schedule": QUARTZ})
        assert [warning["kind"] for warning in put.json["warnings"]] == ["quartz_weekdays"]
        patched = await world.call("PATCH", f"{V1}/jobs/digest", {"end": "2001-01-01 09:00"})
        assert [warning["kind"] for warning in patched.json["warnings"]] == ["quartz_weekdays", "ended"]
        dry = await world.call("POST", f"{V1}/jobs?dry_run=true", shape("other", schedule="*/90 * * * *"))
        assert dry.json["warnings"] == [STEP]
        bulk = await world.post("/jobs/bulk", {"jobs": [shape("a", schedule="*/90 * * * *"), shape("b")]})
        assert [one.get("warnings") for one in bulk["results"]] == [[STEP], None]
        plan = await world.post("/apply", {"owner": "me", "jobs": [shape("c", schedule=["*/90 * * * *", "@daily"])]})
        assert plan["created"][0]["warnings"] == [STEP]

    in_world(case)


def test_a_preview_warns() -> None:
    async def case(world: World) -> None:
        body = {"schedule": ["*/90 * * * *", "30 2 * * *"], "timezone": "Europe/Paris", "count": 2}
        answer = await world.post("/schedule/preview", body)
        assert answer["words"] == "Every hour, Europe/Paris; also daily at 02:30, Europe/Paris"
        assert answer["warnings"][0] == STEP
        assert {warning["kind"] for warning in answer["warnings"][1:]} == {"moved", "once"}
        quartz = await world.post("/schedule/preview", {"schedule": {"cron": QUARTZ, "dialect": "quartz"}})
        assert (quartz["words"], quartz["warnings"]) == ("Weekdays at 12:00, UTC", [])

    in_world(case)
