"""Janitor: wakes sleeping executions, trims history, and lets the store do its maintenance.

Wake-ups are timed: the janitor knows when the next sleeper of this node is due, and reads those of other nodes once per
tick. Executions that wait for a concurrency key are woken when this node frees one. Everything else is rare and
bounded. A failing duty does not block the others.
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
_SWEEP_EVERY_TICKS = 5  # also wakes what waits for a freed concurrency key
_MAINTAIN_EVERY_TICKS = 300


class Janitor:
    """The regular upkeep on one node."""

    def __init__(self, context: NodeContext, *, claim_soon: Callable[[], None], keep_deleted_us: int) -> None:
        self._context, self._claim_soon, self._keep_deleted_us = context, claim_soon, keep_deleted_us
        self._next_wake_us: int | None = None
        self._sweep_wanted = False  # a key was freed
        self._wakeup = Wakeup()
        self._unclaimable = UnclaimableWork(context.store, context.clock, context.bus)

    def schedule_wake(self, wake_us: int) -> None:
        """Wake sleepers at ``wake_us``, if nothing earlier is scheduled."""
        if self._next_wake_us is None or wake_us < self._next_wake_us:
            self._next_wake_us = wake_us
            self._wakeup.wake()

    def sweep_soon(self) -> None:
        """Wake waiting executions now: a concurrency key was freed."""
        self._sweep_wanted = True
        self._wakeup.wake()

    async def run(self) -> None:
        """Do all duties until cancelled."""
        ticks = 0
        due_s = asyncio.get_running_loop().time()
        while True:
            now_s = asyncio.get_running_loop().time()
            if now_s >= due_s:
                due_s = now_s + self._context.options.tick_s
                await self._tick(ticks)
                ticks += 1
            elif self._sweep_wanted or self._is_wake_due():
                await self._wake()
            await self._pause(due_s)

    async def _pause(self, due_s: float) -> None:
        loop = asyncio.get_running_loop()
        wait_s = due_s - loop.time()
        if self._next_wake_us is not None:
            wait_s = min(wait_s, (self._next_wake_us - self._context.clock.now_us()) / 1e6)
        if wait_s > 0 and not self._sweep_wanted:
            await self._wakeup.wait(wait_s)

    def _is_wake_due(self) -> bool:
        return self._next_wake_us is not None and self._next_wake_us <= self._context.clock.now_us()

    async def _tick(self, ticks: int) -> None:
        duties = self._context.node.duties
        with duties.count_failures("wake-up look"):
            self._next_wake_us = await self._context.store.next_wake_us()
        if self._is_wake_due() or ticks % _SWEEP_EVERY_TICKS == 0:
            await self._wake()
        with duties.count_failures("look for unclaimed work"):
            await self._unclaimable.look()
        if ticks % _TRIM_EVERY_TICKS == _TRIM_EVERY_TICKS - 1:
            with duties.count_failures("retention"):
                await self._trim()
        if ticks % _MAINTAIN_EVERY_TICKS == 0:
            with duties.count_failures("maintenance"):
                await self._context.store.maintain(self._context.clock.now_us())

    async def _trim(self) -> None:
        """Trim expired history in batches, and yield to other tasks between them."""
        trimmed = _TRIM_LIMIT
        while trimmed == _TRIM_LIMIT:
            now_us = self._context.clock.now_us()
            trim = Trim(now_us=now_us, limit=_TRIM_LIMIT, keep_deleted_us=self._keep_deleted_us)
            trimmed = await self._context.store.apply(trim)
            await asyncio.sleep(0)

    async def _wake(self) -> None:
        with self._context.node.duties.count_failures("wake"):
            self._sweep_wanted = False
            while True:
                woken = await self._context.store.apply(Wake(now_us=self._context.clock.now_us(), limit=_WAKE_LIMIT))
                if woken:
                    self._claim_soon()
                if woken < _WAKE_LIMIT:
                    break
            self._next_wake_us = await self._context.store.next_wake_us()
            return
        await asyncio.sleep(min(1.0, self._context.options.tick_s))  # it failed: do not retry at once
