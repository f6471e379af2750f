"""The clock: the one place that reads the time, so that everything else can be given another one.

Waits are the event loop's own (``asyncio.sleep``, ``loop.call_at``), which are monotonic; a clock only tells what time
it is. ``chronos.testing`` has one that stands still until a test moves it.
"""

import time
from contextlib import AbstractContextManager, nullcontext
from typing import Protocol


class Clock(Protocol):
    """What time it is, in microseconds since 1970, UTC."""

    def now_us(self) -> int:
        """The time now. It may jump, in both directions: clocks are set."""

    def outside(self) -> AbstractContextManager[None]:
        """While entered, something in the real world is waited for (a process, a socket): time must not be skipped."""


class SystemClock:
    """This machine's clock."""

    def now_us(self) -> int:
        return time.time_ns() // 1_000

    def outside(self) -> AbstractContextManager[None]:
        return nullcontext()


def nearest_offset_us(offset_us: int, *, told_us: int, answered_us: int, took_us: int) -> int:
    """The offset to another clock that one answer allows and that is nearest to the one known before.

    The other clock showed ``told_us`` at some moment of the ``took_us`` before the answer came, which was at
    ``answered_us`` here. So the offset lies between told − answered and told + took − answered, and nothing says where.
    """
    least_us = told_us - answered_us
    return min(max(offset_us, least_us), least_us + took_us)
