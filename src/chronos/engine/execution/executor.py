"""Executor: starts and stops the executions of this node, reconciles them with the store, and ends them at shutdown."""

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
from chronos.core.reasons import Reason, ReasonCode
from chronos.core.settle import End
from chronos.engine.execution.execution_run import ExecutionRun
from chronos.engine.execution.fast_path import FastPath, read_fast_path_detail
from chronos.engine.execution.recorder import to_ended_event
from chronos.engine.execution.slots import Slots
from chronos.engine.job_catalog import CatalogEntry
from chronos.engine.node_context import NodeContext
from chronos.engine.store_retry import apply_with_retry
from chronos.errors import ChronosError
from chronos.runners.contract import AttemptCall
from chronos.store.commands import Claimed, NodeExecution, Release, ReleaseRow, SettleRow

log = logging.getLogger("chronos.engine")

_SETTLER_DRAIN_TIMEOUT_S = 5.0
_MAX_ENDED_CLAIMS = 20_000
_MISMATCHED_BEATS_TO_ACT = 2  # in a row, because a claim or an outcome may be in flight

_ClaimKey = tuple[bytes, int]  # the execution and its token


class RunningExecution(Protocol):
    """One running execution: on the fast path, or as an ``ExecutionRun``."""

    claimed: Claimed
    entry: CatalogEntry

    def stop(self, code: ReasonCode, message: str | None = None) -> None:
        """Stop the whole execution; the first reason counts."""

    def announce_shutdown(self) -> None:
        """Tell the work that the node shuts down. It may finish within the grace period."""

    def stop_for_shutdown(self) -> None:
        """Stop the work and release it: the grace period is over."""

    def kill(self) -> None:
        """Kill the work without settling it."""


class SlotListener(Protocol):
    """Listens for freed slots."""

    def on_slot_freed(self) -> None:
        """A slot is free for other work."""


