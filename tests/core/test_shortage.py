"""Shortage: every reason why no live node can take work has its sentence."""

from typing import Any

import pytest

from chronos.core.lane import Lane
from chronos.core.node import Node
from chronos.core.shortage import build_offer, explain_shortage


def node(name: str = "vm", **fields: Any) -> Node:
    queues, functions = fields.pop("queues", None), fields.pop("functions", ())
    merged: dict[str, Any] = {"slots": 8, "offer": build_offer(queues, functions).text} | fields
    return Node(number=1, name=name, incarnation=b"x", beat=0, started_us=0, beat_us=0, **merged)


@pytest.mark.parametrize(
    ("lane", "nodes", "sentence"),
    [
        ({}, [node()], None),
        ({}, [], "no node is alive"),
        ({}, [node(stopped_us=5)], "no node is alive"),
        ({}, [node(slots=0)], "no live node runs jobs; live nodes: vm"),
        ({"functions": ("f",)}, [node(functions=["f", "g"])], None),
        ({"functions": ("f",)}, [node("a"), node("b")], 'no live node has the function "f"; live nodes: a, b'),
        ({"queue": "gpu"}, [node(queues=["default"])], 'no live node serves the queue "gpu"; live nodes: vm'),
        ({"queue": "gpu"}, [node(queues=["gpu"])], None),
        (
            {"labels": (("zone", "eu"),)},
            [node(labels={"zone": "us"})],
            "no live node has the label zone=eu; live nodes: vm",
        ),
        ({"labels": (("zone", "eu"),), "fallback_us": 1}, [node()], None),
        ({"labels": (("zone", "eu"),)}, [node(labels={"zone": "eu"})], None),
        (
            {"queue": "gpu", "functions": ("f",)},
            [node("a", queues=["gpu"]), node("b", queues=["default"], functions=["f"])],
            'no live node has all of the queue "gpu", the function "f"; live nodes: a, b',
        ),
        ({"functions": ("f",)}, [node(offer=None)], None),  # an older release has no offer
        (
            {"functions": ("f",)},
            [node(str(i)) for i in range(7)],
            'no live node has the function "f"; live nodes: 0, 1, 2, 3, 4 and 2 more',
        ),
    ],
)
def test_the_sentence_names_the_missing_function_queue_or_label(
    lane: dict[str, Any], nodes: list[Node], sentence: str | None
) -> None:
    assert explain_shortage(Lane(**lane), nodes) == sentence
