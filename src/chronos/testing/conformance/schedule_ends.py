"""The end of a schedule: due instants that were not admitted are recorded as one span with a reason."""

from collections.abc import Sequence

from chronos.core.execution import Span, Status
from chronos.core.job import JobState, ScheduleSpec
from chronos.core.reasons import ReasonCode
from chronos.store.commands import DeleteJob, DeleteRow, SaveJobs, SetJobState
from chronos.store.contract import ExecutionFilter
from chronos.testing.conformance.fixture import SECOND, T0, StoreFixture

_DUE = (T0 + SECOND, T0 + 3 * SECOND, 3)
_ELAPSED_US = 3 * SECOND + SECOND // 2  # three instants are due in this time


async def _spans(w: StoreFixture, job: bytes) -> Sequence[Span]:
    page = await w.store.list_executions(ExecutionFilter(job=job), limit=9)
    return [item for item in page.items if isinstance(item, Span)]


async def _assert_skipped_span(w: StoreFixture, job: bytes, code: ReasonCode, due: tuple[int, int, int] = _DUE) -> None:
    [span] = await _spans(w, job)
    assert (span.from_us, span.to_us, span.count) == due
    assert (span.status, span.reason.code, span.recorded_us) == (Status.SKIPPED, code, w.now)


async def case_disabling_records_due_instants(w: StoreFixture) -> None:
    job = (await w.save()).id
    w.tick(_ELAPSED_US)
    await w.store.apply(SetJobState(job=job, state=JobState.DISABLED, now_us=w.now, expect_state=JobState.ACTIVE))
    await _assert_skipped_span(w, job, ReasonCode.DISABLED)
    w.tick(_ELAPSED_US)
    await w.store.apply(SetJobState(job=job, state=JobState.DISABLED, now_us=w.now, note="still"))
    assert len(await _spans(w, job)) == 1, "a disabled job has no instants"
    await w.store.apply(SetJobState(job=job, state=JobState.ACTIVE, now_us=w.now, next_us=w.now + SECOND // 2))
    assert (await w.admit_one()).status is Status.RUNNING


async def case_deleting_records_due_instants(w: StoreFixture) -> None:
    one, other = [(await w.save(name)).id for name in ("one", "other")]
    w.tick(_ELAPSED_US)
    await w.store.apply(DeleteJob(job=one, now_us=w.now))
    await w.store.apply(SaveJobs(rows=(), now_us=w.now, delete=(DeleteRow(other),)))
    for job in (one, other):
        await _assert_skipped_span(w, job, ReasonCode.JOB_DELETED)


async def case_instants_of_a_pause_are_recorded_on_disable_and_delete(w: StoreFixture) -> None:
    off, gone = [(await w.save(name)).id for name in ("off", "gone")]
    for job in (off, gone):
        await w.store.apply(SetJobState(job=job, state=JobState.PAUSED, now_us=w.now, keep_cursor=True))
    w.tick(_ELAPSED_US)
    await w.store.apply(SetJobState(job=off, state=JobState.DISABLED, now_us=w.now))
    await w.store.apply(DeleteJob(job=gone, now_us=w.now))
    for job in (off, gone):
        await _assert_skipped_span(w, job, ReasonCode.PAUSED)


async def case_saving_a_job_disabled_records_due_instants(w: StoreFixture) -> None:
    """The old schedule counts, with a new version and with an unchanged one."""
    changed, same = [(await w.save(name)).id for name in ("changed", "same")]
    w.tick(_ELAPSED_US)
    off = {"state": JobState.DISABLED, "next_us": None, "expect_state": JobState.ACTIVE}
    rows = (w.row("changed", description="another", **off), w.row("same", **off))
    await w.store.apply(SaveJobs(rows=rows, now_us=w.now))
    for job in (changed, same):
        await _assert_skipped_span(w, job, ReasonCode.DISABLED)


async def case_nothing_is_recorded_if_nothing_was_due(w: StoreFixture) -> None:
    jobs = [(await w.save(name)).id for name in ("before", "never", "done")]
    await w.admit_next("done", last=True)
    w.now = T0 + SECOND - 1
    await w.save("never", next_us=None, description="manual")
    for job in jobs:
        await w.store.apply(SetJobState(job=job, state=JobState.DISABLED, now_us=w.now))
        await w.store.apply(DeleteJob(job=job, now_us=w.tick(SECOND)))
        assert await _spans(w, job) == []


async def case_an_unreadable_schedule_records_its_first_instant(w: StoreFixture) -> None:
    row = w.row()
    broken = type(row.spec)(schedule=ScheduleSpec(text="a schedule of a package that is missing"))
    await w.start_node()
    fields = {name: getattr(row, name) for name in row.__struct_fields__} | {"spec": broken}
    [saved] = await w.store.apply(SaveJobs(rows=(type(row)(**fields),), now_us=w.now))
    w.tick(_ELAPSED_US)
    await w.store.apply(DeleteJob(job=saved.id, now_us=w.now))
    await _assert_skipped_span(w, saved.id, ReasonCode.JOB_DELETED, (T0 + SECOND, T0 + SECOND, 1))
    [span] = await _spans(w, saved.id)
    assert "at least 1" in span.reason.message
