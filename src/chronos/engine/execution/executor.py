"""All that this node works on: it begins works, stops them, holds them against what the store says, and shuts down."""

import asyncio
import logging
from collections import Counter
from collections.abc import Coroutine
from contextlib import suppress
from typing import Protocol

from chronos.core.events import ExecutionStarted, ProblemReported
from chronos.core.execution import CancelRequest, Status, due_us
from chronos.core.execution_detail import close_detail
from chronos.core.outcome import Outcome
from chronos.core.reasons import ReasonCode
from chronos.engine.execution.execution_run import ExecutionRun
from chronos.engine.execution.fast_path import FastPath, read_fast_path_detail
from chronos.engine.execution.slots import Slots
from chronos.engine.job_catalog import CatalogEntry
from chronos.engine.node_context import NodeContext
from chronos.engine.store_retry import apply_with_retry
from chronos.errors import ChronosError
from chronos.runners.contract import AttemptCall
from chronos.store.commands import Claimed, HeldExecution, Release, ReleaseRow, SettleRow

log = logging.getLogger("chronos.engine")

_SETTLER_DRAIN_TIMEOUT_S = 5.0
_MAX_ENDED_CLAIMS = 20_000
_MISMATCHED_BEATS_TO_ACT = 2  # heartbeats in a row that must disagree, as a claim or an outcome may be on its way

_ClaimKey = tuple[bytes, int]  # the execution and its token


class RunningExecution(Protocol):
    """One execution under way: on the fast path, or as a ``ExecutionRun``."""

    claimed: Claimed
    entry: CatalogEntry

    def stop(self, code: ReasonCode, message: str | None = None) -> None:
        """End all of it; the first word counts."""

    def announce_shutdown(self) -> None:
        """The node shuts down; it may finish within the grace period."""

    def stop_for_shutdown(self) -> None:
        """The grace period is over: stop, and be given back."""

    def kill(self) -> None:
        """End by force and settle nothing."""


class SlotListener(Protocol):
    """What hears that a slot came free."""

    def slot_freed(self) -> None:
        """There is room for other work."""


