"""Connections by origin: kept for a while, used again, and never more than so many.

::

    request ─► a place (or wait for one) ─► a kept connection, else dial ─► exchange ─► keep it, or close it
                                                   ▲                           │
                                                   └── it had died meanwhile ◄─┘  only for what may be repeated
"""

import asyncio
from collections import deque

from chronos.engine.runners.http_connection import Connection, NoAnswer, Response
from chronos.engine.runners.http_dial import Dialler
from chronos.engine.runners.http_request import Request

IDLE_TIMEOUT_S = 4.0  # shorter than the five seconds after which many servers hang up
_WITHOUT_BODY = ("GET", "HEAD", "OPTIONS")  # that need not say that they have none
_REPEATABLE = ("GET", "HEAD", "OPTIONS")  # anything else may have had its effect

Origin = tuple[str, str, int]  # scheme, host, port


class Pool:
    """All connections of a node. It belongs to the loop on which it was made."""

    def __init__(
        self, dialler: Dialler, *, limit: int, max_idle: int = 1_000, idle_timeout_s: float = IDLE_TIMEOUT_S
    ) -> None:
        self._dialler = dialler
        self._limit = limit
        self._max_idle, self._idle_timeout_s = max_idle, idle_timeout_s
        self._loop = asyncio.get_running_loop()
        self._idle: dict[Origin, list[Connection]] = {}  # the longest kept first
        self._idle_count = 0
        self._busy = 0  # places taken
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._sweep: asyncio.TimerHandle | None = None
        self._closed = False

    async def close(self) -> None:
        """Close what is kept."""
        self._closed = True
        if self._sweep is not None:
            self._sweep.cancel()
        for kept in tuple(self._idle.values()):
            for connection in kept:
                connection.abort()
        self._idle.clear()
        await asyncio.sleep(0)  # closing takes the loop a turn

    async def send(self, request: Request, room: int) -> Response:
        """The answer to a request, with so many bytes of its body. Raises ``NoAnswer``, ``Refused``, ``ValueError``.

        A server may hang up just as a kept connection is used again: what may be repeated is then sent once more.
        """
        text = written(request)
        url = request.url
        origin = (url.scheme, url.raw_host or "", url.port or 0)
        if self._busy < self._limit:
            self._busy += 1
        else:
            await self._place()
        try:
            kept = self._take(origin)
            if kept is not None:
                try:
                    return await self._exchange(origin, kept, text, request.method, room)
                except NoAnswer as error:
                    if error.kind != "reset" or kept.heard or request.method not in _REPEATABLE:
                        raise
            fresh = await self._dial(origin)
            return await self._exchange(origin, fresh, text, request.method, room)
        finally:
            self._leave()

    async def _exchange(self, origin: Origin, connection: Connection, text: bytes, method: str, room: int) -> Response:
        try:
            response = await connection.send(text, without_body=method == "HEAD", room=room)
        except BaseException:
            connection.abort()
            raise
        if connection.reusable and not self._closed and connection.is_open:
            self._keep(origin, connection)
        else:
            connection.abort()
        return response

    # --- places

    async def _place(self) -> None:
        """Wait for one, in order."""
        turn: asyncio.Future[None] = self._loop.create_future()
        self._waiting.append(turn)
        try:
            await turn
        except BaseException:
            if turn.done() and not turn.cancelled():
                self._leave()  # it was given one, and does not want it any more
            raise

    def _leave(self) -> None:
        """Give a place to whoever waits longest."""
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(None)
                return
        self._busy -= 1

    # --- connections

    async def _dial(self, origin: Origin) -> Connection:
        while self._idle_count and self._busy + self._idle_count > self._limit:
            self._drop_longest_kept()
        return await self._dialler.dial(*origin, lambda: Connection(lambda lost: self._lost(origin, lost)))

    def _take(self, origin: Origin) -> Connection | None:
        """One that is kept, the youngest first: the others grow old and go."""
        kept = self._idle.get(origin)
        since_s = self._loop.time() - self._idle_timeout_s
        while kept:
            connection = kept.pop()
            self._idle_count -= 1
            if connection.is_open and connection.idle_since_s > since_s:
                return connection
            connection.abort()
        return None

    def _keep(self, origin: Origin, connection: Connection) -> None:
        connection.idle_since_s = self._loop.time()
        kept = self._idle.get(origin)
        if kept is None:
            kept = self._idle[origin] = []
        kept.append(connection)
        self._idle_count += 1
        if self._idle_count > self._max_idle:
            self._drop_longest_kept()
        if self._sweep is None:
            self._sweep = self._loop.call_later(self._idle_timeout_s, self._drop_old)

    def _lost(self, origin: Origin, connection: Connection) -> None:
        kept = self._idle.get(origin)
        if kept is not None and connection in kept:
            kept.remove(connection)
            self._idle_count -= 1

    def _drop_old(self) -> None:
        since_s = self._loop.time() - self._idle_timeout_s
        self._sweep = None
        for origin, kept in tuple(self._idle.items()):
            while kept and kept[0].idle_since_s <= since_s:
                self._idle_count -= 1
                kept.pop(0).abort()
            if not kept:
                del self._idle[origin]
        if self._idle:
            oldest_s = min(kept[0].idle_since_s for kept in self._idle.values())
            self._sweep = self._loop.call_at(oldest_s + self._idle_timeout_s, self._drop_old)

    def _drop_longest_kept(self) -> None:
        kept = min((kept for kept in self._idle.values() if kept), key=lambda kept: kept[0].idle_since_s)
        self._idle_count -= 1
        kept.pop(0).abort()


def written(request: Request) -> bytes:
    """As it goes over the wire. Raises ``ValueError`` where a header would become two."""
    lines = [f"{request.method} {request.url.raw_path_qs} HTTP/1.1", f"Host: {request.url.host_port_subcomponent}"]
    lines += [f"{name}: {value}" for name, value in request.headers.items()]
    body = request.body or b""
    if body or request.method not in _WITHOUT_BODY:
        lines.append(f"Content-Length: {len(body)}")
    text = "\r\n".join(lines)
    if text.count("\n") != len(lines) - 1 or text.count("\r") != len(lines) - 1 or "\0" in text:
        raise ValueError("a header has a line break or a NUL in it")
    return text.encode() + b"\r\n\r\n" + body
