"""The judge: compares what the store says, what the work itself wrote down, and what the calendar wants.

Two oracles that share nothing. The first joins runs and records by execution id, and knows of tokens. The second takes
no notice of ids: it holds runs and spans against instants that a brute-force calendar works out.
"""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum

from chronos.core.config import Delivery, Overlap, RecoveryStrategy
from chronos.core.execution import Cause, Execution, Status
from tests.simulation.history import Fate, Fault, Run
from tests.simulation.jobs import SimJob
from tests.simulation.world import OPTIONS, SETTLES_S, Evidence

LATE_S = 300.0  # what lost and late commands may cost, while nothing else is wrong
EARLY_US = 1_000_000  # the skew that a node may have
SUSPECT_S = OPTIONS.heartbeat_timeout_s + OPTIONS.reaper_s  # after a disturbance a node may still be declared dead


class Verdict(Enum):
    MISSED = "an instant without a run, a record or a span"
    DUPLICATE = "work done twice without need"
    OVERLAP = "two at once where only one may be"
    EARLY = "before its instant"
    LATE = "long after its instant, though all was well"
    LOST_ACK = "acknowledged, and not on record"
    RESURRECTED = "started after it had ended"
    ZOMBIE = "an outcome accepted from one who did not hold it any more"
    PHANTOM = "a run without a record, or a record without a run or an instant"
    STUCK = "still open, long after everything healed"
    UNSOUND = "the store contradicts itself"
    BROKEN = "an engine ended by an error"
    QUIET = "too little went wrong for the test to mean anything"


@dataclass(frozen=True, slots=True)
class Finding:
    verdict: Verdict
    what: str

    def __str__(self) -> str:
        return f"{self.verdict.name}: {self.what}"


def judge(evidence: Evidence, *, least_faults: int = 1) -> list[Finding]:
    """Everything that is wrong, worst first within each oracle."""
    return [
        *_general(evidence, least_faults),
        *_ById(evidence).findings(),
        *_ByCalendar(evidence).findings(),
    ]


def _general(evidence: Evidence, least_faults: int) -> Iterator[Finding]:
    for error in evidence.broken:
        yield Finding(Verdict.BROKEN, repr(error))
    for sentence in evidence.unsound:
        yield Finding(Verdict.UNSOUND, sentence)
    for fault, a_day in evidence.scenario.faults.items():
        if a_day and evidence.history.faults[fault] < least_faults:
            yield Finding(Verdict.QUIET, f"{fault.value}: {evidence.history.faults[fault]} times")
    settled_us = evidence.end_us - round(SETTLES_S * 1e6)
    if evidence.next_due_us is not None and evidence.next_due_us < settled_us:
        yield Finding(Verdict.STUCK, f"a job's cursor stands at {evidence.next_due_us}, it is {evidence.end_us}")


