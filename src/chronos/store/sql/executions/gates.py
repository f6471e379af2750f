"""Gate rows: lock, read, write back.

Locks are taken in this order:

1. gates of jobs, by job id
2. concurrency keys, by key
3. executions
4. keys that only the executions name, by key

A transaction that deadlocks in step 4 is retried (see ``postgres.write_connection``). Gates of other jobs that wait
behind a freed key are locked only if no other transaction has locked them.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from chronos.core.config import Overlap
from chronos.core.execution import Status
from chronos.core.fencing_token import turn_of
from chronos.core.job import JobState
from chronos.store.sql.query import Dialect, Query, Row, Rows, Steps

OVERLAPS = tuple(Overlap)
_SETTINGS = ("overlap", "lim", "queue_max", "priority", "lane", "keyed")


@dataclass(slots=True)
class Gate:
    """A locked gate. It is changed in memory and written back."""

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
    done_us: int  # the latest recorded instant: no instant up to here is admitted again
    followed: int  # 1: other jobs follow this one
    levels: int  # the numbers of the defaults and namespace settings in force
    ran_us: int | None  # the newest instant whose execution has ended

    def is_at(self, next_us: int, version: int) -> bool:
        """Whether the gate is active and at the expected instant and version."""
        return (self.next_us, self.version, self.state) == (next_us, version, JobState.ACTIVE)


@dataclass(slots=True)
class KeyGate:
    """A locked concurrency key."""

    key: bytes
    lim: int
    active: int
    queued: int


class OpenExecution(NamedTuple):
    """An open execution: the columns that gates need."""

    status: int
    key: bytes | None
    held: bool
    token: int
    delayed: bool = False  # it waits for its first start, and no gate or key counts it


class LostRace(Exception):
    """A row changed between reading and locking it. The command is applied again. Never raised on SQLite."""


def to_id_rows(values: Iterable[bytes]) -> Rows:
    """Return ids as ``Rows``."""
    return Rows("i", [(value,) for value in values])


class GateRows:
    """Locks gates and concurrency keys, and writes them back."""

    def __init__(self, d: Dialect) -> None:
        # A gate without a profile was saved by an earlier release (see ``ProfileGates``).
        in_force = ", ".join(f"coalesce(p.{name}, g.{name})" for name in _SETTINGS)
        self._lock, self._try_lock = (
            f"""
            select g.job, g.next_us, g.version, g.state, {in_force}, g.active, g.queued, g.seq, g.done_us, g.followed,
                coalesce(p.levels, 0), g.ran_us
            from gate as g left join profile as p on p.number = g.profile and {d.profiles_of("p", 1)}
            where {d.one_of("g.job", 1)} order by g.job {how}"""
            for how in (d.lock("g"), d.lock_or_skip("g"))
        )
        self._save = f"""
            update gate as g set next_us = i.next_us, state = i.state, active = i.active, queued = i.queued,
                seq = i.seq, done_us = i.done_us
            from {d.rows(1, "job:i next_us:n state:n active:n queued:n seq:n done_us:n")} as i
            where {d.within("g.job", 1)} and g.job = i.job"""
        self._upsert_keys = f"""
            insert into key_gate (key, lim) select key, lim from {d.rows(1, "key:i lim:n")} as i order by key
            on conflict (key) do update set lim = excluded.lim"""
        self._lock_keys = f"""
            select key, lim, active, queued from key_gate where {d.one_of("key", 1)} order by key {d.lock()}"""
        self._save_keys = f"""
            update key_gate as k set active = i.active, queued = i.queued
            from {d.rows(1, "key:i active:n queued:n")} as i where {d.within("k.key", 1)} and k.key = i.key"""

    def lock(self, jobs: Iterable[bytes]) -> Steps[dict[bytes, Gate]]:
        """Lock the gates of jobs. Gates that do not exist are left out."""
        rows = yield Query(self._lock, rows=to_id_rows(dict.fromkeys(jobs)))
        return {row[0]: _to_gate(row) for row in rows}

    def try_lock(self, jobs: Iterable[bytes]) -> Steps[dict[bytes, Gate]]:
        """Lock those gates that no other transaction has locked. Never waits, so it is safe after other locks."""
        rows = yield Query(self._try_lock, rows=to_id_rows(jobs))
        return {row[0]: _to_gate(row) for row in rows}

    def save(self, gates: Iterable[Gate]) -> Steps[None]:
        """Write locked gates back."""
        values = [(g.job, g.next_us, g.state, g.active, g.queued, g.seq, g.done_us) for g in gates]
        if values:
            yield Query(self._save, rows=Rows("innnnnn", values))

    def lock_keys(self, limits: dict[bytes, int]) -> Steps[dict[bytes, KeyGate]]:
        """Set the limits of concurrency keys, which are created if missing, and lock them."""
        if not limits:
            return {}
        yield Query(self._upsert_keys, rows=Rows("in", sorted(limits.items())))
        return (yield from self.lock_existing_keys(limits))

    def lock_existing_keys(self, keys: Iterable[bytes]) -> Steps[dict[bytes, KeyGate]]:
        """Lock concurrency keys that exist."""
        if not keys:
            return {}
        rows = yield Query(self._lock_keys, rows=to_id_rows(dict.fromkeys(keys)))
        return {row[0]: KeyGate(*row) for row in rows}

    def save_keys(self, keys: Iterable[KeyGate]) -> Steps[None]:
        """Write locked concurrency keys back."""
        values = [(k.key, k.active, k.queued) for k in keys]
        if values:
            yield Query(self._save_keys, rows=Rows("inn", values))


def move_cursor(gate: Gate, next_us: int | None) -> None:
    """Set the cursor. At the end of the schedule (None), the job is done."""
    gate.next_us = next_us
    if next_us is None and gate.state == JobState.ACTIVE:
        gate.state = JobState.DONE


def count_in(counted: Gate | KeyGate, status: int) -> None:
    """Count an execution that is now open under a gate or key."""
    counted.queued += status == Status.QUEUED
    counted.active += status != Status.QUEUED


def count_requeued(counted: Gate | KeyGate) -> None:
    """Count an execution that was ready and is queued again."""
    counted.active -= 1
    counted.queued += 1


def count_out(counted: Gate | KeyGate, status: int) -> None:
    """Count an execution that is no longer open under a gate or key."""
    counted.queued -= status == Status.QUEUED
    counted.active -= status != Status.QUEUED


def skip_used_turns(gate: Gate, token: int) -> None:
    """Move the gate's sequence past the turns that an execution has used, so that later tokens are higher."""
    gate.seq = max(gate.seq, turn_of(token))


def _to_gate(row: Row) -> Gate:
    job, next_us, version, state, overlap, lim, queue_max, priority, lane, keyed, *counters = row
    rest = (lim, queue_max, priority, lane, bool(keyed))
    return Gate(job, next_us, version, state, OVERLAPS[overlap], *rest, *counters)
