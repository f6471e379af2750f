"""Finding one's way among the instants of a schedule: how many, which is the last, in work that has a bound.

A gap may be years of a schedule that fires every second. Where the rule can count, nothing is walked; where it cannot,
a walk stops after so many steps and says how far it came.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Protocol


class Instants(Protocol):
    """What planning needs of a schedule: the same answers on every node, whatever the time is there."""

    @property
    def jitter_us(self) -> int:
        """How long after its instant a run may be due, at most."""

    def next_us(self, after_us: int, /) -> int | None:
        """The first instant strictly after the given one."""

    def count_us(self, after_us: int, until_us: int, /) -> int | None:
        """How many instants there are with after < t <= until; None where only a walk can tell."""

    def due_us(self, scheduled_us: int, /) -> int:
        """When the run of an instant is due: never before it, at most ``jitter_us`` after it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InstantCount:
    """How many instants there are, or, when it is not exact, the first so many of them."""

    count: int
    last_us: int  # the last one counted
    exact: bool


def walk(instants: Instants, first_us: int | None, until_us: int) -> Iterator[int]:
    """``first_us``, whatever it is, and the instants after it up to ``until_us``."""
    at_us = first_us
    while at_us is not None and at_us <= until_us:
        yield at_us
        at_us = instants.next_us(at_us)


def count_instants(instants: Instants, first_us: int, until_us: int, steps: int) -> InstantCount:
    """How many instants there are from ``first_us``, which counts, to ``until_us``; at most ``steps`` are walked."""
    counted = instants.count_us(first_us, until_us)
    if counted is not None:
        return InstantCount(count=1 + counted, last_us=last_us(instants, first_us, until_us), exact=True)
    count, reached_us = 0, first_us
    for reached_us in islice(walk(instants, first_us, until_us), steps):  # noqa: B007 - the last one is wanted
        count += 1
    following_us = instants.next_us(reached_us)
    return InstantCount(count=count, last_us=reached_us, exact=following_us is None or following_us > until_us)


def last_us(instants: Instants, first_us: int, until_us: int) -> int:
    """The last instant up to ``until_us``, or ``first_us`` when none follows it: a search by halves."""
    following_us = instants.next_us(first_us)
    if following_us is None or following_us > until_us:  # as a rule: only one is due
        return first_us
    low, high = following_us, until_us  # an instant follows every time before the last one, and none from it on
    while low < high:
        middle = (low + high) // 2
        next_us = instants.next_us(middle)
        if next_us is not None and next_us <= until_us:
            low = next_us
        else:
            high = middle
    return low


def nth_us(instants: Instants, first_us: int, n: int, until_us: int) -> int:
    """The instant ``n`` steps after ``first_us``, of which there must be as many up to ``until_us``."""
    if instants.count_us(first_us, until_us) is None:
        return next(islice(walk(instants, first_us, until_us), n, None))
    low, high = first_us, until_us
    while low < high:
        middle = (low + high) // 2
        if (instants.count_us(first_us, middle) or 0) >= n:
            high = middle
        else:
            low = middle + 1
    return low


def nth_last_instant_us(instants: Instants, first_us: int, until_us: int, count: int) -> int:
    """The instant from which ``most`` are left up to ``until_us``; there must be as many from ``first_us``.

    For what cannot be counted: a search by halves that walks ``most`` steps at each.
    """
    low, high = first_us, until_us
    while low < high:
        middle = (low + high + 1) // 2
        begin_us = instants.next_us(middle - 1)
        if begin_us is not None and _has_at_least(instants, begin_us, until_us, count):
            low = begin_us
        else:
            high = middle - 1
    return low


def _has_at_least(instants: Instants, first_us: int, until_us: int, count: int) -> bool:
    return next(islice(walk(instants, first_us, until_us), count - 1, None), None) is not None
