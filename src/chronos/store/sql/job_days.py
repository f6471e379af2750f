"""The days of jobs: counted from history when it is trimmed, and kept for longer than history.

Trimmed rows are counted in the transaction that deletes them, so every run counts once: as history or as a day.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from chronos.core.ids import id_floor
from chronos.core.job import JobSpec, Unreadable
from chronos.core.schedule.timezones import Zone, get_zone
from chronos.errors import InvalidSchedule
from chronos.store.day_counts import (
    Days,
    EndedRun,
    add_days,
    count_days,
    read_month,
    split_months,
    to_month,
    write_month,
)
from chronos.store.overview import JobDays
from chronos.store.sql import row_mappers as record
from chronos.store.sql.executions.gates import to_id_rows
from chronos.store.sql.executions.run_list import history_of_job_sql
from chronos.store.sql.query import Dialect, Query, Rows, Steps

DAYS_KEPT_US = 400 * 86_400 * 1_000_000
COUNTED_COLUMNS = "id, status, scheduled_us, started_us, finished_us, attempt, until_us, count"
_MAX_COUNTED_ROWS = 20_000
_UTC = "UTC"


class TrimmedRun(NamedTuple):
    """A deleted row of history."""

    job: bytes
    run: EndedRun


class JobDayRows:
    """Reads and writes the days of jobs."""

    def __init__(self, d: Dialect) -> None:
        self._specs = f"select id, name, spec from job where {d.is_job_of('job', 1)}"
        months = d.rows(1, "job:i month:n")
        self._create = f"""
            insert into job_month (job, month, days) select i.job, i.month, '{{}}' from {months} as i where true
            order by i.job, i.month on conflict do nothing"""
        self._lock = f"""
            select m.job, m.month, m.days from job_month as m join {months} as i
            on m.job = i.job and m.month = i.month where {d.within("m.job", 1)}
            order by m.job, m.month {d.lock().replace("for update", "for update of m")}"""
        self._write = f"""
            update job_month as m set days = i.days from {d.rows(1, "job:i month:n days:t")} as i
            where {d.within("m.job", 1)} and m.job = i.job and m.month = i.month"""
        self._read = "select month, days from job_month where job = $1 and month >= $2 and month <= $3 order by month"
        self._history = f"""
            select {COUNTED_COLUMNS} from history
            where {history_of_job_sql("history", "$1")} and id >= $2 and id < $3 order by id desc limit $4"""
        self._drop_old = """
            delete from job_month where (month, job) in (
                select month, job from job_month where month < $1 order by month, job limit $2) returning job"""
        self._drop_of_jobs = f"delete from job_month where {d.one_of('job', 1)}"

    def add(self, trimmed: Sequence[TrimmedRun]) -> Steps[None]:
        """Count rows of history that were just deleted. Rows of deleted jobs are not counted."""
        by_job: dict[bytes, list[EndedRun]] = {}
        for job, run in trimmed:
            by_job.setdefault(job, []).append(run)
        if not by_job:
            return
        zones = {
            job: _find_zone(record.to_job_spec(spec), name)
            for job, name, spec in (yield Query(self._specs, rows=to_id_rows(sorted(by_job))))
        }
        counted: dict[tuple[bytes, int], Days] = {}
        for job, zone in sorted(zones.items()):
            for month, days in split_months(count_days(by_job[job], zone)).items():
                counted[job, month] = days
        if not counted:
            return
        keys = sorted(counted)
        yield Query(self._create, rows=Rows("in", keys))
        before = {
            (job, month): read_month(month, text)
            for job, month, text in (yield Query(self._lock, rows=Rows("in", keys)))
        }
        rows = [(*key, write_month(add_days(before.get(key, {}), counted[key]))) for key in keys]
        yield Query(self._write, rows=Rows("int", rows))

    def read(self, job: bytes, zone: str, from_us: int, to_us: int) -> Steps[JobDays]:
        """See ``Store.job_days``."""
        clock = get_zone(zone)
        first, last = (to_month(at_us // 86_400_000_000) for at_us in (from_us, to_us))
        kept: Days = {}
        for month, text in (yield Query(self._read, (job, first - 1, last + 1))):
            kept |= read_month(month, text)
        rows = yield Query(self._history, (job, id_floor(from_us), id_floor(to_us), _MAX_COUNTED_ROWS + 1))
        runs = [EndedRun(*row) for row in rows[:_MAX_COUNTED_ROWS]]
        return JobDays(days=add_days(kept, count_days(runs, clock)), complete=len(rows) <= _MAX_COUNTED_ROWS)

    def drop_old(self, now_us: int, limit: int) -> Steps[int]:
        """Delete months that are kept long enough. Returns the number of rows."""
        oldest = to_month((now_us - DAYS_KEPT_US) // 86_400_000_000)
        return len((yield Query(self._drop_old, (oldest, limit))))

    def drop_jobs(self, jobs: Iterable[bytes]) -> Steps[None]:
        """Delete the days of deleted jobs."""
        yield Query(self._drop_of_jobs, rows=to_id_rows(jobs))


def _find_zone(spec: JobSpec, name: str) -> Zone:
    if isinstance(spec, Unreadable) or spec.schedule is None:
        return get_zone(_UTC)
    try:
        return spec.schedule.parse(name).zone
    except InvalidSchedule:
        return get_zone(_UTC)
