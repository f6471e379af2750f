"""How much waits in the whole store, and so whether more may be asked for."""

from chronos.clock import Clock
from chronos.core.calendar import SECOND_US
from chronos.core.execution import Status
from chronos.errors import QueueFull
from chronos.store.contract import Store

MAX_PENDING = 100_000
_COUNTED_FOR_US = SECOND_US  # how long a count of what is pending is believed


class Room:
    """What is ready or queued, counted once a second at most; ``most`` of them may be."""

    def __init__(self, store: Store, clock: Clock, *, most: int = MAX_PENDING) -> None:
        self._store, self._clock = store, clock
        self._most = most
        self._pending = 0
        self._counted_us: int | None = None

    async def count(self) -> None:
        """Learn how much waits, unless that is known: once, before many are asked for together."""
        now_us = self._clock.now_us()
        if self._counted_us is None or not 0 <= now_us - self._counted_us < _COUNTED_FOR_US:
            counted = (await self._store.counts()).open
            self._pending = counted.get(Status.READY, 0) + counted.get(Status.QUEUED, 0)
            self._counted_us = now_us

    async def take(self, wanted: int = 1) -> int:
        """Room for as many of these as there is; raises ``QueueFull`` when there is none.

        It is taken at once: many that are asked for together must not all find the same room.
        """
        await self.count()
        fits = min(wanted, self._most - self._pending)
        if fits <= 0:
            raise QueueFull(f"{self._pending} executions wait already, allowed {self._most}; try again later")
        self._pending += fits
        return fits

    def give_back(self, count: int) -> None:
        """So many of those it was taken for were not created."""
        self._pending -= count
