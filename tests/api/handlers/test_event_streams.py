"""Streams of events and logs: their number, and clients that do not read."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from typing import Any

import aiohttp
import pytest

from chronos.api import ApiOptions
from chronos.api.handlers import event_streams
from tests.support.api_server import SECRET, V1, World, basic, in_world, shape

USERS = {name: {"password_hash": SECRET, "role": "admin"} for name in ("ana", "bob", "cyd")}
OPTIONS = ApiOptions(max_streams=5, max_streams_each=2, poll_s=0.05, trusted_proxies=("127.0.0.1",))


class Listeners:
    """Streams that stay open until they are closed."""

    def __init__(self, world: World, stack: AsyncExitStack) -> None:
        self._world, self._stack = world, stack

    async def open(
        self, path: str, user: str | None, address: str
    ) -> tuple[int, dict[str, Any], aiohttp.ClientResponse]:
        """Return the status, the problem of a refusal, and the stream."""
        headers = {"X-Forwarded-For": address}
        if user is not None:
            headers["Authorization"] = basic(user, "secret")
        response = await self._stack.enter_async_context(
            self._world.client.get(self._world.base + V1 + path, headers=headers)
        )
        problem = {} if response.status == 200 else await response.json(content_type=None)
        if response.status != 200:
            assert int(response.headers["Retry-After"]) >= 1
        return response.status, problem, response


def test_streams_are_limited_per_principal_per_address_and_in_total() -> None:
    async def case(world: World) -> None:
        await world.post("/jobs", shape("job"), status=201, user="ana")
        asked = await world.post("/jobs/job/trigger", status=202, user="ana")
        log = f"/executions/{asked['execution_id']}/log?follow=true"
        async with AsyncExitStack() as stack:
            listeners = Listeners(world, stack)
            first = await listeners.open("/events", "ana", "192.0.2.1")
            assert (await listeners.open(log, "ana", "192.0.2.2"))[0] == first[0] == 200
            for path in ("/events", log):
                status, problem, _ = await listeners.open(path, "ana", "192.0.2.3")
                assert (status, problem["code"]) == (429, "rate_limited")
                assert "ana has 2 open streams" in problem["detail"]
            assert (await listeners.open("/events", "bob", "2001:db8::1"))[0] == 200
            assert (await listeners.open("/events", "cyd", "2001:db8::2"))[0] == 200
            status, problem, _ = await listeners.open("/events", "bob", "2001:db8::3")
            assert (status, "address 2001:db8::/64" in problem["detail"]) == (429, True)
            assert (await listeners.open("/events", "bob", "192.0.2.3"))[0] == 200
            status, problem, _ = await listeners.open("/events", "cyd", "192.0.2.4")
            assert (status, problem["code"]) == (503, "unavailable")
            first[2].close()  # closing one allows another
            async with asyncio.timeout(60):
                while True:
                    if (await listeners.open(log, "ana", "192.0.2.9"))[0] == 200:
                        break
                    await asyncio.sleep(0.02)

    in_world(case, users=USERS, options=OPTIONS)


def test_without_authentication_streams_are_counted_per_address() -> None:
    async def case(world: World) -> None:
        async with AsyncExitStack() as stack:
            listeners = Listeners(world, stack)
            found = [(await listeners.open("/events", None, f"192.0.2.{n // 3}"))[0] for n in range(6)]
            assert found == [200, 200, 429, 200, 200, 429]

    in_world(case, options=OPTIONS)


def test_one_viewer_cannot_use_all_streams() -> None:
    async def case(world: World) -> None:
        async with AsyncExitStack() as stack:
            listeners = Listeners(world, stack)
            found = [(await listeners.open("/events", "bob", "192.0.2.1"))[0] for _ in range(60)]
            assert found == [200] * 50 + [429] * 10
            assert (await listeners.open("/events", "ana", "192.0.2.2"))[0] == 200

    in_world(case, users=USERS, options=ApiOptions(poll_s=0.05, trusted_proxies=("127.0.0.1",)))


def test_a_client_that_does_not_read_loses_its_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    async def endless(*_: object) -> AsyncIterator[bytes]:
        while True:
            yield b": much\n\n" * 20_000

    async def case(world: World) -> None:
        host, port = world.base.removeprefix("http://").split(":")
        reader, writer = await asyncio.open_connection(host, int(port), limit=1_024)
        writer.write(f"GET {V1}/events HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
        assert b" 200 " in await reader.readline()
        assert (await world.call("GET", f"{V1}/events")).status == 503
        async with asyncio.timeout(60):
            while True:
                async with world.client.get(f"{world.base}{V1}/events") as other:
                    if other.status == 200:
                        break
                await asyncio.sleep(0.02)
        writer.close()

    monkeypatch.setattr(event_streams, "_feed_chunks", endless)
    in_world(case, options=ApiOptions(max_streams=1, write_timeout_s=0.3))
