"""History that is too old, or too much, for the jobs it is of: which it is, and how it goes. The same on every engine.

Ids begin with the instant of a run, which may be long ago when it is run late. So what is too old is looked for among
old ids, where it lies together, and judged by when it ended.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from chronos.core.ids import ID_BYTES, id_floor
from chronos.store.sql.executions.gates import to_id_rows
from chronos.store.sql.query import Dialect, Query, Rows, Steps

ZERO_ID = bytes(ID_BYTES)
_HISTORY_OF_ROW = "h.number = i.number and h.job = i.job"


class ExpiredRows(NamedTuple):
    """What of a job's history is to go: up to an id what ended before a time, up to another one everything."""

    job: bytes
    number: int
    before_us: int
    all_to: bytes = ZERO_ID


class RetentionDeletes:
    """Statements and steps."""

    def __init__(self, d: Dialect) -> None:
        jobs = d.rows(2, "job:i number:n")
        self._cuts = f"""
            select i.job, (select h.id from history as h where {_HISTORY_OF_ROW} order by h.id desc limit 1 offset $1)
            from {jobs} as i"""
        oldest = f"""
            select h.id from history as h
            where {_HISTORY_OF_ROW} and h.id <= i.upto and (h.id <= i.all_to or h.finished_us < i.before_us)
            order by h.id limit $1"""
        expired = d.ids_for_each(d.rows(2, "job:i number:n upto:i all_to:i before_us:n"), oldest)
        doomed_ids = f"select expired.id from {expired} as expired"  # PostgreSQL before 16 wants the alias
        self._drop = f"delete from history where {d.among('id', doomed_ids)} returning id, job"
        self._drop_attempts = f"delete from attempt where {d.one_of('execution', 1)}"
        self._drop_output = f"delete from output where {d.one_of('execution', 1)}"
        self._first = f"""
            select i.job, (select h.id from history as h where {_HISTORY_OF_ROW} order by h.id limit 1)
            from {d.rows(1, "job:i number:n")} as i"""

    def find_cuts(self, jobs: Iterable[tuple[bytes, int, int]]) -> Steps[dict[bytes, bytes]]:
        """Of jobs (id, number, how many to keep) that have more: the latest id that is not kept."""
        alike: dict[int, list[tuple[bytes, int]]] = {}
        for job, number, keep_count in jobs:
            alike.setdefault(keep_count, []).append((job, number))
        cuts: dict[bytes, bytes] = {}
        for keep_count, those in sorted(alike.items()):
            found = yield Query(self._cuts, (keep_count,), Rows("in", those))
            cuts.update((job, cut) for job, cut in found if cut is not None)
        return cuts

    def delete_expired(self, old: Sequence[ExpiredRows], limit: int) -> Steps[tuple[int, set[bytes]]]:
        """Delete it, the oldest of each job first. Answers how much went, and which jobs may have more of it.

        Each job gets an equal share of the limit; those that are not done with theirs share what the others left.
        """
        left = limit
        waiting = list(old)
        while waiting and left > 0:
            share = max(1, left // len(waiting))
            now, later = waiting[: left // share], waiting[left // share :]
            rows = [
                (job, number, max(id_floor(before_us), all_to), all_to, before_us)
                for job, number, before_us, all_to in now
            ]
            gone = yield Query(self._drop, (share,), Rows("iniin", rows))
            if gone:
                yield Query(self._drop_attempts, rows=to_id_rows(row[0] for row in gone))
                yield Query(self._drop_output, rows=to_id_rows(row[0] for row in gone))
            left -= len(gone)
            count: dict[bytes, int] = {}
            for _, job in gone:
                count[job] = count.get(job, 0) + 1
            waiting = [one for one in now if count.get(one.job) == share] + later
        return limit - left, {one.job for one in waiting}

    def find_jobs_with_history(self, jobs: Sequence[tuple[bytes, int]]) -> Steps[set[bytes]]:
        """Which of these jobs (id, number) have any history."""
        found = yield Query(self._first, rows=Rows("in", jobs))
        return {job for job, first in found if first is not None}
