"""The end of a schedule: due instants that were not admitted are recorded as one span with a reason."""

from collections.abc import Sequence

from chronos.core.execution import Span, Status
from chronos.core.job import JobState, ScheduleSpec
from chronos.core.reasons import ReasonCode
from chronos.store.commands import DeleteJob, DeleteRow, SaveJobs, SetJobState
from chronos.store.contract import ExecutionFilter
from chronos.testing.conformance.fixture import SECOND_US, T0_US, StoreFixture

_DUE = (T0_US + SECOND_US, T0_US + 3 * SECOND_US, 3)
_ELAPSED_US = 3 * SECOND_US + SECOND_US // 2  # three instants are due in this time


async def _spans(fixture: StoreFixture, job: bytes) -> Sequence[Span]:
    page = await fixture.store.list_executions(ExecutionFilter(job=job), limit=9)
    return [item for item in page.items if isinstance(item, Span)]


async def _assert_skipped_span(
    fixture: StoreFixture, job: bytes, code: ReasonCode, due: tuple[int, int, int] = _DUE
) -> None:
    [span] = await _spans(fixture, job)
    assert (span.from_us, span.to_us, span.count) == due
    assert (span.status, span.reason.code, span.recorded_us) == (Status.SKIPPED, code, fixture.now_us)


async def case_disabling_records_due_instants(fixture: StoreFixture) -> None:
    job = (await fixture.save()).id
    fixture.tick(_ELAPSED_US)
    await fixture.store.apply(
        SetJobState(job=job, state=JobState.DISABLED, now_us=fixture.now_us, expect_state=JobState.ACTIVE)
    )
    await _assert_skipped_span(fixture, job, ReasonCode.DISABLED)
    fixture.tick(_ELAPSED_US)
    await fixture.store.apply(SetJobState(job=job, state=JobState.DISABLED, now_us=fixture.now_us, note="still"))
    assert len(await _spans(fixture, job)) == 1, "a disabled job has no instants"
    await fixture.store.apply(
        SetJobState(job=job, state=JobState.ACTIVE, now_us=fixture.now_us, next_us=fixture.now_us + SECOND_US // 2)
    )
    assert (await fixture.admit_one()).status is Status.RUNNING


async def case_deleting_records_due_instants(fixture: StoreFixture) -> None:
    one, other = [(await fixture.save(name)).id for name in ("one", "other")]
    fixture.tick(_ELAPSED_US)
    await fixture.store.apply(DeleteJob(job=one, now_us=fixture.now_us))
    await fixture.store.apply(SaveJobs(rows=(), now_us=fixture.now_us, delete=(DeleteRow(other),)))
    for job in (one, other):
        await _assert_skipped_span(fixture, job, ReasonCode.JOB_DELETED)


async def case_instants_of_a_pause_are_recorded_on_disable_and_delete(fixture: StoreFixture) -> None:
    off, gone = [(await fixture.save(name)).id for name in ("off", "gone")]
    for job in (off, gone):
        await fixture.store.apply(SetJobState(job=job, state=JobState.PAUSED, now_us=fixture.now_us, keep_cursor=True))
    fixture.tick(_ELAPSED_US)
    await fixture.store.apply(SetJobState(job=off, state=JobState.DISABLED, now_us=fixture.now_us))
    await fixture.store.apply(DeleteJob(job=gone, now_us=fixture.now_us))
    for job in (off, gone):
        await _assert_skipped_span(fixture, job, ReasonCode.PAUSED)


async def case_saving_a_job_disabled_records_due_instants(fixture: StoreFixture) -> None:
    """The old schedule counts, with a new version and with an unchanged one."""
    changed, same = [(await fixture.save(name)).id for name in ("changed", "same")]
    fixture.tick(_ELAPSED_US)
    off = {"state": JobState.DISABLED, "next_us": None, "expect_state": JobState.ACTIVE}
    rows = (fixture.build_job_row("changed", description="another", **off), fixture.build_job_row("same", **off))
    await fixture.store.apply(SaveJobs(rows=rows, now_us=fixture.now_us))
    for job in (changed, same):
        await _assert_skipped_span(fixture, job, ReasonCode.DISABLED)


async def case_nothing_is_recorded_if_nothing_was_due(fixture: StoreFixture) -> None:
    jobs = [(await fixture.save(name)).id for name in ("before", "never", "done")]
    await fixture.admit_next("done", last=True)
    fixture.now_us = T0_US + SECOND_US - 1
    await fixture.save("never", next_us=None, description="manual")
    for job in jobs:
        await fixture.store.apply(SetJobState(job=job, state=JobState.DISABLED, now_us=fixture.now_us))
        await fixture.store.apply(DeleteJob(job=job, now_us=fixture.tick(SECOND_US)))
        assert await _spans(fixture, job) == []


async def case_an_unreadable_schedule_records_its_first_instant(fixture: StoreFixture) -> None:
    row = fixture.build_job_row()
    broken = type(row.spec)(schedule=ScheduleSpec(text="a schedule of a package that is missing"))
    await fixture.start_node()
    fields = {name: getattr(row, name) for name in row.__struct_fields__} | {"spec": broken}
    [saved] = await fixture.store.apply(SaveJobs(rows=(type(row)(**fields),), now_us=fixture.now_us))
    fixture.tick(_ELAPSED_US)
    await fixture.store.apply(DeleteJob(job=saved.id, now_us=fixture.now_us))
    await _assert_skipped_span(fixture, saved.id, ReasonCode.JOB_DELETED, (T0_US + SECOND_US, T0_US + SECOND_US, 1))
    [span] = await _spans(fixture, saved.id)
    assert "at least 1" in span.reason.message
