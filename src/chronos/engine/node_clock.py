"""The clock of a node: its offset to the store's clock, and jumps of the local clock."""

import asyncio
import math
from collections import deque
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass

from chronos.clock import Clock, nearest_offset_us
from chronos.store.contract import Store

MAX_SKEW_US = 1_000_000
JUMP_US = 1_000_000
_MAX_REMEMBERED_JUMPS = 16
_MAX_CLOCK_READS = 4
_QUICK_CLOCK_READ_S = 0.01  # the round trip to the store


class NodeClock:
    """The local clock plus its measured offset to the store's clock, so that all nodes agree on the time.

    Each reading compares wall time with monotonic time, so it notices when the local clock was set. Until the offset is
    measured again the clock counts as wrong. If the store has a clock, time continues from the last measurement by
    monotonic time.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.wall_us = clock.now_us
        self.offset_us = 0
        self.on_jump: Callable[[], None] = lambda: None
        self._set_forward: deque[tuple[int, int]] = deque(maxlen=_MAX_REMEMBERED_JUMPS)  # (before_us, by_us)
        self._monotonic_s: Callable[[], float] | None = None  # set once the offset has been measured
        self._ahead_us = 0.0  # wall time minus monotonic time at the last measurement
        self._has_store_clock = False
        self._jumped = False

    def now_us(self) -> int:
        wall_us = self.wall_us()
        if self._monotonic_s is None:
            return wall_us + self.offset_us
        steady_us = self._monotonic_s() * 1e6 + self._ahead_us
        if not self._jumped and not -JUMP_US <= wall_us - steady_us <= JUMP_US:
            self._jumped = True
            self.on_jump()
        return (round(steady_us) if self._jumped and self._has_store_clock else wall_us) + self.offset_us

    def outside(self) -> AbstractContextManager[None]:
        """Delegate to the local clock."""
        return self._clock.outside()

    def since_us(self, at_us: int) -> int:
        """Return the time that has passed since ``at_us``. A forward jump of the clock does not count as time."""
        skipped_us = sum(by_us for before_us, by_us in self._set_forward if at_us < before_us + by_us)
        return max(0, self.now_us() - at_us - skipped_us)

    def record_jump(self, before_us: int, by_us: int) -> None:
        """Record that the clock was set by ``by_us`` some time after it showed ``before_us``."""
        if by_us > 0:
            self._set_forward.append((before_us, by_us))

    @property
    def is_wrong(self) -> bool:
        """Whether the last reading cannot be trusted."""
        return self._jumped or abs(self.offset_us) > MAX_SKEW_US

    @property
    def is_wrong_now(self) -> bool:
        """Whether a reading taken now cannot be trusted."""
        self.now_us()
        return self.is_wrong

    @property
    def skew_message(self) -> str | None:
        """How far the local clock is off, as a message; None while the skew is within the limit."""
        if abs(self.offset_us) <= MAX_SKEW_US:
            return None
        side = "behind" if self.offset_us > 0 else "ahead of"
        return (
            f"this node's clock is {abs(self.offset_us) / 1e6:.1f} s {side} the store's, and at most "
            f"{MAX_SKEW_US / 1e6:g} s is allowed; the node starts nothing until the clock is set"
        )

    async def measure(self, store: Store) -> None:
        """Read the store's clock, and move the offset only as far as the answers require.

        The moment at which the store read its clock is unknown within a slow answer, so a slow answer moves the offset
        little. The store is asked again, at most four times, until an answer is quick.
        """
        loop_s = asyncio.get_running_loop().time
        offset_us = self.offset_us
        for _ in range(_MAX_CLOCK_READS):
            asked_s = loop_s()
            store_us = await store.clock_us()
            answered_us, took_s = self.wall_us(), loop_s() - asked_s
            if store_us is None:
                break
            took_us = math.ceil(took_s * 1e6)
            offset_us = nearest_offset_us(offset_us, remote_us=store_us, received_us=answered_us, round_trip_us=took_us)
            if took_s <= _QUICK_CLOCK_READ_S:
                break
        self.offset_us, self._has_store_clock = offset_us, store_us is not None
        self._monotonic_s = loop_s
        self._ahead_us, self._jumped = answered_us - loop_s() * 1e6, False


@dataclass(slots=True)
class ClockDrift:
    """Compares wall time with monotonic time, to notice when the clock is set."""

    wall_us: int
    loop_s: float

    def measure_jump_us(self, wall_us: int, loop_s: float) -> int:
        """Return by how much the clock was set since the last call."""
        by_us = (wall_us - self.wall_us) - round((loop_s - self.loop_s) * 1e6)
        self.wall_us, self.loop_s = wall_us, loop_s
        return by_us
