"""The server: health, readiness, metrics, documentation, status, nodes, queues, namespaces and the audit log."""

import asyncio
from typing import Any

from aiohttp import web

from chronos.api.auth.permissions import Permission
from chronos.api.handlers.executions import DETAIL, collect_visible_page
from chronos.api.openapi import examples
from chronos.api.pagination import read_id_cursor, write_cursor
from chronos.api.problems import PROBLEMS_PATH
from chronos.api.request import RequestContext
from chronos.api.responses import json_response
from chronos.api.routing import CURSOR, LIMIT, NAMESPACE_FILTER, ResponseDoc, RouteTable, Scope, ref
from chronos.core.calendar import rfc3339
from chronos.core.lane import read_lane
from chronos.core.node import AuditEntry
from chronos.errors import ChronosError, Unavailable
from chronos.service.settings.node_defaults import DEFAULTS_LABEL, compare_defaults
from chronos.service.views.json_shapes import write_node, write_queue
from chronos.store.contract import Page

MAX_NAMESPACES = 1_000
_PROBE_TIMEOUT_S = 5.0  # for the store to respond
_COUNTERS = ("executions_here", "jobs_held", "jobs_recovered", "jobs_failed_to_recover")  # over all namespaces
_LOAD = ("running", "longest_since", "taken_over")  # of a node, over all namespaces
_METRICS = "text/plain; version=0.0.4; charset=utf-8"

root = RouteTable("Server", base="")  # outside /api/v1
route = RouteTable("Server")


@root.get(
    "/healthz",
    permission=Permission.OPEN,
    summary="Liveness: 200 while the process is alive",
    returns={200: ResponseDoc("the process is alive", ref("Anything"), {"status": "ok"})},
)
async def health(context: RequestContext) -> web.StreamResponse:
    """Return 200 while the process is alive."""
    return json_response({"status": "ok"})


@root.get(
    "/readyz",
    permission=Permission.OPEN,
    summary="Readiness: 200 while the server can do useful work",
    returns={200: ResponseDoc("the server is ready", ref("Anything"), {"status": "ready"})},
)
async def ready(context: RequestContext) -> web.StreamResponse:
    """Return 200 if the store responds and the node is registered and not stopping; else 503 with the reason."""
    node_status = context.api.status()
    if not node_status.get("ready", True):
        raise Unavailable(str(node_status.get("reason") or "this node is starting or stopping"))
    try:
        async with asyncio.timeout(_PROBE_TIMEOUT_S):
            await context.api.store.next_due_us()
    except TimeoutError:
        raise Unavailable(f"the store did not respond within {_PROBE_TIMEOUT_S:g}s") from None
    except ChronosError as error:
        raise Unavailable(f"the store cannot be used: {error}") from None
    return json_response({"status": "ready"})


@root.get(
    "/metrics",
    permission=Permission.VIEW,
    scope=Scope.EVERYWHERE,
    summary="Metrics for Prometheus",
    returns={200: ResponseDoc("metrics", {"type": "string"}, type="text/plain")},
)
async def metrics(context: RequestContext) -> web.StreamResponse:
    """Return the metrics in Prometheus' text format."""
    return web.Response(body=context.api.metrics(), headers={"Content-Type": _METRICS})


@root.get(
    "/openapi.json",
    permission=Permission.OPEN,
    summary="OpenAPI 3.1 document of this API",
    returns={200: ResponseDoc("the document", ref("Anything"), {"openapi": "3.1.0"})},
)
async def document(context: RequestContext) -> web.StreamResponse:
    """Return the OpenAPI 3.1 document of this API."""
    return web.Response(body=context.api.document, content_type="application/json")


@root.get(
    "/docs",
    permission=Permission.OPEN,
    summary="HTML documentation of this API",
    returns={200: ResponseDoc("an HTML page", {"type": "string"}, type="text/html")},
)
async def page(context: RequestContext) -> web.StreamResponse:
    """Return the documentation of this API as HTML. It works offline."""
    headers = {"Content-Security-Policy": context.api.page_policy}
    return web.Response(body=context.api.page, content_type="text/html", charset="utf-8", headers=headers)


@root.get(
    PROBLEMS_PATH,
    permission=Permission.OPEN,
    summary="Every problem code with its cause and fix",
    returns={200: ResponseDoc("an HTML page", {"type": "string"}, type="text/html")},
)
async def problems(context: RequestContext) -> web.StreamResponse:
    """Return the page that explains every problem code. The `type` of a problem points to its entry."""
    headers = {"Content-Security-Policy": context.api.page_policy}
    return web.Response(body=context.api.problems_page, content_type="text/html", charset="utf-8", headers=headers)


