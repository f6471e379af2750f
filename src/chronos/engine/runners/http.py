"""The ``http`` target: one request, and what came of it.

::

    check options ─► build request ─► judge host ─► dial only judged addresses ─► keep a bounded answer ─► outcome
                          ▲                                                               │
                          └────────────── a redirect, when they are asked for ◄───────────┘

Two connection pools: one that reaches public addresses only, whatever a name resolves to, and one for the hosts that
configuration opens. The check sits where the socket is made, so the address judged is the address dialled.
"""

import asyncio
import socket
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult

from chronos.core.calendar import SECOND_US
from chronos.core.outcome import Failed, Outcome, Succeeded, TimedOut
from chronos.engine.runners import http_options
from chronos.engine.runners import options as read
from chronos.engine.runners.addresses import Guard, Refused
from chronos.engine.runners.contract import Call
from chronos.engine.runners.http_options import SUCCESS, WORTH_RETRYING
from chronos.engine.runners.http_request import Request, after_redirect, build
from chronos.engine.runners.http_response import Answer, capture
from chronos.engine.runners.templates import Secrets, no_secrets
from chronos.errors import Invalid, NotFound

_CONNECT_S = 10.0
_KEEP_ALIVE_S = 4.0  # shorter than the five seconds after which many servers hang up
_DNS_THREADS = 16  # lookups block, and may hang
_REDIRECTS = (301, 302, 303, 307, 308)


class HttpRunner:
    """Makes requests. One for a node: its pools are shared by all calls, and nothing else is."""

    def __init__(
        self,
        *,
        allow_private: bool = False,
        allow_hosts: Sequence[str] = (),
        timeout_s: float = 30.0,
        secrets: Secrets = no_secrets,
        max_connections: int = 1_000,
    ) -> None:
        self._guard = Guard(allow_private=allow_private, allow_hosts=allow_hosts)
        self._timeout_s = timeout_s  # where no level sets one
        self._secrets = secrets
        self._max_connections = max_connections
        self._sessions: dict[bool, aiohttp.ClientSession] = {}  # by whether any address may be dialled
        self._resolver: _Resolver | None = None

    def check(self, options: Mapping[str, Any]) -> None:
        http_options.check(options, self._guard)

    async def run(self, call: Call) -> Outcome:
        try:
            request = build(call, self._secrets, self._guard)
        except NotFound as error:
            return Failed(error=str(error), kinds=("secret",))
        except Invalid as error:
            return Failed(error=str(error), kinds=("request",), worth_retrying=False)
        except Refused as error:
            return _refused(error)
        return await self._within_time(call, request)

    async def close(self) -> None:
        sessions, self._sessions = list(self._sessions.values()), {}
        for session in sessions:
            await session.close()
        if self._resolver is not None:
            await self._resolver.close()
            self._resolver = None

    async def _within_time(self, call: Call, request: Request) -> Outcome:
        """Ends when it is asked to stop, or when a time of its own is up; both close the connection."""
        limit_s = self._limit_s(call)
        loop = asyncio.get_running_loop()
        limit = asyncio.timeout(limit_s)
        over = False

        def stop() -> None:
            if not over:
                limit.reschedule(loop.time())

        try:
            async with limit:
                call.stop.on_ask(stop)
                return await self._exchange(call, request)
        except TimeoutError:
            if call.stop.asked:
                return Failed(error="it was asked to stop before the answer was complete", kinds=("stopped",))
            return TimedOut(error=f"there was no complete answer within {limit_s:g} s")
        finally:
            over = True

    def _limit_s(self, call: Call) -> float | None:
        if "timeout" in call.options:
            return read.duration_us("http.timeout", call.options["timeout"]) / SECOND_US
        return None if call.timeout_said else self._timeout_s

    async def _exchange(self, call: Call, request: Request) -> Outcome:
        left = http_options.redirects(call.options)
        try:
            while True:
                async with self._session(request).request(
                    request.method,
                    request.url,
                    headers=request.headers,
                    data=request.body,
                    allow_redirects=False,
                ) as response:
                    answer = await capture(response, request.mask)
                    location = response.headers.get("Location")
                call.detail["response"] = answer.record()
                if left == 0 or answer.status not in _REDIRECTS or location is None:
                    return _judge(call.options, answer, followed="redirects" in call.options)
                left -= 1
                request = after_redirect(request, answer.status, location, self._guard)
        except Refused as error:
            return _refused(error, request)
        except (Invalid, ValueError) as error:
            return Failed(error=request.mask(str(error)), kinds=("request",), worth_retrying=False)
        except (aiohttp.ClientError, OSError) as error:
            return _unreachable(request, error)

    def _session(self, request: Request) -> aiohttp.ClientSession:
        """The pool for this request's host; made on first use, as it belongs to the running loop."""
        opened = self._guard.is_open(request.url.host or "")
        session = self._sessions.get(opened)
        if session is None:
            if self._resolver is None:
                self._resolver = _Resolver()
            connector = aiohttp.TCPConnector(
                limit=self._max_connections,
                keepalive_timeout=_KEEP_ALIVE_S,
                resolver=self._resolver,
                socket_factory=None if opened else self._socket,
            )
            session = self._sessions[opened] = aiohttp.ClientSession(
                connector=connector,
                cookie_jar=aiohttp.DummyCookieJar(),
                timeout=aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT_S),
                auto_decompress=False,
                trust_env=False,
            )
        return session

    def _socket(self, address: tuple[Any, ...]) -> socket.socket:
        """The socket for an address that is about to be dialled: the last place where it can be judged."""
        family, kind, protocol, _, target = address
        self._guard.check_address(str(target[0]))
        return socket.socket(family, kind, protocol)


