"""The checker of the simulation: compares the store's records, the runs, the operator's actions and the calendar.

There are four oracles, which share nothing. The first joins runs and records by execution id and claim token. The
second ignores ids, and compares runs and spans with the instants of a brute-force calendar. The third checks that the
operator's actions took effect. The fourth checks that requested runs, and runs of dependent jobs, happened.
"""

from collections.abc import Iterator

from tests.simulation.node_lifetimes import build_lifetimes
from tests.simulation.oracle_calendar import CalendarOracle
from tests.simulation.oracle_effects import EffectOracle
from tests.simulation.oracle_records import RecordOracle
from tests.simulation.oracle_requests import RequestOracle
from tests.simulation.scenario import Evidence
from tests.support.verdicts import Finding, Verdict

__all__ = ["Finding", "Verdict", "check_evidence"]


def check_evidence(evidence: Evidence, *, least_faults: int = 1) -> list[Finding]:
    """Every broken promise."""
    jobs = build_lifetimes(evidence)
    return [
        *_check_generally(evidence, least_faults),
        *RecordOracle(evidence, jobs).find(),
        *CalendarOracle(evidence, jobs).find(),
        *EffectOracle(evidence, jobs).find(),
        *RequestOracle(evidence, jobs).find(),
    ]


def _check_generally(evidence: Evidence, least_faults: int) -> Iterator[Finding]:
    for error in evidence.engine_errors:
        yield Finding(Verdict.ENGINE_FAILED, repr(error))
    for sentence in evidence.inconsistencies:
        yield Finding(Verdict.INCONSISTENT, sentence)
    for fault, per_day in evidence.scenario.faults.items():
        if per_day and evidence.history.faults[fault] < least_faults:
            yield Finding(Verdict.TOO_FEW_FAULTS, f"{fault.value}: {evidence.history.faults[fault]} times")
    settled_us = evidence.end_us - round(evidence.scenario.settles_s * 1e6)
    if evidence.next_due_us is not None and evidence.next_due_us < settled_us:
        yield Finding(Verdict.STUCK, f"a job's cursor is at {evidence.next_due_us}, it is {evidence.end_us}")
