"""Permissions: every route, called by every kind of principal."""

import asyncio
import itertools
from collections.abc import Mapping
from typing import Any

import bcrypt
import pytest

from chronos.api import Access, TokenStore, read_tokens, read_users
from chronos.api.auth.passwords import is_password_right
from chronos.api.auth.permissions import NO_PRINCIPAL, Permission, Principal, Role, read_grant
from chronos.api.auth.token_store import TOKEN_CACHE_US, hash_token, new_token
from chronos.api.errors import LockedOut, Unauthenticated
from chronos.api.handlers import ROUTES
from chronos.api.routing import Route, Scope
from chronos.assembly import make_store
from chronos.clock import SystemClock
from chronos.errors import Invalid, NotFound
from tests.support.api_server import BCRYPT, SECRET, V1, World, basic, in_world, shape

#: Users with a role everywhere, in one namespace, or in another.
USERS: dict[str, dict[str, Any]] = {
    "vera": {"password_hash": SECRET, "role": "viewer"},
    "otto": {"password_hash": SECRET, "role": "operator"},
    "ada": {"password_hash": SECRET, "role": "admin"},
    "vera-here": {"password_hash": SECRET, "role": "viewer", "namespaces": ["here"]},
    "otto-here": {"password_hash": SECRET, "role": "operator", "namespaces": ["here"]},
    "ada-here": {"password_hash": SECRET, "namespaces": {"here": "admin"}},
    "ada-there": {"password_hash": SECRET, "role": "admin", "namespaces": ["there"]},
}
GRANTS = {name: read_grant(name, entry) for name, entry in USERS.items()}
#: A target that a namespace admin may save; commands need a separate permission.
WAITS = {"wait": {"for": "1s"}}
NO_EXECUTION = "00000000-0000-0000-0000-000000000000"
MATRIX = list(itertools.product(ROUTES, [*USERS, None]))


def path_of(route: Route, execution: str) -> str:
    """Return the path of a route, with objects of the namespace "here"."""
    path = route.path.format(ref="job", id=execution, version=1, name="nothing")
    names = {param.name for param in route.query}
    query = ["namespace=here"] if "namespace" in names else []
    query += ["dry_run=true"] if "dry_run" in names else []
    query += ["follow=false"] if "follow" in names else []
    return "?".join([path, "&".join(query)]) if query else path


def expected(route: Route, user_name: str | None) -> tuple[int, ...]:
    """Return the expected problem code; empty if the request is allowed."""
    if route.permission is Permission.OPEN:
        return ()
    if user_name is None:
        return (401,)
    principal = GRANTS[user_name]
    match route.scope:
        case Scope.ANYWHERE:
            return () if principal.may_somewhere(route.permission) else (403,)
        case Scope.EVERYWHERE:
            return () if principal.may(route.permission) else (403,)
        case Scope.BODY | Scope.SEEN if not principal.may_somewhere(route.permission):
            return (403,)
        case Scope.BODY | Scope.SEEN | Scope.JOB | Scope.EXECUTION:
            if not principal.sees("here"):
                return (404,)
            return () if principal.may(route.permission, "here") else (403,)


def body_of(route: Route) -> Any:
    """Return a valid body for a route that changes nothing which later routes need."""
    return None if route.body is None else route.body.example


def test_every_route_honours_the_roles() -> None:
    async def case(world: World) -> None:
        await world.post("/jobs?namespace=here", shape("job", **WAITS), status=201, user="ada")
        asked = await world.post("/jobs/job/trigger?namespace=here", status=202, user="ada")
        wrong: list[str] = []
        for route, user_name in MATRIX:
            if route.is_stream and route.path.endswith("/events"):
                continue  # tested below
            path = path_of(route, asked["execution_id"])
            reply = await world.call(route.method, path, body_of(route), user=user_name)
            refused = expected(route, user_name)
            fits = reply.status in refused if refused else reply.status not in (401, 403)
            if route.path.endswith("/jobs/bulk") and refused == (404,):
                fits = reply.status == 200 and reply.json["results"][0]["status"] == 404
            if not refused and reply.status == 404:
                fits = "nothing" in path or "dead" in path or "rollback" in path
            if not fits:
                wrong.append(
                    f"{route.method} {path} by {user_name}: {reply.status}, expected {refused or 'to be let in'}"
                )
        assert not wrong, "\n".join(wrong)

    in_world(case, users=USERS)


