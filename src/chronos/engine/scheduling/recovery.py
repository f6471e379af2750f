"""RecoveryLoop: jobs that are behind by several instants. Missed instants are recovered, late ones run one by one.

Each gap is its own command, because the store may reject any of them. The store merges commands that arrive together:
100,000 jobs that a node finds behind when it starts take a few hundred transactions. Recovery is a separate loop, so
that jobs that are due meanwhile run on time.
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

_RECOVERY_BATCH_ROWS = 500  # runs and spans per batch
_MAX_CONCURRENT_BATCHES = 2
_DECISIONS_PER_TURN = 50  # after these the loop yields to other tasks
_MAX_READY_BACKLOG = 2_000  # with more ready executions, recovered runs without a limit wait


class _RecoveryDecision(NamedTuple):
    entry: CatalogEntry
    cause: Cause
    command: Recover


class RecoveryLoop:
    """Decides how to recover gaps, and sends the commands.

    - ``emit_admitted`` is called with every run.
    - ``on_handled`` is called with every gap, whatever the result.
    - ``on_unschedulable`` is called with jobs whose gaps cannot be planned.
    - ``look_soon`` is called at the end, if any cursor moved.

    A gap stays for a later look-ahead if the node may not start work, the backlog is too long, a queue is full or
    another node was faster.
    """

    def __init__(
        self,
        context: NodeContext,
        catalog: JobCatalog,
        dispatcher: Dispatcher,
        *,
        emit_admitted: Callable[[Admitted, Cause, int], None],
        on_handled: Callable[[DueInstant], None],
        on_unschedulable: Callable[[CatalogEntry, ChronosError], None],
        look_soon: Callable[[], None],
    ) -> None:
        self._context, self._catalog, self._dispatcher = context, catalog, dispatcher
        self._emit_admitted, self._on_handled = emit_admitted, on_handled
        self._on_unschedulable, self._look_soon = on_unschedulable, look_soon
        self._behind: deque[DueInstant] = deque()
        self._has_work = asyncio.Event()

    def add(self, behind: Iterable[DueInstant]) -> None:
        """Queue instants for recovery."""
        self._behind.extend(behind)
        self._has_work.set()

    def close(self) -> None:
        """End the loop when its pending commands are answered: the node shuts down."""
        self._has_work.set()

    async def run(self) -> None:
        """Recover until the node shuts down."""
        while not self._context.closing:
            await self._has_work.wait()
            self._has_work.clear()
            concurrency = min(_MAX_CONCURRENT_BATCHES, len(self._behind))
            if any(await asyncio.gather(*(self._send_batches() for _ in range(concurrency)))):
                self._look_soon()

    async def _send_batches(self) -> bool:
        """Send batches one after the other; several calls share the queue. Returns whether any cursor moved."""
        moved = False
        while self._behind and not self._context.closing:
            taken: list[DueInstant] = []
            try:
                batch = await self._decide_batch(taken)
                moved = any(await asyncio.gather(*(self._send(decision) for decision in batch))) or moved
            finally:
                for instant in taken:
                    self._on_handled(instant)
        return moved

    async def _decide_batch(self, taken: list[DueInstant]) -> list[_RecoveryDecision]:
        now_us = self._context.clock.now_us()
        batch: list[_RecoveryDecision] = []
        size = 0
        backlogged: bool | None = None
        while self._behind:
            instant = self._behind.popleft()
            taken.append(instant)
            if not self._context.node.may_start:
                continue
            missed = instant.is_missed(now_us)
            if missed and _has_unlimited_runs(instant.entry):
                if backlogged is None:
                    backlogged = await self._has_backlog()
                if backlogged:
                    continue
            decision = self._decide(instant, now_us, missed=missed)
            if decision is None:
                continue
            batch.append(decision)
            size += len(decision.command.runs) + len(decision.command.spans) or 1
            if size >= _RECOVERY_BATCH_ROWS:
                break
            if len(batch) % _DECISIONS_PER_TURN == 0:
                await asyncio.sleep(0)
        if not self._context.node.may_start or self._context.clock.now_us() < now_us:
            return []  # the clock was set meanwhile: a later look-ahead decides again
        return batch

    def _decide(self, instant: DueInstant, now_us: int, *, missed: bool) -> _RecoveryDecision | None:
        try:
            command = _to_recovery_command(instant, now_us) if missed else _to_late_command(instant, now_us)
        except ChronosError as error:
            self._on_unschedulable(instant.entry, error)
            return None
        if command is None:
            return None
        return _RecoveryDecision(instant.entry, Cause.RECOVERY if missed else Cause.SCHEDULE, command)

    async def _send(self, decision: _RecoveryDecision) -> bool:
        entry, cause, command = decision
        try:
            admitted = await apply_with_retry(self._context.store, command, self._context.node.report_store_error)
        except StoreBroken as error:
            self._context.node.duties.record_failure("recovery", error)  # not the job's fault
            return False
        except ChronosError as error:
            self._catalog.report_unschedulable(entry, error, command.now_us)
            return False
        self._context.node.duties.record_success("recovery")
        if any(row.status is Status.READY for row in admitted):
            self._dispatcher.claim_soon()
        for row in admitted:
            self._emit_admitted(row, cause, command.now_us)
        if command.runs and not admitted:
            return False
        if cause is Cause.RECOVERY:
            self._context.bus.emit(
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
            return (await self._context.store.counts()).open.get(Status.READY, 0) > _MAX_READY_BACKLOG
        except ChronosError as error:
            self._context.node.report_store_error(error)
            return True


def _to_late_command(instant: DueInstant, now_us: int) -> Recover | None:
    """Build the command for instants that are late only because no node was ready in time."""
    entry = instant.entry
    if entry.instants is None:
        return None
    firings = plan_late(entry.job, entry.instants, instant.firing.scheduled_us, now_us).firings
    return Recover(
        job=entry.job,
        version=entry.version,
        expect_us=instant.firing.scheduled_us,
        next_us=firings[-1].next_us,
        runs=tuple(to_run_row(entry, fired, Cause.SCHEDULE) for fired in firings),
        spans=(),
        now_us=now_us,
    )


def _to_recovery_command(instant: DueInstant, now_us: int) -> Recover | None:
    """Build the command for a gap beyond the job's recovery setting."""
    entry = instant.entry
    if entry.instants is None:
        return None
    gap = plan(
        job=entry.job,
        state=JobState.ACTIVE,
        instants=entry.instants,
        effective=entry.effective,
        next_us=instant.firing.scheduled_us,
        now_us=now_us,
    )
    if not isinstance(gap, Gap):
        return None
    return Recover(
        job=entry.job,
        version=entry.version,
        expect_us=gap.expect_us,
        next_us=gap.next_us,
        runs=tuple(to_run_row(entry, fired, Cause.RECOVERY) for fired in gap.firings),
        spans=gap.spans,
        now_us=now_us,
        all_or_nothing=entry.effective.recovery is RecoveryStrategy.COMPRESSED,
    )


def _has_unlimited_runs(entry: CatalogEntry) -> bool:
    """Return whether all recovered runs of a job would be ready at once, because the job sets no limit."""
    effective = entry.effective
    return effective.overlap is Overlap.ALLOW and effective.limit == UNLIMITED
