"""Random intervals: within their bounds, and the same for every node, however it asks."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from chronos import parse_schedule
from chronos.core.calendar import LAST_US, SECOND_US
from chronos.core.schedule.random_interval import RandomRule

LENGTHS = st.one_of(st.integers(1, 50), st.integers(1, 10**12), st.integers(1, 10**5).map(lambda s: s * SECOND_US))
STARTS = st.integers(-(10**15), 4 * 10**15)


@given(LENGTHS, LENGTHS, STARTS, st.text(max_size=5))
def test_intervals_are_within_their_bounds(shortest: int, more: int, start: int, key: str) -> None:
    rule = RandomRule(shortest, shortest + more, key, start)
    instants = [start - 1]
    for _ in range(12):
        after = rule.next_us(instants[-1])
        assert after is not None
        instants.append(after)
    assert instants[1] == start
    gaps = [later - earlier for earlier, later in pairwise(instants[1:])]
    assert all(shortest <= gap <= shortest + more for gap in gaps)
    if not (shortest % SECOND_US or more % SECOND_US):
        assert not any(gap % SECOND_US for gap in gaps)
    for index, instant in enumerate(instants[1:], 1):  # asked from anywhere, in any order
        assert rule.next_us(instant - 1) == instant
        assert rule.count_us(start - 1, instant) == index
        assert rule.count_us(instant, instants[-1]) == len(instants) - 1 - index


def test_instants_depend_on_the_key_and_the_start() -> None:
    rules = [RandomRule(5, 500_000, key, start) for key in ("a", "b") for start in (0, 1)]
    offsets = {tuple((rule.next_us(us) or 0) - (rule.start_us or 0) for us in (10, 10**6)) for rule in rules}
    assert len(offsets) == 4
    assert parse_schedule("every 5 to 10 minutes", key="a") != parse_schedule("every 5 to 10 minutes", key="b")


def test_many_intervals_are_spread() -> None:
    rule = parse_schedule("every 5 to 10 minutes", key="job", start="2027-01-01T00:00:00Z").rule
    assert isinstance(rule, RandomRule)
    us, gaps = rule.start_us or 0, []
    for _ in range(500):
        after = rule.next_us(us)
        assert after is not None
        gaps.append((after - us) // SECOND_US)
        us = after
    assert 300 <= min(gaps) < 330
    assert 570 < max(gaps) <= 600
    assert 440 < sum(gaps) / len(gaps) < 460


def test_no_instant_follows_the_calendar() -> None:
    assert RandomRule(5, 10, "", LAST_US - 3).next_us(LAST_US - 2) is None
    assert RandomRule(5, 10).next_us(LAST_US) is None
    assert RandomRule(5, 10).count_us(0, 100) is None
