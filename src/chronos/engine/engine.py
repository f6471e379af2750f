"""One node: the loops, under one task group, and how they tell each other.

::

    admission ──start──► executor ◄──start── dispatcher          node: beats, reconciles
     │  ▲                    │  freed ──────────▲                reaper: takes over from dead nodes
     │  │ hints         settler ──► store ──────┘ woken          janitor: wakes, trims · outbox: what follows
     └─ behind ─► catching up: nothing that is due waits for it

Each loop is small and decides nothing itself: the core decides, the store records. The store's hints wake them; a tick
is the safety net.
"""

import asyncio
from collections.abc import Callable, Mapping
from os import urandom

from chronos.clock import Clock
from chronos.core.config import NOTHING_SET, Settings, resolve_settings
from chronos.core.events import Event
from chronos.core.shortage import build_offer
from chronos.engine.event_bus import EventBus, HearsRoutine, Watcher
from chronos.engine.execution.dispatcher import Dispatcher
from chronos.engine.execution.executor import Executor
from chronos.engine.execution.output_buffer import OutputBuffers
from chronos.engine.execution.settler import Settler, SuccessorSlots
from chronos.engine.execution.slots import Slots
from chronos.engine.heartbeat import Heartbeat
from chronos.engine.job_catalog import CATALOG_CAPACITY, JobCatalog
from chronos.engine.maintenance.janitor import Janitor
from chronos.engine.maintenance.outbox import Outbox
from chronos.engine.maintenance.reaper import Reaper
from chronos.engine.node_clock import NodeClock
from chronos.engine.node_context import NodeContext
from chronos.engine.options import EngineOptions
from chronos.engine.scheduling.admission import AdmissionLoop
from chronos.errors import ChronosError
from chronos.runners.contract import Runner
from chronos.runners.python.function_registry import FunctionRegistry
from chronos.runners.python.stdout_capture import capture_prints
from chronos.store.commands import Release, ReleaseRow, Settled, SettleRow
from chronos.store.contract import Hint, Store

_REQUEST_ID_BYTES = 16
_LAST_CLAIM_TIMEOUT_S = 5.0  # how long stopping waits for what the store was asked
_OUTBOX_FINISH_TIMEOUT_S = 5.0  # and, within the grace period, for what follows the last outcomes
_RELEASE_TIMEOUT_S = 5.0  # and for what it is told last


def random_request_id() -> bytes:
    """An id for a request that may have to be sent again."""
    return urandom(_REQUEST_ID_BYTES)


class _ListenerRelay:
    """The listener of the settler and of the executor: it passes their calls on to dispatcher, executor and janitor.

    The parts need each other, so the engine sets these three once it has made all of them.
    """

    dispatcher: Dispatcher
    executor: Executor
    janitor: Janitor

    def reserve(self, most: int) -> SuccessorSlots:
        return self.dispatcher.reserve_successors(most)

    def settled(self, takes: SuccessorSlots, answer: Settled) -> None:
        self.dispatcher.take_successors(takes, answer)

    def refused(self, row: SettleRow) -> None:
        self.executor.refused(row)

    def keys_freed(self) -> None:
        self.janitor.sweep_soon()

    def slot_freed(self) -> None:
        self.dispatcher.slot_freed()

    def wakes_at(self, wake_us: int) -> None:
        self.janitor.wakes_at(wake_us)


