"""What must follow an outcome: followers of a job, and its ``on_complete``. At least once, by any node that can.

Items are taken, dealt with, and only then acknowledged. One that fails is tried again with growing pauses, a few times
for a hook, without end for what the store itself must be told.
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
from chronos.errors import ChronosError, Unavailable
from chronos.store.commands import AckOutbox, OutboxItem, TakeOutbox

_TAKE_LIMIT = 100  # that are taken at a time
_MAX_ITEMS_IN_PROGRESS = 1_000  # that are dealt with at a time
_MAX_PAUSE_DOUBLINGS = 6  # the pause between tries is doubled so many times
_MAX_WAIT_TICKS = 5


class Outbox:
    """One node's share of what follows. Each item is dealt with by itself: none waits for a slow one."""

    def __init__(self, crew: NodeContext, catalog: JobCatalog) -> None:
        self._crew, self._followers = crew, Followers(crew, catalog)
        self._wakeup = Wakeup()
        self._in_progress: dict[bytes, asyncio.Task[None]] = {}
        self._error_counts: dict[bytes, int] = {}  # of items that nobody can do anything with
        self._left: set[bytes] = set()  # that failed, for whoever comes after this node
        self._again = True  # what the store says is this node's may not be known here
        self._closing = asyncio.Event()
        self._over = asyncio.Event()

    def take_soon(self) -> None:
        """Something was put in."""
        self._wakeup.wake()

    async def finish(self, within_s: float) -> None:
        """Deal with what is there now, and no more; what fails or takes longer is left for the next start, or another
        node.
        """
        self._closing.set()
        self._wakeup.wake()
        with suppress(TimeoutError):
            async with asyncio.timeout(within_s):
                await self._over.wait()

    def end_grace_period(self) -> None:
        """Do not wait for what is under way."""
        self._over.set()

    async def run(self) -> None:
        """Deal with it until cancelled."""
        try:
            while True:
                closing = self._closing.is_set()  # before it looks: it then sees all there is
                more = await self._begin()
                if closing and not more and not self._in_progress:
                    self._over.set()
                    return
                if not more:
                    await self._wakeup.wait(self._crew.options.tick_s * _MAX_WAIT_TICKS)
        finally:
            left = tuple(self._in_progress.values())
            for dealing in left:
                dealing.cancel()
            if left:  # else there may be no loop any more: a node that was abandoned is collected anywhere
                await asyncio.gather(*left, return_exceptions=True)

    async def _begin(self) -> bool:
        """Begin with a handful; True: there may be more to begin with at once."""
        room = min(_TAKE_LIMIT, _MAX_ITEMS_IN_PROGRESS - len(self._in_progress))
        if not self._crew.node.may_start or room <= 0:
            return False
        functions = self._crew.functions.names
        targets = tuple(Lane(functions=(name,)).text for name in functions) if self._crew.options.works else ()
        again, self._again = self._again, False
        limit = room + (len(self._in_progress) + len(self._left) if again else 0)  # these are among what it holds
        take = TakeOutbox(node=self._crew.node.number, limit=limit, targets=targets, include_held=again)
        try:
            items = await self._crew.store.apply(take)
        except ChronosError as error:
            self._again = True
            self._crew.node.duties.failed("outbox", error)
            return False
        self._crew.node.duties.done("outbox")
        new = [item for item in items if item.id not in self._in_progress and item.id not in self._left]
        for item in new:
            self._in_progress[item.id] = asyncio.create_task(self._deal(item))
        return len(new) >= room

    async def _deal(self, item: OutboxItem) -> None:
        """Until it is done, or better left to whoever comes after this node."""
        node = self._crew.node.number
        try:
            while not await self._handle_once(item):
                await self._pause(item.id)
                if self._closing.is_set():
                    self._left.add(item.id)
                    return
                if self._crew.node.number != node or not self._crew.node.may_start:
                    self._again = True  # it may be another's by now
                    return
        finally:
            del self._in_progress[item.id]
            self._wakeup.wake()

    async def _pause(self, item: bytes) -> None:
        failures = self._followers.count_hook_attempts(item) + self._error_counts.get(item, 0)
        with suppress(TimeoutError):
            async with asyncio.timeout(self._crew.options.tick_s * 2 ** min(failures, _MAX_PAUSE_DOUBLINGS)):
                await self._closing.wait()

    async def _handle_once(self, item: OutboxItem) -> bool:
        """Whether it is done, or not worth another try, and will not come again."""
        try:
            if not await self._deliver(item):
                return False
            await apply_with_retry(self._crew.store, AckOutbox(ids=(item.id,)), self._crew.node.trouble)
        except Unavailable as error:
            self._trouble(str(error))
            return False
        except Exception as error:  # noqa: BLE001 - whatever is wrong with it, it is this one's own trouble
            self._error_counts[item.id] = self._error_counts.get(item.id, 0) + 1
            self._trouble(f"{item.kind} of {item.execution.hex()}: {type(error).__name__}: {error}")
            return False
        self._followers.forget(item.id)
        self._error_counts.pop(item.id, None)
        return True

    async def _deliver(self, item: OutboxItem) -> bool:
        """Whoever it is for; False: to be tried again."""
        match item.kind:
            case "ended":
                return await self._followers.start_followers(item)
            case "hook":
                return await self._followers.run_hook(item)
            case _:
                return True  # of a later version, for consumers that this one does not know

    def _trouble(self, error: str) -> None:
        self._crew.bus.emit(ProblemReported(at_us=self._crew.clock.now_us(), where="outbox", error=error))