def test_events_cover_visible_namespaces_only() -> None:
    async def case(world: World) -> None:
        for user_name, namespace, status in (
            (None, "here", 401),
            ("ada-there", "here", 404),
            ("vera-here", "here", 200),
            ("vera", "here", 200),
        ):
            headers = {} if user_name is None else {"Authorization": basic(user_name, "secret")}
            url = f"{world.base}{V1}/events?namespace={namespace}"
            async with world.client.get(url, headers=headers) as response:
                assert response.status == status, user_name

    in_world(case, users=USERS)


def test_totals_need_a_role_in_all_namespaces() -> None:
    async def case(world: World) -> None:
        world.facts |= {"jobs_held": 1, "jobs_recovered": 0, "executions_here": 1, "slots": 3}
        await world.post("/jobs?namespace=here", shape("job"), status=201, user="ada")
        known = {"now", "node", "slots"}
        totals = {"jobs_persisted", "jobs", "executions", "jobs_held", "jobs_recovered", "executions_here"}
        for user_name, names in (("vera", known | totals), ("ada-here", known), ("ada-there", known)):
            assert set(await world.get("/status", user=user_name)) == names, user_name

    in_world(case, users=USERS)


def test_invisible_namespaces_are_not_found() -> None:
    async def case(world: World) -> None:
        job = await world.post("/jobs?namespace=here", shape("secret-job"), status=201, user="ada")
        asked = await world.post("/jobs/secret-job/trigger?namespace=here", status=202, user="ada")
        await world.post("/jobs", shape("hidden-job"), status=201, user="ada")
        for path in (
            "/jobs/hidden-jab",
            "/executions?job=hidden-jab",
            "/executions?job=hidden-job",
            f"/jobs/{job['id']}",
            f"/jobs/{job['id']}?namespace=there",
            "/jobs/secret-job?namespace=here",
            "/jobs/secret-jab?namespace=here",
            f"/executions/{asked['execution_id']}",
            f"/executions/{asked['execution_id']}/log",
            "/executions?job=secret-job&namespace=here",
            f"/executions?job={job['id']}",
            "/jobs?namespace=here",
        ):
            reply = await world.call("GET", V1 + path, user="ada-there")
            assert (reply.status, reply.code) == (404, "not_found"), path
            assert "did you mean" not in reply.json["detail"]
        assert (await world.get("/executions", user="ada-there"))["items"] == []
        assert (await world.get("/audit", user="ada-there"))["items"] == []
        assert (await world.get("/namespaces", user="ada-there"))["items"] == []
        assert len((await world.get("/executions", user="vera-here"))["items"]) == 1
        assert len((await world.get("/audit", user="ada-here"))["items"]) == 2
        everything = await world.call("GET", f"{V1}/jobs?namespace=*", user="vera-here")
        assert (everything.status, everything.code) == (403, "forbidden")
        moved = await world.call("PUT", f"{V1}/jobs/{job['id']}", shape("secret-job"), user="ada-there")
        assert moved.status == 404
        sneaked = await world.call("POST", f"{V1}/jobs", shape("x", namespace="here"), user="ada-there")
        assert sneaked.status == 404
        bulk = await world.call(
            "POST", f"{V1}/jobs/bulk?namespace=there", {"jobs": [shape("x", namespace="here")]}, user="ada-there"
        )
        assert bulk.json["results"][0]["status"] == 404
        applied = await world.call(
            "POST", f"{V1}/apply", {"jobs": [shape("x", namespace="here")], "owner": "me"}, user="ada-there"
        )
        assert applied.status == 404

    in_world(case, users=USERS)


def test_pruning_is_limited_to_permitted_namespaces() -> None:
    async def case(world: World) -> None:
        await world.post("/apply?namespace=here", {"jobs": [shape("a")], "owner": "team"}, user="ada")
        body = {"jobs": [shape("b", **WAITS)], "owner": "team", "prune": True}
        assert (await world.post("/apply?namespace=there", body, user="ada-there"))["pruned"] == []
        nothing = {"jobs": [], "owner": "team", "prune": True}
        refused = await world.call("POST", f"{V1}/apply?namespace=here", nothing, user="ada-there")
        assert (refused.status, refused.code) == (404, "not_found")
        assert (await world.get("/jobs/a?namespace=here", user="ada"))["name"] == "a"
        plan = await world.post("/apply?namespace=there", nothing, user="ada-there")
        assert [job["name"] for job in plan["pruned"]] == ["b"]

    in_world(case, users=USERS)


