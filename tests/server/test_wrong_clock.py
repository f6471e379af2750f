"""A server with a wrong clock: it writes the time of the store, and reports the problem."""

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from chronos.clock import SystemClock
from chronos.server.config import load_config
from chronos.server.server import Server

SECOND_US = 1_000_000
Case = Callable[[Server, aiohttp.ClientSession], Awaitable[None]]


class WrongClock(SystemClock):
    """A clock with a settable offset from the machine's clock."""

    ahead_s = 0.0

    def now_us(self) -> int:
        return super().now_us() + round(self.ahead_s * SECOND_US)


def on_server(folder: Path, url: str, clock: WrongClock, case: Case) -> None:
    """Run a case against a server in this process, with its own clock."""

    async def play() -> None:
        config = load_config(None, {}, {"store": url, "server.listen": "127.0.0.1:0"})
        server = Server(config, clock)
        await server.start()
        try:
            async with aiohttp.ClientSession(server.url) as session:
                await case(server, session)
        finally:
            await server.stop()

    asyncio.run(play())


async def ask(session: aiohttp.ClientSession, method: str, path: str, body: Any = None) -> tuple[int, Any]:
    async with session.request(method, path, json=body) as answer:
        return answer.status, json.loads(await answer.text())


@pytest.mark.parametrize("ahead_s", [5.0, -5.0])
@pytest.mark.parametrize("set_later", [False, True])
def test_a_server_with_a_wrong_clock_writes_the_time_of_the_store(
    tmp_path: Path, postgres_url: str, ahead_s: float, set_later: bool
) -> None:
    """The clock is wrong from the start, or was set while the server ran and has not been checked since."""
    clock, began_us = WrongClock(), SystemClock().now_us()
    if not set_later:
        clock.ahead_s = ahead_s

    async def case(server: Server, session: aiohttp.ClientSession) -> None:
        clock.ahead_s = ahead_s
        job = {"name": "job", "schedule": "@daily", "command": {"argv": ["true"]}}
        asked: list[tuple[str, str, Any]] = [
            ("POST", "jobs", job),
            ("POST", "jobs/job/trigger", {}),
            ("POST", "jobs/job/pause", {}),
        ]
        asked += [("GET", path, None) for path in ("jobs/job", "executions", "audit", "nodes", "status")]
        answers = [await ask(session, method, f"/api/v1/{path}", body) for method, path, body in asked]
        assert [status for status, _ in answers if status >= 300] == []
        written = list(_instants([said for _, said in answers]))
        assert {"created_at", "paused_at", "at", "now", "beat_at", "scheduled_at"} <= {name for name, _ in written}
        assert [one for one in written if not _within(one[1], began_us, SystemClock().now_us())] == []

    on_server(tmp_path, postgres_url, clock, case)


def _instants(reply: Any) -> Iterator[tuple[str, str]]:
    """Yield the name and value of every instant in a reply."""
    if isinstance(reply, list):
        for item in reply:
            yield from _instants(item)
    elif isinstance(reply, dict):
        for name, value in reply.items():
            is_past = (name.endswith("_at") and name != "next_run_at") or name in ("at", "now")
            if is_past and isinstance(value, str):
                yield name, value
            yield from _instants(value)


def _within(at: str, low_us: int, high_us: int) -> bool:
    """Whether an instant is in a range, give or take the one second that clocks may differ by."""
    at_us = datetime.fromisoformat(at).timestamp() * SECOND_US
    return low_us - SECOND_US <= at_us <= high_us + SECOND_US


@pytest.mark.parametrize(("ahead_s", "side"), [(5.0, "ahead of"), (-7.5, "behind")])
def test_a_server_with_a_wrong_clock_is_not_ready_and_says_why(
    tmp_path: Path, postgres_url: str, ahead_s: float, side: str
) -> None:
    clock = WrongClock()
    clock.ahead_s = ahead_s

    async def case(server: Server, session: aiohttp.ClientSession) -> None:
        status, said = await ask(session, "GET", "/readyz")
        assert status == 503
        assert f"this node's clock is {abs(ahead_s)} s {side} the store's" in said["detail"]
        assert "until the clock is set" in said["detail"]
        assert (await ask(session, "GET", "/api/v1/status"))[1]["reason"] == said["detail"]

    on_server(tmp_path, postgres_url, clock, case)


def test_a_server_whose_clock_is_set_right_is_ready(tmp_path: Path, postgres_url: str) -> None:
    clock = WrongClock()
    clock.ahead_s = 5.0

    async def case(server: Server, session: aiohttp.ClientSession) -> None:
        assert (await ask(session, "GET", "/readyz"))[0] == 503
        clock.ahead_s = 0.0
        end = datetime.now().astimezone() + timedelta(seconds=30)
        while (await ask(session, "GET", "/readyz"))[0] != 200:
            assert datetime.now().astimezone() < end
            await asyncio.sleep(0.01)

    on_server(tmp_path, postgres_url, clock, case)
