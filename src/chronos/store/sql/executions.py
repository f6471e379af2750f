"""Steps for executions on their way from admission to history. The same on every engine but for the hot path."""

from collections.abc import Sequence
from typing import Any, Protocol

import msgspec

from chronos.core.execution import Cancel, Cause, Status
from chronos.core.job import JobState
from chronos.core.reasons import Code
from chronos.errors import Conflict, NotFound, QueueFull
from chronos.store.commands import (
    Admit,
    AdmitRow,
    Admitted,
    Advance,
    CancelExecution,
    Claim,
    Claimed,
    Reap,
    Recover,
    Release,
    Settle,
    Settled,
    SettleRow,
    Signal,
    Suspend,
    Trigger,
    Triggered,
    Wake,
)
from chronos.store.sql.dialect import Dialect, Query, Row, Rows
from chronos.store.sql.gates import CLAIMED, Gate, Gates, Raced, Steps, claimed, move_cursor
from chronos.store.sql.records import Records

RUNNING, READY, WAITING = int(Status.RUNNING), int(Status.READY), int(Status.WAITING)

_FEW = 8  # rows, for which a transaction costs more than what is in it
_STOPPED = {Cancel.ASKED: Code.CANCELED, Cancel.REPLACED: Code.REPLACED, Cancel.DELETED: Code.JOB_DELETED}


class Hot(Protocol):
    """What each engine writes in its own way, because speed depends on it."""

    def admit(self, command: Admit, rows: Sequence[AdmitRow]) -> Steps[list[Admitted]]:
        """Admit some rows of the command: those that are neither keyed nor ``replace``."""

    def claim(self, command: Claim) -> Steps[list[Claimed]]:
        """See ``Claim``."""

    def settle(self, rows: Sequence[SettleRow]) -> Steps[tuple[list[bytes], list[bytes], list[Row]]]:
        """Move running executions whose token holds to history, and take them off their gates.

        Answers their ids, the jobs that have something queued, and (key, how many) of the concurrency keys they held.
        """

    def settle_alone(self, rows: Sequence[SettleRow]) -> Query | None:
        """One statement that does the same and gives the ids, if nothing is to be done after it; else it does nothing.

        None where an engine has no use for it.
        """


