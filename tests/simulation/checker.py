"""The judge: compares what the store says, what the work itself wrote down, what people asked for, and the calendar.

Oracles that share nothing. The first joins runs and records by execution id, and knows of tokens. The second takes no
notice of ids: it holds runs and spans against instants that a brute-force calendar works out. The third asks whether
what people said was obeyed, the fourth whether they, and jobs that follow others, got what they asked for.
"""

from collections.abc import Iterator

from tests.simulation.node_lifetimes import lives
from tests.simulation.oracle_calendar import ByCalendar
from tests.simulation.oracle_effects import ByWish
from tests.simulation.oracle_records import ById
from tests.simulation.oracle_requests import ByRequest
from tests.simulation.scenario import Evidence
from tests.simulation.verdicts import Finding, Verdict

__all__ = ["Finding", "Verdict", "judge"]


def judge(evidence: Evidence, *, least_faults: int = 1) -> list[Finding]:
    """Everything that is wrong."""
    jobs = lives(evidence)
    return [
        *_general(evidence, least_faults),
        *ById(evidence, jobs).findings(),
        *ByCalendar(evidence, jobs).findings(),
        *ByWish(evidence, jobs).findings(),
        *ByRequest(evidence, jobs).findings(),
    ]


def _general(evidence: Evidence, least_faults: int) -> Iterator[Finding]:
    for error in evidence.broken:
        yield Finding(Verdict.BROKEN, repr(error))
    for sentence in evidence.unsound:
        yield Finding(Verdict.UNSOUND, sentence)
    for fault, a_day in evidence.scenario.faults.items():
        if a_day and evidence.history.faults[fault] < least_faults:
            yield Finding(Verdict.QUIET, f"{fault.value}: {evidence.history.faults[fault]} times")
    settled_us = evidence.end_us - round(evidence.scenario.settles_s * 1e6)
    if evidence.next_due_us is not None and evidence.next_due_us < settled_us:
        yield Finding(Verdict.STUCK, f"a job's cursor stands at {evidence.next_due_us}, it is {evidence.end_us}")
