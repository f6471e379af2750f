"""Jobs that change their state: paused, resumed, disabled, enabled. The same on every engine."""

from collections import Counter
from collections.abc import Mapping, Sequence

from chronos.core.execution import Cause, Status
from chronos.core.job import JobState
from chronos.errors import Conflict, NotFound
from chronos.store.commands import SaveJobs, SetJobState
from chronos.store.sql.creating import Written, told
from chronos.store.sql.dialect import Dialect, Query, Row, Rows, Steps
from chronos.store.sql.gates import Gates
from chronos.store.sql.locks import Gate, ids
from chronos.store.sql.records import Line, Records


class Switching:
    """Statements and steps."""

    def __init__(self, d: Dialect, gates: Gates, records: Records) -> None:
        self._gates, self._records = gates, records
        self._names = f"""
            select id, namespace, name, incarnation, version from job where {d.is_job_of("job", 1)}
            order by id {d.lock()}"""
        self._note = f"""
            update job as j set note = i.note, updated_us = i.now_us, paused_us = i.paused_us
            from {d.rows(1, "id:i note:t now_us:n paused_us:n")} as i
            where {d.within("j.id", 1)} and {d.is_job("j", "i.id")}"""
        asked = int(Cause.MANUAL)
        unstarted = f"status in ({int(Status.READY)}, {int(Status.QUEUED)}) and started_us is null and cause <> {asked}"
        self._hold = f"update active set held = 1 where job = $1 and {unstarted}"
        self._let_go = "update active set held = 0, ready_since_us = $2 where job = $1 and held = 1"

    def set_state(self, command: SetJobState) -> Steps[bool]:
        """See ``SetJobState``."""
        gates = yield from self._gates.lock([command.job])
        [(_, namespace, name, _, _)] = yield from self.expected({command.job: command.expect})
        gate = gates[command.job]
        if command.was is not None and gate.state != command.was and gate.state == command.state:
            return False
        check_state(name, gate, command.was)
        if command.was is not None and command.spans and command.spans[0].from_us != gate.next_us:
            raise Conflict(f'"{name}" was switched back and forth since you read it; look at it again')
        verb = _verb(gate, command.state)
        yield from self.enter(gate, command.state, command.now_us)
        if not command.keep_cursor:
            gate.next_us = command.next_us
        yield from self._records.spans(int(Cause.SCHEDULE), ((gate.version, span) for span in command.spans))
        gate.done_us = max([gate.done_us, *(span.to_us for span in command.spans)])
        yield from self._leave([(gate, command.note)], command.now_us)
        yield from self._records.audit(command.actor, verb, namespace, name, command.now_us, command.note)
        return True

    def turn(self, turned: Sequence[Written], gates: Mapping[bytes, Gate], command: SaveJobs) -> Steps[None]:
        """Jobs that say what they said, and are to be in another state; their gates are locked, and as expected."""
        verbs: dict[str, list[tuple[str, str, str]]] = {}
        for row, _, saved in turned:
            gate = gates[saved.id]
            verbs.setdefault(_verb(gate, row.state), []).append((row.namespace, row.name, ""))
            yield from self.enter(gate, row.state, command.now_us)
            gate.next_us = row.next_us
        yield from self._leave([(gates[saved.id], "") for _, _, saved in turned], command.now_us)
        lines: list[Line] = [line for verb, jobs in verbs.items() for line in told(verb, jobs)]
        yield from self._records.audits(command.actor, command.now_us, lines)

    def enter(self, gate: Gate, state: JobState, now_us: int) -> Steps[None]:
        """A locked gate changes its state; what is held follows."""
        if state is JobState.PAUSED and gate.state != JobState.PAUSED:
            yield Query(self._hold, (gate.job,))
        elif state is not JobState.PAUSED and gate.state == JobState.PAUSED:
            yield Query(self._let_go, (gate.job, now_us))
        yield from self._records.tally(Counter({gate.state: -1, int(state): 1}) if gate.state != state else Counter())
        gate.state = int(state)

    def expected(self, wanted: Mapping[bytes, int | None]) -> Steps[list[Row]]:
        """Id, namespace, name, incarnation and version of jobs that are there, at the version that is expected."""
        rows = yield Query(self._names, rows=ids(wanted))
        if len(rows) < len(wanted):
            raise NotFound("the job does not exist any more")
        for job, _, name, _, version in rows:
            expect = wanted[job]
            if expect is not None and expect != version:
                raise Conflict(
                    f'"{name}" changed since you read it: you have version {expect}, it is version {version}'
                )
        return rows

    def _leave(self, switched: Sequence[tuple[Gate, str]], now_us: int) -> Steps[None]:
        """Gates that changed their state are written back, each with the note of its job."""
        gates = [gate for gate, _ in switched]
        yield from self._gates.wake(gates, now_us=now_us)
        yield from self._gates.save(gates)
        notes = [(gate.job, note, now_us, now_us if gate.state == JobState.PAUSED else None) for gate, note in switched]
        yield Query(self._note, rows=Rows("itnn", notes))


def check_state(name: str, gate: Gate, was: JobState | None) -> None:
    """Raises ``Conflict`` when a job is not in the state that somebody saw it in."""
    if was is not None and gate.state != was:
        now = JobState(gate.state).name.lower()
        raise Conflict(f'"{name}" is {now} by now, and was {was.name.lower()} when you read it; look at it again')


def _verb(gate: Gate, after: JobState) -> str:
    """What is done to a job that changes its state, for the audit log."""
    match after:
        case JobState.PAUSED:
            return "pause"
        case JobState.DISABLED:
            return "disable"
        case _:
            return "resume" if gate.state == JobState.PAUSED else "enable"
