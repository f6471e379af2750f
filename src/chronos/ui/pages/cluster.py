"""Cluster: the nodes, whether they live, and the queues that they serve."""

from typing import Any

from chronos.service.views.cluster import NodeState
from chronos.store.overview import LATE_START_US
from chronos.ui.visit import View, Visit

_SHOWN_GONE = 5  # stopped nodes
_RECENT_US = 86_400_000_000  # a node that was lost within a day is worth a note


async def show(visit: Visit) -> View:
    """Show nodes and queues."""
    cluster = visit.ui.service.views.cluster
    rows = await cluster.nodes()
    alive = [row for row in rows if row.state in (NodeState.ALIVE, NodeState.DRAINING)]
    names = {row.node.name for row in alive}
    gone = sorted(
        (row for row in rows if row not in alive and row.node.name not in names),
        key=lambda row: row.node.beat_us,
        reverse=True,
    )
    lost = [row for row in gone if row.state is NodeState.LOST and visit.now_us - row.node.beat_us < _RECENT_US]
    queues = await cluster.queues() if visit.account.sees_everything else []
    waits_us = [visit.now_us - queue.oldest_ready_us for queue in queues if queue.oldest_ready_us is not None]
    skews_ms = [abs(row.skew_ms) for row in alive if row.skew_ms is not None]
    values: dict[str, Any] = {
        "alive": alive,
        "lost": lost,
        "nodes": [*alive, *lost, *[row for row in gone if row not in lost][:_SHOWN_GONE]],
        "queues": sorted(queues, key=lambda queue: (queue.shortage is None, queue.queue)),
        "unserved": [queue.queue for queue in queues if queue.shortage is not None],
        "slots": sum(row.node.slots for row in alive),
        "running": sum(row.running for row in alive),
        "ready": sum(queue.ready for queue in queues),
        "longest_wait_us": max(waits_us, default=None),
        "skew_ms": max(skews_ms, default=None),
        "late_us": LATE_START_US,
        "delays": visit.ui.delays.recent(),
    }
    return View(template="cluster.html", values=values, parts=("body",))
