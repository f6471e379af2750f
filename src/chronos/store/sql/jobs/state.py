"""Steps that pause, resume, disable and enable jobs. The same on every engine."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence

from chronos.core.execution import Cause, Span
from chronos.core.job import JobState
from chronos.core.planner import to_skipped_span
from chronos.core.reasons import ReasonCode
from chronos.core.schedule_change import resolve_instants
from chronos.errors import Conflict, NotFound
from chronos.store.commands import SaveJobs, SetJobState
from chronos.store.sql import row_mappers as record
from chronos.store.sql.append_only import AppendOnlyTables, AuditLineRow
from chronos.store.sql.executions.gate_queue import GateQueue
from chronos.store.sql.executions.gates import Gate, to_id_rows
from chronos.store.sql.jobs.insert import EncodedJob, audit_lines_about_jobs
from chronos.store.sql.query import Dialect, Query, Row, Rows, Steps

_STATES_WITH_SCHEDULE = (JobState.ACTIVE, JobState.PAUSED)


class JobStateHandler:
    """Changes the state of jobs."""

    def __init__(self, d: Dialect, gates: GateQueue, records: AppendOnlyTables) -> None:
        self._gates, self._records = gates, records
        self._names = f"""
            select id, namespace, name, incarnation, version from job where {d.is_job_of("job", 1)}
            order by id {d.lock()}"""
        self._note = f"""
            update job as j set note = i.note, updated_us = i.now_us, paused_us = i.paused_us
            from {d.rows(1, "id:i note:t now_us:n paused_us:n")} as i
            where {d.within("j.id", 1)} and {d.is_job("j", "i.id")}"""
        self._release_held = f"""
            update active as a set held = 0, ready_since_us = i.now_us from {d.rows(1, "job:i now_us:n")} as i
            where {d.within("a.job", 1)} and a.job = i.job and a.held = 1"""

        self._select_specs = f"""
            select j.id, j.name, case when j.version = i.version then j.spec else
                (select v.spec from job_version as v where v.job = j.id and v.version = i.version) end
            from job as j join {d.rows(1, "job:i version:n")} as i on {d.is_job("j", "i.job")}
            where {d.within("j.id", 1)}"""

    def set_state(self, command: SetJobState) -> Steps[bool | list[bool]]:
        """See ``SetJobState``. A merged command returns the answer of each part."""
        parts = command.parts
        gates = yield from self._gates.lock(sorted(part.job for part in parts))
        jobs = yield from self.select_expected({part.job: part.expect for part in parts})
        names = {job: (namespace, name) for job, namespace, name, _, _ in jobs}
        switched = [(part, gates[part.job]) for part in parts if not _is_done_already(part, gates[part.job])]
        for part, gate in switched:
            _check_state_and_cursor(part, gate, names[part.job][1])
        if switched:
            yield from self._switch_jobs(switched, names)
        done = {part.job for part, _ in switched}
        return [part.job in done for part in parts] if command.merged else bool(done)

    def _switch_jobs(
        self, switched: Sequence[tuple[SetJobState, Gate]], names: Mapping[bytes, tuple[str, str]]
    ) -> Steps[None]:
        lines = [
            (part.actor, part.now_us, (_audit_verb(gate, part.state), *names[part.job], part.note))
            for part, gate in switched
        ]
        freed = yield from self._enter_states([(gate, part.state, part.now_us) for part, gate in switched])
        for part, gate in switched:
            if not part.keep_cursor:
                gate.next_us = part.next_us
            gate.done_us = max([gate.done_us, *(span.to_us for span in part.spans)])
        spans = ((gate.version, span) for part, gate in switched for span in part.spans)
        yield from self._records.insert_spans(int(Cause.SCHEDULE), spans)
        yield from self._save_switched([(gate, part.note, part.now_us) for part, gate in switched], freed)
        yield from self._records.audit_lines(lines)

    def switch_saved_jobs(
        self, switched: Sequence[EncodedJob], gates: Mapping[bytes, Gate], command: SaveJobs
    ) -> Steps[set[bytes]]:
        """Change the state of saved jobs whose spec is unchanged. Their gates are locked and in the expected state.

        Returns the freed concurrency keys.
        """
        freed: set[bytes] = set()
        verbs: dict[str, list[tuple[str, str, str]]] = {}
        for row, _, saved in switched:
            gate = gates[saved.id]
            verbs.setdefault(_audit_verb(gate, row.state), []).append((row.namespace, row.name, ""))
            freed |= yield from self.enter_state(gate, row.state, command.now_us)
            gate.next_us = row.next_us
        yield from self._save_switched([(gates[saved.id], "", command.now_us) for _, _, saved in switched], ())
        lines: list[AuditLineRow] = [
            line for verb, jobs in verbs.items() for line in audit_lines_about_jobs(verb, jobs)
        ]
        yield from self._records.audit_lines_by_actor(command.actor, command.now_us, lines)
        return freed

    def enter_state(self, gate: Gate, state: JobState, now_us: int) -> Steps[set[bytes]]:
        """Change the state of a locked gate, and hold or release its executions. Returns the freed concurrency keys."""
        return (yield from self._enter_states([(gate, state, now_us)]))

    def _enter_states(self, entering: Sequence[tuple[Gate, JobState, int]]) -> Steps[set[bytes]]:
        yield from self.record_due_as_skipped(
            [(gate, now_us, ReasonCode.DISABLED) for gate, state, now_us in entering if state is JobState.DISABLED]
        )
        changes: Counter[int] = Counter()
        held: list[Gate] = []
        released: list[tuple[bytes, int]] = []
        for gate, state, now_us in entering:
            if state is JobState.PAUSED and gate.state != JobState.PAUSED:
                held.append(gate)
            elif state is not JobState.PAUSED and gate.state == JobState.PAUSED:
                released.append((gate.job, now_us))
            changes.update({gate.state: -1})
            changes.update({int(state): 1})
            gate.state = int(state)
        freed = yield from self._gates.hold(held)
        if released:
            yield Query(self._release_held, rows=Rows("in", released))
        yield from self._records.add_to_tally(changes)
        return freed

    def record_due_as_skipped(self, ending: Sequence[tuple[Gate, int, ReasonCode]]) -> Steps[None]:
        """Record the instants that were due under locked gates as skipped spans: (gate, time, reason)."""
        due = [(g, now_us, code) for g, now_us, code in ending if g.next_us is not None and g.next_us <= now_us]
        due = [entry for entry in due if entry[0].state in _STATES_WITH_SCHEDULE]
        if not due:
            return
        rows = yield Query(self._select_specs, rows=Rows("in", [(gate.job, gate.version) for gate, _, _ in due]))
        specs = {job: (name, text) for job, name, text in rows}
        spans: list[tuple[int, Span]] = []
        for gate, now_us, code in due:
            span = _skipped_span(
                gate, *specs[gate.job], now_us, ReasonCode.PAUSED if gate.state == JobState.PAUSED else code
            )
            gate.done_us = max(gate.done_us, span.to_us)
            spans.append((gate.version, span))
        yield from self._records.insert_spans(int(Cause.SCHEDULE), spans)

    def select_expected(self, expected: Mapping[bytes, int | None]) -> Steps[list[Row]]:
        """Return (id, namespace, name, incarnation, version) of jobs that are at their expected versions.

        Raises ``NotFound`` or ``Conflict``.
        """
        rows = yield Query(self._names, rows=to_id_rows(expected))
        if len(rows) < len(expected):
            raise NotFound("the job no longer exists")
        for job, _, name, _, version in rows:
            expect = expected[job]
            if expect is not None and expect != version:
                raise Conflict(
                    f'"{name}" changed since you read it: you have version {expect}, the current one is {version}'
                )
        return rows

    def _save_switched(self, switched: Sequence[tuple[Gate, str, int]], freed: Collection[bytes]) -> Steps[None]:
        """Write back gates that changed their state, with the note and the time of each.

        Wakes executions that are queued behind these gates or behind the freed keys and now have room.
        """
        gates = [gate for gate, _, _ in switched]
        now_us = max(now_us for _, _, now_us in switched)
        yield from self._gates.wake(gates, now_us=now_us, freed=dict.fromkeys(freed, 0))
        yield from self._gates.save(gates)
        notes = [
            (gate.job, note, now_us, now_us if gate.state == JobState.PAUSED else None)
            for gate, note, now_us in switched
        ]
        yield Query(self._note, rows=Rows("itnn", notes))


def _skipped_span(gate: Gate, name: str, text: str, now_us: int, code: ReasonCode) -> Span:
    """Return the span of due instants. If the spec or its schedule is broken, only the first instant is known."""
    assert gate.next_us is not None
    try:
        return to_skipped_span(gate.job, resolve_instants(record.to_job_spec(text), name), gate.next_us, now_us, code)
    except Exception:  # noqa: BLE001 - a broken schedule must not keep a job from being deleted
        return to_skipped_span(gate.job, None, gate.next_us, now_us, code)


def _is_done_already(command: SetJobState, gate: Gate) -> bool:
    """Whether another client has made the same change meanwhile."""
    return command.expect_state is not None and gate.state != command.expect_state and gate.state == command.state


def _check_state_and_cursor(command: SetJobState, gate: Gate, name: str) -> None:
    check_state(name, gate, command.expect_state)
    if command.expect_state is not None and command.spans and command.spans[0].from_us != gate.next_us:
        raise Conflict(f'"{name}" was resumed and paused again since you read it; read it again')


def check_state(name: str, gate: Gate, expected: JobState | None) -> None:
    """Raise ``Conflict`` if a job is not in the state that the caller has read."""
    if expected is not None and gate.state != expected:
        now = JobState(gate.state).name.lower()
        raise Conflict(
            f'"{name}" changed since you read it: it was {expected.name.lower()} and is now {now}; read it again'
        )


def _audit_verb(gate: Gate, after: JobState) -> str:
    """Return the verb of a state change, for the audit log."""
    match after:
        case JobState.PAUSED:
            return "pause"
        case JobState.DISABLED:
            return "disable"
        case _:
            return "resume" if gate.state == JobState.PAUSED else "enable"
