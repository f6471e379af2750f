"""Steps for nodes, the outbox, dead letters and output. The same on every engine."""

from chronos.core.execution import CancelRequest, Status
from chronos.store.commands import (
    AckOutbox,
    Beat,
    BeatResult,
    DropDeadLetters,
    HeldExecution,
    OutboxItem,
    RegisterNode,
    StopNode,
    TakeOutbox,
    Trim,
    WriteAudit,
    WriteOutput,
)
from chronos.store.sql.append_only import AppendOnlyTables
from chronos.store.sql.executions.gate_queue import GateQueue
from chronos.store.sql.executions.gates import to_id_rows
from chronos.store.sql.query import Dialect, Query, Rows, Steps
from chronos.store.sql.retention import TrimHandler
from chronos.store.sql.row_mappers import write_labels

_EXECUTIONS_PER_AUDIT_LINE = 100  # executions that one line of the audit log names


class MaintenanceHandler:
    """Statements and steps."""

    def __init__(self, d: Dialect, gates: GateQueue, records: AppendOnlyTables) -> None:
        self._gates, self._records, self._trim_handler = gates, records, TrimHandler(d, records)
        self._mutex = d.mutex()
        self._same_node = "select number from node where incarnation = $1"
        self._register = """
            insert into node (number, name, incarnation, started_us, beat_us, slots, labels)
            select coalesce(max(number), 0) + 1, $1, $2, $3, $3, $4, $5 from node returning number"""
        self._offer = "update node set offer = $2 where number = $1 and stopped_us is null"
        beat = """update node set beat = $2, beat_us = $3, offer = coalesce($4, offer)
            where number = $1 and stopped_us is null and beat <= $2 returning number"""
        held = f"""
            select a.id, a.token, a.cancel, a.cancel_message from {{}} as b left join active as a
            on a.owner = $1 and a.status = {int(Status.RUNNING)} order by a.id"""
        # On PostgreSQL one statement: a transaction that waits for a node which does not hear would keep the node's
        # row locked, and those who look whether that node is dead would wait with it.
        self._held: str | None = None
        self._beat = f"with b as ({beat}) {held.format('b')}"
        if d.name == "sqlite":
            self._beat, self._held = beat, held.format("(select $1 as number)")
        self._stop = "update node set stopped_us = $2 where number = $1 and stopped_us is null"
        self._release_outbox = "update outbox set owner = null where owner = $1"
        self._take = {
            (again, chosen): f"""
            with taken as materialized (
                select id from outbox where {free} and {whose} order by id limit $2 {d.lock_or_skip()}
            )
            update outbox set owner = $1 where {d.among("id", "select id from taken")}
            returning id, kind, target, execution, body, created_us"""
            for again, free in ((True, "(owner is null or owner = $1)"), (False, "owner is null"))
            for chosen, whose in ((False, "true"), (True, d.one_of("target", 3, "t")))
        }
        self._ack = f"delete from outbox where {d.one_of('id', 1)}"
        self._drop_dead = f"delete from dead_letter where {d.one_of('execution', 1)} returning namespace, execution"
        self._write_output = f"""
            insert into output (execution, task, number, part, text)
            select * from {d.rows(1, "execution:i task:t number:n part:n text:t")} as i where true
            on conflict (execution, task, number, part) do update set text = excluded.text"""

    def register(self, command: RegisterNode) -> Steps[int]:
        """See ``RegisterNode``."""
        if self._mutex:
            yield Query(self._mutex)
        rows = yield Query(self._same_node, (command.incarnation,))
        if not rows:
            labels = write_labels(command.labels, command.process)
            args = (command.name, command.incarnation, command.now_us, command.slots, labels)
            rows = yield Query(self._register, args)
            if command.offer is not None:
                yield Query(self._offer, (rows[0][0], command.offer))
        return int(rows[0][0])

    def beat(self, command: Beat) -> Steps[BeatResult]:
        """See ``Beat``."""
        args = (command.node, command.beat, command.now_us, command.offer)
        rows = yield Query(self._beat, args, alone=self._held is None)
        alive = bool(rows)
        if alive and self._held is not None:
            rows = yield Query(self._held, (command.node,))
        held = [
            HeldExecution(row[0], row[1], CancelRequest(row[2]), row[3]) for row in rows if alive and row[0] is not None
        ]
        return BeatResult(alive=alive, held=held)

    def stop(self, command: StopNode) -> Steps[None]:
        """See ``StopNode``."""
        yield Query(self._stop, (command.node, command.now_us))
        yield Query(self._release_outbox, (command.node,))

    def take_outbox(self, command: TakeOutbox) -> Steps[list[OutboxItem]]:
        """See ``TakeOutbox``."""
        targets = None
        if command.targets is not None:
            targets = Rows("t", [("",), *((target,) for target in command.targets)])
        sql = self._take[command.again, targets is not None]
        rows = yield Query(sql, (command.node, command.limit), targets)
        return sorted(OutboxItem(*row) for row in rows)

    def ack_outbox(self, command: AckOutbox) -> Steps[None]:
        """See ``AckOutbox``."""
        yield Query(self._ack, rows=to_id_rows(command.ids))

    def drop_dead_letters(self, command: DropDeadLetters) -> Steps[int]:
        """See ``DropDeadLetters``."""
        rows = yield Query(self._drop_dead, rows=to_id_rows(command.executions))
        for namespace in sorted({row[0] for row in rows}):
            own = sorted(row[1].hex() for row in rows if row[0] == namespace)
            more = f" and {len(own) - _EXECUTIONS_PER_AUDIT_LINE} more" if len(own) > _EXECUTIONS_PER_AUDIT_LINE else ""
            line = (
                "discard dead letters",
                namespace,
                str(len(own)),
                ", ".join(own[:_EXECUTIONS_PER_AUDIT_LINE]) + more,
            )
            yield from self._records.audit_lines_by_actor(command.actor, command.now_us, [line])
        return len(rows)

    def write_output(self, command: WriteOutput) -> Steps[None]:
        """See ``WriteOutput``. What belongs to nothing would stay for ever, so it is not written."""
        known = yield from self._gates.known(sorted({row.execution for row in command.rows}))
        rows = {row[:4]: row for row in command.rows if row.execution in known}
        if rows:
            yield Query(self._write_output, rows=Rows("itnnt", list(rows.values())))

    def write_audit(self, command: WriteAudit) -> Steps[None]:
        """See ``WriteAudit``."""
        lines = [
            (one.actor, command.now_us, (one.action, one.namespace, one.subject, one.detail)) for one in command.lines
        ]
        yield from self._records.audit_lines(lines)

    def trim(self, command: Trim) -> Steps[int]:
        """See ``Trim``."""
        return self._trim_handler.trim(command)
