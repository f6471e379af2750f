"""Gives ready and queued executions the concurrency key and limit of a new version of their job.

A version may add or drop the key, or change its template or its limit. Running and waiting executions keep the version
and the key with which they started.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from chronos.core.admission_policy import GateSpec
from chronos.core.concurrency_key import render_key_gate
from chronos.core.execution import Status
from chronos.store.commands import JobRow
from chronos.store.sql.executions.gate_queue import GateQueue
from chronos.store.sql.executions.gates import Gate, KeyGate, count_in, count_out, count_requeued, to_id_rows
from chronos.store.sql.query import Dialect, Query, Rows, Steps

_STATUSES_REKEYED = (Status.READY, Status.QUEUED)


class _NewKeys(msgspec.Struct):
    """The part of an execution's detail that a key template may use."""

    payload: Any = None


_decode_payload = msgspec.json.Decoder(_NewKeys).decode


@dataclass(slots=True)
class _RekeyedExecution:
    id: bytes
    gate: Gate
    status: int
    before: bytes | None
    key: bytes | None


class ConcurrencyKeys:
    """Changes the concurrency keys of ready and queued executions."""

    def __init__(self, d: Dialect, gates: GateQueue) -> None:
        self._gates = gates
        self._open = f"""
            select id, job, status, key, detail from active where {d.one_of("job", 1)}
            order by job, scheduled_us, id {d.lock()}"""
        self._update_keys = f"""
            update active set key = i.key, status = i.status from {d.rows(1, "id:i key:i status:n")} as i
            where {d.within("active.id", 1)} and active.id = i.id"""

    def rekey(self, changed: Sequence[tuple[JobRow, GateSpec, Gate]]) -> Steps[set[bytes]]:
        """Change the keys of jobs that had a key or have one now. Their gates are locked.

        - Ready executions beyond the limit of their key are queued again, the latest first. Nothing is woken.
        - Gates are changed in place; the caller writes them back.
        - Returns the keys that may have been freed.
        """
        jobs = {gate.job: (row, spec, gate) for row, spec, gate in changed if gate.active + gate.queued > 0}
        if not jobs:
            return set()
        executions: list[_RekeyedExecution] = []
        limits: dict[bytes, int] = {}
        for id_, job, status, before, detail in (yield Query(self._open, rows=to_id_rows(jobs))):
            row, spec, gate = jobs[job]
            key = _new_key(row, spec, before, detail)
            if status in _STATUSES_REKEYED:
                executions.append(_RekeyedExecution(id_, gate, status, before, key))
            if key is not None and spec.key_limit and (status in _STATUSES_REKEYED or key == before):
                limits[key] = spec.key_limit
        keys = yield from self._gates.lock_keys(limits)
        others = {
            key for execution in executions for key in (execution.before, execution.key) if key is not None
        } - keys.keys()
        keys |= yield from self._gates.lock_existing_keys(sorted(others))
        changed_executions = [*_change_keys(executions, keys), *_requeue_beyond_limits(executions, keys)]
        if changed_executions:
            values = {
                execution.id: (execution.id, execution.key, int(execution.status)) for execution in changed_executions
            }
            yield Query(self._update_keys, rows=Rows("iin", list(values.values())))
            yield from self._gates.save_keys(keys.values())
        return set(keys)


def _change_keys(executions: Sequence[_RekeyedExecution], keys: Mapping[bytes, KeyGate]) -> list[_RekeyedExecution]:
    """Return the executions whose key changes, and count them in place."""
    moved = [execution for execution in executions if execution.before != execution.key]
    for execution in moved:
        if execution.before is not None:
            count_out(keys[execution.before], execution.status)
        if execution.key is not None:
            count_in(keys[execution.key], execution.status)
    return moved


def _requeue_beyond_limits(
    executions: Sequence[_RekeyedExecution], keys: Mapping[bytes, KeyGate]
) -> list[_RekeyedExecution]:
    """Queue ready executions beyond the limit of their key, the latest first; counted in place. Returns them."""
    requeued: list[_RekeyedExecution] = []
    for execution in reversed(executions):
        key = keys[execution.key] if execution.key is not None else None
        if key is not None and execution.status == Status.READY and key.active > key.lim > 0:
            execution.status = Status.QUEUED
            count_requeued(execution.gate)
            count_requeued(key)
            requeued.append(execution)
    return requeued


def _new_key(row: JobRow, spec: GateSpec, before: bytes | None, detail: str | None) -> bytes | None:
    """Return the key that a version of a job gives to an execution."""
    if not spec.keyed:
        return None
    if spec.key is None:
        return before
    payload = None if detail is None else _decode_payload(detail).payload
    return render_key_gate(
        spec.key,
        namespace=row.namespace,
        name=row.name,
        payload=row.spec.payload if payload is None else payload,
    )
