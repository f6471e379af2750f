"""The checker of the chaos tests: compares the store's records, the runs that the work recorded, and the calendar.

There are two oracles. One joins runs and records by execution id and claim token. The other compares them with instants
from plain arithmetic, without code of Chronos.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise

from chronos.core.execution import Attempt, AttemptStatus, Cause, Execution, Span, Status
from tests.chaos.history import Fault, Kind, Run
from tests.support.verdicts import Finding, Verdict

EARLY_US = 20_000  # the error in measuring the offset between two clocks
SETTLES_S = 20.0  # after a fault, on a busy machine
LATE_S = 10.0
_UNSUCCESSFUL = (AttemptStatus.LOST, AttemptStatus.FAILED, AttemptStatus.TIMED_OUT)


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpectedJob:
    """The schedule of a job: every ``every_us`` from its start. 0: only when it is triggered."""

    start_us: int
    every_us: int
    exclusive: bool = True

    def instants(self, until_us: int) -> list[int]:
        return list(range(self.start_us, until_us + 1, self.every_us)) if self.every_us else []


@dataclass(slots=True, kw_only=True)
class Evidence:
    """The input of the checker. All instants up to ``until_us`` must be accounted for."""

    until_us: int
    jobs: Mapping[str, ExpectedJob]
    names: Mapping[bytes, str]
    records: list[Execution]
    spans: list[Span]
    attempts: Mapping[bytes, list[Attempt]]  # of executions with several attempts
    runs: list[Run]
    faults: list[Fault]
    acked: list[bytes] = field(default_factory=list)  # triggers
    inconsistencies: list[str] = field(default_factory=list)
    orphans: list[str] = field(default_factory=list)

    def summarize(self) -> str:
        """The figures of a test, in one line."""
        kinds = Counter(fault.kind.name for fault in self.faults)
        faults = ", ".join(f"{count} {name}" for name, count in kinds.items())
        statuses = Counter(record.status.name for record in self.records)
        by_status = ", ".join(f"{count} {name}" for name, count in sorted(statuses.items()))
        in_flight = sum(fault.in_flight for fault in self.faults)
        lost = sum(a.status is AttemptStatus.LOST for attempts in self.attempts.values() for a in attempts)
        return (
            f"{len(self.jobs)} jobs, {len(self.records)} records ({by_status}), {len(self.spans)} spans, "
            f"{len(self.runs)} runs, {lost} lost attempts; faults: {faults}, during {in_flight} runs"
        )


def check_evidence(evidence: Evidence, *, min_faults: Mapping[Kind, int], min_in_flight: int) -> list[Finding]:
    """Every broken promise. Fewer faults than ``min_faults``, or fewer runs in flight during them, are findings too."""
    return [
        *_check_generally(evidence, min_faults, min_in_flight),
        *_RecordOracle(evidence).find(),
        *_check_calendar(evidence),
    ]


def _check_generally(evidence: Evidence, min_faults: Mapping[Kind, int], min_in_flight: int) -> Iterator[Finding]:
    for sentence in evidence.inconsistencies:
        yield Finding(Verdict.INCONSISTENT, sentence)
    for process in evidence.orphans:
        yield Finding(Verdict.ORPHAN, process)
    kinds = Counter(fault.kind for fault in evidence.faults)
    for kind, count in min_faults.items():
        if kinds[kind] < count:
            yield Finding(Verdict.TOO_FEW_FAULTS, f"{kind.value}: {kinds[kind]} times, expected {count}")
    in_flight = sum(fault.in_flight for fault in evidence.faults)
    if in_flight < min_in_flight:
        yield Finding(Verdict.TOO_FEW_FAULTS, f"{in_flight} runs were running during faults, expected {min_in_flight}")


class _RecordOracle:
    """The first oracle: joins runs and records."""

    def __init__(self, evidence: Evidence) -> None:
        self._evidence = evidence
        self._records = {record.id: record for record in evidence.records}
        self._runs: dict[bytes, list[Run]] = defaultdict(list)
        for run in evidence.runs:
            self._runs[run.execution].append(run)

    def find(self) -> Iterator[Finding]:
        if len(self._records) < len(self._evidence.records):
            yield Finding(Verdict.DUPLICATE, "an execution is on record twice")
        for execution, runs in self._runs.items():
            if execution not in self._records:
                yield Finding(Verdict.PHANTOM, f"{describe_run(runs[0])} has no record")
            yield from self._check_repeated(runs)
        for record in self._records.values():
            yield from self._check_record(record, self._runs.get(record.id, []))
        for execution in self._evidence.acked:
            if execution not in self._records:
                yield Finding(Verdict.LOST_ACK, f"trigger {execution.hex()} was acknowledged and has no record")
        yield from self._check_overlaps()

    def _check_repeated(self, runs: list[Run]) -> Iterator[Finding]:
        claims = Counter((run.token, run.attempt) for run in runs)
        if max(claims.values()) > 1:
            yield Finding(Verdict.DUPLICATE, f"{describe_run(runs[0])}: one claim started twice")
        attempts = self._evidence.attempts.get(runs[0].execution, ())
        unsuccessful = {attempt.number for attempt in attempts if attempt.status in _UNSUCCESSFUL}
        by_claim = sorted(runs, key=lambda run: (run.token, run.attempt))  # not by time: a frozen run starts late
        for run, following in pairwise(by_claim):
            released = run.attempt == following.attempt and self._was_stopped(run.start_s, following.start_s)
            if run.attempt not in unsuccessful and not released:
                yield Finding(Verdict.DUPLICATE, f"{describe_run(run)} ran again as {describe_run(following)}")

    def _was_stopped(self, from_s: float, to_s: float) -> bool:
        """Whether a node was stopped. It released its work then, which does not count as an attempt."""
        return any(fault.kind is Kind.TERM and fault.overlaps(from_s, to_s) for fault in self._evidence.faults)

    def _check_record(self, record: Execution, runs: list[Run]) -> Iterator[Finding]:
        subject = f"{self._evidence.names[record.job]} {record.id.hex()} at {record.scheduled_us}"
        ended = [run for run in runs if run.end_s is not None]
        if not record.status.final:
            yield Finding(Verdict.STUCK, f"{subject} is {record.status.name}")
        elif record.status in (Status.SKIPPED, Status.MISSED):
            if runs:
                yield Finding(Verdict.PHANTOM, f"{subject} is {record.status.name}, and ran")
        elif record.status is not Status.SUCCEEDED:
            reason = "" if record.reason is None else record.reason.message
            yield Finding(Verdict.FAILED, f"{subject} is {record.status.name}: {reason}")
        elif not ended:
            yield Finding(Verdict.PHANTOM, f"{subject} succeeded, and no run finished")
        elif record.token not in {run.token for run in ended}:
            tokens = [run.token for run in ended]
            yield Finding(Verdict.UNFENCED, f"{subject} was settled with token {record.token}, its runs had {tokens}")

    def _check_overlaps(self) -> Iterator[Finding]:
        groups: dict[str | bytes, list[Run]] = defaultdict(list)
        for run in self._evidence.runs:
            groups[run.job if self._evidence.jobs[run.job].exclusive else run.execution].append(run)
        for runs in groups.values():
            for place, run in enumerate(runs):
                beside = [other for other in runs[:place] if other.end_s is not None and other.end_s > run.start_s]
                open_runs = [] if run.alone else [other for other in runs[:place] if other.end_s is None]
                for other in beside or open_runs[-1:]:
                    yield Finding(self._classify_overlap(other, run), f"{describe_run(other)} and {describe_run(run)}")

    def _classify_overlap(self, before: Run, after: Run) -> Verdict:
        """Only the run of a frozen node may continue beside its successor, and only if its outcome is refused."""
        until_s = before.end_s if before.end_s is not None else after.start_s
        freezes = [fault for fault in self._evidence.faults if fault.kind is Kind.FREEZE]
        frozen = any(fault.overlaps(before.start_s, until_s) for fault in freezes)
        both_count = self._was_accepted(before) and self._was_accepted(after)
        return Verdict.ZOMBIE if frozen and not both_count else Verdict.OVERLAP

    def _was_accepted(self, run: Run) -> bool:
        record = self._records.get(run.execution)
        return record is not None and record.status is Status.SUCCEEDED and record.token == run.token


def _check_calendar(evidence: Evidence) -> Iterator[Finding]:
    """The second oracle: compares runs and records with the calendar."""
    ids = {name: id_ for id_, name in evidence.names.items()}
    triggered = set(evidence.acked)
    for name, expected in evidence.jobs.items():
        if name not in ids:
            yield Finding(Verdict.LOST_ACK, f"{name} was saved, and is not in the store")
            continue
        runs = [run for run in evidence.runs if run.job == name and run.execution not in triggered]
        yield from _check_coverage(evidence, name, ids[name], expected, runs)
        yield from _check_times(evidence, runs)


def _check_coverage(
    evidence: Evidence, name: str, id_: bytes, expected: ExpectedJob, runs: list[Run]
) -> Iterator[Finding]:
    """Every instant is accounted for once, and nothing else is."""
    claims: dict[int, set[bytes]] = defaultdict(set)
    for run in runs:
        claims[run.scheduled_us].add(run.execution)
    for record in evidence.records:
        if record.job == id_ and record.cause in (Cause.SCHEDULE, Cause.RECOVERY):
            claims[record.scheduled_us].add(record.id)
    spans = [span for span in evidence.spans if span.job == id_]
    instants = expected.instants(max([evidence.until_us, *claims, *(span.to_us for span in spans)]))
    for us in claims.keys() - set(instants):
        yield Finding(Verdict.PHANTOM, f"{name} at {us}, which is not an instant")
    for span in spans:
        inside = [us for us in instants if span.from_us <= us <= span.to_us]
        if len(inside) != span.count:
            yield Finding(Verdict.MISSED, f"{name}: a span of {span.count}, the calendar has {len(inside)}")
        for us in inside:
            claims[us].add(span.id)
    for us in instants:
        if not claims[us] and us <= evidence.until_us:
            yield Finding(Verdict.MISSED, f"{name} at {us}")
        if len(claims[us]) > 1:
            yield Finding(Verdict.DUPLICATE, f"{name} at {us} is recorded {len(claims[us])} times")


def _check_times(evidence: Evidence, runs: list[Run]) -> Iterator[Finding]:
    first: dict[bytes, Run] = {}
    for run in runs:
        if run.start_us < run.scheduled_us - EARLY_US:
            yield Finding(Verdict.EARLY, f"{describe_run(run)} by {(run.scheduled_us - run.start_us) / 1e6:.3f} s")
        first.setdefault(run.execution, run)
    for run in first.values():
        late_s = (run.start_us - run.scheduled_us) / 1e6
        disturbed = any(fault.overlaps(run.start_s - late_s - SETTLES_S, run.start_s) for fault in evidence.faults)
        if late_s > LATE_S and not disturbed:
            yield Finding(Verdict.LATE, f"{describe_run(run)} by {late_s:.1f} s")


def describe_run(run: Run) -> str:
    """A run as text for a finding."""
    end = "…" if run.end_s is None else f"{run.end_s:.2f}"
    return f"{run.job} {run.execution.hex()[:12]} attempt {run.attempt} token {run.token} at {run.start_s:.2f}–{end} s"
