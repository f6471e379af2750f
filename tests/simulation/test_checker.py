"""The judge itself: a calm world is found innocent, and the same world with one thing changed is not."""

from collections.abc import Callable
from copy import deepcopy
from dataclasses import replace
from functools import cache
from typing import Any

import pytest
from msgspec.structs import replace as changed

from chronos.core.config import Overlap
from chronos.core.execution import Cause, Status
from chronos.core.job import UpstreamJob
from tests.simulation.checker import Verdict, judge
from tests.simulation.history import Backfill, Change, Deed, Fate, Fault, Replay
from tests.simulation.jobs import SimJob
from tests.simulation.scenario import Evidence, Scenario
from tests.simulation.store_link import CALM
from tests.simulation.world import simulate

JOBS = (
    SimJob(name="before", cron="40 */6 * * *", failing=0.4, attempts=1),
    SimJob(name="after", after=(UpstreamJob(job="before"),)),
    SimJob(name="alone", cron="0 */4 * * *"),
    SimJob(name="allow", cron="30 */4 * * *", overlap=Overlap.ALLOW),
    SimJob(name="queue", cron="10 */4 * * *", overlap=Overlap.QUEUE),
)


DEPENDENT = Cause.DEPENDENCY


@cache
def _calm() -> Evidence:
    return simulate(Scenario(seed=1, days=1, jobs=JOBS, faults={}, odds=CALM, deeds=0))


def missed(evidence: Evidence) -> Evidence:
    gone = evidence.history.runs.pop(4).execution
    evidence.history.acked.pop(gone)
    return replace(evidence, records=[record for record in evidence.records if record.id != gone])


def duplicate(evidence: Evidence) -> Evidence:
    run = evidence.history.runs[0]
    evidence.history.runs.append(replace(run, token=run.token + 1, start_s=run.start_s - 1, end_s=run.start_s))
    return evidence


def overlap(evidence: Evidence) -> Evidence:
    first, second = [run for run in evidence.history.runs if run.name == "alone"][:2]
    first.end_s = second.start_s + 1
    return evidence


def killed(evidence: Evidence) -> Evidence:
    """A try before the one that was done, ended by force."""
    run = evidence.history.runs[0]
    first = replace(run, token=run.token - 1, start_s=run.start_s - 1, end_s=run.start_s, fate=Fate.KILLED)
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
    """It was set back, and had not shown the instant before."""
    run = evidence.history.runs[3]
    evidence.history.jumps.append((run.start_s - 60, run.scheduled_us - 60_000_000))
    run.start_wall_us -= 120_000_000
    return evidence


def late(evidence: Evidence) -> Evidence:
    return _later(evidence, "allow", 3)


def late_behind_nothing(evidence: Evidence) -> Evidence:
    """Those before it ended long ago."""
    return _later(evidence, "queue", 3)


def late_in_trouble(evidence: Evidence) -> Evidence:
    """Wires are faulty, and yet: seven hours."""
    return _later(replace(evidence, healed_s=evidence.end_s), "alone", 7 * 3_600)


def _later(evidence: Evidence, name: str, by_s: int) -> Evidence:
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
    return replace(evidence, records=[*rest, changed(oldest, status=Status.RUNNING, attempt_us=oldest.admitted_us)])


def stuck_cursor(evidence: Evidence) -> Evidence:
    return replace(evidence, next_due_us=evidence.begin_us)


def stuck_queue(evidence: Evidence) -> Evidence:
    """Nothing of its job has begun since."""
    job = next(run.job for run in evidence.history.runs if run.name == "queue")
    evidence.history.runs = [run for run in evidence.history.runs if run.job != job or run.start_s < 20_000]
    last = max((record for record in evidence.records if record.job == job), key=lambda record: record.admitted_us)
    rest = [record for record in evidence.records if record is not last]
    waits = changed(last, status=Status.QUEUED, attempt_us=None, admitted_us=evidence.begin_us + 20_000_000_000)
    return replace(evidence, records=[*rest, waits])


def paused(evidence: Evidence) -> Evidence:
    run = evidence.history.runs[2]
    return _told(evidence, Deed.PAUSE, run.job, run.start_s - 1)


def deleted(evidence: Evidence) -> Evidence:
    run = evidence.history.runs[2]
    return _told(evidence, Deed.DELETE, run.job, run.start_s - 1)


def canceled(evidence: Evidence) -> Evidence:
    run = evidence.history.runs[2]
    return _told(evidence, Deed.CANCEL, run.execution, run.start_s - 1)


def not_stopped(evidence: Evidence) -> Evidence:
    run = evidence.history.runs[2]
    run.end_s = run.start_s + 12 * 3_600
    return _told(evidence, Deed.CANCEL, run.execution, run.start_s + 1)


def _told(evidence: Evidence, deed: Deed, job: bytes, at_s: float) -> Evidence:
    now_us = evidence.begin_us + round(at_s * 1e6)
    evidence.history.changes.append(Change(deed=deed, at_s=at_s, now_us=now_us, highest_us=now_us, job=job))
    return evidence


def outdated(evidence: Evidence) -> Evidence:
    key, note = next(iter(evidence.history.claims.items()))
    evidence.history.claims[key] = replace(note, behind=1)
    return evidence


def twice_for_one_key(evidence: Evidence) -> Evidence:
    evidence.history.keys["asked-1"] = {b"one", b"another"}
    return evidence