@route.get(
    "/status",
    permission=Permission.VIEW,
    summary="Job and execution totals, and the state of this node",
    returns={200: ResponseDoc("the status", ref("Status"), examples.STATUS)},
)
async def status(context: RequestContext) -> web.StreamResponse:
    """Return totals of the store, and the state of this node.

    The counts cover all namespaces, so callers without a role in all of them get the state of the node only.
    """
    now, node_status = {"now": rfc3339(context.api.clock.now_us())}, context.api.status()
    if not context.principal.may(Permission.VIEW):
        return json_response(now | {name: fact for name, fact in node_status.items() if name not in _COUNTERS})
    counts = await context.api.store.counts()
    jobs = {state.name.lower(): count for state, count in counts.jobs.items()}
    answer: dict[str, Any] = {
        "jobs_persisted": sum(jobs.values()),
        "jobs": jobs,
        "executions": {status.name.lower(): count for status, count in counts.open.items()},
    }
    return json_response(answer | now | node_status)


@route.get(
    "/nodes",
    permission=Permission.VIEW,
    summary="List the nodes, alive or stopped",
    returns={200: ResponseDoc.list_of("Node", examples.NODE, description="all nodes")},
)
async def nodes(context: RequestContext) -> web.StreamResponse:
    """List every known node, alive or stopped."""
    rows = await context.api.service.views.cluster.nodes()
    defaults = await compare_defaults(context.api.store, [row.node for row in rows])
    items = [write_node(row) | {"defaults": defaults.get(row.node.number)} for row in rows]
    for item in items:
        item["labels"] = {name: value for name, value in item["labels"].items() if name != DEFAULTS_LABEL}
    if not context.principal.may(Permission.VIEW):
        items = [{name: value for name, value in item.items() if name not in _LOAD} for item in items]
    return json_response({"items": items})


@route.get(
    "/queues",
    permission=Permission.VIEW,
    scope=Scope.EVERYWHERE,
    summary="Show queue depths",
    query=(DETAIL,),
    returns={
        200: ResponseDoc.list_of(
            "Queue",
            examples.QUEUE,
            description="the queues that are not empty; with `detail`, every queue as one item, with its nodes",
        )
    },
)
async def queues(context: RequestContext) -> web.StreamResponse:
    """Return the executions per queue, by the labels and functions that they require of a node."""
    if context.boolean("detail"):
        rows = await context.api.service.views.cluster.queues()
        return json_response({"items": [write_queue(row) for row in rows]})
    lanes = await context.api.store.lanes()
    items = []
    for depth in await context.api.store.depths():
        lane = read_lane(lanes.get(depth.lane, "default"))
        items.append(
            {
                "queue": lane.queue,
                "labels": dict(lane.labels),
                "functions": list(lane.functions),
                "ready": depth.ready,
                "queued": depth.queued,
                "running": depth.running,
                "waiting": depth.waiting,
            }
        )
    return json_response({"items": items})


@route.get(
    "/namespaces",
    permission=Permission.VIEW,
    summary="List the namespaces that have jobs",
    returns={200: ResponseDoc.list_of("Namespace", {"name": "default"}, description="the namespaces that you may see")},
)
async def namespaces(context: RequestContext) -> web.StreamResponse:
    """List the namespaces that have jobs and that the caller may see."""
    names = await context.api.store.namespaces(limit=MAX_NAMESPACES)
    return json_response({"items": [{"name": name} for name in names if context.principal.sees(name)]})


@route.get(
    "/audit",
    permission=Permission.ADMINISTER,
    scope=Scope.SEEN,
    summary="List the audit log, newest first",
    query=(LIMIT, CURSOR, NAMESPACE_FILTER),
    returns={200: ResponseDoc.page_of("AuditEntry", examples.AUDIT)},
)
async def audit(context: RequestContext) -> web.StreamResponse:
    """List who changed what, newest first."""

    async def read(limit: int, cursor: bytes | None) -> Page[AuditEntry]:
        return await context.api.store.audit(namespace=context.requested_namespace, limit=limit, cursor=cursor)

    page = await collect_visible_page(
        read,
        lambda entry: context.is_visible(entry.namespace or None),
        limit=context.limit,
        cursor=read_id_cursor(context.text("cursor")),
    )
    items = [
        {
            "at": rfc3339(entry.at_us),
            "actor": entry.actor,
            "action": entry.action,
            "namespace": entry.namespace,
            "subject": entry.subject,
            "origin": entry.origin,
            "detail": entry.detail,
        }
        for entry in page.items
    ]
    return json_response({"items": items, "next_cursor": write_cursor(page.cursor)})
