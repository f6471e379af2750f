"""The fast path of an execution: one task of any kind, at its first attempt.

::

    build the call ─► run it under its timeout ─► record ─► settle

Most executions are this and succeed. An attempt is recorded beside the execution where its target has something to
tell, as a webhook its answer. Whatever else happens, the execution goes on as a ``Work``, which knows everything.
"""

from typing import Protocol

import msgspec

from chronos.core.execution_detail import NO_DETAIL, Detail, read_detail
from chronos.core.outcome import Outcome, Succeeded
from chronos.core.reasons import ReasonCode
from chronos.engine.execution.attempt import AttemptRun
from chronos.engine.execution.call_builder import FORCE_AT_SHUTDOWN_S, build_attempt_call
from chronos.engine.execution.recorder import ExecutionRecorder
from chronos.engine.job_catalog import CatalogEntry
from chronos.engine.node_context import NodeContext
from chronos.runners.contract import AttemptCall, StopReason
from chronos.store.commands import Claimed


class FastPathListener(Protocol):
    """What hears how an execution left the fast path: the executor."""

    def over(self, work: "FastPath") -> None:
        """Its outcome is with the settler, or it is no longer this node's."""

    def go_on(self, work: "FastPath", call: AttemptCall, outcome: Outcome) -> None:
        """Its first attempt ended otherwise than in plain success."""

    def report_broken(self, work: "FastPath", error: BaseException) -> None:
        """It cannot be settled."""


def read_fast_path_detail(claimed: Claimed, entry: CatalogEntry) -> Detail | None:
    """The detail of an execution that the fast path serves; None for any other one."""
    if not entry.plain or claimed.attempt > 1 or claimed.worked_us:
        return None
    if claimed.detail is None:
        return NO_DETAIL
    try:
        detail = read_detail(claimed.detail)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return None
    return detail if detail.group is None and detail.carried is None else None


class FastPath:
    """An execution whose only task is tried for the first time."""

    __slots__ = ("_attempt", "_crew", "_detail", "_ends", "claimed", "entry", "stopped")

    def __init__(
        self, crew: NodeContext, claimed: Claimed, entry: CatalogEntry, detail: Detail, ends: FastPathListener
    ) -> None:
        self.claimed, self.entry = claimed, entry
        self._crew, self._detail, self._ends = crew, detail, ends
        self.stopped: tuple[ReasonCode, str | None] | None = None
        task, timeout_us = entry.spec.tasks[0], entry.timeout_us
        call = build_attempt_call(
            crew, claimed, entry, detail, task.target, task=task.name, number=1, timeout_us=timeout_us
        )
        self._attempt = AttemptRun(crew, call, task.target.kind, timeout_us, self._ended)

    def start(self) -> None:
        """Begin its attempt."""
        self._attempt.start()

    # --- from outside

    def stop(self, code: ReasonCode, message: str | None = None) -> None:
        """It is to end: canceled, replaced, its job deleted. The first word counts."""
        if self.stopped is None:
            self.stopped = (code, message)
            self._attempt.call.stop.ask(StopReason.CANCELED)

    def announce_shutdown(self) -> None:
        """The node shuts down; the work may finish within the grace period."""
        self._attempt.call.stopping.ask(StopReason.SHUTDOWN)

    def stop_for_shutdown(self) -> None:
        """The grace period is over: it is stopped, and given back."""
        call = self._attempt.call
        call.grace_s = min(call.grace_s, FORCE_AT_SHUTDOWN_S)
        call.stop.ask(StopReason.SHUTDOWN)

    def kill(self) -> None:
        """It is no longer this node's: end it by force, and settle nothing."""
        self._attempt.kill()

    # --- its end

    def _ended(self, attempt: AttemptRun) -> None:
        call, outcome = attempt.call, attempt.outcome
        if outcome is None:
            self._ends.over(self)
        elif type(outcome) is not Succeeded or call.memory or call.statements:
            self._ends.go_on(self, call, outcome)
        else:
            self._succeed(call, outcome)

    def _succeed(self, call: AttemptCall, outcome: Succeeded) -> None:
        try:
            ExecutionRecorder(self._crew, self.claimed, self.entry).settle_first_success(self._detail, call, outcome)
        except Exception as error:  # noqa: BLE001 - nothing else would hear of it, and its slot would never come free
            self._ends.report_broken(self, error)
        else:
            self._ends.over(self)
