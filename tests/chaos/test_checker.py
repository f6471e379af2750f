"""The checker of the chaos tests finds every kind of fault, and none in sound evidence."""

from collections.abc import Callable
from dataclasses import replace

import pytest
from msgspec.structs import replace as replace_struct

from chronos.core.execution import Attempt, AttemptStatus, Cause, Execution, Span, Status
from chronos.core.reasons import Reason, ReasonCode
from tests.chaos.checker import Evidence, ExpectedJob, check_evidence
from tests.chaos.history import Fault, Kind, Run
from tests.support.verdicts import Verdict

SECOND = 1_000_000
T0 = 1_800_000_000 * SECOND
JOB, OTHER = b"j" * 16, b"o" * 16
FIRST, SECOND_ONE, THIRD = b"1" * 16, b"2" * 16, b"3" * 16


def make_record(id_: bytes, at_s: int, status: Status = Status.SUCCEEDED, **more: object) -> Execution:
    at_us = T0 + at_s * SECOND
    execution = Execution(
        id=id_,
        job=JOB,
        job_version=1,
        cause=Cause.SCHEDULE,
        scheduled_us=at_us,
        status=status,
        token=1,
        admitted_us=at_us,
    )
    return replace_struct(execution, **more)


def make_run(
    id_: bytes, at_s: int, *, start_s: float | None = None, lasts_s: float | None = 1.0, **more: object
) -> Run:
    started_s = at_s if start_s is None else start_s
    run = Run(
        job="job",
        execution=id_,
        scheduled_us=T0 + at_s * SECOND,
        attempt=1,
        token=1,
        pid=1,
        alone=True,
        start_s=started_s,
        start_us=T0 + round(started_s * SECOND),
        end_s=None if lasts_s is None else started_s + lasts_s,
    )
    return replace(run, **more)  # type: ignore[arg-type]


def make_sound_evidence() -> Evidence:
    """Three instants ten seconds apart: one ran, one had two attempts around a kill, one was skipped."""
    lost = Attempt(execution=SECOND_ONE, task="main", number=1, status=AttemptStatus.LOST, started_us=T0)
    return Evidence(
        until_us=T0 + 25 * SECOND,
        jobs={"job": ExpectedJob(start_us=T0, every_us=10 * SECOND)},
        names={JOB: "job"},
        records=[make_record(FIRST, 0), make_record(SECOND_ONE, 10, token=2), make_record(THIRD, 20, Status.SKIPPED)],
        spans=[],
        attempts={SECOND_ONE: [lost]},
        runs=[
            make_run(FIRST, 0),
            make_run(SECOND_ONE, 10, lasts_s=None),
            make_run(SECOND_ONE, 10, start_s=15.0, token=2, attempt=2),
        ],
        faults=[Fault(kind=Kind.KILL, from_s=11.0, to_s=11.1, in_flight=1)],
    )


def find_verdicts(evidence: Evidence) -> set[Verdict]:
    return {finding.verdict for finding in check_evidence(evidence, min_faults={Kind.KILL: 1}, min_in_flight=1)}


def test_sound_evidence_has_no_findings() -> None:
    assert check_evidence(make_sound_evidence(), min_faults={Kind.KILL: 1}, min_in_flight=1) == []


def test_a_span_after_the_end_of_the_check_is_sound() -> None:
    evidence = make_sound_evidence()
    evidence.spans.append(make_span(OTHER, 30, 1))
    assert find_verdicts(evidence) == set()


def no_record(evidence: Evidence) -> None:
    evidence.records.pop()


def make_span(id_: bytes, at_s: int, count: int) -> Span:
    at_us, missed = T0 + at_s * SECOND, Reason.of(ReasonCode.MISSED)
    return Span(
        id=id_, job=JOB, status=Status.MISSED, from_us=at_us, to_us=at_us, count=count, reason=missed, recorded_us=at_us
    )


def wrong_span(evidence: Evidence) -> None:
    evidence.records.pop()
    evidence.spans.append(make_span(THIRD, 20, 2))


def no_lost_attempt(evidence: Evidence) -> None:
    evidence.attempts = {}


def one_claim_twice(evidence: Evidence) -> None:
    evidence.runs.append(make_run(FIRST, 0, start_s=3.0))


