"""What stands behind a locked gate: which of it starts as room is made, what is put back or ended before it started."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from heapq import merge
from typing import Any

from chronos.core.execution import CancelRequest, Cause, Status
from chronos.core.execution_detail import GROUP_JSON_KEY, close_detail
from chronos.core.fencing_token import first_token, next_claim_token
from chronos.core.policy import is_held
from chronos.core.reasons import ReasonCode
from chronos.store.commands import Claimed
from chronos.store.sql.append_only import AppendOnlyTables
from chronos.store.sql.executions.gates import (
    Gate,
    GateRows,
    KeyGate,
    OpenExecution,
    count_out,
    count_requeued,
    skip_used_turns,
    to_id_rows,
)
from chronos.store.sql.query import Dialect, Query, Row, Rows, Steps

CAUSE_BY_NUMBER = {int(cause): cause for cause in Cause}
CLAIMED_COLUMNS = "id, job, version, cause, scheduled_us, attempt, token, admitted_us, started_us, worked_us, detail"
last_run_sql = "(select g.ran_us from gate as g where g.job = {}.job)".format
NO_FREED_KEYS: Mapping[bytes, int] = {}
_MAX_GATES_ASKED_SINGLY = 4  # so many gates are asked one by one, with a limit that an index serves
_EXTRA_ROWS_BEHIND_KEY = (
    16  # so many more jobs, and executions of each, are looked at behind a key than places came free there
)
_UNSTARTED = (Status.READY, Status.QUEUED, Status.WAITING)


class GateQueue(GateRows):
    """Statements and steps around locked gates, which are changed in place: their caller writes them back."""

    def __init__(self, d: Dialect, records: AppendOnlyTables) -> None:
        super().__init__(d)
        self._records = records
        self._known = f"""
            select id from active where {d.one_of("id", 1)}
            union all select id from history where {d.one_of("id", 1)}"""
        self._lock_open = f"""
            select job, id, status, key, held, token from active where {d.one_of("job", 1)}
            order by job, scheduled_us, id {d.lock()}"""
        self._move_to_history = f"""
            insert into history (id, job, version, cause, scheduled_us, status, code, message, owner, token, attempt,
                admitted_us, started_us, attempt_us, finished_us, detail)
            select id, job, version, cause, scheduled_us, {int(Status.CANCELED)}, $1, $2, owner, token, attempt,
                admitted_us, started_us, attempt_us, $3, detail
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
            select id, job, key, lane, rank, token from active where job = $1 and {queued}
            order by scheduled_us, id limit $2"""
        self._first_queued_of_many = f"""
            select id, job, key, lane, rank, token from (
                select a.id, a.job, a.key, a.lane, a.rank, a.token, i.room,
                    row_number() over (partition by a.job order by a.scheduled_us, a.id) as place
                from {d.rows(1, "job:i room:n")} as i join active as a on a.job = i.job
                where {d.within("a.job", 1)} and {queued}
            ) as q where place <= room order by job, place"""
        self._make_ready = f"""
            update active set status = i.status, owner = i.owner, token = i.token,
                started_us = case i.claim when 1 then coalesce(active.started_us, i.now_us) else active.started_us end,
                attempt_us = case i.claim when 1 then i.now_us else active.attempt_us end, ready_since_us = i.now_us
            from {d.rows(1, "id:i status:n owner:n token:n claim:n now_us:n")} as i
            where {d.within("active.id", 1)} and active.id = i.id
            returning {claimed_columns("active")}, active.status"""
        self._last_ready = f"""
            select id, key from active where job = $1 and status = {int(Status.READY)}
            order by scheduled_us desc, id desc limit $2 {d.lock()}"""
        self._back_in_line = f"update active set status = {int(Status.QUEUED)} where {d.one_of('id', 1)}"
        stopped = ", ".join(str(int(cause)) for cause in Cause if is_held(cause, before=True))
        unstarted = f"{d.one_of('job', 1)} and started_us is null and cause in ({stopped})"
        self._hold_ready = f"""
            update active set held = 1, status = {int(Status.QUEUED)}
            where status = {int(Status.READY)} and {unstarted} returning job, key"""
        self._hold_queued = f"update active set held = 1 where status = {int(Status.QUEUED)} and {unstarted}"
        self._waiting_on_keys = f"select job from active where {d.one_of('key', 1)} and {queued}"
        self._next_behind_keys = f"""
            with waiting as materialized (select job, rank from active where {d.one_of("key", 2)} and {queued})
            select job from waiting group by job order by min(rank), job limit $1"""
        self._first_behind_keys = f"""
            select id, job, key, lane, rank, token from (
                select a.id, a.job, a.key, a.lane, a.rank, a.token, i.room,
                    row_number() over (partition by a.job, a.key order by a.scheduled_us, a.id) as place,
                    row_number() over (partition by a.job order by a.scheduled_us, a.id) as place_of_all
                from {d.rows(1, "job:i key:i room:n")} as i join active as a on a.key = i.key and a.job = i.job
                where {d.within("a.key", 2)} and {queued}
            ) as q where place <= room order by job, place_of_all"""
        room = "(select g.lim = 0 or g.active < g.lim from gate as g where g.job = a.job)"
        self._free_keys = f"""
            select k.key from key_gate as k where k.queued > 0 and k.active < k.lim and (
                select 1 from active as a where a.key = k.key and {queued} and {room} limit 1
            ) is not null order by k.key limit $1"""

    def find_known(self, executions: Sequence[bytes]) -> Steps[set[bytes]]:
        """Which of these executions exist, open or ended."""
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
        """Queued executions of locked gates that have room become ready, or running here while ``take`` lasts.

        The gates are changed in place. ``freed`` says how often concurrency keys are let go of by this (0: the caller
        has counted that): what other jobs have queued behind them is woken too, whoever is ranked best, unless somebody
        has locked their gates, or they are many: then the next sweep finds them. Keys are locked at once, in order.
        Answers what was taken, and how many became ready. No other gate may be locked and changed without being saved.
        """
        mine = list(gates)
        open_gates = {g.job: g for g in mine if _has_room(g)}
        others = (yield from self._lock_gates_behind_keys(freed, {g.job for g in mine})) if freed else {}
        waiting = (yield from self._select_next_queued(list(open_gates.values()))) if open_gates else []
        if others:
            waiting += yield from self._select_queued_behind_keys(others.values(), freed)
        keys = yield from self.lock_existing_keys(
            sorted({row[2] for row in waiting if row[2] is not None} | freed.keys())
        )
        for freed_key, count in freed.items():
            keys[freed_key].active -= count
        chosen: list[Row] = []
        for gate, (execution, job, _, lane, *_) in _choose_rows_with_room(waiting, open_gates | others, keys):
            claim = take > 0 and lane in lanes and job not in others
            take -= claim
            status = Status.RUNNING if claim else Status.READY
            token = first_token(gate.seq)
            token = next_claim_token(token) if claim else token
            chosen.append((execution, int(status), node if claim else None, token, int(claim), now_us))
        if chosen or freed:
            yield from self.save_keys(keys.values())
        yield from self.save(others.values())
        rows = (yield Query(self._make_ready, rows=Rows("innnnn", chosen))) if chosen else []
        taken = to_claimed_rows(row[:-1] for row in rows if row[-1] == Status.RUNNING)
        return taken, len(rows) - len(taken)

    def wake_after_freed_keys(self, freed: Collection[bytes], now_us: int) -> Steps[None]:
        """After executions let go of concurrency keys, and their gates were saved: whoever waits for those is woken."""
        if freed:
            yield from self.wake((), now_us=now_us, freed=dict.fromkeys(freed, 0))

    def wake_behind_keys(self, keys: Sequence[bytes], now_us: int) -> Steps[int]:
        """After concurrency keys were freed: wake what other jobs have queued behind them. Locks its own gates."""
        jobs = yield Query(self._waiting_on_keys, rows=to_id_rows(keys))
        gates = yield from self.lock(sorted({row[0] for row in jobs}))
        _, woken = yield from self.wake(gates.values(), now_us=now_us)
        yield from self.save(gates.values())
        return woken

    def find_keys_with_room(self, limit: int) -> Steps[list[bytes]]:
        """Concurrency keys with room and a queue: what a crash between freeing and waking may leave behind."""
        rows = yield Query(self._free_keys, (limit,))
        return [row[0] for row in rows]

    def requeue_beyond_limit(self, gate: Gate) -> Steps[set[bytes]]:
        """After a locked gate's limit became smaller: what is ready beyond it goes back in line, the latest first.

        Answers the concurrency keys that came free.
        """
        if gate.lim == 0 or gate.active <= gate.lim:
            return set()
        rows = yield Query(self._last_ready, (gate.job, gate.active - gate.lim))
        if not rows:
            return set()
        yield Query(self._back_in_line, rows=to_id_rows(row[0] for row in rows))
        return (yield from self._count_requeued([(gate, key) for _, key in rows]))

    def hold(self, gates: Iterable[Gate]) -> Steps[set[bytes]]:
        """Jobs of locked gates are being paused: what has not started is held, in line, and in nobody's way there.

        Answers the concurrency keys that came free.
        """
        held = {gate.job: gate for gate in gates if gate.active + gate.queued > 0}
        if not held:
            return set()
        rows = yield Query(self._hold_ready, rows=to_id_rows(held))
        yield Query(self._hold_queued, rows=to_id_rows(held))
        return (yield from self._count_requeued([(held[job], key) for job, key in rows]))

    def _count_requeued(self, rows: Sequence[tuple[Gate, bytes | None]]) -> Steps[set[bytes]]:
        """Executions of these gates, with these keys, were ready and are queued again."""
        keys = yield from self.lock_existing_keys(sorted({key for _, key in rows if key is not None}))
        for gate, key in rows:
            count_requeued(gate)
            if key is not None:
                count_requeued(keys[key])
        yield from self.save_keys(keys.values())
        return set(keys)

    def cancel_unstarted(self, gate: Gate, code: ReasonCode, message: str | None, now_us: int) -> Steps[set[bytes]]:
        """Cancel everything of a locked gate that is not running. Answers the concurrency keys that came free.

        What runs is locked too: it cannot be released between being passed over here and being asked to stop.
        """
        if gate.active + gate.queued == 0:
            return set()
        opened = yield from self.lock_open_executions([gate.job])
        gone = {i: run for i, run in opened.get(gate.job, {}).items() if run.status in _UNSTARTED}
        if not gone:
            return set()
        yield from self.cancel_locked(dict.fromkeys(gone, gate), code, message, now_us)
        keys = yield from self.lock_existing_keys([run.key for run in gone.values() if run.key is not None])
        for run in gone.values():
            count_out(gate, run.status)
            skip_used_turns(gate, run.token)
            if run.key is not None:
                count_out(keys[run.key], run.status)
        yield from self.save_keys(keys.values())
        return set(keys)

    def lock_open_executions(self, jobs: Sequence[bytes]) -> Steps[dict[bytes, dict[bytes, OpenExecution]]]:
        """What jobs whose gates are locked have open, by job and execution, locked too."""
        found: dict[bytes, dict[bytes, OpenExecution]] = {}
        for job, execution, status, key, held, token in (
            (yield Query(self._lock_open, rows=to_id_rows(jobs))) if jobs else ()
        ):
            found.setdefault(job, {})[execution] = OpenExecution(status, key, bool(held), token)
        return found

    def cancel_locked(
        self, gone: Mapping[bytes, Gate], code: ReasonCode, message: str | None, now_us: int
    ) -> Steps[None]:
        """Cancel executions that are locked and not running. Gates and keys are for the caller to change."""
        if not gone:
            return
        yield from self.close_tasks(gone, code, message, now_us)
        yield Query(self._move_to_history, (code.value, message, now_us), to_id_rows(gone))
        yield Query(self._drop, rows=to_id_rows(gone))
        told = [(execution, gate.job, Status.CANCELED) for execution, gate in gone.items() if gate.followed]
        yield from self._records.insert_ended_items(told, now_us)

    def close_tasks(
        self, executions: Iterable[bytes], code: ReasonCode, message: str | None, now_us: int
    ) -> Steps[None]:
        """Executions that are locked are about to end: what their tasks wait for does not come."""
        found = yield Query(self._open_groups, rows=to_id_rows(executions))
        closed = [(id_, text) for id_, old in found if (text := close_detail(old, code, now_us, message)) is not None]
        if closed:
            yield Query(self._close_groups, rows=Rows("it", closed))

    def request_cancel_of_job(self, job: bytes, cancel: CancelRequest) -> Steps[None]:
        """Ask what runs to stop."""
        yield Query(self._request_cancel_of_job, (job, int(cancel)))

    def request_cancel(self, executions: Collection[bytes], cancel: CancelRequest) -> Steps[None]:
        """Ask some of what runs to stop."""
        if executions:
            yield Query(self._request_cancel, (int(cancel),), to_id_rows(executions))

    def _lock_gates_behind_keys(self, freed: Mapping[bytes, int], mine: Collection[bytes]) -> Steps[dict[bytes, Gate]]:
        """The gates of other jobs that wait for concurrency keys, have room, and were free to be locked."""
        found = yield Query(self._next_behind_keys, (_EXTRA_ROWS_BEHIND_KEY + sum(freed.values()),), to_id_rows(freed))
        jobs = sorted(row[0] for row in found if row[0] not in mine)
        gates = (yield from self.try_lock(jobs)) if jobs else {}
        return {job: gate for job, gate in gates.items() if _has_room(gate)}

    def _select_queued_behind_keys(self, gates: Iterable[Gate], freed: Mapping[bytes, int]) -> Steps[list[Row]]:
        """The executions of these gates that are next behind the keys, as many as there may be room for."""
        most = _EXTRA_ROWS_BEHIND_KEY + sum(freed.values())
        wanted = [(g.job, key, min(most, g.lim - g.active if g.lim else most)) for g in gates for key in freed]
        return (yield Query(self._first_behind_keys, rows=Rows("iin", wanted)))

    def _select_next_queued(self, gates: list[Gate]) -> Steps[list[Row]]:
        """The executions that are next, as many as each gate has room for.

        Where one of them has a concurrency key it may be blocked, so then all that wait there are looked at.
        """
        wanted = {g.job: g.queued if g.lim == 0 else g.lim - g.active for g in gates}
        found = yield from self._select_first_queued(wanted)
        keyed = {row[1] for row in found if row[2] is not None}
        if keyed:
            found = [row for row in found if row[1] not in keyed]
            found += yield from self._select_first_queued({g.job: g.queued for g in gates if g.job in keyed})
        return found

    def _select_first_queued(self, wanted: dict[bytes, int]) -> Steps[list[Row]]:
        if len(wanted) > _MAX_GATES_ASKED_SINGLY:
            return (yield Query(self._first_queued_of_many, rows=Rows("in", list(wanted.items()))))
        found: list[Row] = []
        for job, room in wanted.items():
            found += yield Query(self._first_queued, (job, room))
        return found


def _has_room(gate: Gate) -> bool:
    return gate.queued > 0 and (gate.lim == 0 or gate.active < gate.lim)


def _choose_rows_with_room(
    waiting: Sequence[Row], gates: Mapping[bytes, Gate], keys: Mapping[bytes, KeyGate]
) -> Iterable[tuple[Gate, Row]]:
    """Those that there is room for, each with its gate, counted as they are given: its turn is the gate's ``seq``.

    Of each job they come in its order.

    Where concurrency keys are at stake, of jobs that may want the same one whoever is ranked best comes first.
    """
    in_turn: Iterable[Row] = waiting
    if keys:
        lines: dict[bytes, list[Row]] = {}
        for row in waiting:
            lines.setdefault(row[1], []).append(row)
        in_turn = merge(*lines.values(), key=lambda row: (row[4], row[0]))
    for row in in_turn:
        gate = gates[row[1]]
        key = keys[row[2]] if row[2] is not None else None
        if (gate.lim and gate.active >= gate.lim) or (key is not None and key.active >= key.lim > 0):
            continue
        for counted in (gate, key):
            if counted is not None:
                counted.active += 1
                counted.queued -= 1
        skip_used_turns(gate, row[5])
        gate.seq += 1
        yield gate, row


def claimed_columns(table: str) -> str:
    """What makes a ``Claimed`` of a row of ``active``, under this name, to select or to return."""
    return ", ".join([*(f"{table}.{name}" for name in CLAIMED_COLUMNS.split(", ")), last_run_sql(table)])


def to_claimed_rows(rows: Iterable[Sequence[Any]]) -> list[Claimed]:
    """Rows of the ``claimed_columns``. Made as the tuples they are: there are tens of thousands of them a second."""
    make = tuple.__new__
    return [
        make(
            Claimed,
            (i, job, version, CAUSE_BY_NUMBER[cause], at, attempt, token, admitted, started, worked, detail, last),
        )
        for i, job, version, cause, at, attempt, token, admitted, started, worked, detail, last in rows
    ]
