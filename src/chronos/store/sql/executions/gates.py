"""Gates as rows: locked, read, written back.

Order of locks: job gates in key order, then key gates in key order, then executions. Where only executions tell which
keys they hold, the keys come last, again in order. A transaction that deadlocks over them is repeated (see
``postgres.write_connection``). Gates of other jobs that wait behind a freed key are locked only if they are free.
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
    ran_us: int | None  # the newest instant whose run has ended

    def is_at(self, next_us: int, version: int) -> bool:
        """Whether its schedule is where somebody who is about to move it expects it."""
        return (self.next_us, self.version, self.state) == (next_us, version, JobState.ACTIVE)


@dataclass(slots=True)
class KeyGate:
    """A locked concurrency key."""

    key: bytes
    lim: int
    active: int
    queued: int


class OpenExecution(NamedTuple):
    """An execution that has not ended, as far as gates are concerned."""

    status: int
    key: bytes | None
    held: bool
    token: int


class LostRace(Exception):
    """What was read changed before it was locked: the command must be applied again. Never on a serial engine."""


def to_id_rows(values: Iterable[bytes]) -> Rows:
    """The ``Rows`` of a list of ids."""
    return Rows("i", [(value,) for value in values])


class GateRows:
    """Statements and steps that lock gates and concurrency keys, and let them go changed."""

    def __init__(self, d: Dialect) -> None:
        self._lock, self._try_lock = (
            f"""
            select job, next_us, version, state, overlap, lim, queue_max, priority, lane, keyed, active, queued, seq,
                done_us, followed, ran_us
            from gate where {d.one_of("job", 1)} order by job {how}"""
            for how in (d.lock(), d.lock_or_skip())
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
        """The gates of some jobs, locked; those that do not exist are missing."""
        rows = yield Query(self._lock, rows=to_id_rows(dict.fromkeys(jobs)))
        return {row[0]: _to_gate(row) for row in rows}

    def try_lock(self, jobs: Iterable[bytes]) -> Steps[dict[bytes, Gate]]:
        """Those of them that nobody else has locked, for whoever has locked other gates already: it never waits."""
        rows = yield Query(self._try_lock, rows=to_id_rows(jobs))
        return {row[0]: _to_gate(row) for row in rows}

    def save(self, gates: Iterable[Gate]) -> Steps[None]:
        """Write locked gates back."""
        values = [(g.job, g.next_us, g.state, g.active, g.queued, g.seq, g.done_us) for g in gates]
        if values:
            yield Query(self._save, rows=Rows("innnnnn", values))

    def lock_keys(self, wanted: dict[bytes, int]) -> Steps[dict[bytes, KeyGate]]:
        """The concurrency keys with these limits, made where missing, locked."""
        if not wanted:
            return {}
        yield Query(self._upsert_keys, rows=Rows("in", sorted(wanted.items())))
        return (yield from self.lock_existing_keys(wanted))

    def lock_existing_keys(self, keys: Iterable[bytes]) -> Steps[dict[bytes, KeyGate]]:
        """Concurrency keys that exist, locked."""
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
    """Where a schedule ends, its job is done."""
    gate.next_us = next_us
    if next_us is None and gate.state == JobState.ACTIVE:
        gate.state = JobState.DONE


def count_in(counted: Gate | KeyGate, status: int) -> None:
    """An execution in a status is open under a gate or key from now on."""
    counted.queued += status == Status.QUEUED
    counted.active += status != Status.QUEUED


def count_requeued(counted: Gate | KeyGate) -> None:
    """An execution that was ready under a gate or key is queued there again."""
    counted.active -= 1
    counted.queued += 1


def count_out(counted: Gate | KeyGate, status: int) -> None:
    """An execution in a status is open no more under a gate or key."""
    counted.queued -= status == Status.QUEUED
    counted.active -= status != Status.QUEUED


def skip_used_turns(gate: Gate, token: int) -> None:
    """The turns that an execution has used are over: the gate's next one comes after them."""
    gate.seq = max(gate.seq, turn_of(token))


def _to_gate(row: Row) -> Gate:
    job, next_us, version, state, overlap, lim, queue_max, priority, lane, keyed, *counters = row
    rest = (lim, queue_max, priority, lane, bool(keyed))
    return Gate(job, next_us, version, state, OVERLAPS[overlap], *rest, *counters)
