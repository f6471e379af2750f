"""When nobody was there: read from the lives of nodes, as far as they are still known."""

from collections.abc import Sequence

from chronos.core.calendar import SECOND_US
from chronos.core.node import Node

_LIVELY_US = 10 * SECOND_US  # a node that beat so recently lives, though its last beat may be older than the question


def absence(nodes: Sequence[Node], at_us: int, now_us: int) -> tuple[int, int] | None:
    """From when to when no node gave a sign of life around an instant; None: one did, or it is not known any more."""
    before = [_until_us(node, now_us) for node in nodes if node.started_us <= at_us]
    after = [node.started_us for node in nodes if node.started_us > at_us]
    if not before or not after or max(before) >= at_us:
        return None
    return max(before), min(after)


def _until_us(node: Node, now_us: int) -> int:
    """The last that was heard of a node."""
    if node.stopped_us is not None:
        return node.stopped_us
    return now_us if now_us - node.beat_us <= _LIVELY_US else node.beat_us
