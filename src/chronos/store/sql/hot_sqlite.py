"""The hot path on SQLite: admit, claim, settle as a handful of set-based statements each, over temporary tables.

SQLite has no data-modifying CTE, so what is decided is kept in a temporary table and written from there. Answers come
back as one JSON text: a row fetched is a step, and each step hands the interpreter lock over (see ``dialect``).
"""

from collections.abc import Sequence
from typing import Any

import msgspec

from chronos.core.config import Overlap
from chronos.core.execution import Cause, Status
from chronos.core.job import JobState
from chronos.core.policy import PRIORITY_STEP_US
from chronos.core.reasons import Code
from chronos.store.commands import Admit, AdmitRow, Admitted, Claim, Claimed, SettleRow
from chronos.store.sql.dialect import Dialect, Query, Row, Rows
from chronos.store.sql.gates import CLAIMED, OVERLAPS, Steps

RUNNING, READY, QUEUED, SKIPPED = (
    int(status) for status in (Status.RUNNING, Status.READY, Status.QUEUED, Status.SKIPPED)
)
SKIP, ALLOW, REPLACE = (OVERLAPS.index(overlap) for overlap in (Overlap.SKIP, Overlap.ALLOW, Overlap.REPLACE))

#: ``core.policy.admit`` for scheduled instants, as a status; tested to be equal.
DECISION = f"""case when g.lim = 0 or g.active < g.lim then {READY}
    when g.overlap <> {SKIP} and g.queued < g.queue_max then {QUEUED} else {SKIPPED} end"""
SKIP_CODE = f"case when g.overlap = {SKIP} then '{Code.OVERLAP}' else '{Code.QUEUE_FULL}' end"

TEMPORARY = """
create temp table admitted (id blob primary key, job blob, scheduled_us int, next_us int, rank int, status int,
    token int, version int, lane int, exclusive int, code text);
create temp table claimed (id blob primary key);
create temp table settled (id blob primary key, job blob, status int, code text, message text, finished_us int,
    detail text, key blob);
"""


