"""Days of jobs: every run counts once, before and after its history is trimmed."""

from chronos.core.config import Overlap
from chronos.core.execution import Cause, Span, Status
from chronos.core.ids import span_id
from chronos.core.reasons import Reason, ReasonCode
from chronos.store.commands import DeleteJob, Recover, Trim
from chronos.store.day_counts import DayCount, add_days
from chronos.testing.conformance.fixture import SECOND_US, StoreFixture

DAY_US = 86_400 * SECOND_US


async def _days(fixture: StoreFixture, job: bytes) -> dict[int, DayCount]:
    found = await fixture.store.job_days(job, "UTC", fixture.now_us - 400 * DAY_US, fixture.now_us + DAY_US)
    assert found.complete
    return {day: count for day, count in found.days.items() if any(count)}


async def _trim(fixture: StoreFixture) -> int:
    total = 0
    while removed := await fixture.store.apply(Trim(now_us=fixture.now_us, limit=3)):
        total += removed
    return total


async def case_days_outlive_history(fixture: StoreFixture) -> None:
    job = (await fixture.save("job", overlap=Overlap.ALLOW, keep_count=2)).id
    outcomes = [Status.SUCCEEDED, Status.FAILED, Status.SUCCEEDED, Status.STALE, Status.CANCELED, Status.SUCCEEDED]
    for status in outcomes:
        await fixture.settle(await fixture.admit_one(), status=status)
    before = await _days(fixture, job)
    [count] = before.values()
    assert (count.succeeded, count.failed, count.stale, count.canceled, count.runs) == (3, 1, 1, 1, 6)
    assert await _trim(fixture) == 4
    assert await _days(fixture, job) == before, "trimmed runs count once"
    fixture.tick(40 * DAY_US)
    await fixture.trigger(job)
    await fixture.settle(*await fixture.claim())
    fixture.tick(100 * DAY_US)
    await _trim(fixture)
    later = await _days(fixture, job)
    assert add_days(later, {}) == later
    assert [count.runs for count in later.values()] == [6, 1]
    fixture.tick(460 * DAY_US)
    await _trim(fixture)
    fixture.now_us -= 460 * DAY_US
    assert await _days(fixture, job) == {}, "kept for 400 days"


async def case_spans_count_on_their_days(fixture: StoreFixture) -> None:
    start_us = fixture.now_us // DAY_US * DAY_US
    saved = await fixture.save("job", next_us=start_us, keep_age_us=30 * DAY_US)
    until_us = start_us + 3 * DAY_US - SECOND_US
    span = Span(
        id=span_id(saved.id, start_us, int(Status.MISSED)),
        job=saved.id,
        status=Status.MISSED,
        from_us=start_us,
        to_us=until_us,
        count=7,
        reason=Reason.of(ReasonCode.MISSED),
        recorded_us=until_us,
    )
    fixture.now_us = until_us
    await fixture.store.apply(
        Recover(
            job=saved.id,
            version=1,
            expect_us=start_us,
            next_us=until_us + 400 * DAY_US,
            runs=(),
            spans=(span,),
            now_us=fixture.now_us,
        )
    )
    days = await _days(fixture, saved.id)
    assert [count.missed for count in days.values()] == [2, 2, 3]
    fixture.tick(60 * DAY_US)
    assert await _trim(fixture) == 1
    assert await _days(fixture, saved.id) == days


async def case_days_of_deleted_jobs_are_removed(fixture: StoreFixture) -> None:
    job = (await fixture.save("job", overlap=Overlap.ALLOW, keep_count=0)).id
    await fixture.settle(await fixture.admit_one())
    assert await _trim(fixture) == 1
    assert len(await _days(fixture, job)) == 1
    asked = await fixture.trigger(job, cause=Cause.MANUAL)
    [run] = await fixture.claim()
    assert run.id == asked.id
    await fixture.store.apply(DeleteJob(job=job, now_us=fixture.tick()))
    await fixture.settle(run)
    for _ in range(3):
        fixture.tick(100 * DAY_US)
        await _trim(fixture)
    fixture.now_us -= 300 * DAY_US
    assert await _days(fixture, job) == {}
