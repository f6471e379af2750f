"""Overviews over REST: the same values as the views, as JSON, and clear answers to bad input."""

from tests.support.api_server import V1, World, in_world


def test_jobs_are_listed_with_what_they_do_now() -> None:
    async def case(world: World) -> None:
        for name in ("a", "b", "c"):
            await world.post(
                "/jobs", {"name": name, "schedule": "0 9 * * 1-5", "command": {"argv": ["true"]}}, status=201
            )
        page = await world.get("/jobs?detail=true&include=recent&status=no_runs_yet&limit=2")
        first = page["items"][0]
        assert [job["name"] for job in page["items"]] == ["a", "b"]
        assert (first["status"], first["recent"], first["p95_ms"]) == ("no_runs_yet", [], None)
        assert first["schedule_zone"] == "UTC"
        rest = await world.get(f"/jobs?status=no_runs_yet&limit=2&cursor={page['next_cursor']}")
        assert ([job["name"] for job in rest["items"]], rest["complete"]) == (["c"], True)
        back = await world.get(f"/jobs?status=no_runs_yet&limit=2&cursor={rest['previous_cursor']}")
        assert [job["name"] for job in back["items"]] == ["a", "b"]
        assert [job["name"] for job in (await world.get("/jobs?sort=next_run_at&zone=UTC"))["items"]] == ["a", "b", "c"]
        job = await world.get("/jobs/a?detail=true")
        assert (job["failing"], job["paused"], job["downstream"]) == (None, None, [])
        assert (await world.call("PUT", f"{V1}/jobs/a", job)).status == 200, "a job with details can be sent back"
        for query in ("status=bad", "sort=p95", "include=all", "next_before=soon", "sort=next_run_at&cursor=YWE"):
            assert (await world.call("GET", f"{V1}/jobs?{query}")).status == 400, query

    in_world(case)


def test_counts_facets_days_and_statistics() -> None:
    async def case(world: World) -> None:
        job = {"name": "a", "schedule": "0 9 * * *", "command": {"argv": ["true"]}, "tags": {"team": "x"}}
        await world.post("/jobs", job, status=201)
        counts = await world.get("/stats/jobs")
        assert (counts["total"], counts["by_status"]["failing"], counts["cap"]) == (1, 0, 10_000)
        assert (await world.get("/stats/facets"))["tags"] == [{"value": "team=x", "jobs": 1}]
        days = await world.get("/jobs/a/days?back=2&ahead=3")
        assert len(days["days"]) == 5
        assert [day["planned"] for day in days["days"]][-1] == 1
        stats = await world.get("/stats/runs?bucket=1h")
        assert (stats["complete"], stats["totals"], len(stats["buckets"]) in (24, 25)) == (True, {}, True)
        assert (await world.get("/stats/delays"))["series"] == []
        upcoming = await world.get("/jobs/a/next?detail=true&count=2")
        assert [run["offset"] for run in upcoming["items"]] == ["+00:00", "+00:00"]
        for path in (
            "/stats/runs?bucket=often",
            "/stats/runs?bucket=1ms",
            "/jobs/a/days?back=0",
            "/stats/delays?step=0",
        ):
            assert (await world.call("GET", f"{V1}{path}")).status in (400, 422), path

    in_world(case)


def test_runs_logs_and_explanations_in_detail() -> None:
    async def case(world: World) -> None:
        await world.post("/jobs", {"name": "a", "schedule": "manual", "command": {"argv": ["true"]}}, status=201)
        asked = await world.post("/jobs/a/trigger", {}, status=202)
        path = f"/executions/{asked['execution_id']}"
        run = await world.get(f"{path}?detail=true")
        assert (run["queue"], run["previous_execution_id"], run["tasks"][0]["needs"]) == ("default", None, [])
        steps = (await world.get(f"{path}/why?detail=true&timezone=Asia/Kathmandu"))["steps"]
        assert steps[0]["refs"][0]["kind"] == "version"
        assert (await world.get(f"{path}/log/lines?tail=5"))["lines"] == []
        listed = await world.get("/executions?status=ready,failed&trigger=manual&from=2000-01-01T00:00:00Z")
        assert [item["id"] for item in listed["items"]] == [asked["execution_id"]]
        assert (await world.get("/executions?status=not_run"))["items"] == []
        assert (await world.get("/executions?status=pending&status=failed"))["items"] == listed["items"]
        assert (await world.get("/queues?detail=true"))["items"][0]["queue"] == "default"
        assert (await world.get("/dead-letters/groups"))["items"] == []
        for query in ("status=odd", "trigger=odd", "from=x"):
            assert (await world.call("GET", f"{V1}/executions?{query}")).status == 400, query
        assert (await world.call("GET", f"{V1}/executions?node=nobody-here")).status == 404
        assert (await world.call("GET", f"{V1}{path}/why?timezone=Mars")).status == 400
        assert (await world.call("GET", f"{V1}{path}/log/lines?task=other")).status == 404
        assert (await world.call("GET", f"{V1}{path}/log/lines?tail=1&from_byte=2")).status == 422
        assert (await world.call("GET", f"{V1}/dead-letters/groups?by=age")).status == 400

    in_world(case)
