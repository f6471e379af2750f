"""The defaults that each server is configured with, compared with those in force."""

from collections.abc import Sequence
from typing import Any

from chronos.core.node import Node
from chronos.store.contract import Store

DEFAULTS_LABEL = "chronos/defaults"  # the label of a node with the number of the defaults that it has put into force


async def compare_defaults(store: Store, nodes: Sequence[Node]) -> dict[int, dict[str, Any]]:
    """Return, by node, the number of its defaults and whether the same values are in force. Only servers have some."""
    numbers = {
        node.number: int(node.labels[DEFAULTS_LABEL])
        for node in nodes
        if node.labels.get(DEFAULTS_LABEL, "").isdecimal()
    }
    if not numbers:
        return {}
    [current] = (await store.current_levels([""])).values()
    versions = await store.settings_at([("", number) for number in set(numbers.values()) if number])
    return {
        node: {
            "number": number,
            "in_force": number == current.levels.defaults or versions.get(("", number)) == current.defaults,
        }
        for node, number in numbers.items()
    }
