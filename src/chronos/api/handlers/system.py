"""The server itself: is it well, what stands in its queues, which nodes are there, who changed what."""

import asyncio
from typing import Any

from aiohttp import web

from chronos.api import examples
from chronos.api.access import Permission
from chronos.api.answers import answer
from chronos.api.call import Call
from chronos.api.cursors import read_id_cursor, write_cursor
from chronos.api.executions import seen_only
from chronos.api.routes import CURSOR, LIMIT, SPACES, V1, Answer, Route, Scope, page_of, ref
from chronos.core.calendar import rfc3339
from chronos.core.lane import read_lane
from chronos.core.node import AuditEntry, Node
from chronos.errors import ChronosError, Unavailable
from chronos.store.contract import Page

MAX_NAMESPACES = 1_000
_PROBE_S = 5.0  # how long the store may take to show that it is there
_COUNTED = ("executions_here", "jobs_held", "jobs_recovered", "jobs_failed_to_recover")  # whoever's they are
_TEXT = "text/plain"
_METRICS = "text/plain; version=0.0.4; charset=utf-8"


async def health(call: Call) -> web.StreamResponse:
    """The process answers."""
    return answer({"status": "ok"})


async def ready(call: Call) -> web.StreamResponse:
    """It is of use: the store can be reached, the node is registered and not about to stop."""
    facts = call.parts.status()
    if not facts.get("ready", True):
        raise Unavailable(str(facts.get("reason") or "this node is starting or stopping"))
    try:
        async with asyncio.timeout(_PROBE_S):
            await call.parts.store.next_due_us()
    except TimeoutError:
        raise Unavailable(f"the store did not answer within {_PROBE_S:g} s") from None
    except ChronosError as error:
        raise Unavailable(f"the store cannot be used: {error}") from None
    return answer({"status": "ready"})


async def metrics(call: Call) -> web.StreamResponse:
    """In Prometheus' text format."""
    return web.Response(body=call.parts.metrics(), headers={"Content-Type": _METRICS})


async def status(call: Call) -> web.StreamResponse:
    """Totals of the store, and what this node says of itself.

    Both count the jobs of all namespaces, so who may not see all of them is told of the node without its numbers.
    """
    now, facts = {"now": rfc3339(call.parts.clock.now_us())}, call.parts.status()
    if not call.principal.may(Permission.LOOK):
        return answer(now | {name: fact for name, fact in facts.items() if name not in _COUNTED})
    counts = await call.parts.store.counts()
    jobs = {state.name.lower(): count for state, count in counts.jobs.items()}
    said: dict[str, Any] = {
        "jobs_persisted": sum(jobs.values()),
        "jobs": jobs,
        "executions": {status.name.lower(): count for status, count in counts.open.items()},
    }
    return answer(said | now | facts)


async def nodes(call: Call) -> web.StreamResponse:
    """Every node that is known, living or not."""
    return answer({"items": [_node(node) for node in await call.parts.store.nodes()]})


async def queues(call: Call) -> web.StreamResponse:
    """How much stands in each queue, by what it asks of a worker."""
    lanes = await call.parts.store.lanes()
    items = []
    for depth in await call.parts.store.depths():
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
    return answer({"items": items})


async def namespaces(call: Call) -> web.StreamResponse:
    """Those that have jobs and that the caller may see."""
    found = await call.parts.store.namespaces(limit=MAX_NAMESPACES)
    return answer({"items": [{"name": name} for name in found if call.principal.sees(name)]})