class Executions:
    """Statements and steps."""

    def __init__(self, d: Dialect, hot: Hot, gates: Gates, records: Records) -> None:
        self._hot, self._gates, self._records = hot, gates, records
        held = (
            f"{d.within('active.id', 1)} and active.id = i.id and active.token = i.token and active.status = {RUNNING}"
        )
        unasked = f"{held} and active.cancel = 0"
        self._advance = f"""
            update active set detail = i.detail from {d.rows(1, "id:i token:n detail:t")} as i
            where {held} returning active.id"""
        self._suspend = f"""
            update active set status = {WAITING}, owner = null, wake_us = i.wake_us, signal = i.signal,
                attempt = i.attempt, worked_us = i.worked_us, detail = coalesce(i.detail, active.detail)
            from {d.rows(1, "id:i token:n wake_us:n signal:t attempt:n worked_us:n detail:t")} as i
            where {unasked} returning active.id"""
        self._release = f"""
            update active set status = {READY}, owner = null, worked_us = i.worked_us
            from {d.rows(1, "id:i token:n worked_us:n")} as i where {unasked} returning active.id"""
        self._wake = f"""
            with woken as materialized (
                select id from active where status = {WAITING} and wake_us <= $1 order by wake_us, id
                limit $2 {d.lock_or_skip()}
            )
            update active set status = {READY}, wake_us = null, signal = null
            where {d.among("id", "select id from woken")} returning id"""
        self._one = f"select id, job, status, signal, detail, cancel, token, key from active where id = $1 {d.lock()}"
        self._job_of = "select job from active where id = $1"
        self._ended = "select status, token from history where id = $1"
        self._signalled = f"""
            update active set status = {READY}, wake_us = null, signal = null, detail = $2 where id = $1"""
        self._ask = "update active set cancel = $2 where id = $1"
        self._end_one = f"""
            insert into history (id, job, version, cause, scheduled_us, status, code, message, owner, token, attempt,
                admitted_us, started_us, attempt_us, finished_us, detail)
            select id, job, version, cause, scheduled_us, {int(Status.CANCELED)}, $2, $3, owner, token, attempt,
                admitted_us, started_us, attempt_us, $4, detail from active where id = $1"""
        self._drop_one = "delete from active where id = $1"
        self._settled_before = f"""
            select h.id from history as h join {d.rows(1, "id:i token:n status:n")} as i
            on h.id = i.id and h.token = i.token and h.status = i.status where {d.within("h.id", 1)}"""
        self._node_beat = f"select beat, stopped_us from node where number = $1 {d.lock()}"
        self._claimed_before = f"""
            select {CLAIMED} from active where owner = $1 and request = $2 and status = {RUNNING} order by rank, id"""
        self._asked_to_stop = f"""
            select active.id, active.job, active.token, active.cancel from active
            join {d.rows(1, "id:i token:n")} as i on {held} where active.cancel <> 0"""
        self._retry_lost = f"""
            update active set status = {READY}, owner = null, attempt = i.attempt,
                detail = coalesce(i.detail, active.detail)
            from {d.rows(1, "id:i token:n attempt:n detail:t")} as i where {unasked} returning active.id"""
        self._bury = "update node set stopped_us = $2 where number = $1"
        self._disown = "update outbox set owner = null where owner = $1"
        self._idempotent = "select execution from idempotency where namespace = $1 and key = $2"
        self._remember = """
            insert into idempotency (namespace, key, execution, created_us) values ($1, $2, $3, $4)"""
        self._namespace = "select namespace, name from job where id = $1"
        self._status_of = """
            select status from active where id = $1 union all select status from history where id = $1"""

    # --- admission

    def admit(self, command: Admit, *, resent: bool) -> Steps[list[Admitted]]:
        """Plain rows by the hot statement; those marked so with care. Answers lost before are given again."""
        before = (yield from self._gates.admitted_before(command.request, command.rows)) if resent else []
        known = {answer.id for answer in before}
        rows = [row for row in command.rows if row.id not in known]
        plain = [row for row in rows if not row.careful]
        careful = [row for row in rows if row.careful]
        answers: list[Admitted] = []
        if careful:  # these wait for their gates, so they come first: nobody waits while holding some
            answers += yield from self._gates.admit_carefully(
                careful, node=command.node, now_us=command.now_us, request=command.request
            )
        if plain:
            answers += yield from self._hot.admit(command, plain)
        if ended := {row.id for row in rows if row.next_us is None}:
            yield from self._records.done(sum(answer.id in ended for answer in answers))
        return before + answers

    def recover(self, command: Recover) -> Steps[list[Admitted]]:
        """See ``Recover``."""
        gates = yield from self._gates.lock([command.job])
        gate = gates.get(command.job)
        expected = (command.expect_us, command.version, JobState.ACTIVE)
        if gate is None or (gate.next_us, gate.version, gate.state) != expected:
            return []
        admitted, refused = yield from self._gates.admit_runs(gate, command.runs, now_us=command.now_us)
        yield from self._records.spans(gate.version, int(Cause.RECOVERY), command.spans)
        gate.done_us = max([gate.done_us, *(span.to_us for span in command.spans)])
        move_cursor(gate, refused[0].scheduled_us if refused else command.next_us)
        yield from self._records.done(int(gate.state == JobState.DONE))
        yield from self._gates.save([gate])
        return admitted

    def trigger(self, command: Trigger) -> Steps[Triggered]:
        """See ``Trigger``."""
        gates = yield from self._gates.lock([command.job])
        if command.job not in gates:
            raise NotFound("the job does not exist any more")
        [(namespace, name)] = yield Query(self._namespace, (command.job,))
        if command.idempotency is not None:
            before = yield Query(self._idempotent, (namespace, command.idempotency))
            if before:
                return (yield from self._again(before[0][0]))
        admitted, refused = yield from self._gates.admit_runs(gates[command.job], [command.run], now_us=command.now_us)
        if refused:
            raise QueueFull(f'"{name}" has {gates[command.job].queued} executions queued, which is all it may have')
        if not admitted:
            return (yield from self._again(command.run.id))
        if command.idempotency is not None:
            yield Query(self._remember, (namespace, command.idempotency, command.run.id, command.now_us))
        yield from self._gates.save(gates.values())
        yield from self._records.audit(command.actor, "trigger", namespace, name, command.now_us, command.run.id.hex())
        return Triggered(command.run.id, admitted[0].status, created=True)

    def _again(self, execution: bytes) -> Steps[Triggered]:
        rows = yield Query(self._status_of, (execution,))
        return Triggered(execution, Status(rows[0][0]) if rows else Status.SUCCEEDED, created=False)

    # --- running

    def claim(self, command: Claim, *, resent: bool) -> Steps[list[Claimed]]:
        """See ``Claim``; an answer lost before is given again."""
        if command.limit <= 0 or not command.lanes:
            return []
        before = (yield Query(self._claimed_before, (command.node, command.request))) if resent else []
        return [claimed(row) for row in before] or (yield from self._hot.claim(command))

    def settle(self, command: Settle) -> Steps[Settled]:
        """See ``Settle``. Two steps on purpose: what was queued is looked for only after the gates were freed.

        A few rows that nothing has to be written beside, and nothing waits behind, are spared the transaction.
        """
        alone: list[bytes] = []
        rows = command.rows
        if len(rows) <= _FEW and not any(row.attempts or row.follow or row.dead_letter for row in rows):
            query = self._hot.settle_alone(rows)
            alone = [row[0] for row in (yield query)] if query is not None else []
            rows = tuple(row for row in rows if row.id not in alone)
            if not rows:
                return Settled(alone, [], 0)
        settled, behind, freed = yield from self._hot.settle(rows)
        done = set(settled)
        yield from self._write_beside([row for row in rows if row.id in done], command.now_us)
        taken, woken = yield from self._wake_behind(command, behind, freed)
        if len(done) < len(rows):
            missing = [(row.id, row.token, int(row.status)) for row in rows if row.id not in done]
            before = yield Query(self._settled_before, rows=Rows("inn", missing))
            settled += [row[0] for row in before]
        return Settled(alone + settled, taken, woken)

    def _wake_behind(self, command: Settle, behind: list[bytes], freed: list[Row]) -> Steps[tuple[list[Claimed], int]]:
        if not behind and not freed:
            return [], 0
        gates = yield from self._gates.lock(behind)
        taken, woken = yield from self._gates.wake(
            gates.values(),
            now_us=command.now_us,
            node=command.node,
            take=command.take,
            lanes=command.take_lanes,
            freed=dict(freed),
        )
        yield from self._gates.save(gates.values())
        return taken, woken

    def _write_beside(self, rows: Sequence[Any], now_us: int) -> Steps[None]:
        """Attempts, what follows and dead letters of rows that ended."""
        yield from self._records.attempts(attempt for row in rows for attempt in row.attempts)
        yield from self._records.follow([(row.id, item) for row in rows for item in row.follow], now_us)
        yield from self._records.dead_letters(
            [(r.id, r.job, r.finished_us, r.code.value, r.message) for r in rows if r.dead_letter]
        )

    def advance(self, command: Advance) -> Steps[list[bytes]]:
        """See ``Advance``."""
        rows = yield Query(self._advance, rows=Rows("int", [(r.id, r.token, r.detail) for r in command.rows]))
        held = {row[0] for row in rows}
        yield from self._records.attempts(a for row in command.rows if row.id in held for a in row.attempts)
        return list(held)

    def suspend(self, command: Suspend) -> Steps[list[bytes]]:
        """See ``Suspend``."""
        query = Query(self._suspend, rows=Rows("inntnnt", [r[:7] for r in command.rows]))
        held = yield from self._give_up(query, command.rows, command.now_us)
        yield from self._records.attempts(a for row in command.rows if row.id in held for a in row.attempts)
        return list(held)

    def release(self, command: Release) -> Steps[list[bytes]]:
        """See ``Release``."""
        query = Query(self._release, rows=Rows("inn", command.rows))
        return list((yield from self._give_up(query, command.rows, command.now_us)))

    def _give_up(self, query: Query, rows: Sequence[Any], now_us: int) -> Steps[set[bytes]]:
        """Running executions are put down by the query; those that were asked to stop end instead."""
        yield from self._stop_instead(rows, now_us)
        given_up = {row[0] for row in (yield query)}
        left = [(row.id, row.token) for row in rows if row.id not in given_up]
        if left and (yield Query(self._asked_to_stop, rows=Rows("in", left))):
            raise Raced  # asked to stop just now
        return given_up

    def _stop_instead(self, rows: Sequence[Any], now_us: int) -> Steps[None]:
        """What was asked to cancel must not start again: giving it up ends it."""
        asked = yield Query(self._asked_to_stop, rows=Rows("in", [(row.id, row.token) for row in rows]))
        if asked:
            _, behind, freed = yield from self._hot.settle(
                [
                    SettleRow(execution, job, token, Status.CANCELED, _STOPPED[Cancel(cancel)], None, now_us)
                    for execution, job, token, cancel in asked
                ]
            )
            yield from self._wake_behind(Settle(rows=(), node=0, now_us=now_us), behind, freed)

    def wake(self, command: Wake) -> Steps[int]:
        """See ``Wake``; also what a freed concurrency key left behind, first: no gate is locked after an execution."""
        keys = yield from self._gates.free_keys(command.limit)
        woken = (yield from self._gates.wake_behind_keys(keys, command.now_us)) if keys else 0
        rows = yield Query(self._wake, (command.now_us, command.limit))
        return len(rows) + woken

    # --- from outside

    def signal(self, command: Signal) -> Steps[bool]:
        """See ``Signal``."""
        rows = yield Query(self._one, (command.execution,))
        if not rows:
            raise NotFound("there is no such open execution")
        _, _, status, waits_for, detail, *_ = rows[0]
        if status != WAITING or waits_for != command.name:
            return False
        body: dict[str, Any] = msgspec.json.decode(detail) if detail else {}
        body.setdefault("signals", {})[command.name] = msgspec.json.decode(command.payload)
        yield Query(self._signalled, (command.execution, msgspec.json.encode(body, order="sorted").decode()))
        return True

    def cancel(self, command: CancelExecution) -> Steps[Status]:
        """See ``CancelExecution``. The gate is locked before the execution, as everywhere."""
        found = yield Query(self._job_of, (command.execution,))
        gates = (yield from self._gates.lock([found[0][0]])) if found else {}
        rows = yield Query(self._one, (command.execution,))
        if not rows:
            ended = yield Query(self._ended, (command.execution,))
            if not ended:
                raise NotFound("there is no such execution")
            if ended[0][0] == Status.CANCELED:
                return Status.CANCELED
            raise Conflict(f"it has ended already: {Status(ended[0][0]).name.lower()}")
        _, job, status, _, _, cancel, _, key = rows[0]
        if status == RUNNING:
            if cancel == Cancel.NO:
                yield Query(self._ask, (command.execution, int(Cancel.ASKED)))
            return Status.RUNNING
        yield Query(self._end_one, (command.execution, Code.CANCELED.value, command.message, command.now_us))
        yield Query(self._drop_one, (command.execution,))
        yield from self._leave(gates.get(job), Status(status), key, command.now_us)
        return Status.CANCELED

    def _leave(self, gate: Gate | None, status: Status, key: bytes | None, now_us: int) -> Steps[None]:
        """An execution that was not running leaves its gate, and its key's; what was queued behind it wakes."""
        queued = status is Status.QUEUED
        keys = yield from self._gates.relock_keys([key] if key is not None else [])
        for one in keys.values():
            one.queued -= queued
            one.active -= not queued
        yield from self._gates.save_keys(keys.values())
        if gate is not None:
            gate.queued -= queued
            gate.active -= not queued
            yield from self._gates.wake([gate], now_us=now_us)
            yield from self._gates.save([gate])

    # --- the dead

    def reap(self, command: Reap) -> Steps[list[bytes]]:
        """See ``Reap``. Final verdicts go the way of every settlement, so gates and successors are treated alike."""
        rows = yield Query(self._node_beat, (command.node,))
        if not rows or rows[0][0] != command.beat or rows[0][1] is not None:
            return []
        again = [r for r in command.rows if not r.status.final]
        ended = [r for r in command.rows if r.status.final]
        reaped: list[bytes] = []
        if ended:
            settled, behind, freed = yield from self._hot.settle(
                [SettleRow(r.id, r.job, r.token, r.status, r.code, None, command.now_us, r.detail) for r in ended]
            )
            reaped += settled
            settle = Settle(rows=(), node=command.node, now_us=command.now_us)
            yield from self._wake_behind(settle, behind, freed)
        if again:
            values = [(r.id, r.token, r.attempt, r.detail) for r in again]
            query = Query(self._retry_lost, rows=Rows("innt", values))
            reaped += yield from self._give_up(query, again, command.now_us)
        done = set(reaped)
        kept = [r for r in command.rows if r.id in done]
        yield from self._records.attempts(r.lost for r in kept)
        yield from self._records.follow([(r.id, item) for r in kept for item in r.follow], command.now_us)
        yield from self._records.dead_letters(
            [(r.id, r.job, command.now_us, r.code.value, None) for r in kept if r.dead_letter]
        )
        if command.last:
            yield Query(self._bury, (command.node, command.now_us))
            yield Query(self._disown, (command.node,))
        return reaped
