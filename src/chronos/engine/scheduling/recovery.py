"""Jobs that are behind by several instants: what was missed is recovered, what is merely late runs, one by one.

Each gap is a command of its own, for any of them may be refused. Those that are sent together, judged at one time, are
merged by the store: a hundred thousand jobs that a node finds behind when it starts are some hundred transactions.
It is a loop of its own, so that whatever is due meanwhile is on time.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Iterable
from typing import NamedTuple

from chronos.core.config import UNLIMITED, Overlap, RecoveryStrategy
from chronos.core.events import GapFound
from chronos.core.execution import Cause, Status
from chronos.core.job import JobState
from chronos.core.planner import Gap, plan, plan_late
from chronos.engine.execution.dispatcher import Dispatcher
from chronos.engine.job_catalog import CatalogEntry, JobCatalog
from chronos.engine.node_context import NodeContext
from chronos.engine.scheduling.due_instant import DueInstant, to_run_row
from chronos.engine.store_retry import apply_with_retry
from chronos.errors import ChronosError, StoreBroken
from chronos.store.commands import Admitted, Recover

_RECOVERY_BATCH_ROWS = 500  # runs and spans that are sent together
_MAX_CONCURRENT_BATCHES = 2
_DECISIONS_PER_TURN = 50  # gaps judged, between which others get a turn
_MAX_READY_BACKLOG = 2_000  # ready executions, beyond which recovered runs without a limit wait


class _RecoveryDecision(NamedTuple):
    entry: CatalogEntry
    cause: Cause
    command: Recover


class RecoveryLoop:
    """Judges gaps and sends what comes of it.

    ``tell`` is told of every run, ``dealt_with`` of every gap, whatever became of it, ``broken`` of jobs whose gaps
    cannot be judged. What is left because the node may not start work, a backlog is too long, a queue is full or
    another node was quicker, is for a later look to find. ``look`` is called when there are no more, if any cursor
    moved.
    """

    def __init__(
        self,
        crew: NodeContext,
        catalog: JobCatalog,
        dispatcher: Dispatcher,
        *,
        tell: Callable[[Admitted, Cause, int], None],
        dealt_with: Callable[[DueInstant], None],
        broken: Callable[[CatalogEntry, ChronosError], None],
        look: Callable[[], None],
    ) -> None:
        self._crew, self._catalog, self._dispatcher = crew, catalog, dispatcher
        self._tell, self._on_handled, self._broken, self._look = tell, dealt_with, broken, look
        self._behind: deque[DueInstant] = deque()
        self._some = asyncio.Event()

    def add(self, behind: Iterable[DueInstant]) -> None:
        """Deal with these as well."""
        self._behind.extend(behind)
        self._some.set()

    def close(self) -> None:
        """The node shuts down: end when what is under way is answered."""
        self._some.set()

    async def run(self) -> None:
        """Until the node shuts down."""
        while not self._crew.closing:
            await self._some.wait()
            self._some.clear()
            at_once = min(_MAX_CONCURRENT_BATCHES, len(self._behind))
            if any(await asyncio.gather(*(self._batches() for _ in range(at_once)))):
                self._look()

    async def _batches(self) -> bool:
        """One after the other, shared with others that do the same; answers whether any cursor moved."""
        moved = False
        while self._behind and not self._crew.closing:
            taken: list[DueInstant] = []
            try:
                batch = await self._decide_batch(taken)
                moved = any(await asyncio.gather(*(self._send(judged) for judged in batch))) or moved
            finally:
                for prepared in taken:
                    self._on_handled(prepared)
        return moved

    async def _decide_batch(self, taken: list[DueInstant]) -> list[_RecoveryDecision]:
        now_us = self._crew.clock.now_us()
        batch: list[_RecoveryDecision] = []
        size = 0
        backlogged: bool | None = None
        while self._behind:
            prepared = self._behind.popleft()
            taken.append(prepared)
            if not self._crew.node.may_start:
                continue
            missed = prepared.is_missed(now_us)
            if missed and _has_unlimited_runs(prepared.entry):
                if backlogged is None:
                    backlogged = await self._has_backlog()
                if backlogged:
                    continue
            judged = self._decide(prepared, now_us, missed=missed)
            if judged is None:
                continue
            batch.append(judged)
            size += len(judged.command.runs) + len(judged.command.spans) or 1
            if size >= _RECOVERY_BATCH_ROWS:
                break
            if len(batch) % _DECISIONS_PER_TURN == 0:
                await asyncio.sleep(0)
        if not self._crew.node.may_start or self._crew.clock.now_us() < now_us:
            return []  # the clock was set while others had their turn: a later look judges by what it shows then
        return batch

    def _decide(self, prepared: DueInstant, now_us: int, *, missed: bool) -> _RecoveryDecision | None:
        try:
            command = _to_recovery_command(prepared, now_us) if missed else _to_late_command(prepared, now_us)
        except ChronosError as error:
            self._broken(prepared.entry, error)
            return None
        if command is None:
            return None
        return _RecoveryDecision(prepared.entry, Cause.RECOVERY if missed else Cause.SCHEDULE, command)

    async def _send(self, judged: _RecoveryDecision) -> bool:
        entry, cause, command = judged
        try:
            admitted = await apply_with_retry(self._crew.store, command, self._crew.node.trouble)
        except StoreBroken as error:
            self._crew.node.duties.failed("recovery", error)  # which is no job's fault
            return False
        except ChronosError as error:
            self._catalog.broken(entry, error, command.now_us)
            return False
        self._crew.node.duties.done("recovery")
        if any(row.status is Status.READY for row in admitted):
            self._dispatcher.ready()
        for row in admitted:
            self._tell(row, cause, command.now_us)
        if command.runs and not admitted:
            return False
        if cause is Cause.RECOVERY:
            self._crew.bus.emit(
                GapFound(
                    at_us=command.now_us,
                    job=entry.job,
                    strategy=entry.effective.recovery.value,
                    runs=len(admitted),
                    left_out=sum(span.count for span in command.spans),
                )
            )
        return True

    async def _has_backlog(self) -> bool:
        try:
            return (await self._crew.store.counts()).open.get(Status.READY, 0) > _MAX_READY_BACKLOG
        except ChronosError as error:
            self._crew.node.trouble(error)
            return True


def _to_late_command(prepared: DueInstant, now_us: int) -> Recover | None:
    """Instants that came together only because nobody was there in time."""
    entry = prepared.entry
    if entry.instants is None:
        return None
    firings = plan_late(entry.job, entry.instants, prepared.firing.scheduled_us, now_us).firings
    return Recover(
        job=entry.job,
        version=entry.version,
        expect_us=prepared.firing.scheduled_us,
        next_us=firings[-1].next_us,
        runs=tuple(to_run_row(entry, fired, Cause.SCHEDULE) for fired in firings),
        spans=(),
        now_us=now_us,
    )


def _to_recovery_command(prepared: DueInstant, now_us: int) -> Recover | None:
    """A gap that is older than its job calls late."""
    entry = prepared.entry
    if entry.instants is None:
        return None
    found = plan(
        job=entry.job,
        state=JobState.ACTIVE,
        instants=entry.instants,
        effective=entry.effective,
        next_us=prepared.firing.scheduled_us,
        now_us=now_us,
    )
    if not isinstance(found, Gap):
        return None
    return Recover(
        job=entry.job,
        version=entry.version,
        expect_us=found.expect_us,
        next_us=found.next_us,
        runs=tuple(to_run_row(entry, fired, Cause.RECOVERY) for fired in found.firings),
        spans=found.spans,
        now_us=now_us,
        all_or_nothing=entry.effective.recovery is RecoveryStrategy.COMPRESSED,
    )


def _has_unlimited_runs(entry: CatalogEntry) -> bool:
    """Whether recovered runs of a job would all be ready at once: nothing else holds them back."""
    effective = entry.effective
    return effective.overlap is Overlap.ALLOW and effective.limit == UNLIMITED
