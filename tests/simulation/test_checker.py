"""The checker of the simulation finds every kind of fault, and none in a calm world."""

from collections.abc import Callable
from copy import deepcopy
from dataclasses import replace
from functools import cache
from typing import Any

import pytest
from msgspec.structs import replace as replace_struct

from chronos.core.config import Overlap
from chronos.core.execution import Cause, Status
from chronos.core.job import UpstreamJob
from tests.simulation.checker import check_evidence
from tests.simulation.history import Action, Backfill, Change, Fault, Replay, RunOutcome
from tests.simulation.jobs import SimJob
from tests.simulation.scenario import Evidence, Scenario
from tests.simulation.store_link import CALM
from tests.simulation.world import simulate
from tests.support.verdicts import Verdict

JOBS = (
    SimJob(name="before", cron="40 */6 * * *", failing=0.4, attempts=1),
    SimJob(name="after", after=(UpstreamJob(job="before"),)),
    SimJob(name="alone", cron="0 */4 * * *"),
    SimJob(name="allow", cron="30 */4 * * *", overlap=Overlap.ALLOW),
    SimJob(name="queue", cron="10 */4 * * *", overlap=Overlap.QUEUE),
)


DEPENDENT = Cause.DEPENDENCY


@cache
def _simulate_calm_world() -> Evidence:
    return simulate(Scenario(seed=1, days=1, jobs=JOBS, faults={}, odds=CALM, actions=0))


def missed(evidence: Evidence) -> Evidence:
    removed = evidence.history.runs.pop(4).execution
    evidence.history.acked.pop(removed)
    return replace(evidence, records=[record for record in evidence.records if record.id != removed])


def duplicate(evidence: Evidence) -> Evidence:
    run = evidence.history.runs[0]
    evidence.history.runs.append(replace(run, token=run.token + 1, start_s=run.start_s - 1, end_s=run.start_s))
    return evidence


def overlap(evidence: Evidence) -> Evidence:
    first, second = [run for run in evidence.history.runs if run.name == "alone"][:2]
    first.end_s = second.start_s + 1
    return evidence


def killed(evidence: Evidence) -> Evidence:
    """An attempt before the finished one was killed."""
    run = evidence.history.runs[0]
    first = replace(run, token=run.token - 1, start_s=run.start_s - 1, end_s=run.start_s, outcome=RunOutcome.KILLED)
    evidence.history.runs.insert(0, first)
    return evidence


def disorder(evidence: Evidence) -> Evidence:
    first, second = [run for run in evidence.history.runs if run.name == "queue"][:2]
    first.scheduled_us, second.scheduled_us = second.scheduled_us, first.scheduled_us
    return evidence


def early(evidence: Evidence) -> Evidence:
    evidence.history.runs[3].start_wall_us -= 2_000
    return evidence


def early_though_a_clock_was_set(evidence: Evidence) -> Evidence:
    """The clock was set back, and had not shown the instant before."""
    run = evidence.history.runs[3]
    evidence.history.jumps.append((run.start_s - 60, run.scheduled_us - 60_000_000))
    run.start_wall_us -= 120_000_000
    return evidence


def late(evidence: Evidence) -> Evidence:
    return _delay_last_run(evidence, "allow", 3)


def late_in_an_empty_queue(evidence: Evidence) -> Evidence:
    """The runs before it ended long ago."""
    return _delay_last_run(evidence, "queue", 3)


def late_with_faults(evidence: Evidence) -> Evidence:
    """The link is faulty, but not for seven hours."""
    return _delay_last_run(replace(evidence, healed_s=evidence.end_s), "alone", 7 * 3_600)


def _delay_last_run(evidence: Evidence, name: str, by_s: int) -> Evidence:
    run = [run for run in evidence.history.runs if run.name == name][-1]
    assert run.end_s is not None
    run.start_s += by_s
    run.end_s += by_s
    run.start_wall_us += by_s * 1_000_000
    return evidence


def lost_ack(evidence: Evidence) -> Evidence:
    evidence.history.acked[evidence.records[0].id] = Status.FAILED
    return evidence


def lost_trigger(evidence: Evidence) -> Evidence:
    evidence.history.triggered[b"unknown execution"] = 1.0
    return evidence


def resurrected(evidence: Evidence) -> Evidence:
    run = evidence.history.runs[0]
    again = replace(run, token=run.token + 1, number=2, outcome=RunOutcome.FAILED, start_s=run.start_s + 7_000)
    evidence.history.runs.append(replace(again, end_s=run.start_s + 7_001))
    return evidence


def unfenced(evidence: Evidence) -> Evidence:
    id_, note = next(iter(evidence.history.settled.items()))
    evidence.history.settled[id_] = replace(note, newest=note.token + 1)
    return evidence


