"""Steps for admission, claim, advance, suspend, release, wake and signal. Only the hot path differs per engine."""

from collections.abc import Sequence
from itertools import takewhile
from typing import Any

import msgspec

from chronos.core.calendar import rfc3339
from chronos.core.config import Overlap
from chronos.core.execution import Cause, Status
from chronos.core.job import JobState
from chronos.errors import NotFound, QueueFull
from chronos.store.commands import (
    Admit,
    AdmitRow,
    Admitted,
    Advance,
    AdvanceWith,
    Backfill,
    Backfilled,
    Claim,
    Claimed,
    Enqueue,
    Recover,
    Release,
    Signal,
    Suspend,
    Trigger,
    Triggered,
    Wake,
)
from chronos.store.sql.append_only import AppendOnlyTables
from chronos.store.sql.executions.admission import AdmissionHandler
from chronos.store.sql.executions.gate_queue import IS_DELAYED, GateQueue, claimed_columns, to_claimed_rows
from chronos.store.sql.executions.gates import Gate, move_cursor
from chronos.store.sql.executions.settlement import HotPath, SettlementHandler
from chronos.store.sql.query import Dialect, Query, Rows, Steps
from chronos.store.sql.user_statements import check_statements

RUNNING, READY, WAITING = int(Status.RUNNING), int(Status.READY), int(Status.WAITING)


