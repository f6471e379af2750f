"""Steps for nodes, the outbox, dead letters and retention. The same on every engine."""

import msgspec

from chronos.core.execution import Cancel, Status
from chronos.core.ids import id_floor
from chronos.store.commands import (
    AckOutbox,
    Beat,
    Beaten,
    DropDeadLetters,
    Held,
    OutboxItem,
    RegisterNode,
    StopNode,
    TakeOutbox,
    Trim,
    WriteOutput,
)
from chronos.store.sql.dialect import Dialect, Query, Row, Rows, Steps
from chronos.store.sql.gates import Gates
from chronos.store.sql.locks import ids
from chronos.store.sql.numbers import ran
from chronos.store.sql.records import Records

IDEMPOTENCY_KEPT_US = 7 * 86_400 * 1_000_000
AUDIT_KEPT_US = 400 * 86_400 * 1_000_000
NODES_KEPT_US = 30 * 86_400 * 1_000_000
_NAMED = 100  # executions that one line of the audit log names
_LOOKS = 32  # so often is a deleted job looked at while its history is kept
_LOOK_EVERY_US = 3_600 * 1_000_000  # but not more often than this


class Upkeep:
    """Statements and steps."""

    def __init__(self, d: Dialect, gates: Gates, records: Records) -> None:
        self._gates, self._records = gates, records
        self._mutex = d.mutex()
        self._same_node = "select number from node where incarnation = $1"
        self._register = """
            insert into node (number, name, incarnation, started_us, beat_us, slots, labels)
            select coalesce(max(number), 0) + 1, $1, $2, $3, $3, $4, $5 from node returning number"""
        self._beat = """
            update node set beat = $2, beat_us = $3 where number = $1 and stopped_us is null and beat < $2
            returning number"""
        self._alive = "select 1 from node where number = $1 and stopped_us is null and beat = $2"
        self._held = f"""
            select id, token, cancel, cancel_message from active
            where owner = $1 and status = {int(Status.RUNNING)} order by id"""
        self._stop = "update node set stopped_us = $2 where number = $1 and stopped_us is null"
        self._disown = "update outbox set owner = null where owner = $1"
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
        # Served by an index of its own: jobs that ran 64 times since their history was looked at last.
        self._too_long = """
            select job, keep_count, keep_age_us, seq from gate where seq - trimmed >= 64 order by job limit $1"""
        self._cut = f"select h.id from history as h where {ran('h', '$1')} order by h.id desc limit 1 offset $2"
        oldest = f"select h.id from history as h where {ran('h', '$1')} and h.id <= $2 order by h.id limit $3"
        self._drop_old = f"delete from history where {d.among('id', oldest)} returning id"
        self._drop_attempts = f"delete from attempt where {d.one_of('execution', 1)}"
        self._drop_output = f"delete from output where {d.one_of('execution', 1)}"
        self._write_output = f"""
            insert into output (execution, task, number, part, text)
            select * from {d.rows(1, "execution:i task:t number:n part:n text:t")} as i where true
            on conflict (execution, task, number, part) do update set text = excluded.text"""
        self._trimmed = "update gate set trimmed = $2 where job = $1"
        self._remains = "select job from remains where look_us <= $1 order by look_us, job limit $2"
        self._left = f"""
            select * from (select h.id from history as h where {ran("h", "$1")} limit 1) as ended
            union all select * from (select id from active where job = $1 limit 1) as a"""
        self._look_again = "update remains set look_us = $2 where job = $1"
        self._nothing_left = "delete from remains where job = $1"
        self._drop_keys = """
            delete from idempotency where created_us < $1 and created_us <= coalesce(
                (select created_us from idempotency where created_us < $1 order by created_us limit 1 offset $2), $1)"""
        oldest_lines = "select id from audit where id < $1 order by id limit $2"
        self._drop_audit = f"delete from audit where {d.among('id', oldest_lines)} returning id"
        self._gone_nodes = """
            select number from node
            where coalesce(stopped_us, beat_us) < $1 and number < (select max(number) from node)
            order by number limit $2"""
        self._holders = f"""
            select distinct owner from active where {d.one_of("owner", 1, "n")}
            union select distinct owner from outbox where {d.one_of("owner", 1, "n")}"""
        self._drop_nodes = f"""
            delete from node where coalesce(stopped_us, beat_us) < $1 and {d.one_of("number", 2, "n")}
            returning number"""

    def register(self, command: RegisterNode) -> Steps[int]:
        """See ``RegisterNode``."""
        if self._mutex:
            yield Query(self._mutex)
        rows = yield Query(self._same_node, (command.incarnation,))
        if not rows:
            labels = msgspec.json.encode(command.labels, order="sorted").decode()
            args = (command.name, command.incarnation, command.now_us, command.slots, labels)
            rows = yield Query(self._register, args)
        return int(rows[0][0])

    def beat(self, command: Beat) -> Steps[Beaten]:
        """See ``Beat``."""
        moved = yield Query(self._beat, (command.node, command.beat, command.now_us))
        if not moved and not (yield Query(self._alive, (command.node, command.beat))):
            return Beaten(alive=False, held=[])
        rows = yield Query(self._held, (command.node,))
        return Beaten(alive=True, held=[Held(row[0], row[1], Cancel(row[2]), row[3]) for row in rows])

    def stop(self, command: StopNode) -> Steps[None]:
        """See ``StopNode``."""
        yield Query(self._stop, (command.node, command.now_us))
        yield Query(self._disown, (command.node,))

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
        yield Query(self._ack, rows=ids(command.ids))

    def drop_dead_letters(self, command: DropDeadLetters) -> Steps[int]:
        """See ``DropDeadLetters``."""
        rows = yield Query(self._drop_dead, rows=ids(command.executions))
        for namespace in sorted({row[0] for row in rows}):
            own = sorted(row[1].hex() for row in rows if row[0] == namespace)
            more = f" and {len(own) - _NAMED} more" if len(own) > _NAMED else ""
            line = ("discard dead letters", namespace, str(len(own)), ", ".join(own[:_NAMED]) + more)
            yield from self._records.audits(command.actor, command.now_us, [line])
        return len(rows)

    def write_output(self, command: WriteOutput) -> Steps[None]:
        """See ``WriteOutput``. What belongs to nothing would stay for ever, so it is not written."""
        known = yield from self._gates.known(sorted({row.execution for row in command.rows}))
        rows = {row[:4]: row for row in command.rows if row.execution in known}
        if rows:
            yield Query(self._write_output, rows=Rows("itnnt", list(rows.values())))

    def trim(self, command: Trim) -> Steps[int]:
        """See ``Trim``."""
        yield Query(self._drop_keys, (command.now_us - IDEMPOTENCY_KEPT_US, command.limit))
        left = command.limit
        gates: list[Row] = yield Query(self._too_long, (min(left, 100),))
        for job, keep_count, keep_age_us, seq in gates:
            cut = yield Query(self._cut, (job, keep_count))
            by_age = id_floor(command.now_us - keep_age_us)
            upto = max(cut[0][0], by_age) if cut else by_age
            left -= yield from self._drop_until(job, upto, left)
            if left <= 0:
                break
            yield Query(self._trimmed, (job, seq))
        if left > 0:
            left -= yield from self._trim_remains(command, left)
        if left > 0:
            lines = yield Query(self._drop_audit, (id_floor(command.now_us - AUDIT_KEPT_US), left))
            left -= len(lines)
        if left > 0:
            left -= yield from self._trim_nodes(command.now_us - NODES_KEPT_US, left)
        return command.limit - left

    def _trim_nodes(self, before_us: int, limit: int) -> Steps[int]:
        """Nodes that were last heard of so long ago, unless something still has to be taken from them."""
        gone = yield Query(self._gone_nodes, (before_us, limit))
        if not gone:
            return 0
        numbers = [row[0] for row in gone]
        holders = {row[0] for row in (yield Query(self._holders, rows=Rows("n", [(number,) for number in numbers])))}
        free = [(number,) for number in numbers if number not in holders]
        return len((yield Query(self._drop_nodes, (before_us,), Rows("n", free))))

    def _trim_remains(self, command: Trim, limit: int) -> Steps[int]:
        """What deleted jobs left behind: they have no gate that would say how long it is wanted."""
        upto = id_floor(command.now_us - command.keep_deleted_us)
        again_us = command.now_us + max(command.keep_deleted_us // _LOOKS, _LOOK_EVERY_US)
        left = limit
        jobs: list[Row] = yield Query(self._remains, (command.now_us, min(limit, 100)))
        for (job,) in jobs:
            left -= yield from self._drop_until(job, upto, left)
            if left <= 0:
                break
            if (yield Query(self._left, (job,))):
                yield Query(self._look_again, (job, again_us))
            else:
                yield Query(self._nothing_left, (job,))
        return limit - left

    def _drop_until(self, job: bytes, upto: bytes, limit: int) -> Steps[int]:
        """Delete the oldest executions of a job, and all that was recorded with them."""
        gone = yield Query(self._drop_old, (job, upto, limit))
        if gone:
            yield Query(self._drop_attempts, rows=Rows("i", [row[:1] for row in gone]))
            yield Query(self._drop_output, rows=Rows("i", [row[:1] for row in gone]))
        return len(gone)
