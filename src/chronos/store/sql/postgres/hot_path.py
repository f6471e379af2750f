"""The hot path on PostgreSQL: admit, claim and settle, each as one data-modifying statement.

All parts of such a statement see the same snapshot; only rows that it has locked are seen in their current state. So
nothing here searches for rows that another transaction may just have written: a later statement finds the executions
that are queued behind a freed gate (see ``executions``). Tables are read by the keys of the batch (``= any``) and
joined by hash, which is fast for one row and for thousands, whatever the plan was made for (see ``session_settings``).
"""

from collections.abc import Sequence

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
    insert_open_sql,
    insert_skipped_sql,
    next_claim_sql,
    to_admit_rows,
)
from chronos.store.sql.executions.gate_queue import claimed_columns, to_claimed_rows
from chronos.store.sql.executions.last_outcome import OUTCOME_TIMES, last_outcome_sql
from chronos.store.sql.executions.settlement import SettleEffects
from chronos.store.sql.query import Dialect, Query, Rows, Steps

_HAS_QUEUE_BIT, _HAS_FOLLOWERS_BIT = 1, 2  # what a settlement has to do next
_STATUS = {int(status): status for status in Status}
_HISTORY_COLUMNS = """id, job, version, cause, scheduled_us, status, code, message, owner, token, attempt, admitted_us,
    started_us, attempt_us, finished_us, detail, levels"""


class PostgresHotPath:
    """Admits, claims and settles on PostgreSQL."""

    def __init__(self, d: Dialect) -> None:
        self._admit = f"""
            with d as materialized (
                {decisions_sql(d.rows(4, ADMIT_ROW_COLUMNS))} and g.job = any($4) and {d.profiles_of("p", 4)}
                order by g.job for update of g skip locked
            ),
            moved as (update gate as g set {batch_gate_update_sql("g")} from d where g.job = any($4) and g.job = d.job),
            opened as ({insert_open_sql("d", node="$1::bigint", now_us="$2::bigint", request="$3")}),
            skipped as ({insert_skipped_sql("d", now_us="$2")})
            select d.id, d.job, d.status, {DECIDED_TOKEN}, d.ran_us, {DECIDED_CODE} from d
            where d.status <> {ALREADY_RECORDED}"""
        # The best executions of each lane are locked before the best of all lanes are chosen. So a lane is read only as
        # far as needed, and executions that another node is taking do not reduce the number claimed.
        self._claim = _build_claim_sql(d.rows(5, "lane:n"), "true")
        self._claim_late = _build_claim_sql(d.rows(5, "lane:n before_us:n"), LATE_CONDITION)
        # Both conditions read ``locked``, so that the gates are locked before anything else is read.
        self._settle = _settle(d, "(select count(*) from locked) >= 0")
        self._settle_in_one_statement = _settle(
            d,
            """(select count(*) from locked where queued > 0 or followed > 0) = 0
                and not exists (select from active as k where k.id = any($1) and k.key is not null)""",
        )

    def admit(self, command: Admit, rows: Sequence[AdmitRow]) -> Steps[list[Admitted]]:
        """Admit the rows without ``needs_gate_lock``."""
        args = (command.node, command.now_us, command.request)
        standalone = len(rows) == len(command.rows) and all(row.next_us is not None for row in rows)
        decided = yield Query(self._admit, args, to_admit_rows(rows), standalone=standalone)
        return [
            Admitted(execution, job, _STATUS[status], token, ran_us, SKIP_CODES[code])
            for execution, job, status, token, ran_us, code in decided
        ]

    def claim(self, command: Claim) -> Steps[list[Claimed]]:
        """See ``Claim``."""
        args = (command.limit, command.node, command.now_us, command.request)
        lanes = Rows("n", [(lane,) for lane in dict.fromkeys(command.lanes)])
        claimed = yield Query(self._claim, args, lanes, standalone=not command.late_lanes)
        return to_claimed_rows(claimed)

    def claim_late(self, command: Claim, limit: int) -> Steps[list[Claimed]]:
        """See ``Claim.late_lanes``."""
        args = (limit, command.node, command.now_us, command.request)
        claimed = yield Query(self._claim_late, args, Rows("nn", command.late_lanes))
        return to_claimed_rows(claimed)

    def settle_in_one_statement(self, rows: Sequence[SettleRow]) -> Query | None:
        """See ``HotPath``: for jobs without queued executions or followers, and executions without a key."""
        return Query(self._settle_in_one_statement, rows=_outcomes(rows), standalone=True)

    def settle(self, rows: Sequence[SettleRow]) -> Steps[SettleEffects]:
        """See ``HotPath``."""
        effects = yield Query(self._settle, rows=_outcomes(rows))
        settled: list[bytes] = []
        behind: list[bytes] = []
        freed: dict[bytes, int] = {}
        followed: set[bytes] = set()
        for id_or_job, key, after in effects:
            if after:
                if after & _HAS_QUEUE_BIT:
                    behind.append(id_or_job)
                if after & _HAS_FOLLOWERS_BIT:
                    followed.add(id_or_job)
                continue
            settled.append(id_or_job)
            if key is not None:
                freed[key] = freed.get(key, 0) + 1
        return SettleEffects(settled, sorted(behind), sorted(freed.items()), followed)


