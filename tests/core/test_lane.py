"""Lanes: equal requirements are equal texts."""

from chronos.core.config import Settings, resolve_settings
from chronos.core.lane import make_lane


def test_a_queue_that_is_named_and_is_the_default_makes_the_same_lane() -> None:
    named = "".join(["def", "ault"])  # an equal text, but another object, as read from JSON
    lanes = [make_lane(("f",), resolve_settings(level)) for level in (Settings(), Settings(queue=named))]
    assert lanes[0].text == lanes[1].text
