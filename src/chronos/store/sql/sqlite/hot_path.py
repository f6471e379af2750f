"""The hot path on SQLite: admit, claim and settle, for one row and for many.

SQLite has no data-modifying CTE. So the decisions about a batch go into a temporary table, from which a few statements
write them. These statements are the body of a trigger, because each statement run from Python releases the interpreter
lock (see ``query``):

    batch ─► insert into a view ─► trigger: decide, write ─► temporary table ─► read as one packed row

A single row, as on an idle node, needs no temporary table and takes a shorter path. An admission that this path does
not handle falls back to the batch.
"""

from collections.abc import Sequence

import msgspec

from chronos.core.execution import Status
from chronos.core.fencing_token import TURN_BITS
from chronos.store.commands import Admit, AdmitRow, Admitted, Claim, Claimed, SettleRow
from chronos.store.sql.executions.admission_rules import (
    ADMIT_ROW_COLUMNS,
    ALREADY_RECORDED,
    DECIDED_CODE,
    DECIDED_TOKEN,
    LATE_CONDITION,
    READY,
    RUNNING,
    SKIP_CODES,
    batch_gate_update_sql,
    decisions_sql,
    gate_update_sql,
    insert_open_sql,
    insert_skipped_sql,
    next_claim_sql,
    to_admit_rows,
)
from chronos.store.sql.executions.gate_queue import (
    CAUSE_BY_NUMBER,
    CLAIMED_COLUMNS,
    claimed_columns,
    last_run_sql,
    to_claimed_rows,
)
from chronos.store.sql.executions.last_outcome import FAILED, OUTCOME_TIMES, SUCCEEDED, last_outcome_sql
from chronos.store.sql.executions.settlement import SettleEffects
from chronos.store.sql.query import Dialect, Query, Rows, Steps
from chronos.store.sql.sqlite.packed_rows import pack_columns_sql, split_ids, unpack_columns

_MAX_LANES_READ_IN_ORDER = 16
_CAUSE = CLAIMED_COLUMNS.split(", ").index("cause")
_STATUS = {int(status): status for status in Status}
_format_history_insert = """
    insert into history (id, job, version, cause, scheduled_us, status, code, message, owner, token, attempt,
    admitted_us, started_us, attempt_us, finished_us, detail, number, levels)
    select a.id, a.job, a.version, a.cause, a.scheduled_us, {status}, {code}, {message}, a.owner, a.token, a.attempt,
    a.admitted_us, a.started_us, a.attempt_us, {finished_us}, {detail}, {number}, a.levels""".format


class SqliteHotPath:
    """Admits, claims and settles on SQLite."""

    def __init__(self, d: Dialect) -> None:
        self._admissions, self._claims, self._settlements = _AdmitStatements(), _ClaimStatements(d), _SettleStatements()

    def admit(self, command: Admit, rows: Sequence[AdmitRow]) -> Steps[list[Admitted]]:
        """Admit the rows without ``needs_gate_lock``."""
        if len(rows) == 1 and (admitted := (yield from self._admissions.one(command, rows[0]))) is not None:
            return [admitted]
        return (yield from self._admissions.many(command, rows))

    def claim(self, command: Claim) -> Steps[list[Claimed]]:
        """See ``Claim``. A few lanes are each read in order; of many lanes everything that is ready is read."""
        lanes = list(dict.fromkeys(command.lanes))
        if len(lanes) > _MAX_LANES_READ_IN_ORDER:
            rows = Rows("n", [(lane,) for lane in lanes])
            return (yield from self._claims.run(self._claims.many_lanes_statements, command, command.limit, (), rows))
        return (
            yield from self._claims.run(
                self._claims.few_lanes_statements[len(lanes)], command, command.limit, lanes, None
            )
        )

    def claim_late(self, command: Claim, limit: int) -> Steps[list[Claimed]]:
        """See ``Claim.late_lanes``."""
        rows = Rows("nn", command.late_lanes)
        return (yield from self._claims.run(self._claims.late_lanes_statements, command, limit, (), rows))

    def settle_in_one_statement(self, rows: Sequence[SettleRow]) -> Query | None:
        """Return None: on SQLite a transaction costs only its commit."""
        return None

    def settle(self, rows: Sequence[SettleRow]) -> Steps[SettleEffects]:
        """See ``HotPath``."""
        if len(rows) == 1:
            return (yield from self._settlements.one(rows[0]))
        return (yield from self._settlements.many(rows))


