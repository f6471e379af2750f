"""Outbox: delivers the follow-ups of outcomes (follower jobs and hooks), and runs that programs enqueued, on any node.

Items are taken, handled and then acknowledged. A failed item is retried with growing pauses: hooks a few times,
everything else until it succeeds.
"""

import asyncio
from contextlib import suppress

from chronos.core.events import ProblemReported
from chronos.core.lane import Lane
from chronos.engine.job_catalog import JobCatalog
from chronos.engine.maintenance.followers import Followers
from chronos.engine.node_context import NodeContext
from chronos.engine.store_retry import apply_with_retry
from chronos.engine.wakeup import Wakeup
from chronos.errors import ChronosError, NotFound, Unavailable
from chronos.store import enqueued_items
from chronos.store.commands import AckOutbox, OutboxItem, TakeOutbox

_TAKE_LIMIT = 100  # items per TakeOutbox command
_MAX_ITEMS_IN_PROGRESS = 1_000
_MAX_PAUSE_DOUBLINGS = 6  # of the pause between two attempts
_MAX_WAIT_TICKS = 5


class Outbox:
    """Handles one node's share of the outbox. Each item has its own task, so a slow one delays no other."""

    def __init__(self, context: NodeContext, catalog: JobCatalog) -> None:
        self._context, self._followers = context, Followers(context, catalog)
        self._wakeup = Wakeup()
        self._in_progress: dict[bytes, asyncio.Task[None]] = {}
        self._error_counts: dict[bytes, int] = {}  # unexpected errors, by item
        self._given_up: set[bytes] = set()  # failed items that are left to the next start or another node
        self._retake = True  # take items again that the store assigns to this node already
        self._closing = asyncio.Event()
        self._finished = asyncio.Event()

    def take_soon(self) -> None:
        """Take items now: something was added to the outbox."""
        self._wakeup.wake()

    async def finish(self, within_s: float) -> None:
        """Handle the present items and stop.

        Items that fail or take longer stay for the next start, or for another node.
        """
        self._closing.set()
        self._wakeup.wake()
        with suppress(TimeoutError):
            async with asyncio.timeout(within_s):
                await self._finished.wait()

    def end_grace_period(self) -> None:
        """Stop waiting for items in progress."""
        self._finished.set()

    async def run(self) -> None:
        """Take and handle items until cancelled."""
        try:
            while True:
                closing = self._closing.is_set()  # read first, so that this round sees every item
                more = await self._take()
                if closing and not more and not self._in_progress:
                    self._finished.set()
                    return
                if not more:
                    await self._wakeup.wait(self._context.options.tick_s * _MAX_WAIT_TICKS)
        finally:
            tasks = tuple(self._in_progress.values())
            for task in tasks:
                task.cancel()
            if tasks:  # without tasks there may be no running loop: an abandoned node is garbage-collected anywhere
                await asyncio.gather(*tasks, return_exceptions=True)

    async def _take(self) -> bool:
        """Take items and start handling them. Returns whether more items may be waiting."""
        room = min(_TAKE_LIMIT, _MAX_ITEMS_IN_PROGRESS - len(self._in_progress))
        if not self._context.node.may_start or room <= 0:
            return False
        functions = self._context.functions.names
        targets = tuple(Lane(functions=(name,)).text for name in functions) if self._context.options.works else ()
        targets = (*targets, enqueued_items.ENQUEUE_ITEM)
        again, self._retake = self._retake, False
        limit = room + (len(self._in_progress) + len(self._given_up) if again else 0)  # the store returns these too
        take = TakeOutbox(node=self._context.node.number, limit=limit, targets=targets, include_held=again)
        try:
            items = await self._context.store.apply(take)
        except ChronosError as error:
            self._retake = True
            self._context.node.duties.record_failure("outbox", error)
            return False
        self._context.node.duties.record_success("outbox")
        new = [item for item in items if item.id not in self._in_progress and item.id not in self._given_up]
        for item in new:
            self._in_progress[item.id] = asyncio.create_task(self._handle(item))
        return len(new) >= room

    async def _handle(self, item: OutboxItem) -> None:
        """Handle an item until it is done, or until it is better left to another node."""
        node = self._context.node.number
        try:
            while not await self._handle_once(item):
                await self._pause(item.id)
                if self._closing.is_set():
                    self._given_up.add(item.id)
                    return
                if self._context.node.number != node or not self._context.node.may_start:
                    self._retake = True  # another node may have it by now
                    return
        finally:
            del self._in_progress[item.id]
            self._wakeup.wake()

    async def _pause(self, item: bytes) -> None:
        failures = self._followers.count_hook_attempts(item) + self._error_counts.get(item, 0)
        with suppress(TimeoutError):
            async with asyncio.timeout(self._context.options.tick_s * 2 ** min(failures, _MAX_PAUSE_DOUBLINGS)):
                await self._closing.wait()

    async def _handle_once(self, item: OutboxItem) -> bool:
        """Try to deliver and acknowledge an item. Returns whether it is done."""
        try:
            if not await self._deliver(item):
                return False
            await apply_with_retry(
                self._context.store, AckOutbox(ids=(item.id,)), self._context.node.report_store_error
            )
        except Unavailable as error:
            self._report_problem(str(error))
            return False
        except Exception as error:  # noqa: BLE001 - a broken item must not stop the others
            self._error_counts[item.id] = self._error_counts.get(item.id, 0) + 1
            self._report_problem(f"{item.kind} of {item.execution.hex()}: {type(error).__name__}: {error}")
            return False
        self._followers.forget(item.id)
        self._error_counts.pop(item.id, None)
        return True

    async def _deliver(self, item: OutboxItem) -> bool:
        """Deliver an item. False: try again later."""
        match item.kind:
            case "ended":
                return await self._followers.start_followers(item)
            case "hook":
                return await self._followers.run_hook(item)
            case enqueued_items.ENQUEUE_ITEM:
                return await self._enqueue(item)
            case _:
                return True  # written by a later version, for consumers that this version does not have

    async def _enqueue(self, item: OutboxItem) -> bool:
        """Create the runs that a program has put into the outbox."""
        command = enqueued_items.read_item(item.body, self._context.clock.now_us())
        try:
            await self._context.store.apply(command)
        except NotFound:
            self._report_problem(f"{len(command.runs)} enqueued runs are dropped, because their job was deleted")
        return True

    def _report_problem(self, error: str) -> None:
        self._context.bus.emit(ProblemReported(at_us=self._context.clock.now_us(), where="outbox", error=error))
