"""The hot path on SQLite: admit, claim, settle as a handful of set-based statements each, over temporary tables.

SQLite has no data-modifying CTE, so what is decided is kept in a temporary table and written from there. Answers come
back as one JSON text: a row fetched is a step, and each step hands the interpreter lock over (see ``dialect``).
"""

from collections.abc import Sequence
from typing import Any

import msgspec

from chronos.core.execution import Status
from chronos.store.commands import Admit, AdmitRow, Admitted, Claim, Claimed, SettleRow
from chronos.store.sql.decision import (
    ADMIT_ROW,
    LATE,
    MOVE,
    READY,
    REPEATED,
    RUNNING,
    TOKEN,
    admit_rows,
    decide,
    open_those,
    record_skipped,
)
from chronos.store.sql.dialect import Dialect, Query, Row, Rows, Steps
from chronos.store.sql.endings import Freed
from chronos.store.sql.gates import CLAIMED, claimed

_FEW_LANES = 16
TEMPORARY = """
create temp table admitted (id blob, job blob, scheduled_us int, next_us int, rank int, status int,
    token int, version int, lane int, exclusive int, code text);
create temp table claimed (id blob, job blob, version int, cause int, scheduled_us int, attempt int, token int,
    admitted_us int, started_us int, worked_us int, detail text, rank int);
create temp table settled (id blob, job blob, status int, code text, message text, finished_us int,
    detail text, key blob);
"""


