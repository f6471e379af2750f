"""Finds and deletes expired history of jobs: too old, or beyond keep_count. It is counted by day (``job_days``).

An id starts with the instant of the execution, which may have run much later. So expired rows are searched among old
ids, which are stored together, and tested by the time they ended.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from chronos.core.ids import ID_BYTES, id_floor
from chronos.store.day_counts import EndedRun
from chronos.store.sql.executions.gates import to_id_rows
from chronos.store.sql.job_days import COUNTED_COLUMNS, JobDayRows, TrimmedRun
from chronos.store.sql.query import Dialect, Query, Rows, Steps

ZERO_ID = bytes(ID_BYTES)
_HISTORY_OF_ROW = "h.number = i.number and h.job = i.job"


class ExpiredRows(NamedTuple):
    """The expired history of a job: rows that ended before ``before_us``, and all rows up to the id ``all_to``."""

    job: bytes
    number: int
    before_us: int
    all_to: bytes = ZERO_ID


class RetentionDeletes:
    """Deletes expired history, with its attempts and output."""

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
        doomed_ids = f"select expired.id from {expired} as expired"  # PostgreSQL before 16 requires the alias
        self._days = JobDayRows(d)
        self._drop = f"delete from history where {d.among('id', doomed_ids)} returning job, {COUNTED_COLUMNS}"
        self._drop_attempts = f"delete from attempt where {d.one_of('execution', 1)}"
        self._drop_output = f"delete from output where {d.one_of('execution', 1)}"
        self._first = f"""
            select i.job, (select h.id from history as h where {_HISTORY_OF_ROW} order by h.id limit 1)
            from {d.rows(1, "job:i number:n")} as i"""

    def find_cuts(self, jobs: Iterable[tuple[bytes, int, int]]) -> Steps[dict[bytes, bytes]]:
        """Return the latest id beyond keep_count, for jobs given as (id, number, keep_count) that have one."""
        by_keep_count: dict[int, list[tuple[bytes, int]]] = {}
        for job, number, keep_count in jobs:
            by_keep_count.setdefault(keep_count, []).append((job, number))
        cuts: dict[bytes, bytes] = {}
        for keep_count, group in sorted(by_keep_count.items()):
            rows = yield Query(self._cuts, (keep_count,), Rows("in", group))
            cuts.update((job, cut) for job, cut in rows if cut is not None)
        return cuts

    def delete_expired(self, old: Sequence[ExpiredRows], limit: int) -> Steps[tuple[int, set[bytes]]]:
        """Delete expired rows, the oldest of each job first.

        - Bounded: ``limit`` rows. Each job gets an equal share; jobs with more share what the others leave.
        - Returns (number of rows, jobs that may have more).
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
            deleted = yield Query(self._drop, (share,), Rows("iniin", rows))
            trimmed = [TrimmedRun(row[0], EndedRun(*row[1:])) for row in deleted]
            if trimmed:
                yield Query(self._drop_attempts, rows=to_id_rows(row.run.id for row in trimmed))
                yield Query(self._drop_output, rows=to_id_rows(row.run.id for row in trimmed))
                yield from self._days.add(trimmed)
            left -= len(trimmed)
            count: dict[bytes, int] = {}
            for job, _ in trimmed:
                count[job] = count.get(job, 0) + 1
            waiting = [entry for entry in now if count.get(entry.job) == share] + later
        return limit - left, {entry.job for entry in waiting}

    def find_jobs_with_history(self, jobs: Sequence[tuple[bytes, int]]) -> Steps[set[bytes]]:
        """Return which of these jobs, as (id, number), have any history."""
        rows = yield Query(self._first, rows=Rows("in", jobs))
        return {job for job, first in rows if first is not None}
