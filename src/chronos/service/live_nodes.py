"""Finds the live nodes of a store, for a process that is not a node and does not watch heartbeats."""

from collections.abc import Sequence

from chronos.core.node import Node
from chronos.process_identity import has_ended, identify_this_process

HEARTBEAT_TIMEOUT_US = 30_000_000  # the default of nodes


def find_live_nodes(nodes: Sequence[Node], now_us: int) -> list[Node]:
    """Return the nodes that have not stopped, as far as this process can tell.

    A process of the same machine is looked up. Any other node counts as live until its heartbeats are too old.
    """
    this = identify_this_process()
    scope = None if this is None else this.scope
    return [node for node in nodes if node.stopped_us is None and _is_alive(node, scope, now_us)]


def _is_alive(node: Node, scope: str | None, now_us: int) -> bool:
    if node.process is not None and node.process.scope == scope:
        return not has_ended(node.process)
    return now_us - node.beat_us < HEARTBEAT_TIMEOUT_US
