"""Derives the hint of an applied command from the command and its answer.

If the answer does not say enough, the hint is given: a superfluous hint costs one read, a missing one a second's delay.
"""

from typing import Any

from chronos.core.execution import Status
from chronos.store.commands import (
    NEW,
    Admit,
    Backfill,
    CancelExecution,
    Claim,
    Command,
    DeleteJob,
    Enqueue,
    ProfileGates,
    Reap,
    RecordSkip,
    Recover,
    Release,
    SaveJobs,
    SetDefaults,
    SetJobState,
    Settle,
    SettleWith,
    Signal,
    StopNode,
    Suspend,
    Trigger,
    Wake,
)
from chronos.store.contract import Hint

NO_HINT = Hint(0)
# READY: executions of other jobs that waited for the deleted job's concurrency keys.
_HINT_AFTER_DELETE = Hint.JOBS | Hint.CANCEL | Hint.OUTBOX | Hint.READY
_STATUSES_WITHOUT_HINT = {Status.RUNNING, Status.SKIPPED}


def hint_of(command: Command[Any], answer: Any) -> Hint:
    """Return the hint of a command. An answer that is an error gives none."""
    if isinstance(answer, Exception):
        return NO_HINT
    match command:
        case Claim():
            return NO_HINT
        case Settle() | SettleWith():
            if not (answer.woken or answer.outbox_items):
                return NO_HINT
            return _hint_if(answer.woken, Hint.READY) | _hint_if(answer.outbox_items, Hint.OUTBOX)
        case Admit() | Recover():
            statuses = {row.status for row in answer}
            if statuses <= _STATUSES_WITHOUT_HINT:
                return NO_HINT
            may_replace = isinstance(command, Recover) or any(row.needs_gate_lock for row in command.rows)
            return _hint_of_admissions(statuses, replaces=may_replace)
        case Trigger():
            return _hint_of_admissions({answer.status}, replaces=True) if answer.created else NO_HINT
        case Wake() | Signal():
            return _hint_if(answer, Hint.READY)
        case Release():
            return _hint_if(answer, Hint.READY) | _hint_if(len(answer) < len(command.rows), Hint.READY | Hint.OUTBOX)
        case Suspend():
            return _hint_if(len(answer) < len(command.rows), Hint.READY | Hint.OUTBOX)
        case Reap():
            return _hint_if(answer, Hint.READY | Hint.OUTBOX)
        case _:
            return _hint_of_rare_command(command, answer)


def _hint_of_rare_command(command: Command[Any], answer: Any) -> Hint:
    """The hint of a command that is not on the hot path."""
    match command:
        case SaveJobs(delete=()) if all(saved.created for saved in answer) and not _has_run_on_save(command):
            return Hint.JOBS
        case SaveJobs():
            changed = any(saved.changed and not saved.created for saved in answer)
            deleted = _hint_if(command.delete, _HINT_AFTER_DELETE)
            return (
                _hint_if(any(saved.changed for saved in answer), Hint.JOBS)
                | _hint_if(changed, Hint.READY)
                | deleted
                | _hint_of_runs_on_save(command)
            )
        case Enqueue():
            return _hint_of_admissions({run.status for run in answer if run.created}, replaces=True)
        case Backfill():
            return _hint_of_admissions(set(answer.statuses), replaces=True) if answer.statuses else NO_HINT
        case SetJobState():
            return _hint_if(answer, Hint.JOBS | Hint.READY)  # held executions free their gates and keys
        case SetDefaults():
            return Hint.JOBS | Hint.SETTINGS
        case ProfileGates():
            return _hint_if(answer, Hint.JOBS)
        case DeleteJob():
            return _HINT_AFTER_DELETE
        case CancelExecution():
            return Hint.CANCEL if answer is Status.RUNNING else Hint.READY | Hint.OUTBOX
        case RecordSkip():
            return _hint_if(answer, Hint.OUTBOX)
        case StopNode():
            return Hint.OUTBOX  # its outbox items are free again
        case _:
            return NO_HINT


def _has_run_on_save(command: SaveJobs) -> bool:
    return any(row.run is not None for part in command.parts for row in part.rows)


def _hint_of_runs_on_save(command: SaveJobs) -> Hint:
    """The hint of jobs that run when they are saved. An existing job may replace its running execution."""
    rows = [row for part in command.parts for row in part.rows if row.run is not None]
    return _hint_if(rows, Hint.READY) | _hint_if(any(row.expect != NEW for row in rows), Hint.CANCEL | Hint.OUTBOX)


def _hint_of_admissions(statuses: set[Status], *, replaces: bool) -> Hint:
    """The hint of admissions. Under ``replace``, a queued execution has asked the running one to stop."""
    return _hint_if(Status.READY in statuses, Hint.READY) | _hint_if(
        replaces and Status.QUEUED in statuses, Hint.CANCEL | Hint.OUTBOX
    )


def _hint_if(condition: object, hint: Hint) -> Hint:
    return hint if condition else NO_HINT
