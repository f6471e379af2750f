"""Paused jobs: which executions are held and which still run. Held executions do not block others."""

from chronos.core.admission_policy import is_held
from chronos.core.config import Overlap
from chronos.core.execution import Cause, Status
from chronos.core.job import JobState
from chronos.errors import QueueFull
from chronos.store.commands import CancelExecution, DeleteJob, Release, ReleaseRow
from chronos.store.contract import Hint
from chronos.testing.conformance.fixture import SECOND, StoreFixture, raises

REQUESTED_CAUSES = (Cause.MANUAL, Cause.REPLAY, Cause.BACKFILL, Cause.DEPENDENCY)


async def _claim_ids(w: StoreFixture) -> list[bytes]:
    return [run.id for run in await w.claim()]


async def case_held_executions_do_not_block_triggers(w: StoreFixture) -> None:
    for name, overlap in (("skips", Overlap.SKIP), ("queues", Overlap.QUEUE), ("limited", Overlap.ALLOW)):
        saved = await w.save(name, overlap=overlap, limit=1, next_us=w.now + SECOND)
        first = await w.admit_one(name, claim=False)
        await w.set_state(saved.id, JobState.PAUSED)
        held = await w.execution(first.id)
        assert (held.status, held.held) == (Status.QUEUED, True)
        triggered = await w.trigger(saved.id)
        assert triggered.status is Status.READY, name
        [claimed] = await w.claim()
        assert claimed.id == triggered.id
        await w.settle(claimed)
        assert await _claim_ids(w) == []
        await w.set_state(saved.id, JobState.ACTIVE)
        assert await _claim_ids(w) == [first.id]
        await w.store.apply(DeleteJob(job=saved.id, now_us=w.now))


async def case_a_trigger_overtakes_held_executions(w: StoreFixture) -> None:
    saved = await w.save(overlap=Overlap.QUEUE)
    ready, queued = [await w.admit_one(claim=False) for _ in range(2)]
    triggered = await w.trigger(saved.id)
    assert triggered.status is Status.QUEUED
    hints: list[Hint] = []
    w.store.on_hint(hints.append)
    await w.set_state(saved.id, JobState.PAUSED)
    assert any(Hint.READY in hint for hint in hints)
    [claimed] = await w.claim()
    assert claimed.id == triggered.id
    await w.set_state(saved.id, JobState.ACTIVE)
    assert await _claim_ids(w) == [], "one at a time"
    for run in (ready, queued):
        await w.settle(claimed)
        [claimed] = await w.claim()
        assert claimed.id == run.id, "held executions run in their order"


async def case_only_earlier_and_automatic_executions_are_held(w: StoreFixture) -> None:
    saved = await w.save(overlap=Overlap.ALLOW)
    before, during = [], []
    for cause in REQUESTED_CAUSES:
        w.tick()
        before.append((await w.trigger(saved.id, cause=cause)).id)
    await w.set_state(saved.id, JobState.PAUSED)
    for cause in REQUESTED_CAUSES:
        w.tick()
        during.append((await w.trigger(saved.id, cause=cause)).id)
    started = set(await _claim_ids(w))
    for ids, is_before in ((before, True), (during, False)):
        assert [id_ in started for id_ in ids] == [
            not is_held(cause, admitted_before_pause=is_before) for cause in REQUESTED_CAUSES
        ]
    await w.set_state(saved.id, JobState.ACTIVE)
    assert started | set(await _claim_ids(w)) == {*before, *during}


async def case_a_started_execution_is_not_held(w: StoreFixture) -> None:
    saved = await w.save(overlap=Overlap.QUEUE)
    run = await w.admit_one()
    queued = await w.admit_one()
    await w.store.apply(Release(rows=(ReleaseRow(run.id, run.token),), now_us=w.now))
    await w.set_state(saved.id, JobState.PAUSED)
    triggered = await w.trigger(saved.id)
    assert triggered.status is Status.QUEUED, "one at a time, and one has started"
    [again] = await w.claim()
    assert again.id == run.id
    await w.settle(again)
    assert await _claim_ids(w) == [triggered.id]
    assert await w.status(queued.id) is Status.QUEUED


