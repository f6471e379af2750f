"""Steps for the outbox, dead letters and output. The same on every engine."""

from chronos.store.commands import AckOutbox, DropDeadLetters, OutboxItem, TakeOutbox, WriteOutput
from chronos.store.sql.append_only import AppendOnlyTables
from chronos.store.sql.executions.gate_queue import GateQueue
from chronos.store.sql.executions.gates import to_id_rows
from chronos.store.sql.query import Dialect, Query, Rows, Steps

_EXECUTIONS_PER_AUDIT_LINE = 100


class OutboxHandler:
    """Takes and acknowledges outbox items, drops dead letters and writes output."""

    def __init__(self, d: Dialect, gates: GateQueue, records: AppendOnlyTables) -> None:
        self._gates, self._records = gates, records
        self._take = {
            (include_held, by_target): f"""
            with taken as materialized (
                select id from outbox where {free} and {target} order by id limit $2 {d.lock_or_skip()}
            )
            update outbox set owner = $1 where {d.among("id", "select id from taken")}
            returning id, kind, target, execution, body, created_us"""
            for include_held, free in ((True, "(owner is null or owner = $1)"), (False, "owner is null"))
            for by_target, target in ((False, "true"), (True, d.one_of("target", 3, "t")))
        }
        self._ack = f"delete from outbox where {d.one_of('id', 1)}"
        self._drop_dead = f"delete from dead_letter where {d.one_of('execution', 1)} returning namespace, execution"
        self._write_output = f"""
            insert into output (execution, task, number, part, text)
            select * from {d.rows(1, "execution:i task:t number:n part:n text:t")} as i where true
            on conflict (execution, task, number, part) do update set text = excluded.text"""

    def take_outbox(self, command: TakeOutbox) -> Steps[list[OutboxItem]]:
        """See ``TakeOutbox``."""
        targets = None
        if command.targets is not None:
            targets = Rows("t", [("",), *((target,) for target in command.targets)])
        sql = self._take[command.include_held, targets is not None]
        rows = yield Query(sql, (command.node, command.limit), targets)
        return sorted(OutboxItem(*row) for row in rows)

    def ack_outbox(self, command: AckOutbox) -> Steps[None]:
        """See ``AckOutbox``."""
        yield Query(self._ack, rows=to_id_rows(command.ids))

    def drop_dead_letters(self, command: DropDeadLetters) -> Steps[int]:
        """See ``DropDeadLetters``."""
        rows = yield Query(self._drop_dead, rows=to_id_rows(command.executions))
        for namespace in sorted({row[0] for row in rows}):
            executions = sorted(row[1].hex() for row in rows if row[0] == namespace)
            more = (
                f" and {len(executions) - _EXECUTIONS_PER_AUDIT_LINE} more"
                if len(executions) > _EXECUTIONS_PER_AUDIT_LINE
                else ""
            )
            line = (
                "discard dead letters",
                namespace,
                str(len(executions)),
                ", ".join(executions[:_EXECUTIONS_PER_AUDIT_LINE]) + more,
            )
            yield from self._records.audit_lines_by_actor(command.actor, command.now_us, [line])
        return len(rows)

    def write_output(self, command: WriteOutput) -> Steps[None]:
        """See ``WriteOutput``. Output without an execution would never be deleted, so it is not written."""
        known = yield from self._gates.find_known(sorted({row.execution for row in command.rows}))
        rows = {row[:4]: row for row in command.rows if row.execution in known}
        if rows:
            yield Query(self._write_output, rows=Rows("itnnt", list(rows.values())))
