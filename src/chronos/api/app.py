"""Api: the routes as an aiohttp application."""

import base64
import hashlib
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import msgspec
from aiohttp import web
from aiohttp.typedefs import Middleware

from chronos.api.auth.authentication import Access
from chronos.api.auth.client_address import Proxies
from chronos.api.auth.denials import Denials
from chronos.api.auth.permissions import Permission
from chronos.api.handlers import routes_with, system
from chronos.api.handlers.event_streams import Streams
from chronos.api.middleware import make_handler, make_problem_middleware, make_sender
from chronos.api.openapi.docs_page import STYLE, page, problems_page
from chronos.api.openapi.document import openapi
from chronos.api.options import ApiOptions
from chronos.api.rate_limits import RateLimit
from chronos.api.request import ApiContext
from chronos.api.routing import Route
from chronos.assembly import Service
from chronos.clock import Clock
from chronos.observe.delay_history import DelayHistory
from chronos.service.cooperative import TimeSlicer
from chronos.store.contract import Store

log = logging.getLogger("chronos.http")
#: Limits of a connection. The server closes an idle one. After it rejects a request it reads on for a second, so that
#: the client receives the response. It never decompresses a body: a few bytes could block the event loop for seconds.
_CONNECTION: Mapping[str, Any] = {"auto_decompress": False, "keepalive_timeout": 75.0, "lingering_time": 1.0}


class Api:
    """Builds the aiohttp runner that serves the routes."""

    def __init__(self, api: ApiContext) -> None:
        self._api = api

    @property
    def denials(self) -> Denials:
        """Records failed logins, also those of other interfaces."""
        return self._api.denials

    def runner(
        self,
        *,
        middlewares: Sequence[Middleware] = (),
        add_routes: Callable[[web.Application], None] = lambda _: None,
        shutdown_timeout_s: float,
        logger: logging.Logger = log,
    ) -> web.AppRunner:
        """Return a runner that can listen on sites.

        ``middlewares`` see every request and its response. ``add_routes`` adds the routes of other interfaces.
        """
        options = self._api.options
        app = web.Application(
            middlewares=(
                make_sender(options.write_timeout_s),
                *middlewares,
                make_problem_middleware(options.base_path),
            ),
            client_max_size=options.request_limit,
        )
        for route in self._api.routes:
            handle, path = make_handler(route, self._api), options.base_path + route.path
            for method in ("HEAD", "GET") if route.method == "GET" and not route.is_stream else (route.method,):
                app.router.add_route(method, path, handle)
        add_routes(app)
        app.on_shutdown.append(self._end_streams)
        app.on_cleanup.append(self._record_last_denials)
        return web.AppRunner(app, access_log=None, logger=logger, shutdown_timeout=shutdown_timeout_s, **_CONNECTION)

    async def _end_streams(self, _: web.Application) -> None:
        """End the open streams, which clients could otherwise keep open forever."""
        self._api.streams.close()

    async def _record_last_denials(self, _: web.Application) -> None:
        await self._api.denials.close()


def make_api(
    service: Service,
    store: Store,
    *,
    options: ApiOptions,
    access: Access,
    status: Callable[[], dict[str, Any]],
    metrics: Callable[[], bytes],
    clock: Clock,
    on_refusal: Callable[[str], None] = lambda _: None,
    delays: DelayHistory | None = None,
) -> Api:
    """Build the API on an open store.

    - ``status`` returns the state of the node. Its ``ready`` (default True) and ``reason`` decide ``/readyz``.
    - ``metrics`` returns the text for Prometheus.
    - ``on_refusal`` is called with the reason of each refused login or request.
    - ``delays`` has the delays of this node; by default nothing is known of them.
    """
    streams = Streams(store, options.max_streams, options.max_streams_each)
    routes = routes_with(options.metrics_path)
    if not options.public_docs:
        routes = tuple(map(_require_viewer, routes))
    api = ApiContext(
        service=service,
        store=store,
        clock=clock,
        options=options,
        access=access,
        status=status,
        metrics=metrics,
        rate=RateLimit(options.submit_rate),
        proxies=Proxies(options.trusted_proxies),
        streams=streams,
        denials=Denials(store, clock, on_refusal),
        slicer=TimeSlicer(),
        delays=delays or DelayHistory(clock),
        routes=routes,
        document=msgspec.json.encode(openapi(routes, options.base_path)),
        page=page(routes, options.base_path).encode(),
        problems_page=problems_page(options.base_path).encode(),
        page_policy=_make_content_policy(),
    )
    return Api(api)


def _require_viewer(route: Route) -> Route:
    """Return the route with authentication, if it serves the documentation."""
    is_documentation = route.handler in (system.document, system.page, system.problems)
    return replace(route, permission=Permission.VIEW) if is_documentation else route


def _make_content_policy() -> str:
    """Return the content security policy of the documentation pages: only their own style sheet."""
    digest = base64.b64encode(hashlib.sha256(STYLE.encode()).digest()).decode()
    return f"default-src 'none'; style-src 'sha256-{digest}'; frame-ancestors 'none'; base-uri 'none'"