class _ById:
    """The first oracle."""

    def __init__(self, evidence: Evidence) -> None:
        self._evidence, self._history = evidence, evidence.history
        self._jobs = {job.name: job for job in evidence.scenario.jobs}
        self._records = {record.id: record for record in evidence.records}
        self._runs: dict[bytes, list[Run]] = defaultdict(list)
        for run in self._history.runs:
            self._runs[run.execution].append(run)

    def findings(self) -> Iterator[Finding]:
        for execution, runs in self._runs.items():
            if execution not in self._records:
                yield Finding(Verdict.PHANTOM, f"{_shown(runs[0])} has no record")
            yield from self._repeated(runs)
            yield from self._resurrected(runs)
        for record in self._records.values():
            yield from self._record(record)
        for note in self._history.settled.values():
            if note.token < note.newest:
                yield Finding(Verdict.ZOMBIE, f"{note.execution.hex()}: token {note.token}, newest {note.newest}")
        yield from self._lost_acks()
        yield from self._overlaps()

    def _repeated(self, runs: list[Run]) -> Iterator[Finding]:
        job = self._jobs[runs[0].job]
        seen = {(run.token, run.number) for run in runs}
        if len(seen) < len(runs):
            yield Finding(Verdict.DUPLICATE, f"{_shown(runs[0])}: one claim started twice")
        if job.delivery is Delivery.AT_MOST_ONCE and len(runs) > 1:
            yield Finding(Verdict.DUPLICATE, f"{_shown(runs[0])} must run at most once, ran {len(runs)} times")
        done = [run for run in runs if run.fate is Fate.DONE]
        for run in done[:-1]:
            if not self._excused(run):
                yield Finding(Verdict.DUPLICATE, f"{_shown(run)} was done, and done again")

    def _excused(self, run: Run) -> bool:
        """Whether whoever made it may have been taken for dead before its outcome was known."""
        end_s = run.end_s if run.end_s is not None else self._evidence.end_s
        return self._history.disturbed(run.machine, run.start_s - SUSPECT_S, end_s + SUSPECT_S)

    def _resurrected(self, runs: list[Run]) -> Iterator[Finding]:
        settled = self._history.settled.get(runs[0].execution)
        for run in runs:
            if settled is None or run.start_s <= settled.at_s:
                continue
            late = self._history.disturbed(run.machine, run.start_s - SUSPECT_S, run.start_s, Fault.FREEZE)
            if run.token >= settled.token or not late:
                yield Finding(Verdict.RESURRECTED, f"{_shown(run)} began after its end at {settled.at_s:.0f} s")

    def _record(self, record: Execution) -> Iterator[Finding]:
        name = self._evidence.names[record.job]
        runs = self._runs.get(record.id, [])
        if record.status is Status.SUCCEEDED and not any(run.fate is Fate.DONE for run in runs):
            yield Finding(Verdict.PHANTOM, f"{name} {record.id.hex()} succeeded, and nobody did it")
        if record.status in (Status.SKIPPED, Status.MISSED) and runs:
            yield Finding(Verdict.PHANTOM, f"{name} {record.id.hex()} is {record.status.name}, and ran")
        if not record.status.final:
            longest_s = self._jobs[name].longest_s
            since_us = record.admitted_us if record.attempt_us is None else record.attempt_us
            age_s = (self._evidence.end_us - since_us) / 1e6
            behind = self._jobs[name].overlap is Overlap.QUEUE and record.status is Status.QUEUED
            if age_s > SETTLES_S + longest_s and not behind:
                yield Finding(Verdict.STUCK, f"{name} {record.id.hex()} is {record.status.name} for {age_s:.0f} s")

    def _lost_acks(self) -> Iterator[Finding]:
        for execution, status in self._history.acked.items():
            record = self._records.get(execution)
            if record is None or record.status is not status:
                found = "nothing" if record is None else record.status.name
                yield Finding(Verdict.LOST_ACK, f"{execution.hex()} was said to be {status.name}, on record is {found}")
        for execution in self._history.asked:
            if execution not in self._records:
                yield Finding(Verdict.LOST_ACK, f"trigger {execution.hex()} was acknowledged, there is no record")

    def _overlaps(self) -> Iterator[Finding]:
        by_job: dict[str, list[Run]] = defaultdict(list)
        for run in self._history.runs:
            by_job[run.job].append(run)
        for name, runs in by_job.items():
            runs.sort(key=lambda run: run.start_s)
            for before, after in _meeting(runs, self._evidence.end_s):
                forbidden = self._jobs[name].exclusive or before.execution == after.execution
                if forbidden and not any(self._frozen(run, after.start_s) for run in (before, after)):
                    yield Finding(Verdict.OVERLAP, f"{_shown(before)} and {_shown(after)}")

    def _frozen(self, run: Run, at_s: float) -> bool:
        """Whether it is a zombie: its machine was frozen whole meanwhile, and only fencing helps."""
        until_s = run.end_s if run.end_s is not None else self._evidence.end_s
        return self._history.disturbed(run.machine, min(run.start_s, at_s - SUSPECT_S), until_s, Fault.FREEZE)


