"""Paused jobs: which executions are held and which still run. Held executions do not block others."""

from chronos.core.admission_policy import is_held
from chronos.core.config import Overlap
from chronos.core.execution import Cause, Status
from chronos.core.job import JobState
from chronos.errors import QueueFull
from chronos.store.commands import CancelExecution, DeleteJob, Release, ReleaseRow
from chronos.store.contract import Hint
from chronos.testing.conformance.fixture import SECOND_US, StoreFixture, raises

REQUESTED_CAUSES = (Cause.MANUAL, Cause.REPLAY, Cause.BACKFILL, Cause.DEPENDENCY)


async def _claim_ids(fixture: StoreFixture) -> list[bytes]:
    return [run.id for run in await fixture.claim()]


async def case_held_executions_do_not_block_triggers(fixture: StoreFixture) -> None:
    for name, overlap in (("skips", Overlap.SKIP), ("queues", Overlap.QUEUE), ("limited", Overlap.ALLOW)):
        saved = await fixture.save(name, overlap=overlap, limit=1, next_us=fixture.now_us + SECOND_US)
        first = await fixture.admit_one(name, claim=False)
        await fixture.set_state(saved.id, JobState.PAUSED)
        held = await fixture.execution(first.id)
        assert (held.status, held.held) == (Status.QUEUED, True)
        triggered = await fixture.trigger(saved.id)
        assert triggered.status is Status.READY, name
        [claimed] = await fixture.claim()
        assert claimed.id == triggered.id
        await fixture.settle(claimed)
        assert await _claim_ids(fixture) == []
        await fixture.set_state(saved.id, JobState.ACTIVE)
        assert await _claim_ids(fixture) == [first.id]
        await fixture.store.apply(DeleteJob(job=saved.id, now_us=fixture.now_us))


async def case_a_trigger_overtakes_held_executions(fixture: StoreFixture) -> None:
    saved = await fixture.save(overlap=Overlap.QUEUE)
    ready, queued = [await fixture.admit_one(claim=False) for _ in range(2)]
    triggered = await fixture.trigger(saved.id)
    assert triggered.status is Status.QUEUED
    hints: list[Hint] = []
    fixture.store.on_hint(hints.append)
    await fixture.set_state(saved.id, JobState.PAUSED)
    assert any(Hint.READY in hint for hint in hints)
    [claimed] = await fixture.claim()
    assert claimed.id == triggered.id
    await fixture.set_state(saved.id, JobState.ACTIVE)
    assert await _claim_ids(fixture) == [], "one at a time"
    for run in (ready, queued):
        await fixture.settle(claimed)
        [claimed] = await fixture.claim()
        assert claimed.id == run.id, "held executions run in their order"


async def case_only_earlier_and_automatic_executions_are_held(fixture: StoreFixture) -> None:
    saved = await fixture.save(overlap=Overlap.ALLOW)
    before, during = [], []
    for cause in REQUESTED_CAUSES:
        fixture.tick()
        before.append((await fixture.trigger(saved.id, cause=cause)).id)
    await fixture.set_state(saved.id, JobState.PAUSED)
    for cause in REQUESTED_CAUSES:
        fixture.tick()
        during.append((await fixture.trigger(saved.id, cause=cause)).id)
    started = set(await _claim_ids(fixture))
    for ids, is_before in ((before, True), (during, False)):
        assert [id_ in started for id_ in ids] == [
            not is_held(cause, admitted_before_pause=is_before) for cause in REQUESTED_CAUSES
        ]
    await fixture.set_state(saved.id, JobState.ACTIVE)
    assert started | set(await _claim_ids(fixture)) == {*before, *during}


async def case_a_started_execution_is_not_held(fixture: StoreFixture) -> None:
    saved = await fixture.save(overlap=Overlap.QUEUE)
    run = await fixture.admit_one()
    queued = await fixture.admit_one()
    await fixture.store.apply(Release(rows=(ReleaseRow(run.id, run.token),), now_us=fixture.now_us))
    await fixture.set_state(saved.id, JobState.PAUSED)
    triggered = await fixture.trigger(saved.id)
    assert triggered.status is Status.QUEUED, "one at a time, and one has started"
    [again] = await fixture.claim()
    assert again.id == run.id
    await fixture.settle(again)
    assert await _claim_ids(fixture) == [triggered.id]
    assert await fixture.status(queued.id) is Status.QUEUED


