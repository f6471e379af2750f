"""The judge itself: a calm world is found innocent, and the same world with one thing changed is not."""

from collections.abc import Callable
from copy import deepcopy
from dataclasses import replace
from functools import cache

import pytest

from chronos.core.config import Overlap
from chronos.core.execution import Status
from tests.simulation.checker import Verdict, judge
from tests.simulation.history import Fate, Fault
from tests.simulation.jobs import SimJob
from tests.simulation.wire import CALM
from tests.simulation.world import Evidence, Scenario, simulate

JOBS = (
    SimJob(name="alone", cron="0 */4 * * *"),
    SimJob(name="allow", cron="30 */4 * * *", overlap=Overlap.ALLOW),
)


@cache
def _calm() -> Evidence:
    return simulate(Scenario(seed=1, days=1, jobs=JOBS, faults={}, odds=CALM))


def missed(evidence: Evidence) -> Evidence:
    gone = evidence.history.runs.pop(4).execution
    evidence.history.acked.pop(gone)
    return replace(evidence, records=[record for record in evidence.records if record.id != gone])


def duplicate(evidence: Evidence) -> Evidence:
    run = evidence.history.runs[0]
    evidence.history.runs.append(replace(run, token=run.token + 1, start_s=run.start_s - 1, end_s=run.start_s))
    return evidence


def overlap(evidence: Evidence) -> Evidence:
    first, second = [run for run in evidence.history.runs if run.job == "alone"][:2]
    first.end_s = second.start_s + 1
    return evidence


def early(evidence: Evidence) -> Evidence:
    evidence.history.runs[3].start_wall_us -= 60_000_000
    return evidence


def late(evidence: Evidence) -> Evidence:
    run = [run for run in evidence.history.runs if run.job == "allow"][-1]
    run.start_s += 3_000
    run.start_wall_us += 3_000_000_000
    return evidence


def lost_ack(evidence: Evidence) -> Evidence:
    evidence.history.acked[evidence.records[0].id] = Status.FAILED
    return evidence


def lost_trigger(evidence: Evidence) -> Evidence:
    evidence.history.asked[b"nobody knows"] = 1.0
    return evidence


def resurrected(evidence: Evidence) -> Evidence:
    run = evidence.history.runs[0]
    again = replace(run, token=run.token + 1, number=2, fate=Fate.FAILED, start_s=run.start_s + 7_000)
    evidence.history.runs.append(replace(again, end_s=run.start_s + 7_001))
    return evidence


def zombie(evidence: Evidence) -> Evidence:
    id_, note = next(iter(evidence.history.settled.items()))
    evidence.history.settled[id_] = replace(note, newest=note.token + 1)
    return evidence


def phantom(evidence: Evidence) -> Evidence:
    for run in evidence.history.runs[:1]:
        run.fate = Fate.FAILED
    return evidence


def phantom_instant(evidence: Evidence) -> Evidence:
    evidence.history.runs[0].scheduled_us += 1
    return evidence


def stuck(evidence: Evidence) -> Evidence:
    oldest = min(evidence.records, key=lambda record: record.admitted_us)
    evidence.history.acked.pop(oldest.id)
    rest = [record for record in evidence.records if record is not oldest]
    return replace(evidence, records=[*rest, replace(oldest, status=Status.RUNNING, attempt_us=oldest.admitted_us)])


def stuck_cursor(evidence: Evidence) -> Evidence:
    return replace(evidence, next_due_us=evidence.begin_us)


def quiet(evidence: Evidence) -> Evidence:
    return replace(evidence, scenario=replace(evidence.scenario, faults={Fault.CRASH: 1.0}))


def test_a_calm_world_is_innocent() -> None:
    assert judge(_calm()) == []


@pytest.mark.parametrize(
    ("spoil", "verdict"),
    [
        (missed, Verdict.MISSED),
        (duplicate, Verdict.DUPLICATE),
        (overlap, Verdict.OVERLAP),
        (early, Verdict.EARLY),
        (late, Verdict.LATE),
        (lost_ack, Verdict.LOST_ACK),
        (lost_trigger, Verdict.LOST_ACK),
        (resurrected, Verdict.RESURRECTED),
        (zombie, Verdict.ZOMBIE),
        (phantom, Verdict.PHANTOM),
        (phantom_instant, Verdict.PHANTOM),
        (stuck, Verdict.STUCK),
        (stuck_cursor, Verdict.STUCK),
        (quiet, Verdict.QUIET),
    ],
)
def test_each_crime_has_its_name(spoil: Callable[[Evidence], Evidence], verdict: Verdict) -> None:
    assert verdict in {finding.verdict for finding in judge(spoil(deepcopy(_calm())))}