class LifecycleHandler:
    """Takes executions from admission to their end."""

    def __init__(
        self, d: Dialect, hot: HotPath, gates: GateQueue, records: AppendOnlyTables, settlement: SettlementHandler
    ) -> None:
        self._hot, self._gates, self._records, self._settlement = hot, gates, records, settlement
        self._admission = AdmissionHandler(d, gates)
        runs_under_token = (
            f"{d.within('active.id', 1)} and active.id = i.id and active.token = i.token and active.status = {RUNNING}"
        )
        not_canceled = f"{runs_under_token} and active.cancel = 0"
        self._advance = f"""
            update active set detail = i.detail from {d.rows(1, "id:i token:n detail:t")} as i
            where {runs_under_token} returning active.id"""
        self._select_attempt = "select 1 from attempt where execution = $1 and task = $2 and number = $3"
        self._suspend = f"""
            update active set status = {WAITING}, owner = null, wake_us = i.wake_us, signal = i.signal,
                attempt = i.attempt, worked_us = i.worked_us, detail = coalesce(i.detail, active.detail)
            from {d.rows(1, "id:i token:n wake_us:n signal:t attempt:n worked_us:n detail:t")} as i
            where {not_canceled} returning active.id"""
        self._release = f"""
            update active set status = {READY}, owner = null, ready_since_us = i.now_us, worked_us = i.worked_us,
                detail = coalesce(i.detail, active.detail)
            from {d.rows(1, "id:i token:n worked_us:n detail:t now_us:n")} as i
            where {not_canceled} returning active.id"""
        self._wake = f"""
            with woken as materialized (
                select id from active
                where status = {WAITING} and wake_us <= $1 and not {IS_DELAYED} order by wake_us, id
                limit $2 {d.lock_or_skip()}
            )
            update active set status = {READY}, ready_since_us = $1, wake_us = null, signal = null
            where {d.among("id", "select id from woken")} returning id"""
        self._one = f"select job, status, signal, detail from active where id = $1 {d.lock()}"
        self._wake_with_signal = f"""
            update active set status = {READY}, ready_since_us = $3, wake_us = null, signal = null, detail = $2
            where id = $1"""
        self._claimed_before = f"""
            select {claimed_columns("active")} from active
            where owner = $1 and request = $2 and status = {RUNNING} order by rank, id"""
        self._namespace = f"select namespace, name from job where {d.is_job('job', '$1')}"
        self._status_of = """
            select status from active where id = $1 union all select status from history where id = $1"""

    # --- admission

    def admit(self, command: Admit, *, resent: bool) -> Steps[list[Admitted]]:
        """See ``Admit``. Rows with ``needs_gate_lock`` are admitted under locks, the others by the hot path."""
        rows: Sequence[AdmitRow] = command.rows
        before: list[Admitted] = []
        if resent:
            before = yield from self._admission.admitted_before(command.request, command.node, rows)
            known = {answer.id for answer in before}
            rows = [row for row in rows if row.id not in known]
        locked = [row for row in rows if row.needs_gate_lock]
        plain = [row for row in rows if not row.needs_gate_lock] if locked else rows
        answers: list[Admitted] = []
        if locked:  # first, because they wait for their gates: a transaction must not wait while it holds locks
            answers += yield from self._admission.admit_under_locks(
                locked, node=command.node, now_us=command.now_us, request=command.request
            )
        if plain:
            answers += yield from self._hot.admit(command, plain)
        if ended := {row.id for row in rows if row.next_us is None}:
            yield from self._records.count_done_jobs(sum(answer.id in ended for answer in answers))
        return before + answers

    def recover(self, command: Recover) -> Steps[list[Admitted]]:
        """See ``Recover``. Parts whose gates have changed are ignored."""
        gates = yield from self._gates.lock(part.job for part in command.parts)
        requests = [
            (part, gates[part.job])
            for part in command.parts
            if part.job in gates and _may_recover(part, gates[part.job])
        ]
        batch = yield from self._admission.begin_batch(
            [(gate, part.runs) for part, gate in requests], now_us=command.now_us
        )
        answers: list[Admitted] = []
        recovered: list[tuple[Recover, Gate]] = []
        for part, gate in requests:
            admitted, rejected = batch.decide(gate, part.runs, late=True, all_or_nothing=part.all_or_nothing)
            if rejected and part.all_or_nothing:
                continue
            gate.done_us = max([gate.done_us, *(span.to_us for span in part.spans)])
            move_cursor(gate, rejected[0].scheduled_us if rejected else part.next_us)
            answers += admitted
            recovered.append((part, gate))
        yield from self._admission.finish_batch(batch)
        spans = ((gate.version, span) for part, gate in recovered for span in part.spans)
        yield from self._records.insert_spans(int(Cause.RECOVERY), spans)
        yield from self._records.count_done_jobs(sum(gate.state == JobState.DONE for _, gate in recovered))
        yield from self._gates.save(gate for _, gate in recovered)
        return answers

    def trigger(self, command: Trigger) -> Steps[Triggered]:
        """See ``Trigger``."""
        gate, namespace, name = yield from self._lock_gate_and_name(command.job)
        before = yield from self._records.find_by_idempotency_key(namespace, command.idempotency)
        if before is not None:
            return (yield from self._find_triggered_before(before))
        if not command.room:
            raise QueueFull("too many executions are pending; try again later")
        admitted, rejected = yield from self._admission.admit_runs(gate, [command.run], now_us=command.now_us)
        if rejected:
            raise QueueFull(
                f'the queue of "{name}" is full ({gate.queued} of {gate.queue_max}); wait, or raise queue_max'
            )
        if not admitted:
            return (yield from self._find_triggered_before(command.run.id))
        yield from self._records.remember_idempotency_key(
            namespace, command.idempotency, command.run.id, command.now_us
        )
        yield from self._gates.save([gate])
        if command.run.cause is not Cause.DEPENDENCY:  # no person or client requested it
            verb, detail = "trigger", command.run.id.hex()
            if command.replay_of is not None:
                verb, detail = "replay", f"{detail} of {command.replay_of.hex()}"
            yield from self._records.audit(command.actor, verb, namespace, name, command.now_us, detail)
        return Triggered(command.run.id, admitted[0].status, created=True)

    def enqueue(self, command: Enqueue) -> Steps[list[Triggered]]:
        """See ``Enqueue``."""
        gate, namespace, name = yield from self._lock_gate_and_name(command.job)
        key = command.idempotency
        keys = {} if key is None else {f"{key}:{place}": run.id for place, run in enumerate(command.runs)}
        made = (yield from self._records.find_by_idempotency_keys(namespace, list(keys))) if keys else {}
        runs = [] if made else command.runs
        batch = yield from self._admission.begin_batch([(gate, runs)], now_us=command.now_us)
        admitted, refused = batch.decide(gate, runs, all_or_nothing=True)
        if refused:
            raise QueueFull(
                f'the queue of "{name}" has no room for {len(command.runs)} runs ({gate.queued} of {gate.queue_max}); '
                "wait, or raise queue_max"
            )
        yield from self._admission.finish_batch(batch)
        if admitted:
            yield from self._gates.save([gate])
            yield from self._records.remember_idempotency_keys(namespace, list(keys.items()), command.now_us)
            detail = f"{len(admitted)} runs from {admitted[0].id.hex()}"
            yield from self._records.audit(command.actor, "enqueue", namespace, name, command.now_us, detail)
        statuses = {run.id: run.status for run in admitted}
        answers: list[Triggered] = []
        for id_ in (made[key] for key in keys) if made else (run.id for run in command.runs):
            if id_ in statuses:
                answers.append(Triggered(id_, statuses[id_], created=True))
            else:
                answers.append((yield from self._find_triggered_before(id_)))
        return answers

    def backfill(self, command: Backfill) -> Steps[Backfilled]:
        """See ``Backfill``. The idempotency key of an instant is the key of the request and the instant."""
        gate, namespace, name = yield from self._lock_gate_and_name(command.job)
        key = command.idempotency
        keys = {} if key is None else {f"{key}:{run.scheduled_us}": run.id for run in command.runs}
        made = (yield from self._records.find_by_idempotency_keys(namespace, list(keys))) if keys else {}
        before = {keys[key]: execution for key, execution in made.items()}
        new = [run for run in command.runs if run.id not in before]
        new, beyond = new[: command.room], [] if command.room is None else new[command.room :]
        admitted, rejected = yield from self._admission.admit_runs(gate, new, now_us=command.now_us)
        if admitted:
            created = {run.id for run in admitted}
            remembered = [(key, execution) for key, execution in keys.items() if execution in created]
            yield from self._records.remember_idempotency_keys(namespace, remembered, command.now_us)
            yield from self._gates.save([gate])
            instants_us = [run.scheduled_us for run in new if run.id in created]
            detail = f"{len(created)} of {rfc3339(instants_us[0])} to {rfc3339(instants_us[-1])}"
            yield from self._records.audit(command.actor, "backfill", namespace, name, command.now_us, detail)
        left = {run.id for run in (*rejected, *beyond)}
        accepted = takewhile(lambda run: run.id not in left, command.runs)
        return Backfilled([before.get(run.id, run.id) for run in accepted], [run.status for run in admitted])

    def _lock_gate_and_name(self, job: bytes) -> Steps[tuple[Gate, str, str]]:
        """Lock the gate of a job. Returns it with namespace and name. Raises ``NotFound``."""
        gates = yield from self._gates.lock([job])
        if job not in gates:
            raise NotFound("the job no longer exists")
        [(namespace, name)] = yield Query(self._namespace, (job,))
        return gates[job], namespace, name

    def _find_triggered_before(self, execution: bytes) -> Steps[Triggered]:
        rows = yield Query(self._status_of, (execution,))
        return Triggered(execution, Status(rows[0][0]) if rows else Status.SUCCEEDED, created=False)

    # --- running

    def claim(self, command: Claim, *, resent: bool) -> Steps[list[Claimed]]:
        """See ``Claim``."""
        if command.limit <= 0:
            return []
        before = (yield Query(self._claimed_before, (command.node, command.request))) if resent else []
        if before:
            return to_claimed_rows(before)
        taken = (yield from self._hot.claim(command)) if command.lanes else []
        if command.late_lanes and len(taken) < command.limit:
            taken += yield from self._hot.claim_late(command, command.limit - len(taken))
        return taken

    def advance(self, command: Advance) -> Steps[list[bytes]]:
        """See ``Advance``."""
        rows = yield Query(self._advance, rows=Rows("int", [(r.id, r.token, r.detail) for r in command.rows]))
        current_ids = {row[0] for row in rows}
        yield from self._records.insert_attempts(
            a for row in command.rows if row.id in current_ids for a in row.attempts
        )
        return list(current_ids)

    def advance_with(self, command: AdvanceWith) -> Steps[bool]:
        """See ``AdvanceWith``."""
        check_statements(command.statements)
        before = yield Query(self._select_attempt, command.row.attempts[-1][:3])
        current = yield from self.advance(Advance(rows=(command.row,)))
        if current and not before:
            yield from self._settlement.run_user_statements(command.statements)
        return bool(current)

    def suspend(self, command: Suspend) -> Steps[list[bytes]]:
        """See ``Suspend``."""
        rows = [(*r[:3], _encode_signals(r.signals), *r[4:7]) for r in command.rows]
        query = Query(self._suspend, rows=Rows("inntnnt", rows))
        current_ids = yield from self._settlement.leave_running_or_cancel(query, command.rows, command.now_us)
        yield from self._records.insert_attempts(
            a for row in command.rows if row.id in current_ids for a in row.attempts
        )
        return list(current_ids)

    def release(self, command: Release) -> Steps[list[bytes]]:
        """See ``Release``."""
        rows = [(*r[:4], command.now_us) for r in command.rows]
        query = Query(self._release, rows=Rows("inntn", rows))
        current_ids = yield from self._settlement.leave_running_or_cancel(query, command.rows, command.now_us)
        yield from self._records.insert_attempts(
            a for row in command.rows if row.id in current_ids for a in row.attempts
        )
        return list(current_ids)

    def wake(self, command: Wake) -> Steps[int]:
        """See ``Wake``. Concurrency keys come first, because gates are locked before executions."""
        keys = yield from self._gates.find_keys_with_room(command.limit)
        woken = (yield from self._gates.wake_behind_keys_with_room(keys, command.now_us)) if keys else 0
        woken += yield from self._gates.start_delayed(command.now_us, command.limit)
        rows = yield Query(self._wake, (command.now_us, command.limit))
        return len(rows) + woken

    # --- requests

    def signal(self, command: Signal) -> Steps[bool]:
        """See ``Signal``."""
        rows = yield Query(self._one, (command.execution,))
        if not rows:
            raise NotFound("no such open execution; it may have ended")
        job, status, waits_for, detail = rows[0]
        if status != WAITING or waits_for is None or command.name not in msgspec.json.decode(waits_for):
            return False
        body: dict[str, Any] = msgspec.json.decode(detail) if detail else {}
        body.setdefault("signals", {})[command.name] = msgspec.json.decode(command.payload)
        text = msgspec.json.encode(body, order="sorted").decode()
        yield Query(self._wake_with_signal, (command.execution, text, command.now_us))
        audit_detail = f"{command.execution.hex()}: {command.name}"
        yield from self._records.audit_execution(command.actor, "signal", job, command.now_us, audit_detail)
        return True


def _may_recover(part: Recover, gate: Gate) -> bool:
    """Return whether the gate is as expected.

    With ``all_or_nothing``, nothing is replaced for runs that may not fit.
    """
    if part.all_or_nothing and gate.overlap is Overlap.REPLACE and gate.queue_max == 0 and gate.active > 0:
        return False
    return gate.is_at(part.expect_us, part.version)


def _encode_signals(names: Sequence[str]) -> str | None:
    """Return the signals that wake an execution, as they are stored."""
    return msgspec.json.encode(names).decode() if names else None