def test_changes_are_in_the_audit_log_with_their_actor() -> None:
    async def case(world: World) -> None:
        await world.post("/jobs?namespace=here", shape("job", **WAITS), status=201, user="ada-here")
        [entry] = (await world.get("/audit", user="ada"))["items"]
        assert (entry["actor"], entry["origin"], entry["action"]) == ("ada-here", "127.0.0.1", "create")

    in_world(case, users=USERS)


def test_wrong_credentials_are_refused() -> None:
    async def case(world: World) -> None:
        assert (await world.call("GET", f"{V1}/jobs", user="vera")).status == 200
        nobody = await world.call("GET", f"{V1}/jobs")
        assert (nobody.status, nobody.code) == (401, "unauthenticated")
        assert nobody.headers["WWW-Authenticate"].startswith("Basic")
        odd = (
            "Basic !!!",
            "Basic " + "A" * 5_000,
            "Digest x",
            "Bearer chr_unknown",
            basic("vera", ""),
            "Basic dmVyYQ==",
        )
        for header in odd:
            reply = await world.call("GET", f"{V1}/jobs", headers={"Authorization": header})
            assert (reply.status, reply.code) == (401, "unauthenticated"), header
        for _ in range(5):
            await world.call("GET", f"{V1}/jobs", headers={"Authorization": basic("otto", "guess")})
        locked = await world.call("GET", f"{V1}/jobs", user="otto")
        assert (locked.status, locked.code) == (429, "locked_out")
        assert int(locked.headers["Retry-After"]) >= 1
        assert (await world.call("GET", f"{V1}/jobs", user="vera")).status == 200
        assert (await world.call("GET", "/healthz")).status == 200
        assert (await world.call("GET", "/metrics")).status == 401

    in_world(case, users=USERS)


def test_tokens_can_be_created_used_and_deleted() -> None:
    async def case(world: World) -> None:
        body = {"name": "ci", "role": "operator", "namespaces": ["here"]}
        assert (await world.post("/tokens?dry_run=true", body, user="ada"))["dry_run"] is True
        assert await world.store.tokens() == []
        made = await world.post("/tokens", body, status=201, user="ada")
        assert made["token"].startswith("chr_")
        assert len(made["token"]) >= 43
        for query in ("", "?dry_run=true"):
            assert (await world.call("POST", f"{V1}/tokens{query}", body, user="ada")).status == 409
        [kept] = await world.store.tokens()
        assert (kept.token_hash, kept.author) == (hash_token(made["token"]), "ada")
        listed = (await world.call("GET", f"{V1}/tokens", user="ada")).body.decode()
        assert made["token"] not in listed
        assert hash_token(made["token"]) not in listed
        bearer = {"Authorization": f"Bearer {made['token']}"}
        assert (await world.call("GET", f"{V1}/jobs?namespace=here", headers=bearer)).status == 200
        assert (await world.call("GET", f"{V1}/jobs", headers=bearer)).status == 404
        assert (await world.call("POST", f"{V1}/jobs?namespace=here", shape(), headers=bearer)).status == 403
        assert (await world.call("DELETE", f"{V1}/tokens/ci?dry_run=true", user="ada")).status == 200
        assert (await world.call("GET", f"{V1}/jobs?namespace=here", headers=bearer)).status == 200
        assert (await world.call("DELETE", f"{V1}/tokens/ci", user="ada")).status == 204
        for query in ("", "?dry_run=true"):
            assert (await world.call("DELETE", f"{V1}/tokens/ci{query}", user="ada")).status == 404
        assert (await world.call("GET", f"{V1}/jobs?namespace=here", headers=bearer)).status == 401
        lines = (await world.get("/audit", user="ada"))["items"]
        assert [(line["actor"], line["action"], line["subject"], line["detail"]) for line in lines] == [
            ("ada", "revoke token", "ci", ""),
            ("ada", "create token", "ci", "operator in here"),
        ]
        assert (await world.get("/audit", user="ada-here"))["items"] == []
        for wrong, pointer in (
            ({"name": "x", "role": "king"}, "/role"),
            ({"name": "x", "role": "Admin"}, "/role"),
            ({"name": "x", "namespaces": 7}, "/namespaces"),
            ({"name": "x", "namespaces": []}, "/namespaces"),
            ({"name": "x", "namespaces": [1]}, "/namespaces"),
            ({"name": "x", "namespaces": ["a b"]}, "/namespaces"),
            ({"name": "x", "namespaces": {"here": "king"}}, "/namespaces"),
            ({"name": "x", "namespaces": {"here": ["admin"]}}, "/namespaces"),
            ({"name": "a b"}, "/name"),
            ({}, "/name"),
            ({"name": "x", "expires_at": "2020-01-01T00:00:00Z"}, "/expires_at"),
        ):
            reply = await world.call("POST", f"{V1}/tokens", wrong, user="ada")
            assert (reply.status, reply.json["errors"][0]["pointer"]) == (422, pointer)
        users = (await world.call("GET", f"{V1}/users", user="ada")).json["items"]
        assert {"name": "otto", "role": "operator", "namespaces": None} in users
        assert "argon2" not in str(users)

    in_world(case, users=USERS)


