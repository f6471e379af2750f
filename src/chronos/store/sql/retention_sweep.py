"""Background sweep: walks all jobs, dead letters, concurrency keys and tombstones, one page per Trim command.

After each pass it pauses for an hour. It finds what no event triggers: expired history of jobs that rarely run, done
jobs, old dead letters, unused keys, and names that no record uses. Its position is one number in ``meta``: the stage
and the last id.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import NamedTuple

from chronos.core.ids import ID_BYTES, id_floor, job_ids
from chronos.core.job import ONE_OFF_TAG, JobSpec, JobState, Unreadable
from chronos.store.commands import Trim
from chronos.store.sql import row_mappers as record
from chronos.store.sql.executions.gates import to_id_rows
from chronos.store.sql.jobs.delete import JobDeletes
from chronos.store.sql.jobs.dependencies import OWN_OUTCOME, JobDependencies
from chronos.store.sql.query import Dialect, Query, Row, Steps
from chronos.store.sql.retention_deletes import ZERO_ID, ExpiredRows, RetentionDeletes

TOMBSTONES_KEPT_US = 400 * 86_400 * 1_000_000
_SWEEP_INTERVAL_US = 3_600 * 1_000_000
_JOBS_PER_PAGE = 100
_ROWS_PER_PAGE = 1_000
_MAX_COUNTED_HISTORY_ROWS = 100_000  # approximate limit per page
_SMALL_KEEP_COUNT = 64  # a larger keep_count is only counted for jobs that ran more often than that
_MAX_FORGOTTEN_INCARNATIONS = 100  # a name with more incarnations keeps its tombstone
_STAGE_FACTOR = 1 << 8 * ID_BYTES
_POSITION_NAME = "trim_round"
_DONE = int(JobState.DONE)


class _Page(NamedTuple):
    """The number of deleted rows and the last id of a page; None after the last page."""

    deleted_rows: int
    last: int | None = None


class _SweptJob(NamedTuple):
    """A job of the current page."""

    job: bytes
    number: int
    keep_count: int
    keep_age_us: int
    seq: int
    state: int
    open: int
    done_us: int
    first: bytes | None  # oldest id of its history

    @property
    def may_exceed_keep_count(self) -> bool:
        """Whether the sweep counts the history. Jobs with a very large keep_count are trimmed as they run."""
        if self.first is None or self.keep_count > _MAX_COUNTED_HISTORY_ROWS:
            return False
        return self.seq > self.keep_count or self.keep_count < _SMALL_KEEP_COUNT


class RetentionSweep:
    """Sweeps one page per command."""

    def __init__(self, d: Dialect, deletes: RetentionDeletes, job_deletes: JobDeletes) -> None:
        self._deletes, self._job_deletes, self._dependencies = deletes, job_deletes, JobDependencies(d)
        self._stages: tuple[Callable[[Trim, bytes, int], Steps[_Page]], ...] = (
            self._sweep_jobs,
            self._sweep_dead_letters,
            self._sweep_keys,
            self._sweep_tombstones,
        )
        self._select_position = f"select value from meta where name = '{_POSITION_NAME}' {d.lock_or_skip()}"
        self._insert_position = (
            f"insert into meta (name, value) values ('{_POSITION_NAME}', '0') on conflict do nothing"
        )
        self._write_position = f"update meta set value = $1 where name = '{_POSITION_NAME}'"
        self._gates = """
            select g.job, g.number, coalesce(p.keep_count, g.keep_count), coalesce(p.keep_age_us, g.keep_age_us),
                g.seq, g.state, g.active + g.queued, g.done_us,
                (select h.id from history as h where h.number = g.number and h.job = g.job order by h.id limit 1)
            from gate as g left join profile as p on p.number = g.profile
            where g.job > $1 order by g.job limit $2"""
        self._still_done = f"""
            select job from gate where {d.one_of("job", 1)} and state = {_DONE} and active + queued = 0
                and (select 1 from active as a where a.job = gate.job limit 1) is null
            order by job {d.lock_or_skip()}"""
        self._following = (
            f"select follower from job_after where {d.one_of('follower', 1)} and outcome <> '{OWN_OUTCOME}'"
        )
        self._named = f"""
            select id, namespace, name, incarnation, updated_us, owner, spec from job where {d.is_job_of("job", 1)}
            order by id"""
        self._old_letters = """
            select l.execution, l.failed_us, (
                select p.keep_age_us from gate as g join profile as p on p.number = g.profile where g.job = l.job)
            from dead_letter as l where l.execution > $1 and l.execution < $3 order by l.execution limit $2"""
        self._drop_letters = f"delete from dead_letter where {d.one_of('execution', 1)} returning execution"
        self._select_keys = "select key, active + queued from key_gate where key > $1 order by key limit $2"
        self._drop_keys = f"""
            with idle as materialized (
                select key from key_gate where {d.one_of("key", 1)} and active = 0 and queued = 0
                order by key {d.lock_or_skip()}
            )
            delete from key_gate where {d.among("key", "select key from idle")} returning key"""
        self._select_tombstones = """
            select job, namespace, name, incarnation, deleted_us from tombstone where job > $1 order by job limit $2"""
        self._known = f"select job from remains where {d.one_of('job', 1)}"
        self._drop_versions = f"delete from job_version where {d.one_of('job', 1)}"
        self._drop_tombstones = f"delete from tombstone where deleted_us < $1 and {d.one_of('job', 2)} returning job"

    def sweep(self, command: Trim, limit: int) -> Steps[int]:
        """Continue the sweep with at most one page of each stage. Returns the number of deleted rows."""
        position = yield from self._read_position()
        if position is None:
            return 0
        stage, last = divmod(position, _STAGE_FACTOR)
        if stage >= len(self._stages):
            if command.now_us < last <= command.now_us + _SWEEP_INTERVAL_US:
                return 0
            stage, last = 0, 0
        left = limit
        while stage < len(self._stages) and left > 0:
            page = yield from self._stages[stage](command, last.to_bytes(ID_BYTES), left)
            left -= page.deleted_rows
            if page.last is not None:
                last = page.last
                break
            stage, last = stage + 1, 0
        if stage >= len(self._stages):
            last = command.now_us + _SWEEP_INTERVAL_US
        yield Query(self._write_position, (str(stage * _STAGE_FACTOR + last),))
        return limit - left

    def _read_position(self) -> Steps[int | None]:
        """Lock and return the position; None if another node is sweeping."""
        rows = yield Query(self._select_position)
        if not rows:
            yield Query(self._insert_position)
            rows = yield Query(self._select_position)
        return int(rows[0][0]) if rows else None

    # --- jobs

    def _sweep_jobs(self, command: Trim, after: bytes, limit: int) -> Steps[_Page]:
        size = min(_JOBS_PER_PAGE, limit)
        swept = [_SweptJob(*row) for row in (yield Query(self._gates, (after, size)))]
        more = len(swept) == size
        count = _count_jobs_to_sweep(swept)
        more, swept = more or count < len(swept), swept[:count]
        counted = [
            (job_row.job, job_row.number, job_row.keep_count) for job_row in swept if job_row.may_exceed_keep_count
        ]
        cuts = yield from self._deletes.find_cuts(counted)
        old = []
        for job_row in swept:
            before_us = command.now_us - job_row.keep_age_us
            if job_row.job in cuts or (job_row.first is not None and job_row.first <= id_floor(before_us)):
                old.append(ExpiredRows(job_row.job, job_row.number, before_us, cuts.get(job_row.job, ZERO_ID)))
        deleted_rows, unfinished = yield from self._deletes.delete_expired(old, limit)
        if unfinished:
            return _Page(deleted_rows, _position_before(min(unfinished)))
        done = [
            job_row
            for job_row in swept
            if job_row.state == _DONE and not job_row.open and job_row.done_us < command.now_us - job_row.keep_age_us
        ]
        room = limit - deleted_rows
        deleted_rows += yield from self._delete_done_jobs(done[:room], command.now_us)
        if len(done) > room:
            return _Page(deleted_rows, _position_before(done[room].job))
        return _Page(deleted_rows, int.from_bytes(swept[-1].job) if more else None)

    def _delete_done_jobs(self, done: Sequence[_SweptJob], now_us: int) -> Steps[int]:
        """Delete done jobs that have no history left. Returns their number.

        Kept are jobs that follow others, and jobs that would be created again: those of an owner, and functions, which
        a program declares at each start.
        """
        by_id = {job_row.job: job_row for job_row in done}
        free = [row[0] for row in (yield Query(self._still_done, rows=to_id_rows(by_id)))] if by_id else []
        if not free:
            return 0
        kept = yield from self._deletes.find_jobs_with_history([(job, by_id[job].number) for job in free])
        kept |= {row[0] for row in (yield Query(self._following, rows=to_id_rows(free)))}
        rows: list[Row] = yield Query(self._named, rows=to_id_rows(job for job in free if job not in kept))
        deleted = [
            row[:4]
            for row in rows
            if row[4] < now_us - by_id[row[0]].keep_age_us
            and row[5] is None
            and not _is_declared(record.to_job_spec(row[6]))
        ]
        if deleted:
            yield from self._dependencies.remove([row[0] for row in deleted])
            yield from self._job_deletes.delete_jobs(deleted, Counter({_DONE: len(deleted)}), now_us)
        return len(deleted)

    # --- dead letters, keys, tombstones

    def _sweep_dead_letters(self, command: Trim, after: bytes, limit: int) -> Steps[_Page]:
        """Delete dead letters that neither the server's nor their job's retention keeps."""
        size = min(_ROWS_PER_PAGE, limit)
        latest = id_floor(command.now_us - command.keep_deleted_us)
        rows = yield Query(self._old_letters, (after, size, latest))
        old = [
            execution
            for execution, failed_us, keep_age_us in rows
            if failed_us < command.now_us - max(command.keep_deleted_us, keep_age_us or 0)
        ]
        deleted_rows = len((yield Query(self._drop_letters, rows=to_id_rows(old)))) if old else 0
        return _Page(deleted_rows, int.from_bytes(rows[-1][0]) if len(rows) == size else None)

    def _sweep_keys(self, command: Trim, after: bytes, limit: int) -> Steps[_Page]:
        """Delete concurrency keys that no execution holds or waits for. They are created again when used."""
        size = min(_ROWS_PER_PAGE, limit)
        rows = yield Query(self._select_keys, (after, size))
        idle = [key for key, used in rows if not used]
        deleted_rows = len((yield Query(self._drop_keys, rows=to_id_rows(idle)))) if idle else 0
        return _Page(deleted_rows, int.from_bytes(rows[-1][0]) if len(rows) == size else None)

    def _sweep_tombstones(self, command: Trim, after: bytes, limit: int) -> Steps[_Page]:
        """Delete tombstones of jobs without records. A new job of that name may reuse the first id."""
        size = min(_ROWS_PER_PAGE, limit)
        before_us = command.now_us - max(TOMBSTONES_KEPT_US, command.keep_deleted_us)
        rows = yield Query(self._select_tombstones, (after, size))
        all_ids = {
            job: job_ids((namespace, name, n) for n in range(1, incarnation + 1))
            for job, namespace, name, incarnation, deleted_us in rows
            if deleted_us < before_us and incarnation <= _MAX_FORGOTTEN_INCARNATIONS
        }
        deleted_rows = 0
        if all_ids:
            rows_of_ids = to_id_rows(job for ids in all_ids.values() for job in ids)
            known = {row[0] for row in (yield Query(self._known, rows=rows_of_ids))}
            forgotten = [job for job, ids in all_ids.items() if known.isdisjoint(ids)]
            if forgotten:
                yield Query(self._drop_versions, rows=to_id_rows(id_ for job in forgotten for id_ in all_ids[job]))
                deleted_rows = len((yield Query(self._drop_tombstones, (before_us,), to_id_rows(forgotten))))
        return _Page(deleted_rows, int.from_bytes(rows[-1][0]) if len(rows) == size else None)


def _is_declared(spec: JobSpec) -> bool:
    """Return whether a program may declare the job. One-off runs have a job that no program declares."""
    if isinstance(spec, Unreadable):
        return True
    return ONE_OFF_TAG not in spec.tags and any(task.target.kind == "python" for task in spec.tasks)


def _position_before(job: bytes) -> int:
    """Return the position from which the sweep continues with this job."""
    return int.from_bytes(job) - 1


def _count_jobs_to_sweep(swept: Sequence[_SweptJob]) -> int:
    """Return how many jobs of a page to sweep, at least one, so that the counted history stays bounded."""
    entries = 0
    for index, job_row in enumerate(swept):
        entries += min(job_row.keep_count, job_row.seq) if job_row.may_exceed_keep_count else 0
        if entries > _MAX_COUNTED_HISTORY_ROWS and index > 0:
            return index
    return len(swept)
