"""Records what the store did, when it did it. The requester may never receive the answer."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from chronos.core.execution import Status
from chronos.core.execution_detail import read_detail
from chronos.core.job import JobState
from chronos.store.commands import (
    Admit,
    Admitted,
    Backfill,
    CancelExecution,
    Claim,
    Claimed,
    Command,
    DeleteJob,
    DropDeadLetters,
    JobRow,
    RecordSkip,
    Recover,
    Saved,
    SaveJobs,
    SetJobState,
    Settle,
    Settled,
    Trigger,
)
from tests.simulation.history import Action, Change, ClaimNote, History, SettledNote

_SETTLED_S = 300.0  # longer than a command takes to arrive


class WorkJournal:
    """Writes the history. ``latest_shown_us`` returns the latest time that the reference clock has shown."""

    def __init__(self, history: History, latest_shown_us: Callable[[], int]) -> None:
        self.history, self._latest_shown_us = history, latest_shown_us
        self._versions: dict[bytes, int] = {}
        self._cursors: dict[bytes, tuple[int | None, float]] = {}  # by job: its position, and since when

    def record(self, command: Command[Any], answer: Any, machine: str) -> None:
        """Record the result of a command from a machine."""
        match command:
            case Admit():
                self._record_admission(command, answer, machine)
            case Recover():
                self._cursors[command.job] = (command.next_us, _now_s())
            case Claim():
                self._record_claims(answer, machine)
            case Settle():
                self._record_settlement(command, answer, machine)
            case SaveJobs():
                self._record_save(command.rows, answer, command.now_us)
            case SetJobState(state=JobState.PAUSED):
                self._record_change(Action.PAUSE, command.job, command.now_us)
            case SetJobState():
                self._record_change(Action.RESUME, command.job, command.now_us)
                self._cursors[command.job] = (command.next_us, _now_s())
            case DeleteJob():
                self._record_change(Action.DELETE, command.job, command.now_us)
            case CancelExecution():
                self._record_change(Action.CANCEL, command.execution, command.now_us)
            case _:
                self._record_request(command, answer)

    def _record_request(self, command: Command[Any], answer: Any) -> None:
        """Record commands that do not concern schedules."""
        match command:
            case Trigger():
                self._record_trigger(command, answer.id)
            case Backfill():
                for run, execution in zip(command.runs, answer.ids, strict=False):
                    self._record_creation(
                        execution, command.idempotency and f"{command.idempotency}:{run.scheduled_us}"
                    )
            case RecordSkip():
                self.history.created.setdefault(command.id, _now_s())
            case DropDeadLetters():
                self.history.dropped.update(command.executions)
            case _:
                pass  # of no interest to the checker

    def _record_admission(self, command: Admit, answer: Sequence[Admitted], machine: str) -> None:
        rows = {row.id: row for row in command.rows}
        for row in answer:
            self._cursors[row.job] = (rows[row.id].next_us, _now_s())
            if row.status is Status.RUNNING:  # admission compared the version
                self._record_claim(row.id, row.job, machine, row.token)

    def _record_trigger(self, command: Trigger, execution: bytes) -> None:
        self._record_creation(execution, command.idempotency)
        detail = read_detail(command.run.detail)
        if detail.carried is not None and detail.replay_of is not None:
            self.history.carried[execution] = bytes.fromhex(detail.replay_of)

    def _record_creation(self, execution: bytes, key: str | None) -> None:
        self.history.created.setdefault(execution, _now_s())
        if key is not None:
            self.history.keys[key].add(execution)

    def _record_save(self, rows: Sequence[JobRow], answer: list[Saved], now_us: int) -> None:
        for row, saved in zip(rows, answer, strict=True):
            self._versions[saved.id] = saved.version
            if saved.changed:
                self._record_change(Action.SAVE, saved.id, now_us, row=row, version=saved.version)
                self._cursors[saved.id] = (row.next_us, _now_s())

    def _record_settlement(self, command: Settle, answer: Settled, machine: str) -> None:
        rows = {row.id: row for row in command.rows}
        for id_ in answer.settled:
            token, newest = rows[id_].token, self.history.tokens.get(id_, 0)
            note = SettledNote(execution=id_, token=token, newest=newest, status=rows[id_].status, at_s=_now_s())
            self.history.settled.setdefault(id_, note)
        self._record_claims(answer.started_successors, machine)

    def _record_claims(self, rows: Sequence[Claimed], machine: str) -> None:
        for row in rows:
            self._record_claim(
                row.id, row.job, machine, row.token, self._versions.get(row.job, row.version) - row.version
            )

    def _record_claim(self, execution: bytes, job: bytes, machine: str, token: int, behind: int = 0) -> None:
        tokens = self.history.tokens
        note = ClaimNote(
            execution=execution,
            job=job,
            machine=machine,
            token=token,
            at_s=_now_s(),
            first=execution not in tokens,
            behind=behind,
        )
        self.history.claims.setdefault((execution, token), note)
        tokens[execution] = max(tokens.get(execution, 0), token)

    def _record_change(
        self, action: Action, job: bytes, now_us: int, *, row: JobRow | None = None, version: int = 0
    ) -> None:
        cursor_us, since_s = self._cursors.get(job, (None, 0.0))
        change = Change(
            action=action,
            at_s=_now_s(),
            now_us=now_us,
            latest_shown_us=self._latest_shown_us(),
            job=job,
            name="" if row is None else row.name,
            schedule=None if row is None else row.spec.schedule,
            update=None if row is None else row.spec.settings.update,
            caught_up=cursor_us is not None and cursor_us > self._latest_shown_us() and since_s < _now_s() - _SETTLED_S,
            version=version,
        )
        self.history.changes.append(change)


def _now_s() -> float:
    return asyncio.get_running_loop().time()