async def audit(call: Call) -> web.StreamResponse:
    """Who changed what, newest first."""

    async def read(limit: int, cursor: bytes | None) -> Page[AuditEntry]:
        return await call.parts.store.audit(namespace=call.named_namespace, limit=limit, cursor=cursor)

    page = await seen_only(
        read,
        lambda entry: call.shows(entry.namespace or None),
        limit=call.limit,
        cursor=read_id_cursor(call.text("cursor")),
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
    return answer({"items": items, "next_cursor": write_cursor(page.cursor)})


async def document(call: Call) -> web.StreamResponse:
    """This API as OpenAPI 3.1."""
    return web.Response(body=call.parts.document, content_type="application/json")


async def page(call: Call) -> web.StreamResponse:
    """The same for people."""
    headers = {"Content-Security-Policy": call.parts.page_policy}
    return web.Response(body=call.parts.page, content_type="text/html", charset="utf-8", headers=headers)


def _node(node: Node) -> dict[str, Any]:
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


def _items(name: str) -> dict[str, Any]:
    return {
        "type": "object",
        "required": ["items"],
        "properties": {"items": {"type": "array", "items": ref(name)}},
    }


METRICS = Route(
    method="GET",
    path="/metrics",
    handler=metrics,
    permission=Permission.LOOK,
    scope=Scope.EVERYWHERE,
    tag="Server",
    summary="Metrics for Prometheus",
    answers={200: Answer(about="metrics", schema={"type": "string"}, type=_TEXT)},
)
ROUTES = (
    Route(
        method="GET",
        path="/healthz",
        handler=health,
        permission=Permission.OPEN,
        tag="Server",
        summary="Whether the process answers",
        answers={200: Answer(about="it does", schema=ref("Anything"), example={"status": "ok"})},
    ),
    Route(
        method="GET",
        path="/readyz",
        handler=ready,
        permission=Permission.OPEN,
        tag="Server",
        summary="Whether it is of use: store reachable, node registered, not stopping",
        answers={200: Answer(about="it is", schema=ref("Anything"), example={"status": "ready"})},
    ),
    METRICS,
    Route(
        method="GET",
        path="/openapi.json",
        handler=document,
        permission=Permission.OPEN,
        tag="Server",
        summary="This API as OpenAPI 3.1",
        answers={200: Answer(about="the document", schema=ref("Anything"), example={"openapi": "3.1.0"})},
    ),
    Route(
        method="GET",
        path="/docs",
        handler=page,
        permission=Permission.OPEN,
        tag="Server",
        summary="This API for people",
        answers={200: Answer(about="a page", schema={"type": "string"}, type="text/html")},
    ),
    Route(
        method="GET",
        path=f"{V1}/status",
        handler=status,
        permission=Permission.LOOK,
        tag="Server",
        summary="Totals of the store, and this node's own",
        answers={200: Answer(about="the state of things", schema=ref("Status"), example=examples.STATUS)},
    ),
    Route(
        method="GET",
        path=f"{V1}/nodes",
        handler=nodes,
        permission=Permission.LOOK,
        tag="Server",
        summary="List the nodes, living or not",
        answers={200: Answer(about="all of them", schema=_items("Node"), example={"items": [examples.NODE]})},
    ),
    Route(
        method="GET",
        path=f"{V1}/queues",
        handler=queues,
        permission=Permission.LOOK,
        scope=Scope.EVERYWHERE,
        tag="Server",
        summary="How much stands in each queue",
        answers={
            200: Answer(about="those that hold anything", schema=_items("Queue"), example={"items": [examples.QUEUE]})
        },
    ),
    Route(
        method="GET",
        path=f"{V1}/namespaces",
        handler=namespaces,
        permission=Permission.LOOK,
        tag="Server",
        summary="List the namespaces that have jobs",
        answers={
            200: Answer(
                about="those that you may see", schema=_items("Namespace"), example={"items": [{"name": "default"}]}
            )
        },
    ),
    Route(
        method="GET",
        path=f"{V1}/audit",
        handler=audit,
        permission=Permission.ADMINISTER,
        scope=Scope.SEEN,
        tag="Server",
        summary="Who changed what, newest first",
        query=(LIMIT, CURSOR, SPACES),
        answers={
            200: Answer(
                about="a page",
                schema=page_of("AuditEntry"),
                example={"items": [examples.AUDIT], "next_cursor": None},
            )
        },
    ),
)