async def case_dependency_runs_of_a_paused_job_are_queued(w: StoreFixture) -> None:
    saved = await w.save(overlap=Overlap.SKIP, queue_max=1)
    await w.set_state(saved.id, JobState.PAUSED)
    held = [await w.trigger(saved.id, cause=Cause.DEPENDENCY) for _ in range(2)]
    assert [run.status for run in held] == [Status.QUEUED, Status.QUEUED], "as many as could be open without the pause"
    with raises(QueueFull, '"job"'):
        await w.trigger(saved.id, cause=Cause.DEPENDENCY)
    assert (await w.trigger(saved.id)).status is Status.READY
    free = await w.save("free", overlap=Overlap.ALLOW, queue_max=0)
    await w.set_state(free.id, JobState.PAUSED)
    assert (await w.trigger(free.id, cause=Cause.DEPENDENCY)).status is Status.QUEUED
    assert (await w.trigger(free.id, cause=Cause.DEPENDENCY)).status is Status.QUEUED


async def case_a_held_execution_replaces_only_held_ones(w: StoreFixture) -> None:
    saved = await w.save(overlap=Overlap.REPLACE)
    [run] = await w.admit_next("job", needs_gate_lock=True)
    await w.set_state(saved.id, JobState.PAUSED)
    w.tick()
    first = await w.trigger(saved.id, cause=Cause.DEPENDENCY)
    w.tick()
    second = await w.trigger(saved.id, cause=Cause.DEPENDENCY)
    assert [await w.status(one.id) for one in (run, first, second)] == [Status.RUNNING, Status.CANCELED, Status.QUEUED]
    assert not (await w.execution(run.id)).cancel, "a running execution may finish"
    await w.settle(run)
    w.tick()
    triggered = await w.trigger(saved.id)
    assert [await w.status(one.id) for one in (second, triggered)] == [Status.CANCELED, Status.READY]
    w.tick()
    third = await w.trigger(saved.id, cause=Cause.DEPENDENCY)
    assert [await w.status(one.id) for one in (triggered, third)] == [Status.READY, Status.QUEUED]


async def case_a_paused_job_may_be_changed_canceled_and_deleted(w: StoreFixture) -> None:
    saved = await w.save(overlap=Overlap.QUEUE)
    runs = [await w.admit_one(claim=False) for _ in range(3)]
    await w.set_state(saved.id, JobState.PAUSED)
    await w.save(overlap=Overlap.ALLOW, limit=0, state=JobState.PAUSED, description="many at once", priority=9)
    assert await _claim_ids(w) == []
    assert {(await w.execution(run.id)).status for run in runs} == {Status.QUEUED}
    assert await w.store.apply(CancelExecution(execution=runs[1].id, now_us=w.now)) is Status.CANCELED
    await w.save(overlap=Overlap.ALLOW, limit=0, description="on again")
    assert await _claim_ids(w) == [runs[0].id, runs[2].id]
    await w.save("other", overlap=Overlap.QUEUE, next_us=w.now + SECOND)
    last = await w.admit_one("other", claim=False)
    other = (await w.job("other")).id
    await w.set_state(other, JobState.PAUSED)
    await w.store.apply(DeleteJob(job=other, now_us=w.now))
    assert await w.status(last.id) is Status.CANCELED


async def case_a_held_execution_frees_its_key(w: StoreFixture) -> None:
    mine, other = [await w.save(name, overlap=Overlap.ALLOW, keyed=True) for name in ("mine", "other")]
    ready = await w.trigger(mine.id, key="k", cause=Cause.REPLAY)
    w.tick()
    waits = await w.trigger(other.id, key="k")
    assert [run.status for run in (ready, waits)] == [Status.READY, Status.QUEUED]
    await w.set_state(mine.id, JobState.PAUSED)
    [claimed] = await w.claim()
    assert claimed.id == waits.id
    await w.settle(claimed)
    assert await w.wake() == 0, "a held execution is not woken"
    assert (await w.trigger(other.id, key="k")).status is Status.READY
    await w.set_state(mine.id, JobState.ACTIVE)
    [claimed] = await w.claim()
    assert claimed.job == other.id
    await w.settle(claimed)
    assert await _claim_ids(w) == [ready.id]