def test_tokens_of_the_configuration_are_accepted() -> None:
    text = new_token()
    fixed = read_tokens({"deploy": {"token_hash": hash_token(text).upper(), "role": "admin"}})

    async def case(world: World) -> None:
        bearer = {"Authorization": f"Bearer {text}"}
        await world.post("/tokens", {"name": "another"}, status=201, headers=bearer)
        listed = (await world.get("/tokens", headers=bearer))["items"]
        assert [(token["name"], token["created_by"]) for token in listed] == [
            ("another", "token:deploy"),
            ("deploy", None),
        ]
        taken = await world.call("POST", f"{V1}/tokens", {"name": "deploy"}, headers=bearer)
        assert (taken.status, "configuration" in taken.json["detail"]) == (409, True)
        for query in ("", "?dry_run=true"):
            reply = await world.call("DELETE", f"{V1}/tokens/deploy{query}", headers=bearer)
            assert (reply.status, "configuration" in reply.json["detail"]) == (409, True)
        await TokenStore(world.store).add(
            "deploy", role="admin", namespaces=None, now_us=1
        )  # before the token was configured
        for query, status in (("?dry_run=true", 200), ("", 204), ("", 409)):
            reply = await world.call("DELETE", f"{V1}/tokens/deploy{query}", headers=bearer)
            assert reply.status == status, query

    in_world(case, users=USERS, tokens=fixed)
    for bad in (
        {"role": "admin"},
        {"token_hash": "x"},
        {"token_hash": "0" * 64, "role": "king"},
        {"tokenhash": "x"},
        7,
    ):
        with pytest.raises(Invalid, match=r"auth\.tokens"):
            read_tokens({"bad": bad})
    with pytest.raises(Invalid, match="two names have the same token_hash"):
        read_tokens({"one": {"token_hash": "A" * 64}, "other": {"token_hash": "a" * 64}})
    with pytest.raises(Invalid, match="is not a valid name"):
        read_tokens({"a b": {"token_hash": "0" * 64}})


def test_a_token_is_cached_for_a_second() -> None:
    """Servers on one store share tokens: a new one works immediately, a revoked one for at most a second."""

    async def check() -> None:
        store = make_store("sqlite://")
        await store.open()
        one, other = TokenStore(store), TokenStore(store)
        for unknown in ("chr_unknown", "\udcff"):  # an invalid byte, as a header delivers it
            assert await other.find(unknown, 0) is None
        made, entry = await one.add("short", role="viewer", namespaces=None, now_us=0, expires_us=9 * TOKEN_CACHE_US)
        found = await other.find(made, 0)
        assert (found, await one.find(made, 0)) == (entry, entry)
        assert await other.find(made, 9 * TOKEN_CACHE_US) is None
        assert await other.find(made, 5) == entry  # the clock went back
        await one.remove("short", now_us=6)
        assert await one.find(made, 6) is None
        assert await other.find(made, 5 + TOKEN_CACHE_US - 1) == entry
        assert await other.find(made, 5 + TOKEN_CACHE_US) is None
        with pytest.raises(NotFound):
            await other.remove("short", now_us=7)
        await store.close()

    asyncio.run(check())


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        ({}, "password_hash"),
        (
            {"password_hash": "plain"},
            "neither an argon2 .* nor a bcrypt .* create one with chronos config hash-password",
        ),
        ({"password_hash": BCRYPT[:-1]}, "of 59 characters instead of 60"),
        ({"password_hash": BCRYPT.replace("$04$", "$31$")}, "of cost 31, allowed 4 to 16"),
        ({"password_hash": BCRYPT.replace("$04$", "$03$")}, "of cost 3, allowed 4 to 16"),
        ({"password_hash": SECRET.replace("m=8", "m=4294967295")}, "m=4294967295; with p=1 allowed are 8 to 1048576"),
        ({"password_hash": SECRET.replace("p=1", "p=2")}, "m=8; with p=2 allowed are 16 to"),
        ({"password_hash": SECRET.replace("t=1", "t=4294967295")}, "t=4294967295, p=1; allowed: t from 1 to 64"),
        ({"password_hash": SECRET.replace("t=1", "t=0")}, "t=0, p=1; allowed: t from 1 to 64"),
        ({"password_hash": SECRET.replace("v=19", "v=20")}, "of version 20"),
        ({"password_hash": SECRET[:-40]}, "was cut off: its salt has 16 bytes and its hash 2"),
        ({"password_hash": SECRET.replace("VEw0", "V!w0")}, "neither an argon2"),
        ({"password_hash": SECRET, "role": "king"}, "allowed: viewer, operator, admin"),
        ({"password_hash": SECRET, "namespaces": "here"}, "list of names"),
        ({"password_hash": SECRET, "namespaces": ["a b"]}, "is not a valid name"),
        ({"password_hash": SECRET, "rolle": "admin"}, "unknown setting rolle"),
    ],
    ids=[
        *("nothing", "plain", "cut off", "endless", "too cheap"),
        *("memory", "lanes", "passes", "no pass", "version", "argon2 cut off", "no base64"),
        *("role", "namespaces", "namespace", "unknown"),
    ],
)
def test_invalid_users_of_the_configuration_are_rejected(entry: Mapping[str, Any], words: str) -> None:
    with pytest.raises(Invalid, match=words):
        read_users({"ana": entry})


