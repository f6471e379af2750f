"""Shortage: explains why no live node can take some work, by the missing function, queue or label.

A node writes its offer to the store when it registers. Without this explanation, work that no live node can take would
wait forever in silence.
"""

from collections.abc import Iterable, Sequence

import msgspec
from msgspec import Struct

from chronos.core.lane import Lane
from chronos.core.node import Node

_MAX_NAMED_NODES = 5  # live nodes listed in a sentence


class Offer(Struct, frozen=True, kw_only=True):
    """What a node publishes about itself with its heartbeats."""

    queues: tuple[str, ...] | None = None  # that it serves; None: any
    functions: tuple[str, ...] = ()  # Python functions that it has
    version: str = ""  # of Chronos
    address: str = ""  # where its API listens; empty: it has none
    skew_ms: int = 0  # how far the store's clock is ahead of the node's, in steps of 10 ms
    draining: bool = False  # it finishes its work and stops

    @property
    def text(self) -> str:
        """The offer as stored with the node, equal for equal offers."""
        return msgspec.json.encode(self).decode()


def build_offer(
    queues: Iterable[str] | None,
    functions: Iterable[str],
    *,
    version: str = "",
    address: str = "",
    skew_us: int = 0,
    draining: bool = False,
) -> Offer:
    """Build the offer of a node, sorted."""
    return Offer(
        queues=None if queues is None else tuple(sorted(queues)),
        functions=tuple(sorted(functions)),
        version=version,
        address=address,
        skew_ms=round(skew_us / 10_000) * 10,
        draining=draining,
    )


def explain_shortage(lane: Lane, nodes: Sequence[Node]) -> str | None:
    """Explain why no live node can take work of a lane. None: one can, or one is too old to publish its offer."""
    live = [node for node in nodes if node.stopped_us is None]
    workers = [node for node in live if node.slots > 0]
    if any(is_suitable_node(lane, node) for node in workers):
        return None
    if not live:
        return "no node is alive"
    if not workers:
        return f"no live node runs jobs{_format_live_nodes(live)}"
    missing = [
        *(
            f'has the function "{name}"'
            for name in lane.functions
            if not any(_has_function(node, name) for node in workers)
        ),
        *([] if any(_serves(node, lane.queue) for node in workers) else [f'serves the queue "{lane.queue}"']),
        *(
            f"has the label {key}={value}"
            for key, value in lane.labels
            if lane.fallback_us is None and not any(node.labels.get(key) == value for node in workers)
        ),
    ]
    if missing:
        return f"no live node {' or '.join(missing)}{_format_live_nodes(live)}"
    required = [
        f'the queue "{lane.queue}"',
        *(f'the function "{name}"' for name in lane.functions),
        *(f"the label {key}={value}" for key, value in lane.labels if lane.fallback_us is None),
    ]
    return f"no live node has all of {', '.join(required)}{_format_live_nodes(live)}"


def is_suitable_node(lane: Lane, node: Node) -> bool:
    """Return whether a node can take work of a lane, as far as it published its offer."""
    offer = read_offer(node)
    if offer is None:
        return True
    labels = node.labels if lane.fallback_us is None else dict(lane.labels)
    return lane.suits(queues=offer.queues, labels=labels, functions=frozenset(offer.functions))


def _has_function(node: Node, function: str) -> bool:
    offer = read_offer(node)
    return offer is None or function in offer.functions


def _serves(node: Node, queue: str) -> bool:
    offer = read_offer(node)
    return offer is None or offer.queues is None or queue in offer.queues


def read_offer(node: Node) -> Offer | None:
    """Return what a node published about itself; None if it is too old to publish anything."""
    return None if node.offer is None else msgspec.json.decode(node.offer, type=Offer)


def _format_live_nodes(nodes: Sequence[Node]) -> str:
    more = f" and {len(nodes) - _MAX_NAMED_NODES} more" if len(nodes) > _MAX_NAMED_NODES else ""
    return f"; live nodes: {', '.join(node.name for node in nodes[:_MAX_NAMED_NODES])}{more}"
