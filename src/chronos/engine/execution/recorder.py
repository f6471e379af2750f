"""ExecutionRecorder: the writes of one execution while this node holds it, each with the token of its claim."""

from typing import Any

import msgspec
from msgspec.structs import replace

from chronos.core.events import AttemptEnded, ExecutionEnded, ExecutionWaits
from chronos.core.execution import AttemptStatus, Execution, Status, TaskStatus
from chronos.core.execution_detail import Detail, write_detail
from chronos.core.execution_report import BACKOFF_FIELD, build_report
from chronos.core.fencing_token import hook_token
from chronos.core.job import Target
from chronos.core.lane import PYTHON, Lane
from chronos.core.outcome import Failed, Outcome, Succeeded, attempt_status
from chronos.core.reasons import Reason, ReasonCode
from chronos.core.settle import End, Step
from chronos.core.task_group import TaskGroup
from chronos.engine.job_catalog import CatalogEntry
from chronos.engine.node_context import NodeContext
from chronos.engine.store_retry import apply_with_retry
from chronos.errors import Invalid
from chronos.runners.contract import AttemptCall
from chronos.store.commands import (
    Advance,
    AdvanceRow,
    AdvanceWith,
    Claimed,
    Command,
    EndedAttempt,
    FollowUp,
    Release,
    ReleaseRow,
    SettleRow,
    SettleWith,
    Suspend,
    SuspendRow,
)

HOOK_ITEM_KIND = "hook"  # the kind of outbox item for ``on_complete``
EXPIRED_END = End(status=Status.SKIPPED, reason=Reason.of(ReasonCode.EXPIRED))
SUCCESS_END = End(status=Status.SUCCEEDED, reason=Reason.of(ReasonCode.SUCCEEDED))


