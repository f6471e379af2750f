"""Engine: builds the loops of a node and runs them in one task group.

::

    admission ──start──► executor ◄──start── dispatcher          heartbeat: beats, reconciles
     │  ▲                    │  slot freed ─────▲                reaper: takes over from dead nodes
     │  │ hints         settler ──► store ──────┘ woken          janitor: wakes, trims · outbox: follow-ups
     └─ behind ─► recovery: due instants do not wait for it

Each loop is small and decides nothing: the core decides, the store records. The store's hints wake the loops. A tick
is the safety net.
"""

import asyncio
from collections.abc import Callable, Mapping
from os import urandom

from chronos.clock import Clock
from chronos.core.events import Event
from chronos.core.shortage import build_offer
from chronos.engine.event_bus import EventBus, WantsRoutine, Watcher
from chronos.engine.execution.dispatcher import Dispatcher
from chronos.engine.execution.executor import Executor
from chronos.engine.execution.output_buffer import OutputBuffers
from chronos.engine.execution.settler import Settler, SuccessorSlots
from chronos.engine.execution.slots import Slots
from chronos.engine.heartbeat import Heartbeat
from chronos.engine.job_catalog import CATALOG_CAPACITY, JobCatalog
from chronos.engine.job_survey import JobSurvey, StartReport
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
_LAST_CLAIM_TIMEOUT_S = 5.0  # how long a stop waits for pending claims and admissions
_OUTBOX_FINISH_TIMEOUT_S = 5.0  # how long it waits, within the grace period, for the follow-ups of the last outcomes
_SURVEY_PATIENCE_S = 1.0  # how long a start waits for the survey of its jobs
_RELEASE_TIMEOUT_S = 5.0  # how long it waits for the last writes


def random_request_id() -> bytes:
    """Return an id for a request that may be sent more than once."""
    return urandom(_REQUEST_ID_BYTES)


class _ListenerRelay:
    """Passes calls of the settler and the executor on to the dispatcher, the executor and the janitor.

    These parts need each other, so the engine sets the three attributes after it has created all of them.
    """

    dispatcher: Dispatcher
    executor: Executor
    janitor: Janitor

    def reserve_successors(self, limit: int) -> SuccessorSlots:
        return self.dispatcher.reserve_successors(limit)

    def on_settled(self, reserved: SuccessorSlots, result: Settled) -> None:
        self.dispatcher.take_successors(reserved, result)

    def on_outcome_rejected(self, row: SettleRow) -> None:
        self.executor.on_outcome_rejected(row)

    def on_keys_freed(self) -> None:
        self.janitor.wake_soon()

    def on_slot_freed(self) -> None:
        self.dispatcher.on_slot_freed()

    def schedule_wake(self, wake_us: int) -> None:
        self.janitor.schedule_wake(wake_us)


