"""What stands behind a locked gate: which of it starts as room is made, what is put back or ended before it started."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from chronos.core.execution import Cancel, Cause, Status
from chronos.core.reasons import Code
from chronos.store.commands import Claimed
from chronos.store.sql.dialect import Dialect, Query, Row, Rows, Steps
from chronos.store.sql.locks import Gate, Locks, Open, ids, leave
from chronos.store.sql.records import Records

CAUSES = {int(cause): cause for cause in Cause}
CLAIMED = "id, job, version, cause, scheduled_us, attempt, token, admitted_us, started_us, worked_us, detail"
NONE_FREED: Mapping[bytes, int] = {}
_FEW = 4  # so many gates are asked one by one, with a limit that an index serves
_UNSTARTED = (Status.READY, Status.QUEUED, Status.WAITING)


class Gates(Locks):
    """Statements and steps around locked gates, which are changed in place: their caller writes them back."""

    def __init__(self, d: Dialect, records: Records) -> None:
        super().__init__(d)
        self._records = records
        self._known = f"""
            select id from active where {d.one_of("id", 1)}
            union all select id from history where {d.one_of("id", 1)}"""
        self._lock_open = f"""
            select job, id, status, key from active where {d.one_of("job", 1)}
            order by job, scheduled_us, id {d.lock()}"""
        self._end = f"""
            insert into history (id, job, version, cause, scheduled_us, status, code, message, owner, token, attempt,
                admitted_us, started_us, attempt_us, finished_us, detail)
            select id, job, version, cause, scheduled_us, {int(Status.CANCELED)}, $1, $2, owner, token, attempt,
                admitted_us, started_us, attempt_us, $3, detail
            from active where {d.one_of("id", 4)}"""
        self._drop = f"delete from active where {d.one_of('id', 1)}"
        unasked = f"status = {int(Status.RUNNING)} and cancel = 0"
        self._ask_running = f"update active set cancel = $2 where job = $1 and {unasked}"
        self._ask = f"update active set cancel = $1 where {d.one_of('id', 2)} and {unasked}"
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

    def known(self, executions: Sequence[bytes]) -> Steps[set[bytes]]:
        """Which of these executions exist, open or ended."""
        rows = yield Query(self._known, rows=ids(executions))
        return {row[0] for row in rows}

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

    def end_unstarted(self, gate: Gate, code: Code, message: str | None, now_us: int) -> Steps[None]:
        """Cancel everything of a locked gate that is not running.

        What runs is locked too: it cannot be released between being passed over here and being asked to stop.
        """
        if gate.active + gate.queued == 0:
            return
        opened = yield from self.lock_open([gate.job])
        gone = {i: run for i, run in opened.get(gate.job, {}).items() if run.status in _UNSTARTED}
        if not gone:
            return
        yield from self.end(dict.fromkeys(gone, gate), code, message, now_us)
        keys = yield from self.relock_keys([run.key for run in gone.values() if run.key is not None])
        for status, key in gone.values():
            leave(gate, status)
            if key is not None:
                leave(keys[key], status)
        yield from self.save_keys(keys.values())

    def lock_open(self, jobs: Sequence[bytes]) -> Steps[dict[bytes, dict[bytes, Open]]]:
        """What jobs whose gates are locked have open, by job and execution, locked too."""
        found: dict[bytes, dict[bytes, Open]] = {}
        for job, execution, status, key in (yield Query(self._lock_open, rows=ids(jobs))) if jobs else ():
            found.setdefault(job, {})[execution] = Open(status, key)
        return found

    def end(self, gone: Mapping[bytes, Gate], code: Code, message: str | None, now_us: int) -> Steps[None]:
        """Cancel executions that are locked and not running. Gates and keys are for the caller to change."""
        if not gone:
            return
        yield Query(self._end, (code.value, message, now_us), ids(gone))
        yield Query(self._drop, rows=ids(gone))
        told = [(execution, gate.job, Status.CANCELED) for execution, gate in gone.items() if gate.followed]
        yield from self._records.ended(told, now_us)

    def ask_running(self, job: bytes, cancel: Cancel) -> Steps[None]:
        """Ask what runs to stop."""
        yield Query(self._ask_running, (job, int(cancel)))

    def ask(self, executions: Collection[bytes], cancel: Cancel) -> Steps[None]:
        """Ask some of what runs to stop."""
        if executions:
            yield Query(self._ask, (int(cancel),), ids(executions))

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


def claimed(rows: Iterable[Sequence[Any]]) -> list[Claimed]:
    """Rows of the ``CLAIMED`` columns. Made as the tuples they are: there are tens of thousands of them a second."""
    make = tuple.__new__
    return [
        make(Claimed, (i, job, version, CAUSES[cause], at, attempt, token, admitted, started, worked, detail))
        for i, job, version, cause, at, attempt, token, admitted, started, worked, detail in rows
    ]
