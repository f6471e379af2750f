"""Steps for Trim: deletes expired rows, the oldest first. The same on every engine.

Jobs that run often are trimmed as they run, deleted jobs at intervals, and everything else by the background sweep
(``retention_sweep``). On PostgreSQL, ``postgres.partitions`` also drops whole weeks of history.
"""

from chronos.core.ids import id_floor
from chronos.store.commands import Trim
from chronos.store.sql.append_only import AppendOnlyTables
from chronos.store.sql.executions.gates import to_id_rows
from chronos.store.sql.job_days import JobDayRows
from chronos.store.sql.jobs.delete import JobDeletes
from chronos.store.sql.query import Dialect, Query, Row, Rows, Steps
from chronos.store.sql.retention_deletes import ZERO_ID, ExpiredRows, RetentionDeletes
from chronos.store.sql.retention_sweep import RetentionSweep

IDEMPOTENCY_KEPT_US = 7 * 86_400 * 1_000_000
AUDIT_KEPT_US = 400 * 86_400 * 1_000_000
NODES_KEPT_US = 30 * 86_400 * 1_000_000
_JOBS_PER_TRIM = 100
_CHECKS_PER_DELETED_JOB = 32  # during the retention of its history
_MIN_CHECK_INTERVAL_US = 3_600 * 1_000_000  # limits the checks of deleted jobs