def _build_claim_sql(lanes: str, condition: str) -> str:
    return f"""
        with best as materialized (
            select x.id from {lanes} as i cross join lateral (
                select a.id, a.rank from active as a
                where a.lane = i.lane and a.status = {READY} and a.held = 0 and {condition}
                order by a.rank, a.id limit $1 for update skip locked
            ) as x order by x.rank, x.id limit $1
        ), taken as (
            update active as a set status = {RUNNING}, owner = $2, token = {next_claim_sql("a.token")},
                started_us = coalesce(a.started_us, $3), attempt_us = $3, request = $4
            where a.id = any(array(select id from best)) returning a.*
        )
        select {claimed_columns("taken")} from taken order by rank, id"""


def _settle(d: Dialect, condition: str) -> str:
    outcome = "id:i job:i token:n status:n code:t message:t finished_us:n detail:t"
    return f"""
        with locked as materialized (
            select g.job, g.number, g.queued, g.followed from gate as g where g.job = any($2) order by g.job for update
        ), ended as (
            delete from active as a using {d.rows(1, outcome)} as i
            where {condition} and a.id = any($1) and a.id = i.id and a.token = i.token and a.status = {RUNNING}
            returning a.id, a.job, a.version, a.cause, a.scheduled_us, i.status, i.code, i.message, a.owner,
                a.token, a.attempt, a.admitted_us, a.started_us, a.attempt_us, i.finished_us,
                coalesce(i.detail, a.detail) as detail, a.levels, a.key
        ), kept as (
            insert into history ({_HISTORY_COLUMNS}, number)
            select {_HISTORY_COLUMNS}, number from ended left join (select job, number from locked) as l using (job)
        ), freed as (
            update gate as g set active = g.active - n.ended, seq = greatest(g.seq, n.turn),
                ran_us = greatest(g.ran_us, n.ran_us), {last_outcome_sql("g")}
            from (select job, count(*) as ended, max(token) >> {TURN_BITS} as turn, max(scheduled_us) as ran_us,
                {OUTCOME_TIMES} from ended group by job) as n
            where g.job = any($2) and g.job = n.job
            returning g.job, case when g.queued > 0 then {_HAS_QUEUE_BIT} else 0 end
                + {_HAS_FOLLOWERS_BIT} * g.followed as after
        )
        select id, key, 0 from ended union all select job, null, after from freed where after > 0"""


def _outcomes(rows: Sequence[SettleRow]) -> Rows:
    values = [(r.id, r.job, r.token, int(r.status), r.code.value, r.message, r.finished_us, r.detail) for r in rows]
    return Rows("iinnttnt", values)
