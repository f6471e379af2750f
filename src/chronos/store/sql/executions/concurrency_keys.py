"""What waits takes the concurrency key that the new version of its job gives it, and the limit of that key.

A version may drop the key, bring one, change its template or its limit. What runs or sleeps ends under the version that
it started with, and keeps its key until then.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from chronos.core.concurrency_key import render_key_gate
from chronos.core.execution import Status
from chronos.store.commands import JobRow
from chronos.store.sql.executions.gate_queue import GateQueue
from chronos.store.sql.executions.gates import Gate, KeyGate, count_in, count_out, count_requeued, to_id_rows
from chronos.store.sql.query import Dialect, Query, Rows, Steps

_STATUSES_REKEYED = (Status.READY, Status.QUEUED)


class _NewKeys(msgspec.Struct):
    """Of an execution's detail, what a key may name."""

    payload: Any = None


_decode_payload = msgspec.json.Decoder(_NewKeys).decode


@dataclass(slots=True)
class _WaitingExecution:
    id: bytes
    gate: Gate
    status: int
    before: bytes | None
    key: bytes | None


class ConcurrencyKeys:
    """Statements and steps."""

    def __init__(self, d: Dialect, gates: GateQueue) -> None:
        self._gates = gates
        self._open = f"""
            select id, job, status, key, detail from active where {d.one_of("job", 1)}
            order by job, scheduled_us, id {d.lock()}"""
        self._take = f"""
            update active set key = i.key, status = i.status from {d.rows(1, "id:i key:i status:n")} as i
            where {d.within("active.id", 1)} and active.id = i.id"""

    def rekey(self, changed: Sequence[tuple[JobRow, Gate]]) -> Steps[set[bytes]]:
        """Jobs whose gates are locked, with a key before or now. Gates are changed in place, for the caller to save.

        What is ready beyond the limit of its key goes back in line, the latest first; nothing is woken. Answers the
        keys that may have come free.
        """
        jobs = {gate.job: (row, gate) for row, gate in changed if gate.active + gate.queued > 0}
        if not jobs:
            return set()
        waiting: list[_WaitingExecution] = []
        limits: dict[bytes, int] = {}
        for execution, job, status, before, detail in (yield Query(self._open, rows=to_id_rows(jobs))):
            row, gate = jobs[job]
            key = _new_key(row, before, detail)
            if status in _STATUSES_REKEYED:
                waiting.append(_WaitingExecution(execution, gate, status, before, key))
            if key is not None and row.gate.key_limit and (status in _STATUSES_REKEYED or key == before):
                limits[key] = row.gate.key_limit
        keys = yield from self._gates.lock_keys(limits)
        others = {key for one in waiting for key in (one.before, one.key) if key is not None} - keys.keys()
        keys |= yield from self._gates.lock_existing_keys(sorted(others))
        taken = [*_change_keys(waiting, keys), *_requeue_beyond_limits(waiting, keys)]
        if taken:
            values = {one.id: (one.id, one.key, int(one.status)) for one in taken}
            yield Query(self._take, rows=Rows("iin", list(values.values())))
            yield from self._gates.save_keys(keys.values())
        return set(keys)


def _change_keys(waiting: Sequence[_WaitingExecution], keys: Mapping[bytes, KeyGate]) -> list[_WaitingExecution]:
    """Those that get another key leave the one they had; counted in place."""
    moved = [one for one in waiting if one.before != one.key]
    for one in moved:
        if one.before is not None:
            count_out(keys[one.before], one.status)
        if one.key is not None:
            count_in(keys[one.key], one.status)
    return moved


def _requeue_beyond_limits(
    waiting: Sequence[_WaitingExecution], keys: Mapping[bytes, KeyGate]
) -> list[_WaitingExecution]:
    """What is ready beyond the limit of its key goes back in line, the latest first; counted in place."""
    back: list[_WaitingExecution] = []
    for one in reversed(waiting):
        key = keys[one.key] if one.key is not None else None
        if key is not None and one.status == Status.READY and key.active > key.lim > 0:
            one.status = Status.QUEUED
            count_requeued(one.gate)
            count_requeued(key)
            back.append(one)
    return back


def _new_key(row: JobRow, before: bytes | None, detail: str | None) -> bytes | None:
    """The key that a version of a job gives to an execution."""
    if not row.gate.keyed:
        return None
    if row.gate.key is None:
        return before
    payload = None if detail is None else _decode_payload(detail).payload
    return render_key_gate(
        row.gate.key,
        namespace=row.namespace,
        name=row.name,
        payload=row.spec.payload if payload is None else payload,
    )
