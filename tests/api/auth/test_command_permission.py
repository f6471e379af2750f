"""The permission to save jobs with commands, on every route that saves jobs."""

from typing import Any

import pytest

from chronos.api import ApiOptions, CommandAuthor
from tests.support.api_server import SECRET, V1, World, in_world, shape

USERS: dict[str, dict[str, Any]] = {
    "ada": {"password_hash": SECRET, "role": "admin"},
    "ben": {"password_hash": SECRET, "role": "admin", "namespaces": ["b"]},
    "otto": {"password_hash": SECRET, "role": "operator", "namespaces": ["b"]},
}
RUNS: dict[str, Any] = {"command": {"argv": ["true"]}}
WAITS: dict[str, Any] = {"wait": {"for": "1s"}}
WAYS = [
    shape("x", **RUNS),
    shape("x", tasks=[{"name": "first", **WAITS}, {"name": "last", **RUNS}]),
    shape("x", **WAITS, on_start=RUNS),
    shape("x", **WAITS, on_complete=RUNS),
    shape("x", command={"shell": True, "command": "true"}),
]


def refused(reply: Any) -> bool:
    return (reply.status, reply.code) == (403, "forbidden") and "dispatcher.command.roles" in reply.json["detail"]


@pytest.mark.parametrize("job", WAYS)
@pytest.mark.parametrize("dry_run", ["", "&dry_run=true"])
def test_a_namespace_admin_cannot_save_commands(job: dict[str, Any], dry_run: str) -> None:
    async def case(world: World) -> None:
        query = f"?namespace=b{dry_run}"
        assert refused(await world.call("POST", f"{V1}/jobs{query}", job, user="ben"))
        assert refused(await world.call("POST", f"/api/jobs{query}", job, user="ben"))
        assert refused(await world.call("PUT", f"{V1}/jobs/x{query}", job, user="ben"))
        many = {"jobs": [job, shape("fine", **WAITS)], "owner": "team"}
        assert refused(await world.call("POST", f"{V1}/apply{query}", many, user="ben"))
        del many["owner"]
        one, other = (await world.post(f"/jobs/bulk{query}", many, user="ben"))["results"]
        assert (one["status"], one["code"], other["result"]) == (403, "forbidden", "created")
        assert (await world.call("GET", f"{V1}/jobs/x?namespace=b", user="ada")).status == 404

    in_world(case, users=USERS)


def test_a_namespace_admin_cannot_change_an_existing_command() -> None:
    async def case(world: World) -> None:
        await world.post(
            "/jobs?namespace=b", shape("x", command={"argv": ["echo", "{{ payload }}"]}), status=201, user="ada"
        )
        path = f"{V1}/jobs/x?namespace=b"
        for change in ({"payload": "mine"}, {"command": {"argv": ["id"]}}, {"schedule": "@daily"}, {"on_start": RUNS}):
            assert refused(await world.call("PATCH", path, change, user="ben")), change
        assert (await world.call("PATCH", path, WAITS, user="ben")).status == 200  # it no longer runs commands
        back = await world.call("POST", f"{V1}/jobs/x/rollback?namespace=b", {"version": 1}, user="ben")
        assert refused(back)
        assert (await world.get("/jobs/x?namespace=b", user="ada"))["version"] == 2
        await world.post("/jobs/x/rollback?namespace=b", {"version": 1}, user="ada")
        assert refused(await world.call("PATCH", path, {"description": "d"}, user="ben"))

    in_world(case, users=USERS)


def test_a_namespace_admin_can_still_operate_command_jobs() -> None:
    """Running, pausing and deleting a command job of another user needs only the usual role."""

    async def case(world: World) -> None:
        await world.post("/jobs?namespace=b", shape("x"), status=201, user="ada")
        await world.post("/jobs/x/trigger?namespace=b", {"payload": "p"}, status=202, user="otto")
        for verb in ("pause", "resume", "disable", "enable"):
            await world.post(f"/jobs/x/{verb}?namespace=b", user="otto")
        assert (await world.call("DELETE", f"{V1}/jobs/x?namespace=b", user="ben")).status == 200
        await world.post("/jobs?namespace=b", shape("y", **WAITS), status=201, user="ben")

    in_world(case, users=USERS)


@pytest.mark.parametrize(
    ("authors", "ada", "ben"),
    [
        ((), 403, 403),
        (("admin",), 201, 403),
        (("namespace_admin",), 201, 201),
        (("admin", "namespace_admin"), 201, 201),
    ],
)
def test_command_roles_of_the_configuration_are_honoured(authors: tuple[str, ...], ada: int, ben: int) -> None:
    """An admin of all namespaces is an admin of each namespace."""

    async def case(world: World) -> None:
        for user, status in (("ada", ada), ("ben", ben)):
            reply = await world.call("POST", f"{V1}/jobs?namespace=b", shape(f"of-{user}"), user=user)
            assert reply.status == status, reply.body

    in_world(case, users=USERS, options=ApiOptions(command_authors=frozenset(map(CommandAuthor, authors))))


def test_without_authentication_commands_can_be_saved() -> None:
    async def case(world: World) -> None:
        await world.create("x")

    in_world(case, options=ApiOptions(command_authors=frozenset()))


def test_documentation_can_require_authentication() -> None:
    async def case(world: World) -> None:
        for path in ("/docs", "/openapi.json"):
            nobody = await world.call("GET", path)
            assert (nobody.status, nobody.code) == (401, "unauthenticated"), path
            assert nobody.headers["WWW-Authenticate"].startswith("Basic")
            assert (await world.call("HEAD", path)).status == 401
            assert (await world.call("GET", path, user="otto")).status == 200, path
        assert (await world.call("GET", "/healthz")).status == 200

    in_world(case, users=USERS, options=ApiOptions(public_docs=False))
