"""Pooled connections, and one exchange over one of them.

aiohttp's connector dials (resolves, judges, connects, speaks TLS) and keeps connections; its protocol parses what comes
back. The request is written and the answer taken here, without the session, request and response objects in between,
which cost more than the exchange itself.
"""

import asyncio
import socket
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import aiohttp
from aiohttp.abc import AbstractResolver
from aiohttp.client_proto import ResponseHandler
from aiohttp.connector import Connection
from aiohttp.http import HttpProcessingError
from aiohttp.streams import StreamReader
from multidict import CIMultiDictProxy
from yarl import URL

from chronos.engine.runners.http_request import Request

CONNECT_S = 10.0
_KEEP_ALIVE_S = 4.0  # shorter than the five seconds after which many servers hang up
_ORIGINS = 4_096  # kept
_TIMEOUT = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_S)
_WITHOUT_BODY = ("GET", "HEAD", "OPTIONS")  # that need not say that they have none
_REPEATABLE = ("GET", "HEAD", "OPTIONS", "PUT", "DELETE")

#: Makes the socket for an address that is about to be dialled.
MakeSocket = Callable[[tuple[Any, ...]], socket.socket]


class NotHttp(Exception):
    """What came back is no HTTP."""


@dataclass(slots=True)
class Response:
    """The head of an answer, and where its body comes from. Whoever got it reads the body, then calls ``done``."""

    status: int
    headers: CIMultiDictProxy[str]
    content: StreamReader
    _connection: Connection

    def done(self) -> None:
        """Keep the connection if all of the body was read, else close it."""
        if self.content.is_eof():
            self._connection.release()
        else:
            self._connection.close()


class _Protocol(ResponseHandler):
    """As aiohttp's, but whoever reads a body hears at once that it cannot be understood, not when its time is up."""

    def set_exception(self, exc: BaseException, exc_cause: BaseException | None = None) -> None:
        super().set_exception(exc) if exc_cause is None else super().set_exception(exc, exc_cause)
        payload = self._payload
        if payload is not None and payload.exception() is None and not payload.is_eof():
            payload.set_exception(aiohttp.ClientPayloadError("the rest of it is no HTTP"))


class Pool:
    """Connections by origin."""

    def __init__(self, *, limit: int, resolver: AbstractResolver, make_socket: MakeSocket | None) -> None:
        self._connector = aiohttp.TCPConnector(
            limit=limit, keepalive_timeout=_KEEP_ALIVE_S, resolver=resolver, socket_factory=make_socket
        )
        protocol: type[ResponseHandler] = _Protocol
        self._connector._factory = partial(protocol, loop=asyncio.get_running_loop())
        self._origins: dict[tuple[str, str | None, int | None], aiohttp.ClientRequest] = {}

    async def close(self) -> None:
        """Close what is kept."""
        await self._connector.close()

    async def send(self, request: Request) -> Response:
        """Send a request and wait for the head of its answer. Raises aiohttp's errors, ``OSError`` and ``NotHttp``.

        A server may hang up just as a kept connection is used again: what may be repeated is then sent once more.
        """
        text = _written(request)
        try:
            return await self._exchange(request, text)
        except aiohttp.ClientConnectorError:
            raise
        except (aiohttp.ClientOSError, aiohttp.ServerDisconnectedError):
            if request.method not in _REPEATABLE:
                raise
        return await self._exchange(request, text)

    async def _exchange(self, request: Request, text: bytes) -> Response:
        connection = await self._connector.connect(self._origin(request.url), [], _TIMEOUT)
        try:
            protocol, transport = connection.protocol, connection.transport
            if protocol is None or transport is None or transport.is_closing():
                raise aiohttp.ServerDisconnectedError
            protocol.set_response_params(
                skip_payload=request.method == "HEAD", read_until_eof=True, auto_decompress=False
            )
            transport.write(text)
            while True:
                message, content = await protocol.read()
                if not 100 <= message.code <= 199 or message.code == 101:
                    return Response(message.code, message.headers, content, connection)
        except HttpProcessingError as error:
            connection.close()
            raise NotHttp(error.message) from error
        except BaseException:
            connection.close()
            raise

    def _origin(self, url: URL) -> aiohttp.ClientRequest:
        """What the connector wants to know, which is the same for every request to one origin."""
        key = (url.scheme, url.raw_host, url.port)
        origin = self._origins.get(key)
        if origin is None:
            if len(self._origins) >= _ORIGINS:
                self._origins.clear()
            origin = self._origins[key] = aiohttp.ClientRequest("GET", url, loop=asyncio.get_running_loop())
        return origin


def _written(request: Request) -> bytes:
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
