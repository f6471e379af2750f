"""Every write, as a value: all of its time, ids and randomness are inside, so applying it is deterministic.

A command is applied whole or not at all. ``Admit`` and ``Settle`` carry rows of many jobs that stand for themselves:
each row is applied whole, those of different jobs perhaps in different transactions. Hot commands answer row by row: a
row that lost a race is simply not among the answers, never an error. ``R`` is what applying the command answers.

How an engine applies them belongs in ``store.sql``. Rows are plain tuples, because tens of thousands of them pass here
each second.
"""

from chronos.store.commands.admission import (
    Admit,
    AdmitRow,
    Admitted,
    Backfill,
    Backfilled,
    RecordSkip,
    Recover,
    RunRow,
    Trigger,
    Triggered,
)
from chronos.store.commands.base import SYSTEM, Command
from chronos.store.commands.executions import (
    PROGRESS,
    Advance,
    AdvanceRow,
    AdvanceWith,
    CancelExecution,
    Claim,
    Claimed,
    EndedAttempt,
    FollowUp,
    OutputRow,
    Release,
    ReleaseRow,
    Settle,
    Settled,
    SettleRow,
    SettleWith,
    Signal,
    Suspend,
    SuspendRow,
    Wake,
    WriteOutput,
)
from chronos.store.commands.jobs import NEW, DeleteJob, DeleteRow, JobRow, RunOnSave, Saved, SaveJobs, SetJobState
from chronos.store.commands.maintenance import (
    AckOutbox,
    AuditLine,
    DropDeadLetters,
    OutboxItem,
    TakeOutbox,
    Trim,
    WriteAudit,
)
from chronos.store.commands.nodes import Beat, BeatResult, HeldExecution, Reap, ReapRow, RegisterNode, StopNode
from chronos.store.commands.tokens import MAX_TOKENS, CreateToken, RevokeToken

#: Commands that answer row by row and never refuse as a whole.
HOT = (Admit, Claim, Settle, Advance, Suspend, Release, Wake, Beat, WriteOutput)

__all__ = [
    "HOT",
    "MAX_TOKENS",
    "NEW",
    "PROGRESS",
    "SYSTEM",
    "AckOutbox",
    "Admit",
    "AdmitRow",
    "Admitted",
    "Advance",
    "AdvanceRow",
    "AdvanceWith",
    "AuditLine",
    "Backfill",
    "Backfilled",
    "Beat",
    "BeatResult",
    "CancelExecution",
    "Claim",
    "Claimed",
    "Command",
    "CreateToken",
    "DeleteJob",
    "DeleteRow",
    "DropDeadLetters",
    "EndedAttempt",
    "FollowUp",
    "HeldExecution",
    "JobRow",
    "OutboxItem",
    "OutputRow",
    "Reap",
    "ReapRow",
    "RecordSkip",
    "Recover",
    "RegisterNode",
    "Release",
    "ReleaseRow",
    "RevokeToken",
    "RunOnSave",
    "RunRow",
    "SaveJobs",
    "Saved",
    "SetJobState",
    "Settle",
    "SettleRow",
    "SettleWith",
    "Settled",
    "Signal",
    "StopNode",
    "Suspend",
    "SuspendRow",
    "TakeOutbox",
    "Trigger",
    "Triggered",
    "Trim",
    "Wake",
    "WriteAudit",
    "WriteOutput",
]
