"""What an applied command leaves to be done by others, told from the command and its answer alone.

Where the answer does not say, the hint is given: one too many costs a look, one too few a second.
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
    Reap,
    RecordSkip,
    Recover,
    Release,
    SaveJobs,
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

NOTHING = Hint(0)
_GONE = Hint.JOBS | Hint.CANCEL | Hint.OUTBOX | Hint.READY  # ready is what waited for a job's concurrency keys
_SETTLED_AT_ONCE = {Status.RUNNING, Status.SKIPPED}  # admitted so, there is nothing to look for


def hint_of(command: Command[Any], answer: Any) -> Hint:
    """What there may be to look for after a command was applied; errors are answers that leave nothing."""
    if isinstance(answer, Exception):
        return NOTHING
    match command:
        case Claim():
            return NOTHING
        case Settle() | SettleWith():
            if not (answer.woken or answer.told):
                return NOTHING
            return _if(answer.woken, Hint.READY) | _if(answer.told, Hint.OUTBOX)
        case Admit() | Recover():
            statuses = {row.status for row in answer}
            if statuses <= _SETTLED_AT_ONCE:
                return NOTHING
            careful = isinstance(command, Recover) or any(row.careful for row in command.rows)
            return _started(statuses, replaces=careful)
        case Trigger():
            return _started({answer.status}, replaces=True) if answer.created else NOTHING
        case Wake() | Signal():
            return _if(answer, Hint.READY)
        case Release():
            return _if(answer, Hint.READY) | _if(len(answer) < len(command.rows), Hint.READY | Hint.OUTBOX)
        case Suspend():
            return _if(len(answer) < len(command.rows), Hint.READY | Hint.OUTBOX)
        case Reap():
            return _if(answer, Hint.READY | Hint.OUTBOX)
        case _:
            return _of_a_person(command, answer)


def _of_a_person(command: Command[Any], answer: Any) -> Hint:
    """After what is asked for from outside, or happens once in a while."""
    match command:
        case SaveJobs(delete=()) if all(saved.created for saved in answer) and not _runs(command):
            return Hint.JOBS
        case SaveJobs():
            changed = any(saved.changed and not saved.created for saved in answer)
            gone = _if(command.delete, _GONE)
            return (
                _if(any(saved.changed for saved in answer), Hint.JOBS) | _if(changed, Hint.READY) | gone | _ran(command)
            )
        case Backfill():
            return _started(set(answer.statuses), replaces=True) if answer.statuses else NOTHING
        case SetJobState():
            return _if(answer, Hint.JOBS | Hint.READY)  # what is held makes room for others
        case DeleteJob():
            return _GONE
        case CancelExecution():
            return Hint.CANCEL if answer is Status.RUNNING else Hint.READY | Hint.OUTBOX
        case RecordSkip():
            return _if(answer, Hint.OUTBOX)
        case StopNode():
            return Hint.OUTBOX  # what it had taken from there is free again
        case _:
            return NOTHING


def _runs(command: SaveJobs) -> bool:
    return any(row.run is not None for part in command.parts for row in part.rows)


def _ran(command: SaveJobs) -> Hint:
    """After jobs that may run at once; one that was there already may replace what ran before."""
    rows = [row for part in command.parts for row in part.rows if row.run is not None]
    return _if(rows, Hint.READY) | _if(any(row.expect != NEW for row in rows), Hint.CANCEL | Hint.OUTBOX)


def _started(statuses: set[Status], *, replaces: bool) -> Hint:
    """After admissions; under ``replace`` one that is queued has asked the one before it to stop."""
    return _if(Status.READY in statuses, Hint.READY) | _if(
        replaces and Status.QUEUED in statuses, Hint.CANCEL | Hint.OUTBOX
    )


def _if(condition: object, hint: Hint) -> Hint:
    return hint if condition else NOTHING
