"""The server's listening sockets, which are bound before anything else starts."""

import errno
import ipaddress
import socket
from collections.abc import Iterable

from chronos.errors import Invalid, Unavailable


def bind_sockets(host: str, port: int, *, authenticated: bool) -> list[socket.socket]:
    """Return listening sockets for every address of a host.

    Without ``authenticated``, only loopback addresses are allowed. Raises ``Invalid`` or ``Unavailable`` with a message
    that says what to do.
    """
    endpoint = format_address(host, port)
    try:
        infos = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except OSError:
        raise Invalid(f'unknown host "{host}"; listen on 127.0.0.1, or on 0.0.0.0 for all addresses') from None
    places = list(dict.fromkeys((family, address) for family, _, _, _, address in infos))
    if not authenticated and not all(is_loopback(str(address[0])) for _, address in places):
        raise Invalid(
            f"{endpoint} can be reached from other machines without a login; set auth.type to basic, "
            "listen on 127.0.0.1, or allow it with server.insecure"
        )
    sockets: list[socket.socket] = []
    try:
        for family, address in places:
            port = sockets[0].getsockname()[1] if sockets else port
            sockets.append(_bind(family, (address[0], port, *address[2:])))
    except OSError as error:
        close_sockets(sockets)
        raise Unavailable(_bind_error_message(error, endpoint, host, port)) from None
    return sockets


def close_sockets(sockets: Iterable[socket.socket]) -> None:
    for listener in sockets:
        listener.close()


def is_loopback(address: str) -> bool:
    """Whether an address can be reached only from this machine."""
    try:
        return ipaddress.ip_address(address.partition("%")[0]).is_loopback
    except ValueError:
        return False


def format_address(host: str, port: int) -> str:
    """Return ``host:port``, with an IPv6 address in brackets."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def server_url(host: str, port: int, base_path: str = "") -> str:
    """Return the server's URL, as seen from this machine."""
    name = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
    return f"http://{format_address(name, port)}{base_path}"


def _bind(family: int, address: tuple[object, ...]) -> socket.socket:
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setblocking(False)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        listener.bind(address)
        listener.listen(128)
    except OSError:
        listener.close()
        raise
    return listener


def _bind_error_message(error: OSError, endpoint: str, host: str, port: int) -> str:
    other = format_address(host, port + 1 if port < 65_535 else port - 1)
    match error.errno:
        case errno.EADDRINUSE:
            return f"{endpoint} is already in use; stop the program there, or choose another: --listen {other}"
        case errno.EACCES | errno.EPERM:
            other = format_address(host, 8080)
            return f"{endpoint} is not allowed for this user; choose a port of 1024 or more: --listen {other}"
        case errno.EADDRNOTAVAIL:
            return f"{endpoint} is not an address of this machine; listen on 127.0.0.1, or on 0.0.0.0 for all addresses"
        case _:
            return f"cannot listen on {endpoint}: {error.strerror or error}"
