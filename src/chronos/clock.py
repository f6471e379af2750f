"""The clock: the only module that reads the time, so that tests can replace it.

A clock only returns the current time. Code that waits uses the monotonic timers of the event loop (``asyncio.sleep``,
``loop.call_at``). ``chronos.testing`` has a clock that stands still until a test moves it.
"""

import time
from contextlib import AbstractContextManager, nullcontext
from typing import Protocol


class Clock(Protocol):
    """Returns the time in microseconds since 1970 UTC."""

    def now_us(self) -> int:
        """Return the current time. It may jump in both directions, because machines set their clocks."""

    def outside(self) -> AbstractContextManager[None]:
        """Mark a block that waits for the real world (a process, a socket). A virtual clock stands still meanwhile."""


class SystemClock:
    """The clock of this machine."""

    def now_us(self) -> int:
        return time.time_ns() // 1_000

    def outside(self) -> AbstractContextManager[None]:
        return nullcontext()


def nearest_offset_us(offset_us: int, *, remote_us: int, received_us: int, round_trip_us: int) -> int:
    """Return the offset to a remote clock that fits its reply and is nearest to the last known offset.

    The remote clock showed ``remote_us`` at an unknown moment of the round trip, which ended at ``received_us`` by the
    local clock. So the offset lies between remote − received and remote − received + round trip.
    """
    least_us = remote_us - received_us
    return min(max(offset_us, least_us), least_us + round_trip_us)
