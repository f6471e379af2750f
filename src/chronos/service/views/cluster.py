"""ClusterView: the nodes with their load, and the queues with the nodes that serve them."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from chronos.clock import Clock
from chronos.core.calendar import SECOND_US
from chronos.core.execution import Status
from chronos.core.lane import Lane, read_lane
from chronos.core.node import Node
from chronos.core.shortage import explain_shortage, is_suitable_node, read_offer
from chronos.store.contract import Store
from chronos.store.overview import Load

SILENT_US = 30 * SECOND_US  # a node without a heartbeat for longer counts as lost, unless the caller knows better


class NodeState(StrEnum):
    """Whether a node can take work."""

    ALIVE = "alive"
    DRAINING = "draining"
    LOST = "lost"
    STOPPED = "stopped"


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeRow:
    """A node as one row of a list."""

    node: Node
    state: NodeState
    running: int
    longest_since_us: int | None  # start of the longest-running attempt
    version: str | None
    address: str | None
    skew_ms: int | None
    queues: tuple[str, ...] | None  # that it serves; None: any, or unknown
    silent_us: int | None  # since its last heartbeat; None: it has stopped


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueRow:
    """A queue: its open executions, and the live nodes that can run all of them or some."""

    queue: str
    ready: int
    queued: int
    running: int
    waiting: int
    held: int  # ready or queued, but their job is paused
    oldest_ready_us: int | None
    slots: int  # of the nodes that serve it, shared with the other queues of these nodes
    served_by: tuple[str, ...]  # names of live nodes
    shortage: str | None  # why no live node can run some of its ready executions


class ClusterView:
    """Reads nodes and queues."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store, self._clock = store, clock

    async def nodes(self, *, silent_us: int = SILENT_US) -> list[NodeRow]:
        """Return every known node, by number."""
        nodes, loads, now_us = await self._store.nodes(), await self._store.loads(), self._clock.now_us()
        return [build_node_row(node, loads, now_us, silent_us) for node in nodes]

    async def queues(self) -> list[QueueRow]:
        """Return the queues that jobs name or named, by name."""
        lanes = {number: read_lane(text) for number, text in (await self._store.lanes()).items()}
        loads, nodes = await self._store.loads(), await self._store.nodes()
        names = sorted({lane.queue for lane in lanes.values()})
        return [_build_queue_row(name, lanes, loads, nodes) for name in names]


def build_node_row(node: Node, loads: Sequence[Load], now_us: int, silent_us: int = SILENT_US) -> NodeRow:
    """Build the row of a node."""
    running = [load for load in loads if load.status is Status.RUNNING and load.node == node.number]
    offer = read_offer(node)
    return NodeRow(
        node=node,
        state=_find_state(node, now_us, silent_us, draining=offer is not None and offer.draining),
        running=sum(load.runs for load in running),
        longest_since_us=min((load.started_us for load in running if load.started_us is not None), default=None),
        version=None if offer is None else offer.version or None,
        address=None if offer is None else offer.address or None,
        skew_ms=None if offer is None else offer.skew_ms,
        queues=None if offer is None else offer.queues,
        silent_us=None if node.stopped_us is not None else max(0, now_us - node.beat_us),
    )


def _find_state(node: Node, now_us: int, silent_us: int, *, draining: bool) -> NodeState:
    if node.stopped_us is not None:
        return NodeState.STOPPED if node.taken_over is None else NodeState.LOST
    if now_us - node.beat_us > silent_us:
        return NodeState.LOST
    return NodeState.DRAINING if draining else NodeState.ALIVE


def _build_queue_row(queue: str, lanes: dict[int, Lane], loads: Sequence[Load], nodes: Sequence[Node]) -> QueueRow:
    own = {number: lane for number, lane in lanes.items() if lane.queue == queue}
    here = [load for load in loads if load.lane in own]
    counts = {status: sum(load.runs for load in here if load.status is status) for status in Status}
    ready = [load for load in here if load.status is Status.READY and not load.held]
    able = [
        node
        for node in nodes
        if node.stopped_us is None and node.slots > 0 and any(is_suitable_node(lane, node) for lane in own.values())
    ]
    shortages = (explain_shortage(own[load.lane], nodes) for load in ready)
    return QueueRow(
        queue=queue,
        ready=counts[Status.READY],
        queued=counts[Status.QUEUED],
        running=counts[Status.RUNNING],
        waiting=counts[Status.WAITING],
        held=sum(load.runs for load in here if load.held),
        oldest_ready_us=min((load.since_us for load in ready), default=None),
        slots=sum(node.slots for node in able),
        served_by=tuple(node.name for node in able),
        shortage=next((shortage for shortage in shortages if shortage is not None), None),
    )