def phantom(evidence: Evidence) -> Evidence:
    for run in evidence.history.runs[:1]:
        run.outcome = RunOutcome.FAILED
    return evidence


def phantom_instant(evidence: Evidence) -> Evidence:
    evidence.history.runs[0].scheduled_us += 1
    return evidence


def stuck(evidence: Evidence) -> Evidence:
    oldest = min(evidence.records, key=lambda record: record.admitted_us)
    evidence.history.acked.pop(oldest.id)
    rest = [record for record in evidence.records if record is not oldest]
    return replace(
        evidence, records=[*rest, replace_struct(oldest, status=Status.RUNNING, attempt_us=oldest.admitted_us)]
    )


def stuck_cursor(evidence: Evidence) -> Evidence:
    return replace(evidence, next_due_us=evidence.begin_us)


def stuck_queue(evidence: Evidence) -> Evidence:
    """No run of the job has started since."""
    job = next(run.job for run in evidence.history.runs if run.name == "queue")
    evidence.history.runs = [run for run in evidence.history.runs if run.job != job or run.start_s < 20_000]
    last = max((record for record in evidence.records if record.job == job), key=lambda record: record.admitted_us)
    rest = [record for record in evidence.records if record is not last]
    waits = replace_struct(last, status=Status.QUEUED, attempt_us=None, admitted_us=evidence.begin_us + 20_000_000_000)
    return replace(evidence, records=[*rest, waits])


def paused(evidence: Evidence) -> Evidence:
    run = evidence.history.runs[2]
    return _add_change(evidence, Action.PAUSE, run.job, run.start_s - 1)


def deleted(evidence: Evidence) -> Evidence:
    run = evidence.history.runs[2]
    return _add_change(evidence, Action.DELETE, run.job, run.start_s - 1)


def canceled(evidence: Evidence) -> Evidence:
    run = evidence.history.runs[2]
    return _add_change(evidence, Action.CANCEL, run.execution, run.start_s - 1)


def not_stopped(evidence: Evidence) -> Evidence:
    run = evidence.history.runs[2]
    run.end_s = run.start_s + 12 * 3_600
    return _add_change(evidence, Action.CANCEL, run.execution, run.start_s + 1)


def _add_change(evidence: Evidence, action: Action, job: bytes, at_s: float) -> Evidence:
    now_us = evidence.begin_us + round(at_s * 1e6)
    evidence.history.changes.append(Change(action=action, at_s=at_s, now_us=now_us, latest_shown_us=now_us, job=job))
    return evidence


def outdated(evidence: Evidence) -> Evidence:
    key, note = next(iter(evidence.history.claims.items()))
    evidence.history.claims[key] = replace(note, behind=1)
    return evidence


def twice_for_one_key(evidence: Evidence) -> Evidence:
    evidence.history.keys["asked-1"] = {b"one", b"another"}
    return evidence


def skipped_though_requested(evidence: Evidence) -> Evidence:
    return _change_record(evidence, 0, cause=Cause.REPLAY, status=Status.SKIPPED)


def backfilled_in_part(evidence: Evidence) -> Evidence:
    return _add_backfill(evidence, 1, None)


def backfilled_too_much(evidence: Evidence) -> Evidence:
    return _add_backfill(evidence, 0, -1)


def _add_backfill(evidence: Evidence, begin: int, end: int | None) -> Evidence:
    """A backfill of the whole job, with part of its range or of its records cut off."""
    job = next(run.job for run in evidence.history.runs if run.name == "allow")
    records = sorted((r for r in evidence.records if r.job == job), key=lambda record: record.scheduled_us)
    again = [replace_struct(r, id=r.id[::-1], cause=Cause.BACKFILL) for r in records]
    recorded = [*again[begin:]]
    range_us = [record.scheduled_us for record in again][:end]
    ids = tuple(record.id for record in recorded)
    for id_ in ids:
        evidence.history.created[id_] = 0.0
    evidence.history.backfills.append(
        Backfill(name="allow", job=job, from_us=range_us[0], to_us=range_us[-1], at_s=evidence.end_s, ids=ids)
    )
    ran = [replace(r, execution=r.execution[::-1]) for r in evidence.history.runs if r.job == job]
    evidence.history.runs += [run for run in ran if run.execution in ids]
    return replace(evidence, records=[*evidence.records, *recorded])


def replayed_for_another_instant(evidence: Evidence) -> Evidence:
    first, other = evidence.records[:2]
    evidence.history.replays[other.id] = Replay(first=first.id, from_failed=False)
    return evidence


def failed_without_dead_letter(evidence: Evidence) -> Evidence:
    return replace(evidence, dead_letters=evidence.dead_letters[1:])


