"""Admission with care: under locked gates, decided one by one with ``core.policy``, for what the hot path leaves.

That is asked-for runs, recovered gaps, ``replace`` and concurrency keys.
"""

from collections.abc import Sequence

from chronos.core.config import Overlap
from chronos.core.execution import Cancel, Cause, Status
from chronos.core.job import JobState
from chronos.core.policy import PRIORITY_STEP_US, Admission, admit
from chronos.core.reasons import Code
from chronos.store.commands import AdmitRow, Admitted, RunRow
from chronos.store.sql.dialect import Dialect, Query, Row, Rows, Steps
from chronos.store.sql.gates import Gates
from chronos.store.sql.locks import Gate, ids, move_cursor


class Admitting:
    """Statements and steps."""

    def __init__(self, d: Dialect, gates: Gates) -> None:
        self._gates = gates
        columns = (
            "id:i job:i version:n cause:n scheduled_us:n lane:n rank:n status:n exclusive:n owner:n token:n "
            "admitted_us:n started_us:n key:i request:i detail:t held:n"
        )
        names = ", ".join(column.split(":")[0] for column in columns.split())
        self._insert = f"""
            insert into active ({names}, attempt_us) select {names}, started_us from {d.rows(1, columns)} as i"""
        self._insert_skipped = f"""
            insert into history (id, job, version, cause, scheduled_us, status, code, token, attempt, admitted_us,
                finished_us, detail)
            select id, job, version, cause, scheduled_us, {int(Status.SKIPPED)}, code, token, 0, now_us, now_us, detail
            from {d.rows(1, "id:i job:i version:n cause:n scheduled_us:n code:t token:n now_us:n detail:t")} as i"""
        self._ours = f"""
            select id, job, status, token from active
            where request = $1 and (status <> {int(Status.RUNNING)} or owner = $2) and {d.one_of("id", 3)}"""

    def admit_runs(
        self,
        gate: Gate,
        runs: Sequence[RunRow],
        *,
        now_us: int,
        claim: bool = False,
        node: int | None = None,
        request: bytes | None = None,
        late: bool = False,
        whole: bool = False,
    ) -> Steps[tuple[list[Admitted], list[RunRow]]]:
        """Admit runs under one locked gate, in order; answers what was decided and what was refused.

        The gate is changed in place: its caller writes it back. A run that exists already is passed over. What is
        ``late`` is not dropped for an overlap that nobody but its lateness made. If ``whole``, nothing is written when
        something is refused.
        """
        there = yield from self._gates.known([run.id for run in runs])
        keys = yield from self._gates.lock_keys({run.key: run.key_limit for run in runs if run.key is not None})
        admitted: list[Admitted] = []
        refused: list[RunRow] = []
        skipped: list[Row] = []
        inserted: list[Row] = []
        for run in runs:
            scheduled = run.cause in (Cause.SCHEDULE, Cause.RECOVERY)
            if run.id in there or (scheduled and run.scheduled_us <= gate.done_us):
                continue
            if gate.overlap is Overlap.REPLACE and gate.active + gate.queued > 0:
                # What this very command admitted has to be in the table to be replaced.
                yield from self._write(inserted, skipped)
                yield from self._gates.save_keys(keys.values())
                inserted, skipped = [], []
                yield from self._gates.end_unstarted(gate, Code.REPLACED, None, now_us)
                keys = yield from self._gates.relock_keys(list(keys))
                yield from self._gates.ask_running(gate.job, Cancel.REPLACED)
            verdict = admit(
                overlap=gate.overlap,
                limit=gate.lim,
                queue_max=gate.queue_max,
                active=gate.active,
                queued=gate.queued,
                asked=late or run.cause.asked,
            )
            key = keys.get(run.key) if run.key is not None else None
            if verdict is Admission.RUN and key is not None and key.active >= key.lim > 0:
                verdict = Admission.QUEUE if gate.queued < gate.queue_max else Admission.REFUSE
            if verdict is Admission.REFUSE:
                refused.append(run)
                continue
            if scheduled:
                gate.done_us = run.scheduled_us
            gate.seq += 1
            token = gate.seq << 16
            if verdict in (Admission.SKIP_OVERLAP, Admission.SKIP_FULL):
                code = Code.OVERLAP if verdict is Admission.SKIP_OVERLAP else Code.QUEUE_FULL
                version, cause = gate.version, int(run.cause)
                skipped.append(
                    (run.id, gate.job, version, cause, run.scheduled_us, code.value, token, now_us, run.detail)
                )
                admitted.append(Admitted(run.id, gate.job, Status.SKIPPED, token))
                continue
            runs_now = verdict is Admission.RUN
            status = Status.QUEUED if not runs_now else Status.RUNNING if claim else Status.READY
            token += status is Status.RUNNING
            if runs_now:
                gate.active += 1
            else:
                gate.queued += 1
            if key is not None:
                key.active += runs_now
                key.queued += not runs_now
            owned = status is Status.RUNNING
            inserted.append(
                (
                    *(run.id, gate.job, gate.version, int(run.cause), run.scheduled_us, gate.lane),
                    run.ready_us - gate.priority * PRIORITY_STEP_US,
                    *(int(status), int(gate.overlap is not Overlap.ALLOW), node if owned else None, token, now_us),
                    *(now_us if owned else None, run.key, request, run.detail),
                    int(gate.state == JobState.PAUSED and run.cause is Cause.DEPENDENCY),  # asked for, but not by hand
                )
            )
            admitted.append(Admitted(run.id, gate.job, status, token))
        if whole and refused:
            return [], refused
        yield from self._write(inserted, skipped)
        yield from self._gates.save_keys(keys.values())
        return admitted, refused

    def admitted_before(self, request: bytes, node: int, rows: Sequence[AdmitRow]) -> Steps[list[Admitted]]:
        """What an earlier sending of the same request admitted, and no other node has been given since."""
        found = yield Query(self._ours, (request, node), ids(row.id for row in rows))
        return [Admitted(execution, job, Status(status), token) for execution, job, status, token in found]

    def admit_carefully(
        self, rows: Sequence[AdmitRow], *, node: int, now_us: int, request: bytes
    ) -> Steps[list[Admitted]]:
        """Scheduled instants that the hot statement does not take: ``replace`` and keyed jobs."""
        gates = yield from self._gates.lock(row.job for row in rows)
        if len(rows) > 1:  # all keys at once, so that they too are locked in order
            yield from self._gates.lock_keys({row.key: row.key_limit for row in rows if row.key is not None})
        answers: list[Admitted] = []
        changed: list[Gate] = []
        for row in sorted(rows, key=lambda row: row.job):
            gate = gates.get(row.job)
            if gate is None or (gate.next_us, gate.version, gate.state) != (
                row.expect_us,
                row.version,
                JobState.ACTIVE,
            ):
                continue
            run = RunRow(row.id, Cause.SCHEDULE, row.expect_us, row.ready_us, None, row.key, row.key_limit)
            admitted, _ = yield from self.admit_runs(
                gate, [run], now_us=now_us, claim=row.claim, node=node, request=request
            )
            if admitted:
                move_cursor(gate, row.next_us)
            else:  # on record already: only the cursor takes notice
                gate.next_us = row.next_us
            changed.append(gate)
            answers += admitted
        yield from self._gates.save(changed)
        return answers

    def _write(self, inserted: list[Row], skipped: list[Row]) -> Steps[None]:
        if inserted:
            yield Query(self._insert, rows=Rows("iinnnnnnnnnnniitn", inserted))
        if skipped:
            yield Query(self._insert_skipped, rows=Rows("iinnntnnt", skipped))