class _AdmitStatements:
    """Statements that admit instants."""

    def __init__(self) -> None:
        columns = [column.split(":")[0] for column in ADMIT_ROW_COLUMNS.split()]
        row = ", ".join(f"${4 + i} as {name}" for i, name in enumerate(columns))
        opened = insert_open_sql(f"({decisions_sql(f'(select {row})')})", node="$1", now_us="$2", request="$3")
        self._open_one = f"{opened} returning status, token, {last_run_sql('active')}"
        moved = gate_update_sql("g", next_us="$2", scheduled_us="$3", status="$4")
        self._move_one = f"update gate as g set {moved} where g.job = $1"
        self._all = "insert into temp.chronos_admitting (node, now_us, request, rows) values ($1, $2, $3, $4)"
        self._answer = f"""
            select {pack_columns_sql(["d.id", "d.job"], ["d.status", DECIDED_TOKEN, "d.ran_us", DECIDED_CODE])}
            from temp.chronos_admitted as d where d.status <> {ALREADY_RECORDED}"""

    def one(self, command: Admit, row: AdmitRow) -> Steps[Admitted | None]:
        """Admit one row. Returns None, with nothing written, unless it runs, is ready or is queued."""
        [values] = to_admit_rows([row]).values
        opened = yield Query(self._open_one, (command.node, command.now_us, command.request, *values))
        if not opened:
            return None
        status, token, last_run_us = opened[0]
        yield Query(self._move_one, (row.job, row.next_us, row.expect_us, status))
        return Admitted(row.id, row.job, _STATUS[status], token, last_run_us)

    def many(self, command: Admit, rows: Sequence[AdmitRow]) -> Steps[list[Admitted]]:
        yield Query(self._all, (command.node, command.now_us, command.request), to_admit_rows(rows))
        ids, jobs, numbers, tokens, ran_us, codes = unpack_columns((yield Query(self._answer))[0], ids=2)
        statuses, reasons = map(_STATUS.__getitem__, numbers), map(SKIP_CODES.__getitem__, codes)
        return list(map(Admitted, ids, jobs, statuses, tokens, ran_us, reasons))


class _ClaimStatements:
    """Statements that claim ready executions. A batch is read first, with its new values, and then written."""

    def __init__(self, d: Dialect) -> None:
        ready = f"status = {READY} and held = 0"
        best = "order by rank, id limit $1"
        best_of_lane = [
            f"select id, rank from active where {ready} and lane = ${5 + i} {best}"
            for i in range(_MAX_LANES_READ_IN_ORDER)
        ]
        late = f"""select a.id from {d.rows(5, "lane:n before_us:n")} as i cross join active as a
            on a.lane = i.lane and a.status = {READY} and a.held = 0 and {LATE_CONDITION}
            order by a.rank, a.id limit $1"""
        self.few_lanes_statements = [_build_claim_statements(f"{ready} and lane = $5 {best}")] * 2 + [
            _build_claim_statements(f"id in (select id from ({_union_all(best_of_lane[:count])}) {best}) {best}")
            for count in range(2, _MAX_LANES_READ_IN_ORDER + 1)
        ]
        self.many_lanes_statements = _build_claim_statements(f"{ready} and lane in {d.rows(5, 'lane:n')} {best}")
        self.late_lanes_statements = _build_claim_statements(f"id in ({late}) {best}")

    def run(
        self, statements: tuple[str, str, str], command: Claim, limit: int, lanes: Sequence[int], rows: Rows | None
    ) -> Steps[list[Claimed]]:
        claim_one, read, write = statements
        args = (limit, command.node, command.now_us, command.request, *lanes)
        if limit == 1:
            return to_claimed_rows((yield Query(claim_one, args, rows)))
        columns = unpack_columns((yield Query(read, args, rows))[0], ids=2)
        if not columns[0]:
            return []
        yield Query(write, args, rows)
        columns[_CAUSE] = [CAUSE_BY_NUMBER[cause] for cause in columns[_CAUSE]]
        return [tuple.__new__(Claimed, row) for row in zip(*columns, strict=True)]


def _union_all(queries: Sequence[str]) -> str:
    return " union all ".join(f"select * from ({query})" for query in queries)


def _build_claim_statements(condition: str) -> tuple[str, str, str]:
    """Return three statements: claim and return rows; only read them; only claim.

    Arguments: limit, node, now, request, and those of ``condition``.
    """
    write = f"""update active set status = {RUNNING}, owner = $2, token = {next_claim_sql("token")},
        started_us = coalesce(started_us, $3), attempt_us = $3, request = $4
        where id in (select id from active where {condition})"""
    new_values = CLAIMED_COLUMNS.replace("token", f"{next_claim_sql('token')} as token").replace(
        "started_us", "coalesce(started_us, $3) as started_us"
    )
    ids, others = CLAIMED_COLUMNS.split(", ")[:2], [*CLAIMED_COLUMNS.split(", ")[2:], "last_run_us"]
    last_run = f"{last_run_sql('active')} as last_run_us"
    read = (
        f"select {pack_columns_sql(ids, others)} from (select {new_values}, {last_run} from active where {condition})"
    )
    return f"{write} returning {claimed_columns('active')}", read, write