class Executor:
    """Runs the executions of one node."""

    def __init__(self, context: NodeContext, slots: Slots, listener: SlotListener) -> None:
        self._context, self._slots, self._listener = context, slots, listener
        self._running_executions: dict[bytes, RunningExecution] = {}
        self._idle = asyncio.Event()
        self._mismatches: Counter[_ClaimKey] = Counter()
        self._ended_claims: dict[_ClaimKey, None] = {}  # the newest last; these must not start again
        self._background_tasks: set[asyncio.Task[None]] = set()

    @property
    def running_count(self) -> int:
        """The number of executions that are running."""
        return len(self._running_executions)

    def begin(self, claimed: Claimed, entry: CatalogEntry) -> None:
        """Start an execution whose slot has been taken.

        Drops the claim if the node has lost its heartbeat: the process may have been suspended after the store
        answered, and another node may hold the execution by now.
        """
        previous = self._running_executions.get(claimed.id)
        # The store may answer the same claim twice, once late.
        is_duplicate = previous is not None and previous.claimed.token == claimed.token
        if is_duplicate or (claimed.id, claimed.token) in self._ended_claims or self._context.node.has_lost_heartbeat:
            self._slots.give(entry.effective.queue)
            self._listener.on_slot_freed()
            return
        if previous is not None:  # it was taken from this node and claimed here again
            previous.kill()
        if self._context.bus.wants(ExecutionStarted, routine=True):
            self._emit_started(claimed)
        if (detail := read_fast_path_detail(claimed, entry)) is not None:
            fast_path = self._running_executions[claimed.id] = FastPath(self._context, claimed, entry, detail, self)
            fast_path.start()
        else:
            run = ExecutionRun(self._context, claimed, entry)
            self._start_run(run, run.drive())

    def finish(self, run: RunningExecution) -> None:
        """Free the slot of an execution whose claim has ended on this node.

        A newer claim of the same execution keeps running.
        """
        if self._running_executions.get(run.claimed.id) is run:
            del self._running_executions[run.claimed.id]
        self._remember_ended_claim((run.claimed.id, run.claimed.token))
        self._slots.give(run.entry.effective.queue)
        self._listener.on_slot_freed()
        if not self._running_executions:
            self._idle.set()

    def _remember_ended_claim(self, claim: _ClaimKey) -> None:
        """Remember that a claim has ended, so that a late or repeated answer does not start it again."""
        self._ended_claims[claim] = None
        if len(self._ended_claims) > _MAX_ENDED_CLAIMS:
            del self._ended_claims[next(iter(self._ended_claims))]

    # --- leaving the fast path

    def fall_back(self, run: FastPath, call: AttemptCall, outcome: Outcome) -> None:
        """Continue as an ``ExecutionRun``.

        The first attempt did not succeed, or it left memory or SQL statements to record.
        """
        execution_run = ExecutionRun(self._context, run.claimed, run.entry)
        self._start_run(execution_run, execution_run.drive_after_fast_path(call, outcome, run.stop_request))

    def fail_unrecorded(self, run: FastPath, error: BaseException) -> None:
        """Settle as failed an execution whose success could not be recorded."""
        self._fail_after_error(run, error)
        self.finish(run)

    def _start_run(self, run: ExecutionRun, work: Coroutine[None, None, None]) -> None:
        self._running_executions[run.claimed.id] = run
        run.task = asyncio.get_running_loop().create_task(work)
        run.task.add_done_callback(lambda task: self._on_run_done(run, task))

    def _on_run_done(self, run: ExecutionRun, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            self._fail_after_error(run, error)
        self.finish(run)

    def _fail_after_error(self, run: RunningExecution, error: BaseException) -> None:
        log.error(
            "execution %s of %s broke off with an internal error", run.claimed.id.hex(), run.entry.name, exc_info=error
        )
        self._settle_as_failed(run, f"This execution broke off with an internal error: {type(error).__name__}: {error}")

    def _emit_started(self, claimed: Claimed) -> None:
        now_us = self._context.clock.now_us()
        self._context.bus.emit(
            ExecutionStarted(
                at_us=now_us,
                execution=claimed.id,
                job=claimed.job,
                attempt=claimed.attempt,
                late_us=max(0, now_us - due_us(claimed.cause, claimed.scheduled_us, claimed.admitted_us)),
            )
        )

    # --- reconciling with the store

    def reconcile(self, held: list[NodeExecution]) -> None:
        """Compare the executions that the store assigns to this node with those that run here.

        Stops executions that the store wants canceled. After two heartbeats that disagree, releases executions that
        only the store lists, and kills those that only run here.
        """
        held_ids, mismatches = set(), Counter[_ClaimKey]()
        for row in held:
            held_ids.add(row.id)
            claim = row.id, row.token
            running = self._running_executions.get(row.id)
            if running is not None:
                if row.cancel is not CancelRequest.NO:
                    running.stop(row.cancel.code, row.message)
            elif not self._context.settler.holds(row.id):
                mismatches[claim] = self._mismatches[claim] + 1
                if mismatches[claim] >= _MISMATCHED_BEATS_TO_ACT:
                    self._remember_ended_claim(claim)
                    self.spawn_background(self._release(row))
        for id_, run in tuple(self._running_executions.items()):
            if id_ not in held_ids:
                claim = id_, run.claimed.token  # an execution that sleeps and wakes has several claims
                mismatches[claim] = self._mismatches[claim] + 1
                if mismatches[claim] >= _MISMATCHED_BEATS_TO_ACT:
                    run.kill()
        self._mismatches = mismatches

    def _settle_as_failed(self, run: RunningExecution, message: str) -> None:
        """Settle an execution as failed, without a retry: every attempt would break off the same way."""
        claimed, now_us = run.claimed, self._context.clock.now_us()
        self._report_problem(f"{run.entry.name}: {message}")
        end = End(status=Status.FAILED, reason=Reason.of(ReasonCode.TASK_FAILED, message))
        self._context.bus.emit(to_ended_event(claimed, end, now_us))
        detail = close_detail(claimed.detail, ReasonCode.TASK_FAILED, now_us)
        row = SettleRow(
            claimed.id, claimed.job, claimed.token, Status.FAILED, ReasonCode.TASK_FAILED, message, now_us, detail
        )
        self._context.settler.add(row._replace(dead_letter=True), run.entry)

    def on_outcome_rejected(self, row: SettleRow) -> None:
        """Report that an outcome came too late."""
        self._report_problem(
            f"the outcome of execution {row.id.hex()} came too late: it no longer belongs to this node"
        )

    async def _release(self, row: NodeExecution) -> None:
        """Release an execution that does not run here: an answer was lost, or its work broke off."""
        release = Release(rows=(ReleaseRow(row.id, row.token),), now_us=self._context.clock.now_us())
        await apply_with_retry(self._context.store, release, self._context.node.report_store_error)

    # --- stopping

    def kill_all(self, reason: str) -> None:
        """Kill all work without settling it."""
        if self._running_executions:
            self._report_problem(f"killed {len(self._running_executions)} running executions: {reason}")
        for run in tuple(self._running_executions.values()):
            run.kill()
        self._context.settler.drop()

    async def kill_all_and_wait(self) -> None:
        """Kill all work without settling it, and wait until it has ended."""
        for run in tuple(self._running_executions.values()):
            run.kill()
        for task in self._background_tasks:
            task.cancel()
        self._context.settler.drop()
        await self._wait_until_idle()

    async def shut_down(self, grace_s: float) -> None:
        """Let the work finish within the grace period, then stop and release it."""
        for run in tuple(self._running_executions.values()):
            run.announce_shutdown()
        try:
            async with asyncio.timeout(grace_s):
                await self._wait_until_idle()
        except TimeoutError:
            self.end_grace_period()
            await self._wait_until_idle()
        with suppress(TimeoutError):  # the store may be unreachable
            async with asyncio.timeout(max(grace_s, _SETTLER_DRAIN_TIMEOUT_S)):
                await self._context.settler.drain()

    def end_grace_period(self) -> None:
        """Stop the running executions, so that they are released."""
        for run in tuple(self._running_executions.values()):
            run.stop_for_shutdown()

    async def _wait_until_idle(self) -> None:
        while self._running_executions:
            self._idle.clear()
            await self._idle.wait()

    def spawn_background(self, coroutine: Coroutine[None, None, None]) -> None:
        """Run a coroutine in a task that nothing waits for."""
        task = asyncio.get_running_loop().create_task(coroutine)
        self._background_tasks.add(task)
        task.add_done_callback(self._finish_background)

    def _finish_background(self, task: asyncio.Task[None]) -> None:
        self._background_tasks.discard(task)
        error = None if task.cancelled() else task.exception()
        if isinstance(error, ChronosError):  # the next heartbeats repair it
            self._context.node.report_store_error(error)
        elif error is not None:
            raise error  # the loop's exception handler logs it

    def _report_problem(self, error: str) -> None:
        self._context.bus.emit(ProblemReported(at_us=self._context.clock.now_us(), where="executor", error=error))
