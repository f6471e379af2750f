"""What one execution writes to the store while this node holds it: every write carries the token of its claim."""

from typing import Any

import msgspec
from msgspec.structs import replace

from chronos.core.events import AttemptEnded, ExecutionEnded, ExecutionWaits
from chronos.core.execution import AttemptStatus, Execution, Status, TaskStatus
from chronos.core.execution_detail import Detail, write_detail
from chronos.core.execution_report import build_report
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

HOOK_ITEM_KIND = "hook"  # the outbox kind of ``on_complete``
SUCCESS_END = End(status=Status.SUCCEEDED, reason=Reason.of(ReasonCode.SUCCEEDED))


class ExecutionRecorder:
    """The writing hand of a ``Work``."""

    def __init__(self, crew: NodeContext, claimed: Claimed, entry: CatalogEntry) -> None:
        self._crew, self._claimed, self._entry = crew, claimed, entry
        self._attempts: list[EndedAttempt] = []

    @property
    def has_unrecorded_attempts(self) -> bool:
        """Whether ended attempts are not on record yet."""
        return bool(self._attempts)

    def record(self, call: AttemptCall, outcome: Outcome) -> None:
        """An attempt ended; it is written with whatever is written next."""
        self._note(call, outcome)
        self.emit_attempt_ended(call, outcome)

    def _note(self, call: AttemptCall, outcome: Outcome) -> None:
        status = attempt_status(outcome)
        if status is None:
            return
        finished_us = max(call.started_us, self._crew.clock.now_us())
        error = getattr(outcome, "error", None)
        detail = msgspec.json.encode(call.detail).decode() if call.detail else None
        node = self._crew.node.number
        self._attempts.append(
            EndedAttempt(
                call.execution, call.task, call.number, status, call.started_us, finished_us, node, error, detail
            )
        )

    async def advance(self, detail: Detail, group: TaskGroup) -> bool:
        """Record what ended and what is about to start; False: it is not this node's any more."""
        command = Advance(rows=(self._advance_row(detail, group),))
        held = await apply_with_retry(self._crew.store, command, self._crew.node.trouble)
        return bool(held)

    def _advance_row(self, detail: Detail, group: TaskGroup) -> AdvanceRow:
        text = write_detail(replace(detail, group=group)) or "{}"
        return AdvanceRow(self._claimed.id, self._claimed.token, text, self._take_attempts())

    async def sleep(self, detail: Detail, step: Step) -> None:
        """Nothing of it runs: it goes to sleep, or, when the node closes, back to whoever takes it next."""
        crew, claimed, now_us = self._crew, self._claimed, self._crew.clock.now_us()
        attempts, text = self._take_attempts(), write_detail(replace(detail, group=step.group))
        worked_us = step.group.worked_us
        if crew.closing and step.wake_us is not None and step.wake_us <= now_us:
            release = ReleaseRow(claimed.id, claimed.token, worked_us, text, attempts)
            await apply_with_retry(crew.store, Release(rows=(release,), now_us=now_us), crew.node.trouble)
            return
        tries = max(task.attempts + (task.status is TaskStatus.RETRYING) for task in step.group.tasks)
        row = SuspendRow(
            claimed.id, claimed.token, step.wake_us, step.signals, max(1, tries), worked_us, text, attempts
        )
        if await apply_with_retry(crew.store, Suspend(rows=(row,), now_us=now_us), crew.node.trouble):
            if step.wake_us is not None:
                crew.wakes_at(step.wake_us)
            crew.bus.emit(ExecutionWaits(at_us=now_us, execution=claimed.id, job=claimed.job, wake_us=step.wake_us))

    def settle_first_success(self, detail: Detail, call: AttemptCall, outcome: Succeeded) -> None:
        """The success of the first and only attempt, in as few words as tell it."""
        if call.detail:
            self.record(call, outcome)
        else:
            self.emit_attempt_ended(call, outcome)
        told = None if outcome.result is None else replace(detail, result=outcome.result)
        self._settle(self._row(SUCCESS_END, told, ()))
        self._emit_execution_ended(SUCCESS_END)

    def finish(self, detail: Detail, group: TaskGroup, end: End) -> None:
        """The end, with its report; what follows it goes into the outbox in the same transaction."""
        self._settle(self._to_final_row(detail, group, end))
        self._emit_execution_ended(end)

    async def commit(self, call: AttemptCall, outcome: Succeeded, detail: Detail, step: Step) -> Failed | None:
        """A task's success together with its own SQL, in one transaction; what the database says against it."""
        owed = list(self._attempts)
        self._note(call, outcome)
        command = self._with_statements(detail, step, tuple(call.statements))
        try:
            await apply_with_retry(self._crew.store, command, self._crew.node.trouble)
        except Invalid as error:
            self._attempts = owed
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
        return SettleWith(row=row, statements=statements, node=self._crew.node.number, now_us=self._crew.clock.now_us())

    def _settle(self, row: SettleRow) -> None:
        self._crew.settler.add(row, self._entry)

    def _to_final_row(self, detail: Detail, group: TaskGroup, end: End) -> SettleRow:
        ended, hook = to_ended_detail(self._entry, detail, group, end), self._entry.spec.on_complete
        follow = () if hook is None else (to_hook_follow_up(self._entry, hook, ended, self._claimed),)
        return self._row(end, ended, follow)

    def _row(self, end: End, detail: Detail | None, follow: tuple[FollowUp, ...]) -> SettleRow:
        claimed = self._claimed
        return SettleRow(
            claimed.id,
            claimed.job,
            claimed.token,
            end.status,
            end.reason.code,
            None if end.status is Status.SUCCEEDED else end.reason.message,
            max(claimed.started_us, self._crew.clock.now_us()),
            None if detail is None else write_detail(detail),
            self._take_attempts(),
            follow,
            end.dead_letter,
        )

    def _take_attempts(self) -> tuple[EndedAttempt, ...]:
        attempts, self._attempts = tuple(self._attempts), []
        return attempts

    def emit_attempt_ended(self, call: AttemptCall, outcome: Outcome) -> None:
        """Tell whoever watches how an attempt ended."""
        status = attempt_status(outcome)
        routine = status is AttemptStatus.SUCCEEDED
        if status is None or not self._crew.bus.wants(AttemptEnded, routine=routine):
            return
        now_us = self._crew.clock.now_us()
        self._crew.bus.emit(
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
        if self._crew.bus.wants(ExecutionEnded, routine=end.status is Status.SUCCEEDED):
            self._crew.bus.emit(to_ended_event(self._claimed, end, self._crew.clock.now_us()))


def to_ended_event(run: Claimed | Execution, end: End, now_us: int) -> ExecutionEnded:
    """The event that tells the end of an execution."""
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
    """What an execution carries into history: its report and results instead of where its tasks stood."""
    results = {task.name: task.result for task in group.tasks if task.result is not None}
    one = len(group.tasks) == 1
    return replace(
        detail,
        group=None,
        memory={},
        signals={},
        carried=None,
        report=build_report(entry.layout, group, end),
        result=results.get(group.tasks[0].name) if one else (results or None),
    )


def to_hook_follow_up(entry: CatalogEntry, hook: Target, ended: Detail, run: Claimed | Execution) -> FollowUp:
    """``on_complete``, to be run by any node that can."""
    lane = Lane(functions=(str(hook.options["name"]),)).text if hook.kind == PYTHON else ""
    body = {
        "job": entry.job.hex(),
        "version": entry.version,
        "scheduled_us": run.scheduled_us,
        "token": hook_token(run.token),
        "report": ended.report,
    }
    return FollowUp(HOOK_ITEM_KIND, lane, msgspec.json.encode(body).decode())