class _Resolver(AbstractResolver):
    """The system's resolver, in threads of its own: lookups that hang keep nobody else waiting."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(_DNS_THREADS, thread_name_prefix="chronos-dns")

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        loop = asyncio.get_running_loop()
        found = await loop.run_in_executor(self._threads, _lookup, host, port, family)
        return [
            ResolveResult(
                hostname=host,
                host=str(address[0]),
                port=port,
                family=family,
                proto=protocol,
                flags=socket.AI_NUMERICHOST | socket.AI_NUMERICSERV,
            )
            for family, _, protocol, _, address in found
        ]

    async def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)


def _lookup(host: str, port: int, family: int) -> Sequence[tuple[Any, ...]]:
    return socket.getaddrinfo(host, port, family=family, type=socket.SOCK_STREAM, flags=socket.AI_ADDRCONFIG)


def _judge(options: Mapping[str, Any], answer: Answer, *, followed: bool) -> Outcome:
    status = answer.status
    if status in http_options.codes("success_codes", options, SUCCESS):
        return Succeeded(result=answer.result())
    error = f"the server answered {status}"
    if status in _REDIRECTS:
        error += "; too many redirects" if followed else '; redirects are followed only with the option "redirects"'
    elif answer.body:
        error += f": {' '.join(answer.body[:400].split())[:200]}"
    return Failed(
        error=error,
        kinds=(f"http_{status}", f"http_{status // 100}xx"),
        worth_retrying=status in http_options.codes("retry_codes", options, WORTH_RETRYING),
    )


def _refused(error: Refused, request: Request | None = None) -> Failed:
    shown = str(error) if request is None else request.mask(str(error))
    return Failed(error=f"the request was not made: {shown}", kinds=("address",), worth_retrying=False)


def _unreachable(request: Request, error: Exception) -> Failed:
    """No answer, or half of one: the network's fault or the server's, and so worth another try."""
    match error:
        case aiohttp.ClientConnectorDNSError():
            kind, said = "dns", f"the name {request.url.host} could not be resolved"
        case aiohttp.ClientConnectorCertificateError() | aiohttp.ClientSSLError():
            kind, said = "tls", f"no secure connection to {request.url.host}: {error}"
        case aiohttp.ServerDisconnectedError() | aiohttp.ClientPayloadError() | ConnectionResetError():
            kind, said = "reset", f"{request.url.host} closed the connection before the answer was complete"
        case aiohttp.ClientResponseError():
            kind, said = "protocol", f"what {request.url.host} answered is not HTTP: {error.message}"
        case TimeoutError():
            kind, said = "connect", f"no connection to {request.url.host} within {_CONNECT_S:g} s"
        case _:
            kind, said = "connect", f"no connection to {request.url.host}: {error}"
    return Failed(error=request.mask(said)[:1_000], kinds=("connection", kind))
