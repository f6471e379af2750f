"""Look-ahead and admission: at its instant, one batched compare-and-set stands between the clock and the work.

::

    gates due within the look-ahead ─► prepared: id, next instant ─► at the instant: Admit, many in one command
                                            └─ found too late: see ``recovery``

Look-ahead only reads. It is repeated every tick as a safety net; a hint from the store brings it forward. Waiting is
monotonic and looks at the wall clock again when it is over, so a clock that is set is noticed within a tick.
"""

import asyncio
import heapq
from collections.abc import Callable, Iterator
from itertools import count

from chronos.core.config import Overlap
from chronos.core.events import ExecutionAdmitted
from chronos.core.execution import Cause, Status
from chronos.core.planner import build_firing
from chronos.core.reasons import ReasonCode
from chronos.engine.execution.dispatcher import Dispatcher
from chronos.engine.job_catalog import CatalogEntry, JobCatalog
from chronos.engine.node_context import NodeContext
from chronos.engine.scheduling.due_instant import DueInstant
from chronos.engine.scheduling.recovery import RecoveryLoop
from chronos.engine.store_retry import apply_with_retry
from chronos.engine.wakeup import Wakeup
from chronos.errors import ChronosError
from chronos.store.commands import Admit, AdmitRow, Admitted, Claimed
from chronos.store.contract import DueGate

_MAX_DUE_GATES = 100_000  # gates that one look may bring
_BUSY_LOOK_GATES = 5_000  # gates, beyond which looking again waits for half of the look-ahead
_ADMIT_BATCH_ROWS = 500
_MAX_CONCURRENT_ADMITS = 3  # on their way to the store
_MAX_TURNS_BETWEEN_BATCHES = (
    8  # of the loop, in which short work makes room for the next batch, which then needs no claim
)
_PREPARATIONS_PER_TURN = 200  # preparations between which others get a turn
_OTHER_NODES_JOB_DELAY_US = 1_000_000  # how long a node leaves other nodes' jobs alone


