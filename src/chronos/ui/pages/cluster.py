"""Cluster: the nodes, whether they live, and the queues that they serve."""

from dataclasses import dataclass
from typing import Any

from chronos.core.calendar import SECOND_US
from chronos.core.lane import Lane, read_lane
from chronos.core.node import Node
from chronos.core.shortage import explain_shortage
from chronos.store.contract import Depth
from chronos.ui.visit import View, Visit

_SILENT_US = 30 * SECOND_US  # without a heartbeat for this long, a node is shown as lost
_SHOWN_STOPPED = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeLine:
    """One node."""

    node: Node
    status: str  # alive, stopped or lost
    running: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueLine:
    """One queue with the labels and functions that its work requires."""

    lane: Lane
    depth: Depth
    shortage: str | None  # why no live node can take its work
    served_by: list[str]


async def show(visit: Visit) -> View:
    """Show nodes and queues."""
    store = visit.ui.store
    nodes = await store.nodes()
    lines = [NodeLine(node=node, status=_find_status(node, visit.now_us), running=None) for node in nodes]
    alive = [line for line in lines if line.status == "alive"]
    lost = [line for line in lines if line.status == "lost"]
    names = {line.node.name for line in alive}
    gone = [line for line in lines if line.status == "stopped" and line.node.name not in names]
    stopped = sorted(gone, key=lambda line: line.node.stopped_us or 0, reverse=True)
    queues: list[QueueLine] = []
    counts = None
    if visit.account.sees_everything:
        counts = await store.counts()
        lanes = await store.lanes()
        live_nodes = [line.node for line in alive]
        queues = [
            _make_queue(read_lane(lanes.get(depth.lane, "default")), depth, live_nodes)
            for depth in await store.depths()
        ]
    values: dict[str, Any] = {
        "alive": alive,
        "lost": lost,
        "stopped": stopped[:_SHOWN_STOPPED],
        "queues": sorted(queues, key=lambda one: (one.shortage is None, one.lane.queue)),
        "slots": sum(line.node.slots for line in alive),
        "running": None if counts is None else sum(depth.depth.running for depth in queues),
        "ready": None if counts is None else sum(depth.depth.ready for depth in queues),
        "unserved": [one for one in queues if one.shortage is not None],
    }
    return View(template="cluster.html", values=values, parts=("body",))


def _find_status(node: Node, now_us: int) -> str:
    if node.stopped_us is not None:
        return "stopped"
    return "lost" if now_us - node.beat_us > _SILENT_US else "alive"


def _make_queue(lane: Lane, depth: Depth, nodes: list[Node]) -> QueueLine:
    served_by = [node.name for node in nodes if explain_shortage(lane, [node]) is None]
    return QueueLine(lane=lane, depth=depth, shortage=explain_shortage(lane, nodes), served_by=served_by)