async def case_dependency_runs_of_a_paused_job_are_queued(fixture: StoreFixture) -> None:
    saved = await fixture.save(overlap=Overlap.SKIP, queue_max=1)
    await fixture.set_state(saved.id, JobState.PAUSED)
    held = [await fixture.trigger(saved.id, cause=Cause.DEPENDENCY) for _ in range(2)]
    assert [run.status for run in held] == [Status.QUEUED, Status.QUEUED], "as many as could be open without the pause"
    with raises(QueueFull, '"job"'):
        await fixture.trigger(saved.id, cause=Cause.DEPENDENCY)
    assert (await fixture.trigger(saved.id)).status is Status.READY
    free = await fixture.save("free", overlap=Overlap.ALLOW, queue_max=0)
    await fixture.set_state(free.id, JobState.PAUSED)
    assert (await fixture.trigger(free.id, cause=Cause.DEPENDENCY)).status is Status.QUEUED
    assert (await fixture.trigger(free.id, cause=Cause.DEPENDENCY)).status is Status.QUEUED


async def case_a_held_execution_replaces_only_held_ones(fixture: StoreFixture) -> None:
    saved = await fixture.save(overlap=Overlap.REPLACE)
    [run] = await fixture.admit_next("job", needs_gate_lock=True)
    await fixture.set_state(saved.id, JobState.PAUSED)
    fixture.tick()
    first = await fixture.trigger(saved.id, cause=Cause.DEPENDENCY)
    fixture.tick()
    second = await fixture.trigger(saved.id, cause=Cause.DEPENDENCY)
    assert [await fixture.status(one.id) for one in (run, first, second)] == [
        Status.RUNNING,
        Status.CANCELED,
        Status.QUEUED,
    ]
    assert not (await fixture.execution(run.id)).cancel, "a running execution may finish"
    await fixture.settle(run)
    fixture.tick()
    triggered = await fixture.trigger(saved.id)
    assert [await fixture.status(one.id) for one in (second, triggered)] == [Status.CANCELED, Status.READY]
    fixture.tick()
    third = await fixture.trigger(saved.id, cause=Cause.DEPENDENCY)
    assert [await fixture.status(one.id) for one in (triggered, third)] == [Status.READY, Status.QUEUED]


async def case_a_paused_job_may_be_changed_canceled_and_deleted(fixture: StoreFixture) -> None:
    saved = await fixture.save(overlap=Overlap.QUEUE)
    runs = [await fixture.admit_one(claim=False) for _ in range(3)]
    await fixture.set_state(saved.id, JobState.PAUSED)
    await fixture.save(overlap=Overlap.ALLOW, limit=0, state=JobState.PAUSED, description="many at once", priority=9)
    assert await _claim_ids(fixture) == []
    assert {(await fixture.execution(run.id)).status for run in runs} == {Status.QUEUED}
    assert await fixture.store.apply(CancelExecution(execution=runs[1].id, now_us=fixture.now_us)) is Status.CANCELED
    await fixture.save(overlap=Overlap.ALLOW, limit=0, description="on again")
    assert await _claim_ids(fixture) == [runs[0].id, runs[2].id]
    await fixture.save("other", overlap=Overlap.QUEUE, next_us=fixture.now_us + SECOND_US)
    last = await fixture.admit_one("other", claim=False)
    other = (await fixture.job("other")).id
    await fixture.set_state(other, JobState.PAUSED)
    await fixture.store.apply(DeleteJob(job=other, now_us=fixture.now_us))
    assert await fixture.status(last.id) is Status.CANCELED


async def case_a_held_execution_frees_its_key(fixture: StoreFixture) -> None:
    mine, other = [await fixture.save(name, overlap=Overlap.ALLOW, keyed=True) for name in ("mine", "other")]
    ready = await fixture.trigger(mine.id, key="k", cause=Cause.REPLAY)
    fixture.tick()
    waits = await fixture.trigger(other.id, key="k")
    assert [run.status for run in (ready, waits)] == [Status.READY, Status.QUEUED]
    await fixture.set_state(mine.id, JobState.PAUSED)
    [claimed] = await fixture.claim()
    assert claimed.id == waits.id
    await fixture.settle(claimed)
    assert await fixture.wake() == 0, "a held execution is not woken"
    assert (await fixture.trigger(other.id, key="k")).status is Status.READY
    await fixture.set_state(mine.id, JobState.ACTIVE)
    [claimed] = await fixture.claim()
    assert claimed.job == other.id
    await fixture.settle(claimed)
    assert await _claim_ids(fixture) == [ready.id]
