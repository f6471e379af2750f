"""Failures of the server, and races between clients."""

import asyncio
import threading

import msgspec
import pytest

from chronos.api import ApiOptions, hash_password
from chronos.api.auth.hash_queue import HASH_THREADS
from chronos.api.problems import kind_of, write_problem
from chronos.errors import Conflict, Invalid, NotFound, QueueFull, StoreBroken, StoreBusy, StoreUnavailable, Unavailable
from tests.support.api_server import V1, Reply, World, in_world, shape


def test_a_full_queue_is_429_with_retry_after() -> None:
    async def case(world: World) -> None:
        await world.create("digest", overlap="allow")
        for _ in range(2):
            await world.post("/jobs/digest/trigger", status=202)
        full = await world.call("POST", f"{V1}/jobs/digest/trigger")
        assert (full.status, full.code, full.headers["Retry-After"]) == (429, "queue_full", "1")
        body = {"from": "2026-01-01T00:00:00Z", "to": "2026-01-01T05:00:00Z"}
        stopped = await world.call("POST", f"{V1}/jobs/digest/backfill", body)
        assert (stopped.status, stopped.code) == (429, "queue_full")
        assert stopped.headers["Retry-After"] == "1"

    in_world(case, max_pending=2)


def test_an_unavailable_store_is_503() -> None:
    async def case(world: World) -> None:
        await world.store.close()
        for path in ("/readyz", f"{V1}/jobs", f"{V1}/status"):
            reply = await world.call("GET", path)
            assert reply.status == 503, path
            assert reply.code in ("unavailable", "store_unavailable")
            assert reply.headers["Retry-After"]
        assert (await world.call("POST", f"{V1}/jobs", shape())).status == 503
        assert (await world.call("GET", "/healthz")).status == 200

    in_world(case)


def test_an_unexpected_error_is_500_and_only_logged(caplog: pytest.LogCaptureFixture) -> None:
    def broken() -> bytes:
        raise RuntimeError("the canary sings")

    async def case(world: World) -> None:
        reply = await world.call("GET", "/metrics", headers={"X-Request-Id": "find-me"})
        assert (reply.status, reply.code, reply.json["request_id"]) == (500, "internal", "find-me")
        assert b"canary" not in reply.body
        [record] = [record for record in caplog.records if record.name == "chronos.api"]
        assert record.exc_info is not None
        assert vars(record)["request_id"] == "find-me"

    in_world(case, metrics=broken)


def test_a_slow_response_times_out() -> None:
    async def case(world: World) -> None:
        over = threading.Event()
        held = [  # password hashes that never finish
            asyncio.create_task(world.access._hashes.run(over.wait, address="192.0.2.1")) for _ in range(HASH_THREADS)
        ]
        async with asyncio.timeout(60):
            reply = await world.call("GET", f"{V1}/jobs", user="ada")
        assert (reply.status, reply.code) == (503, "timeout")
        over.set()
        await asyncio.gather(*held)
        assert (await world.call("GET", "/healthz")).status == 200

    users = {"ada": {"password_hash": hash_password("secret"), "role": "admin"}}
    in_world(case, options=ApiOptions(request_timeout_s=0.05), users=users)


def test_of_two_changes_to_one_version_one_wins() -> None:
    async def case(world: World) -> None:
        await world.create("digest")
        known = {"If-Match": '"1"'}
        calls = [
            world.call("PUT", f"{V1}/jobs/digest", shape("digest", description=str(n)), headers=known) for n in range(8)
        ]
        replies: list[Reply] = await asyncio.gather(*calls)
        assert sorted(reply.status for reply in replies) == [200] + [412] * 7
        assert (await world.get("/jobs/digest"))["version"] == 2
        patches = [world.call("PATCH", f"{V1}/jobs/digest", {"tags": {f"k{n}": "v"}}) for n in range(4)]
        statuses = [reply.status for reply in await asyncio.gather(*patches)]
        assert statuses == [200] * 4
        assert len((await world.get("/jobs/digest"))["tags"]) == 4  # no change was lost

    in_world(case)


def test_of_many_concurrent_creations_one_succeeds() -> None:
    async def case(world: World) -> None:
        calls = [world.call("POST", f"{V1}/jobs", shape("digest", description=str(n))) for n in range(8)]
        statuses = [reply.status for reply in await asyncio.gather(*calls)]
        assert sorted(statuses) == [201] + [409] * 7

    in_world(case)


@pytest.mark.parametrize(
    ("error", "status", "code"),
    [
        (NotFound("x"), 404, "not_found"),
        (Conflict("x"), 409, "conflict"),
        (Invalid("x"), 422, "invalid"),
        (QueueFull("x"), 429, "queue_full"),
        (StoreUnavailable("x"), 503, "store_unavailable"),
        (StoreBusy("x"), 429, "store_busy"),
        (Unavailable("x"), 503, "unavailable"),
        (StoreBroken("x"), 503, "store_broken"),
        (ValueError("secret"), 500, "internal"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else str(value),
)
def test_every_error_has_its_problem_kind(error: Exception, status: int, code: str) -> None:
    assert (kind_of(error).status, kind_of(error).code) == (status, code)
    problem = write_problem(error, "id")
    assert problem["request_id"] == "id"
    assert ("secret" in problem["detail"]) is False


def test_head_requests_are_supported() -> None:
    async def case(world: World) -> None:
        for path in ("/healthz", "/readyz", f"{V1}/jobs"):
            reply = await world.call("HEAD", path)
            assert (reply.status, reply.body) == (200, b"")

    in_world(case)


def test_escaped_paths_are_equivalent() -> None:
    async def case(world: World) -> None:
        host, port = world.base.removeprefix("http://").split(":")

        async def status(line: str, more: str = "", body: str = "") -> str:
            reader, writer = await asyncio.open_connection(host, int(port))
            request_text = f"{line} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n{more}\r\n{body}"
            writer.write(request_text.encode())
            answered = (await asyncio.wait_for(reader.read(), 60)).decode()
            writer.close()
            return " ".join(part.split(" ")[1] for part in answered.split("\r\n") if part.startswith("HTTP/1.1 "))

        body = msgspec.json.encode(shape("first")).decode()
        sent = f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n"
        assert await status(f"POST {V1}/jobs", sent + "Expect: 100-continue\r\n", body) == "100 201"
        assert await status(f"POST {V1}/jobs", sent + "Expect: more\r\n", body) == "417"
        assert await status(f"GET {V1}/nothing", "Expect: 100-continue\r\n") == "100 404"
        assert await status(f"GET {V1}/%6Aobs") == "200"
        assert await status(f"GET http://{host}{V1}/jobs?limit=1") == "200"
        assert await status(f"GET {V1}/jobs/%66irst") == "200"
        assert await status(f"GET {V1}%2Fjobs") == "404"
        assert await status(f"GET {V1}/jobs/") == "404"
        assert await status(f"PUT {V1}/jobs") == "405"
        assert await status(f"OPTIONS {V1}/jobs/first") == "405"

    in_world(case)
