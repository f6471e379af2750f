"""How much waits in the whole store, and so whether more may be asked for."""

import asyncio

from chronos.clock import Clock
from chronos.core.calendar import SECOND_US
from chronos.core.execution import Status
from chronos.errors import QueueFull
from chronos.store.contract import Store

MAX_PENDING = 100_000
_COUNT_VALID_US = SECOND_US  # how long a count of what is pending is believed where it leaves room
_MIN_PAUSE_S, _MAX_PAUSE_S = 0.025, 1.0  # between two counts that are made before anything is refused
_PAUSE_FACTOR = 10  # times what the last count took: counting is a tenth of what is done, and not more


class Backpressure:
    """What is ready or queued; ``most`` of them may be.

    Where there is room, a count is believed for a second, and what was asked for since is added to it. Nothing is
    refused by such a count, for what has run since is still in it: before that it is counted anew, once for all that
    are about to be refused.
    """

    def __init__(self, store: Store, clock: Clock, *, limit: int = MAX_PENDING) -> None:
        self._store, self._clock = store, clock
        self._limit = limit
        self._pending = 0
        self._unsettled = 0  # taken, and not known yet whether it was created
        self._reserved_since_count = 0  # since the last count began
        self._counted_us: int | None = None
        self._counts_begun = 0  # counts, so far
        self._next_count_s = 0.0  # when the next may begin
        self._counting = asyncio.Lock()

    async def refresh(self) -> None:
        """Learn how much waits, unless that is known: once, before many are asked for together."""
        if not self._is_fresh():
            async with self._counting:
                if not self._is_fresh():
                    await self._count()

    async def reserve(self, count: int = 1) -> int:
        """Room for as many of these as there is; raises ``QueueFull`` when there is none.

        It is taken at once: many that are asked for together must not all find the same room. Whoever took it says
        by ``settle`` what came of it.
        """
        await self.refresh()
        if self._pending + count > self._limit:
            await self._recount()
        reserved = min(count, self._limit - self._pending)
        if reserved <= 0:
            raise QueueFull(f"{self._pending} executions wait already, allowed {self._limit}; try again later")
        self._pending += reserved
        self._unsettled += reserved
        self._reserved_since_count += reserved
        return reserved

    def release(self, reserved: int, created: int) -> None:
        """Of those that room was taken for, so many were created."""
        self._unsettled -= reserved
        self._pending -= reserved - created

    def _is_fresh(self) -> bool:
        return self._counted_us is not None and 0 <= self._clock.now_us() - self._counted_us < _COUNT_VALID_US

    async def _recount(self) -> None:
        """A count that began after this was called, by whomever; counts keep their distance."""
        before = self._counts_begun
        async with self._counting:
            if self._counts_begun == before:
                await asyncio.sleep(self._next_count_s - asyncio.get_running_loop().time())
                await self._count()

    async def _count(self) -> None:
        loop = asyncio.get_running_loop()
        began_s = loop.time()
        self._counts_begun += 1
        now_us, unsettled, self._reserved_since_count = self._clock.now_us(), self._unsettled, 0
        open_counts = (await self._store.counts()).open
        # What was under way meanwhile may be among those, or not: rather too many than more than there may be.
        self._pending = (
            open_counts.get(Status.READY, 0)
            + open_counts.get(Status.QUEUED, 0)
            + unsettled
            + self._reserved_since_count
        )
        self._counted_us = now_us
        ended_s = loop.time()
        self._next_count_s = ended_s + min(max(_MIN_PAUSE_S, (ended_s - began_s) * _PAUSE_FACTOR), _MAX_PAUSE_S)
