"""A TCP proxy in front of a PostgreSQL server, which can cut, hold, delay or encrypt data."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from urllib.parse import parse_qs, urlsplit

_TLS_REQUEST = bytes.fromhex("0000000804d2162f")


class Proxy:
    """Forwards bytes. Tests may cut connections, hold data back or delay it."""

    def __init__(self, upstream: str, tls: ssl.SSLContext | None = None) -> None:
        self._tls = tls  # for clients, as PostgreSQL does it: they ask for TLS first
        self._upstream = urlsplit(upstream)
        self._port = 0
        self._server: asyncio.Server | None = None
        self._writers: set[asyncio.StreamWriter] = set()
        self._send: Callable[[bytes], bool] | None = None
        self._before = False
        self._open = {"up": asyncio.Event(), "down": asyncio.Event()}
        self.resume()
        self.delay_s = 0.0  # of every piece of data, in both directions
        self.cuts = 0
        self.url = ""

    def hold(self, *directions: str) -> None:
        """Hold back requests (``up``), answers (``down``) or both. New connections wait too."""
        for direction in directions:
            self._open[direction].clear()

    def resume(self) -> None:
        """Forward the held data, and everything that follows."""
        for is_open in self._open.values():
            is_open.set()

    def cut_after(self, sent: Callable[[bytes], bool]) -> None:
        """Cut the connection that sends matching bytes when the server answers them. The answer is lost."""
        self._send, self._before = sent, False

    def cut_before(self, sent: Callable[[bytes], bool]) -> None:
        """Cut the connection that sends matching bytes before they reach the server."""
        self._send, self._before = sent, True

    async def start(self) -> None:
        """Listen on a new port, or on the previous one."""
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self._port)
        self._port = self._server.sockets[0].getsockname()[1]
        login = self._upstream.netloc.rpartition("@")[0]
        self.url = f"postgresql://{login}@127.0.0.1:{self._port}{self._upstream.path}"

    def refuse(self) -> None:
        """Accept no new connections."""
        if self._server is not None:
            self._server.close()
            self._server = None

    async def stop(self) -> None:
        """Cut every connection and stop listening."""
        self.refuse()
        for writer in list(self._writers):
            writer.transport.abort()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        both = {writer}
        self._writers.add(writer)
        try:
            if self._tls is not None:
                assert await reader.readexactly(len(_TLS_REQUEST)) == _TLS_REQUEST
                writer.write(b"S")
                await writer.start_tls(self._tls)
            server_reader, server_writer = await self._connect()
            both.add(server_writer)
            self._writers.add(server_writer)
            await self._pass_on(reader, writer, server_reader, server_writer)
        finally:
            for each in both:
                each.transport.abort()
            self._writers -= both

    async def _pass_on(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        server_reader: asyncio.StreamReader,
        server_writer: asyncio.StreamWriter,
    ) -> None:
        answer_is_lost = asyncio.Event()

        def cut() -> None:
            self.cuts += 1
            for each in (writer, server_writer):
                each.transport.abort()

        async def upward() -> None:
            while data := await reader.read(65536):
                if self._send is not None and self._send(data):
                    self._send = None
                    if self._before:
                        cut()
                        return
                    answer_is_lost.set()
                await self._pass("up")
                server_writer.write(data)
                await server_writer.drain()
            server_writer.close()

        async def downward() -> None:
            while data := await server_reader.read(65536):
                if answer_is_lost.is_set():
                    cut()
                    return
                await self._pass("down")
                writer.write(data)
                await writer.drain()
            writer.close()

        await asyncio.gather(upward(), downward(), return_exceptions=True)

    async def _pass(self, direction: str) -> None:
        if self.delay_s:
            await asyncio.sleep(self.delay_s)
        await self._open[direction].wait()

    async def _connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        host = self._upstream.hostname or parse_qs(self._upstream.query).get("host", ["localhost"])[0]
        port = self._upstream.port or 5432
        if host.startswith("/"):
            return await asyncio.open_unix_connection(f"{host}/.s.PGSQL.{port}")
        return await asyncio.open_connection(host, port)


@asynccontextmanager
async def proxied(upstream: str, tls: ssl.SSLContext | None = None) -> AsyncIterator[Proxy]:
    """A running proxy in front of a server."""
    proxy = Proxy(upstream, tls)
    await proxy.start()
    try:
        yield proxy
    finally:
        await proxy.stop()