def dead_letter_without_failure(evidence: Evidence) -> Evidence:
    done = next(record for record in evidence.records if record.status is Status.SUCCEEDED)
    return replace(evidence, dead_letters=[*evidence.dead_letters, done.id])


def dead_letter_after_drop(evidence: Evidence) -> Evidence:
    evidence.history.dropped.add(evidence.dead_letters[0])
    return evidence


def dependent_missing(evidence: Evidence) -> Evidence:
    oldest = min((r for r in evidence.records if r.cause is DEPENDENT), key=lambda record: record.scheduled_us)
    evidence.history.runs = [run for run in evidence.history.runs if run.execution != oldest.id]
    evidence.history.acked.pop(oldest.id, None)
    return replace(evidence, records=[record for record in evidence.records if record is not oldest])


def dependent_twice(evidence: Evidence) -> Evidence:
    one = next(record for record in evidence.records if record.cause is DEPENDENT)
    return replace(evidence, records=[*evidence.records, replace_struct(one, id=one.id[::-1])])


def dependent_without_upstream(evidence: Evidence) -> Evidence:
    place = next(n for n, record in enumerate(evidence.records) if record.cause is DEPENDENT)
    return _change_record(evidence, place, scheduled_us=evidence.begin_us)


def dependent_too_early(evidence: Evidence) -> Evidence:
    ids = {record.id for record in evidence.records if record.cause is DEPENDENT}
    next(run for run in evidence.history.runs if run.execution in ids).start_s -= 1
    return evidence


def dependent_skipped_though_upstream_succeeded(evidence: Evidence) -> Evidence:
    """The upstream job succeeded, and the dependent one was skipped."""
    done = {run.execution for run in evidence.history.runs}
    place = next(n for n, r in enumerate(evidence.records) if r.cause is DEPENDENT and r.id in done)
    return _change_record(evidence, place, status=Status.SKIPPED)


def _change_record(evidence: Evidence, place: int, **changes: Any) -> Evidence:
    records = [replace_struct(r, **changes) if n == place else r for n, r in enumerate(evidence.records)]
    return replace(evidence, records=records)


def too_few_faults(evidence: Evidence) -> Evidence:
    return replace(evidence, scenario=replace(evidence.scenario, faults={Fault.CRASH: 1.0}))


def test_a_calm_world_has_no_findings() -> None:
    assert check_evidence(_simulate_calm_world()) == []


@pytest.mark.parametrize(
    ("corrupt", "verdict"),
    [
        (missed, Verdict.MISSED),
        (duplicate, Verdict.DUPLICATE),
        (overlap, Verdict.OVERLAP),
        (killed, Verdict.KILLED),
        (disorder, Verdict.DISORDER),
        (early, Verdict.EARLY),
        (early_though_a_clock_was_set, Verdict.EARLY),
        (late, Verdict.LATE),
        (late_in_an_empty_queue, Verdict.LATE),
        (late_with_faults, Verdict.LATE),
        (lost_ack, Verdict.LOST_ACK),
        (lost_trigger, Verdict.LOST_ACK),
        (resurrected, Verdict.RESURRECTED),
        (unfenced, Verdict.UNFENCED),
        (phantom, Verdict.PHANTOM),
        (phantom_instant, Verdict.PHANTOM),
        (stuck, Verdict.STUCK),
        (stuck_cursor, Verdict.STUCK),
        (stuck_queue, Verdict.STUCK),
        (paused, Verdict.IGNORED),
        (deleted, Verdict.IGNORED),
        (canceled, Verdict.IGNORED),
        (not_stopped, Verdict.IGNORED),
        (outdated, Verdict.OUTDATED),
        (twice_for_one_key, Verdict.DUPLICATE),
        (skipped_though_requested, Verdict.DROPPED),
        (backfilled_in_part, Verdict.MISSED),
        (backfilled_too_much, Verdict.PHANTOM),
        (replayed_for_another_instant, Verdict.PHANTOM),
        (failed_without_dead_letter, Verdict.WRONG_DEAD_LETTER),
        (dead_letter_without_failure, Verdict.WRONG_DEAD_LETTER),
        (dead_letter_after_drop, Verdict.WRONG_DEAD_LETTER),
        (dependent_missing, Verdict.MISSED),
        (dependent_twice, Verdict.DUPLICATE),
        (dependent_without_upstream, Verdict.PHANTOM),
        (dependent_too_early, Verdict.EARLY),
        (dependent_skipped_though_upstream_succeeded, Verdict.DROPPED),
        (too_few_faults, Verdict.TOO_FEW_FAULTS),
    ],
)
def test_each_fault_is_found(corrupt: Callable[[Evidence], Evidence], verdict: Verdict) -> None:
    assert verdict in {finding.verdict for finding in check_evidence(corrupt(deepcopy(_simulate_calm_world())))}
