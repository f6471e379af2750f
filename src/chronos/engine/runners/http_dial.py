"""From the name of a host to a connection: look it up, judge every address, dial those that may be reached, speak TLS.

The addresses judged are the ones dialled: a name is looked up once for a dial, and nobody else looks it up again.
"""

import asyncio
import logging
import os
import socket
import ssl
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from typing import Any, TypeVar

from aiohappyeyeballs import AddrInfoType, start_connection

from chronos.engine.runners.addresses import Guard, Refused, literal
from chronos.engine.runners.http_connection import NoAnswer

log = logging.getLogger("chronos.engine")
CONNECT_S = 10.0  # TLS and all
_DNS_THREADS = 16  # lookups block, and may hang
_DNS_KEPT_S = 10.0
_NAMES = 4_096  # kept
_NEXT_ADDRESS_S = 0.25  # after which the next address is tried beside one that does not answer

Addresses = Sequence[AddrInfoType]
P = TypeVar("P", bound=asyncio.Protocol)


class Dialler:
    """Makes connections. One for a node; it belongs to the loop on which it was made."""

    def __init__(self, guard: Guard) -> None:
        self._guard = guard
        self._loop = asyncio.get_running_loop()
        self._threads = ThreadPoolExecutor(_DNS_THREADS, thread_name_prefix="chronos-dns")
        self._lookups: dict[str, asyncio.Future[Addresses]] = {}  # under way
        self._names: dict[str, tuple[float, Addresses]] = {}  # until when, and what was found

    def close(self) -> None:
        """Lookups that hang are left to themselves."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def dial(self, scheme: str, host: str, port: int, make: Callable[[], P]) -> P:
        """A connection. Raises ``Refused`` where none of its addresses may be reached, and ``NoAnswer``."""
        try:
            addresses = await self._resolve(host)
        except (OSError, RuntimeError):  # the latter is of a node that shuts down
            raise NoAnswer("dns") from None
        allowed = self._allowed(host, addresses)
        if not allowed:
            raise NoAnswer("dns")
        try:
            async with asyncio.timeout(CONNECT_S):
                return await self._connect(scheme, host, [_with_port(address, port) for address in allowed], make)
        except ssl.SSLError as error:
            raise NoAnswer("tls", str(error)) from error
        except TimeoutError:
            raise NoAnswer("connect", f"none within {CONNECT_S:g} s") from None
        except (OSError, RuntimeError) as error:  # the latter is uvloop's for an address that is none
            raise NoAnswer("connect", _without_address(error)) from error

    async def _connect(self, scheme: str, host: str, addresses: Addresses, make: Callable[[], P]) -> P:
        plug = await start_connection(addresses, happy_eyeballs_delay=_NEXT_ADDRESS_S, loop=self._loop)
        try:
            plug.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            if scheme == "https":
                name = host.rstrip(".")
                _, made = await self._loop.create_connection(make, sock=plug, ssl=_tls(), server_hostname=name)
            else:
                _, made = await self._loop.create_connection(make, sock=plug)
        except BaseException:
            plug.close()
            raise
        return made

    def _allowed(self, host: str, addresses: Addresses) -> list[AddrInfoType]:
        if self._guard.is_open(host):
            return list(addresses)
        allowed: list[AddrInfoType] = []
        refused: list[str] = []
        for address in addresses:
            shown = str(address[4][0])
            try:
                self._guard.check_address(shown)
            except Refused:
                refused.append(shown)
            else:
                allowed.append(address)
        if refused and not allowed:
            log.debug("a webhook was refused", extra={"host": host, "addresses": refused})
            raise self._guard.refusal(host)  # what the name means in here is not for the authors of jobs
        return allowed

    async def _resolve(self, host: str) -> Addresses:
        if literal(host) is not None:
            return _lookup(host, socket.AI_NUMERICHOST)
        until_s, known = self._names.get(host, (0.0, ()))
        if self._loop.time() < until_s:
            return known
        lookup = self._lookups.get(host)
        if lookup is None:
            lookup = self._loop.run_in_executor(self._threads, _lookup, host, socket.AI_ADDRCONFIG)
            self._lookups[host] = lookup
            lookup.add_done_callback(lambda done: self._looked_up(host, done))
        return await asyncio.shield(lookup)  # others may wait for it as well

    def _looked_up(self, host: str, lookup: asyncio.Future[Addresses]) -> None:
        del self._lookups[host]
        if lookup.cancelled() or lookup.exception() is not None:
            return
        if len(self._names) >= _NAMES:
            self._names.clear()
        self._names[host] = (self._loop.time() + _DNS_KEPT_S, lookup.result())


def _without_address(error: OSError | RuntimeError) -> str:
    """Why there is no connection; the message of the error itself names the address that a name resolved to."""
    number = getattr(error, "errno", None)
    return os.strerror(number) if number else "none of its addresses can be connected to"


def _lookup(host: str, flags: int) -> Addresses:
    found: list[Any] = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM, flags=flags)
    return found


def _with_port(address: AddrInfoType, port: int) -> AddrInfoType:
    family, kind, protocol, name, (shown, _, *more) = address
    return family, kind, protocol, name, (shown, port, *more)


@lru_cache(maxsize=1)
def _tls() -> ssl.SSLContext:
    context = ssl.create_default_context()
    context.set_alpn_protocols(["http/1.1"])
    return context
