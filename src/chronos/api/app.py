"""The API as an application: the table of routes on the service layer."""

import base64
import hashlib
from collections.abc import Callable, Mapping
from typing import Any

import msgspec
from aiohttp import web

from chronos.api.access import Access
from chronos.api.call import Parts
from chronos.api.docs import STYLE, page
from chronos.api.events import Streams
from chronos.api.limits import Rate
from chronos.api.openapi import openapi
from chronos.api.options import ApiOptions
from chronos.api.pipeline import answered, handler_of
from chronos.api.table import ROUTES
from chronos.assembly import Service
from chronos.clock import Clock
from chronos.store.contract import Store

#: A connection that says nothing is let go of; a header longer than this is refused before it is kept.
_CONNECTION: Mapping[str, Any] = {
    "keepalive_timeout": 75.0,
    "lingering_time": 5.0,
    "max_line_size": 8_190,
    "max_field_size": 8_190,
}


def make_api(
    service: Service,
    store: Store,
    *,
    options: ApiOptions,
    access: Access,
    status: Callable[[], dict[str, Any]],
    metrics: Callable[[], bytes],
    clock: Clock,
) -> web.Application:
    """The API on an open store.

    ``status`` gives what the node says of itself; its ``ready`` (True without it) and ``reason`` decide ``/readyz``.
    ``metrics`` gives the text for Prometheus.
    """
    streams = Streams(store, options.max_streams)
    parts = Parts(
        service=service,
        store=store,
        clock=clock,
        options=options,
        access=access,
        status=status,
        metrics=metrics,
        rate=Rate(options.submit_rate),
        streams=streams,
        document=msgspec.json.encode(openapi(ROUTES, options.base_path)),
        page=page(ROUTES, options.base_path).encode(),
        page_policy=_policy(),
    )
    app = web.Application(middlewares=[answered], client_max_size=options.request_limit, handler_args=dict(_CONNECTION))
    for route in ROUTES:
        handler, path = handler_of(route, parts), options.base_path + route.path
        if route.method == "GET":
            app.router.add_get(path, handler, allow_head=not route.streams)
        else:
            app.router.add_route(route.method, path, handler)

    async def hang_up(_: web.Application) -> None:
        streams.close()

    app.on_shutdown.append(hang_up)
    return app


def _policy() -> str:
    """What the page of documentation may do: look as it does."""
    digest = base64.b64encode(hashlib.sha256(STYLE.encode()).digest()).decode()
    return f"default-src 'none'; style-src 'sha256-{digest}'; frame-ancestors 'none'; base-uri 'none'"
