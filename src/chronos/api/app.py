"""The API: the table of routes on the service layer, and the way from a path to one of them."""

import asyncio
import base64
import hashlib
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from functools import partial
from http import HTTPStatus
from random import getrandbits
from typing import Any

import msgspec
from aiohttp import web
from multidict import istr

from chronos.api import system
from chronos.api.access import Access, Permission
from chronos.api.answers import HEADERS
from chronos.api.auth.client_address import Proxies
from chronos.api.auth.denials import Denials
from chronos.api.call import MATCH, Parts
from chronos.api.docs import STYLE, page
from chronos.api.errors import Malformed
from chronos.api.events import Streams
from chronos.api.limits import Rate
from chronos.api.openapi import openapi
from chronos.api.options import ApiOptions
from chronos.api.patience import Patience
from chronos.api.pipeline import Handle, answered, handler_of, refused
from chronos.api.problems import problem_response
from chronos.api.routes import Route
from chronos.api.table import routes_with
from chronos.assembly import Service
from chronos.clock import Clock
from chronos.service.turns import Turns
from chronos.store.contract import Store

Serve = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]

log = logging.getLogger("chronos.http")
_EXPECT = istr("Expect")
_UNREAD_BYTES = 64 << 10  # of a refused body: so much is still taken in, so that the connection can be kept
_UNREAD_LARGE_BYTES = 8 << 20  # so much, for a moment, so that the client hears the answer before the connection ends
_MOMENT_S = 1.0
_LARGE = range(1, _UNREAD_LARGE_BYTES + 1)
#: A connection that says nothing is let go of; a header longer than this is refused before it is kept. Bodies are
#: never unpacked: a few bytes could keep the event loop busy for seconds.
_CONNECTION: Mapping[str, Any] = {
    "auto_decompress": False,
    "keepalive_timeout": 75.0,
    "lingering_time": 5.0,
    "max_line_size": 8_190,
    "max_field_size": 8_190,
}