class Executor:
    """The works of one node by their execution's id."""

    def __init__(self, crew: NodeContext, slots: Slots, listener: SlotListener) -> None:
        self._crew, self._slots, self._listener = crew, slots, listener
        self._running_executions: dict[bytes, RunningExecution] = {}
        self._idle = asyncio.Event()
        self._mismatches: Counter[_ClaimKey] = Counter()
        self._ended_claims: dict[_ClaimKey, None] = {}  # claims that are over, the newest last: none begins again
        self._background_tasks: set[asyncio.Task[None]] = set()

    @property
    def busy(self) -> int:
        """How many executions are being worked on."""
        return len(self._running_executions)

    def begin(self, claimed: Claimed, entry: CatalogEntry) -> None:
        """Work on an execution that is this node's; its slot has been taken.

        Not while the node is unheard: the process may have stood still after the store answered, and another node may
        hold the execution by now.
        """
        older = self._running_executions.get(claimed.id)
        told_before = older is not None and older.claimed.token == claimed.token  # by two answers, one of them late
        if told_before or (claimed.id, claimed.token) in self._ended_claims or self._crew.node.has_lost_heartbeat:
            self._slots.give(entry.effective.queue)
            self._listener.slot_freed()
            return
        if older is not None:  # it was taken from this node, and given to it again
            older.kill()
        if self._crew.bus.wants(ExecutionStarted, routine=True):
            self._tell_start(claimed)
        if (detail := read_fast_path_detail(claimed, entry)) is not None:
            path = self._running_executions[claimed.id] = FastPath(self._crew, claimed, entry, detail, self)
            path.start()
        else:
            work = ExecutionRun(self._crew, claimed, entry)
            self._drive(work, work.drive())

    def over(self, work: RunningExecution) -> None:
        """This node no longer works on an execution under this claim; it may under a newer one."""
        if self._running_executions.get(work.claimed.id) is work:
            del self._running_executions[work.claimed.id]
        self._forget((work.claimed.id, work.claimed.token))
        self._slots.give(work.entry.effective.queue)
        self._listener.slot_freed()
        if not self._running_executions:
            self._idle.set()

    def _forget(self, claim: _ClaimKey) -> None:
        """A claim is over: an answer that comes late, or twice, must not begin it again."""
        self._ended_claims[claim] = None
        if len(self._ended_claims) > _MAX_ENDED_CLAIMS:
            del self._ended_claims[next(iter(self._ended_claims))]

    # --- from the fast path to the full one

    def go_on(self, work: FastPath, call: AttemptCall, outcome: Outcome) -> None:
        """Its first attempt ended otherwise than in plain success: it goes on as a ``ExecutionRun``."""
        full = ExecutionRun(self._crew, work.claimed, work.entry)
        self._drive(full, full.drive_after_fast_path(call, outcome, work.stopped))

    def report_broken(self, work: FastPath, error: BaseException) -> None:
        """It cannot be settled."""
        self._broken(work, error)
        self.over(work)

    def _drive(self, work: ExecutionRun, driving: Coroutine[None, None, None]) -> None:
        self._running_executions[work.claimed.id] = work
        work.task = asyncio.get_running_loop().create_task(driving)
        work.task.add_done_callback(lambda task: self._finish_driving(work, task))

    def _finish_driving(self, work: ExecutionRun, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            self._broken(work, error)
        self.over(work)

    def _broken(self, work: RunningExecution, error: BaseException) -> None:
        log.error("execution %s of %s cannot be run", work.claimed.id.hex(), work.entry.name, exc_info=error)
        self._give_up(work, f"It cannot be run: {type(error).__name__}: {error}")

    def _tell_start(self, claimed: Claimed) -> None:
        now_us = self._crew.clock.now_us()
        self._crew.bus.emit(
            ExecutionStarted(
                at_us=now_us,
                execution=claimed.id,
                job=claimed.job,
                attempt=claimed.attempt,
                late_us=max(0, now_us - due_us(claimed.cause, claimed.scheduled_us, claimed.admitted_us)),
            )
        )

    # --- what the store says

    def reconcile(self, held: list[HeldExecution]) -> None:
        """Compare what the store says this node holds with what it works on.

        Stop what the store wants canceled. After two heartbeats that disagree, give back what only the store lists,
        and kill what only this node has.
        """
        known, strange = set(), Counter[_ClaimKey]()
        for row in held:
            known.add(row.id)
            claim = row.id, row.token
            found = self._running_executions.get(row.id)
            if found is not None:
                if row.cancel is not CancelRequest.NO:
                    found.stop(row.cancel.code, row.message)
            elif not self._crew.settler.holds(row.id):
                strange[claim] = self._mismatches[claim] + 1
                if strange[claim] >= _MISMATCHED_BEATS_TO_ACT:
                    self._forget(claim)
                    self.spawn_background(self._give_back(row))
        for id_, work in tuple(self._running_executions.items()):
            if id_ not in known:
                claim = id_, work.claimed.token  # of an execution that sleeps and wakes, each claim counts by itself
                strange[claim] = self._mismatches[claim] + 1
                if strange[claim] >= _MISMATCHED_BEATS_TO_ACT:
                    work.kill()
        self._mismatches = strange

    def _give_up(self, work: RunningExecution, message: str) -> None:
        """A definition or a detail that nobody can run: it would break off again at every try."""
        claimed, now_us = work.claimed, self._crew.clock.now_us()
        self._trouble(f"{work.entry.name}: {message}")
        detail = close_detail(claimed.detail, ReasonCode.TASK_FAILED, now_us)
        row = SettleRow(
            claimed.id, claimed.job, claimed.token, Status.FAILED, ReasonCode.TASK_FAILED, message, now_us, detail
        )
        self._crew.settler.add(row._replace(dead_letter=True), work.entry)

    def refused(self, row: SettleRow) -> None:
        """An outcome came too late."""
        self._trouble(f"the outcome of execution {row.id.hex()} came too late: it was taken from this node")

    async def _give_back(self, row: HeldExecution) -> None:
        """The store says that this node runs it, and it does not: an answer was lost, or its work broke off."""
        release = Release(rows=(ReleaseRow(row.id, row.token),), now_us=self._crew.clock.now_us())
        await apply_with_retry(self._crew.store, release, self._crew.node.trouble)

    # --- ends

    def kill_all(self, why: str) -> None:
        """End all work by force; none of it is settled."""
        if self._running_executions:
            self._trouble(f"{len(self._running_executions)} executions were put down: {why}")
        for work in tuple(self._running_executions.values()):
            work.kill()
        self._crew.settler.drop()

    async def drop_all(self) -> None:
        """Forget all work at once; nothing of it is left running."""
        for work in tuple(self._running_executions.values()):
            work.kill()
        for task in self._background_tasks:
            task.cancel()
        self._crew.settler.drop()
        await self._until_idle()

    async def shut_down(self, grace_s: float) -> None:
        """Let the work finish within the grace period, then stop it and give it back."""
        for work in tuple(self._running_executions.values()):
            work.announce_shutdown()
        try:
            async with asyncio.timeout(grace_s):
                await self._until_idle()
        except TimeoutError:
            self.end_grace_period()
            await self._until_idle()
        with suppress(TimeoutError):  # a store that cannot be reached is not waited for without end
            async with asyncio.timeout(max(grace_s, _SETTLER_DRAIN_TIMEOUT_S)):
                await self._crew.settler.drain()

    def end_grace_period(self) -> None:
        """The grace period is over: what still runs is stopped, to be given back."""
        for work in tuple(self._running_executions.values()):
            work.stop_for_shutdown()

    async def _until_idle(self) -> None:
        while self._running_executions:
            self._idle.clear()
            await self._idle.wait()

    def spawn_background(self, coroutine: Coroutine[None, None, None]) -> None:
        """Do something beside, without anybody waiting for it."""
        task = asyncio.get_running_loop().create_task(coroutine)
        self._background_tasks.add(task)
        task.add_done_callback(self._finish_background)

    def _finish_background(self, errand: asyncio.Task[None]) -> None:
        self._background_tasks.discard(errand)
        error = None if errand.cancelled() else errand.exception()
        if isinstance(error, ChronosError):  # the store says whose it still is: the heartbeats see to it
            self._crew.node.trouble(error)
        elif error is not None:
            raise error  # for the loop to tell

    def _trouble(self, error: str) -> None:
        self._crew.bus.emit(ProblemReported(at_us=self._crew.clock.now_us(), where="executor", error=error))