class HotSqlite:
    """Statements and steps of the hot path."""

    def __init__(self, d: Dialect) -> None:
        self._decide = f"insert into temp.admitted {decide(d.rows(1, ADMIT_ROW))}"
        self._move = f"update gate as g set {MOVE} from temp.admitted as d where g.job = d.job"
        self._insert = open_those("temp.admitted", node="$1", now_us="$2", request="$3")
        self._skip = record_skipped("temp.admitted", now_us="$1")
        self._answer_admit = f"""
            select json_group_array(json_array(hex(d.id), hex(d.job), d.status, {TOKEN})) from temp.admitted as d
            where d.status <> {REPEATED}"""
        choose = f"insert into temp.claimed select {CLAIMED}, rank from active where status = {READY} and held = 0 and"
        self._choose_from_one = f"{choose} lane = $2 order by rank, id limit $1"
        self._choose_from_many = f"{choose} lane in {d.rows(2, 'lane:n')} order by rank, id limit $1"
        self._choose_late = f"""
            insert into temp.claimed select {", ".join(f"a.{name}" for name in CLAIMED.split(", "))}, a.rank
            from {d.rows(2, "lane:n before_us:n")} as i cross join active as a
            on a.lane = i.lane and a.status = {READY} and a.held = 0 and {LATE} order by a.rank, a.id limit $1"""
        self._keep_the_best = """
            delete from temp.claimed where rowid not in (select rowid from temp.claimed order by rank, id limit $1)"""
        self._claim = f"""
            update active set status = {RUNNING}, owner = $1, token = token + 1, started_us = coalesce(started_us, $2),
                attempt_us = $2, request = $3 where id in (select id from temp.claimed)"""
        self._answer_claim = """
            select json_group_array(json_array(hex(id), hex(job), version, cause, scheduled_us, attempt, token + 1,
                admitted_us, coalesce(started_us, $1), worked_us, detail) order by rank, id) from temp.claimed"""
        self._match = f"""
            insert into temp.settled
            select i.id, a.job, i.status, i.code, i.message, i.finished_us, coalesce(i.detail, a.detail), a.key
            from {d.rows(1, "id:i token:n status:n code:t message:t finished_us:n detail:t")} as i
            join active as a on a.id = i.id and a.token = i.token and a.status = {RUNNING}"""
        self._to_history = """
            insert into history (id, job, version, cause, scheduled_us, status, code, message, owner, token, attempt,
                admitted_us, started_us, attempt_us, finished_us, detail)
            select a.id, a.job, a.version, a.cause, a.scheduled_us, s.status, s.code, s.message, a.owner, a.token,
                a.attempt, a.admitted_us, a.started_us, a.attempt_us, s.finished_us, s.detail
            from temp.settled as s join active as a on a.id = s.id"""
        self._from_active = "delete from active where id in (select id from temp.settled)"
        self._free = """
            update gate set active = active - n.k
            from (select job, count(*) as k from temp.settled group by job) as n where gate.job = n.job"""
        self._behind = """
            select distinct g.job, g.queued, g.followed from gate as g join temp.settled as s on s.job = g.job
            where g.queued > 0 or g.followed > 0"""
        self._answer_settle = "select json_group_array(hex(id)), max(key is not null) from temp.settled"
        self._freed_keys = "select key, count(*) from temp.settled where key is not null group by key order by key"

    def admit(self, command: Admit, rows: Sequence[AdmitRow]) -> Steps[list[Admitted]]:
        """The plain rows of the command: not keyed, not ``replace``."""
        yield Query("delete from temp.admitted")
        yield Query(self._decide, rows=admit_rows(rows))
        yield Query(self._move)
        yield Query(self._insert, (command.node, command.now_us, command.request))
        yield Query(self._skip, (command.now_us,))
        return _admitted((yield Query(self._answer_admit)))

    def claim(self, command: Claim) -> Steps[list[Claimed]]:
        """See ``Claim``. The best of a few lanes are read from each in order; of many lanes all that is ready is."""
        yield Query("delete from temp.claimed")
        lanes = list(dict.fromkeys(command.lanes))
        if len(lanes) > _FEW_LANES:
            yield Query(self._choose_from_many, (command.limit,), Rows("n", [(lane,) for lane in lanes]))
        else:
            for lane in lanes:
                yield Query(self._choose_from_one, (command.limit, lane))
            if len(lanes) > 1:
                yield Query(self._keep_the_best, (command.limit,))
        yield Query(self._claim, (command.node, command.now_us, command.request))
        return _claimed((yield Query(self._answer_claim, (command.now_us,))))

    def claim_late(self, command: Claim, limit: int) -> Steps[list[Claimed]]:
        """What has waited too long for those it is meant for."""
        yield Query("delete from temp.claimed")
        yield Query(self._choose_late, (limit,), Rows("nn", command.late_lanes))
        yield Query(self._claim, (command.node, command.now_us, command.request))
        return _claimed((yield Query(self._answer_claim, (command.now_us,))))

    def settle_alone(self, rows: Sequence[SettleRow]) -> Query | None:
        """Of no use here: a transaction costs nothing but its commit."""
        return None

    def settle(self, rows: Sequence[SettleRow]) -> Steps[Freed]:
        """Move rows to history and free their gates."""
        yield Query("delete from temp.settled")
        values = [(r.id, r.token, int(r.status), r.code.value, r.message, r.finished_us, r.detail) for r in rows]
        yield Query(self._match, rows=Rows("innttnt", values))
        yield Query(self._to_history)
        yield Query(self._from_active)
        yield Query(self._free)
        [(text, keyed)] = yield Query(self._answer_settle)
        after = yield Query(self._behind)
        freed = (yield Query(self._freed_keys)) if keyed else []
        behind = sorted(job for job, queued, _ in after if queued)
        followed = {job for job, _, followed in after if followed}
        return Freed([bytes.fromhex(i) for i in msgspec.json.decode(text)], behind, freed, followed)


def _admitted(found: list[Row]) -> list[Admitted]:
    rows: list[list[Any]] = msgspec.json.decode(found[0][0])
    return [Admitted(bytes.fromhex(i), bytes.fromhex(job), Status(status), token) for i, job, status, token in rows]


def _claimed(found: list[Row]) -> list[Claimed]:
    rows: list[list[Any]] = msgspec.json.decode(found[0][0])
    for row in rows:
        row[0], row[1] = bytes.fromhex(row[0]), bytes.fromhex(row[1])
    return claimed(rows)
