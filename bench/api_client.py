"""A cheap HTTP client: requests as bytes on open sockets, so that the benchmark measures the server."""

import asyncio
import json
import time
from collections.abc import Iterable, Iterator
from typing import Any
from urllib.parse import urlsplit


class Caller:
    """One connection, with one request at a time."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self._host, self._port = str(parts.hostname), int(parts.port or 80)
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def call(self, request: bytes) -> tuple[int, bytes]:
        """Send a request. Returns the status and the body."""
        if self._streams is None:
            self._streams = await asyncio.open_connection(self._host, self._port, limit=1 << 26)
        reader, writer = self._streams
        writer.write(request)
        head = await reader.readuntil(b"\r\n\r\n")
        at = head.index(b"Content-Length: ") + 16
        body = await reader.readexactly(int(head[at : head.index(b"\r", at)]))
        return int(head[9:12]), body

    async def ask(self, method: str, path: str, body: Any = None) -> Any:
        """Send a request, and return the JSON of a successful response."""
        status, raw = await self.call(request(method, path, body))
        if status >= 300:
            raise RuntimeError(f"{method} {path}: {status} {raw[:500]!r}")
        return json.loads(raw)

    async def close(self) -> None:
        """Close the connection."""
        if self._streams is not None:
            self._streams[1].close()
            await self._streams[1].wait_closed()


def request(method: str, path: str, body: Any = None) -> bytes:
    """An HTTP request as bytes."""
    data = b"" if body is None else json.dumps(body).encode()
    kind = "" if body is None else "Content-Type: application/json\r\n"
    head = f"{method} {path} HTTP/1.1\r\nHost: localhost\r\n{kind}Content-Length: {len(data)}\r\n\r\n"
    return head.encode() + data


async def rate(url: str, requests: Iterable[bytes], *, clients: int, status: int) -> float:
    """Requests per second of several clients. Each sends its next request when the last is answered."""
    left: Iterator[bytes] = iter(requests)
    callers = [Caller(url) for _ in range(clients)]

    async def work(caller: Caller) -> int:
        count = 0
        for each in left:
            received, body = await caller.call(each)
            if received != status:
                raise RuntimeError(f"{received} {body[:500]!r}")
            count += 1
        return count

    begin = time.perf_counter()
    counts = await asyncio.gather(*(work(caller) for caller in callers))
    passed_s = time.perf_counter() - begin
    for caller in callers:
        await caller.close()
    return sum(counts) / passed_s


async def times_ms(url: str, path: str, count: int) -> list[float]:
    """The durations of ``count`` requests, sorted."""
    caller = Caller(url)
    sent = request("GET", path)
    durations = []
    for _ in range(count):
        begin = time.perf_counter()
        status, body = await caller.call(sent)
        durations.append((time.perf_counter() - begin) * 1e3)
        if status != 200:
            raise RuntimeError(f"{path}: {status} {body[:500]!r}")
    await caller.close()
    return sorted(durations)