class Engine:
    """A node on an open store. ``stop`` leaves the store open."""

    def __init__(
        self,
        store: Store,
        *,
        clock: Clock,
        options: EngineOptions,
        runners: Mapping[str, Runner],
        functions: FunctionRegistry,
        new_request: Callable[[], bytes] = random_request_id,
    ) -> None:
        self.options = options
        self._store = store
        self._bus = EventBus()
        self._node_clock = clock if isinstance(clock, NodeClock) else NodeClock(clock)  # a NodeClock is shared
        self.node = Heartbeat(
            store,
            self._node_clock,
            options,
            self._bus,
            new_incarnation=new_request,
            offer=self._build_offer,
        )
        self._outputs = OutputBuffers(store)
        relay = _ListenerRelay()
        self._context = NodeContext(
            store=store,
            clock=self._node_clock,
            node=self.node,
            options=options,
            runners=runners,
            functions=functions,
            bus=self._bus,
            settler=Settler(store, self._node_clock, self.node, relay),
            outputs=self._outputs,
            schedule_wake=relay.schedule_wake,
        )
        self._slots = Slots(options.slots, options.queue_slots)
        self._catalog = catalog = JobCatalog(store, self._bus, capacity=max(CATALOG_CAPACITY, options.slots))
        self._executor = Executor(self._context, self._slots, relay)
        self._dispatcher = Dispatcher(self._context, catalog, self._slots, self._executor, new_request=new_request)
        self._admission = AdmissionLoop(self._context, catalog, self._dispatcher, new_request=new_request)
        self._janitor = Janitor(self._context, claim_soon=self._dispatcher.claim_soon)
        self._reaper = Reaper(
            self._context,
            catalog,
            claim_soon=self._dispatcher.claim_soon,
            set_scheduling_nodes=self._set_scheduling_nodes,
        )
        self._outbox = Outbox(self._context, catalog)
        relay.dispatcher, relay.executor, relay.janitor = self._dispatcher, self._executor, self._janitor
        self._loops: asyncio.Task[None] | None = None
        self._survey: asyncio.Task[None] | None = None
        self._claim_and_admission_tasks: list[asyncio.Task[None]] = []

    def _build_offer(self) -> str:
        """Return what the node publishes about itself with its heartbeats."""
        return build_offer(
            self.options.queues,
            self._context.functions.names,
            version=self.options.version,
            address=self.options.address,
            skew_us=self._node_clock.offset_us,
            draining=self._context.closing,
        ).text

    # --- start and stop

    async def start(self) -> None:
        """Register with the store and start the loops. Raises ``ChronosError`` if the store cannot be reached."""
        await self._node_clock.measure(self._store)
        await self.node.register()
        self._store.on_hint(self._wake_by_hint)
        self._loops = asyncio.create_task(self._run(), name="chronos-engine")

    async def survey_jobs(self, on_report: Callable[[StartReport], None], *, new: int = 0) -> None:
        """Check the jobs of the store, and call ``on_report`` with the result. See ``JobSurvey``.

        Returns after a second if the store has very many jobs; the survey goes on in the background.
        """
        self._survey = asyncio.create_task(self._run_survey(on_report, new), name="chronos-survey")
        await asyncio.wait([self._survey], timeout=_SURVEY_PATIENCE_S)

    async def _run_survey(self, on_report: Callable[[StartReport], None], new: int) -> None:
        try:
            on_report(await JobSurvey(self._store, self._catalog, self._admission.mark_unschedulable).run(new=new))
        except ChronosError as error:  # jobs are checked again when they are due
            self.node.report_store_error(error)

    async def stop(self, grace_s: float | None = None) -> None:
        """Stop admitting and claiming, let running work finish within the grace period, release the rest.

        A second call ends the grace period.
        """
        if self._context.closing:
            self._executor.end_grace_period()
            self._outbox.end_grace_period()
        if self._loops is None or self._context.closing:
            return
        grace_s = self.options.grace_s if grace_s is None else grace_s
        self._context.closing = True
        await self._finish_claims_and_admissions()
        ends_s = asyncio.get_running_loop().time() + grace_s
        await self._executor.shut_down(grace_s)
        await self._outbox.finish(min(ends_s - asyncio.get_running_loop().time(), _OUTBOX_FINISH_TIMEOUT_S))
        await self.crash()
        try:
            async with asyncio.timeout(_RELEASE_TIMEOUT_S):
                await self._release_held()
                await self._outputs.flush()
                await self.node.stop()
        except TimeoutError:  # the store cannot be reached: other nodes will miss the heartbeats
            return

    async def _finish_claims_and_admissions(self) -> None:
        """Let a pending claim or admission finish, so that the node knows its executions."""
        self._dispatcher.claim_soon()
        self._admission.look_soon()
        self._admission.recovery_loop.close()
        if self._claim_and_admission_tasks:
            await asyncio.wait(self._claim_and_admission_tasks, timeout=_LAST_CLAIM_TIMEOUT_S)

    def schedule_wake(self, wake_us: int) -> None:
        """Wake delayed executions at ``wake_us``: one was created for then."""
        self._janitor.schedule_wake(wake_us)

    async def _release_held(self) -> None:
        """Release executions that the store still assigns to this node.

        They never started, so other nodes may run them now.
        """
        try:
            held = await self._store.running_on(self.node.number)
            if held:
                rows = tuple(ReleaseRow(row.id, row.token, row.worked_us) for row in held)
                await self._store.apply(Release(rows=rows, now_us=self._node_clock.now_us()))
        except ChronosError as error:  # other nodes will miss the heartbeats
            self.node.report_store_error(error)

    async def crash(self) -> None:
        """Drop everything at once, as a power cut would. Nothing is settled or released."""
        self._context.closing = True
        tasks = [task for task in (self._survey, self._loops) if task is not None]
        self._survey = self._loops = None
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._executor.kill_all_and_wait()

    async def wait_until_stopped(self) -> None:
        """Wait until the engine has stopped. Raises the error that stopped it, if ``stop`` did not."""
        if self._loops is not None:
            await asyncio.shield(self._loops)

    def on_event(
        self, watcher: Watcher, *kinds: type[Event], wants_routine: WantsRoutine | None = None
    ) -> Callable[[], None]:
        """Call ``watcher`` with every event of this node, or only with events of ``kinds``.

        Returns a function that ends this. ``wants_routine`` tells whether the watcher uses events of successful work,
        which are frequent.
        """
        if wants_routine is None:
            return self._bus.watch(watcher, *kinds)
        return self._bus.watch(watcher, *kinds, wants_routine=wants_routine)

    def job_name(self, job: bytes) -> tuple[str, str] | None:
        """Return the namespace and name of a recently used job, for readable logs; None if it is not cached."""
        entry = self._catalog.newest(job)
        return None if entry is None or not entry.name else (entry.namespace, entry.name)

    @property
    def running_count(self) -> int:
        """The number of executions that are running on this node."""
        return self._executor.running_count

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
            loops.create_task(self._outputs.run(), name="chronos-output")
            if self.options.works:
                self._claim_and_admission_tasks.append(
                    loops.create_task(self._dispatcher.run(), name="chronos-dispatcher")
                )
            if self.options.schedules:
                self._claim_and_admission_tasks.append(
                    loops.create_task(self._admission.run(), name="chronos-admission")
                )
                recovery = self._admission.recovery_loop.run()
                self._claim_and_admission_tasks.append(loops.create_task(recovery, name="chronos-recovery"))

    def _set_scheduling_nodes(self, nodes: tuple[int, ...]) -> None:
        self._admission.scheduling_nodes = nodes

    def _wake_by_hint(self, hint: Hint) -> None:
        """Wake the loops that have something to look for."""
        if self._context.closing:
            return
        if hint & Hint.JOBS:
            self._dispatcher.invalidate_lanes()
            self._admission.look_soon()
        if hint & Hint.READY:
            self._dispatcher.claim_soon()
        if hint & Hint.CANCEL:
            self.node.beat_soon()
        if hint & Hint.OUTBOX:
            self._outbox.take_soon()
