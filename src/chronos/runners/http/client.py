"""HttpClient: aiohttp's client with checked addresses and bounded responses.

::

    request ─► a slot (or wait for one) ─► a kept connection, else dial ─► exchange ─► bounded response
                                                  ▲                           │
                                                  └── it had died meanwhile ◄─┘  only for repeatable methods
"""

import asyncio
import os
import re
import ssl
from concurrent.futures import ThreadPoolExecutor

from aiohttp import (
    ClientConnectorDNSError,
    ClientConnectorError,
    ClientError,
    ClientHandlerType,
    ClientOSError,
    ClientPayloadError,
    ClientRequest,
    ClientResponse,
    ClientResponseError,
    ClientSession,
    ClientSSLError,
    ClientTimeout,
    DummyCookieJar,
    InvalidURL,
    ServerDisconnectedError,
    ServerTimeoutError,
    StreamReader,
)

from chronos.runners.http.address_guard import AddressGuard
from chronos.runners.http.connector import ConnectionUse, GuardedConnector, KnownConnections, current_use
from chronos.runners.http.request import Request
from chronos.runners.http.response import Response

IDLE_TIMEOUT_S = 4.0  # many servers close idle connections after five seconds
MAX_AGE_S = 60.0  # of a connection, and of the loaded certificate authorities
MAX_HEADER_BYTES = 1 << 16
MAX_HEADERS = 256
_CONNECT_TIMEOUT_S = 10  # including TLS
_LOOKUP_THREADS = 16  # lookups block and may hang
_KEEP_ALIVE_MARGIN_S = 1.0  # a connection is dropped this long before the server closes it
_KEEP_ALIVE_TIMEOUT_PATTERN = re.compile(r"timeout\s*=\s*\"?(\d{1,9})", re.ASCII | re.IGNORECASE)
_REPEATABLE_METHODS = ("GET", "HEAD", "OPTIONS")  # other methods may have had an effect
_NEVER_REPEATED_METHODS = ("POST", "PATCH")  # aiohttp repeats only idempotent methods
_AIOHTTP_AUTO_HEADERS = ("Accept", "Accept-Encoding", "Content-Type", "User-Agent")  # unless a request sets them


class NoResponse(Exception):
    """The server sent no complete response. ``kind`` is dns, connect, tls, reset or protocol."""

    def __init__(self, kind: str, message: str = "", *, received_nothing: bool = False) -> None:
        super().__init__(message)
        self.kind = kind
        self.received_nothing = received_nothing  # the server closed the connection without sending a byte