class TrimHandler:
    """Applies Trim commands, step by step."""

    def __init__(self, d: Dialect, records: AppendOnlyTables) -> None:
        self._deletes, self._days = RetentionDeletes(d), JobDayRows(d)
        self._sweep = RetentionSweep(d, self._deletes, JobDeletes(d, records))
        # Served by an index: jobs that ran 64 times since they were last trimmed, or a 64th of their keep_count if that
        # is more, because that many rows have to be counted.
        self._select_busy_gates = """
            select g.job, g.number, p.keep_count, p.keep_age_us, g.seq
            from gate as g join profile as p on p.number = g.profile
            where g.seq - g.trimmed >= 64 and g.seq - g.trimmed >= p.keep_count / 64 order by g.job limit $1"""
        self._select_unlocked = f"select job from gate where {d.one_of('job', 1)} order by job {d.lock_or_skip()}"
        self._mark_trimmed = f"""
            update gate as g set trimmed = i.seq from {d.rows(1, "job:i seq:n")} as i
            where {d.within("g.job", 1)} and g.job = i.job"""
        self._remains = """
            select r.job, coalesce((select o.number from gone as o where o.job = r.job), 0), r.namespace
            from remains as r where r.look_us <= $1 order by r.look_us, r.job limit $2"""
        self._open = f"""
            select i.job, (select a.id from active as a where a.job = i.job limit 1)
            from {d.rows(1, "job:i")} as i"""
        self._select_jobs_with_dead_letters = (
            f"select distinct job from dead_letter where namespace = $1 and {d.one_of('job', 2)}"
        )
        self._postpone_remains = f"update remains set look_us = $1 where {d.one_of('job', 2)}"
        self._drop_remains = f"delete from remains where {d.one_of('job', 1)}"
        self._drop_versions = f"delete from job_version where {d.one_of('job', 1)}"
        self._drop_keys = """
            delete from idempotency where created_us < $1 and created_us <= coalesce(
                (select created_us from idempotency where created_us < $1 order by created_us limit 1 offset $2), $1)"""
        oldest_lines = "select id from audit where id < $1 order by id limit $2"
        self._drop_audit = f"delete from audit where {d.among('id', oldest_lines)} returning id"
        self._select_stopped_nodes = """
            select number from node
            where coalesce(stopped_us, beat_us) < $1 and number < (select max(number) from node)
            order by number limit $2"""
        self._select_owners = f"""
            select distinct owner from active where {d.one_of("owner", 1, "n")}
            union select distinct owner from outbox where {d.one_of("owner", 1, "n")}"""
        self._drop_nodes = f"""
            delete from node where coalesce(stopped_us, beat_us) < $1 and {d.one_of("number", 2, "n")}
            returning number"""

    def trim(self, command: Trim) -> Steps[int]:
        """See ``Trim``."""
        yield Query(self._drop_keys, (command.now_us - IDEMPOTENCY_KEPT_US, command.limit))
        left = command.limit
        for part in (
            self._trim_busy_jobs,
            self._sweep.sweep,
            self._trim_deleted_jobs,
            self._trim_audit,
            self._trim_nodes,
            self._trim_days,
        ):
            if left > 0:
                left -= yield from part(command, left)
        return command.limit - left

    def _trim_busy_jobs(self, command: Trim, limit: int) -> Steps[int]:
        """Trim jobs that ran often since they were last trimmed."""
        gates: list[Row] = yield Query(self._select_busy_gates, (min(limit, _JOBS_PER_TRIM),))
        if not gates:
            return 0
        cuts = yield from self._deletes.find_cuts([gate[:3] for gate in gates])
        old = [
            ExpiredRows(job, number, command.now_us - age_us, cuts.get(job, ZERO_ID))
            for job, number, _, age_us, _ in gates
        ]
        dropped, unfinished = yield from self._deletes.delete_expired(old, limit)
        seen = {job: seq for job, *_, seq in gates if job not in unfinished}
        free = [row[0] for row in (yield Query(self._select_unlocked, rows=to_id_rows(seen)))] if seen else []
        if free:
            yield Query(self._mark_trimmed, rows=Rows("in", [(job, seen[job]) for job in free]))
        return dropped

    def _trim_deleted_jobs(self, command: Trim, limit: int) -> Steps[int]:
        """Trim the history of deleted jobs. They have no gate, so the retention comes from the command."""
        jobs: list[Row] = yield Query(self._remains, (command.now_us, min(limit, _JOBS_PER_TRIM)))
        if not jobs:
            return 0
        old = [ExpiredRows(job, number, command.now_us - command.keep_deleted_us) for job, number, _ in jobs]
        dropped, unfinished = yield from self._deletes.delete_expired(old, limit)
        seen = [row for row in jobs if row[0] not in unfinished]
        kept = yield from self._find_recorded_jobs(seen)
        if kept:
            again_us = command.now_us + max(command.keep_deleted_us // _CHECKS_PER_DELETED_JOB, _MIN_CHECK_INTERVAL_US)
            yield Query(self._postpone_remains, (again_us,), to_id_rows(sorted(kept)))
        if emptied := [job for job, *_ in seen if job not in kept]:
            yield Query(self._drop_versions, rows=to_id_rows(emptied))
            yield from self._days.drop_jobs(emptied)
            yield Query(self._drop_remains, rows=to_id_rows(emptied))
        return dropped

    def _find_recorded_jobs(self, jobs: list[Row]) -> Steps[set[bytes]]:
        """Return which of these deleted jobs still have an execution, open or ended, or a dead letter."""
        kept = yield from self._deletes.find_jobs_with_history([row[:2] for row in jobs])
        if rest := [job for job, *_ in jobs if job not in kept]:
            kept |= {job for job, open_id in (yield Query(self._open, rows=to_id_rows(rest))) if open_id is not None}
        named: dict[str, list[bytes]] = {}
        for job, _, namespace in jobs:
            if job not in kept and namespace is not None:
                named.setdefault(namespace, []).append(job)
        for namespace, own in sorted(named.items()):
            kept |= {
                row[0] for row in (yield Query(self._select_jobs_with_dead_letters, (namespace,), to_id_rows(own)))
            }
        return kept

    def _trim_audit(self, command: Trim, limit: int) -> Steps[int]:
        return len((yield Query(self._drop_audit, (id_floor(command.now_us - AUDIT_KEPT_US), limit))))

    def _trim_days(self, command: Trim, limit: int) -> Steps[int]:
        return (yield from self._days.drop_old(command.now_us, limit))

    def _trim_nodes(self, command: Trim, limit: int) -> Steps[int]:
        """Delete nodes that stopped long ago, unless they still own executions or outbox items."""
        before_us = command.now_us - NODES_KEPT_US
        stopped = yield Query(self._select_stopped_nodes, (before_us, limit))
        if not stopped:
            return 0
        numbers = [row[0] for row in stopped]
        owners = {
            row[0] for row in (yield Query(self._select_owners, rows=Rows("n", [(number,) for number in numbers])))
        }
        free = [(number,) for number in numbers if number not in owners]
        return len((yield Query(self._drop_nodes, (before_us,), Rows("n", free))))
