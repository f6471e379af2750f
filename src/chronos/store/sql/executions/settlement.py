"""Steps that end executions: settle, cancel, reap, skip.

Every end frees the gate, wakes queued successors and notifies the job's followers, in one transaction.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

from chronos.core.execution import CancelRequest, Status
from chronos.core.execution_detail import close_detail
from chronos.core.fencing_token import first_token
from chronos.core.reasons import ReasonCode
from chronos.errors import Conflict, NotFound
from chronos.store.commands import (
    Admit,
    AdmitRow,
    Admitted,
    CancelExecution,
    Claim,
    Claimed,
    Reap,
    ReapRow,
    RecordSkip,
    Settle,
    Settled,
    SettleRow,
    SettleWith,
)
from chronos.store.sql.append_only import AppendOnlyTables
from chronos.store.sql.executions.gate_queue import IS_DELAYED, GateQueue
from chronos.store.sql.executions.gates import Gate, LostRace, count_out, skip_used_turns
from chronos.store.sql.query import Dialect, Query, Row, Rows, Steps
from chronos.store.sql.user_statements import Statements, check_statements

RUNNING, READY = int(Status.RUNNING), int(Status.READY)
_SINGLE_STATEMENT_ROWS = 8  # up to so many rows, a transaction costs more than its statements


class SettleEffects(NamedTuple):
    """The result of a hot settlement: the settled ids, and what has to follow."""

    settled: list[bytes]
    behind: list[bytes]  # jobs with queued executions
    keys: list[Row]  # (key, count) of the released concurrency keys
    followed: set[bytes]  # jobs that others follow


class HotPath(Protocol):
    """Admit, claim and settle, which each engine implements for speed."""

    def admit(self, command: Admit, rows: Sequence[AdmitRow]) -> Steps[list[Admitted]]:
        """Admit rows of the command without ``needs_gate_lock``."""

    def claim(self, command: Claim) -> Steps[list[Claimed]]:
        """Claim from ``lanes``."""

    def claim_late(self, command: Claim, limit: int) -> Steps[list[Claimed]]:
        """Claim from ``late_lanes``, up to ``limit``."""

    def settle(self, rows: Sequence[SettleRow]) -> Steps[SettleEffects]:
        """Move running executions whose token is current to history, and free their gates."""

    def settle_in_one_statement(self, rows: Sequence[SettleRow]) -> Query | None:
        """Return one statement that settles rows and returns their ids, if nothing has to follow; else it does nothing.

        Returns None on an engine that does not need it.
        """


class SettlementHandler:
    """Ends executions: settle, cancel, reap, skip."""

    def __init__(self, d: Dialect, hot: HotPath, gates: GateQueue, records: AppendOnlyTables) -> None:
        self._hot, self._gates, self._records = hot, gates, records
        self._enter_user_session, self._leave_user_session = d.user_session_settings()
        runs_under_token = (
            f"{d.within('active.id', 1)} and active.id = i.id and active.token = i.token and active.status = {RUNNING}"
        )
        self._one = f"select job, status, cancel, key, token, {IS_DELAYED} from active where id = $1 {d.lock()}"
        self._job_of = "select job from active where id = $1"
        self._ended = "select status from history where id = $1"
        self._request_cancel = "update active set cancel = $2, cancel_message = $3 where id = $1"
        self._end_one = f"""
            insert into history (id, job, version, cause, scheduled_us, status, code, message, owner, token, attempt,
                admitted_us, started_us, attempt_us, finished_us, detail, levels)
            select id, job, version, cause, scheduled_us, {int(Status.CANCELED)}, $2, $3, owner, token, attempt,
                admitted_us, started_us, attempt_us, $4, detail, levels from active where id = $1"""
        self._drop_one = "delete from active where id = $1"
        self._settled_before = f"""
            select h.id from history as h join {d.rows(1, "id:i token:n status:n")} as i
            on h.id = i.id and h.token = i.token and h.status = i.status where {d.within("h.id", 1)}"""
        # A locked row belongs to a node that is sending a heartbeat, or that another node is reaping.
        self._node_beat = f"select beat, stopped_us from node where number = $1 {d.lock_or_skip()}"
        self._select_cancel_requested = f"""
            select active.id, active.job, active.token, active.cancel, active.cancel_message, active.detail
            from active
            join {d.rows(1, "id:i token:n")} as i on {runs_under_token} where active.cancel <> 0"""
        self._retry_lost = f"""
            update active set status = {READY}, owner = null, ready_since_us = i.now_us, attempt = i.attempt,
                detail = coalesce(i.detail, active.detail)
            from {d.rows(1, "id:i token:n attempt:n detail:t now_us:n")} as i
            where {runs_under_token} and active.cancel = 0
            returning active.id"""
        self._stop_node = "update node set stopped_us = $2 where number = $1"
        self._take_over = "update node set taken_over = coalesce(taken_over, 0) + $2 where number = $1"
        self._release_outbox = "update outbox set owner = null where owner = $1"
        self._skip = f"""
            insert into history (id, job, version, cause, scheduled_us, status, code, message, token, attempt,
                admitted_us, finished_us, levels)
            values ($1, $2, $3, $4, $5, {int(Status.SKIPPED)}, $6, $7, $8, 0, $9, $9, $10)"""

    # --- settled by the owner

    def settle(self, command: Settle) -> Steps[Settled]:
        """See ``Settle``. Queued executions are read in a second statement, after the gates are freed.

        A few rows that nothing follows are settled in one statement, without a transaction.
        """
        alone: list[bytes] = []
        rows = command.rows
        if (
            len(rows) <= _SINGLE_STATEMENT_ROWS
            and (query := self._hot.settle_in_one_statement(rows)) is not None
            and not _has_side_records(rows)
        ):
            alone = [row[0] for row in (yield query)]
            rows = tuple(row for row in rows if row.id not in alone)
            if not rows:
                return Settled(alone, [], 0)
        settled = yield from self._settle_rows(rows, command)
        if len(settled.settled) < len(rows):
            before = yield from self._find_settled_before(rows, set(settled.settled))
            return settled._replace(settled=alone + settled.settled + before)
        return settled._replace(settled=alone + settled.settled) if alone else settled

    def settle_with(self, command: SettleWith) -> Steps[Settled]:
        """See ``SettleWith``."""
        check_statements(command.statements)
        settle = Settle(rows=(command.row,), node=command.node, now_us=command.now_us)
        settled = yield from self._settle_rows(settle.rows, settle)
        if not settled.settled:
            return Settled((yield from self._find_settled_before(settle.rows, set())), [], 0)
        yield from self.run_user_statements(command.statements)
        return settled

    def run_user_statements(self, statements: Statements) -> Steps[None]:
        """Run a user's statements with the user's session settings."""
        if self._enter_user_session:
            yield Query(self._enter_user_session)
        for sql, args in statements:
            yield Query(sql, args, from_user=True)
        if self._leave_user_session:
            yield Query(self._leave_user_session)

    def _settle_rows(self, rows: Sequence[SettleRow], command: Settle) -> Steps[Settled]:
        """End running executions whose token is current, and do all that follows."""
        freed = yield from self._hot.settle(rows)
        ended = rows
        if len(freed.settled) < len(rows):
            done = set(freed.settled)
            ended = [row for row in rows if row.id in done]
        outbox_items = (yield from self._write_side_records(ended, command.now_us)) if _has_side_records(ended) else 0
        if freed.followed:
            ends = [(row.id, row.job, row.status) for row in ended if row.job in freed.followed]
            yield from self._records.insert_ended_items(ends, command.now_us)
            outbox_items += len(ends)
        if not freed.behind and not freed.keys:
            return Settled(freed.settled, [], 0, outbox_items)
        gates = yield from self._gates.lock(freed.behind)
        taken, woken = yield from self._gates.wake(
            gates.values(),
            now_us=command.now_us,
            node=command.node,
            take=command.take,
            lanes=command.take_lanes,
            freed=dict(freed.keys),
        )
        yield from self._gates.save(gates.values())
        return Settled(freed.settled, taken, woken, outbox_items)

    def _find_settled_before(self, rows: Sequence[SettleRow], done: set[bytes]) -> Steps[list[bytes]]:
        """Return rows that were settled before with the same token and status."""
        missing = [(row.id, row.token, int(row.status)) for row in rows if row.id not in done]
        return [row[0] for row in (yield Query(self._settled_before, rows=Rows("inn", missing)))]

    def _write_side_records(self, rows: Sequence[SettleRow], now_us: int) -> Steps[int]:
        """Write attempts, follow-ups and dead letters of ended rows. Returns the number of follow-ups."""
        yield from self._records.insert_attempts(attempt for row in rows for attempt in row.attempts)
        follow = [(row.id, item) for row in rows for item in row.follow]
        yield from self._records.insert_follow_ups(follow, now_us)
        yield from self._records.insert_dead_letters(
            [(r.id, r.job, r.finished_us, r.code.value, r.message) for r in rows if r.dead_letter]
        )
        return len(follow)

    # --- canceled

    def leave_running_or_cancel(self, query: Query, rows: Sequence[Any], now_us: int) -> Steps[set[bytes]]:
        """Run a query that ends the running status of executions. Those that were asked to cancel end instead.

        Returns the ids that the query changed.
        """
        yield from self._cancel_requested(rows, now_us)
        changed = {row[0] for row in (yield query)}
        left = [(row.id, row.token) for row in rows if row.id not in changed]
        if left and (yield Query(self._select_cancel_requested, rows=Rows("in", left))):
            raise LostRace  # canceled since the first check
        return changed

    def _cancel_requested(self, rows: Sequence[Any], now_us: int) -> Steps[None]:
        """End rows that were asked to cancel. They must not start again."""
        requested = yield Query(self._select_cancel_requested, rows=Rows("in", [(row.id, row.token) for row in rows]))
        if not requested:
            return
        by_id = {row.id: row for row in rows}
        ends = []
        for execution, job, token, cancel, message, old_detail in requested:
            row = by_id[execution]
            attempts = row.lost if isinstance(row, ReapRow) else row.attempts
            code = CancelRequest(cancel).code
            detail = row.detail or old_detail
            detail = close_detail(detail, code, now_us, message) or detail
            ends.append(SettleRow(execution, job, token, Status.CANCELED, code, message, now_us, detail, attempts))
        yield from self._settle_rows(ends, Settle(rows=(), node=0, now_us=now_us))

    def cancel(self, command: CancelExecution) -> Steps[Status]:
        """See ``CancelExecution``. The gate is locked before the execution."""
        jobs = yield Query(self._job_of, (command.execution,))
        gates = (yield from self._gates.lock([jobs[0][0]])) if jobs else {}
        rows = yield Query(self._one, (command.execution,))
        if not rows:
            ended = yield Query(self._ended, (command.execution,))
            if not ended:
                raise NotFound("no such execution; check its id")
            if ended[0][0] == Status.CANCELED:
                return Status.CANCELED
            raise Conflict(f"the execution has already ended: {Status(ended[0][0]).name.lower()}")
        job, status, cancel, key, token, delayed = rows[0]
        if status == RUNNING:
            if cancel == CancelRequest.NO:
                yield Query(self._request_cancel, (command.execution, int(CancelRequest.REQUESTED), command.message))
                yield from self._audit_cancel(command, job)
            return Status.RUNNING
        yield from self._gates.close_tasks([command.execution], ReasonCode.CANCELED, command.message, command.now_us)
        yield Query(self._end_one, (command.execution, ReasonCode.CANCELED.value, command.message, command.now_us))
        yield Query(self._drop_one, (command.execution,))
        gate = gates.get(job)
        if gate is not None and gate.followed:
            yield from self._records.insert_ended_items([(command.execution, job, Status.CANCELED)], command.now_us)
        if gate is not None:
            skip_used_turns(gate, token)
        if not delayed:
            yield from self._leave_gate(gate, Status(status), key, command.now_us)
        elif gate is not None:
            yield from self._gates.save([gate])
        yield from self._audit_cancel(command, job)
        return Status.CANCELED

    def _audit_cancel(self, command: CancelExecution, job: bytes) -> Steps[None]:
        why = f": {command.message}" if command.message else ""
        detail = f"{command.execution.hex()}{why}"
        yield from self._records.audit_execution(command.actor, "cancel", job, command.now_us, detail)

    def _leave_gate(self, gate: Gate | None, status: Status, key: bytes | None, now_us: int) -> Steps[None]:
        """Free the gate and the key of an execution that was not running, and wake its successors."""
        if key is not None and status is Status.QUEUED:
            keys = yield from self._gates.lock_existing_keys([key])
            count_out(keys[key], status)
            yield from self._gates.save_keys(keys.values())
        gates = [gate] if gate is not None else []
        for locked in gates:
            count_out(locked, status)
        freed = {key: 1} if key is not None and status is not Status.QUEUED else {}
        yield from self._gates.wake(gates, now_us=now_us, freed=freed)
        yield from self._gates.save(gates)

    # --- lost, skipped

    def reap(self, command: Reap) -> Steps[list[bytes] | None]:
        """See ``Reap``. Rows with a final status are settled like any other."""
        now_us = command.now_us
        rows = yield Query(self._node_beat, (command.node,))
        if not rows or rows[0][0] != command.beat or rows[0][1] is not None:
            return None
        retried = [r for r in command.rows if not r.status.final]
        reaped: list[bytes] = []
        if len(retried) < len(command.rows):
            ends = [
                SettleRow(
                    *(r.id, r.job, r.token, r.status, r.code, r.message, now_us, r.detail, r.lost, r.follow),
                    dead_letter=r.dead_letter,
                )
                for r in command.rows
                if r.status.final
            ]
            settled = yield from self._settle_rows(ends, Settle(rows=(), node=command.node, now_us=now_us))
            reaped += settled.settled
        if retried:
            values = [(r.id, r.token, r.attempt, r.detail, now_us) for r in retried]
            changed = yield from self.leave_running_or_cancel(
                Query(self._retry_lost, rows=Rows("inntn", values)), retried, now_us
            )
            yield from self._records.insert_attempts(lost for r in retried if r.id in changed for lost in r.lost)
            yield from self._records.insert_follow_ups(
                [(r.id, f) for r in retried if r.id in changed for f in r.follow], now_us
            )
            reaped += changed
        yield Query(self._take_over, (command.node, len(reaped)))
        if command.last:
            yield Query(self._stop_node, (command.node, now_us))
            yield Query(self._release_outbox, (command.node,))
        return reaped

    def record_skip(self, command: RecordSkip) -> Steps[bool]:
        """See ``RecordSkip``."""
        gates = yield from self._gates.lock([command.job])
        gate = gates.get(command.job)
        if gate is None or (yield from self._gates.find_known([command.id])):
            return False
        gate.seq += 1
        columns = (gate.version, int(command.cause), command.scheduled_us, command.code.value, command.message)
        token = first_token(gate.seq)
        yield Query(self._skip, (command.id, command.job, *columns, token, command.now_us, gate.levels))
        if gate.followed:
            yield from self._records.insert_ended_items([(command.id, command.job, Status.SKIPPED)], command.now_us)
        yield from self._gates.save([gate])
        return True


def _has_side_records(rows: Sequence[SettleRow]) -> bool:
    """Return whether any row has attempts, follow-ups or a dead letter."""
    for row in rows:  # noqa: SIM110 - for the usual single row, a generator costs more
        if row.attempts or row.follow or row.dead_letter:
            return True
    return False
