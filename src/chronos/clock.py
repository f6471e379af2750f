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
