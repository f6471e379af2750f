"""The round: jobs, dead letters, concurrency keys and tombstones are walked through, a page a command, then it rests.

So everything is looked at sooner or later, though nothing says that it is time: what jobs that seldom run keep too
long, one-time jobs that are done, dead letters that nobody cared for, keys that nobody uses, names that nobody knows.
Where the round is stands in ``meta``, as one number: the stage, and behind it the id that was looked at last.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import NamedTuple

from chronos.core.ids import ID_BYTES, id_floor, job_ids
from chronos.core.job import JobSpec, JobState, Unreadable
from chronos.store.commands import Trim
from chronos.store.sql import row_mappers as record
from chronos.store.sql.executions.gates import to_id_rows
from chronos.store.sql.jobs.delete import JobDeletes
from chronos.store.sql.jobs.dependencies import OWN_OUTCOME, JobDependencies
from chronos.store.sql.query import Dialect, Query, Row, Steps
from chronos.store.sql.retention_deletes import ZERO_ID, ExpiredRows, RetentionDeletes

TOMBSTONES_KEPT_US = 400 * 86_400 * 1_000_000
_SWEEP_INTERVAL_US = 3_600 * 1_000_000
_JOBS_PER_PAGE = 100  # of a page
_ROWS_PER_PAGE = 1_000
_MAX_COUNTED_HISTORY_ROWS = 100_000  # of history that are counted for a page, about
_SMALL_KEEP_COUNT = 64  # to keep: counting more than that is for jobs that ran so often
_MAX_FORGOTTEN_INCARNATIONS = 100  # names that were used more often keep their tombstone
_STAGE_FACTOR = 1 << 8 * ID_BYTES
_POSITION_NAME = "trim_round"
_DONE = int(JobState.DONE)


class _Page(NamedTuple):
    """How much deleted_rows, and the last id of the page; None: there is no other page."""

    deleted_rows: int
    last: int | None = None


class _SweptJob(NamedTuple):
    """A job, as the round comes by."""

    job: bytes
    number: int
    keep_count: int
    keep_age_us: int
    seq: int
    state: int
    open: int
    done_us: int
    first: bytes | None  # of its history

    @property
    def may_exceed_keep_count(self) -> bool:
        """As far as the round cares: those that keep very much are looked at as they run."""
        if self.first is None or self.keep_count > _MAX_COUNTED_HISTORY_ROWS:
            return False
        return self.seq > self.keep_count or self.keep_count < _SMALL_KEEP_COUNT


class RetentionSweep:
    """Statements and steps."""

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
            select g.job, g.number, g.keep_count, g.keep_age_us, g.seq, g.state, g.active + g.queued, g.done_us,
                (select h.id from history as h where h.number = g.number and h.job = g.job order by h.id limit 1)
            from gate as g where g.job > $1 order by g.job limit $2"""
        self._still_done = f"""
            select job from gate where {d.one_of("job", 1)} and state = {_DONE} and active + queued = 0
            order by job {d.lock_or_skip()}"""
        self._following = (
            f"select follower from job_after where {d.one_of('follower', 1)} and outcome <> '{OWN_OUTCOME}'"
        )
        self._named = f"""
            select id, namespace, name, incarnation, updated_us, owner, spec from job where {d.is_job_of("job", 1)}
            order by id"""
        self._old_letters = """
            select l.execution, l.failed_us, (select g.keep_age_us from gate as g where g.job = l.job)
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
        """Go on with the round, a page of each stage at most."""
        place = yield from self._read_position()
        if place is None:
            return 0
        stage, last = divmod(place, _STAGE_FACTOR)
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
        """Where the round is; None: somebody else is at it."""
        found = yield Query(self._select_position)
        if not found:
            yield Query(self._insert_position)
            found = yield Query(self._select_position)
        return int(found[0][0]) if found else None

    # --- jobs

    def _sweep_jobs(self, command: Trim, after: bytes, limit: int) -> Steps[_Page]:
        size = min(_JOBS_PER_PAGE, limit)
        swept = [_SweptJob(*row) for row in (yield Query(self._gates, (after, size)))]
        more = len(swept) == size
        few = _count_jobs_to_sweep(swept)
        more, swept = more or few < len(swept), swept[:few]
        many = [(one.job, one.number, one.keep_count) for one in swept if one.may_exceed_keep_count]
        cuts = yield from self._deletes.find_cuts(many)
        old = []
        for one in swept:
            before_us = command.now_us - one.keep_age_us
            if one.job in cuts or (one.first is not None and one.first <= id_floor(before_us)):
                old.append(ExpiredRows(one.job, one.number, before_us, cuts.get(one.job, ZERO_ID)))
        deleted_rows, unfinished = yield from self._deletes.delete_expired(old, limit)
        if unfinished:
            return _Page(deleted_rows, _position_before(min(unfinished)))
        done = [
            one
            for one in swept
            if one.state == _DONE and not one.open and one.done_us < command.now_us - one.keep_age_us
        ]
        room = limit - deleted_rows
        deleted_rows += yield from self._delete_done_jobs(done[:room], command.now_us)
        if len(done) > room:
            return _Page(deleted_rows, _position_before(done[room].job))
        return _Page(deleted_rows, int.from_bytes(swept[-1].job) if more else None)

    def _delete_done_jobs(self, done: Sequence[_SweptJob], now_us: int) -> Steps[int]:
        """Jobs that are done go when nothing of them is left.

        But for those that follow others, and those that somebody would save again, to whom they were new: jobs of an
        owner, and functions, which a program declares each time it starts.
        """
        of = {one.job: one for one in done}
        free = [row[0] for row in (yield Query(self._still_done, rows=to_id_rows(of)))] if of else []
        if not free:
            return 0
        kept = yield from self._deletes.find_jobs_with_history([(job, of[job].number) for job in free])
        kept |= {row[0] for row in (yield Query(self._following, rows=to_id_rows(free)))}
        found: list[Row] = yield Query(self._named, rows=to_id_rows(job for job in free if job not in kept))
        deleted = [
            row[:4]
            for row in found
            if row[4] < now_us - of[row[0]].keep_age_us
            and row[5] is None
            and not _is_declared(record.to_job_spec(row[6]))
        ]
        if deleted:
            yield from self._dependencies.remove([row[0] for row in deleted])
            yield from self._job_deletes.delete_jobs(deleted, Counter({_DONE: len(deleted)}), now_us)
        return len(deleted)

    # --- all else

    def _sweep_dead_letters(self, command: Trim, after: bytes, limit: int) -> Steps[_Page]:
        """Dead letters, as long as the server keeps history, and their job does."""
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
        """Concurrency keys that nothing holds or waits for: whoever uses one next makes it anew."""
        size = min(_ROWS_PER_PAGE, limit)
        rows = yield Query(self._select_keys, (after, size))
        idle = [key for key, used in rows if not used]
        deleted_rows = len((yield Query(self._drop_keys, rows=to_id_rows(idle)))) if idle else 0
        return _Page(deleted_rows, int.from_bytes(rows[-1][0]) if len(rows) == size else None)

    def _sweep_tombstones(self, command: Trim, after: bytes, limit: int) -> Steps[_Page]:
        """Names of deleted jobs: the next of that name may have the id of the first, for nothing knows it any more."""
        size = min(_ROWS_PER_PAGE, limit)
        before_us = command.now_us - max(TOMBSTONES_KEPT_US, command.keep_deleted_us)
        rows = yield Query(self._select_tombstones, (after, size))
        of = {
            job: job_ids((namespace, name, n) for n in range(1, incarnation + 1))
            for job, namespace, name, incarnation, deleted_us in rows
            if deleted_us < before_us and incarnation <= _MAX_FORGOTTEN_INCARNATIONS
        }
        deleted_rows = 0
        if of:
            every = to_id_rows(job for own in of.values() for job in own)
            known = {row[0] for row in (yield Query(self._known, rows=every))}
            forgotten = [job for job, own in of.items() if known.isdisjoint(own)]
            if forgotten:
                yield Query(self._drop_versions, rows=to_id_rows(job for one in forgotten for job in of[one]))
                deleted_rows = len((yield Query(self._drop_tombstones, (before_us,), to_id_rows(forgotten))))
        return _Page(deleted_rows, int.from_bytes(rows[-1][0]) if len(rows) == size else None)


def _is_declared(spec: JobSpec) -> bool:
    return isinstance(spec, Unreadable) or any(task.target.kind == "python" for task in spec.tasks)


def _position_before(job: bytes) -> int:
    """Whoever goes on behind it comes to this job next."""
    return int.from_bytes(job) - 1


def _count_jobs_to_sweep(swept: Sequence[_SweptJob]) -> int:
    """How many jobs of a page are looked at, so that not too much of their history has to be counted; one at least."""
    entries = 0
    for place, one in enumerate(swept):
        entries += min(one.keep_count, one.seq) if one.may_exceed_keep_count else 0
        if entries > _MAX_COUNTED_HISTORY_ROWS and place > 0:
            return place
    return len(swept)
