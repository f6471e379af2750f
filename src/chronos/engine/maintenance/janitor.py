"""Looks after what nobody else does: wakes what slept, trims history, lets the store make room.

Waking is timed: the janitor knows when the next sleeper of this node is due, and asks the store once a tick for those
of others. What waits for a concurrency key is woken when this node has freed one. Everything else is rare and bounded.
A duty that fails keeps no other from being done.
"""

import asyncio
from collections.abc import Callable

from chronos.engine.maintenance.unclaimable import UnclaimableWork
from chronos.engine.node_context import NodeContext
from chronos.engine.wakeup import Wakeup
from chronos.store.commands import Trim, Wake

_WAKE_LIMIT = 500
_TRIM_LIMIT = 1_000
_TRIM_EVERY_TICKS = 10
_SWEEP_EVERY_TICKS = 5  # also what a freed concurrency key left behind
_MAINTAIN_EVERY_TICKS = 300


class Janitor:
    """One node's upkeep."""

    def __init__(self, crew: NodeContext, *, ready: Callable[[], None], keep_deleted_us: int) -> None:
        self._crew, self._ready, self._keep_deleted_us = crew, ready, keep_deleted_us
        self._next_wake_us: int | None = None
        self._sweep = False  # a key came free
        self._wakeup = Wakeup()
        self._unclaimed = UnclaimableWork(crew.store, crew.clock, crew.bus)

    def wakes_at(self, wake_us: int) -> None:
        """Something sleeps until then."""
        if self._next_wake_us is None or wake_us < self._next_wake_us:
            self._next_wake_us = wake_us
            self._wakeup.wake()

    def sweep_soon(self) -> None:
        """Something may be woken now."""
        self._sweep = True
        self._wakeup.wake()

    async def run(self) -> None:
        """Look after it all until cancelled."""
        ticks = 0
        due_s = asyncio.get_running_loop().time()
        while True:
            loop_s = asyncio.get_running_loop().time()
            if loop_s >= due_s:
                due_s = loop_s + self._crew.options.tick_s
                await self._tick(ticks)
                ticks += 1
            elif self._sweep or self._woken():
                await self._wake()
            await self._rest(due_s)

    async def _rest(self, due_s: float) -> None:
        loop = asyncio.get_running_loop()
        wait_s = due_s - loop.time()
        if self._next_wake_us is not None:
            wait_s = min(wait_s, (self._next_wake_us - self._crew.clock.now_us()) / 1e6)
        if wait_s > 0 and not self._sweep:
            await self._wakeup.wait(wait_s)

    def _woken(self) -> bool:
        return self._next_wake_us is not None and self._next_wake_us <= self._crew.clock.now_us()

    async def _tick(self, ticks: int) -> None:
        duties = self._crew.node.duties
        with duties.count_failures("wake-up look"):
            self._next_wake_us = await self._crew.store.next_wake_us()
        if self._woken() or ticks % _SWEEP_EVERY_TICKS == 0:
            await self._wake()
        with duties.count_failures("look for unclaimed work"):
            await self._unclaimed.look()
        if ticks % _TRIM_EVERY_TICKS == _TRIM_EVERY_TICKS - 1:
            with duties.count_failures("retention"):
                await self._trim()
        if ticks % _MAINTAIN_EVERY_TICKS == 0:
            with duties.count_failures("maintenance"):
                await self._crew.store.maintain(self._crew.clock.now_us())

    async def _trim(self) -> None:
        """History that nobody wants any more, a portion at a time, with room for others in between."""
        trimmed = _TRIM_LIMIT
        while trimmed == _TRIM_LIMIT:
            now_us = self._crew.clock.now_us()
            trim = Trim(now_us=now_us, limit=_TRIM_LIMIT, keep_deleted_us=self._keep_deleted_us)
            trimmed = await self._crew.store.apply(trim)
            await asyncio.sleep(0)

    async def _wake(self) -> None:
        with self._crew.node.duties.count_failures("wake"):
            self._sweep = False
            while True:
                woken = await self._crew.store.apply(Wake(now_us=self._crew.clock.now_us(), limit=_WAKE_LIMIT))
                if woken:
                    self._ready()
                if woken < _WAKE_LIMIT:
                    break
            self._next_wake_us = await self._crew.store.next_wake_us()
            return
        await asyncio.sleep(min(1.0, self._crew.options.tick_s))  # it failed, and would be tried again at once
