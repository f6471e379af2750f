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
from chronos.store.sql.dialect import Dialect, Query, Row, Rows, Steps
from chronos.store.sql.followers import Followers, Name
from chronos.store.sql.gates import OVERLAPS, Gate, Gates, Raced
from chronos.store.sql.records import Records

_GATE = (
    "job:i next_us:n version:n state:n overlap:n lim:n queue_max:n priority:n lane:n keyed:n keep_count:n keep_age_us:n"
)
_GATE_NAMES = tuple(column.split(":")[0] for column in _GATE.split())
_JOB = "id:i namespace:t name:t incarnation:n version:n spec:t owner:t author:t created_us:n saved_us:n updated_us:n"
_JOB_NAMES = tuple(column.split(":")[0] for column in _JOB.split())
_MANY = 20  # jobs saved by one command, after which they share a line of the audit log


_FOLLOWS = '"after":'  # in the JSON of a job that follows others; where it is merely said, nothing is lost


class Jobs:
    """Statements and steps."""

    def __init__(self, d: Dialect, gates: Gates, records: Records) -> None:
        self._gates, self._records, self._followers = gates, records, Followers(d)
        self._mutex = d.mutex()
        names = d.rows(1, "namespace:t name:t")
        self._existing, self._existing_for_followers = (
            f"""
            select j.namespace, j.name, j.id, j.version, j.spec from job as j join {names} as i
            on j.namespace = i.namespace and j.name = i.name
            where {d.share_names(alone=alone)} and {d.within("j.namespace", 1)} and {d.within("j.name", 2)}"""
            for alone in (False, True)
        )
        self._said_before = f"""
            select t.namespace, t.name, t.incarnation, 0 from tombstone as t join {names} as i
            on t.namespace = i.namespace and t.name = i.name
            where {d.within("t.namespace", 1)} and {d.within("t.name", 2)}
            union all select distinct a.namespace, a.upstream, 0, 1 from job_after as a join {names} as i
            on a.namespace = i.namespace and a.upstream = i.name
            where {d.within("a.namespace", 1)} and {d.within("a.upstream", 2)}"""
        self._lanes = f"select key, number from lane where {d.one_of('key', 1, 't')}"
        self._highest_lane = "select coalesce(max(number), 0) from lane"
        self._add_lanes = f"insert into lane (number, key) select * from {d.rows(1, 'number:n key:t')} as i"
        self._create = f"insert into job ({', '.join(_JOB_NAMES)}) select * from {d.rows(1, _JOB)} as i"
        self._replace = f"""
            update job as j set version = i.version, spec = i.spec, owner = i.owner, author = i.author,
                saved_us = i.now_us, updated_us = i.now_us, paused_us = null, note = ''
            from {d.rows(1, "id:i version:n spec:t owner:t author:t now_us:n")} as i
            where {d.within("j.id", 1)} and j.id = i.id"""
        self._keep_version = f"""
            insert into job_version (job, version, spec, saved_us, author)
            select id, version, spec, saved_us, author from job where {d.one_of("id", 1)}"""
        self._add_gates = f"insert into gate ({', '.join(_GATE_NAMES)}) select * from {d.rows(1, _GATE)} as i"
        settings = [name for name in _GATE_NAMES if name not in ("job", "next_us", "state")]
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
        following = any(row.spec.after for row in rows)
        found = yield Query(self._existing_for_followers if following else self._existing, rows=names)
        existing = {(r[0], r[1]): r[2:] for r in found}
        specs = [msgspec.json.encode(row.spec, order="deterministic").decode() for row in rows]
        for row in rows:
            _check_expected(row, existing.get((row.namespace, row.name)))
        buried: dict[Name, int] = {}
        followed: set[Name] = set()
        if len(existing) < len(rows):
            said = yield Query(self._said_before, rows=names)
            buried = {(r[0], r[1]): r[2] for r in said if not r[3]}
            followed = {(r[0], r[1]) for r in said if r[3]}
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
        links = [
            (r.namespace, a.job, s.id, a.on)
            for r, s in zip(rows, saved, strict=True)
            if s.changed
            for a in r.spec.after
        ]
        left = [s.id for r, _, s in changed if _FOLLOWS in existing[(r.namespace, r.name)][2]]
        touched = {(link[0], link[1]) for link in links} | (yield from self._followers.upstream_of(left))
        upstream = yield from self._followers.ids(touched)
        gates = yield from self._lock(changed, upstream)
        yield from self._insert(new, lanes, command)
        yield from self._update(changed, gates, lanes, command)
        yield from self._followers.forget(left)
        yield from self._followers.add(links)
        created = {(r.namespace, r.name): s.id for r, _, s, _ in new}
        upstream |= {name: job for name, job in created.items() if name in followed or name in touched}
        yield from self._followers.mark(upstream)
        return saved

    def _lock(self, changed: list[tuple[JobRow, str, Saved]], upstream: dict[Name, bytes]) -> Steps[dict[bytes, Gate]]:
        """The gates of jobs that change and of those they follow, locked in order; answers the former."""
        if not changed and not upstream:
            return {}
        gates = yield from self._gates.lock(sorted({*(s.id for _, _, s in changed), *upstream.values()}))
        if any(s.id not in gates or gates[s.id].version != s.version - 1 for _, _, s in changed):
            raise Raced
        return {s.id: gates[s.id] for _, _, s in changed}

    def _insert(
        self, new: list[tuple[JobRow, str, Saved, int]], lanes: dict[str, int], command: SaveJobs
    ) -> Steps[None]:
        if not new:
            return
        now_us = command.now_us
        author = command.actor.name
        saved = (author, now_us, now_us, now_us)
        jobs = [(s.id, r.namespace, r.name, n, 1, spec, r.spec.owner, *saved) for r, spec, s, n in new]
        gates = [_gate_row(r, s, lanes) for r, _, s, _ in new]
        yield Query(self._create, rows=Rows("ittnntttnnn", jobs), into=("job", _JOB_NAMES))
        yield Query(self._add_gates, rows=Rows("i" + "n" * 11, gates), into=("gate", _GATE_NAMES))
        yield from self._tag_and_audit([(r, s) for r, _, s, _ in new], command)
        yield from self._records.tally(Counter(int(r.state) for r, _, _, _ in new))

    def _update(
        self,
        changed: list[tuple[JobRow, str, Saved]],
        gates: dict[bytes, Gate],
        lanes: dict[str, int],
        command: SaveJobs,
    ) -> Steps[None]:
        if not changed:
            return
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
        if len(saved) <= _MANY:
            lines = [(_verb(s), r.namespace, r.name, f"version {s.version}") for r, s in saved]
        else:
            lines = []
            for verb, namespace in sorted({(_verb(s), r.namespace) for r, s in saved}):
                names = [r.name for r, s in saved if (_verb(s), r.namespace) == (verb, namespace)]
                lines.append((verb, namespace, f"{names[0]} and {len(names) - 1} more", ", ".join(names)))
        yield from self._records.audits(command.actor, command.now_us, lines)

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
        touched = yield from self._followers.upstream_of([command.job])
        upstream = yield from self._followers.ids(touched)
        gates = yield from self._gates.lock(sorted({command.job, *upstream.values()}))
        namespace, name, incarnation = yield from self._expected(command.job, command.expect)
        gate = gates[command.job]
        yield from self._gates.end_unstarted(gate, Code.JOB_DELETED, None, command.now_us)
        yield from self._records.tally(Counter({gate.state: -1}))
        yield from self._gates.ask_running(command.job, Cancel.DELETED)
        yield Query(self._keep_version, rows=Rows("i", [(command.job,)]))
        yield from self._followers.forget([command.job] if touched else [])
        yield from self._followers.mark(upstream)
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


def _verb(saved: Saved) -> str:
    return "create" if saved.created else "update"


def _gate_row(row: JobRow, saved: Saved, lanes: dict[str, int]) -> Sequence[object]:
    gate = row.gate
    return (
        *(saved.id, row.next_us, saved.version, int(row.state), OVERLAPS.index(gate.overlap), gate.limit),
        *(gate.queue_max, gate.priority, lanes[gate.lane], int(gate.keyed), gate.keep_count, gate.keep_age_us),
    )
