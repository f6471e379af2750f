"""Every command and the steps that apply it: the one table both drivers go by, and which commands merge into one."""

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
    Reap,
    RecordSkip,
    Recover,
    RegisterNode,
    Release,
    RevokeToken,
    SaveJobs,
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
from chronos.store.sql.executions.gate_queue import GateQueue
from chronos.store.sql.executions.lifecycle import LifecycleHandler
from chronos.store.sql.executions.settlement import HotSettlement, SettlementHandler
from chronos.store.sql.jobs.save import SaveJobsHandler
from chronos.store.sql.jobs.state import JobStateHandler
from chronos.store.sql.maintenance import MaintenanceHandler
from chronos.store.sql.query import Dialect, Steps
from chronos.store.sql.tokens import TokenHandler


class CommandHandlers:
    """How each command is applied."""

    def __init__(self, d: Dialect, hot: HotSettlement) -> None:
        records = AppendOnlyTables(d)
        gates = GateQueue(d, records)
        endings = SettlementHandler(d, hot, gates, records)
        executions = LifecycleHandler(d, hot, gates, records, endings)
        switching = JobStateHandler(d, gates, records)
        jobs = SaveJobsHandler(d, gates, records, switching)
        upkeep = MaintenanceHandler(d, gates, records)
        tokens = TokenHandler(records)
        self._once: dict[type[Command[Any]], Callable[[Any], Steps[Any]]] = {
            Recover: executions.recover,
            Trigger: executions.trigger,
            Backfill: executions.backfill,
            RecordSkip: endings.record_skip,
            Settle: endings.settle,
            SettleWith: endings.settle_with,
            Advance: executions.advance,
            AdvanceWith: executions.advance_with,
            Suspend: executions.suspend,
            Release: executions.release,
            Wake: executions.wake,
            Signal: executions.signal,
            CancelExecution: endings.cancel,
            Reap: endings.reap,
            SaveJobs: jobs.save,
            DeleteJob: jobs.delete,
            SetJobState: switching.set_state,
            RegisterNode: upkeep.register,
            Beat: upkeep.beat,
            StopNode: upkeep.stop,
            TakeOutbox: upkeep.take_outbox,
            AckOutbox: upkeep.ack_outbox,
            DropDeadLetters: upkeep.drop_dead_letters,
            WriteOutput: upkeep.write_output,
            WriteAudit: upkeep.write_audit,
            Trim: upkeep.trim,
            CreateToken: tokens.create,
            RevokeToken: tokens.revoke,
        }
        self._admit, self._claim = executions.admit, executions.claim

    def steps(self, command: Command[Any], *, resent: bool = False) -> Steps[Any]:
        """What to run within a transaction to apply the command; the steps' return value is its answer."""
        if isinstance(command, Admit):
            return self._admit(command, resent=resent)
        if isinstance(command, Claim):
            return self._claim(command, resent=resent)
        return self._once[type(command)](command)
