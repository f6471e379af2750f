"""FastPath: the first attempt of an execution with a single task.

::

    build the call ─► run it under its timeout ─► record ─► settle

Most executions are like this and succeed. The attempt gets a record of its own only if the target reports details, as
a webhook does. In every other case the execution continues as an ``ExecutionRun``.
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
    """Callbacks of the fast path, implemented by the executor."""

    def finish(self, run: "FastPath") -> None:
        """The outcome is with the settler, or the execution no longer belongs to this node."""

    def fall_back(self, run: "FastPath", call: AttemptCall, outcome: Outcome) -> None:
        """The first attempt did not succeed, or it left memory or SQL statements to record."""

    def fail_unrecorded(self, run: "FastPath", error: BaseException) -> None:
        """The success could not be recorded."""


def read_fast_path_detail(claimed: Claimed, entry: CatalogEntry) -> Detail | None:
    """Return the detail of an execution that the fast path can run; None for every other execution."""
    if not entry.can_use_fast_path or claimed.attempt > 1 or claimed.worked_us:
        return None
    if claimed.detail is None:
        return NO_DETAIL
    try:
        detail = read_detail(claimed.detail)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return None
    is_plain = detail.group is None and detail.carried is None and detail.expires_us is None
    return detail if is_plain else None


class FastPath:
    """An execution whose only task is in its first attempt."""

    __slots__ = ("_attempt", "_context", "_detail", "_listener", "claimed", "entry", "stop_request")

    def __init__(
        self, context: NodeContext, claimed: Claimed, entry: CatalogEntry, detail: Detail, listener: FastPathListener
    ) -> None:
        self.claimed, self.entry = claimed, entry
        self._context, self._detail, self._listener = context, detail, listener
        self.stop_request: tuple[ReasonCode, str | None] | None = None
        task, timeout_us = entry.spec.tasks[0], entry.timeout_us
        call = build_attempt_call(
            context, claimed, entry, detail, task.target, task=task.name, number=1, timeout_us=timeout_us
        )
        self._attempt = AttemptRun(context, call, task.target.kind, timeout_us, self._on_attempt_over)

    def start(self) -> None:
        """Start the attempt."""
        self._attempt.start()

    # --- called by the executor

    def stop(self, code: ReasonCode, message: str | None = None) -> None:
        """Stop the execution (canceled, replaced, job deleted); the first reason counts."""
        if self.stop_request is None:
            self.stop_request = (code, message)
            self._attempt.call.stop.request(StopReason.CANCELED)

    def announce_shutdown(self) -> None:
        """Tell the work that the node shuts down. It may finish within the grace period."""
        self._attempt.call.stopping.request(StopReason.SHUTDOWN)

    def stop_for_shutdown(self) -> None:
        """Stop the work and release it: the grace period is over."""
        call = self._attempt.call
        call.grace_s = min(call.grace_s, FORCE_AT_SHUTDOWN_S)
        call.stop.request(StopReason.SHUTDOWN)

    def kill(self) -> None:
        """Kill the work without settling it."""
        self._attempt.kill()

    # --- the end of the attempt

    def _on_attempt_over(self, attempt: AttemptRun) -> None:
        call, outcome = attempt.call, attempt.outcome
        if outcome is None:
            self._listener.finish(self)
        elif type(outcome) is not Succeeded or call.memory or call.statements:
            self._listener.fall_back(self, call, outcome)
        else:
            self._succeed(call, outcome)

    def _succeed(self, call: AttemptCall, outcome: Succeeded) -> None:
        try:
            ExecutionRecorder(self._context, self.claimed, self.entry).settle_first_success(self._detail, call, outcome)
        except Exception as error:  # noqa: BLE001 - otherwise the error is lost and the slot never freed
            self._listener.fail_unrecorded(self, error)
        else:
            self._listener.finish(self)
