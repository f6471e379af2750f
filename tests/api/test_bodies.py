"""Bodies that are refused before they are read, or while they are."""

import asyncio
import gzip
import zlib
from urllib.parse import urlsplit

import pytest

from tests.api.world import SECRET, V1, World, in_world, shape

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
def test_packed_bodies_are_refused_before_anybody_is_asked_who_they_are(coding: str, pack: type[bytes]) -> None:
    async def case(world: World) -> None:
        headers = {"Content-Encoding": coding}
        for user in (None, "ada"):
            reply = await world.call("POST", f"{V1}/jobs", raw=pack(b" " * 1_000_000), headers=headers, user=user)
            assert (reply.status, reply.code) == (415, "unsupported_media_type")
            assert "Content-Encoding" in reply.json["detail"]
            assert reply.headers["Accept-Encoding"] == "identity"

    in_world(case, users=USERS)


def test_what_is_not_packed_is_read() -> None:
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
def test_the_rest_of_a_large_refused_body_is_not_waited_for(sent: bytes) -> None:
    async def case(world: World) -> None:
        reader, writer = await connect(world)
        writer.write(sent)
        answer = await asyncio.wait_for(reader.read(), 60)  # until the server hangs up
        assert answer.split(b" ")[1] in (b"401", b"413", b"415")
        assert b"\r\nConnection: close\r\n" in answer
        writer.close()

    in_world(case, users=USERS)


def test_a_small_refused_body_leaves_the_connection_as_it_is() -> None:
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