class _SettleStatements:
    """Statements that settle executions."""

    def __init__(self) -> None:
        self._select_one = f"""
            select a.job, a.scheduled_us, g.number, a.key, g.queued, g.followed
            from active as a left join gate as g on g.job = a.job
            where a.id = $1 and a.token = $2 and a.status = {RUNNING}"""
        self._end_one = """
            insert into temp.chronos_ending (id, status, code, message, finished_us, detail, number, token, ran_us)
            values ($1, $2, $3, $4, $5, $6, $7, $8, $9)"""
        self._all = "insert into temp.chronos_settling (rows) values ($1)"
        self._answer = f"""
            select {pack_columns_sql(["id"], [])}, count(key), (
                select json_group_array(json_array(hex(job), queued, followed) order by job) from gate
                where number in (select number from temp.chronos_settled) and (queued > 0 or followed > 0)
            ) from temp.chronos_settled"""
        self._freed_keys = (
            "select key, count(*) from temp.chronos_settled where key is not null group by key order by key"
        )

    def one(self, row: SettleRow) -> Steps[SettleEffects]:
        rows = yield Query(self._select_one, (row.id, row.token))
        if not rows:
            return SettleEffects([], [], [], set())
        [(job, scheduled_us, number, key, queued, followed)] = rows
        outcome = (int(row.status), row.code.value, row.message, row.finished_us, row.detail)
        yield Query(self._end_one, (row.id, *outcome, number, row.token, scheduled_us))
        keys = [(key, 1)] if key is not None else []
        return SettleEffects([row.id], [job] if queued else [], keys, {job} if followed else set())

    def many(self, rows: Sequence[SettleRow]) -> Steps[SettleEffects]:
        values = [(r.id, r.token, int(r.status), r.code.value, r.message, r.finished_us, r.detail) for r in rows]
        yield Query(self._all, rows=Rows("innttnt", values))
        [(blob, keyed, text)] = yield Query(self._answer)
        keys = (yield Query(self._freed_keys)) if keyed else []
        after = [(bytes.fromhex(job), queued, followed) for job, queued, followed in msgspec.json.decode(text)]
        behind = [job for job, queued, _ in after if queued]
        return SettleEffects(split_ids(blob), behind, keys, {job for job, _, followed in after if followed})


def build_temp_views_sql(d: Dialect) -> str:
    """Return the statements that create the temporary views and triggers of a writing connection.

    A temporary name hides a table of the same name, so these start with ``chronos_``: no user's statement means them.
    """
    outcome = "id:i token:n status:n code:t message:t finished_us:n detail:t"
    outcome_columns = ("status", "code", "message", "finished_us", "number")
    ended = _format_history_insert(**{name: f"s.{name}" for name in outcome_columns}, detail="s.detail")
    ended_one = _format_history_insert(
        **{name: f"new.{name}" for name in outcome_columns}, detail="coalesce(new.detail, a.detail)"
    )
    return f"""
        create temp table chronos_admitted (id blob, job blob, scheduled_us int, next_us int, rank int, status int,
            token int, version int, lane int, exclusive int, code text, levels int,
            ran_us int);
        create temp view chronos_admitting as select null as node, null as now_us, null as request, null as rows;
        create temp trigger chronos_admit instead of insert on chronos_admitting begin
            delete from chronos_admitted;
            insert into chronos_admitted {decisions_sql(d.rows(1, ADMIT_ROW_COLUMNS).replace("$1", "new.rows"))};
            update gate set {batch_gate_update_sql("gate")} from chronos_admitted as d where gate.job = d.job;
            {insert_open_sql("chronos_admitted", node="new.node", now_us="new.now_us", request="new.request")};
            {insert_skipped_sql("chronos_admitted", now_us="new.now_us")};
        end;
        create temp table chronos_settled (id blob, job blob, status int, code text, message text, finished_us int,
            detail text, key blob, number int, token int, ran_us int);
        create temp view chronos_settling as select null as rows;
        create temp trigger chronos_settle instead of insert on chronos_settling begin
            delete from chronos_settled;
            insert into chronos_settled
                select i.id, a.job, i.status, i.code, i.message, i.finished_us, coalesce(i.detail, a.detail), a.key,
                    g.number, i.token, a.scheduled_us
                from {d.rows(1, outcome).replace("$1", "new.rows")} as i
                join active as a on a.id = i.id and a.token = i.token and a.status = {RUNNING}
                left join gate as g on g.job = a.job;
            {ended} from chronos_settled as s join active as a on a.id = s.id;
            delete from active where id in (select id from chronos_settled);
            update gate set active = gate.active - n.k, seq = max(gate.seq, n.turn),
                ran_us = max(coalesce(gate.ran_us, n.ran_us), n.ran_us), {last_outcome_sql("gate")}
                from (select number, count(*) as k, max(token) >> {TURN_BITS} as turn, max(ran_us) as ran_us,
                    {OUTCOME_TIMES} from chronos_settled group by number) as n
                where gate.number = n.number;
        end;
        create temp view chronos_ending as select null as id, null as status, null as code, null as message,
            null as finished_us, null as detail, null as number, null as token, null as ran_us;
        create temp trigger chronos_end instead of insert on chronos_ending begin
            {ended_one} from active as a where a.id = new.id;
            delete from active where id = new.id;
            update gate set active = active - 1, seq = max(seq, new.token >> {TURN_BITS}),
                ran_us = max(coalesce(ran_us, new.ran_us), new.ran_us),
                succeeded_us = iif(new.status in {SUCCEEDED}, new.finished_us, succeeded_us),
                failing_us = case when new.status in {SUCCEEDED} then null
                    when new.status in {FAILED} then coalesce(failing_us, new.finished_us) else failing_us end
                where number = new.number;
        end;"""
