"""Details of responses: diffs of upcoming runs, the named field, the reason."""

from typing import Any

import pytest

from chronos.api import ApiOptions
from tests.support.api_server import V1, World, in_world, shape


def test_a_schedule_change_returns_the_diff_of_upcoming_runs() -> None:
    async def case(world: World) -> None:
        await world.create("digest", schedule="0 9 * * *")
        put = await world.call("PUT", f"{V1}/jobs/digest", shape("digest", schedule="0 9,10 * * *"))
        assert put.status == 200
        diff = put.json["diff"]
        assert diff["added"]["count"] == 30
        assert all(at.endswith("T10:00:00Z") for at in diff["added"]["first"])
        assert (diff["kept"]["count"], diff["canceled"]["count"]) == (30, 0)
        patched = await world.call("PATCH", f"{V1}/jobs/digest", {"schedule": "0 10 * * *"})
        assert patched.json["diff"]["cancelled"]["count"] == 30
        back = await world.call("POST", f"{V1}/jobs/digest/rollback", {"version": 1})
        assert (back.json["version"], back.json["diff"]["kept"]["count"]) == (4, 0)
        other = await world.call("PATCH", f"{V1}/jobs/digest", {"description": "daily"})
        assert "diff" not in other.json
        assert "diff" not in await world.get("/jobs/digest")
        # A response may be sent back unchanged while no other client has changed the job.
        last = await world.call("PUT", f"{V1}/jobs/digest", shape("digest", schedule="0 9 * * *"))
        assert (await world.call("PUT", f"{V1}/jobs/digest", last.json)).status == 200

    in_world(case)


@pytest.mark.parametrize(
    ("fields", "pointer"),
    [
        ({"execute_at": "2020-01-01T00:00:00Z"}, "/execute_at"),
        ({"schedule": {"at": "2020-01-01T00:00:00Z"}}, "/schedule/at"),
        ({"schedule": "2020-01-01T00:00:00Z"}, "/schedule"),
        ({"schedule_type": "RECURRING", "execute_at": "2099-01-01T00:00:00Z"}, "/schedule_type"),
    ],
)
def test_errors_name_the_field_as_the_client_wrote_it(fields: dict[str, Any], pointer: str) -> None:
    async def case(world: World) -> None:
        body = shape("job", **fields)
        if "schedule" not in fields:
            del body["schedule"]
        reply = await world.call("POST", f"{V1}/jobs", body)
        assert (reply.status, reply.code) == (422, "invalid_job")
        assert [one["pointer"] for one in reply.json["errors"]] == [pointer]

    in_world(case)


@pytest.mark.parametrize("fields", [{"schedule": {"cron": "@every 30m"}}, {"cron_expression": "@every 30m"}])
def test_the_cron_field_accepts_at_every(fields: dict[str, Any]) -> None:
    async def case(world: World) -> None:
        body = {"name": "job", "command": {"argv": ["true"]}, **fields}
        reply = await world.call("POST", f"{V1}/jobs", body)
        assert (reply.status, reply.json["schedule"]) == (201, "@every 30m")

    in_world(case)


def test_a_signal_for_a_finished_execution_is_a_conflict() -> None:
    async def case(world: World) -> None:
        await world.create("digest", schedule="manual")
        asked = await world.post("/jobs/digest/trigger", status=202)
        await world.ended(asked["execution_id"])
        late = await world.call("POST", f"{V1}/executions/{asked['execution_id']}/signal", {"name": "go"})
        assert (late.status, late.code) == (409, "conflict")
        assert "succeeded" in late.json["detail"]

    in_world(case, runs=True)


def test_lists_of_the_guide_have_its_names() -> None:
    async def case(world: World) -> None:
        await world.create("digest", schedule="manual")
        asked = await world.post("/jobs/digest/trigger", status=202)
        await world.ended(asked["execution_id"])
        [item] = (await world.call("GET", "/api/jobs")).json["items"]
        assert (item["job_id"], item["status"]) == (item["id"], "ACTIVE")
        assert item["last_execution"]["status"] == "SUCCESS"
        assert item["last_execution"]["execution_id"] == asked["execution_id"]
        assert (await world.call("GET", "/api/jobs/digest")).json["last_execution"]["completed_at"] is not None

    in_world(case, runs=True)


@pytest.mark.parametrize("base", ["", "/chronos"])
def test_a_trigger_returns_the_location_of_the_execution(base: str) -> None:
    async def case(world: World) -> None:
        root = world.base.removesuffix(base)
        await world.create("digest", schedule="manual", command={"argv": ["false"]}, max_retries=0)
        asked = await world.call("POST", f"{V1}/jobs/digest/trigger")
        first = asked.json["execution_id"]
        await world.ended(first)
        again = await world.call("POST", f"{V1}/executions/{first}/replay")
        dead = await world.call("POST", f"{V1}/dead-letters/{first}/replay")
        for reply in (asked, again, dead):
            async with world.client.get(root + reply.headers["Location"]) as response:
                assert (await response.json())["id"] == reply.json["execution_id"]

    in_world(case, runs=True, options=ApiOptions(base_path=base))


def test_streams_have_the_default_headers() -> None:
    async def case(world: World) -> None:
        async with world.client.get(f"{world.base}{V1}/events") as response:
            assert response.headers["Server"] == "chronos"
            assert response.headers["X-Content-Type-Options"] == "nosniff"
            assert response.headers["Content-Type"] == "text/event-stream"

    in_world(case)


def test_the_log_of_an_unknown_task_is_not_found() -> None:
    async def case(world: World) -> None:
        await world.create("digest", schedule="manual", command={"argv": ["echo", "hi"]})
        asked = await world.post("/jobs/digest/trigger", status=202)
        await world.ended(asked["execution_id"])
        log = f"{V1}/executions/{asked['execution_id']}/log"
        assert (await world.call("GET", f"{log}?task=main")).body == b"hi\n"
        for query in ("task=mian", "task=mian&follow=true"):
            none = await world.call("GET", f"{log}?{query}")
            assert (none.status, none.code) == (404, "not_found")
            assert none.json["detail"] == 'the execution has no task "mian"; its tasks: main'

    in_world(case, runs=True)


def test_a_preview_of_now_and_manual() -> None:
    async def case(world: World) -> None:
        now = await world.post("/schedule/preview", {"schedule": "now"})
        assert (now["words"], len(now["next"])) == ("Now, as soon as a slot is free", 1)
        manual = await world.post("/schedule/preview", {"schedule": "manual"})
        assert (manual["words"], manual["next"]) == ("Only when triggered", [])

    in_world(case)


@pytest.mark.parametrize(
    ("path", "body", "message"),
    [
        ("/jobs", shape(retry={"max_attempts": 0}), "is 0, allowed 1 to 1000000"),
        ("/jobs", shape(timeout_secs=0), "is 0, allowed 0.000001 to 3155760000"),
        ("/jobs/job/resume", {"reason": "x"}, "unknown field; no fields are allowed here"),
    ],
)
def test_bounds_in_messages_have_no_exponent(path: str, body: dict[str, Any], message: str) -> None:
    async def case(world: World) -> None:
        await world.create("job")
        reply = await world.call("POST", f"{V1}{path}", body)
        assert (reply.status, reply.json["errors"][0]["message"]) == (422, message)

    in_world(case)
