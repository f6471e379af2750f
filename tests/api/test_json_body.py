"""Bodies that are refused before or while they are read, with responses of bounded size."""

import asyncio
import gzip
import json
import zlib
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

import pytest

from chronos.api import ApiOptions
from chronos.api.json_body import MAX_KEYS
from tests.support.api_server import SECRET, V1, World, in_world, shape

USERS = {"ada": {"password_hash": SECRET, "role": "admin"}}


@pytest.mark.parametrize(
    ("coding", "pack"),
    [
        ("gzip", gzip.compress),
        ("x-gzip", gzip.compress),
        ("Deflate", zlib.compress),
        ("br", bytes),
        ("identity, gzip", gzip.compress),
        ("what", bytes),
    ],
)
def test_compressed_bodies_are_refused_before_authentication(coding: str, pack: type[bytes]) -> None:
    async def case(world: World) -> None:
        headers = {"Content-Encoding": coding}
        for user in (None, "ada"):
            reply = await world.call("POST", f"{V1}/jobs", raw=pack(b" " * 1_000_000), headers=headers, user=user)
            assert (reply.status, reply.code) == (415, "unsupported_media_type")
            assert "Content-Encoding" in reply.json["detail"]
            assert reply.headers["Accept-Encoding"] == "identity"

    in_world(case, users=USERS)


def test_uncompressed_bodies_are_read() -> None:
    async def case(world: World) -> None:
        for number, coding in enumerate(("identity", " Identity ")):
            reply = await world.call("POST", f"{V1}/jobs", shape(f"job-{number}"), headers={"Content-Encoding": coding})
            assert reply.status == 201
        nothing = await world.call("GET", f"{V1}/jobs", headers={"Content-Encoding": "gzip"})
        assert nothing.status == 200

    in_world(case)


async def connect(world: World) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    place = urlsplit(world.base)
    return await asyncio.open_connection(place.hostname, place.port)


def head(length: bytes, *more: bytes) -> bytes:
    lines = (b"POST /api/v1/jobs HTTP/1.1", b"Host: localhost", b"Content-Type: application/json", length, *more)
    return b"\r\n".join((*lines, b"", b""))


@pytest.mark.parametrize(
    "sent",
    [
        head(b"Content-Length: 1000000"),
        head(b"Transfer-Encoding: chunked"),
        head(b"Content-Length: 1000000", b"Content-Encoding: gzip"),
        head(b"Content-Length: 99999999", b"Authorization: Basic YWRhOnNlY3JldA=="),
    ],
    ids=["unknown", "chunks", "packed", "too-large"],
)
def test_the_rest_of_a_large_refused_body_is_not_read(sent: bytes) -> None:
    async def case(world: World) -> None:
        reader, writer = await connect(world)
        writer.write(sent)
        answer = await asyncio.wait_for(reader.read(), 60)  # until the server closes the connection
        assert answer.split(b" ")[1] in (b"401", b"413", b"415")
        assert b"\r\nConnection: close\r\n" in answer
        writer.close()

    in_world(case, users=USERS)


def test_a_small_refused_body_keeps_the_connection_open() -> None:
    async def case(world: World) -> None:
        reader, writer = await connect(world)
        for _ in range(2):
            writer.write(head(b"Content-Length: 100"))
            assert b" 401 " in await reader.readuntil(b"\r\n")
            writer.write(b"x" * 100)
            rest = await reader.readuntil(b"}")
            assert b"Connection: close" not in rest
        writer.close()

    in_world(case, users=USERS)


# --- bounds of bodies and of problems

ROUTES = [
    ("POST", "/jobs", lambda fields: fields),
    ("PUT", "/jobs/job", lambda fields: fields),
    ("PATCH", "/jobs/job", lambda fields: fields),
    ("POST", "/jobs/bulk", lambda fields: {"jobs": [fields]}),
    ("POST", "/apply", lambda fields: {"jobs": [fields], "owner": "me"}),
    ("POST", "/schedule/preview", lambda fields: fields),
    ("POST", "/jobs/job/trigger", lambda fields: fields),
]
NAMES = [f"{method} {path}" for method, path, _ in ROUTES]


@pytest.mark.parametrize(("method", "path", "wrap"), ROUTES, ids=NAMES)
def test_an_object_with_too_many_keys_is_rejected(method: str, path: str, wrap: Callable[[Any], Any]) -> None:
    async def case(world: World) -> None:
        await world.create("job")
        for count in (MAX_KEYS + 1, 60_000):
            reply = await world.call(method, V1 + path, wrap({f"k{number}": 1 for number in range(count)}))
            assert (reply.status, reply.code) == (400, "malformed")
            assert f"has {count} keys, allowed {MAX_KEYS}" in reply.json["detail"]
            assert len(reply.body) < 1_000

    in_world(case)


@pytest.mark.parametrize(("method", "path", "wrap"), ROUTES, ids=NAMES)
def test_at_most_100_problems_are_listed(method: str, path: str, wrap: Callable[[Any], Any]) -> None:
    async def case(world: World) -> None:
        await world.create("job")
        reply = await world.call(method, V1 + path, wrap({f"x{number}y": 1 for number in range(400)}))
        problem = reply.json["results"][0] if path.endswith("/bulk") else reply.json
        errors = problem["errors"]
        assert len(errors) == 101
        assert errors[-1]["message"].startswith("and 3")  # 300 of them, and other required fields
        assert errors[-1]["message"].endswith(" more")
        assert sum("known fields" in error["message"] for error in errors) <= 1
        assert len(reply.body) < 50_000

    in_world(case)


def test_the_jobs_of_a_bulk_share_the_limit_of_listed_problems() -> None:
    async def case(world: World) -> None:
        jobs = [{"name": f"job-{number}", "x": 1, "y": 2, "z": 3} for number in range(1_000)]
        reply = await world.call("POST", f"{V1}/jobs/bulk", {"jobs": jobs})
        results = reply.json["results"]
        assert sum(len(one["errors"]) for one in results) <= 102
        assert [error["pointer"] for error in results[0]["errors"]] == ["/tasks", "/x", "/y", "/z"]
        assert "job-999" in results[999]["message"]
        assert "/tasks: is required" in results[999]["message"]
        assert "and 3 more" in results[999]["message"]
        assert len(reply.body) < 500_000

    in_world(case)


def test_long_names_are_truncated_in_messages() -> None:
    async def case(world: World) -> None:
        reply = await world.call("POST", f"{V1}/jobs", shape() | {"x" * 1_000_000: 1})
        assert reply.status == 422
        assert len(reply.body) < 20_000

    in_world(case)


def test_the_number_of_values_is_bounded_by_the_size_of_a_body() -> None:
    async def case(world: World) -> None:
        payloads: list[Any] = [[0] * 2_000, [[]] * 1_500, [[[0] * 300] * 2, [[0] * 300] * 2]]
        for payload in payloads:
            raw = json.dumps(shape(payload=payload), separators=(",", ":")).encode()
            reply = await world.call("POST", f"{V1}/jobs", raw=raw)
            assert (reply.status, reply.code) == (400, "malformed")
            assert "more than 1,024 values" in reply.json["detail"]
        text = "a, b, [c], {d}" * 200
        assert (await world.call("POST", f"{V1}/jobs", shape(payload=[text] + [0] * 900))).status == 201

    in_world(case, options=ApiOptions(request_limit=8 * 1_024))
