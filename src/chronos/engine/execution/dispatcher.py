"""Dispatcher: matches free slots with ready executions.

An execution that this node admits starts here at once if a slot is free. Otherwise the node claims the best-ranked
ready work. It claims when something became ready, when a slot was freed while more work waited, and once per tick as a
safety net. Direct starts pause while ready work waits, so that low priority does not overtake it. Once per tick the
dispatcher also looks for work meant for nodes with other labels that has waited for them long enough.
"""

import asyncio
from collections.abc import Callable

from chronos.core.lane import read_lane
from chronos.engine.execution.executor import Executor
from chronos.engine.execution.settler import SuccessorSlots
from chronos.engine.execution.slots import Slots
from chronos.engine.job_catalog import CatalogEntry, JobCatalog
from chronos.engine.node_context import NodeContext
from chronos.engine.store_retry import apply_with_retry, call_with_retry
from chronos.store.commands import Claim, Claimed, Settled

_MAX_CLAIM_ROWS = 500
_MAX_UNFILTERED_LANES = 16  # with more lanes, the store is first asked which hold ready work


class Dispatcher:
    """Starts admitted executions and claims ready ones, as far as slots are free."""

    def __init__(
        self,
        context: NodeContext,
        catalog: JobCatalog,
        slots: Slots,
        executor: Executor,
        *,
        new_request: Callable[[], bytes],
    ) -> None:
        self._context, self._catalog, self._slots, self._executor = context, catalog, slots, executor
        self._new_request = new_request
        self._lanes: dict[int, str] = {}
        self._functions: frozenset[str] = frozenset()  # those that the lanes were chosen for
        self._runnable: tuple[int, ...] = ()
        self._fallbacks: tuple[tuple[int, int], ...] = ()  # lanes meant for other nodes, and how long they wait
        self._next_late_look_s = 0.0
        self._lanes_known = False
        self._may_have_ready_work = True  # in the store
        self._is_claiming_backlog = False  # a claim for such work is pending
        self._claim_event = asyncio.Event()
        self._claim_event.set()  # for work that was ready before this node started

    # --- direct starts

    def can_run(self, entry: CatalogEntry) -> bool:
        """Whether this node offers what the job needs: its queue, labels and functions."""
        options = self._context.options
        return options.works and entry.lane.suits(
            queues=options.queues, labels=options.labels, functions=self._context.functions.names
        )

    def reserve(self, entry: CatalogEntry) -> bool:
        """Take a slot for an execution that is about to be admitted. False: the execution must be claimed later."""
        if (
            self._may_have_ready_work
            or self._is_claiming_backlog
            or self._context.closing
            or not self._slots.free(entry.effective.queue)
        ):
            return False
        self._slots.take(entry.effective.queue)
        return True

    @property
    def free_slots(self) -> int:
        """The number of free slots."""
        return self._slots.free()

    def release(self, entry: CatalogEntry) -> None:
        """Return a reserved slot."""
        self._slots.give(entry.effective.queue)

    def start(self, claimed: Claimed, entry: CatalogEntry) -> None:
        """Start an execution whose slot has been taken."""
        self._executor.begin(claimed, entry)

    # --- claiming

    def claim_soon(self) -> None:
        """Claim now: something may have become ready."""
        self._may_have_ready_work = True
        self._claim_event.set()

    def invalidate_lanes(self) -> None:
        """Read the lanes again before the next claim: a job was saved, so there may be a new lane."""
        self._lanes_known = False

    def on_slot_freed(self) -> None:
        """Claim now if work may be waiting for the freed slot."""
        if self._may_have_ready_work or (self._fallbacks and self._is_late_look_due()):
            self._claim_event.set()

    async def run(self) -> None:
        """Claim until the node shuts down."""
        while not self._context.closing:
            try:
                async with asyncio.timeout(self._context.options.tick_s):
                    await self._claim_event.wait()
            except TimeoutError:
                self._lanes_known = False
            self._claim_event.clear()
            if self._context.node.may_start and not self._context.closing:
                with self._context.node.duties.count_failures("claim"):  # the next tick retries
                    await self._claim()

    async def _claim(self) -> None:
        self._is_claiming_backlog = self._may_have_ready_work
        try:
            await self._claim_once()
        finally:
            self._is_claiming_backlog = False

    async def _claim_once(self) -> None:
        lanes = await self._list_claimable_lanes() if self._slots.free() else ()
        late = self._late_lanes()
        limit = self._claim_limit((*lanes, *(lane for lane, _ in late)))
        if not limit:
            return
        command = Claim(
            lanes=lanes,
            limit=limit,
            node=self._context.node.number,
            now_us=self._context.clock.now_us(),
            request=self._new_request(),
            late_lanes=late,
        )
        held = self._slots.free() if self._context.options.queue_slots else limit
        self._slots.hold(held)  # so that the claimed work has slots, whatever its queue
        claimed: list[Claimed] = []
        try:
            claimed = await apply_with_retry(self._context.store, command, self._context.node.report_store_error)
        finally:
            more = len(claimed) == limit
            self._may_have_ready_work = self._may_have_ready_work or more
            await self._start_claimed(claimed, held, command.node)
        if more and self._slots.free():
            self._claim_event.set()

    async def _start_claimed(self, claimed: list[Claimed], held: int, node: int) -> None:
        """Start claimed executions in the slots that were held for them.

        If the definitions cannot be read, the read is repeated. If that takes long, the heartbeats release the
        executions meanwhile, and they do not start here.
        """
        keys = [(row.job, row.version, row.levels) for row in claimed]
        try:
            entries = await call_with_retry(lambda: self._catalog.fetch(keys), self._context.node.report_store_error)
        finally:
            self._slots.release_held(held)
        if node != self._context.node.number:
            return  # claimed by a former incarnation: the reaper takes it over
        for row in claimed:
            entry = entries.get((row.job, row.version, row.levels))
            if entry is not None:  # else its definition is deleted, and the heartbeats release it
                self._slots.take(entry.effective.queue)
                self.start(row, entry)

    async def _list_claimable_lanes(self) -> tuple[int, ...]:
        """Return the lanes that this node can run and has slots for; if there are many, only those with ready work."""
        if not self._lanes_known:
            self._lanes_known = True
            await self._read_lanes()
        lanes = self._runnable
        if len(lanes) > _MAX_UNFILTERED_LANES:
            known = set(lanes)
            lanes = tuple(lane for lane in await self._context.store.ready_lanes() if lane in known)
        self._may_have_ready_work = False
        if self._context.options.queue_slots:
            within = tuple(lane for lane in lanes if self._slots.free(self._queue_of(lane)))
            # Work of full queues is claimed when one of their slots is freed.
            self._may_have_ready_work = len(within) < len(lanes)
            return within
        return lanes

    def _late_lanes(self) -> tuple[tuple[int, int], ...]:
        """Return, once per tick, the lanes meant for other nodes, each with the time before which its work is taken."""
        if not self._fallbacks or not self._slots.free() or not self._is_late_look_due():
            return ()
        self._next_late_look_s = asyncio.get_running_loop().time() + self._context.options.tick_s
        now_us = self._context.clock.now_us()
        return tuple(
            (lane, now_us - fallback_us)
            for lane, fallback_us in self._fallbacks
            if self._slots.free(self._queue_of(lane))
        )

    def _is_late_look_due(self) -> bool:
        return asyncio.get_running_loop().time() >= self._next_late_look_s

    def _claim_limit(self, lanes: tuple[int, ...]) -> int:
        """Return how many executions to claim.

        With queue limits, all of them could be of the queue with the fewest slots.
        """
        if not self._context.options.queue_slots:
            return min(_MAX_CLAIM_ROWS, self._slots.free()) if lanes else 0
        return min(_MAX_CLAIM_ROWS, min((self._slots.free(self._queue_of(lane)) for lane in lanes), default=0))

    def _queue_of(self, lane: int) -> str:
        return read_lane(self._lanes[lane]).queue

    async def _read_lanes(self) -> None:
        lanes = await self._context.store.lanes()
        options, functions = self._context.options, self._context.functions.names
        if lanes == self._lanes and functions == self._functions:
            return
        self._lanes, self._functions = lanes, functions
        runnable: list[int] = []
        fallbacks: list[tuple[int, int]] = []
        for number, text in lanes.items() if options.works else ():
            lane = read_lane(text)
            if lane.suits(queues=options.queues, labels=options.labels, functions=functions):
                runnable.append(number)
            elif lane.fallback_us is not None and lane.suits_after_fallback(queues=options.queues, functions=functions):
                fallbacks.append((number, lane.fallback_us))
        self._runnable, self._fallbacks = tuple(runnable), tuple(fallbacks)

    # --- successors handed over by a settlement

    def reserve_successors(self, limit: int) -> SuccessorSlots:
        """Hold slots for executions that a settlement may hand over."""
        options = self._context.options
        if (
            not limit
            or self._context.closing
            or self._may_have_ready_work
            or self._is_claiming_backlog
            or options.queue_slots
            or not self._runnable
        ):
            return SuccessorSlots(0, ())
        if len(self._runnable) > _MAX_UNFILTERED_LANES or not self._context.node.may_start:
            return SuccessorSlots(0, ())
        slots = min(self._slots.free(), limit)
        self._slots.hold(slots)
        return SuccessorSlots(slots, self._runnable)

    def take_successors(self, reserved: SuccessorSlots, result: Settled) -> None:
        """Start executions that a settlement handed over, in the slots held for them."""
        if result.woken:
            self.claim_soon()
        if result.started_successors:
            self._executor.spawn_background(
                self._start_successors(result.started_successors, reserved.slots, self._context.node.number)
            )
        elif reserved.slots:
            self._slots.release_held(reserved.slots)
            self.on_slot_freed()

    async def _start_successors(self, taken: list[Claimed], held: int, node: int) -> None:
        try:
            await self._start_claimed(taken, held, node)
        finally:
            self.on_slot_freed()  # work that became ready meanwhile found no slot
