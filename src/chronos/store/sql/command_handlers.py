"""Table that maps each command to the handler that applies it, for both store engines."""

from collections.abc import Callable
from typing import Any

from chronos.store.commands import (
    AckOutbox,
    Admit,
    Advance,
    AdvanceWith,
    Backfill,
    Beat,
    CancelExecution,
    Claim,
    Command,
    CreateToken,
    DeleteJob,
    DropDeadLetters,
    Enqueue,
    ProfileGates,
    Reap,
    RecordSkip,
    Recover,
    RegisterNode,
    Release,
    RevokeToken,
    SaveJobs,
    SetDefaults,
    SetJobState,
    Settle,
    SettleWith,
    Signal,
    StopNode,
    Suspend,
    TakeOutbox,
    Trigger,
    Trim,
    Wake,
    WriteAudit,
    WriteOutput,
)
from chronos.store.sql.append_only import AppendOnlyTables
from chronos.store.sql.copy.commands import CopyHandler, ReplaceRows, SetMeta
from chronos.store.sql.executions.gate_queue import GateQueue
from chronos.store.sql.executions.lifecycle import LifecycleHandler
from chronos.store.sql.executions.settlement import HotPath, SettlementHandler
from chronos.store.sql.jobs.save import SaveJobsHandler
from chronos.store.sql.jobs.state import JobStateHandler
from chronos.store.sql.nodes import NodeHandler
from chronos.store.sql.outbox import OutboxHandler
from chronos.store.sql.query import Dialect, Steps
from chronos.store.sql.retention import TrimHandler
from chronos.store.sql.settings.handler import SettingsHandler
from chronos.store.sql.tokens import TokenHandler


class CommandHandlers:
    """Finds the steps of a command."""

    def __init__(self, d: Dialect, hot: HotPath) -> None:
        records = AppendOnlyTables(d)
        gates = GateQueue(d, records)
        settlement = SettlementHandler(d, hot, gates, records)
        lifecycle = LifecycleHandler(d, hot, gates, records, settlement)
        job_states = JobStateHandler(d, gates, records)
        jobs = SaveJobsHandler(d, gates, records, job_states)
        nodes = NodeHandler(d)
        outbox = OutboxHandler(d, gates, records)
        retention = TrimHandler(d, records)
        tokens = TokenHandler(records)
        settings = SettingsHandler(d, records)
        copies = CopyHandler(d)
        self._handlers: dict[type[Command[Any]], Callable[[Any], Steps[Any]]] = {
            Recover: lifecycle.recover,
            Trigger: lifecycle.trigger,
            Enqueue: lifecycle.enqueue,
            Backfill: lifecycle.backfill,
            RecordSkip: settlement.record_skip,
            Settle: settlement.settle,
            SettleWith: settlement.settle_with,
            Advance: lifecycle.advance,
            AdvanceWith: lifecycle.advance_with,
            Suspend: lifecycle.suspend,
            Release: lifecycle.release,
            Wake: lifecycle.wake,
            Signal: lifecycle.signal,
            CancelExecution: settlement.cancel,
            Reap: settlement.reap,
            SaveJobs: jobs.save,
            DeleteJob: jobs.delete,
            SetJobState: job_states.set_state,
            RegisterNode: nodes.register,
            Beat: nodes.beat,
            StopNode: nodes.stop,
            TakeOutbox: outbox.take_outbox,
            AckOutbox: outbox.ack_outbox,
            DropDeadLetters: outbox.drop_dead_letters,
            WriteOutput: outbox.write_output,
            WriteAudit: records.write_audit,
            Trim: retention.trim,
            CreateToken: tokens.create,
            RevokeToken: tokens.revoke,
            SetDefaults: settings.set_defaults,
            ProfileGates: settings.profile_gates,
            ReplaceRows: copies.replace_rows,
            SetMeta: copies.set_meta,
        }
        self._admit, self._claim = lifecycle.admit, lifecycle.claim

    def steps(self, command: Command[Any], *, resent: bool = False) -> Steps[Any]:
        """Return the steps that apply a command within a transaction. Their return value is its answer.

        ``resent``: the command was sent before and its answer was lost; the steps look up what it did.
        """
        if isinstance(command, Admit):
            return self._admit(command, resent=resent)
        if isinstance(command, Claim):
            return self._claim(command, resent=resent)
        return self._handlers[type(command)](command)
