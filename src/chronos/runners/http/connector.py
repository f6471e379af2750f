"""Connections of the HTTP client: which addresses are dialled, and which connections are reused.

aiohttp keeps connections and closes idle ones. This module adds: only checked addresses are dialled, the number of idle
connections is bounded, and a connection is reused only while it is young, while the server promised to keep it, and if
the server sent nothing unrequested.
"""

import asyncio
import logging
import socket
from concurrent.futures import Executor
from contextvars import ContextVar
from typing import Any

from aiohttp import AddrInfoType, ClientRequest, TCPConnector
from aiohttp.abc import AbstractResolver, ResolveResult
from aiohttp.connector import Connection

from chronos.runners.http.address_guard import AddressGuard, AddressRefused

log = logging.getLogger("chronos.engine")
_DNS_CACHE_S = 10


class ConnectionUse:
    """The use of a connection by one exchange."""

    __slots__ = ("fresh", "reused", "transport")

    def __init__(self, *, fresh: bool = False) -> None:
        self.fresh = fresh  # use a new connection only
        self.reused = False  # the connection had been used before
        self.transport: asyncio.Transport | None = None


current_use: ContextVar[ConnectionUse] = ContextVar("current_use")


class GuardedConnector(TCPConnector):
    """Dials only addresses that the guard allows, and returns only connections that may still be used."""

    def __init__(
        self, guard: AddressGuard, threads: Executor, idle_timeout_s: float, known: "KnownConnections"
    ) -> None:
        super().__init__(
            limit=0,  # the client limits concurrent exchanges
            keepalive_timeout=idle_timeout_s,
            resolver=_GuardedResolver(guard, threads),
            ttl_dns_cache=_DNS_CACHE_S,
            socket_factory=_make_socket,
        )
        self.known_connections = known

    async def connect(self, req: ClientRequest, *args: Any, **options: Any) -> Connection:
        use = current_use.get()
        while True:
            connection = await super().connect(req, *args, **options)
            protocol = connection.protocol
            assert protocol is not None
            if self.known_connections.take(connection.transport, use, spoiled=protocol.should_close):
                return connection
            connection.close()


class KnownConnections:
    """Open connections: when each was made, which exchange uses it, and until when it may be used."""

    def __init__(self, *, max_idle: int, idle_timeout_s: float, max_age_s: float) -> None:
        self._max_idle, self._idle_timeout_s, self._max_age_s = max_idle, idle_timeout_s, max_age_s
        self._now_s = asyncio.get_running_loop().time
        self._busy: dict[asyncio.Transport, tuple[ConnectionUse, float]] = {}  # and when it expires
        self._idle: dict[
            asyncio.Transport, tuple[float, float]
        ] = {}  # (usable_until_s, expires_s), the longest idle first

    def take(self, transport: asyncio.Transport | None, use: ConnectionUse, *, spoiled: bool) -> bool:
        """Return whether an exchange may use a connection that aiohttp dialled or kept."""
        assert transport is not None
        idle, busy = self._idle.pop(transport, None), self._busy.get(transport)
        now_s = self._now_s()
        if idle is not None:
            usable_until_s, expires_s = idle
        elif busy is not None:  # aiohttp has it back, but its last exchange has not released it yet
            usable_until_s = expires_s = busy[1]
        else:
            usable_until_s = expires_s = now_s + self._max_age_s
        use.reused = idle is not None or busy is not None
        if use.reused and (use.fresh or spoiled or now_s >= usable_until_s):
            return False
        use.transport = transport
        self._busy[transport] = use, expires_s
        return True

    def release(self, use: ConnectionUse, keep_alive_s: float | None) -> None:
        """End an exchange. ``keep_alive_s`` is how long the server promised to keep the connection, if it did."""
        transport = use.transport
        if transport is None or (busy := self._busy.get(transport)) is None or busy[0] is not use:
            return  # the next exchange has it already
        del self._busy[transport]
        expires_s = busy[1]
        if not transport.is_closing():
            idle_s = self._idle_timeout_s if keep_alive_s is None else min(self._idle_timeout_s, keep_alive_s)
            self._idle[transport] = min(self._now_s() + idle_s, expires_s), expires_s
        while self._idle and (len(self._idle) > self._max_idle or next(iter(self._idle)).is_closing()):
            oldest = next(iter(self._idle))
            del self._idle[oldest]
            oldest.abort()


class _GuardedResolver(AbstractResolver):
    """Resolves names to those of their addresses that jobs may reach."""

    def __init__(self, guard: AddressGuard, threads: Executor) -> None:
        self._guard = guard
        self._threads = threads

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        """Return the addresses to dial. Raises ``OSError``, or ``AddressRefused`` if none of them is allowed."""
        try:
            addresses = await asyncio.get_running_loop().run_in_executor(self._threads, _look_up, host, port, family)
        except RuntimeError as error:  # the node shuts down
            raise OSError(str(error)) from error
        if self._guard.is_unrestricted(host):
            return addresses
        allowed: list[ResolveResult] = []
        refused: list[str] = []
        for address in addresses:
            try:
                self._guard.check_address(address["host"])
            except AddressRefused:
                refused.append(address["host"])
            else:
                allowed.append(address)
        if refused and not allowed:
            log.debug("a webhook was refused", extra={"host": host, "addresses": refused})
            raise self._guard.to_refused_error(host)  # authors of jobs must not learn internal addresses
        return allowed

    async def close(self) -> None:
        """No-op: the client owns the threads."""


def _look_up(host: str, port: int, family: int) -> list[ResolveResult]:
    results = socket.getaddrinfo(host, port, family, socket.SOCK_STREAM, flags=socket.AI_ADDRCONFIG)
    return [
        {
            "hostname": host,
            "host": f"{name[0]}%{name[3]}" if len(name) > 3 and name[3] else str(name[0]),
            "port": port,
            "family": kind,
            "proto": protocol,
            "flags": socket.AI_NUMERICHOST | socket.AI_NUMERICSERV,
        }
        for kind, _, protocol, _, name in results
    ]


def _make_socket(address: AddrInfoType) -> socket.socket:
    sock = socket.socket(*address[:3])
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    return sock
