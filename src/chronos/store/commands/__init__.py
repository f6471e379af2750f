"""Every write to the store, as a value.

- Deterministic: a command contains its time, ids and randomness.
- Atomic: a command is applied completely or not at all. The rows of ``Admit`` and ``Settle`` are independent: each row
  is atomic, and rows of different jobs may be in different transactions.
- Returned: ``Command[R]`` is answered with an ``R``. Hot commands (``HOT``) answer per row: a row that lost a race is
  missing from the answer; it is not an error.

How an engine applies commands belongs in ``store.sql``. Rows are plain tuples for speed.
"""

from chronos.store.commands.admission import (
    Admit,
    AdmitRow,
    Admitted,
    Backfill,
    Backfilled,
    Enqueue,
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
from chronos.store.commands.nodes import Beat, BeatResult, NodeExecution, Reap, ReapRow, RegisterNode, StopNode
from chronos.store.commands.settings import ProfileGates, SetDefaults
from chronos.store.commands.tokens import MAX_TOKENS, CreateToken, RevokeToken

#: Commands that answer per row and are never rejected as a whole.
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
    "Enqueue",
    "FollowUp",
    "JobRow",
    "NodeExecution",
    "OutboxItem",
    "OutputRow",
    "ProfileGates",
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
    "SetDefaults",
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