class Engine:
    """A node on an open store. ``start`` it, ``stop`` it; the store stays open."""

    def __init__(
        self,
        store: Store,
        *,
        clock: Clock,
        options: EngineOptions,
        runners: Mapping[str, Runner],
        functions: FunctionRegistry,
        defaults: Settings = NOTHING_SET,
        new_request: Callable[[], bytes] = random_request_id,
    ) -> None:
        self.options = options
        self._store = store
        self._bus = EventBus()
        self._node_clock = clock if isinstance(clock, NodeClock) else NodeClock(clock)  # else others share it
        self.node = Heartbeat(
            store,
            self._node_clock,
            options,
            self._bus,
            new_incarnation=new_request,
            offer=lambda: build_offer(options.queues, functions.names).text,
        )
        self._book = OutputBuffers(store)
        links = _ListenerRelay()
        self._crew = NodeContext(
            store=store,
            clock=self._node_clock,
            node=self.node,
            options=options,
            runners=runners,
            functions=functions,
            bus=self._bus,
            settler=Settler(store, self._node_clock, self.node, links),
            book=self._book,
            wakes_at=links.wakes_at,
        )
        self._slots = Slots(options.slots, options.queue_slots)
        self._catalog = catalog = JobCatalog(store, defaults, self._bus, capacity=max(CATALOG_CAPACITY, options.slots))
        self._executor = Executor(self._crew, self._slots, links)
        self._dispatcher = Dispatcher(self._crew, catalog, self._slots, self._executor, new_request=new_request)
        self._admission = AdmissionLoop(self._crew, catalog, self._dispatcher, new_request=new_request)
        keep_deleted_us = resolve_settings(defaults).keep_age_us
        self._janitor = Janitor(self._crew, ready=self._dispatcher.ready, keep_deleted_us=keep_deleted_us)
        self._reaper = Reaper(self._crew, catalog, ready=self._dispatcher.ready, peers=self._set_peers)
        self._outbox = Outbox(self._crew, catalog)
        links.dispatcher, links.executor, links.janitor = self._dispatcher, self._executor, self._janitor
        self._loops: asyncio.Task[None] | None = None
        self._claim_and_admission_tasks: list[asyncio.Task[None]] = []

    # --- life

    async def start(self) -> None:
        """Register with the store and begin. Raises what the store says when it cannot be reached at all."""
        await self._node_clock.measure(self._store)
        await self.node.register()
        self._store.on_hint(self._wake_by_hint)
        self._loops = asyncio.create_task(self._run(), name="chronos-engine")

    async def stop(self, grace_s: float | None = None) -> None:
        """Stop admitting and claiming, let the work finish within the grace period, give back what did not.

        Asked again meanwhile, the grace period is over.
        """
        if self._crew.closing:
            self._executor.end_grace_period()
            self._outbox.end_grace_period()
        if self._loops is None or self._crew.closing:
            return
        grace_s = self.options.grace_s if grace_s is None else grace_s
        self._crew.closing = True
        await self._finish_claims_and_admissions()
        ends_s = asyncio.get_running_loop().time() + grace_s
        await self._executor.shut_down(grace_s)
        await self._outbox.finish(min(ends_s - asyncio.get_running_loop().time(), _OUTBOX_FINISH_TIMEOUT_S))
        await self.crash()
        try:
            async with asyncio.timeout(_RELEASE_TIMEOUT_S):
                await self._give_back()
                await self._book.flush()
                await self.node.stop()
        except TimeoutError:  # a store that cannot be reached: others will find out by themselves
            return

    async def _finish_claims_and_admissions(self) -> None:
        """Let a claim or an admission that is under way come to its end, so that what it brought is known here."""
        self._dispatcher.ready()
        self._admission.look_soon()
        self._admission.recovery_loop.close()
        if self._claim_and_admission_tasks:
            await asyncio.wait(self._claim_and_admission_tasks, timeout=_LAST_CLAIM_TIMEOUT_S)

    async def _give_back(self) -> None:
        """What the store says is still this node's was never begun: others may have it at once."""
        try:
            held = await self._store.held_by(self.node.number)
            if held:
                rows = tuple(ReleaseRow(one.id, one.token, one.worked_us) for one in held)
                await self._store.apply(Release(rows=rows, now_us=self._node_clock.now_us()))
        except ChronosError as error:  # then they will find out by themselves
            self.node.trouble(error)

    async def crash(self) -> None:
        """Drop everything at once and without a word, as a power cut would."""
        self._crew.closing = True
        loops, self._loops = self._loops, None
        if loops is not None:
            loops.cancel()
            await asyncio.gather(loops, return_exceptions=True)
        await self._executor.drop_all()

    async def failed(self) -> None:
        """Wait until the engine is over, which it is by ``stop``; raises what broke it otherwise."""
        if self._loops is not None:
            await asyncio.shield(self._loops)

    def on_event(
        self, watcher: Watcher, *kinds: type[Event], hears_routine: HearsRoutine | None = None
    ) -> Callable[[], None]:
        """Call back with everything that happens here, or only what is of some kinds; what is given back ends it.

        ``hears_routine``: whether the watcher has any use for events of what went well, which are many.
        """
        if hears_routine is None:
            return self._bus.watch(watcher, *kinds)
        return self._bus.watch(watcher, *kinds, hears_routine=hears_routine)

    def job_name(self, job: bytes) -> tuple[str, str] | None:
        """Namespace and name of a job that this node has had to do with lately, so that events can be told in words."""
        entry = self._catalog.newest(job)
        return None if entry is None or not entry.name else (entry.namespace, entry.name)

    @property
    def busy(self) -> int:
        """How many executions are being worked on."""
        return self._executor.busy

    # --- loops

    async def _run(self) -> None:
        with capture_prints():
            await self._run_loops()

    async def _run_loops(self) -> None:
        async with asyncio.TaskGroup() as loops:
            loops.create_task(self.node.run(self._executor), name="chronos-node")
            loops.create_task(self._reaper.run(), name="chronos-reaper")
            loops.create_task(self._janitor.run(), name="chronos-janitor")
            loops.create_task(self._outbox.run(), name="chronos-outbox")
            loops.create_task(self._book.run(), name="chronos-output")
            if self.options.works:
                self._claim_and_admission_tasks.append(
                    loops.create_task(self._dispatcher.run(), name="chronos-dispatcher")
                )
            if self.options.schedules:
                self._claim_and_admission_tasks.append(
                    loops.create_task(self._admission.run(), name="chronos-admission")
                )
                behind = self._admission.recovery_loop.run()
                self._claim_and_admission_tasks.append(loops.create_task(behind, name="chronos-catching-up"))

    def _set_peers(self, peers: tuple[int, ...]) -> None:
        self._admission.peers = peers

    def _wake_by_hint(self, hint: Hint) -> None:
        """Wake whoever has something to look for."""
        if self._crew.closing:
            return
        if hint & Hint.JOBS:
            self._dispatcher.lanes_changed()
            self._admission.look_soon()
        if hint & Hint.READY:
            self._dispatcher.ready()
        if hint & Hint.CANCEL:
            self.node.beat_soon()
        if hint & Hint.OUTBOX:
            self._outbox.take_soon()
