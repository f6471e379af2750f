"""Counts the instants of a range and finds the last or the nth one, in bounded time.

A range may be years of a schedule that fires every second. If the rule can count, no instant is visited. Otherwise a
walk stops after a limited number of steps and reports how far it came.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Protocol


class Instants(Protocol):
    """The part of a schedule that planning needs. Its answers do not depend on the node or on the current time."""

    @property
    def jitter_us(self) -> int:
        """The longest delay between an instant and the time its run is due."""

    def next_us(self, after_us: int, /) -> int | None:
        """Return the first instant strictly after ``after_us``."""

    def count_us(self, after_us: int, until_us: int, /) -> int | None:
        """Count the instants with after < t <= until; None if that requires a walk."""

    def due_us(self, scheduled_us: int, /) -> int:
        """Return when the run of an instant is due: never before it, at most ``jitter_us`` after it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InstantCount:
    """A count of instants. If it is not ``exact``, more instants follow ``last_us``."""

    count: int
    last_us: int  # the last instant counted
    exact: bool


def walk(instants: Instants, first_us: int | None, until_us: int) -> Iterator[int]:
    """Yield ``first_us`` and the instants after it up to ``until_us``."""
    at_us = first_us
    while at_us is not None and at_us <= until_us:
        yield at_us
        at_us = instants.next_us(at_us)


def count_instants(instants: Instants, first_us: int, until_us: int, steps: int) -> InstantCount:
    """Count the instants from ``first_us`` to ``until_us``, both included; visits at most ``steps`` of them."""
    counted = instants.count_us(first_us, until_us)
    if counted is not None:
        return InstantCount(count=1 + counted, last_us=last_us(instants, first_us, until_us), exact=True)
    count, reached_us = 0, first_us
    for reached_us in islice(walk(instants, first_us, until_us), steps):  # noqa: B007 - used after the loop
        count += 1
    following_us = instants.next_us(reached_us)
    return InstantCount(count=count, last_us=reached_us, exact=following_us is None or following_us > until_us)


def last_us(instants: Instants, first_us: int, until_us: int) -> int:
    """Return the last instant up to ``until_us``, or ``first_us`` if no instant follows it. A binary search."""
    following_us = instants.next_us(first_us)
    if following_us is None or following_us > until_us:  # the usual case: only one is due
        return first_us
    low, high = following_us, until_us  # before the last instant, another one follows
    while low < high:
        middle = (low + high) // 2
        next_us = instants.next_us(middle)
        if next_us is not None and next_us <= until_us:
            low = next_us
        else:
            high = middle
    return low


def nth_us(instants: Instants, first_us: int, n: int, until_us: int) -> int:
    """Return the instant ``n`` steps after ``first_us``. At least ``n`` must follow it up to ``until_us``."""
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
    """Return the instant from which ``count`` instants are left up to ``until_us``.

    At least ``count`` must lie between ``first_us`` and ``until_us``. For schedules that cannot count: a binary search
    that walks ``count`` steps at each half.
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