class _ByCalendar:
    """The second oracle."""

    def __init__(self, evidence: Evidence) -> None:
        self._evidence, self._history = evidence, evidence.history

    def findings(self) -> Iterator[Finding]:
        ids = {name: id_ for id_, name in self._evidence.names.items()}
        asked = {record.id for record in self._evidence.records if record.cause is Cause.MANUAL}
        for job in self._evidence.scenario.jobs:
            runs = [run for run in self._history.runs if run.job == job.name and run.execution not in asked]
            wanted = job.calendar(self._evidence.begin_us, self._evidence.end_us)
            yield from self._covered(job, ids[job.name], runs, wanted)
            yield from self._in_time(job, runs)
            if job.overlap is Overlap.ALLOW:
                yield from self._by_time_alone(job, runs, wanted)

    def _covered(self, job: SimJob, id_: bytes, runs: list[Run], wanted: list[int]) -> Iterator[Finding]:
        """Every instant is accounted for once, and nothing else is."""
        known = set(wanted)
        claims: dict[int, set[bytes]] = defaultdict(set)
        for run in runs:
            if run.scheduled_us not in known:
                yield Finding(Verdict.PHANTOM, f"{_shown(run)}: the calendar has no such instant")
            claims[run.scheduled_us].add(run.execution)
        for record in self._evidence.records:
            if record.job == id_ and record.cause is not Cause.MANUAL:
                claims[record.scheduled_us].add(record.id)
        yield from self._spans(job, id_, wanted, claims)
        settled_us = self._evidence.end_us - round(SETTLES_S * 1e6)
        for us in wanted:
            if not claims[us] and us <= settled_us:
                yield Finding(Verdict.MISSED, f"{job.name} at {us}")
            if len(claims[us]) > 1:
                yield Finding(Verdict.DUPLICATE, f"{job.name} at {us} is there {len(claims[us])} times")

    def _spans(self, job: SimJob, id_: bytes, wanted: list[int], claims: dict[int, set[bytes]]) -> Iterator[Finding]:
        """What was left out as a whole is counted right, and was allowed to be left out."""
        for span in self._evidence.spans:
            if span.job != id_:
                continue
            inside = [us for us in wanted if span.from_us <= us <= span.to_us]
            if len(inside) != span.count:
                yield Finding(Verdict.MISSED, f"{job.name}: a span of {span.count}, the calendar has {len(inside)}")
            if job.recovery is RecoveryStrategy.ALL:
                yield Finding(Verdict.MISSED, f"{job.name} recovers all, and left out {span.count}")
            for us in inside:
                claims[us].add(span.id)

    def _in_time(self, job: SimJob, runs: list[Run]) -> Iterator[Finding]:
        first: dict[int, Run] = {}
        for run in runs:
            put_back = self._history.disturbed("", run.start_s - SETTLES_S, run.start_s, Fault.JUMP)
            if run.start_wall_us < run.scheduled_us - EARLY_US and not put_back:  # a clock for all, after it had come
                yield Finding(Verdict.EARLY, f"{_shown(run)} by {(run.scheduled_us - run.start_wall_us) / 1e6:.1f} s")
            first.setdefault(run.scheduled_us, run)
        if job.overlap is not Overlap.ALLOW:
            return  # it may have had to wait for another
        for run in first.values():
            late_s = (run.start_wall_us - run.scheduled_us) / 1e6
            if late_s > LATE_S and self._well(run.start_s - late_s, run.start_s):
                yield Finding(Verdict.LATE, f"{_shown(run)} by {late_s:.0f} s")

    def _by_time_alone(self, job: SimJob, runs: list[Run], wanted: list[int]) -> Iterator[Finding]:
        """After everything healed: as many first starts as instants, each soon after its own, whatever they claim."""
        offset_us = self._evidence.end_us - round(self._evidence.end_s * 1e6)
        from_s = self._evidence.healed_s + 2 * SETTLES_S
        instants = [us for us in wanted if from_s <= (us - offset_us) / 1e6 <= self._evidence.end_s - LATE_S]
        starts = sorted(run.start_s for run in runs if run.number == 1 and run.start_s >= from_s)
        for us in instants:
            due_s = (us - offset_us) / 1e6
            if not starts or not -1 <= starts[0] - due_s <= LATE_S:
                yield Finding(Verdict.LATE, f"{job.name}: nothing began at {us} or soon after, though all was well")
                return
            starts.pop(0)

    def _well(self, from_s: float, to_s: float) -> bool:
        return not any(d.from_s <= to_s and d.to_s + SETTLES_S >= from_s for d in self._history.disturbances)


def _meeting(runs: list[Run], end_s: float) -> Iterator[tuple[Run, Run]]:
    """Pairs of runs that went on at the same time; ``runs`` by their start."""
    going: list[Run] = []
    for run in runs:
        going = [other for other in going if (other.end_s if other.end_s is not None else end_s) > run.start_s]
        for other in going:
            yield other, run
        going.append(run)


def _shown(run: Run) -> str:
    return (
        f"{run.job} {run.execution.hex()[:12]} try {run.number} token {run.token} on {run.machine} "
        f"at {run.start_s:.0f}–{-1 if run.end_s is None else run.end_s:.0f} s"
    )