def test_a_verified_password_is_not_hashed_again() -> None:
    async def check() -> None:
        access = Access(SystemClock(), users=read_users({"ana": {"password_hash": SECRET, "role": "admin"}}))
        for _ in range(20):
            assert (await access.principal(basic("ana", "secret"), "::1")).name == "ana"
        assert await access.principal(None, "::1") is NO_PRINCIPAL
        with pytest.raises(Unauthenticated):
            await access.principal(basic("eve", "secret"), "::1")
        for _ in range(5):
            with pytest.raises(Unauthenticated):
                await access.principal(basic("ana", "no"), "::2")
        with pytest.raises(LockedOut):
            await access.principal(basic("ana", "secret"), "::2")

    asyncio.run(check())


@pytest.mark.parametrize("prefix", ["$2a$", "$2b$", "$2y$"])
def test_bcrypt_hashes_are_accepted(prefix: str) -> None:
    hashed = prefix + BCRYPT[4:]

    async def check() -> None:
        users = {"ana": {"password_hash": hashed, "role": "admin"}, "bea": {"password_hash": SECRET}}
        access = Access(SystemClock(), users=read_users(users))
        for name in users:
            assert (await access.principal(basic(name, "secret"), "::1")).name == name
        for name, password in (("ana", "Secret"), ("ana", "secret" + "x" * 100), ("ana", "a\0b"), ("eve", "secret")):
            with pytest.raises(Unauthenticated):
                await access.principal(basic(name, password), "::1")

    asyncio.run(check())


def test_bcrypt_uses_the_first_72_bytes() -> None:
    long = "é" * 36
    hashed = bcrypt.hashpw(long.encode(), bcrypt.gensalt(4)).decode()
    assert is_password_right(hashed, long + "and more")
    assert not is_password_right(hashed, long[:-1])


def test_roles_include_the_permissions_of_lower_roles() -> None:
    everywhere = Principal(name="a", role=Role.OPERATOR)
    assert everywhere.may(Permission.OPERATE, "x")
    assert not everywhere.may(Permission.ADMINISTER, "x")
    here = Principal(name="b", by_namespace={"here": Role.ADMIN})
    assert here.may(Permission.ADMINISTER, "here")
    assert not here.sees("there")
    assert not here.may(Permission.VIEW)
    assert here.may_somewhere(Permission.ADMINISTER)
    assert NO_PRINCIPAL.may(Permission.OPEN)
    assert not NO_PRINCIPAL.may_somewhere(Permission.VIEW)


def test_an_open_server_says_that_it_ignores_credentials() -> None:
    async def case(world: World) -> None:
        for header in (basic("ana", "wrong"), "Bearer nothing", "nonsense"):
            reply = await world.call("GET", f"{V1}/jobs", headers={"Authorization": header})
            assert reply.status == 200
            assert reply.headers["X-Chronos-Notice"].startswith("credentials are ignored")
        assert "X-Chronos-Notice" not in (await world.call("GET", f"{V1}/jobs")).headers

    in_world(case)


def test_a_server_with_authentication_has_no_such_notice() -> None:
    async def case(world: World) -> None:
        assert "X-Chronos-Notice" not in (await world.call("GET", f"{V1}/jobs", user="ana")).headers

    in_world(case, users={"ana": {"password_hash": SECRET, "role": "admin"}})
