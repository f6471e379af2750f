"""Append-only tables: attempts, outbox, dead letters, spans, audit log, idempotency keys; and the tally of jobs."""

from collections import Counter
from collections.abc import Iterable, Sequence
from hashlib import blake2b

from chronos.core.execution import Span, Status
from chronos.core.ids import id_floor
from chronos.core.job import JobState
from chronos.core.node import Actor
from chronos.store.commands import EndedAttempt, FollowUp, WriteAudit
from chronos.store.sql.query import Dialect, Query, Rows, Steps

AuditLineRow = tuple[str, str, str, str]  # action, namespace, subject, detail
EXECUTION_ENDED = "ended"  # kind of the outbox item for an ended execution of a followed job


class AppendOnlyTables:
    """Inserts rows into append-only tables. Inserting a row again has no effect."""

    def __init__(self, d: Dialect) -> None:
        attempt = "execution:i task:t number:n status:n started_us:n finished_us:n node:n error:t detail:t"
        self._attempts = f"""
            insert into attempt (execution, task, number, status, started_us, finished_us, node, error, detail)
            select * from {d.rows(1, attempt)} as i where true on conflict do nothing"""
        self._outbox = f"""
            insert into outbox (id, kind, target, execution, body, created_us)
            select * from {d.rows(1, "id:i kind:t target:t execution:i body:t created_us:n")} as i where true
            on conflict do nothing"""
        self._dead = f"""
            insert into dead_letter (execution, job, namespace, failed_us, code, message)
            select i.execution, i.job, coalesce((select j.namespace from job as j where {d.is_job("j", "i.job")}),
                (select t.namespace from tombstone as t where t.job = i.job), ''), i.failed_us, i.code, i.message
            from {d.rows(1, "execution:i job:i failed_us:n code:t message:t")} as i
            where true on conflict do nothing"""
        span = "id:i job:i version:n cause:n scheduled_us:n status:n code:t message:t now_us:n until_us:n count:n"
        self._spans = f"""
            insert into history (id, job, version, cause, scheduled_us, status, code, message, token, attempt,
                admitted_us, finished_us, until_us, count)
            select id, job, version, cause, scheduled_us, status, code, message, 0, 0, now_us, now_us, until_us, count
            from {d.rows(1, span)} as i where true on conflict do nothing"""
        self._count = f"""
            update tally set jobs = tally.jobs + i.count from {d.rows(1, "state:n count:n")} as i
            where tally.state = i.state"""
        entry = "id:i at_us:n actor:t action:t namespace:t subject:t origin:t detail:t"
        self._add_lines = f"""
            insert into audit (id, at_us, actor, action, namespace, subject, origin, detail)
            select * from {d.rows(1, entry)} as i where true on conflict do nothing"""
        self._select_idempotency_keys = f"""
            select key, execution from idempotency where namespace = $1 and {d.one_of("key", 2, "t")}"""
        self._remember = f"""
            insert into idempotency (namespace, key, execution, created_us)
            select $1, key, execution, $2 from {d.rows(3, "key:t execution:i")} as i"""
        self._name_of = f"""
            select namespace, name from job where {d.is_job("job", "$1")}
            union all select namespace, name from remains where job = $1 and name is not null"""

    def find_by_idempotency_key(self, namespace: str, key: str | None) -> Steps[bytes | None]:
        """Return the execution or job that a request with this key created, or None."""
        return None if key is None else (yield from self.find_by_idempotency_keys(namespace, [key])).get(key)

    def remember_idempotency_key(self, namespace: str, key: str | None, created: bytes, now_us: int) -> Steps[None]:
        """Record the execution or job that a request with an idempotency key created."""
        if key is not None:
            yield from self.remember_idempotency_keys(namespace, [(key, created)], now_us)

    def find_by_idempotency_keys(self, namespace: str, keys: Sequence[str]) -> Steps[dict[str, bytes]]:
        """Return the execution or job that each key created. Unknown keys are left out."""
        return dict((yield Query(self._select_idempotency_keys, (namespace,), Rows("t", [(key,) for key in keys]))))

    def remember_idempotency_keys(self, namespace: str, made: Iterable[tuple[str, bytes]], now_us: int) -> Steps[None]:
        """Record the executions or jobs that requests with idempotency keys created."""
        rows = Rows("ti", list(made))
        if rows.values:
            yield Query(self._remember, (namespace, now_us), rows)

    def add_to_tally(self, changes: Counter[int], sign: int = 1) -> Steps[None]:
        """Add to the number of jobs in each state; with ``sign`` -1, subtract."""
        rows = [(state, sign * count) for state, count in sorted(changes.items()) if count]
        if rows:
            yield Query(self._count, rows=Rows("nn", rows))

    def count_done_jobs(self, jobs: int) -> Steps[None]:
        """Move active jobs to the state done in the tally."""
        yield from self.add_to_tally(Counter({int(JobState.ACTIVE): -jobs, int(JobState.DONE): jobs}))

    def insert_attempts(self, rows: Iterable[EndedAttempt]) -> Steps[None]:
        """Record ended attempts."""
        values = [(*row[:3], int(row.status), *row[4:]) for row in rows]
        if values:
            yield Query(self._attempts, rows=Rows("itnnnnntt", values))

    def insert_follow_ups(self, items: Sequence[tuple[bytes, FollowUp]], now_us: int) -> Steps[None]:
        """Put the follow-ups of executions into the outbox."""
        values = [
            (
                time_ordered_id(now_us, b"outbox", execution, "\0".join(item).encode()),
                *item[:2],
                execution,
                item.body,
                now_us,
            )
            for execution, item in items
        ]
        if values:
            yield Query(self._outbox, rows=Rows("ittitn", values))

    def insert_ended_items(self, ends: Sequence[tuple[bytes, bytes, Status]], now_us: int) -> Steps[None]:
        """Put ended executions of followed jobs, as (execution, job, status), into the outbox."""
        body = '{{"execution":"{}","job":"{}","status":{:d}}}'.format
        items = [(e, FollowUp(EXECUTION_ENDED, "", body(e.hex(), job.hex(), status))) for e, job, status in ends]
        yield from self.insert_follow_ups(items, now_us)

    def insert_dead_letters(self, rows: Sequence[tuple[bytes, bytes, int, str, str | None]]) -> Steps[None]:
        """Record dead letters: (execution, job, time, code, message)."""
        if rows:
            yield Query(self._dead, rows=Rows("iintt", rows))

    def insert_spans(self, cause: int, spans: Iterable[tuple[int, Span]]) -> Steps[None]:
        """Record spans, each with the version of its job."""
        values = [
            (
                *(s.id, s.job, version, cause, s.from_us, int(s.status), s.reason.code.value, s.reason.message),
                *(s.recorded_us, s.to_us, s.count),
            )
            for version, s in spans
        ]
        if values:
            yield Query(self._spans, rows=Rows("iinnnnttnnn", values))

    def audit(
        self, actor: Actor, action: str, namespace: str, subject: str, at_us: int, detail: str = ""
    ) -> Steps[None]:
        """Write one line of the audit log."""
        yield from self.audit_lines_by_actor(actor, at_us, [(action, namespace, subject, detail)])

    def audit_execution(self, actor: Actor, action: str, job: bytes, at_us: int, detail: str) -> Steps[None]:
        """Write one line about an execution, under the name of its job, which may be deleted."""
        rows = yield Query(self._name_of, (job,))
        namespace, name = rows[0] if rows else ("", job.hex())
        yield from self.audit(actor, action, namespace, name, at_us, detail)

    def audit_lines_by_actor(self, actor: Actor, at_us: int, lines: Sequence[AuditLineRow]) -> Steps[None]:
        """Write lines of the audit log for one actor."""
        yield from self.audit_lines([(actor, at_us, line) for line in lines])

    def audit_lines(self, lines: Iterable[tuple[Actor, int, AuditLineRow]]) -> Steps[None]:
        """Write lines of the audit log, each with its actor and time."""
        values = [
            (
                time_ordered_id(
                    at_us, b"audit", "\0".join((actor.name, action, namespace, subject, detail, actor.origin)).encode()
                ),
                *(at_us, actor.name, action, namespace, subject, actor.origin, detail),
            )
            for actor, at_us, (action, namespace, subject, detail) in lines
        ]
        yield Query(self._add_lines, rows=Rows("intttttt", values))

    def write_audit(self, command: WriteAudit) -> Steps[None]:
        """See ``WriteAudit``."""
        lines = [
            (line.actor, command.now_us, (line.action, line.namespace, line.subject, line.detail))
            for line in command.lines
        ]
        yield from self.audit_lines(lines)


def time_ordered_id(at_us: int, *parts: bytes) -> bytes:
    """Return a deterministic id that sorts by time, to the microsecond."""
    fraction = (at_us % 1000).to_bytes(2)
    digest = blake2b(b"\0".join(parts) + at_us.to_bytes(8, signed=True), digest_size=8).digest()
    return id_floor(at_us)[:6] + fraction + digest
