"""The server itself: is it well, what stands in its queues, which nodes are there, who changed what."""

import asyncio
from typing import Any

from aiohttp import web

from chronos.api.auth.permissions import Permission
from chronos.api.handlers.executions import collect_visible_page
from chronos.api.openapi import examples
from chronos.api.pagination import read_id_cursor, write_cursor
from chronos.api.request import RequestContext
from chronos.api.responses import json_response
from chronos.api.routing import CURSOR, LIMIT, NAMESPACE_FILTER, ResponseDoc, RouteTable, Scope, ref
from chronos.core.calendar import rfc3339
from chronos.core.lane import read_lane
from chronos.core.node import AuditEntry, Node
from chronos.errors import ChronosError, Unavailable
from chronos.store.contract import Page

MAX_NAMESPACES = 1_000
_PROBE_TIMEOUT_S = 5.0  # how long the store may take to show that it is there
_COUNTERS = ("executions_here", "jobs_held", "jobs_recovered", "jobs_failed_to_recover")  # whoever's they are
_METRICS = "text/plain; version=0.0.4; charset=utf-8"

root = RouteTable("Server", base="")  # outside of /api/v1
route = RouteTable("Server")


@root.get(
    "/healthz",
    permission=Permission.OPEN,
    summary="Whether the process answers",
    returns={200: ResponseDoc("it does", ref("Anything"), {"status": "ok"})},
)
async def health(context: RequestContext) -> web.StreamResponse:
    """The process answers."""
    return json_response({"status": "ok"})


@root.get(
    "/readyz",
    permission=Permission.OPEN,
    summary="Whether it is of use: store reachable, node registered, not stopping",
    returns={200: ResponseDoc("it is", ref("Anything"), {"status": "ready"})},
)
async def ready(context: RequestContext) -> web.StreamResponse:
    """It is of use: the store can be reached, the node is registered and not about to stop."""
    node_status = context.api.status()
    if not node_status.get("ready", True):
        raise Unavailable(str(node_status.get("reason") or "this node is starting or stopping"))
    try:
        async with asyncio.timeout(_PROBE_TIMEOUT_S):
            await context.api.store.next_due_us()
    except TimeoutError:
        raise Unavailable(f"the store did not answer within {_PROBE_TIMEOUT_S:g} s") from None
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
    """In Prometheus' text format."""
    return web.Response(body=context.api.metrics(), headers={"Content-Type": _METRICS})


@root.get(
    "/openapi.json",
    permission=Permission.OPEN,
    summary="This API as OpenAPI 3.1",
    returns={200: ResponseDoc("the document", ref("Anything"), {"openapi": "3.1.0"})},
)
async def document(context: RequestContext) -> web.StreamResponse:
    """This API as OpenAPI 3.1."""
    return web.Response(body=context.api.document, content_type="application/json")


@root.get(
    "/docs",
    permission=Permission.OPEN,
    summary="This API for people",
    returns={200: ResponseDoc("a page", {"type": "string"}, type="text/html")},
)
async def page(context: RequestContext) -> web.StreamResponse:
    """The same for people."""
    headers = {"Content-Security-Policy": context.api.page_policy}
    return web.Response(body=context.api.page, content_type="text/html", charset="utf-8", headers=headers)


@route.get(
    "/status",
    permission=Permission.VIEW,
    summary="Totals of the store, and this node's own",
    returns={200: ResponseDoc("the state of things", ref("Status"), examples.STATUS)},
)
async def status(context: RequestContext) -> web.StreamResponse:
    """Totals of the store, and what this node says of itself.

    Both count the jobs of all namespaces, so who may not see all of them is told of the node without its numbers.
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
    summary="List the nodes, living or not",
    returns={200: ResponseDoc.list_of("Node", examples.NODE, description="all of them")},
)
async def nodes(context: RequestContext) -> web.StreamResponse:
    """Every node that is known, living or not."""
    return json_response({"items": [_write_node(node) for node in await context.api.store.nodes()]})


@route.get(
    "/queues",
    permission=Permission.VIEW,
    scope=Scope.EVERYWHERE,
    summary="How much stands in each queue",
    returns={200: ResponseDoc.list_of("Queue", examples.QUEUE, description="those that hold anything")},
)
async def queues(context: RequestContext) -> web.StreamResponse:
    """How much stands in each queue, by what it asks of a worker."""
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
    returns={200: ResponseDoc.list_of("Namespace", {"name": "default"}, description="those that you may see")},
)
async def namespaces(context: RequestContext) -> web.StreamResponse:
    """Those that have jobs and that the caller may see."""
    found = await context.api.store.namespaces(limit=MAX_NAMESPACES)
    return json_response({"items": [{"name": name} for name in found if context.principal.sees(name)]})


@route.get(
    "/audit",
    permission=Permission.ADMINISTER,
    scope=Scope.SEEN,
    summary="Who changed what, newest first",
    query=(LIMIT, CURSOR, NAMESPACE_FILTER),
    returns={200: ResponseDoc.page_of("AuditEntry", examples.AUDIT)},
)
async def audit(context: RequestContext) -> web.StreamResponse:
    """Who changed what, newest first."""

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


def _write_node(node: Node) -> dict[str, Any]:
    return {
        "number": node.number,
        "name": node.name,
        "state": "alive" if node.stopped_us is None else "stopped",
        "started_at": rfc3339(node.started_us),
        "beat_at": rfc3339(node.beat_us),
        "stopped_at": None if node.stopped_us is None else rfc3339(node.stopped_us),
        "slots": node.slots,
        "labels": node.labels,
    }
