"""Slots and work: what is admitted here starts here when a slot is free; otherwise the best-ranked ready work does.

It claims when it has a reason to: something became ready, a slot came free while more was waiting, or, as a safety
net, a second has passed. Direct starts stop while ready work waits, or low priority would overtake it. Once a tick it
also looks for work that is meant for nodes with other labels and has waited longer for them than it has to.
"""

import asyncio
from collections.abc import Callable

from chronos.core.lane import read_lane
from chronos.engine.execution.executor import Executor
from chronos.engine.execution.settler import SuccessorSlots
from chronos.engine.execution.slots import Slots
from chronos.engine.job_catalog import CatalogEntry, JobCatalog
from chronos.engine.node_context import NodeContext
from chronos.engine.store_retry import apply_with_retry, ask_with_retry
from chronos.store.commands import Claim, Claimed, Settled

_MAX_CLAIM_ROWS = 500
_MAX_UNFILTERED_LANES = 16  # beyond it, which lanes hold anything is asked first


class Dispatcher:
    """Matches free slots with ready executions."""

    def __init__(
        self,
        crew: NodeContext,
        catalog: JobCatalog,
        slots: Slots,
        executor: Executor,
        *,
        new_request: Callable[[], bytes],
    ) -> None:
        self._crew, self._catalog, self._slots, self._executor = crew, catalog, slots, executor
        self._new_request = new_request
        self._lanes: dict[int, str] = {}
        self._runnable: tuple[int, ...] = ()
        self._fallbacks: tuple[tuple[int, int], ...] = ()  # lanes meant for others, and how long they wait for them
        self._next_late_look_s = 0.0
        self._lanes_known = False
        self._waiting = True  # ready work may be in the store
        self._catching_up = False  # a claim for such work is under way
        self._claim_wanted = asyncio.Event()
        self._claim_wanted.set()  # whatever was ready before this node came

    # --- starting what was admitted here

    def suits(self, entry: CatalogEntry) -> bool:
        """Whether this node can run a job at all."""
        options = self._crew.options
        return options.works and entry.lane.suits(
            queues=options.queues, labels=options.labels, functions=self._crew.functions.names
        )

    def reserve(self, entry: CatalogEntry) -> bool:
        """Take a slot for an execution that is about to be admitted; False: it has to wait like others."""
        if self._waiting or self._catching_up or self._crew.closing or not self._slots.free(entry.effective.queue):
            return False
        self._slots.take(entry.effective.queue)
        return True

    @property
    def free(self) -> int:
        """How many slots are."""
        return self._slots.free()

    def release(self, entry: CatalogEntry) -> None:
        """Give a reserved slot back."""
        self._slots.give(entry.effective.queue)

    def start(self, claimed: Claimed, entry: CatalogEntry) -> None:
        """Begin an execution for which a slot has been taken."""
        self._executor.begin(claimed, entry)

    # --- claiming

    def ready(self) -> None:
        """Something may have become ready."""
        self._waiting = True
        self._claim_wanted.set()

    def lanes_changed(self) -> None:
        """A job was saved: there may be a new lane."""
        self._lanes_known = False

    def slot_freed(self) -> None:
        """A slot came free."""
        if self._waiting or (self._fallbacks and self._is_late_look_due()):
            self._claim_wanted.set()

    async def run(self) -> None:
        """Claim until the node shuts down."""
        while not self._crew.closing:
            try:
                async with asyncio.timeout(self._crew.options.tick_s):
                    await self._claim_wanted.wait()
            except TimeoutError:
                self._lanes_known = False
            self._claim_wanted.clear()
            if self._crew.node.may_start and not self._crew.closing:
                with self._crew.node.duties.count_failures("claim"):  # after a failure the next tick tries again
                    await self._claim()

    async def _claim(self) -> None:
        self._catching_up = self._waiting
        try:
            await self._claim_once()
        finally:
            self._catching_up = False

    async def _claim_once(self) -> None:
        lanes = await self._list_claimable_lanes() if self._slots.free() else ()
        late = self._late_lanes()
        limit = self._room((*lanes, *(lane for lane, _ in late)))
        if not limit:
            return
        command = Claim(
            lanes=lanes,
            limit=limit,
            node=self._crew.node.number,
            now_us=self._crew.clock.now_us(),
            request=self._new_request(),
            late_lanes=late,
        )
        held = self._slots.free() if self._crew.options.queue_slots else limit
        self._slots.hold(held)  # so that what the claim brings has a place, of whichever queue it is
        claimed: list[Claimed] = []
        try:
            claimed = await apply_with_retry(self._crew.store, command, self._crew.node.trouble)
        finally:
            more = len(claimed) == limit
            self._waiting = self._waiting or more
            await self._take(claimed, held, command.node)
        if more and self._slots.free():
            self._claim_wanted.set()

    async def _take(self, claimed: list[Claimed], held: int, node: int) -> None:
        """Start what this node was given, in place of the slots held for it.

        Definitions that cannot be read are asked for again. If that lasts, the heartbeats give the work back meanwhile,
        and it is not begun here.
        """
        pairs = [(row.job, row.version) for row in claimed]
        try:
            entries = await ask_with_retry(lambda: self._catalog.fetch(pairs), self._crew.node.trouble)
        finally:
            self._slots.release_held(held)
        if node != self._crew.node.number:
            return  # for an incarnation that is no more: the reaper's, not this one's to start
        for row in claimed:
            entry = entries.get((row.job, row.version))
            if entry is not None:  # else its definition is gone: the heartbeats will find it and give it back
                self._slots.take(entry.effective.queue)
                self.start(row, entry)

    async def _list_claimable_lanes(self) -> tuple[int, ...]:
        """Lanes that this node can run, with a slot for their queue; of many, those that hold something."""
        if not self._lanes_known:
            self._lanes_known = True
            await self._read_lanes()
        lanes = self._runnable
        if len(lanes) > _MAX_UNFILTERED_LANES:
            known = set(lanes)
            lanes = tuple(lane for lane in await self._crew.store.ready_lanes() if lane in known)
        self._waiting = False
        if self._crew.options.queue_slots:
            within = tuple(lane for lane in lanes if self._slots.free(self._queue(lane)))
            self._waiting = len(within) < len(lanes)  # what a full queue holds is looked for when a slot comes free
            return within
        return lanes

    def _late_lanes(self) -> tuple[tuple[int, int], ...]:
        """Once a tick: the lanes meant for others, and since when something there must be ready to be taken here."""
        if not self._fallbacks or not self._slots.free() or not self._is_late_look_due():
            return ()
        self._next_late_look_s = asyncio.get_running_loop().time() + self._crew.options.tick_s
        now_us = self._crew.clock.now_us()
        return tuple(
            (lane, now_us - fallback_us) for lane, fallback_us in self._fallbacks if self._slots.free(self._queue(lane))
        )

    def _is_late_look_due(self) -> bool:
        return asyncio.get_running_loop().time() >= self._next_late_look_s

    def _room(self, lanes: tuple[int, ...]) -> int:
        """How many may be claimed at once: all of them may turn out to be of the queue with the fewest slots."""
        if not self._crew.options.queue_slots:
            return min(_MAX_CLAIM_ROWS, self._slots.free()) if lanes else 0
        return min(_MAX_CLAIM_ROWS, min((self._slots.free(self._queue(lane)) for lane in lanes), default=0))

    def _queue(self, lane: int) -> str:
        return read_lane(self._lanes[lane]).queue

    async def _read_lanes(self) -> None:
        lanes = await self._crew.store.lanes()
        if lanes == self._lanes:
            return
        self._lanes = lanes
        options, functions = self._crew.options, self._crew.functions.names
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

    def reserve_successors(self, most: int) -> SuccessorSlots:
        """Hold slots for what a settlement may hand over."""
        options = self._crew.options
        if (
            not most
            or self._crew.closing
            or self._waiting
            or self._catching_up
            or options.queue_slots
            or not self._runnable
        ):
            return SuccessorSlots(0, ())
        if len(self._runnable) > _MAX_UNFILTERED_LANES or not self._crew.node.may_start:
            return SuccessorSlots(0, ())
        slots = min(self._slots.free(), most)
        self._slots.hold(slots)
        return SuccessorSlots(slots, self._runnable)

    def take_successors(self, takes: SuccessorSlots, answer: Settled) -> None:
        """Start what a settlement handed over, in place of the slots held for it."""
        if answer.woken:
            self.ready()
        if answer.taken:
            self._executor.spawn_background(self._start_successors(answer.taken, takes.slots, self._crew.node.number))
        elif takes.slots:
            self._slots.release_held(takes.slots)
            self.slot_freed()

    async def _start_successors(self, taken: list[Claimed], held: int, node: int) -> None:
        try:
            await self._take(taken, held, node)
        finally:
            self.slot_freed()  # what became ready meanwhile found no slot
