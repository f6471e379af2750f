"""Hints, derived from commands and their answers."""

from typing import Any

from chronos.core.execution import Cause, Status
from chronos.core.job import JobState
from chronos.core.reasons import ReasonCode
from chronos.errors import NotFound
from chronos.store.commands import (
    Admit,
    AdmitRow,
    Admitted,
    Backfill,
    Backfilled,
    Beat,
    CancelExecution,
    Command,
    DeleteJob,
    Reap,
    RecordSkip,
    Release,
    ReleaseRow,
    RunRow,
    Saved,
    SaveJobs,
    SetJobState,
    Settle,
    Settled,
    StopNode,
    Suspend,
    SuspendRow,
    Trigger,
    Triggered,
    Wake,
)
from chronos.store.contract import Hint
from chronos.store.hints import NO_HINT, hint_of

JOB = bytes(16)
RUN = RunRow(JOB, Cause.MANUAL, 0, 0)
TRIGGER = Trigger(job=JOB, run=RUN, now_us=0)
BACKFILL = Backfill(job=JOB, runs=(RUN,), now_us=0)
SETTLE = Settle(rows=(), node=1, now_us=0)
SAVE = SaveJobs(rows=(), now_us=0)
CANCEL = CancelExecution(execution=JOB, now_us=0)
RELEASE = Release(rows=(ReleaseRow(JOB, 1),), now_us=0)
SUSPEND = Suspend(rows=(SuspendRow(JOB, 1, None, (), 1, 0),), now_us=0)
SKIP = RecordSkip(
    id=JOB, job=JOB, cause=Cause.DEPENDENCY, scheduled_us=0, code=ReasonCode.UPSTREAM_FAILED, message=None, now_us=0
)


def admit(*, needs_gate_lock: bool = False) -> Admit:
    row = AdmitRow(JOB, 1, 0, 1, JOB, 0, claim=True, needs_gate_lock=needs_gate_lock)
    return Admit(rows=(row,), node=1, now_us=0, request=bytes(16))


def admitted(status: Status) -> list[Admitted]:
    return [Admitted(JOB, JOB, status, 1)]


def test_a_command_gives_a_hint_when_it_leaves_work() -> None:
    cases: list[tuple[Command[Any], Any, Hint]] = [
        (admit(), admitted(Status.RUNNING), NO_HINT),
        (admit(), admitted(Status.READY), Hint.READY),
        (admit(), admitted(Status.QUEUED), NO_HINT),
        (admit(needs_gate_lock=True), admitted(Status.QUEUED), Hint.CANCEL | Hint.OUTBOX),
        (SETTLE, Settled([JOB], [], 0), NO_HINT),
        (SETTLE, Settled([JOB], [], 1), Hint.READY),
        (SETTLE, Settled([JOB], [], 0, 1), Hint.OUTBOX),
        (TRIGGER, Triggered(JOB, Status.READY, created=False), NO_HINT),
        (TRIGGER, Triggered(JOB, Status.READY, created=True), Hint.READY),
        (TRIGGER, NotFound("gone"), NO_HINT),
        (BACKFILL, Backfilled([JOB], []), NO_HINT),
        (BACKFILL, Backfilled([JOB], [Status.READY, Status.QUEUED]), Hint.READY | Hint.CANCEL | Hint.OUTBOX),
        (SAVE, [Saved(JOB, 1, created=False, changed=False)], NO_HINT),
        (SAVE, [Saved(JOB, 1, created=True, changed=True)], Hint.JOBS),
        (SAVE, [Saved(JOB, 2, created=False, changed=True)], Hint.JOBS | Hint.READY),
        (DeleteJob(job=JOB, now_us=0), None, Hint.JOBS | Hint.CANCEL | Hint.OUTBOX | Hint.READY),
        (SetJobState(job=JOB, state=JobState.PAUSED, now_us=0), True, Hint.JOBS | Hint.READY),
        (SetJobState(job=JOB, state=JobState.ACTIVE, now_us=0), True, Hint.JOBS | Hint.READY),
        (SetJobState(job=JOB, state=JobState.ACTIVE, now_us=0), False, NO_HINT),
        (CANCEL, Status.RUNNING, Hint.CANCEL),
        (CANCEL, Status.CANCELED, Hint.READY | Hint.OUTBOX),
        (RELEASE, [JOB], Hint.READY),
        (RELEASE, [], Hint.READY | Hint.OUTBOX),
        (SUSPEND, [JOB], NO_HINT),
        (SUSPEND, [], Hint.READY | Hint.OUTBOX),
        (Reap(node=1, beat=1, rows=(), now_us=0), [JOB], Hint.READY | Hint.OUTBOX),
        (SKIP, True, Hint.OUTBOX),
        (SKIP, False, NO_HINT),
        (Wake(now_us=0, limit=1), 0, NO_HINT),
        (Wake(now_us=0, limit=1), 3, Hint.READY),
        (StopNode(node=1, now_us=0), None, Hint.OUTBOX),
        (Beat(node=1, beat=1, now_us=0), None, NO_HINT),
    ]
    for command, answer, hint in cases:
        assert hint_of(command, answer) == hint, (command, answer)
