"""AdmissionLoop: reads the instants that are due soon, waits for each, and admits them in batches.

Each admission is a compare-and-set in the store.

::

    gates due within the look-ahead ─► DueInstant: id, next instant ─► at the instant: Admit, many per command
                                            └─ found too late: see ``recovery``

Look-ahead only reads. It is repeated every tick as a safety net; a hint from the store brings it forward. The loop
waits on monotonic time and then reads the wall clock again, so it notices within a tick when the clock was set.
"""

import asyncio
import heapq
from collections.abc import Callable, Iterator
from itertools import count

from chronos.core.config import Overlap
from chronos.core.events import ExecutionAdmitted
from chronos.core.execution import Cause, Status
from chronos.core.planner import build_firing
from chronos.core.schedule.plugins import is_registered
from chronos.engine.execution.dispatcher import Dispatcher
from chronos.engine.job_catalog import CatalogEntry, JobCatalog
from chronos.engine.node_context import NodeContext
from chronos.engine.scheduling.due_instant import DueInstant
from chronos.engine.scheduling.recovery import RecoveryLoop
from chronos.engine.store_retry import apply_with_retry
from chronos.engine.wakeup import Wakeup
from chronos.errors import ChronosError, MissingSchedule
from chronos.store.commands import Admit, AdmitRow, Admitted, Claimed
from chronos.store.contract import DueGate

_MAX_DUE_GATES = 100_000  # per look-ahead
_BUSY_LOOK_GATES = 5_000  # after more gates, the next look-ahead waits for half of its range
_ADMIT_BATCH_ROWS = 500
_MAX_CONCURRENT_ADMITS = 3
# Turns of the event loop between two batches. Short work ends meanwhile and frees slots for the next batch.
_MAX_TURNS_BETWEEN_BATCHES = 8
_PREPARATIONS_PER_TURN = 200  # after these the loop yields to other tasks
_NOT_PREFERRED_DELAY_US = 1_000_000  # how long a node waits before it admits a job that prefers another node


