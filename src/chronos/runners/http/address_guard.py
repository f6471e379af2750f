"""AddressGuard: decides which addresses jobs may reach. By default only those of the public internet.

A host is checked when a job is saved, if its text is already an address. Every address is checked again when it is
dialled, whatever the name resolved to. ``ipaddress.is_global`` is not used: its result differs between versions of
Python, and includes multicast, relays and addresses that embed a private one.
"""

import socket
from collections.abc import Sequence
from functools import lru_cache
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

from chronos.errors import Invalid

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

_V4_REFUSED = tuple(
    map(
        IPv4Network,
        (
            "0.0.0.0/8",  # this network; connects to loopback
            "10.0.0.0/8",
            "100.64.0.0/10",  # carrier-grade NAT
            "127.0.0.0/8",
            "168.63.129.16/32",  # internal services of a cloud, at a public address
            "169.254.0.0/16",  # link-local; cloud metadata
            "172.16.0.0/12",
            "192.0.0.0/24",
            "192.0.2.0/24",
            "192.88.99.0/24",  # 6to4 relays
            "192.168.0.0/16",
            "198.18.0.0/15",
            "198.51.100.0/24",
            "203.0.113.0/24",
            "224.0.0.0/4",
            "240.0.0.0/4",
        ),
    )
)
_V6_PUBLIC = IPv6Network("2000::/3")  # everything allocated so far
_V6_REFUSED = tuple(map(IPv6Network, ("2001::/23", "2001:db8::/32", "3fff::/20")))  # the first includes Teredo
_IPV4_MAPPED_NETWORK = IPv6Network("::ffff:0:0/96")
_NAT64 = IPv6Network("64:ff9b::/96")
_SIX_TO_FOUR = IPv6Network("2002::/16")
_ISATAP = (0x00005EFE, 0x02005EFE)
_LOCAL_NAMES = ("localhost", "localhost.localdomain", "ip6-localhost", "ip6-loopback")


class AddressRefused(Exception):
    """An address that jobs may not reach. Not an ``OSError``, so that no client takes it for a failed connection."""


class AddressGuard:
    """The rules in force. ``allow_hosts`` are names (``hooks.internal``, ``*.internal``), addresses and networks."""

    __slots__ = ("_names", "_networks", "_suffixes", "advice", "allow_private")

    def __init__(self, *, allow_private: bool = False, allow_hosts: Sequence[str] = (), advice: str = "") -> None:
        self.allow_private = allow_private
        self.advice = advice or _SERVER_ADVICE  # the end of every refusal
        self._names: set[str] = set()
        self._suffixes: list[str] = []
        self._networks: list[Network] = []
        for entry in allow_hosts:
            self._allow(entry.strip().lower().rstrip("."))

    def is_unrestricted(self, host: str) -> bool:
        """Whether jobs may reach this host at any address."""
        host = host.lower().rstrip(".")
        return self.allow_private or host in self._names or any(host.endswith(suffix) for suffix in self._suffixes)

    def check_host(self, host: str) -> None:
        """Raise ``AddressRefused`` if the host's text alone shows that jobs may not reach it."""
        name = host.lower().rstrip(".")
        if self.is_unrestricted(name):
            return
        if name in _LOCAL_NAMES or name.endswith(".localhost"):
            raise AddressRefused(f'"{host}" is this machine, which jobs may not reach; {self.advice}')
        address = parse_address(name)
        if address is not None:
            self._check(address, host)

    def check_address(self, text: str) -> None:
        """Raise ``AddressRefused`` if jobs may not connect to this address."""
        if self.allow_private or _is_public_text(text):
            return
        self._check(ip_address(text), text)

    def to_refused_error(self, host: str) -> AddressRefused:
        """Build the error for a host without allowed addresses. It names the host, never its addresses."""
        return AddressRefused(f"{host} has no public address; {self.advice}")

    def _check(self, address: Address, shown: str) -> None:
        if is_public(address) or any(address in network for network in self._networks):
            return
        label = str(address) if shown == str(address) else f"{shown} ({address})"
        raise AddressRefused(f"{label} is not a public address; {self.advice}")

    def _allow(self, entry: str) -> None:
        if entry.startswith("*."):
            self._suffixes.append(entry[1:])
        elif "/" in entry:
            try:
                self._networks.append(ip_network(entry))
            except ValueError as error:
                raise Invalid(f'allow_hosts: "{entry}" is not a network: {error}') from None
        elif (address := parse_address(entry.strip("[]"))) is not None:
            self._networks.append(ip_network(address))
        else:
            self._names.add(entry)


_SERVER_ADVICE = "allow it with dispatcher.http.allow_hosts on the server, or every private address with allow_private"


@lru_cache(maxsize=4096)
def parse_address(host: str) -> Address | None:
    """Return the address that a host's text is, in any form that a resolver accepts: ``127.1``, ``0x7f000001``,
    ``::1``.
    """
    text = host.strip("[]")
    try:
        return ip_address(text)
    except ValueError:
        pass
    try:
        return IPv4Address(socket.inet_aton(text)) if text and not text[-1].isspace() else None
    except (OSError, UnicodeError):
        return None


def is_public(address: Address) -> bool:
    """Whether an address, and any address embedded in it, belongs to the public internet."""
    if isinstance(address, IPv4Address):
        return not any(address in network for network in _V4_REFUSED)
    inner = _extract_embedded_ipv4(address)
    if inner is not None and not is_public(inner):
        return False
    if address in _IPV4_MAPPED_NETWORK or address in _NAT64:
        return True
    return address in _V6_PUBLIC and not any(address in network for network in _V6_REFUSED)


def _extract_embedded_ipv4(address: IPv6Address) -> IPv4Address | None:
    """Return the IPv4 address to which a translator or tunnel would forward."""
    number = int(address)
    if address in _IPV4_MAPPED_NETWORK or address in _NAT64 or (number >> 32 & 0xFFFFFFFF) in _ISATAP:
        return IPv4Address(number & 0xFFFFFFFF)
    if address in _SIX_TO_FOUR:
        return IPv4Address(number >> 80 & 0xFFFFFFFF)
    return None


@lru_cache(maxsize=4096)
def _is_public_text(text: str) -> bool:
    return is_public(ip_address(text))