class Api:
    """Finds what answers a request, and lets it. A path without open parts needs no search."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._plain: dict[tuple[str, str], Handle] = {}
        self._open: dict[web.AbstractRoute, Handle] = {}
        self._router = web.UrlDispatcher()
        patience = Patience(parts.options.request_timeout_s)
        for route in parts.routes:
            handle, path = handler_of(route, parts, patience), parts.options.base_path + route.path
            for method in ("HEAD", "GET") if route.method == "GET" and not route.streams else (route.method,):
                self._open[self._router.add_route(method, path, _unused)] = handle
                if "{" not in path:
                    self._plain[method, path] = handle

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        """Answer a request."""
        assert isinstance(request, web.Request)
        handle = self._plain.get((request.method, request.rel_url.path_safe))
        if handle is None or _EXPECT in request.headers:
            handle = await self._found(request)
        response = await answered(request, handle)
        if response.status >= HTTPStatus.BAD_REQUEST and not response.prepared and _has_much_unread(request):
            response.force_close()
            assert isinstance(request.protocol, _Handler)
            request.protocol.leave_unread(_MOMENT_S if (request.content_length or 0) in _LARGE else 0.0)
        return response

    async def _found(self, request: web.Request) -> Handle:
        match = await self._router.resolve(request)
        if request.headers.get(_EXPECT):
            await match.expect_handler(request)  # tells the client to go on, or raises
            await request.writer.drain()
        if match.http_exception is not None:
            return refused(match.http_exception)
        request[MATCH] = match
        return self._open[match.route]

    def runner(
        self,
        *,
        around: Callable[[Serve], Serve] = lambda serve: serve,
        shutdown_timeout_s: float,
        logger: logging.Logger = log,
    ) -> web.BaseRunner:
        """What lets it listen on sites. ``around`` is put around the answering of every request."""
        loop, options = asyncio.get_running_loop(), self._parts.options
        make = partial(web.Request, loop=loop, client_max_size=options.request_limit)
        server = _Server(around(self.handle), request_factory=make, access_log=None, logger=logger, **_CONNECTION)
        server.write_timeout_s = options.write_timeout_s
        return _Runner(server, self._parts, shutdown_timeout=shutdown_timeout_s)


class _Server(web.Server):
    """Answers in our words also what is no HTTP, and so never becomes a request."""

    write_timeout_s = 30.0

    def __call__(self) -> web.RequestHandler:
        handler = _Handler(self, loop=self._loop, **self._kwargs)
        handler.write_timeout_s = self.write_timeout_s
        return handler


class _Handler(web.RequestHandler):
    """One connection. A client that does not take its answer in time is hung up on, and the answer let go of."""

    __slots__ = ("_hang_up", "write_timeout_s")

    def __init__(self, server: web.Server, **options: Any) -> None:
        super().__init__(server, **options)
        self.write_timeout_s = 30.0
        self._hang_up: asyncio.TimerHandle | None = None

    def pause_writing(self) -> None:
        super().pause_writing()
        if self.transport is not None:
            self._hang_up = self._loop.call_later(self.write_timeout_s, self.transport.abort)

    def resume_writing(self) -> None:
        super().resume_writing()
        self._taken()

    def connection_lost(self, exc: BaseException | None) -> None:
        self._taken()
        super().connection_lost(exc)

    def _taken(self) -> None:
        """The client took what was there for it, or is gone."""
        if self._hang_up is not None:
            self._hang_up.cancel()
            self._hang_up = None

    def leave_unread(self, within_s: float) -> None:
        """Close the connection after the answer; until then the rest of the body may arrive for so long."""
        self._lingering_time = within_s

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        response = super().handle_error(request, status, exc, message)
        if status == HTTPStatus.BAD_REQUEST:
            first = " ".join((message or "").split())[:200].rstrip(": ") or "it cannot be read"
            response = problem_response(Malformed(f"this is no HTTP request: {first}"), f"{getrandbits(64):016x}")
            response.force_close()
        for name, value in HEADERS:
            response.headers.setdefault(name, value)
        return response


class _Runner(web.ServerRunner):
    """Ends the streams, which a client could keep open for ever; in the end, tells of the last refusals."""

    __slots__ = ("_parts",)

    def __init__(self, server: web.Server, parts: Parts, *, shutdown_timeout: float) -> None:
        super().__init__(server, shutdown_timeout=shutdown_timeout)
        self._parts = parts

    async def shutdown(self) -> None:
        self._parts.streams.close()

    async def cleanup(self) -> None:
        await super().cleanup()
        await self._parts.denials.close()


def _has_much_unread(request: web.Request) -> bool:
    """Whether more of a body is still to come than is worth waiting for."""
    if request.content.is_eof():
        return False
    length = request.content_length
    return length is None or length > _UNREAD_BYTES


async def _unused(_: web.Request) -> web.StreamResponse:
    raise AssertionError("the router finds routes, and does not call them")


def make_api(
    service: Service,
    store: Store,
    *,
    options: ApiOptions,
    access: Access,
    status: Callable[[], dict[str, Any]],
    metrics: Callable[[], bytes],
    clock: Clock,
    refused: Callable[[str], None] = lambda _: None,
) -> Api:
    """The API on an open store.

    ``status`` gives what the node says of itself; its ``ready`` (True without it) and ``reason`` decide ``/readyz``.
    ``metrics`` gives the text for Prometheus. ``refused`` hears why credentials, or a known client, were refused.
    """
    streams = Streams(store, options.max_streams, options.max_streams_each)
    routes = routes_with(options.metrics_path)
    if not options.public_docs:
        routes = tuple(map(_closed, routes))
    parts = Parts(
        service=service,
        store=store,
        clock=clock,
        options=options,
        access=access,
        status=status,
        metrics=metrics,
        rate=Rate(options.submit_rate),
        proxies=Proxies(options.trusted_proxies),
        streams=streams,
        denials=Denials(store, clock, refused),
        turns=Turns(),
        routes=routes,
        document=msgspec.json.encode(openapi(routes, options.base_path)),
        page=page(routes, options.base_path).encode(),
        page_policy=_policy(),
    )
    return Api(parts)


def _closed(route: Route) -> Route:
    """The route as it is where the documentation of the API needs credentials."""
    return replace(route, permission=Permission.LOOK) if route.handler in (system.document, system.page) else route


def _policy() -> str:
    """What the page of documentation may do: look as it does."""
    digest = base64.b64encode(hashlib.sha256(STYLE.encode()).digest()).decode()
    return f"default-src 'none'; style-src 'sha256-{digest}'; frame-ancestors 'none'; base-uri 'none'"