def skipped_though_asked_for(evidence: Evidence) -> Evidence:
    return _changed(evidence, 0, cause=Cause.REPLAY, status=Status.SKIPPED)


def backfilled_in_part(evidence: Evidence) -> Evidence:
    return _backfilled(evidence, 1, None)


def backfilled_too_much(evidence: Evidence) -> Evidence:
    return _backfilled(evidence, 0, -1)


def _backfilled(evidence: Evidence, begin: int, end: int | None) -> Evidence:
    """A job is run once more as it ran: the range, or what is on record for it, is cut off."""
    job = next(run.job for run in evidence.history.runs if run.name == "allow")
    records = sorted((r for r in evidence.records if r.job == job), key=lambda record: record.scheduled_us)
    again = [changed(r, id=r.id[::-1], cause=Cause.BACKFILL) for r in records]
    whole = [*again[begin:]]
    range_us = [record.scheduled_us for record in again][:end]
    ids = tuple(record.id for record in whole)
    for id_ in ids:
        evidence.history.created[id_] = 0.0
    evidence.history.backfills.append(
        Backfill(name="allow", job=job, from_us=range_us[0], to_us=range_us[-1], at_s=evidence.end_s, ids=ids)
    )
    ran = [replace(r, execution=r.execution[::-1]) for r in evidence.history.runs if r.job == job]
    evidence.history.runs += [run for run in ran if run.execution in ids]
    return replace(evidence, records=[*evidence.records, *whole])


def replayed_for_another_instant(evidence: Evidence) -> Evidence:
    first, other = evidence.records[:2]
    evidence.history.replays[other.id] = Replay(first=first.id, from_failed=False)
    return evidence


def failed_and_untold(evidence: Evidence) -> Evidence:
    return replace(evidence, letters=evidence.letters[1:])


def told_and_not_failed(evidence: Evidence) -> Evidence:
    done = next(record for record in evidence.records if record.status is Status.SUCCEEDED)
    return replace(evidence, letters=[*evidence.letters, done.id])


def told_after_it_was_dropped(evidence: Evidence) -> Evidence:
    evidence.history.dropped.add(evidence.letters[0])
    return evidence


def not_followed(evidence: Evidence) -> Evidence:
    oldest = min((r for r in evidence.records if r.cause is DEPENDENT), key=lambda record: record.scheduled_us)
    evidence.history.runs = [run for run in evidence.history.runs if run.execution != oldest.id]
    evidence.history.acked.pop(oldest.id, None)
    return replace(evidence, records=[record for record in evidence.records if record is not oldest])


def followed_twice(evidence: Evidence) -> Evidence:
    one = next(record for record in evidence.records if record.cause is DEPENDENT)
    return replace(evidence, records=[*evidence.records, changed(one, id=one.id[::-1])])


def followed_nothing(evidence: Evidence) -> Evidence:
    place = next(n for n, record in enumerate(evidence.records) if record.cause is DEPENDENT)
    return _changed(evidence, place, scheduled_us=evidence.begin_us)


def followed_too_soon(evidence: Evidence) -> Evidence:
    ids = {record.id for record in evidence.records if record.cause is DEPENDENT}
    next(run for run in evidence.history.runs if run.execution in ids).start_s -= 1
    return evidence


def followed_by_nobody_though_done(evidence: Evidence) -> Evidence:
    """It ended well, and who follows it was skipped as if it had not."""
    done = {run.execution for run in evidence.history.runs}
    place = next(n for n, r in enumerate(evidence.records) if r.cause is DEPENDENT and r.id in done)
    return _changed(evidence, place, status=Status.SKIPPED)


def _changed(evidence: Evidence, place: int, **changes: Any) -> Evidence:
    records = [changed(r, **changes) if n == place else r for n, r in enumerate(evidence.records)]
    return replace(evidence, records=records)


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
        (killed, Verdict.KILLED),
        (disorder, Verdict.DISORDER),
        (early, Verdict.EARLY),
        (early_though_a_clock_was_set, Verdict.EARLY),
        (late, Verdict.LATE),
        (late_behind_nothing, Verdict.LATE),
        (late_in_trouble, Verdict.LATE),
        (lost_ack, Verdict.LOST_ACK),
        (lost_trigger, Verdict.LOST_ACK),
        (resurrected, Verdict.RESURRECTED),
        (zombie, Verdict.ZOMBIE),
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
        (skipped_though_asked_for, Verdict.DROPPED),
        (backfilled_in_part, Verdict.MISSED),
        (backfilled_too_much, Verdict.PHANTOM),
        (replayed_for_another_instant, Verdict.PHANTOM),
        (failed_and_untold, Verdict.UNTOLD),
        (told_and_not_failed, Verdict.UNTOLD),
        (told_after_it_was_dropped, Verdict.UNTOLD),
        (not_followed, Verdict.MISSED),
        (followed_twice, Verdict.DUPLICATE),
        (followed_nothing, Verdict.PHANTOM),
        (followed_too_soon, Verdict.EARLY),
        (followed_by_nobody_though_done, Verdict.DROPPED),
        (quiet, Verdict.QUIET),
    ],
)
def test_each_crime_has_its_name(spoil: Callable[[Evidence], Evidence], verdict: Verdict) -> None:
    assert verdict in {finding.verdict for finding in judge(spoil(deepcopy(_calm())))}
