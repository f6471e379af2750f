"""Janitor: wakes waiting executions, reports unclaimable work, trims history, and runs the store's maintenance.

Unclaimable work is ready, but no live node can take it.

Wake-ups are timed: the janitor knows when the next waiting execution of this node is due, and reads the next wake-up of
all nodes once per tick. Executions that wait for a concurrency key are woken when this node frees one. Everything else
is rare and bounded. A failing duty does not block the others.
"""

import asyncio
from collections.abc import Callable

from chronos.core.config import resolve_settings
from chronos.engine.maintenance.unclaimable import UnclaimableWork
from chronos.engine.node_context import NodeContext
from chronos.engine.wakeup import Wakeup
from chronos.store.commands import ProfileGates, Trim, Wake

_WAKE_BATCH_ROWS = 500
_TRIM_BATCH_ROWS = 1_000
_TRIM_EVERY_TICKS = 10
_WAKE_EVERY_TICKS = 5  # also wakes executions whose concurrency key another node has freed
_MAINTAIN_EVERY_TICKS = 300
_PROFILE_EVERY_TICKS = 5  # for jobs that a node of an earlier release has saved


class Janitor:
    """Does the regular upkeep of one node."""

    def __init__(self, context: NodeContext, *, claim_soon: Callable[[], None]) -> None:
        self._context, self._claim_soon = context, claim_soon
        self._next_wake_us: int | None = None
        self._wake_requested = False  # a key was freed
        self._wakeup = Wakeup()
        self._unclaimable = UnclaimableWork(context.store, context.clock, context.bus)

    def schedule_wake(self, wake_us: int) -> None:
        """Wake waiting executions at ``wake_us``, if nothing earlier is scheduled."""
        if self._next_wake_us is None or wake_us < self._next_wake_us:
            self._next_wake_us = wake_us
            self._wakeup.wake()

    def wake_soon(self) -> None:
        """Wake waiting executions now: a concurrency key was freed."""
        self._wake_requested = True
        self._wakeup.wake()

    async def run(self) -> None:
        """Do all duties until cancelled."""
        tick_number = 0
        due_s = asyncio.get_running_loop().time()
        while True:
            now_s = asyncio.get_running_loop().time()
            if now_s >= due_s:
                due_s = now_s + self._context.options.tick_s
                await self._tick(tick_number)
                tick_number += 1
            elif self._wake_requested or self._is_wake_due():
                await self._wake()
            await self._wait_for_next_duty(due_s)

    async def _wait_for_next_duty(self, due_s: float) -> None:
        loop = asyncio.get_running_loop()
        wait_s = due_s - loop.time()
        if self._next_wake_us is not None:
            wait_s = min(wait_s, (self._next_wake_us - self._context.clock.now_us()) / 1e6)
        if wait_s > 0 and not self._wake_requested:
            await self._wakeup.wait(wait_s)

    def _is_wake_due(self) -> bool:
        return self._next_wake_us is not None and self._next_wake_us <= self._context.clock.now_us()

    async def _tick(self, tick_number: int) -> None:
        duties = self._context.node.duties
        with duties.count_failures("next wake-up"):
            self._next_wake_us = await self._context.store.next_wake_us()
        if self._is_wake_due() or tick_number % _WAKE_EVERY_TICKS == 0:
            await self._wake()
        with duties.count_failures("unclaimable work"):
            await self._unclaimable.look()
        if tick_number % _PROFILE_EVERY_TICKS == 0:
            with duties.count_failures("gate profiles"):
                await self._context.store.apply(ProfileGates(limit=_TRIM_BATCH_ROWS))
        if tick_number % _TRIM_EVERY_TICKS == _TRIM_EVERY_TICKS - 1:
            with duties.count_failures("retention"):
                await self._trim()
        if tick_number % _MAINTAIN_EVERY_TICKS == 0:
            with duties.count_failures("maintenance"):
                await self._context.store.maintain(self._context.clock.now_us())

    async def _trim(self) -> None:
        """Trim expired history in batches, and yield to other tasks between them."""
        trimmed = _TRIM_BATCH_ROWS
        [server] = (await self._context.store.current_levels([""])).values()
        keep_deleted_us = resolve_settings(server.defaults).keep_age_us
        while trimmed == _TRIM_BATCH_ROWS:
            now_us = self._context.clock.now_us()
            trim = Trim(now_us=now_us, limit=_TRIM_BATCH_ROWS, keep_deleted_us=keep_deleted_us)
            trimmed = await self._context.store.apply(trim)
            await asyncio.sleep(0)

    async def _wake(self) -> None:
        with self._context.node.duties.count_failures("wake"):
            self._wake_requested = False
            while True:
                woken = await self._context.store.apply(
                    Wake(now_us=self._context.clock.now_us(), limit=_WAKE_BATCH_ROWS)
                )
                if woken:
                    self._claim_soon()
                if woken < _WAKE_BATCH_ROWS:
                    break
            self._next_wake_us = await self._context.store.next_wake_us()
            return
        await asyncio.sleep(min(1.0, self._context.options.tick_s))  # it failed: do not retry at once