class HotSqlite:
    """Statements and steps of the hot path."""

    def __init__(self, d: Dialect) -> None:
        rows = d.rows(1, "job:i version:n expect_us:n next_us:n id:i ready_us:n claim:n")
        self._decide = f"""
            insert into temp.admitted
            select i.id, i.job, i.expect_us, i.next_us, i.ready_us - g.priority * {PRIORITY_STEP_US},
                case {DECISION} when {READY} then case when i.claim then {RUNNING} else {READY} end
                    when {QUEUED} then {QUEUED} else {SKIPPED} end,
                (g.seq + 1) << 16, g.version, g.lane, g.overlap <> {ALLOW}, {SKIP_CODE}
            from {rows} as i join gate as g on g.job = i.job
            where g.next_us = i.expect_us and g.version = i.version and g.state = {int(JobState.ACTIVE)}
                and g.keyed = 0 and g.overlap <> {REPLACE}"""
        self._move = f"""
            update gate set next_us = i.next_us, seq = seq + 1,
                state = case when i.next_us is null then {int(JobState.DONE)} else state end,
                active = active + (i.status in ({READY}, {RUNNING})), queued = queued + (i.status = {QUEUED})
            from temp.admitted as i where gate.job = i.job"""
        self._insert = f"""
            insert into active (id, job, version, cause, scheduled_us, lane, rank, status, exclusive, owner, token,
                admitted_us, started_us, attempt_us, request)
            select id, job, version, {int(Cause.SCHEDULE)}, scheduled_us, lane, rank, status, exclusive,
                iif(status = {RUNNING}, $1, null), token + (status = {RUNNING}), $2,
                iif(status = {RUNNING}, $2, null), iif(status = {RUNNING}, $2, null), $3
            from temp.admitted where status <> {SKIPPED}"""
        self._skip = f"""
            insert into history (id, job, version, cause, scheduled_us, status, code, token, attempt, admitted_us,
                finished_us)
            select id, job, version, {int(Cause.SCHEDULE)}, scheduled_us, status, code, token, 0, $1, $1
            from temp.admitted where status = {SKIPPED}"""
        self._answer_admit = f"""
            select json_group_array(json_array(hex(id), hex(job), status, token + (status = {RUNNING})))
            from temp.admitted"""
        self._ours = f"""
            select json_group_array(json_array(hex(id), hex(job), status, token))
            from active where request = $1 and id in {d.rows(2, "id:i")}"""
        self._choose = f"""
            insert into temp.claimed select id from active where status = {READY} and held = 0
                and lane in {d.rows(2, "lane:n")} order by rank, id limit $1"""
        self._choose_again = f"""
            insert into temp.claimed select id from active where owner = $1 and request = $2 and status = {RUNNING}"""
        self._claim = f"""
            update active set status = {RUNNING}, owner = $1, token = token + 1, started_us = coalesce(started_us, $2),
                attempt_us = $2, request = $3 where id in (select id from temp.claimed)"""
        self._answer_claim = f"""
            select json_group_array(json_array(hex(id), hex(job), {CLAIMED.removeprefix("id, job, ")}))
            from (select * from active where id in (select id from temp.claimed) order by rank, id)"""
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
            select distinct g.job from gate as g join temp.settled as s on s.job = g.job where g.queued > 0"""
        self._answer_settle = "select json_group_array(hex(id)), max(key is not null) from temp.settled"
        self._freed_keys = "select key, count(*) from temp.settled where key is not null group by key order by key"

    def admit(self, command: Admit, rows: Sequence[AdmitRow], *, resent: bool) -> Steps[list[Admitted]]:
        """The plain rows of the command: not keyed, not ``replace``."""
        yield Query("delete from temp.admitted")
        values = [(r.job, r.version, r.expect_us, r.next_us, r.id, r.ready_us, int(r.claim)) for r in rows]
        yield Query(self._decide, rows=Rows("innninn", values))
        yield Query(self._move)
        yield Query(self._insert, (command.node, command.now_us, command.request))
        yield Query(self._skip, (command.now_us,))
        found = yield Query(self._answer_admit)
        answers = _admitted(found)
        if resent:  # what the first sending admitted, and whose answer was lost
            known = {answer.id for answer in answers}
            missing = [(row.id,) for row in rows if row.id not in known]
            answers += _admitted((yield Query(self._ours, (command.request,), Rows("i", missing))))
        return answers

    def claim(self, command: Claim, *, resent: bool) -> Steps[list[Claimed]]:
        """See ``Claim``; an answer lost before is given again."""
        yield Query("delete from temp.claimed")
        if resent:
            yield Query(self._choose_again, (command.node, command.request))
            found = yield Query(self._answer_claim)
            if found[0][0] != "[]":
                return _claimed(found)
        yield Query(self._choose, (command.limit,), Rows("n", [(lane,) for lane in command.lanes]))
        yield Query(self._claim, (command.node, command.now_us, command.request))
        return _claimed((yield Query(self._answer_claim)))

    def settle(self, rows: Sequence[SettleRow]) -> Steps[tuple[list[bytes], list[bytes], list[Row]]]:
        """Move rows to history and free their gates. Answers the ids, the jobs with a queue, the freed keys."""
        yield Query("delete from temp.settled")
        values = [(r.id, r.token, int(r.status), r.code.value, r.message, r.finished_us, r.detail) for r in rows]
        yield Query(self._match, rows=Rows("innttnt", values))
        yield Query(self._to_history)
        yield Query(self._from_active)
        yield Query(self._free)
        [(text, keyed)] = yield Query(self._answer_settle)
        behind = yield Query(self._behind)
        freed = (yield Query(self._freed_keys)) if keyed else []
        return [bytes.fromhex(i) for i in msgspec.json.decode(text)], sorted(row[0] for row in behind), freed


def _admitted(found: list[Row]) -> list[Admitted]:
    rows: list[list[Any]] = msgspec.json.decode(found[0][0])
    return [Admitted(bytes.fromhex(i), bytes.fromhex(job), Status(status), token) for i, job, status, token in rows]


def _claimed(found: list[Row]) -> list[Claimed]:
    rows: list[list[Any]] = msgspec.json.decode(found[0][0])
    return [Claimed(bytes.fromhex(r[0]), bytes.fromhex(r[1]), r[2], Cause(r[3]), *r[4:]) for r in rows]
