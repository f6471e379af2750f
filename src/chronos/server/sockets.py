"""Where the server listens: the sockets, bound before anything else is touched, and who can reach them."""

import errno
import ipaddress
import socket
from collections.abc import Iterable

from chronos.errors import Invalid, Unavailable


def bind_sockets(host: str, port: int, *, authenticated: bool) -> list[socket.socket]:
    """Sockets for every address of a host, bound and not yet listening.

    Without ``guarded``, where nobody is asked who they are, only this machine itself may reach them. Raises
    ``Invalid`` or ``Unavailable`` with a sentence that says what to do.
    """
    shown = format_address(host, port)
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except OSError:
        raise Invalid(f"{host} is no address of this machine, so that nothing can listen on {shown}") from None
    places = list(dict.fromkeys((family, address) for family, _, _, _, address in found))
    if not authenticated and not all(is_loopback(str(address[0])) for _, address in places):
        raise Invalid(
            f"{shown} can be reached from other machines, and nobody would be asked who they are: set auth.type to "
            "basic, listen on 127.0.0.1, or allow it with server.insecure"
        )
    sockets: list[socket.socket] = []
    try:
        for family, address in places:
            port = sockets[0].getsockname()[1] if sockets else port
            sockets.append(_bind(family, (address[0], port, *address[2:])))
    except OSError as error:
        close_sockets(sockets)
        raise Unavailable(_bind_error_message(error, shown, host, port)) from None
    return sockets


def close_sockets(sockets: Iterable[socket.socket]) -> None:
    """Let go of them."""
    for listener in sockets:
        listener.close()


def is_loopback(address: str) -> bool:
    """Whether only this machine can reach an address."""
    try:
        return ipaddress.ip_address(address.partition("%")[0]).is_loopback
    except ValueError:
        return False


def format_address(host: str, port: int) -> str:
    """``host:port``, an IPv6 address in brackets."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def server_url(host: str, port: int, base_path: str = "") -> str:
    """The address to call it by, from this machine."""
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


def _bind_error_message(error: OSError, shown: str, host: str, port: int) -> str:
    other = format_address(host, port + 1 if port < 65_535 else port - 1)
    match error.errno:
        case errno.EADDRINUSE:
            return f"{shown} is in use already; stop what listens there, or choose another: --listen {other}"
        case errno.EACCES | errno.EPERM:
            other = format_address(host, 8080)
            return f"{shown} may not be used by this user; choose a port of 1024 or more: --listen {other}"
        case errno.EADDRNOTAVAIL:
            return f"{shown} is no address of this machine; listen on 127.0.0.1, or on 0.0.0.0 for all"
        case _:
            return f"nothing can listen on {shown}: {error.strerror or error}"
