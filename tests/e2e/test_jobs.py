"""Jobs over HTTP, on a real server with each engine: every request that concerns jobs."""

from typing import Any

from tests.support.e2e_server import V1, Client, shape


def test_a_created_job_is_returned_completely(api: Client) -> None:
    reply = api.call("POST", f"{V1}/jobs", shape("whole", schedule="0 9 * * 1-5", timezone="Europe/Paris"))
    assert (reply.status, reply.headers["ETag"]) == (201, '"1"')
    job = reply.json
    assert (job["name"], job["namespace"], job["version"], job["state"]) == ("whole", "default", 1, "active")
    assert {"id", "next_run_at", "last_execution", "created_at", "updated_at"} <= job.keys()
    for ref in ("whole", job["id"]):
        found = api.call("GET", f"{V1}/jobs/{ref}")
        assert (found.json, found.headers["ETag"]) == (job, '"1"')
    again = api.call("POST", f"{V1}/jobs", shape("whole"))
    assert (again.status, again.code) == (409, "conflict")


def test_problems_name_the_field(api: Client) -> None:
    body = {"name": "no good", "schedule": "0 25 * * *", "comand": {"argv": ["true"]}}
    reply = api.call("POST", f"{V1}/jobs", body)
    assert (reply.status, reply.code) == (422, "invalid_job")
    assert {"/name", "/schedule", "/comand"} <= {error["pointer"] for error in reply.json["errors"]}
    assert (missing := api.call("GET", f"{V1}/jobs/nowhere")).status == 404
    assert missing.code == "not_found"


def test_lists_have_pages_and_filters(api: Client) -> None:
    space = "?namespace=paged"
    for number in range(5):
        tags = {"tags": {"team": "billing"}} if number % 2 else {}
        api.post(f"/jobs{space}", shape(f"page-{number}", enabled=number != 4, **tags), 201)
    names: list[str] = []
    cursor = ""
    while True:
        page = api.get(f"/jobs{space}&limit=2{cursor}")
        names += [job["name"] for job in page["items"]]
        if page["next_cursor"] is None:
            break
        cursor = f"&cursor={page['next_cursor']}"
    assert names == [f"page-{number}" for number in range(5)]

    def found(query: str) -> list[str]:
        return [job["name"] for job in api.get(f"/jobs{space}&{query}")["items"]]

    assert found("q=age-3") == ["page-3"]
    assert found("tag=team:billing") == found("tag=team") == ["page-1", "page-3"]
    assert found("state=disabled") == ["page-4"]
    assert found("q=nothing") == []
    assert {"name": "paged"} in api.get("/namespaces")["items"]


def test_bulk_creation_handles_each_job_on_its_own(api: Client) -> None:
    jobs: list[Any] = [shape(f"bulk-{number}") for number in range(50)]
    reply = api.post("/jobs/bulk", {"jobs": [*jobs, {"name": "bulk-bad"}]})
    assert (reply["created"], reply["failed"], len(reply["results"])) == (50, 1, 51)
    assert [one["result"] for one in reply["results"]] == ["created"] * 50 + ["failed"]
    jobs[7]["description"] = "another"
    again = api.post("/jobs/bulk", {"jobs": jobs})
    assert (again["unchanged"], again["changed"]) == (49, 1)
    assert again["results"][7]["version"] == 2


def test_apply_is_all_or_nothing(api: Client) -> None:
    space, owner = "?namespace=applied", {"owner": "e2e"}
    first = api.post(f"/apply{space}", owner | {"jobs": [shape("keep"), shape("drop")]})
    assert [job["name"] for job in first["created"]] == ["keep", "drop"]
    bad = api.call("POST", f"{V1}/apply{space}", owner | {"jobs": [shape("new"), shape("worse", schedule="soon")]})
    assert (bad.status, [error["pointer"] for error in bad.json["errors"]]) == (422, ["/jobs/1/schedule"])
    assert api.call("GET", f"{V1}/jobs/new{space}").status == 404
    wanted = owner | {"prune": True, "jobs": [shape("keep", schedule="0 0 * * *")]}
    dry = api.post(f"/apply{space}", wanted | {"dry_run": True})
    done = api.post(f"/apply{space}", wanted)
    for plan in (dry, done):
        assert ([job["name"] for job in plan["changed"]], [job["name"] for job in plan["pruned"]]) == (
            ["keep"],
            ["drop"],
        )
        assert plan["changed"][0]["diff"]["added"]["count"] > 0
    assert api.post(f"/apply{space}", wanted)["unchanged"][0]["name"] == "keep"
    assert [job["name"] for job in api.get(f"/jobs{space}")["items"]] == ["keep"]