class HttpClient:
    """Sends the HTTP requests of a node over reused connections.

    It belongs to the event loop on which it was created.
    """

    def __init__(
        self, guard: AddressGuard, *, max_exchanges: int, max_idle: int, idle_timeout_s: float, max_age_s: float
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._exchange_slots = asyncio.Semaphore(max_exchanges)
        self._exchanges = 0
        self._closed = False
        self._threads = ThreadPoolExecutor(_LOOKUP_THREADS, thread_name_prefix="chronos-http")
        self._max_age_s = max_age_s
        self._ssl_context: asyncio.Future[ssl.SSLContext] | None = None
        self._ssl_context_until_s = 0.0
        self._connections = KnownConnections(
            max_idle=min(max_idle, max_exchanges) if idle_timeout_s else 0,
            idle_timeout_s=idle_timeout_s,
            max_age_s=max_age_s,
        )
        self._session = ClientSession(
            connector=GuardedConnector(guard, self._threads, idle_timeout_s, self._connections),
            cookie_jar=DummyCookieJar(),
            skip_auto_headers=_AIOHTTP_AUTO_HEADERS,
            auto_decompress=False,
            timeout=ClientTimeout(total=None, sock_connect=_CONNECT_TIMEOUT_S),
            max_line_size=MAX_HEADER_BYTES,
            max_field_size=MAX_HEADER_BYTES,
            max_headers=MAX_HEADERS,
        )

    async def close(self) -> None:
        """Close the client.

        While exchanges run it returns at once, and the last exchange closes the connections.
        """
        self._closed = True
        self._threads.shutdown(wait=False, cancel_futures=True)  # hanging lookups are abandoned
        if not self._exchanges:
            await self._session.close()

    async def send(self, request: Request, max_bytes: int) -> Response:
        """Send a request and return the response with up to ``max_bytes`` of its body.

        A server may close a kept connection just as it is used again; a repeatable request is then sent once more.
        Raises ``NoResponse`` without a complete response, ``AddressRefused`` for a forbidden address, ``ValueError``
        for an invalid request.
        """
        self._exchanges += 1
        try:
            async with self._exchange_slots:
                use = ConnectionUse()
                try:
                    return await self._exchange(use, request, max_bytes)
                except NoResponse as error:
                    if not (error.received_nothing and use.reused and request.method in _REPEATABLE_METHODS):
                        raise
                return await self._exchange(ConnectionUse(fresh=True), request, max_bytes)
        finally:
            self._exchanges -= 1
            if self._closed and not self._exchanges:
                await self._session.close()

    async def _exchange(self, use: ConnectionUse, request: Request, max_bytes: int) -> Response:
        current_use.set(use)
        keep_alive_s = None
        try:
            response = await self._session.request(
                request.method,
                request.url,
                headers=request.headers,
                data=request.body or None,
                allow_redirects=False,
                ssl=await self._get_ssl_context() if request.url.scheme == "https" else True,
                middlewares=() if request.method in _NEVER_REPEATED_METHODS else (_send_once,),
            )
            try:
                body, cut = await _read(response, max_bytes)
            finally:
                response.close()  # closes the connection, unless the response was read to its end
            if (
                keep_alive_match := _KEEP_ALIVE_TIMEOUT_PATTERN.search(response.headers.get("Keep-Alive", ""))
            ) is not None:
                keep_alive_s = int(keep_alive_match[1]) - _KEEP_ALIVE_MARGIN_S
            return Response(response.status, response.raw_headers, body, cut)
        except InvalidURL:  # it is a ValueError and a ClientError
            raise
        except (ClientError, OSError, RuntimeError) as error:
            raise _to_no_response(error) from error
        finally:
            self._connections.release(use, keep_alive_s)

    async def _get_ssl_context(self) -> ssl.SSLContext:
        """Return the machine's certificate authorities. A connection made with other ones is not reused."""
        now_s = self._loop.time()
        if self._ssl_context is None or now_s >= self._ssl_context_until_s:
            self._ssl_context = self._loop.run_in_executor(self._threads, _load_ssl_context)
            self._ssl_context_until_s = now_s + self._max_age_s
        return await asyncio.shield(self._ssl_context)


async def _send_once(request: ClientRequest, send: ClientHandlerType) -> ClientResponse:
    """Keep aiohttp from repeating a request: it would repeat PUT and DELETE, even after half a response.

    It repeats after two errors, so this middleware turns them into one that aiohttp does not know.
    """
    try:
        return await send(request)
    except ClientConnectorError:
        raise
    except (ServerDisconnectedError, ClientOSError) as error:
        raise _to_no_response(error) from error


async def _read(response: ClientResponse, max_bytes: int) -> tuple[bytes, bool]:
    """Return the body up to ``max_bytes``, and whether there was more."""
    connection = response.connection
    if connection is None:  # the body is complete
        return await _read_up_to(response.content, max_bytes)
    protocol = connection.protocol
    assert protocol is not None
    closed = protocol.closed
    if closed is None:
        return await _read_up_to(response.content, max_bytes)

    def fail_reader(_: object) -> None:
        """Wake the reader: aiohttp reports a body that cannot be parsed only to the connection."""
        if not response.content.is_eof():
            response.content.set_exception(ClientPayloadError("the connection is closed"))

    closed.add_done_callback(fail_reader)
    try:
        return await _read_up_to(response.content, max_bytes)
    finally:
        closed.remove_done_callback(fail_reader)


async def _read_up_to(content: StreamReader, max_bytes: int) -> tuple[bytes, bool]:
    body = bytearray()
    while piece := await content.read(max_bytes + 1 - len(body)):
        body += piece
        if len(body) > max_bytes:
            return bytes(body), True
    return bytes(body), False


def _to_no_response(error: Exception) -> NoResponse:
    match error:
        case ClientConnectorDNSError():
            return NoResponse("dns")
        case ClientSSLError():
            return NoResponse("tls", str(error.__cause__))
        case ServerTimeoutError():
            return NoResponse("connect", f"not established within {_CONNECT_TIMEOUT_S} s")
        case ClientResponseError():
            return NoResponse("protocol", " ".join(error.message.partition("\n\n")[0].split()))
        case ClientPayloadError():
            return NoResponse("reset")
        case ServerDisconnectedError():  # the message is text, or the part of the response that was received
            return NoResponse("reset", received_nothing=isinstance(error.message, str))
        case ClientOSError() if not isinstance(error, ClientConnectorError):
            return NoResponse("reset", received_nothing=True)
        case OSError(errno=int(number)):
            return NoResponse("connect", os.strerror(number))  # the original message contains the address
        case _:  # including uvloop's RuntimeError for an unreachable address
            return NoResponse("connect", "none of its addresses accepts a connection")


def _load_ssl_context() -> ssl.SSLContext:
    context = ssl.create_default_context()
    context.set_alpn_protocols(["http/1.1"])
    return context
