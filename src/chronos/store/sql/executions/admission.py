"""Admission under locked gates, decided in memory by ``core.admission_policy``.

For everything that the hot path does not handle: requested and recovered executions, ``replace``, concurrency keys.
"""

from collections.abc import Sequence

from chronos.core.config import Overlap
from chronos.core.execution import CancelRequest, Cause, Status
from chronos.core.reasons import ReasonCode
from chronos.store.commands import AdmitRow, Admitted, RunRow
from chronos.store.sql.executions.admission_batch import INSERTED_COLUMNS, SKIPPED_COLUMNS, AdmissionBatch
from chronos.store.sql.executions.gate_queue import GateQueue, last_run_sql
from chronos.store.sql.executions.gates import Gate, move_cursor, to_id_rows
from chronos.store.sql.query import Dialect, Query, Rows, Steps

RunsByGate = Sequence[tuple[Gate, Sequence[RunRow]]]


class AdmissionHandler:
    """Admits executions under locked gates."""

    def __init__(self, d: Dialect, gates: GateQueue) -> None:
        self._gates = gates
        names = ", ".join(column.split(":")[0] for column in INSERTED_COLUMNS.split())
        self._insert = f"""
            insert into active ({names}, attempt_us)
            select {names}, started_us from {d.rows(1, INSERTED_COLUMNS)} as i"""
        self._insert_skipped = f"""
            insert into history (id, job, version, cause, scheduled_us, status, code, token, attempt, admitted_us,
                finished_us, detail, levels)
            select id, job, version, cause, scheduled_us, {int(Status.SKIPPED)}, code, token, 0, now_us, now_us, detail,
                levels
            from {d.rows(1, SKIPPED_COLUMNS)} as i"""
        self._select_admitted_before = f"""
            select id, job, status, token, {last_run_sql("active")} from active
            where request = $1 and (status <> {int(Status.RUNNING)} or owner = $2) and {d.one_of("id", 3)}"""

    def begin_batch(
        self, requests: RunsByGate, *, now_us: int, node: int | None = None, request: bytes | None = None
    ) -> Steps[AdmissionBatch]:
        """Read and lock everything that a decision about runs under locked gates needs.

        Keys are locked together, in order, and then the executions that may be replaced.
        """
        runs = [run for _, gate_runs in requests for run in gate_runs]
        known = (yield from self._gates.find_known([run.id for run in runs])) if runs else set()
        keys = yield from self._gates.lock_keys({run.key: run.key_limit for run in runs if run.key is not None})
        replacing = {
            gate.job: None
            for gate, gate_runs in requests
            if gate.overlap is Overlap.REPLACE
            and gate.active + gate.queued > 0
            and any(run.id not in known for run in gate_runs)
        }
        opened = yield from self._gates.lock_open_executions(list(replacing))
        held = {run.key for executions in opened.values() for run in executions.values() if run.key is not None}
        keys |= yield from self._gates.lock_existing_keys(sorted(held - keys.keys()))
        return AdmissionBatch(
            now_us=now_us,
            node=node,
            request=request,
            known=known,
            keys=keys,
            open={job: opened.get(job, {}) for job in replacing},
        )

    def finish_batch(self, batch: AdmissionBatch) -> Steps[None]:
        """Write the decisions of a batch. The caller writes the gates."""
        if batch.inserted:
            yield Query(self._insert, rows=Rows(_row_types(INSERTED_COLUMNS), batch.inserted))
        if batch.skipped:
            yield Query(self._insert_skipped, rows=Rows(_row_types(SKIPPED_COLUMNS), batch.skipped))
        # After the inserts: an execution of this batch may have been replaced by a later one.
        yield from self._gates.cancel_locked(batch.replaced, ReasonCode.REPLACED, None, batch.now_us)
        yield from self._gates.request_cancel(batch.cancel_requested, CancelRequest.REPLACED)
        yield from self._gates.save_keys(batch.keys.values())

    def admit_runs(
        self, gate: Gate, runs: Sequence[RunRow], *, now_us: int
    ) -> Steps[tuple[list[Admitted], list[RunRow]]]:
        """Admit runs under one locked gate, in order. Returns the admitted and the rejected runs.

        Changes the gate in place; the caller writes it back.
        """
        batch = yield from self.begin_batch([(gate, runs)], now_us=now_us)
        answer = batch.decide(gate, runs)
        yield from self.finish_batch(batch)
        return answer

    def admitted_before(self, request: bytes, node: int, rows: Sequence[AdmitRow]) -> Steps[list[Admitted]]:
        """Return what the same request admitted before, except executions that other nodes have claimed since."""
        admitted = yield Query(self._select_admitted_before, (request, node), to_id_rows(row.id for row in rows))
        return [Admitted(id_, job, Status(status), token, last_us) for id_, job, status, token, last_us in admitted]

    def admit_under_locks(
        self, rows: Sequence[AdmitRow], *, node: int, now_us: int, request: bytes
    ) -> Steps[list[Admitted]]:
        """Admit scheduled instants of ``replace`` and keyed jobs."""
        gates = yield from self._gates.lock(row.job for row in rows)
        requests = [
            (gates[row.job], row, _to_run_row(row))
            for row in sorted(rows, key=lambda row: row.job)
            if row.job in gates and (gates[row.job].version, gates[row.job].levels) == (row.version, row.levels)
        ]
        batch = yield from self.begin_batch(
            [(gate, [run]) for gate, _, run in requests], now_us=now_us, node=node, request=request
        )
        answers: list[Admitted] = []
        changed: dict[bytes, Gate] = {}
        for gate, row, run in requests:
            if not gate.is_at(row.expect_us, row.version):
                continue
            admitted, _ = batch.decide(gate, [run], claim=row.claim)
            if admitted:
                move_cursor(gate, row.next_us)
            else:  # already recorded: only the cursor moves
                gate.next_us = row.next_us
            answers += admitted
            changed[gate.job] = gate
        yield from self.finish_batch(batch)
        yield from self._gates.save(changed.values())
        return answers


def _to_run_row(row: AdmitRow) -> RunRow:
    return RunRow(row.id, Cause.SCHEDULE, row.expect_us, row.ready_us, None, row.key, row.key_limit)


def _row_types(columns: str) -> str:
    """Return the types of ``Rows`` from columns such as ``id:i``."""
    return "".join(column[-1] for column in columns.split())
