"""Changes the open executions of jobs whose gates are locked: wake, hold, requeue, cancel."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from heapq import merge
from typing import Any

from chronos.core.admission_policy import is_held
from chronos.core.config import Overlap
from chronos.core.execution import CancelRequest, Cause, Status
from chronos.core.execution_detail import GROUP_JSON_KEY, close_detail
from chronos.core.fencing_token import first_token, next_claim_token
from chronos.core.reasons import ReasonCode
from chronos.store.commands import Claimed
from chronos.store.sql.append_only import AppendOnlyTables
from chronos.store.sql.executions.gates import (
    Gate,
    GateRows,
    KeyGate,
    OpenExecution,
    count_in,
    count_out,
    count_requeued,
    skip_used_turns,
    to_id_rows,
)
from chronos.store.sql.query import Dialect, Query, Row, Rows, Steps

CAUSE_BY_NUMBER = {int(cause): cause for cause in Cause}
CLAIMED_COLUMNS = (
    "id, job, version, cause, scheduled_us, attempt, token, admitted_us, started_us, worked_us, detail, levels"
)
last_run_sql = "(select g.ran_us from gate as g where g.job = {}.job)".format
NO_FREED_KEYS: Mapping[bytes, int] = {}
_MAX_SINGLE_GATE_QUERIES = 4  # up to so many gates, a query per gate is faster: an index serves its limit
_EXTRA_ROWS_BEHIND_KEY = 16  # jobs, and executions of each, read behind a key beyond the number of freed places
_QUEUED_COLUMNS = "id, job, key, lane, rank, token"
_NOT_RUNNING = (Status.READY, Status.QUEUED, Status.WAITING)
#: Condition on ``active``: the execution waits for its first start. No gate and no key counts it.
IS_DELAYED = f"(status = {int(Status.WAITING)} and started_us is null)"
_FORGOTTEN_KEY_LIMIT = 1  # of a key that was deleted while an execution was delayed, until the next admission sets it


class GateQueue(GateRows):
    """Works on locked gates. Gates are changed in place; the caller writes them back."""

    def __init__(self, d: Dialect, records: AppendOnlyTables) -> None:
        super().__init__(d)
        self._records = records
        self._known = f"""
            select id from active where {d.one_of("id", 1)}
            union all select id from history where {d.one_of("id", 1)}"""
        self._lock_open = f"""
            select job, id, status, key, held, token, {IS_DELAYED} from active where {d.one_of("job", 1)}
            order by job, scheduled_us, id {d.lock()}"""
        self._move_to_history = f"""
            insert into history (id, job, version, cause, scheduled_us, status, code, message, owner, token, attempt,
                admitted_us, started_us, attempt_us, finished_us, detail, levels)
            select id, job, version, cause, scheduled_us, {int(Status.CANCELED)}, $1, $2, owner, token, attempt,
                admitted_us, started_us, attempt_us, $3, detail, levels
            from active where {d.one_of("id", 4)}"""
        self._open_groups = (
            f"select id, detail from active where {d.one_of('id', 1)} and detail like '%{GROUP_JSON_KEY}%'"
        )
        self._close_groups = f"""
            update active set detail = i.detail from {d.rows(1, "id:i detail:t")} as i
            where {d.within("active.id", 1)} and active.id = i.id"""
        self._drop = f"delete from active where {d.one_of('id', 1)}"
        not_canceled = f"status = {int(Status.RUNNING)} and cancel = 0"
        self._request_cancel_of_job = f"update active set cancel = $2 where job = $1 and {not_canceled}"
        self._request_cancel = f"update active set cancel = $1 where {d.one_of('id', 2)} and {not_canceled}"
        queued = f"status = {int(Status.QUEUED)} and held = 0"
        self._first_queued = f"""
            select {_QUEUED_COLUMNS} from active where job = $1 and {queued}
            order by scheduled_us, id limit $2"""
        self._first_queued_of_many = f"""
            select {_QUEUED_COLUMNS} from (
                select a.id, a.job, a.key, a.lane, a.rank, a.token, i.room,
                    row_number() over (partition by a.job order by a.scheduled_us, a.id) as place
                from {d.rows(1, "job:i room:n")} as i join active as a on a.job = i.job
                where {d.within("a.job", 1)} and {queued}
            ) as q where place <= room order by job, place"""
        self._make_ready = f"""
            update active set status = i.status, owner = i.owner, token = i.token,
                started_us = case i.claim when 1 then coalesce(active.started_us, i.now_us) else active.started_us end,
                attempt_us = case i.claim when 1 then i.now_us else active.attempt_us end, ready_since_us = i.now_us,
                exclusive = i.exclusive
            from {d.rows(1, "id:i status:n owner:n token:n claim:n now_us:n exclusive:n")} as i
            where {d.within("active.id", 1)} and active.id = i.id
            returning {claimed_columns("active")}, active.status"""
        self._last_ready = f"""
            select id, key from active where job = $1 and status = {int(Status.READY)}
            order by scheduled_us desc, id desc limit $2 {d.lock()}"""
        self._requeue = f"update active set status = {int(Status.QUEUED)} where {d.one_of('id', 1)}"
        stopped = ", ".join(str(int(cause)) for cause in Cause if is_held(cause, admitted_before_pause=True))
        not_started = f"{d.one_of('job', 1)} and started_us is null and cause in ({stopped})"
        self._hold_ready = f"""
            update active set held = 1, status = {int(Status.QUEUED)}
            where status = {int(Status.READY)} and {not_started} returning job, key"""
        self._hold_queued = f"update active set held = 1 where status = {int(Status.QUEUED)} and {not_started}"
        self._jobs_queued_behind_keys = f"select job from active where {d.one_of('key', 1)} and {queued}"
        self._due_delayed = f"""
            select id, job from active where {IS_DELAYED} and wake_us <= $1 order by wake_us, id limit $2"""
        self._queue_delayed = f"""
            update active set status = {int(Status.QUEUED)}, wake_us = null
            where {d.one_of("id", 1)} and {IS_DELAYED} returning job, key"""
        self._next_behind_keys = f"""
            with queued_rows as materialized (select job, rank from active where {d.one_of("key", 2)} and {queued})
            select job from queued_rows group by job order by min(rank), job limit $1"""
        self._first_behind_keys = f"""
            select {_QUEUED_COLUMNS} from (
                select a.id, a.job, a.key, a.lane, a.rank, a.token, i.room,
                    row_number() over (partition by a.job, a.key order by a.scheduled_us, a.id) as place,
                    row_number() over (partition by a.job order by a.scheduled_us, a.id) as place_of_all
                from {d.rows(1, "job:i key:i room:n")} as i join active as a on a.key = i.key and a.job = i.job
                where {d.within("a.key", 2)} and {queued}
            ) as q where place <= room order by job, place_of_all"""
        room = """(select p.lim = 0 or g.active < p.lim from gate as g join profile as p on p.number = g.profile
            where g.job = a.job)"""
        self._free_keys = f"""
            select k.key from key_gate as k where k.queued > 0 and k.active < k.lim and (
                select 1 from active as a where a.key = k.key and {queued} and {room} limit 1
            ) is not null order by k.key limit $1"""

    def find_known(self, executions: Sequence[bytes]) -> Steps[set[bytes]]:
        """Return which of these executions exist, open or ended."""
        rows = yield Query(self._known, rows=to_id_rows(executions))
        return {row[0] for row in rows}

    def wake(
        self,
        gates: Iterable[Gate],
        *,
        now_us: int,
        node: int | None = None,
        take: int = 0,
        lanes: Sequence[int] = (),
        freed: Mapping[bytes, int] = NO_FREED_KEYS,
    ) -> Steps[tuple[list[Claimed], int]]:
        """Wake queued executions that now have room.

        - Up to ``take`` of them, in ``lanes``, start on ``node``; the others become ready.
        - ``freed`` maps each freed concurrency key to the number of executions that no longer use it and that the
          caller has not yet subtracted from ``KeyGate.active``. The best-ranked executions of other jobs behind these
          keys are woken too. Gates that another transaction has locked, and executions beyond a limit, are left to a
          later ``Wake``.
        - Gates are changed in place. Keys are locked together, in order. Save every other changed gate before the call.
        - Returns (started executions, number made ready).
        """
        locked = list(gates)
        open_gates = {g.job: g for g in locked if _has_room(g)}
        other_gates = (yield from self._lock_gates_behind_keys(freed, {g.job for g in locked})) if freed else {}
        queued_rows = (yield from self._select_next_queued(list(open_gates.values()))) if open_gates else []
        if other_gates:
            queued_rows += yield from self._select_queued_behind_keys(other_gates.values(), freed)
        keys = yield from self.lock_existing_keys(
            sorted({row[2] for row in queued_rows if row[2] is not None} | freed.keys())
        )
        for freed_key, count in freed.items():
            keys[freed_key].active -= count
        chosen: list[Row] = []
        for gate, (execution, job, _, lane, *_) in _choose_rows_with_room(queued_rows, open_gates | other_gates, keys):
            claim = take > 0 and lane in lanes and job not in other_gates
            take -= claim
            status = Status.RUNNING if claim else Status.READY
            token = first_token(gate.seq)
            token = next_claim_token(token) if claim else token
            exclusive = int(gate.overlap is not Overlap.ALLOW)  # the settings may have changed since it was queued
            chosen.append((execution, int(status), node if claim else None, token, int(claim), now_us, exclusive))
        if chosen or freed:
            yield from self.save_keys(keys.values())
        yield from self.save(other_gates.values())
        rows = (yield Query(self._make_ready, rows=Rows("innnnnn", chosen))) if chosen else []
        started = to_claimed_rows(row[:-1] for row in rows if row[-1] == Status.RUNNING)
        return started, len(rows) - len(started)

    def wake_behind_freed_keys(self, freed: Collection[bytes], now_us: int) -> Steps[None]:
        """Wake executions behind freed concurrency keys. Call it after the gates were saved."""
        if freed:
            yield from self.wake((), now_us=now_us, freed=dict.fromkeys(freed, 0))

    def wake_behind_keys_with_room(self, keys: Sequence[bytes], now_us: int) -> Steps[int]:
        """Wake executions behind concurrency keys with room. Locks and saves their gates. Returns the number woken."""
        jobs = yield Query(self._jobs_queued_behind_keys, rows=to_id_rows(keys))
        gates = yield from self.lock(sorted({row[0] for row in jobs}))
        _, woken = yield from self.wake(gates.values(), now_us=now_us)
        yield from self.save(gates.values())
        return woken

    def find_keys_with_room(self, limit: int) -> Steps[list[bytes]]:
        """Return concurrency keys with room that still have executions queued behind them.

        ``wake`` leaves them when another transaction has locked a gate, or when too many are queued.
        """
        rows = yield Query(self._free_keys, (limit,))
        return [row[0] for row in rows]

    def start_delayed(self, now_us: int, limit: int) -> Steps[int]:
        """Queue delayed executions that are due, and make those ready that have room. Returns the number queued.

        Jobs whose gate another transaction has locked are left to the next call.
        """
        due = yield Query(self._due_delayed, (now_us, limit))
        gates = (yield from self.try_lock(sorted({job for _, job in due}))) if due else {}
        if not gates:
            return 0
        rows = yield Query(self._queue_delayed, rows=to_id_rows(id_ for id_, job in due if job in gates))
        used = sorted({key for _, key in rows if key is not None})
        keys = yield from self.lock_existing_keys(used)
        keys |= yield from self.lock_keys({key: _FORGOTTEN_KEY_LIMIT for key in used if key not in keys})
        for job, key in rows:
            count_in(gates[job], Status.QUEUED)
            if key is not None:
                count_in(keys[key], Status.QUEUED)
        yield from self.save_keys(keys.values())
        yield from self.wake(gates.values(), now_us=now_us)
        yield from self.save(gates.values())
        return len(rows)

    def requeue_beyond_limit(self, gate: Gate) -> Steps[set[bytes]]:
        """Queue ready executions beyond the lowered limit of a gate again, the latest first.

        Returns the freed concurrency keys.
        """
        if gate.lim == 0 or gate.active <= gate.lim:
            return set()
        rows = yield Query(self._last_ready, (gate.job, gate.active - gate.lim))
        if not rows:
            return set()
        yield Query(self._requeue, rows=to_id_rows(row[0] for row in rows))
        return (yield from self._count_requeued([(gate, key) for _, key in rows]))

    def hold(self, gates: Iterable[Gate]) -> Steps[set[bytes]]:
        """Hold the executions of jobs that are being paused, unless they started. They are queued and block no others.

        Returns the freed concurrency keys.
        """
        held = {gate.job: gate for gate in gates if gate.active + gate.queued > 0}
        if not held:
            return set()
        rows = yield Query(self._hold_ready, rows=to_id_rows(held))
        yield Query(self._hold_queued, rows=to_id_rows(held))
        return (yield from self._count_requeued([(held[job], key) for job, key in rows]))

    def _count_requeued(self, rows: Sequence[tuple[Gate, bytes | None]]) -> Steps[set[bytes]]:
        """Count executions, as (gate, key), that were ready and are queued again. Returns their keys."""
        keys = yield from self.lock_existing_keys(sorted({key for _, key in rows if key is not None}))
        for gate, key in rows:
            count_requeued(gate)
            if key is not None:
                count_requeued(keys[key])
        yield from self.save_keys(keys.values())
        return set(keys)

    def cancel_not_running(self, gate: Gate, code: ReasonCode, message: str | None, now_us: int) -> Steps[set[bytes]]:
        """Cancel the executions of a locked gate that are not running. Returns the freed concurrency keys.

        Running executions are locked too, so that none is released before it is asked to cancel.
        """
        opened = yield from self.lock_open_executions([gate.job])
        canceled = {i: run for i, run in opened.get(gate.job, {}).items() if run.status in _NOT_RUNNING}
        if not canceled:
            return set()
        yield from self.cancel_locked(dict.fromkeys(canceled, gate), code, message, now_us)
        counted = [run for run in canceled.values() if not run.delayed]
        keys = yield from self.lock_existing_keys([run.key for run in counted if run.key is not None])
        for run in canceled.values():
            skip_used_turns(gate, run.token)
            if run.delayed:
                continue
            count_out(gate, run.status)
            if run.key is not None:
                count_out(keys[run.key], run.status)
        yield from self.save_keys(keys.values())
        return set(keys)

    def lock_open_executions(self, jobs: Sequence[bytes]) -> Steps[dict[bytes, dict[bytes, OpenExecution]]]:
        """Lock the open executions of jobs whose gates are locked. Returns them by job and id."""
        executions: dict[bytes, dict[bytes, OpenExecution]] = {}
        for job, execution, status, key, held, token, delayed in (
            (yield Query(self._lock_open, rows=to_id_rows(jobs))) if jobs else ()
        ):
            opened = OpenExecution(status, key, bool(held), token, bool(delayed))
            executions.setdefault(job, {})[execution] = opened
        return executions

    def cancel_locked(
        self, canceled: Mapping[bytes, Gate], code: ReasonCode, message: str | None, now_us: int
    ) -> Steps[None]:
        """Cancel executions that are locked and not running. The caller changes gates and keys."""
        if not canceled:
            return
        yield from self.close_tasks(canceled, code, message, now_us)
        yield Query(self._move_to_history, (code.value, message, now_us), to_id_rows(canceled))
        yield Query(self._drop, rows=to_id_rows(canceled))
        ended = [(execution, gate.job, Status.CANCELED) for execution, gate in canceled.items() if gate.followed]
        yield from self._records.insert_ended_items(ended, now_us)

    def close_tasks(
        self, executions: Iterable[bytes], code: ReasonCode, message: str | None, now_us: int
    ) -> Steps[None]:
        """Close the open tasks in the details of locked executions that are about to end."""
        rows = yield Query(self._open_groups, rows=to_id_rows(executions))
        closed = [(id_, text) for id_, old in rows if (text := close_detail(old, code, now_us, message)) is not None]
        if closed:
            yield Query(self._close_groups, rows=Rows("it", closed))

    def request_cancel_of_job(self, job: bytes, cancel: CancelRequest) -> Steps[None]:
        """Ask the running executions of a job to cancel."""
        yield Query(self._request_cancel_of_job, (job, int(cancel)))

    def request_cancel(self, executions: Collection[bytes], cancel: CancelRequest) -> Steps[None]:
        """Ask running executions to cancel."""
        if executions:
            yield Query(self._request_cancel, (int(cancel),), to_id_rows(executions))

    def _lock_gates_behind_keys(
        self, freed: Mapping[bytes, int], excluded: Collection[bytes]
    ) -> Steps[dict[bytes, Gate]]:
        """Lock the gates with room of other jobs that are queued behind concurrency keys. Skips locked gates."""
        rows = yield Query(self._next_behind_keys, (_EXTRA_ROWS_BEHIND_KEY + sum(freed.values()),), to_id_rows(freed))
        jobs = sorted(row[0] for row in rows if row[0] not in excluded)
        gates = (yield from self.try_lock(jobs)) if jobs else {}
        return {job: gate for job, gate in gates.items() if _has_room(gate)}

    def _select_queued_behind_keys(self, gates: Iterable[Gate], freed: Mapping[bytes, int]) -> Steps[list[Row]]:
        """Return the first executions of these gates that are queued behind the keys, as many as may have room."""
        max_rows = _EXTRA_ROWS_BEHIND_KEY + sum(freed.values())
        places = [(g.job, key, min(max_rows, g.lim - g.active if g.lim else max_rows)) for g in gates for key in freed]
        return (yield Query(self._first_behind_keys, rows=Rows("iin", places)))

    def _select_next_queued(self, gates: list[Gate]) -> Steps[list[Row]]:
        """Return the next executions of each gate, as many as it has room for.

        An execution with a concurrency key may be blocked. If there is one, all that are queued at its gate are
        returned.
        """
        room_by_job = {g.job: g.queued if g.lim == 0 else g.lim - g.active for g in gates}
        rows = yield from self._select_first_queued(room_by_job)
        keyed = {row[1] for row in rows if row[2] is not None}
        if keyed:
            rows = [row for row in rows if row[1] not in keyed]
            rows += yield from self._select_first_queued({g.job: g.queued for g in gates if g.job in keyed})
        return rows

    def _select_first_queued(self, room_by_job: dict[bytes, int]) -> Steps[list[Row]]:
        if len(room_by_job) > _MAX_SINGLE_GATE_QUERIES:
            return (yield Query(self._first_queued_of_many, rows=Rows("in", list(room_by_job.items()))))
        rows: list[Row] = []
        for job, room in room_by_job.items():
            rows += yield Query(self._first_queued, (job, room))
        return rows


def _has_room(gate: Gate) -> bool:
    return gate.queued > 0 and (gate.lim == 0 or gate.active < gate.lim)


def _choose_rows_with_room(
    queued_rows: Sequence[Row], gates: Mapping[bytes, Gate], keys: Mapping[bytes, KeyGate]
) -> Iterable[tuple[Gate, Row]]:
    """Yield the executions that have room, each with its gate, and count them in place. Its turn is ``gate.seq``.

    - Rows: ``_QUEUED_COLUMNS``.
    - Ordered: the executions of one job as given. With concurrency keys, the best-ranked of all jobs first.
    """
    ordered: Iterable[Row] = queued_rows
    if keys:
        queues: dict[bytes, list[Row]] = {}
        for row in queued_rows:
            queues.setdefault(row[1], []).append(row)
        ordered = merge(*queues.values(), key=lambda row: (row[4], row[0]))
    for row in ordered:
        _, job, key_id, _, _, token = row
        gate = gates[job]
        key = keys[key_id] if key_id is not None else None
        if (gate.lim and gate.active >= gate.lim) or (key is not None and key.active >= key.lim > 0):
            continue
        for counted in (gate, key):
            if counted is not None:
                counted.active += 1
                counted.queued -= 1
        skip_used_turns(gate, token)
        gate.seq += 1
        yield gate, row


def claimed_columns(table: str) -> str:
    """Return the columns of a ``Claimed``; ``table`` is an alias of ``active``."""
    return ", ".join([*(f"{table}.{name}" for name in CLAIMED_COLUMNS.split(", ")), last_run_sql(table)])


def to_claimed_rows(rows: Iterable[Sequence[Any]]) -> list[Claimed]:
    """Map rows of ``claimed_columns``. Tuples are built directly, for speed."""
    make = tuple.__new__
    return [
        make(
            Claimed,
            (
                i,
                job,
                version,
                CAUSE_BY_NUMBER[cause],
                at,
                attempt,
                token,
                admitted,
                started,
                worked,
                text,
                levels,
                last,
            ),
        )
        for i, job, version, cause, at, attempt, token, admitted, started, worked, text, levels, last in rows
    ]