class AdmissionLoop:
    """Reads due instants ahead of time, waits for them and admits them."""

    def __init__(
        self, context: NodeContext, catalog: JobCatalog, dispatcher: Dispatcher, *, new_request: Callable[[], bytes]
    ) -> None:
        self._context, self._catalog, self._dispatcher = context, catalog, dispatcher
        self.recovery_loop = RecoveryLoop(
            context,
            catalog,
            dispatcher,
            emit_admitted=self._emit_admitted,
            on_handled=self._forget,
            on_unschedulable=self.mark_unschedulable,
            look_soon=self.look_soon,
        )
        self._new_request = new_request
        self._lookahead_us = round(context.options.lookahead_s * 1e6)
        self._prepared: dict[bytes, DueInstant] = {}  # by job
        self._heap: list[tuple[int, int, bytes, DueInstant]] = []  # (when to admit it, order, job, instant)
        self._order = count()
        self._unschedulable_versions: set[tuple[bytes, int]] = set()  # (job, version), each reported once
        self._left_alone: dict[tuple[bytes, int], str] = {}  # (job, version) and the custom schedule that is missing
        self._wakeup = Wakeup()
        self._next_look_s = 0.0
        self.scheduling_nodes: tuple[int, ...] = ()  # live nodes that schedule, including this one

    def look_soon(self) -> None:
        """Look ahead again now: a job changed."""
        self._next_look_s = 0.0
        self._wakeup.wake()

    async def run(self) -> None:
        """Look ahead, wait and admit, until the node shuts down."""
        loop, tick_s = asyncio.get_running_loop(), self._context.options.tick_s
        while not self._context.closing:
            wait_s = tick_s
            if self._context.node.may_start:
                if loop.time() >= self._next_look_s:
                    await self._look_ahead()
                with self._context.node.duties.count_failures("admission"):  # the next look-ahead repeats a failed one
                    await self._admit_due()
                    wait_s = self._until_next_s(loop.time())
            if wait_s > 0:
                await self._wakeup.wait(wait_s)

    def _until_next_s(self, loop_s: float) -> float:
        """Return the time until the next instant, the next look-ahead or the next tick, whichever is first."""
        wait_s = min(self._context.options.tick_s, self._next_look_s - loop_s)
        if self._heap:
            wait_s = min(wait_s, (self._heap[0][0] - self._context.clock.now_us()) / 1e6)
        return wait_s

    # --- looking ahead

    async def _look_ahead(self) -> None:
        options = self._context.options
        looked_s = asyncio.get_running_loop().time()
        self._next_look_s = looked_s + options.tick_s
        with self._context.node.duties.count_failures("look-ahead"):
            rows = await self._context.store.due(self._context.clock.now_us() + self._lookahead_us, _MAX_DUE_GATES)
            new_rows = [row for row in rows if not self._is_known(row)]
            if len(rows) > _BUSY_LOOK_GATES:
                self._next_look_s = max(self._next_look_s, looked_s + options.lookahead_s / 2)
            for start in range(0, len(new_rows), _BUSY_LOOK_GATES):
                await self._prepare_all(new_rows[start : start + _BUSY_LOOK_GATES])

    def _is_known(self, row: DueGate) -> bool:
        known = self._prepared.get(row.job)
        if known is None:
            version = (row.job, row.version)
            missing = self._left_alone.get(version)
            return version in self._unschedulable_versions if missing is None else not is_registered(missing)
        entry = known.entry
        return (known.firing.scheduled_us, entry.version, entry.levels) == (row.next_us, row.version, row.levels)

    async def _prepare_all(self, rows: list[DueGate]) -> None:
        entries = await self._catalog.fetch((row.job, row.version, row.levels) for row in rows)
        for position, row in enumerate(rows, 1):
            entry = entries.get((row.job, row.version, row.levels))
            if entry is not None:
                self._prepare(entry, row.next_us, row.needs_gate_lock)
            if position % _PREPARATIONS_PER_TURN == 0:
                await asyncio.sleep(0)

    def _prepare(self, entry: CatalogEntry, scheduled_us: int, needs_gate_lock: bool) -> None:
        try:
            if entry.instants is None:
                return
            instant = DueInstant(entry, build_firing(entry.job, entry.instants, scheduled_us), needs_gate_lock)
            entry.precompute()
        except ChronosError as error:
            self.mark_unschedulable(entry, error)
            return
        at_us = instant.firing.due_us
        if len(self.scheduling_nodes) > 1 and not self._admits_first(entry.job):
            at_us += _NOT_PREFERRED_DELAY_US
        self._prepared[entry.job] = instant
        heapq.heappush(self._heap, (at_us, next(self._order), entry.job, instant))

    def _admits_first(self, job: bytes) -> bool:
        """Return whether this node admits a job first.

        Rendezvous hashing gives each job one preferred node. The preference changes only when nodes come or go.
        """
        seed = int.from_bytes(job[:8])
        return (
            max(self.scheduling_nodes, key=lambda node: _mix_bits(seed ^ _mix_bits(node))) == self._context.node.number
        )

    def mark_unschedulable(self, entry: CatalogEntry, error: ChronosError) -> None:
        """Report once that this node cannot schedule a version of a job, and leave it out from now on."""
        if isinstance(error, MissingSchedule):
            self._leave_alone(entry, error)
            return
        if (entry.job, entry.version) in self._unschedulable_versions:
            return
        if len(self._unschedulable_versions) < _MAX_DUE_GATES:
            self._unschedulable_versions.add((entry.job, entry.version))
        self._catalog.report_unschedulable(entry, error, self._context.clock.now_us())

    def _leave_alone(self, entry: CatalogEntry, error: MissingSchedule) -> None:
        """Leave a job to other programs until its custom schedule is registered here."""
        name = error.name.removeprefix("@")
        if self._left_alone.get((entry.job, entry.version)) == name:
            return
        if len(self._left_alone) < _MAX_DUE_GATES:
            self._left_alone[entry.job, entry.version] = name
        self._catalog.report_left_alone(entry, error, self._context.clock.now_us())

    def _forget(self, instant: DueInstant) -> None:
        if self._prepared.get(instant.entry.job) is instant:
            del self._prepared[instant.entry.job]

    # --- admitting

    async def _admit_due(self) -> None:
        """Admit every instant whose time has come."""
        if not self._heap:
            return
        now_us = self._context.clock.now_us()
        if self._context.clock.is_wrong:
            return  # the clock was set after the look-ahead
        behind: list[DueInstant] = []
        due: list[DueInstant] = []
        while self._heap and self._heap[0][0] <= now_us:
            _, _, job, instant = heapq.heappop(self._heap)
            if self._prepared.get(job) is not instant:
                continue  # it has been prepared again since
            if instant.is_missed(now_us) or instant.has_next_due(now_us):
                behind.append(instant)  # stays known until recovery has handled it
            else:
                del self._prepared[job]
                due.append(instant)
        if behind:
            self.recovery_loop.add(behind)
        if len(due) <= _ADMIT_BATCH_ROWS:
            await self._admit(due, now_us)
        else:
            batches = (due[i : i + _ADMIT_BATCH_ROWS] for i in range(0, len(due), _ADMIT_BATCH_ROWS))
            # As many batches at once as there are slots for: later batches use the slots that these leave. With fewer
            # slots than one batch has rows, most instants only become ready, and that needs no slots.
            concurrency = min(
                self._dispatcher.free_slots // _ADMIT_BATCH_ROWS or _MAX_CONCURRENT_ADMITS, _MAX_CONCURRENT_ADMITS
            )
            await asyncio.gather(*(self._admit_all(batches, now_us) for _ in range(concurrency)))

    async def _admit_all(self, batches: Iterator[list[DueInstant]], due_us: int) -> None:
        """Admit batches one after the other. Several calls share the iterator."""
        for batch in batches:
            await self._admit(batch, max(due_us, self._context.clock.now_us()))
            for _ in range(_MAX_TURNS_BETWEEN_BATCHES):
                await asyncio.sleep(0)
                if self._dispatcher.free_slots >= _ADMIT_BATCH_ROWS:
                    break
            if self._context.closing or not self._context.node.may_start:
                return  # the next look-ahead finds the rest again

    async def _admit(self, batch: list[DueInstant], now_us: int) -> None:
        if not batch:
            return
        reserved: dict[bytes, DueInstant] = {}
        rows: list[AdmitRow] = []
        for instant in batch:
            has_slot = self._dispatcher.can_run(instant.entry) and self._dispatcher.reserve(instant.entry)
            if has_slot:
                reserved[instant.firing.id] = instant
            rows.append(instant.to_row(claim=has_slot))
        number = self._context.node.number
        command = Admit(rows=tuple(rows), node=number, now_us=now_us, request=self._new_request())
        answers: dict[bytes, Admitted] = {}
        try:
            for answer in await apply_with_retry(self._context.store, command, self._context.node.report_store_error):
                # The reaper takes over what was claimed for a former incarnation.
                if answer.status is not Status.RUNNING or number == self._context.node.number:
                    answers[answer.id] = answer
        finally:
            for id_, instant in reserved.items():
                if id_ not in answers or answers[id_].status is not Status.RUNNING:
                    self._dispatcher.release(instant.entry)
        for instant in batch:
            admitted = answers.get(instant.firing.id)
            if admitted is not None:
                self._handle_admitted(instant, admitted, now_us)

    def _handle_admitted(self, instant: DueInstant, admitted: Admitted, now_us: int) -> None:
        entry, firing = instant.entry, instant.firing
        self._emit_admitted(admitted, Cause.SCHEDULE, now_us)
        match admitted.status:
            case Status.RUNNING:
                claimed = Claimed(
                    id=admitted.id,
                    job=admitted.job,
                    version=entry.version,
                    cause=Cause.SCHEDULE,
                    scheduled_us=firing.scheduled_us,
                    attempt=1,
                    token=admitted.token,
                    admitted_us=now_us,
                    started_us=now_us,
                    worked_us=0,
                    detail=None,
                    levels=entry.levels,
                    last_run_us=admitted.last_run_us,
                )
                self._dispatcher.start(claimed, entry)
            case Status.READY:
                self._dispatcher.claim_soon()
            case Status.QUEUED if entry.effective.overlap is Overlap.REPLACE:
                self._context.node.beat_soon()  # the execution that it replaces may run here and must stop
        if firing.next_us is not None:
            self._prepare(entry, firing.next_us, instant.needs_gate_lock)

    def _emit_admitted(self, admitted: Admitted, cause: Cause, now_us: int) -> None:
        if not self._context.bus.wants(ExecutionAdmitted, routine=admitted.status is not Status.SKIPPED):
            return
        self._context.bus.emit(
            ExecutionAdmitted(
                at_us=now_us,
                execution=admitted.id,
                job=admitted.job,
                cause=cause,
                status=admitted.status,
                code=admitted.code,
            )
        )


def _mix_bits(value: int) -> int:
    """Return a 64-bit hash of a number (the mixing step of splitmix64)."""
    value = (value ^ (value >> 30)) * 0xBF58476D1CE4E5B9 & 0xFFFFFFFFFFFFFFFF
    value = (value ^ (value >> 27)) * 0x94D049BB133111EB & 0xFFFFFFFFFFFFFFFF
    return value ^ (value >> 31)
