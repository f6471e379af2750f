"""The address of a client behind trusted proxies, and the group that an address is counted in.

::

    client ──► proxy B ──► proxy A ──► this server
               X-Forwarded-For: client, B          the peer is A

The peer's address is certain. If the peer is a trusted proxy, the last forwarded address is what that proxy saw, and so
on from right to left. The first address that is not a trusted proxy is the client. Addresses further left were sent by
the client itself and prove nothing.
"""

import ipaddress
import re
from collections.abc import Iterable, Sequence
from functools import lru_cache

from multidict import CIMultiDictProxy, istr

Address = ipaddress.IPv4Address | ipaddress.IPv6Address

_X_FORWARDED_FOR, _FORWARDED = istr("X-Forwarded-For"), istr("Forwarded")
_PREFIX = 64  # bits of an IPv6 address that identify one customer
_BRACKETED = re.compile(r"\[([^\]]+)\](?::\d{1,5})?", re.ASCII)
_WITH_PORT = re.compile(r"([0-9.]+):\d{1,5}", re.ASCII)
_HOP = re.compile(r'(?:[^,"]|"(?:[^"\\]|\\.)*")+')  # a comma within quotes is not a separator
_PAIR = re.compile(r'(?:[^;"]|"(?:[^"\\]|\\.)*")+')


class Proxies:
    """The trusted proxies: addresses, and networks such as ``10.0.0.0/8``."""

    def __init__(self, trusted: Iterable[str] = ()) -> None:
        self._trusted = tuple(ipaddress.ip_network(text) for text in trusted)

    def client(self, peer: str, headers: CIMultiDictProxy[str]) -> str:
        """Return the address of the client whose request ``peer`` sent.

        If ``X-Forwarded-For`` and ``Forwarded`` name different clients, the client forged one of them; the peer is
        returned.
        """
        if not self._trusted or not self._is_trusted(_parse(peer)):
            return peer
        if _X_FORWARDED_FOR not in headers and _FORWARDED not in headers:
            return peer
        named = {
            self._first_untrusted(peer, hops)
            for hops in (
                _read_x_forwarded_for(headers.getall(_X_FORWARDED_FOR, [])),
                _read_forwarded(headers.getall(_FORWARDED, [])),
            )
            if hops
        }
        return named.pop() if len(named) == 1 else peer

    def _first_untrusted(self, peer: str, hops: Sequence[str]) -> str:
        """Return the client from the forwarded hops. An unreadable hop ends the search at the proxy that sent it."""
        client = peer
        for hop in reversed(hops):
            address = _parse(hop)
            if address is None:
                return client
            client = str(address)
            if not self._is_trusted(address):
                return client
        return client

    def _is_trusted(self, address: Address | None) -> bool:
        return address is not None and any(address in network for network in self._trusted)


@lru_cache(maxsize=4_096)
def to_address_group(address: str) -> str:
    """Return the unit that limits count: the IPv4 address, or the /64 network of an IPv6 address."""
    parsed = _parse(address)
    if parsed is None or isinstance(parsed, ipaddress.IPv4Address):
        return address if parsed is None else str(parsed)
    return str(ipaddress.ip_network((parsed, _PREFIX), strict=False))


def _parse(text: str) -> Address | None:
    """Parse an address with or without brackets, port and zone. IPv4 within IPv6 becomes IPv4."""
    text = text.strip()
    if match := _BRACKETED.fullmatch(text) or _WITH_PORT.fullmatch(text):
        text = match[1]
    try:
        parsed = ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return None
    if isinstance(parsed, ipaddress.IPv6Address) and parsed.ipv4_mapped is not None:
        return parsed.ipv4_mapped
    return parsed


def _read_x_forwarded_for(values: Sequence[str]) -> list[str]:
    return [hop for value in values for hop in value.split(",")]


def _read_forwarded(values: Sequence[str]) -> list[str]:
    """Return the ``for`` of each hop (RFC 7239); empty, and so unreadable, if a hop has none."""
    return [_read_for(hop) for value in values for hop in _HOP.findall(value)]


def _read_for(hop: str) -> str:
    for pair in _PAIR.findall(hop):
        name, _, value = pair.partition("=")
        if name.strip().lower() == "for":
            return str(value).strip().strip('"')
    return ""