def two_for_an_instant(evidence: Evidence) -> None:
    evidence.records.append(make_record(OTHER, 20, Status.SKIPPED))


def beside(evidence: Evidence) -> None:
    evidence.runs[0].end_s = 10.5


def not_alone(evidence: Evidence) -> None:
    evidence.runs[2].alone = False


def frozen(evidence: Evidence) -> None:
    not_alone(evidence)
    evidence.faults.append(Fault(kind=Kind.FREEZE, from_s=11.0, to_s=15.0, in_flight=1))


def frozen_and_both_count(evidence: Evidence) -> None:
    frozen(evidence)
    beside(evidence)


def started_when_thawed(evidence: Evidence) -> None:
    evidence.runs[1:] = [evidence.runs[2], make_run(SECOND_ONE, 10, start_s=15.5, lasts_s=None)]
    evidence.runs[2].alone = False
    evidence.faults.append(Fault(kind=Kind.FREEZE, from_s=11.0, to_s=15.4, in_flight=1))


def early(evidence: Evidence) -> None:
    evidence.runs[0].start_us -= SECOND


def late(evidence: Evidence) -> None:
    evidence.runs[0].start_us += 20 * SECOND
    evidence.runs[0].start_s += 200
    evidence.runs[0].end_s = None
    evidence.faults[0] = replace(evidence.faults[0], from_s=50, to_s=50)


def lost_ack(evidence: Evidence) -> None:
    evidence.acked.append(OTHER)


def old_token(evidence: Evidence) -> None:
    evidence.records[0] = make_record(FIRST, 0, token=7)


def no_run_finished(evidence: Evidence) -> None:
    evidence.runs[0].end_s = None


def skipped_yet_ran(evidence: Evidence) -> None:
    evidence.runs.append(make_run(THIRD, 20))


def no_such_instant(evidence: Evidence) -> None:
    evidence.records.append(make_record(OTHER, 7, Status.SKIPPED))


def still_open(evidence: Evidence) -> None:
    evidence.records[2] = make_record(THIRD, 20, Status.READY)


def failed(evidence: Evidence) -> None:
    evidence.records[0] = make_record(FIRST, 0, Status.STALE)


def orphan(evidence: Evidence) -> None:
    evidence.orphans.append("1 sleep")


def contradiction(evidence: Evidence) -> None:
    evidence.inconsistencies.append("a gate counts wrongly")


def nothing_happened(evidence: Evidence) -> None:
    evidence.faults.clear()


@pytest.mark.parametrize(
    ("corrupt", "verdict"),
    [
        (no_record, Verdict.MISSED),
        (wrong_span, Verdict.MISSED),
        (no_lost_attempt, Verdict.DUPLICATE),
        (one_claim_twice, Verdict.DUPLICATE),
        (two_for_an_instant, Verdict.DUPLICATE),
        (beside, Verdict.OVERLAP),
        (not_alone, Verdict.OVERLAP),
        (frozen, Verdict.ZOMBIE),
        (frozen_and_both_count, Verdict.OVERLAP),
        (early, Verdict.EARLY),
        (late, Verdict.LATE),
        (lost_ack, Verdict.LOST_ACK),
        (old_token, Verdict.UNFENCED),
        (no_run_finished, Verdict.PHANTOM),
        (skipped_yet_ran, Verdict.PHANTOM),
        (no_such_instant, Verdict.PHANTOM),
        (still_open, Verdict.STUCK),
        (failed, Verdict.FAILED),
        (orphan, Verdict.ORPHAN),
        (contradiction, Verdict.INCONSISTENT),
        (nothing_happened, Verdict.TOO_FEW_FAULTS),
    ],
    ids=lambda value: value.__name__ if callable(value) else value.name,
)
def test_each_fault_is_found(corrupt: Callable[[Evidence], None], verdict: Verdict) -> None:
    evidence = make_sound_evidence()
    corrupt(evidence)
    assert verdict in find_verdicts(evidence)


def test_a_run_that_starts_when_its_node_is_thawed_is_only_a_zombie() -> None:
    evidence = make_sound_evidence()
    started_when_thawed(evidence)
    assert find_verdicts(evidence) == {Verdict.ZOMBIE}
