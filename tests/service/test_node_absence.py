"""The period without a live node around an instant."""

import pytest

from chronos.core.calendar import SECOND_US
from chronos.core.node import Node
from chronos.service.why.steps import find_absence

NOW_S = 1_000


def node(started_s: int, beat_s: int, stopped_s: int | None = None) -> Node:
    return Node(
        number=1,
        name="a",
        incarnation=bytes(16),
        beat=1,
        started_us=started_s * SECOND_US,
        beat_us=beat_s * SECOND_US,
        stopped_us=None if stopped_s is None else stopped_s * SECOND_US,
    )


@pytest.mark.parametrize(
    ("nodes", "expected"),
    [
        ([node(0, 100, 110), node(900, 995)], (110, 900)),  # stopped
        ([node(0, 100), node(900, 995)], (100, 900)),  # died
        ([node(0, 300, 310), node(50, 120), node(900, 995), node(950, 995)], (310, 900)),
        ([node(0, 995), node(900, 995)], None),  # alive
        ([node(0, 600, 610), node(900, 995)], None),  # alive at that instant
        ([node(900, 995)], None),  # earlier nodes are no longer recorded
        ([node(0, 100)], None),  # no node has started since
        ([], None),
    ],
)
def test_the_period_without_a_live_node_is_found(nodes: list[Node], expected: tuple[int, int] | None) -> None:
    found = find_absence(nodes, 500 * SECOND_US, NOW_S * SECOND_US)
    assert (None if found is None else tuple(us // SECOND_US for us in found)) == expected


def test_a_node_with_a_recent_heartbeat_is_alive() -> None:
    nodes = [node(0, NOW_S - 9), node(NOW_S - 2, NOW_S - 2)]
    assert find_absence(nodes, (NOW_S - 5) * SECOND_US, NOW_S * SECOND_US) is None