def test_put_patch_and_delete_honour_if_match(api: Client) -> None:
    path = f"{V1}/jobs/edited"
    made = api.call("PUT", path, shape("edited"))
    assert (made.status, made.headers["ETag"]) == (201, '"1"')
    replaced = api.call("PUT", path, shape("edited", description="two"), If_Match='"1"')
    assert (replaced.status, replaced.headers["ETag"]) == (200, '"2"')
    for method, body in (("PUT", shape("edited")), ("PATCH", {"description": "no"}), ("DELETE", None)):
        stale = api.call(method, path, body, If_Match='"1"')
        assert (stale.status, stale.code) == (412, "stale")
        assert "it is v2, by ana" in stale.json["detail"]
    for verb in ("enable", "disable", "pause", "resume"):
        assert api.call("POST", f"{path}/{verb}", If_Match='"1"').status == 412
    assert api.call("POST", f"{path}/rollback", {"version": 1}, If_Match='"1"').status == 412
    patched = api.call("PATCH", path, {"priority": 7, "description": None}, If_Match='"2"')
    assert (patched.json["version"], patched.json["priority"]) == (3, 7)
    assert not patched.json.get("description")
    gone = api.call("DELETE", path, If_Match='"3"')
    assert (gone.status, gone.json["name"]) == (200, "edited")
    assert api.call("GET", path).status == 404
    born_again = api.call("PUT", path, shape("edited"))
    assert (born_again.status, born_again.headers["ETag"]) == (201, '"1-2"')
    assert api.call("DELETE", path, If_Match='"1"').status == 412


def test_pause_resume_disable_and_enable(api: Client) -> None:
    api.create("switched", schedule="0 * * * *")

    def switch(verb: str, body: Any = None) -> tuple[str, bool]:
        job = api.post(f"/jobs/switched/{verb}", body)
        return job["state"], job["next_run_at"] is not None

    assert switch("disable") == ("disabled", False)
    assert api.get("/jobs/switched/next")["items"] == []
    assert switch("enable") == ("active", True)
    assert switch("pause", {"reason": "the target moves"})[0] == "paused"
    assert api.get("/jobs?state=paused&q=switched")["items"][0]["name"] == "switched"
    assert switch("resume") == ("active", True)
    assert len(api.get("/jobs/switched/next?count=3")["items"]) == 3


def test_versions_are_listed_and_rolled_back(api: Client) -> None:
    api.create("versioned", schedule="0 9 * * *")
    api.call("PATCH", f"{V1}/jobs/versioned", {"schedule": "0 10 * * *"})
    assert [one["version"] for one in api.get("/jobs/versioned/versions")["items"]] == [2, 1]
    first = api.get("/jobs/versioned/versions/1")
    assert (first["author"], first["spec"]["schedule"]) == ("ana", "0 9 * * *")
    diff = api.get("/jobs/versioned/diff?from=1&to=2")
    assert any(field["pointer"].startswith("/schedule") for field in diff["fields"])
    assert diff["runs"]["added"]["count"] > 0
    back = api.call("POST", f"{V1}/jobs/versioned/rollback", {"version": 1}, If_Match='"2"')
    assert (back.json["version"], back.json["schedule"]) == (3, "0 9 * * *")
    assert api.call("GET", f"{V1}/jobs/versioned/versions/9").status == 404


def test_a_name_is_unique_per_namespace(api: Client) -> None:
    here = api.create("twin", description="here")
    there = api.post("/jobs?namespace=other", shape("twin", description="there"), 201)
    assert here["id"] != there["id"]
    assert api.get("/jobs/twin?namespace=other")["description"] == "there"
    assert api.get(f"/jobs/{there['id']}")["namespace"] == "other"
    api.call("DELETE", f"{V1}/jobs/twin?namespace=other")
    assert api.get("/jobs/twin")["description"] == "here"


def test_schedule_preview_and_alternative_paths(api: Client) -> None:
    preview = api.post("/schedule/preview", {"schedule": "every weekday at 9", "timezone": "Europe/Paris", "count": 2})
    assert len(preview["next"]) == 2
    assert "09:00" in preview["words"]
    created = api.call(
        "POST", "/api/jobs", {"name": "guided", "cron_expression": "0 0 * * *", "command": {"argv": ["true"]}}
    )
    assert created.status == 201
    assert (created.json["job_id"], created.json["status"]) == (created.json["id"], "ACTIVE")
    assert created.json["next_run_time"] == created.json["next_run_at"]
    triggered = api.call("POST", "/api/jobs/guided/trigger").json
    api.ended(triggered["execution_id"])
    [run] = api.call("GET", "/api/jobs/guided/executions").json["items"]
    assert (run["execution_id"], run["status"]) == (triggered["execution_id"], "SUCCESS")
    assert run["completed_at"] == run["finished_at"]


def test_every_write_is_in_the_audit_log(api: Client) -> None:
    space = "?namespace=audited"
    api.post(f"/jobs{space}", shape("a"), 201)
    for verb in ("pause", "resume", "disable", "enable"):
        api.post(f"/jobs/a/{verb}{space}")
    api.call("DELETE", f"{V1}/jobs/a{space}")
    entries = api.get(f"/audit{space}")["items"]
    assert [entry["action"] for entry in entries] == ["delete", "enable", "disable", "resume", "pause", "create"]
    assert {(entry["actor"], entry["origin"]) for entry in entries} == {("ana", "127.0.0.1")}
