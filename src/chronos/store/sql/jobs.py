"""Steps for jobs: save, delete, pause and resume. The same on every engine."""

from collections import Counter
from collections.abc import Sequence

import msgspec

from chronos.core.config import Overlap
from chronos.core.execution import Cancel, Cause, Status
from chronos.core.ids import job_id
from chronos.core.job import JobState
from chronos.core.policy import PRIORITY_STEP_US
from chronos.core.reasons import Code
from chronos.errors import Conflict, Invalid, NotFound
from chronos.store.commands import NEW, DeleteJob, JobRow, Saved, SaveJobs, SetJobState
from chronos.store.sql.dialect import Dialect, Query, Row, Rows
from chronos.store.sql.gates import OVERLAPS, Gate, Gates, Raced, Steps
from chronos.store.sql.records import Records

_GATE = (
    "job:i next_us:n version:n state:n overlap:n lim:n queue_max:n priority:n lane:n keyed:n keep_count:n keep_age_us:n"
)
_GATE_NAMES = ", ".join(column.split(":")[0] for column in _GATE.split())


class Jobs:
    """Statements and steps."""

    def __init__(self, d: Dialect, gates: Gates, records: Records) -> None:
        self._gates, self._records = gates, records
        self._mutex = d.mutex()
        names = d.rows(1, "namespace:t name:t")
        self._existing = f"""
            select j.namespace, j.name, j.id, j.version, j.spec from job as j join {names} as i
            on j.namespace = i.namespace and j.name = i.name
            where {d.within("j.namespace", 1)} and {d.within("j.name", 2)}"""
        self._buried = f"""
            select t.namespace, t.name, t.incarnation from tombstone as t join {names} as i
            on t.namespace = i.namespace and t.name = i.name
            where {d.within("t.namespace", 1)} and {d.within("t.name", 2)}"""
        self._lanes = f"select key, number from lane where {d.one_of('key', 1, 't')}"
        self._highest_lane = "select coalesce(max(number), 0) from lane"
        self._add_lanes = f"insert into lane (number, key) select * from {d.rows(1, 'number:n key:t')} as i"
        job = "id:i namespace:t name:t incarnation:n version:n spec:t owner:t author:t now_us:n"
        self._create = f"""
            insert into job (id, namespace, name, incarnation, version, spec, owner, author, created_us, saved_us,
                updated_us)
            select id, namespace, name, incarnation, version, spec, owner, author, now_us, now_us, now_us
            from {d.rows(1, job)} as i"""
        self._replace = f"""
            update job as j set version = i.version, spec = i.spec, owner = i.owner, author = i.author,
                saved_us = i.now_us, updated_us = i.now_us, paused_us = null, note = ''
            from {d.rows(1, "id:i version:n spec:t owner:t author:t now_us:n")} as i
            where {d.within("j.id", 1)} and j.id = i.id"""
        self._keep_version = f"""
            insert into job_version (job, version, spec, saved_us, author)
            select id, version, spec, saved_us, author from job where {d.one_of("id", 1)}"""
        self._add_gates = f"insert into gate ({_GATE_NAMES}) select {_GATE_NAMES} from {d.rows(1, _GATE)} as i"
        settings = [name for name in _GATE_NAMES.split(", ") if name not in ("job", "next_us", "state")]
        self._set_gates = f"""
            update gate as g set {", ".join(f"{name} = i.{name}" for name in settings)}
            from {d.rows(1, _GATE)} as i where {d.within("g.job", 1)} and g.job = i.job"""
        self._reconfigure = f"""
            update active as a set version = i.version, lane = i.lane, rank = a.rank + i.shift_us,
                exclusive = i.exclusive
            from {d.rows(1, "job:i version:n lane:n shift_us:n exclusive:n")} as i
            where {d.within("a.job", 1)} and a.job = i.job
                and a.status in ({int(Status.READY)}, {int(Status.QUEUED)})"""
        self._drop_tags = f"delete from job_tag where {d.one_of('job', 1)}"
        self._add_tags = f"""
            insert into job_tag (key, value, namespace, name, job)
            select * from {d.rows(1, "key:t value:t namespace:t name:t job:i")} as i"""
        self._names = f"select namespace, name, incarnation, version from job where id = $1 {d.lock()}"
        self._bury = """
            insert into tombstone (namespace, name, incarnation, job, deleted_us) values ($1, $2, $3, $4, $5)
            on conflict (namespace, name) do update set incarnation = excluded.incarnation, job = excluded.job,
                deleted_us = excluded.deleted_us"""
        self._drop = "delete from job where id = $1"
        self._drop_gate = "delete from gate where job = $1"
        self._note = "update job set note = $2, updated_us = $3, paused_us = $4 where id = $1"
        asked = int(Cause.MANUAL)
        unstarted = f"status in ({int(Status.READY)}, {int(Status.QUEUED)}) and started_us is null and cause <> {asked}"
        self._hold = f"update active set held = 1 where job = $1 and {unstarted}"
        self._let_go = "update active set held = 0 where job = $1 and held = 1"

    def save(self, command: SaveJobs) -> Steps[list[Saved]]:
        """See ``SaveJobs``."""
        rows = command.rows
        if len({(row.namespace, row.name) for row in rows}) < len(rows):
            raise Invalid("a job is named twice in one change; name each job once")
        names = Rows("tt", [(row.namespace, row.name) for row in rows])
        found = yield Query(self._existing, rows=names)
        existing = {(r[0], r[1]): r[2:] for r in found}
        specs = [msgspec.json.encode(row.spec, order="deterministic").decode() for row in rows]
        for row in rows:
            _check_expected(row, existing.get((row.namespace, row.name)))
        buried = {}
        if len(existing) < len(rows):
            dead = yield Query(self._buried, rows=names)
            buried = {(r[0], r[1]): r[2] for r in dead}
        lanes = yield from self._intern(sorted({row.gate.lane for row in rows}))

        saved: list[Saved] = []
        new: list[tuple[JobRow, str, Saved, int]] = []
        changed: list[tuple[JobRow, str, Saved]] = []
        for row, spec in zip(rows, specs, strict=True):
            name = (row.namespace, row.name)
            if name in existing:
                job, version, before = existing[name]
                same = before == spec
                answer = Saved(job, version if same else version + 1, created=False, changed=not same)
                if not same:
                    changed.append((row, spec, answer))
            else:
                incarnation = buried.get(name, 0) + 1
                answer = Saved(job_id(*name, incarnation), 1, created=True, changed=True)
                new.append((row, spec, answer, incarnation))
            saved.append(answer)
        yield from self._insert(new, lanes, command)
        yield from self._update(changed, lanes, command)
        return saved

    def _insert(
        self, new: list[tuple[JobRow, str, Saved, int]], lanes: dict[str, int], command: SaveJobs
    ) -> Steps[None]:
        if not new:
            return
        now_us = command.now_us
        author = command.actor.name
        jobs = [(s.id, r.namespace, r.name, n, 1, spec, r.spec.owner, author, now_us) for r, spec, s, n in new]
        yield Query(self._create, rows=Rows("ittnntttn", jobs))
        yield Query(self._add_gates, rows=Rows("i" + "n" * 11, [_gate_row(r, s, lanes) for r, _, s, _ in new]))
        yield from self._tag_and_audit([(r, s) for r, _, s, _ in new], command)
        yield from self._records.tally(Counter(int(r.state) for r, _, _, _ in new))

    def _update(
        self, changed: list[tuple[JobRow, str, Saved]], lanes: dict[str, int], command: SaveJobs
    ) -> Steps[None]:
        if not changed:
            return
        gates = yield from self._gates.lock(saved.id for _, _, saved in changed)
        if any(s.id not in gates or gates[s.id].version != s.version - 1 for _, _, s in changed):
            raise Raced
        now_us = command.now_us
        jobs = [(s.id, s.version, spec, r.spec.owner, command.actor.name, now_us) for r, spec, s in changed]
        yield Query(self._keep_version, rows=Rows("i", [(s.id,) for _, _, s in changed]))
        yield Query(self._replace, rows=Rows("intttn", jobs))
        yield Query(self._set_gates, rows=Rows("i" + "n" * 11, [_gate_row(r, s, lanes) for r, _, s in changed]))
        shifts = [
            (
                *(s.id, s.version, lanes[r.gate.lane], (gates[s.id].priority - r.gate.priority) * PRIORITY_STEP_US),
                int(r.gate.overlap is not Overlap.ALLOW),
            )
            for r, _, s in changed
        ]
        yield Query(self._reconfigure, rows=Rows("innnn", shifts))
        yield Query(self._drop_tags, rows=Rows("i", [(s.id,) for _, _, s in changed]))
        yield from self._tag_and_audit([(r, s) for r, _, s in changed], command)
        for row, _, saved in changed:
            gate = gates[saved.id]
            gate.overlap, gate.lim, gate.keyed = row.gate.overlap, row.gate.limit, row.gate.keyed
            yield from self._enter(gate, row.state)
            gate.next_us = row.next_us
            yield from self._gates.shrink(gate)
        yield from self._gates.wake(gates.values(), now_us=now_us)
        yield from self._gates.save(gates.values())

    def _tag_and_audit(self, saved: list[tuple[JobRow, Saved]], command: SaveJobs) -> Steps[None]:
        tags = [(k, v, r.namespace, r.name, s.id) for r, s in saved for k, v in r.spec.tags.items()]
        if tags:
            yield Query(self._add_tags, rows=Rows("tttti", tags))
        yield from self._records.audits(
            command.actor,
            command.now_us,
            [("create" if s.created else "update", r.namespace, r.name, f"version {s.version}") for r, s in saved],
        )

    def _intern(self, keys: list[str]) -> Steps[dict[str, int]]:
        """Numbers for lanes, new ones given out one at a time across the whole store."""
        rows = yield Query(self._lanes, rows=Rows("t", [(key,) for key in keys]))
        lanes: dict[str, int] = dict(rows)
        if len(lanes) == len(keys):
            return lanes
        if self._mutex:
            yield Query(self._mutex)
            rows = yield Query(self._lanes, rows=Rows("t", [(key,) for key in keys]))
            lanes = dict(rows)
        [(highest,)] = yield Query(self._highest_lane)
        missing = [key for key in keys if key not in lanes]
        numbered = [(highest + 1 + i, key) for i, key in enumerate(missing)]
        yield Query(self._add_lanes, rows=Rows("nt", numbered))
        return lanes | {key: number for number, key in numbered}

    def delete(self, command: DeleteJob) -> Steps[None]:
        """See ``DeleteJob``."""
        gates = yield from self._gates.lock([command.job])
        namespace, name, incarnation = yield from self._expected(command.job, command.expect)
        gate = gates[command.job]
        yield from self._gates.end_unstarted(gate, Code.JOB_DELETED, None, command.now_us)
        yield from self._records.tally(Counter({gate.state: -1}))
        yield from self._gates.ask_running(command.job, Cancel.DELETED)
        yield Query(self._keep_version, rows=Rows("i", [(command.job,)]))
        yield Query(self._drop_gate, (command.job,))
        yield Query(self._drop, (command.job,))
        yield Query(self._drop_tags, rows=Rows("i", [(command.job,)]))
        yield Query(self._bury, (namespace, name, incarnation, command.job, command.now_us))
        yield from self._records.audit(command.actor, "delete", namespace, name, command.now_us)

    def set_state(self, command: SetJobState) -> Steps[None]:
        """See ``SetJobState``."""
        gates = yield from self._gates.lock([command.job])
        namespace, name, _ = yield from self._expected(command.job, command.expect)
        gate = gates[command.job]
        yield from self._enter(gate, command.state)
        if not command.keep_cursor:
            gate.next_us = command.next_us
        yield from self._records.spans(gate.version, int(Cause.SCHEDULE), command.spans)
        gate.done_us = max([gate.done_us, *(span.to_us for span in command.spans)])
        yield from self._gates.wake([gate], now_us=command.now_us)
        yield from self._gates.save([gate])
        paused_us = command.now_us if command.state is JobState.PAUSED else None
        yield Query(self._note, (command.job, command.note, command.now_us, paused_us))
        action = command.state.name.lower()
        yield from self._records.audit(command.actor, action, namespace, name, command.now_us, command.note)

    def _enter(self, gate: Gate, state: JobState) -> Steps[None]:
        """A locked gate changes its state; what is held follows."""
        if state is JobState.PAUSED and gate.state != JobState.PAUSED:
            yield Query(self._hold, (gate.job,))
        elif state is not JobState.PAUSED and gate.state == JobState.PAUSED:
            yield Query(self._let_go, (gate.job,))
        yield from self._records.tally(Counter({gate.state: -1, int(state): 1}) if gate.state != state else Counter())
        gate.state = int(state)

    def _expected(self, job: bytes, expect: int | None) -> Steps[tuple[str, str, int]]:
        rows = yield Query(self._names, (job,))
        if not rows:
            raise NotFound("the job does not exist any more")
        namespace, name, incarnation, version = rows[0]
        if expect is not None and expect != version:
            raise Conflict(f'"{name}" changed since you read it: you have version {expect}, it is version {version}')
        return namespace, name, incarnation


def _check_expected(row: JobRow, found: Row | None) -> None:
    if row.expect is None:
        return
    if row.expect == NEW and found is not None:
        raise Conflict(f'a job named "{row.name}" exists already')
    if row.expect != NEW and found is None:
        raise Conflict(f'"{row.name}" does not exist any more: you have version {row.expect}')
    if row.expect != NEW and found is not None and found[1] != row.expect:
        raise Conflict(
            f'"{row.name}" changed since you read it: you have version {row.expect}, it is version {found[1]}'
        )


def _gate_row(row: JobRow, saved: Saved, lanes: dict[str, int]) -> Sequence[object]:
    gate = row.gate
    return (
        *(saved.id, row.next_us, saved.version, int(row.state), OVERLAPS.index(gate.overlap), gate.limit),
        *(gate.queue_max, gate.priority, lanes[gate.lane], int(gate.keyed), gate.keep_count, gate.keep_age_us),
    )