class AdmissionLoop:
    """The scheduling half of a node."""

    def __init__(
        self, crew: NodeContext, catalog: JobCatalog, dispatcher: Dispatcher, *, new_request: Callable[[], bytes]
    ) -> None:
        self._crew, self._catalog, self._dispatcher = crew, catalog, dispatcher
        self.recovery_loop = RecoveryLoop(
            crew,
            catalog,
            dispatcher,
            tell=self._tell,
            dealt_with=self._forget,
            broken=self._give_up,
            look=self.look_soon,
        )
        self._new_request = new_request
        self._lookahead_us = round(crew.options.lookahead_s * 1e6)
        self._prepared: dict[bytes, DueInstant] = {}
        self._coming: list[tuple[int, int, bytes, DueInstant]] = []
        self._order = count()
        self._broken: set[tuple[bytes, int]] = set()  # versions that cannot be scheduled, told once
        self._wakeup = Wakeup()
        self._look_s = 0.0
        self.peers: tuple[int, ...] = ()  # living nodes that schedule, this one among them

    def look_soon(self) -> None:
        """A job changed: look again now."""
        self._look_s = 0.0
        self._wakeup.wake()

    async def run(self) -> None:
        """Look, wait, admit, until the node shuts down."""
        loop, tick_s = asyncio.get_running_loop(), self._crew.options.tick_s
        while not self._crew.closing:
            wait_s = tick_s
            if self._crew.node.may_start:
                if loop.time() >= self._look_s:
                    await self._look()
                with self._crew.node.duties.count_failures("admission"):  # the next look finds again what was prepared
                    await self._admit_due()
                    wait_s = self._until_next_s(loop.time())
            if wait_s > 0:
                await self._wakeup.wait(wait_s)

    def _until_next_s(self, loop_s: float) -> float:
        """Until the next instant, the next look, or, so that a clock which is set is noticed, a tick."""
        wait_s = min(self._crew.options.tick_s, self._look_s - loop_s)
        if self._coming:
            wait_s = min(wait_s, (self._coming[0][0] - self._crew.clock.now_us()) / 1e6)
        return wait_s

    # --- looking ahead

    async def _look(self) -> None:
        options = self._crew.options
        asked_s = asyncio.get_running_loop().time()
        self._look_s = asked_s + options.tick_s
        with self._crew.node.duties.count_failures("look-ahead"):
            rows = await self._crew.store.due(self._crew.clock.now_us() + self._lookahead_us, _MAX_DUE_GATES)
            fresh = [row for row in rows if not self._is_known(row)]
            if len(rows) > _BUSY_LOOK_GATES:
                self._look_s = max(self._look_s, asked_s + options.lookahead_s / 2)
            for begin in range(0, len(fresh), _BUSY_LOOK_GATES):
                await self._prepare_all(fresh[begin : begin + _BUSY_LOOK_GATES])

    def _is_known(self, row: DueGate) -> bool:
        known = self._prepared.get(row.job)
        if known is None:
            return (row.job, row.version) in self._broken
        return (known.firing.scheduled_us, known.entry.version) == (row.next_us, row.version)

    async def _prepare_all(self, rows: list[DueGate]) -> None:
        entries = await self._catalog.fetch((row.job, row.version) for row in rows)
        for done, row in enumerate(rows, 1):
            entry = entries.get((row.job, row.version))
            if entry is not None:
                self._prepare(entry, row.next_us, row.careful)
            if done % _PREPARATIONS_PER_TURN == 0:
                await asyncio.sleep(0)

    def _prepare(self, entry: CatalogEntry, scheduled_us: int, careful: bool) -> None:
        try:
            if entry.instants is None:
                return
            prepared = DueInstant(entry, build_firing(entry.job, entry.instants, scheduled_us), careful)
            entry.precompute()
        except ChronosError as error:
            self._give_up(entry, error)
            return
        at_us = prepared.firing.due_us
        if len(self.peers) > 1 and not self._mine(entry.job):
            at_us += _OTHER_NODES_JOB_DELAY_US
        self._prepared[entry.job] = prepared
        heapq.heappush(self._coming, (at_us, next(self._order), entry.job, prepared))

    def _mine(self, job: bytes) -> bool:
        """Rendezvous hashing: each job has one node that admits it first, and moves only when nodes come and go."""
        seed = int.from_bytes(job[:8])
        return max(self.peers, key=lambda node: _mix_bits(seed ^ _mix_bits(node))) == self._crew.node.number

    def _give_up(self, entry: CatalogEntry, error: ChronosError) -> None:
        if len(self._broken) < _MAX_DUE_GATES:
            self._broken.add((entry.job, entry.version))
        self._catalog.broken(entry, error, self._crew.clock.now_us())

    def _forget(self, prepared: DueInstant) -> None:
        if self._prepared.get(prepared.entry.job) is prepared:
            del self._prepared[prepared.entry.job]

    # --- admitting

    async def _admit_due(self) -> None:
        """Admit everything whose time has come."""
        if not self._coming:
            return
        now_us = self._crew.clock.now_us()
        if self._crew.clock.wrong:
            return  # the clock was set while this node looked ahead
        behind: list[DueInstant] = []
        due: list[DueInstant] = []
        while self._coming and self._coming[0][0] <= now_us:
            _, _, job, prepared = heapq.heappop(self._coming)
            if self._prepared.get(job) is not prepared:
                continue  # prepared anew since
            if prepared.is_missed(now_us) or prepared.has_next_due(now_us):
                behind.append(prepared)  # known until it has been dealt with
            else:
                del self._prepared[job]
                due.append(prepared)
        if behind:
            self.recovery_loop.add(behind)
        if len(due) <= _ADMIT_BATCH_ROWS:
            await self._admit(due, now_us)
        else:
            batches = (due[i : i + _ADMIT_BATCH_ROWS] for i in range(0, len(due), _ADMIT_BATCH_ROWS))
            # As many at once as there are slots for: the next ones find those that the first have left.
            at_once = min(self._dispatcher.free // _ADMIT_BATCH_ROWS or _MAX_CONCURRENT_ADMITS, _MAX_CONCURRENT_ADMITS)
            await asyncio.gather(*(self._admit_all(batches, now_us) for _ in range(at_once)))

    async def _admit_all(self, batches: Iterator[list[DueInstant]], due_us: int) -> None:
        """One after the other, shared with others that do the same."""
        for batch in batches:
            await self._admit(batch, max(due_us, self._crew.clock.now_us()))
            for _ in range(_MAX_TURNS_BETWEEN_BATCHES):
                await asyncio.sleep(0)
                if self._dispatcher.free >= _ADMIT_BATCH_ROWS:
                    break
            if self._crew.closing or not self._crew.node.may_start:
                return  # what is left is found again by the next look

    async def _admit(self, batch: list[DueInstant], now_us: int) -> None:
        if not batch:
            return
        reserved: dict[bytes, DueInstant] = {}
        rows: list[AdmitRow] = []
        for prepared in batch:
            claim = self._dispatcher.suits(prepared.entry) and self._dispatcher.reserve(prepared.entry)
            if claim:
                reserved[prepared.firing.id] = prepared
            rows.append(prepared.row(claim=claim))
        number = self._crew.node.number
        command = Admit(rows=tuple(rows), node=number, now_us=now_us, request=self._new_request())
        answers: dict[bytes, Admitted] = {}
        try:
            for answer in await apply_with_retry(self._crew.store, command, self._crew.node.trouble):
                # What was claimed for an incarnation that is no more is the reaper's, not this one's to start.
                if answer.status is not Status.RUNNING or number == self._crew.node.number:
                    answers[answer.id] = answer
        finally:
            for id_, prepared in reserved.items():
                if id_ not in answers or answers[id_].status is not Status.RUNNING:
                    self._dispatcher.release(prepared.entry)
        for prepared in batch:
            admitted = answers.get(prepared.firing.id)
            if admitted is not None:
                self._admitted(prepared, admitted, now_us)

    def _admitted(self, prepared: DueInstant, admitted: Admitted, now_us: int) -> None:
        entry, fired = prepared.entry, prepared.firing
        self._tell(admitted, Cause.SCHEDULE, now_us)
        match admitted.status:
            case Status.RUNNING:
                claimed = Claimed(
                    admitted.id,
                    admitted.job,
                    entry.version,
                    Cause.SCHEDULE,
                    fired.scheduled_us,
                    1,
                    admitted.token,
                    now_us,
                    now_us,
                    0,
                    None,
                    admitted.last_run_us,
                )
                self._dispatcher.start(claimed, entry)
            case Status.READY:
                self._dispatcher.ready()
            case Status.QUEUED if entry.effective.overlap is Overlap.REPLACE:
                self._crew.node.beat_soon()  # what it replaces may run here, and has been asked to stop
        if fired.next_us is not None:
            self._prepare(entry, fired.next_us, prepared.careful)

    def _tell(self, admitted: Admitted, cause: Cause, now_us: int) -> None:
        if not self._crew.bus.wants(ExecutionAdmitted, routine=admitted.status is not Status.SKIPPED):
            return
        code = None
        if admitted.status is Status.SKIPPED:  # the gate does not tell why, and there is only one why for each policy
            entry = self._catalog.newest(admitted.job)
            skips = entry is None or entry.effective.overlap is Overlap.SKIP
            code = ReasonCode.OVERLAP if skips else ReasonCode.QUEUE_FULL
        self._crew.bus.emit(
            ExecutionAdmitted(
                at_us=now_us, execution=admitted.id, job=admitted.job, cause=cause, status=admitted.status, code=code
            )
        )


def _mix_bits(value: int) -> int:
    """Spreads bits (splitmix64)."""
    value = (value ^ (value >> 30)) * 0xBF58476D1CE4E5B9 & 0xFFFFFFFFFFFFFFFF
    value = (value ^ (value >> 27)) * 0x94D049BB133111EB & 0xFFFFFFFFFFFFFFFF
    return value ^ (value >> 31)
