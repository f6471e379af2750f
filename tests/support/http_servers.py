"""A scripted HTTP server for the tests of webhooks, and one call to it."""

import asyncio
import base64
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from chronos.core.outcome import Failed, Outcome
from chronos.runners.contract import AttemptCall
from chronos.runners.http.runner import HttpRunner
from tests.support.target_calls import make_call

Handler = Callable[["Seen", asyncio.StreamWriter], Awaitable[None]]
SECRETS = {"TOKEN": "t0p/s3cr3t", "SIGNING": "whsec_" + base64.b64encode(b"k" * 24).decode(), "BAD": "a\r\nb"}


class Seen:
    """A request as the server received it."""

    def __init__(self, line: str, headers: dict[str, str], body: bytes) -> None:
        self.method, self.target, _ = line.split(" ")
        self.headers = headers
        self.body = body


class Server:
    """Sends what the handler writes, and keeps the requests."""

    def __init__(self, handler: Handler) -> None:
        self._handler = handler
        self._tasks: set[asyncio.Task[None]] = set()
        self.seen: list[Seen] = []
        self.connections = 0
        self.done = 0  # finished requests

    async def __aenter__(self) -> "Server":
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        self.connections += 1
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                line, *lines = head.decode().rstrip("\r\n").split("\r\n")
                headers = {name.lower(): value.strip() for name, _, value in (each.partition(":") for each in lines)}
                body = await reader.readexactly(int(headers.get("content-length", 0)))
                self.seen.append(Seen(line, headers, body))
                try:
                    await self._handler(self.seen[-1], writer)
                    await writer.drain()
                finally:
                    self.done += 1
        except (OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        finally:
            writer.close()


def answer(status: int = 200, body: bytes = b"", kind: str = "text/plain", **headers: str) -> Handler:
    lines = [f"HTTP/1.1 {status} X", f"Content-Length: {len(body)}", f"Content-Type: {kind}"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    response = "\r\n".join(lines).encode() + b"\r\n\r\n" + body

    async def handler(seen: Seen, writer: asyncio.StreamWriter) -> None:
        writer.write(response)

    return handler


def run(
    handler: Handler, options: Mapping[str, Any], runner: Mapping[str, Any] | None = None, **changes: Any
) -> tuple[Outcome, AttemptCall, list[Seen]]:
    """Make one call to a server. ``URL`` in the options stands for its address."""

    async def main() -> tuple[Outcome, AttemptCall, list[Seen]]:
        async with Server(handler) as server:
            settings: dict[str, Any] = {"allow_private": True, "secrets": SECRETS.get}
            http_runner = HttpRunner(**(settings | dict(runner or {})))
            options_with_url = {**options, "url": options.get("url", "URL/hook").replace("URL", server.url)}
            call = make_call(options_with_url, **changes)
            try:
                http_runner.check(options_with_url)
                return await http_runner.run(call), call, server.seen
            finally:
                await http_runner.close()

    return asyncio.run(main())


def failed(outcome: Outcome) -> Failed:
    assert isinstance(outcome, Failed)
    return outcome
