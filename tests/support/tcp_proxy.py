"""A TCP proxy before a PostgreSQL server that can be told to cut, hold or delay what passes."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from urllib.parse import parse_qs, urlsplit


class Proxy:
    """Passes bytes on, until ``cut`` says otherwise."""

    def __init__(self, upstream: str) -> None:
        self._upstream = urlsplit(upstream)
        self._port = 0
        self._server: asyncio.Server | None = None
        self._writers: set[asyncio.StreamWriter] = set()
        self._send: Callable[[bytes], bool] | None = None
        self._before = False
        self._passes = {"up": asyncio.Event(), "down": asyncio.Event()}
        self.resume()
        self.delay_s = 0.0  # which every piece of data waits, in both directions
        self.cuts = 0
        self.url = ""

    def hold(self, *ways: str) -> None:
        """Pass nothing on: questions (``up``), answers (``down``), or both. New connections wait too."""
        for way in ways:
            self._passes[way].clear()

    def resume(self) -> None:
        """Pass on what was held, and all that follows."""
        for passes in self._passes.values():
            passes.set()

    def cut_after(self, sent: Callable[[bytes], bool]) -> None:
        """Cut the connection over which such bytes are sent when the server answers them; the answer is lost."""
        self._send, self._before = sent, False

    def cut_before(self, sent: Callable[[bytes], bool]) -> None:
        """Cut the connection over which such bytes are sent before they reach the server."""
        self._send, self._before = sent, True

    async def start(self) -> None:
        """Begin to listen, on a new port or on the one from before."""
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self._port)
        self._port = self._server.sockets[0].getsockname()[1]
        login = self._upstream.netloc.rpartition("@")[0]
        self.url = f"postgresql://{login}@127.0.0.1:{self._port}{self._upstream.path}"

    def refuse(self) -> None:
        """Take no new connections."""
        if self._server is not None:
            self._server.close()
            self._server = None

    async def stop(self) -> None:
        """Cut everything and listen no more."""
        self.refuse()
        for writer in list(self._writers):
            writer.transport.abort()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        both = {writer}
        self._writers.add(writer)
        try:
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
        doomed = asyncio.Event()

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
                    doomed.set()
                await self._pass("up")
                server_writer.write(data)
                await server_writer.drain()
            server_writer.close()

        async def downward() -> None:
            while data := await server_reader.read(65536):
                if doomed.is_set():
                    cut()
                    return
                await self._pass("down")
                writer.write(data)
                await writer.drain()
            writer.close()

        await asyncio.gather(upward(), downward(), return_exceptions=True)

    async def _pass(self, way: str) -> None:
        if self.delay_s:
            await asyncio.sleep(self.delay_s)
        await self._passes[way].wait()

    async def _connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        host = self._upstream.hostname or parse_qs(self._upstream.query).get("host", ["localhost"])[0]
        port = self._upstream.port or 5432
        if host.startswith("/"):
            return await asyncio.open_unix_connection(f"{host}/.s.PGSQL.{port}")
        return await asyncio.open_connection(host, port)


@asynccontextmanager
async def proxied(upstream: str) -> AsyncIterator[Proxy]:
    """A running proxy before a server."""
    proxy = Proxy(upstream)
    await proxy.start()
    try:
        yield proxy
    finally:
        await proxy.stop()
