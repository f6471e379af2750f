"""Takes note of what the store did, at the moment it did it: the wire tells, whoever asked may never hear of it."""

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
from tests.simulation.history import Change, ClaimNote, Deed, History, SettledNote

_SETTLED_S = 300.0  # more than a command takes to arrive: who reads where a cursor stands sees what it came to then


class Notes:
    """``highest_us`` tells the latest time that the clock which counts has shown."""

    def __init__(self, history: History, highest_us: Callable[[], int]) -> None:
        self.history, self._highest_us = history, highest_us
        self._versions: dict[bytes, int] = {}
        self._cursors: dict[bytes, tuple[int | None, float]] = {}  # by job: where it stands, and since when

    def take(self, command: Command[Any], answer: Any, machine: str) -> None:
        """The store has applied a command of a machine, and answers this."""
        match command:
            case Admit():
                self._admitted(command, answer, machine)
            case Recover():
                self._cursors[command.job] = (command.next_us, _now_s())
            case Claim():
                self._given(answer, machine)
            case Settle():
                self._settled(command, answer, machine)
            case SaveJobs():
                self._saved(command.rows, answer, command.now_us)
            case SetJobState(state=JobState.PAUSED):
                self._change(Deed.PAUSE, command.job, command.now_us)
            case SetJobState():
                self._change(Deed.RESUME, command.job, command.now_us)
                self._cursors[command.job] = (command.next_us, _now_s())
            case DeleteJob():
                self._change(Deed.DELETE, command.job, command.now_us)
            case CancelExecution():
                self._change(Deed.CANCEL, command.execution, command.now_us)
            case _:
                self._taken_beside(command, answer)

    def _taken_beside(self, command: Command[Any], answer: Any) -> None:
        """What has nothing to do with schedules."""
        match command:
            case Trigger():
                self._asked(command, answer.id)
            case Backfill():
                for run, execution in zip(command.runs, answer.ids, strict=False):
                    self._created(execution, command.idempotency and f"{command.idempotency}:{run.scheduled_us}")
            case RecordSkip():
                self.history.created.setdefault(command.id, _now_s())
            case DropDeadLetters():
                self.history.dropped.update(command.executions)
            case _:
                pass  # nothing that the checker has to know

    def _admitted(self, command: Admit, answer: Sequence[Admitted], machine: str) -> None:
        rows = {row.id: row for row in command.rows}
        for row in answer:
            self._cursors[row.job] = (rows[row.id].next_us, _now_s())
            if row.status is Status.RUNNING:  # its version was compared
                self._claimed(row.id, row.job, machine, row.token)

    def _asked(self, command: Trigger, execution: bytes) -> None:
        self._created(execution, command.idempotency)
        detail = read_detail(command.run.detail)
        if detail.carried is not None and detail.replay_of is not None:
            self.history.carried[execution] = bytes.fromhex(detail.replay_of)

    def _created(self, execution: bytes, key: str | None) -> None:
        self.history.created.setdefault(execution, _now_s())
        if key is not None:
            self.history.keys[key].add(execution)

    def _saved(self, rows: Sequence[JobRow], answer: list[Saved], now_us: int) -> None:
        for row, saved in zip(rows, answer, strict=True):
            self._versions[saved.id] = saved.version
            if saved.changed:
                self._change(Deed.SAVE, saved.id, now_us, row=row, version=saved.version)
                self._cursors[saved.id] = (row.next_us, _now_s())

    def _settled(self, command: Settle, answer: Settled, machine: str) -> None:
        rows = {row.id: row for row in command.rows}
        for id_ in answer.settled:
            token, newest = rows[id_].token, self.history.tokens.get(id_, 0)
            note = SettledNote(execution=id_, token=token, newest=newest, status=rows[id_].status, at_s=_now_s())
            self.history.settled.setdefault(id_, note)
        self._given(answer.taken, machine)

    def _given(self, rows: Sequence[Claimed], machine: str) -> None:
        for row in rows:
            self._claimed(row.id, row.job, machine, row.token, self._versions.get(row.job, row.version) - row.version)

    def _claimed(self, execution: bytes, job: bytes, machine: str, token: int, behind: int = 0) -> None:
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

    def _change(self, deed: Deed, job: bytes, now_us: int, *, row: JobRow | None = None, version: int = 0) -> None:
        cursor_us, since_s = self._cursors.get(job, (None, 0.0))
        change = Change(
            deed=deed,
            at_s=_now_s(),
            now_us=now_us,
            highest_us=self._highest_us(),
            job=job,
            name="" if row is None else row.name,
            schedule=None if row is None else row.spec.schedule,
            update=None if row is None else row.spec.settings.update,
            caught_up=cursor_us is not None and cursor_us > self._highest_us() and since_s < _now_s() - _SETTLED_S,
            version=version,
        )
        self.history.changes.append(change)


def _now_s() -> float:
    return asyncio.get_running_loop().time()
