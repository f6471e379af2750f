"""The judge: compares what the store says, what the work itself wrote down, and what the calendar wants.

Two oracles. One joins runs and records by execution id, and knows of tokens; the other holds records and runs against
instants that plain arithmetic works out, without any code of Chronos.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from itertools import pairwise

from chronos.core.execution import Attempt, AttemptStatus, Cause, Execution, Span, Status
from tests.chaos.history import Fault, Kind, Run

EARLY_US = 20_000  # what measuring the offset between two clocks may be wrong by
SETTLES_S = 20.0  # after a fault, on a busy machine
LATE_S = 10.0
_OVER = (AttemptStatus.LOST, AttemptStatus.FAILED, AttemptStatus.TIMED_OUT)


class Verdict(Enum):
    MISSED = "an instant without a record or a span"
    DUPLICATE = "done twice without a lost try on record that explains it"
    OVERLAP = "two at once where only one may be"
    EARLY = "before its instant"
    LATE = "long after its instant, though all was well"
    LOST_ACK = "acknowledged, and not on record"
    ZOMBIE = "beside its successor, as its node was frozen and did not know of it"
    UNFENCED = "an outcome accepted from one who did not hold it any more"
    PHANTOM = "a run without a record, or a record without a run or an instant"
    STUCK = "still open after everything healed"
    FAILED = "ended badly, though its work cannot fail"
    ORPHAN = "a process that outlived its node"
    UNSOUND = "the store contradicts itself"
    QUIET = "too little went wrong for the test to mean anything"


@dataclass(frozen=True, slots=True)
class Finding:
    verdict: Verdict
    what: str

    def __str__(self) -> str:
        return f"{self.verdict.name}: {self.what}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """A job as its test made it: every so often from its start. ``every_us`` 0: only when it is triggered."""

    start_us: int
    every_us: int
    exclusive: bool = True

    def instants(self, until_us: int) -> list[int]:
        return list(range(self.start_us, until_us + 1, self.every_us)) if self.every_us else []


@dataclass(slots=True, kw_only=True)
class Evidence:
    """Everything that the judge may know. Instants up to ``until_us`` must be accounted for."""

    until_us: int
    jobs: Mapping[str, Wanted]
    names: Mapping[bytes, str]
    records: list[Execution]
    spans: list[Span]
    attempts: Mapping[bytes, list[Attempt]]  # of executions that were tried more than once
    runs: list[Run]
    faults: list[Fault]
    acked: list[bytes] = field(default_factory=list)  # triggers
    unsound: list[str] = field(default_factory=list)
    orphans: list[str] = field(default_factory=list)

    def figures(self) -> str:
        """What happened, in one line."""
        kinds = Counter(fault.kind.name for fault in self.faults)
        faults = ", ".join(f"{count} {name}" for name, count in kinds.items())
        statuses = Counter(record.status.name for record in self.records)
        said = ", ".join(f"{count} {name}" for name, count in sorted(statuses.items()))
        hit = sum(fault.in_flight for fault in self.faults)
        lost = sum(a.status is AttemptStatus.LOST for attempts in self.attempts.values() for a in attempts)
        return (
            f"{len(self.jobs)} jobs, {len(self.records)} records ({said}), {len(self.spans)} spans, "
            f"{len(self.runs)} runs, {lost} lost tries; faults: {faults}, with {hit} runs under way"
        )


def judge(evidence: Evidence, *, least: Mapping[Kind, int], least_hit: int) -> list[Finding]:
    """Everything that is wrong. ``least``: how many faults of each kind, and runs they hit, make the test worth it."""
    return [*_general(evidence, least, least_hit), *_ById(evidence).findings(), *_by_calendar(evidence)]


def _general(evidence: Evidence, least: Mapping[Kind, int], least_hit: int) -> Iterator[Finding]:
    for sentence in evidence.unsound:
        yield Finding(Verdict.UNSOUND, sentence)
    for process in evidence.orphans:
        yield Finding(Verdict.ORPHAN, process)
    kinds = Counter(fault.kind for fault in evidence.faults)
    for kind, count in least.items():
        if kinds[kind] < count:
            yield Finding(Verdict.QUIET, f"{kind.value}: {kinds[kind]} times, expected {count}")
    hit = sum(fault.in_flight for fault in evidence.faults)
    if hit < least_hit:
        yield Finding(Verdict.QUIET, f"{hit} runs were under way when something went wrong, expected {least_hit}")


class _ById:
    """The first oracle."""

    def __init__(self, evidence: Evidence) -> None:
        self._evidence = evidence
        self._records = {record.id: record for record in evidence.records}
        self._runs: dict[bytes, list[Run]] = defaultdict(list)
        for run in evidence.runs:
            self._runs[run.execution].append(run)

    def findings(self) -> Iterator[Finding]:
        if len(self._records) < len(self._evidence.records):
            yield Finding(Verdict.DUPLICATE, "an execution is on record twice")
        for execution, runs in self._runs.items():
            if execution not in self._records:
                yield Finding(Verdict.PHANTOM, f"{shown(runs[0])} has no record")
            yield from self._repeated(runs)
        for record in self._records.values():
            yield from self._record(record, self._runs.get(record.id, []))
        for execution in self._evidence.acked:
            if execution not in self._records:
                yield Finding(Verdict.LOST_ACK, f"trigger {execution.hex()} was acknowledged, there is no record")
        yield from self._overlaps()

    def _repeated(self, runs: list[Run]) -> Iterator[Finding]:
        claims = Counter((run.token, run.attempt) for run in runs)
        if max(claims.values()) > 1:
            yield Finding(Verdict.DUPLICATE, f"{shown(runs[0])}: one claim began twice")
        over = {attempt.number for attempt in self._evidence.attempts.get(runs[0].execution, ()) if _is_over(attempt)}
        by_claim = sorted(runs, key=lambda run: (run.token, run.attempt))  # not by time: what was frozen begins late
        for run, following in pairwise(by_claim):
            given_back = run.attempt == following.attempt and self._stopped(run.start_s, following.start_s)
            if run.attempt not in over and not given_back:
                yield Finding(Verdict.DUPLICATE, f"{shown(run)} ran again as {shown(following)}")

    def _stopped(self, from_s: float, to_s: float) -> bool:
        """Whether a node gave back its work, which spends no try."""
        return any(fault.kind is Kind.TERM and fault.meets(from_s, to_s) for fault in self._evidence.faults)

    def _record(self, record: Execution, runs: list[Run]) -> Iterator[Finding]:
        what = f"{self._evidence.names[record.job]} {record.id.hex()} at {record.scheduled_us}"
        ended = [run for run in runs if run.end_s is not None]
        if not record.status.final:
            yield Finding(Verdict.STUCK, f"{what} is {record.status.name}")
        elif record.status in (Status.SKIPPED, Status.MISSED):
            if runs:
                yield Finding(Verdict.PHANTOM, f"{what} is {record.status.name}, and ran")
        elif record.status is not Status.SUCCEEDED:
            reason = "" if record.reason is None else record.reason.message
            yield Finding(Verdict.FAILED, f"{what} is {record.status.name}: {reason}")
        elif not ended:
            yield Finding(Verdict.PHANTOM, f"{what} succeeded, and nobody did it")
        elif record.token not in {run.token for run in ended}:
            tokens = [run.token for run in ended]
            yield Finding(Verdict.UNFENCED, f"{what} was settled under {record.token}, done under {tokens}")

    def _overlaps(self) -> Iterator[Finding]:
        groups: dict[str | bytes, list[Run]] = defaultdict(list)
        for run in self._evidence.runs:
            groups[run.job if self._evidence.jobs[run.job].exclusive else run.execution].append(run)
        for runs in groups.values():
            for place, run in enumerate(runs):
                beside = [other for other in runs[:place] if other.end_s is not None and other.end_s > run.start_s]
                unseen = [] if run.alone else [other for other in runs[:place] if other.end_s is None]
                for other in beside or unseen[-1:]:
                    yield Finding(self._kind(other, run), f"{shown(other)} and {shown(run)}")

    def _kind(self, before: Run, after: Run) -> Verdict:
        """Only the run of a frozen node may go on beside its successor, and only if nothing comes of it."""
        until_s = before.end_s if before.end_s is not None else after.start_s
        freezes = [fault for fault in self._evidence.faults if fault.kind is Kind.FREEZE]
        frozen = any(fault.meets(before.start_s, until_s) for fault in freezes)
        both_count = self._counts(before) and self._counts(after)
        return Verdict.ZOMBIE if frozen and not both_count else Verdict.OVERLAP

    def _counts(self, run: Run) -> bool:
        record = self._records.get(run.execution)
        return record is not None and record.status is Status.SUCCEEDED and record.token == run.token


def _by_calendar(evidence: Evidence) -> Iterator[Finding]:
    """The second oracle."""
    ids = {name: id_ for id_, name in evidence.names.items()}
    asked = set(evidence.acked)
    for name, wanted in evidence.jobs.items():
        if name not in ids:
            yield Finding(Verdict.LOST_ACK, f"{name} was saved, and is not there")
            continue
        runs = [run for run in evidence.runs if run.job == name and run.execution not in asked]
        yield from _covered(evidence, name, ids[name], wanted, runs)
        yield from _in_time(evidence, runs)


def _covered(evidence: Evidence, name: str, id_: bytes, wanted: Wanted, runs: list[Run]) -> Iterator[Finding]:
    """Every instant is accounted for once, and nothing else is."""
    claims: dict[int, set[bytes]] = defaultdict(set)
    for run in runs:
        claims[run.scheduled_us].add(run.execution)
    for record in evidence.records:
        if record.job == id_ and record.cause in (Cause.SCHEDULE, Cause.RECOVERY):
            claims[record.scheduled_us].add(record.id)
    instants = wanted.instants(max([evidence.until_us, *claims]))
    for us in claims.keys() - set(instants):
        yield Finding(Verdict.PHANTOM, f"{name} at {us}, which is no instant")
    for span in evidence.spans:
        if span.job == id_:
            inside = [us for us in instants if span.from_us <= us <= span.to_us]
            if len(inside) != span.count:
                yield Finding(Verdict.MISSED, f"{name}: a span of {span.count}, the calendar has {len(inside)}")
            for us in inside:
                claims[us].add(span.id)
    for us in instants:
        if not claims[us] and us <= evidence.until_us:
            yield Finding(Verdict.MISSED, f"{name} at {us}")
        if len(claims[us]) > 1:
            yield Finding(Verdict.DUPLICATE, f"{name} at {us} is there {len(claims[us])} times")


def _in_time(evidence: Evidence, runs: list[Run]) -> Iterator[Finding]:
    first: dict[bytes, Run] = {}
    for run in runs:
        if run.start_us < run.scheduled_us - EARLY_US:
            yield Finding(Verdict.EARLY, f"{shown(run)} by {(run.scheduled_us - run.start_us) / 1e6:.3f} s")
        first.setdefault(run.execution, run)
    for run in first.values():
        late_s = (run.start_us - run.scheduled_us) / 1e6
        unwell = any(fault.meets(run.start_s - late_s - SETTLES_S, run.start_s) for fault in evidence.faults)
        if late_s > LATE_S and not unwell:
            yield Finding(Verdict.LATE, f"{shown(run)} by {late_s:.1f} s")


def _is_over(attempt: Attempt) -> bool:
    return attempt.status in _OVER


def shown(run: Run) -> str:
    """A run, for people."""
    end = "…" if run.end_s is None else f"{run.end_s:.2f}"
    return f"{run.job} {run.execution.hex()[:12]} try {run.attempt} token {run.token} at {run.start_s:.2f}–{end} s"
