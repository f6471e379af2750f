"""Backpressure: rejects new runs with QueueFull when too many executions are pending."""

import asyncio

from chronos.clock import Clock
from chronos.core.calendar import SECOND_US
from chronos.core.execution import Status
from chronos.errors import QueueFull
from chronos.store.contract import Store

MAX_PENDING = 100_000
_COUNT_VALID_US = SECOND_US  # how long a cached count may admit runs
_MIN_PAUSE_S, _MAX_PAUSE_S = 0.025, 1.0  # between two refreshes before rejections
_PAUSE_FACTOR = 10  # times the duration of the last count, so that counting takes a tenth of the time at most


class Backpressure:
    """Limits the number of ready and queued executions.

    The pending count is cached for one second and incremented locally. Before rejecting anything it is refreshed, once
    for all concurrent callers, because the cached count still includes runs that have finished.
    """

    def __init__(self, store: Store, clock: Clock, *, limit: int = MAX_PENDING) -> None:
        self._store, self._clock = store, clock
        self._limit = limit
        self._pending = 0
        self._unsettled = 0  # reserved, and not yet known to be created
        self._reserved_since_count = 0
        self._counted_us: int | None = None
        self._counts_begun = 0
        self._next_count_s = 0.0  # the earliest time of the next count
        self._counting = asyncio.Lock()

    async def refresh(self) -> None:
        """Count the pending executions, unless the cached count is fresh. Call it before many concurrent requests."""
        if not self._is_fresh():
            async with self._counting:
                if not self._is_fresh():
                    await self._count()

    async def reserve(self, count: int = 1) -> int:
        """Reserve capacity for up to ``count`` runs; returns how many fit. Raises ``QueueFull`` if none fits.

        The reservation counts immediately, so concurrent callers cannot get the same capacity. Every caller has to
        ``release`` it.
        """
        await self.refresh()
        if self._pending + count > self._limit:
            await self._recount()
        reserved = min(count, self._limit - self._pending)
        if reserved <= 0:
            waiting = f"{self._pending:,} runs are already waiting, allowed {self._limit:,} (queue.max_pending)"
            raise QueueFull(f"{waiting}; try again later")
        self._pending += reserved
        self._unsettled += reserved
        self._reserved_since_count += reserved
        return reserved

    def release(self, reserved: int, created: int) -> None:
        """End a reservation, of which ``created`` runs were created."""
        self._unsettled -= reserved
        self._pending -= reserved - created

    def _is_fresh(self) -> bool:
        return self._counted_us is not None and 0 <= self._clock.now_us() - self._counted_us < _COUNT_VALID_US

    async def _recount(self) -> None:
        """Wait for a count that started after this call, made by any caller. Counts keep a minimum distance."""
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
        # Reservations that were open during the count may or may not be included; count them, to stay below the limit.
        self._pending = (
            open_counts.get(Status.READY, 0)
            + open_counts.get(Status.QUEUED, 0)
            + unsettled
            + self._reserved_since_count
        )
        self._counted_us = now_us
        ended_s = loop.time()
        self._next_count_s = ended_s + min(max(_MIN_PAUSE_S, (ended_s - began_s) * _PAUSE_FACTOR), _MAX_PAUSE_S)