class ExecutionRecorder:
    """Writes attempts, progress and the end of one execution."""

    def __init__(self, context: NodeContext, claimed: Claimed, entry: CatalogEntry) -> None:
        self._context, self._claimed, self._entry = context, claimed, entry
        self._attempts: list[EndedAttempt] = []

    @property
    def has_unrecorded_attempts(self) -> bool:
        """Whether ended attempts are still to be written."""
        return bool(self._attempts)

    def record(self, call: AttemptCall, outcome: Outcome, *, backoff_us: int | None = None) -> None:
        """Record an ended attempt. It is stored with the next write. ``backoff_us``: the delay before the next one."""
        if backoff_us is not None:
            call.detail[BACKOFF_FIELD] = backoff_us / 1000
        self._add_attempt(call, outcome)
        self.emit_attempt_ended(call, outcome)

    def _add_attempt(self, call: AttemptCall, outcome: Outcome) -> None:
        status = attempt_status(outcome)
        if status is None:
            return
        finished_us = max(call.started_us, self._context.clock.now_us())
        error = getattr(outcome, "error", None)
        detail = msgspec.json.encode(call.detail).decode() if call.detail else None
        node = self._context.node.number
        self._attempts.append(
            EndedAttempt(
                call.execution, call.task, call.number, status, call.started_us, finished_us, node, error, detail
            )
        )

    async def advance(self, detail: Detail, group: TaskGroup) -> bool:
        """Write ended attempts and the tasks about to start. False: the execution no longer belongs to this node."""
        command = Advance(rows=(self._advance_row(detail, group),))
        held = await apply_with_retry(self._context.store, command, self._context.node.report_store_error)
        return bool(held)

    def _advance_row(self, detail: Detail, group: TaskGroup) -> AdvanceRow:
        text = write_detail(replace(detail, group=group)) or "{}"
        return AdvanceRow(self._claimed.id, self._claimed.token, text, self._take_attempts())

    async def sleep(self, detail: Detail, step: Step) -> None:
        """Suspend the execution.

        If the node is closing and its wake time has come, release it to other nodes instead.
        """
        context, claimed, now_us = self._context, self._claimed, self._context.clock.now_us()
        attempts, text = self._take_attempts(), write_detail(replace(detail, group=step.group))
        worked_us = step.group.worked_us
        if context.closing and step.wake_us is not None and step.wake_us <= now_us:
            release = ReleaseRow(claimed.id, claimed.token, worked_us, text, attempts)
            await apply_with_retry(
                context.store, Release(rows=(release,), now_us=now_us), context.node.report_store_error
            )
            return
        attempt = max(task.attempts + (task.status is TaskStatus.RETRYING) for task in step.group.tasks)
        row = SuspendRow(
            claimed.id, claimed.token, step.wake_us, step.signals, max(1, attempt), worked_us, text, attempts
        )
        if await apply_with_retry(context.store, Suspend(rows=(row,), now_us=now_us), context.node.report_store_error):
            if step.wake_us is not None:
                context.schedule_wake(step.wake_us)
            context.bus.emit(ExecutionWaits(at_us=now_us, execution=claimed.id, job=claimed.job, wake_us=step.wake_us))

    def settle_first_success(self, detail: Detail, call: AttemptCall, outcome: Succeeded) -> None:
        """Settle the success of the first and only attempt, with as little data as possible."""
        if call.detail:
            self.record(call, outcome)
        else:
            self.emit_attempt_ended(call, outcome)
        final_detail = None if outcome.result is None else replace(detail, result=outcome.result)
        self._settle(self._to_row(SUCCESS_END, final_detail, ()))
        self._emit_execution_ended(SUCCESS_END)

    def finish(self, detail: Detail, group: TaskGroup, end: End) -> None:
        """Settle the execution with its report. Its hook goes into the outbox in the same transaction."""
        self._settle(self._to_final_row(detail, group, end))
        self._emit_execution_ended(end)

    def skip(self, end: End) -> None:
        """Settle an execution of which no task has started."""
        self._settle(self._to_row(end, None, ()))
        self._emit_execution_ended(end)

    async def commit(self, call: AttemptCall, outcome: Succeeded, detail: Detail, step: Step) -> Failed | None:
        """Write a task's success and its own SQL in one transaction.

        Returns a failure if the database rejects the SQL.
        """
        unrecorded = list(self._attempts)
        self._add_attempt(call, outcome)
        command = self._with_statements(detail, step, tuple(call.statements))
        try:
            await apply_with_retry(self._context.store, command, self._context.node.report_store_error)
        except Invalid as error:
            self._attempts = unrecorded
            return Failed(error=f"ctx.transaction: {error}", kinds=("transaction",))
        self.emit_attempt_ended(call, outcome)
        if step.end is not None:
            self._emit_execution_ended(step.end)
        return None

    def _with_statements(
        self, detail: Detail, step: Step, statements: tuple[tuple[str, tuple[Any, ...]], ...]
    ) -> Command[Any]:
        if step.end is None:
            return AdvanceWith(row=self._advance_row(detail, step.group), statements=statements)
        row = self._to_final_row(detail, step.group, step.end)
        return SettleWith(
            row=row, statements=statements, node=self._context.node.number, now_us=self._context.clock.now_us()
        )

    def _settle(self, row: SettleRow) -> None:
        self._context.settler.add(row, self._entry)

    def _to_final_row(self, detail: Detail, group: TaskGroup, end: End) -> SettleRow:
        ended, hook = to_ended_detail(self._entry, detail, group, end), self._entry.spec.on_complete
        follow = () if hook is None else (to_hook_follow_up(self._entry, hook, ended, self._claimed),)
        return self._to_row(end, ended, follow)

    def _to_row(self, end: End, detail: Detail | None, follow: tuple[FollowUp, ...]) -> SettleRow:
        claimed = self._claimed
        return SettleRow(
            claimed.id,
            claimed.job,
            claimed.token,
            end.status,
            end.reason.code,
            None if end.status is Status.SUCCEEDED else end.reason.message,
            max(claimed.started_us, self._context.clock.now_us()),
            None if detail is None else write_detail(detail),
            self._take_attempts(),
            follow,
            end.is_dead_letter,
        )

    def _take_attempts(self) -> tuple[EndedAttempt, ...]:
        attempts, self._attempts = tuple(self._attempts), []
        return attempts

    def emit_attempt_ended(self, call: AttemptCall, outcome: Outcome) -> None:
        """Emit ``AttemptEnded``, if it has a watcher."""
        status = attempt_status(outcome)
        routine = status is AttemptStatus.SUCCEEDED
        if status is None or not self._context.bus.wants(AttemptEnded, routine=routine):
            return
        now_us = self._context.clock.now_us()
        self._context.bus.emit(
            AttemptEnded(
                at_us=now_us,
                execution=call.execution,
                job=call.job,
                task=call.task,
                number=call.number,
                status=status,
                duration_us=max(0, now_us - call.started_us),
                error=getattr(outcome, "error", None),
                traceback=outcome.traceback if isinstance(outcome, Failed) else None,
            )
        )

    def _emit_execution_ended(self, end: End) -> None:
        if self._context.bus.wants(ExecutionEnded, routine=end.status is Status.SUCCEEDED):
            self._context.bus.emit(to_ended_event(self._claimed, end, self._context.clock.now_us()))


def to_ended_event(run: Claimed | Execution, end: End, now_us: int) -> ExecutionEnded:
    """Build the event of an execution's end."""
    return ExecutionEnded(
        at_us=now_us,
        execution=run.id,
        job=run.job,
        status=end.status,
        code=end.reason.code,
        duration_us=max(0, now_us - (run.started_us or now_us)),
        message=end.reason.message,
    )


def to_ended_detail(entry: CatalogEntry, detail: Detail, group: TaskGroup, end: End) -> Detail:
    """Build the detail that goes into history: the report and the results replace the state of the tasks."""
    results = {task.name: task.result for task in group.tasks if task.result is not None}
    one = len(group.tasks) == 1
    return replace(
        detail,
        group=None,
        memory={},
        signals={},
        carried=None,
        chosen=None,
        report=build_report(entry.layout, group, end),
        result=results.get(group.tasks[0].name) if one else (results or None),
    )


def to_hook_follow_up(entry: CatalogEntry, hook: Target, ended: Detail, run: Claimed | Execution) -> FollowUp:
    """Build the outbox item of ``on_complete``, for any node that can run it."""
    lane = Lane(functions=(str(hook.options["name"]),)).text if hook.kind == PYTHON else ""
    body = {
        "job": entry.job.hex(),
        "version": entry.version,
        "levels": entry.levels,
        "cause": int(run.cause),
        "scheduled_us": run.scheduled_us,
        "token": hook_token(run.token),
        "report": ended.report,
    }
    return FollowUp(HOOK_ITEM_KIND, lane, msgspec.json.encode(body).decode())
