"""Admission under locked gates: what the hot path leaves to the careful one, and how gates free what is queued.

Everything here reads gates, decides with ``core.policy`` and writes back: asked-for runs, recovered gaps, ``replace``,
concurrency keys. Order of locks, everywhere: job gates in key order, then key gates in key order, then executions.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from chronos.core.config import Overlap
from chronos.core.execution import Cancel, Cause, Status
from chronos.core.job import JobState
from chronos.core.policy import PRIORITY_STEP_US, Admission, admit
from chronos.core.reasons import Code
from chronos.store.commands import AdmitRow, Admitted, Claimed, RunRow
from chronos.store.sql.dialect import Dialect, Query, Row, Rows, Steps
from chronos.store.sql.records import Records

OVERLAPS = tuple(Overlap)
CLAIMED = "id, job, version, cause, scheduled_us, attempt, token, admitted_us, started_us, worked_us, detail"
NONE_FREED: Mapping[bytes, int] = {}
_CAUSES = {int(cause): cause for cause in Cause}
_FEW = 4  # so many gates are asked one by one, with a limit that an index serves
_UNSTARTED = (Status.READY, Status.QUEUED, Status.WAITING)


@dataclass(slots=True)
class Gate:
    """A locked gate, as it will be written back."""

    job: bytes
    next_us: int | None
    version: int
    state: int
    overlap: Overlap
    lim: int
    queue_max: int
    priority: int
    lane: int
    keyed: bool
    active: int
    queued: int
    seq: int
    done_us: int  # the latest instant that is on record: none of its schedule up to here is admitted again
    followed: int  # 1: other jobs follow this one, and hear of its ends


@dataclass(slots=True)
class KeyGate:
    """A locked concurrency key."""

    key: bytes
    lim: int
    active: int
    queued: int


class Raced(Exception):
    """What was read changed before it was locked: the command must be applied again. Never on a serial engine."""


def ids(values: Iterable[bytes]) -> Rows:
    """The ``Rows`` of a list of ids."""
    return Rows("i", [(value,) for value in values])


class Gates:
    """Statements and steps around gates."""

    def __init__(self, d: Dialect, records: Records) -> None:
        self._records = records
        self._lock = f"""
            select job, next_us, version, state, overlap, lim, queue_max, priority, lane, keyed, active, queued, seq,
                done_us, followed
            from gate where {d.one_of("job", 1)} order by job {d.lock()}"""
        self._save = f"""
            update gate as g set next_us = i.next_us, state = i.state, active = i.active, queued = i.queued,
                seq = i.seq, done_us = i.done_us
            from {d.rows(1, "job:i next_us:n state:n active:n queued:n seq:n done_us:n")} as i
            where {d.within("g.job", 1)} and g.job = i.job"""
        self._make_keys = f"""
            insert into key_gate (key, lim) select key, lim from {d.rows(1, "key:i lim:n")} as i order by key
            on conflict (key) do update set lim = excluded.lim"""
        self._lock_keys = f"""
            select key, lim, active, queued from key_gate where {d.one_of("key", 1)} order by key {d.lock()}"""
        self._save_keys = f"""
            update key_gate as k set active = i.active, queued = i.queued
            from {d.rows(1, "key:i active:n queued:n")} as i where {d.within("k.key", 1)} and k.key = i.key"""
        columns = (
            "id:i job:i version:n cause:n scheduled_us:n lane:n rank:n status:n exclusive:n owner:n token:n "
            "admitted_us:n started_us:n key:i request:i detail:t held:n"
        )
        names = ", ".join(column.split(":")[0] for column in columns.split())
        self._insert = f"""
            insert into active ({names}, attempt_us) select {names}, started_us from {d.rows(1, columns)} as i"""
        self._insert_skipped = f"""
            insert into history (id, job, version, cause, scheduled_us, status, code, token, attempt, admitted_us,
                finished_us, detail)
            select id, job, version, cause, scheduled_us, {int(Status.SKIPPED)}, code, token, 0, now_us, now_us, detail
            from {d.rows(1, "id:i job:i version:n cause:n scheduled_us:n code:t token:n now_us:n detail:t")} as i"""
        self._ours = f"""
            select id, job, status, token from active where request = $1 and {d.one_of("id", 2)}"""
        self._known = f"""
            select id from active where {d.one_of("id", 1)}
            union all select id from history where {d.one_of("id", 1)}"""
        self._lock_executions = f"""
            select id, status, key from active where job = $1 order by scheduled_us, id {d.lock()}"""
        self._end = f"""
            insert into history (id, job, version, cause, scheduled_us, status, code, message, owner, token, attempt,
                admitted_us, started_us, attempt_us, finished_us, detail)
            select id, job, version, cause, scheduled_us, {int(Status.CANCELED)}, $1, $2, owner, token, attempt,
                admitted_us, started_us, attempt_us, $3, detail
            from active where {d.one_of("id", 4)}"""
        self._drop = f"delete from active where {d.one_of('id', 1)}"
        self._ask_running = f"""
            update active set cancel = $2 where job = $1 and status = {int(Status.RUNNING)} and cancel = 0"""
        queued = f"status = {int(Status.QUEUED)} and held = 0"
        self._first_queued = f"""
            select id, job, key, lane from active where job = $1 and {queued} order by scheduled_us, id limit $2"""
        self._first_queued_of_many = f"""
            select id, job, key, lane from (
                select a.id, a.job, a.key, a.lane, i.room,
                    row_number() over (partition by a.job order by a.scheduled_us, a.id) as place
                from {d.rows(1, "job:i room:n")} as i join active as a on a.job = i.job
                where {d.within("a.job", 1)} and {queued}
            ) as q where place <= room order by job, place"""
        self._make_ready = f"""
            update active set status = i.status, owner = i.owner, token = active.token + i.claim,
                started_us = case i.claim when 1 then coalesce(active.started_us, i.now_us) else active.started_us end,
                attempt_us = case i.claim when 1 then i.now_us else active.attempt_us end, ready_since_us = i.now_us
            from {d.rows(1, "id:i status:n owner:n claim:n now_us:n")} as i
            where {d.within("active.id", 1)} and active.id = i.id
            returning {", ".join(f"active.{name}" for name in CLAIMED.split(", "))}, active.status"""
        self._last_ready = f"""
            select id, key from active where job = $1 and status = {int(Status.READY)}
            order by scheduled_us desc, id desc limit $2 {d.lock()}"""
        self._back_in_line = f"update active set status = {int(Status.QUEUED)} where {d.one_of('id', 1)}"
        self._waiting_on_keys = f"""
            select job from active where {d.one_of("key", 1)} and status = {int(Status.QUEUED)}"""
        self._free_keys = "select key from key_gate where queued > 0 and active < lim order by key limit $1"

    def lock(self, jobs: Iterable[bytes]) -> Steps[dict[bytes, Gate]]:
        """The gates of some jobs, locked; those that do not exist are missing."""
        rows = yield Query(self._lock, rows=ids(dict.fromkeys(jobs)))
        return {row[0]: _gate(row) for row in rows}

    def save(self, gates: Iterable[Gate]) -> Steps[None]:
        """Write locked gates back."""
        values = [(g.job, g.next_us, g.state, g.active, g.queued, g.seq, g.done_us) for g in gates]
        if values:
            yield Query(self._save, rows=Rows("innnnnn", values))

    def lock_keys(self, wanted: dict[bytes, int]) -> Steps[dict[bytes, KeyGate]]:
        """The concurrency keys with these limits, made where missing, locked."""
        if not wanted:
            return {}
        yield Query(self._make_keys, rows=Rows("in", sorted(wanted.items())))
        return (yield from self.relock_keys(wanted))

    def relock_keys(self, keys: Iterable[bytes]) -> Steps[dict[bytes, KeyGate]]:
        """Concurrency keys that exist, locked."""
        if not keys:
            return {}
        rows = yield Query(self._lock_keys, rows=ids(dict.fromkeys(keys)))
        return {row[0]: KeyGate(*row) for row in rows}

    def save_keys(self, keys: Iterable[KeyGate]) -> Steps[None]:
        """Write locked concurrency keys back."""
        values = [(k.key, k.active, k.queued) for k in keys]
        if values:
            yield Query(self._save_keys, rows=Rows("inn", values))

    def known(self, executions: Sequence[bytes]) -> Steps[set[bytes]]:
        """Which of these executions exist, open or ended."""
        rows = yield Query(self._known, rows=ids(executions))
        return {row[0] for row in rows}

    def admit_runs(
        self,
        gate: Gate,
        runs: Sequence[RunRow],
        *,
        now_us: int,
        claim: bool = False,
        node: int | None = None,
        request: bytes | None = None,
        whole: bool = False,
    ) -> Steps[tuple[list[Admitted], list[RunRow]]]:
        """Admit runs under one locked gate, in order; answers what was decided and what was refused.

        The gate is changed in place: its caller writes it back. A run that exists already is passed over. If ``whole``,
        nothing is written when something is refused.
        """
        there = yield from self.known([run.id for run in runs])
        keys = yield from self.lock_keys({run.key: run.key_limit for run in runs if run.key is not None})
        admitted: list[Admitted] = []
        refused: list[RunRow] = []
        skipped: list[Row] = []
        inserted: list[Row] = []
        for run in runs:
            scheduled = run.cause in (Cause.SCHEDULE, Cause.RECOVERY)
            if run.id in there or (scheduled and run.scheduled_us <= gate.done_us):
                continue
            if gate.overlap is Overlap.REPLACE and gate.active + gate.queued > 0:
                # What this very command admitted has to be in the table to be replaced.
                yield from self._write(inserted, skipped)
                yield from self.save_keys(keys.values())
                inserted, skipped = [], []
                yield from self.end_unstarted(gate, Code.REPLACED, None, now_us)
                keys = yield from self.relock_keys(list(keys))
                yield Query(self._ask_running, (gate.job, int(Cancel.REPLACED)))
            verdict = admit(
                overlap=gate.overlap,
                limit=gate.lim,
                queue_max=gate.queue_max,
                active=gate.active,
                queued=gate.queued,
                asked=run.cause.asked,
            )
            key = keys.get(run.key) if run.key is not None else None
            if verdict is Admission.RUN and key is not None and key.active >= key.lim > 0:
                verdict = Admission.QUEUE if gate.queued < gate.queue_max else Admission.REFUSE
            if verdict is Admission.REFUSE:
                refused.append(run)
                continue
            if scheduled:
                gate.done_us = run.scheduled_us
            gate.seq += 1
            token = gate.seq << 16
            if verdict in (Admission.SKIP_OVERLAP, Admission.SKIP_FULL):
                code = Code.OVERLAP if verdict is Admission.SKIP_OVERLAP else Code.QUEUE_FULL
                version, cause = gate.version, int(run.cause)
                skipped.append(
                    (run.id, gate.job, version, cause, run.scheduled_us, code.value, token, now_us, run.detail)
                )
                admitted.append(Admitted(run.id, gate.job, Status.SKIPPED, token))
                continue
            runs_now = verdict is Admission.RUN
            status = Status.QUEUED if not runs_now else Status.RUNNING if claim else Status.READY
            token += status is Status.RUNNING
            if runs_now:
                gate.active += 1
            else:
                gate.queued += 1
            if key is not None:
                key.active += runs_now
                key.queued += not runs_now
            owned = status is Status.RUNNING
            inserted.append(
                (
                    *(run.id, gate.job, gate.version, int(run.cause), run.scheduled_us, gate.lane),
                    run.ready_us - gate.priority * PRIORITY_STEP_US,
                    *(int(status), int(gate.overlap is not Overlap.ALLOW), node if owned else None, token, now_us),
                    *(now_us if owned else None, run.key, request, run.detail),
                    int(gate.state == JobState.PAUSED and run.cause is Cause.DEPENDENCY),  # asked for, but not by hand
                )
            )
            admitted.append(Admitted(run.id, gate.job, status, token))
        if whole and refused:
            return [], refused
        yield from self._write(inserted, skipped)
        yield from self.save_keys(keys.values())
        return admitted, refused

    def admitted_before(self, request: bytes, rows: Sequence[AdmitRow]) -> Steps[list[Admitted]]:
        """What an earlier sending of the same request admitted."""
        found = yield Query(self._ours, (request,), ids(row.id for row in rows))
        return [Admitted(execution, job, Status(status), token) for execution, job, status, token in found]

    def admit_carefully(
        self, rows: Sequence[AdmitRow], *, node: int, now_us: int, request: bytes
    ) -> Steps[list[Admitted]]:
        """Scheduled instants that the hot statement does not take: ``replace`` and keyed jobs."""
        gates = yield from self.lock(row.job for row in rows)
        if len(rows) > 1:  # all keys at once, so that they too are locked in order
            yield from self.lock_keys({row.key: row.key_limit for row in rows if row.key is not None})
        answers: list[Admitted] = []
        changed: list[Gate] = []
        for row in sorted(rows, key=lambda row: row.job):
            gate = gates.get(row.job)
            if gate is None or (gate.next_us, gate.version, gate.state) != (
                row.expect_us,
                row.version,
                JobState.ACTIVE,
            ):
                continue
            run = RunRow(row.id, Cause.SCHEDULE, row.expect_us, row.ready_us, None, row.key, row.key_limit)
            admitted, _ = yield from self.admit_runs(
                gate, [run], now_us=now_us, claim=row.claim, node=node, request=request
            )
            if admitted:
                move_cursor(gate, row.next_us)
            else:  # on record already: only the cursor takes notice
                gate.next_us = row.next_us
            changed.append(gate)
            answers += admitted
        yield from self.save(changed)
        return answers

    def end_unstarted(self, gate: Gate, code: Code, message: str | None, now_us: int) -> Steps[None]:
        """Cancel everything of a locked gate that is not running.

        What runs is locked too: it cannot be released between being passed over here and being asked to stop.
        """
        if gate.active + gate.queued == 0:
            return
        rows = yield Query(self._lock_executions, (gate.job,))
        gone = [row for row in rows if row[1] in _UNSTARTED]
        if not gone:
            return
        yield Query(self._end, (code.value, message, now_us), ids(row[0] for row in gone))
        yield Query(self._drop, rows=ids(row[0] for row in gone))
        gate.queued -= sum(row[1] == Status.QUEUED for row in gone)
        gate.active -= sum(row[1] != Status.QUEUED for row in gone)
        if gate.followed:
            yield from self._records.ended([(row[0], gate.job, Status.CANCELED) for row in gone], now_us)
        keys = yield from self.relock_keys([row[2] for row in gone if row[2] is not None])
        for _, status, key in gone:
            if key is not None:
                keys[key].queued -= status == Status.QUEUED
                keys[key].active -= status != Status.QUEUED
        yield from self.save_keys(keys.values())

    def ask_running(self, job: bytes, cancel: Cancel) -> Steps[None]:
        """Ask what runs to stop."""
        yield Query(self._ask_running, (job, int(cancel)))

    def shrink(self, gate: Gate) -> Steps[None]:
        """After a locked gate's limit became smaller: what is ready beyond it goes back in line, the latest first."""
        if gate.lim == 0 or gate.active <= gate.lim:
            return
        rows = yield Query(self._last_ready, (gate.job, gate.active - gate.lim))
        if not rows:
            return
        yield Query(self._back_in_line, rows=ids(row[0] for row in rows))
        gate.active -= len(rows)
        gate.queued += len(rows)
        keys = yield from self.relock_keys([row[1] for row in rows if row[1] is not None])
        for _, key in rows:
            if key is not None:
                keys[key].active -= 1
                keys[key].queued += 1
        yield from self.save_keys(keys.values())

    def wake(
        self,
        gates: Iterable[Gate],
        *,
        now_us: int,
        node: int | None = None,
        take: int = 0,
        lanes: Sequence[int] = (),
        freed: Mapping[bytes, int] = NONE_FREED,
    ) -> Steps[tuple[list[Claimed], int]]:
        """Queued executions of locked gates that have room become ready, or running here while ``take`` lasts.

        The gates are changed in place. ``freed`` says how often concurrency keys were let go of before: all keys are
        locked at once, in order. Answers what was taken, and how many became ready.
        """
        open_gates = {g.job: g for g in gates if g.queued > 0 and (g.lim == 0 or g.active < g.lim)}
        waiting = (yield from self._in_line(list(open_gates.values()))) if open_gates else []
        keys = yield from self.relock_keys(sorted({row[2] for row in waiting if row[2] is not None} | freed.keys()))
        for freed_key, count in freed.items():
            keys[freed_key].active -= count
        chosen: list[Row] = []
        for execution, job, key_id, lane in waiting:
            gate = open_gates[job]
            key = keys[key_id] if key_id is not None else None
            if (gate.lim and gate.active >= gate.lim) or (key is not None and key.active >= key.lim > 0):
                continue
            gate.active += 1
            gate.queued -= 1
            if key is not None:
                key.active += 1
                key.queued -= 1
            claim = take > 0 and lane in lanes
            take -= claim
            status = Status.RUNNING if claim else Status.READY
            chosen.append((execution, int(status), node if claim else None, int(claim), now_us))
        if chosen or freed:
            yield from self.save_keys(keys.values())
        rows = (yield Query(self._make_ready, rows=Rows("innnn", chosen))) if chosen else []
        taken = claimed(row[:-1] for row in rows if row[-1] == Status.RUNNING)
        return taken, len(rows) - len(taken)

    def wake_behind_keys(self, keys: Sequence[bytes], now_us: int) -> Steps[int]:
        """After concurrency keys were freed: wake what other jobs have queued behind them. Locks its own gates."""
        jobs = yield Query(self._waiting_on_keys, rows=ids(keys))
        gates = yield from self.lock(sorted({row[0] for row in jobs}))
        _, woken = yield from self.wake(gates.values(), now_us=now_us)
        yield from self.save(gates.values())
        return woken

    def free_keys(self, limit: int) -> Steps[list[bytes]]:
        """Concurrency keys with room and a queue: what a crash between freeing and waking may leave behind."""
        rows = yield Query(self._free_keys, (limit,))
        return [row[0] for row in rows]

    def _in_line(self, gates: list[Gate]) -> Steps[list[Row]]:
        """The executions that are next, as many as each gate has room for.

        Where one of them has a concurrency key it may be blocked, so then all that wait there are looked at.
        """
        wanted = {g.job: g.queued if g.lim == 0 else g.lim - g.active for g in gates}
        found = yield from self._first_in_line(wanted)
        keyed = {job for _, job, key, _ in found if key is not None}
        if keyed:
            found = [row for row in found if row[1] not in keyed]
            found += yield from self._first_in_line({g.job: g.queued for g in gates if g.job in keyed})
        return found

    def _first_in_line(self, wanted: dict[bytes, int]) -> Steps[list[Row]]:
        if len(wanted) > _FEW:
            return (yield Query(self._first_queued_of_many, rows=Rows("in", list(wanted.items()))))
        found: list[Row] = []
        for job, room in wanted.items():
            found += yield Query(self._first_queued, (job, room))
        return found

    def _write(self, inserted: list[Row], skipped: list[Row]) -> Steps[None]:
        if inserted:
            yield Query(self._insert, rows=Rows("iinnnnnnnnnnniitn", inserted))
        if skipped:
            yield Query(self._insert_skipped, rows=Rows("iinnntnnt", skipped))


def move_cursor(gate: Gate, next_us: int | None) -> None:
    """Where a schedule ends, its job is done."""
    gate.next_us = next_us
    if next_us is None and gate.state == JobState.ACTIVE:
        gate.state = JobState.DONE


def claimed(rows: Iterable[Sequence[Any]]) -> list[Claimed]:
    """Rows of the ``CLAIMED`` columns. Made as the tuples they are: there are tens of thousands of them a second."""
    make = tuple.__new__
    return [
        make(Claimed, (i, job, version, _CAUSES[cause], at, attempt, token, admitted, started, worked, detail))
        for i, job, version, cause, at, attempt, token, admitted, started, worked, detail in rows
    ]


def _gate(row: Row) -> Gate:
    job, next_us, version, state, overlap, lim, queue_max, priority, lane, keyed, *counters = row
    rest = (lim, queue_max, priority, lane, bool(keyed))
    return Gate(job, next_us, version, state, OVERLAPS[overlap], *rest, *counters)
