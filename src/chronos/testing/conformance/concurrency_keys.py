"""Concurrency keys: which execution gets a free key, and the effect of a new version on queued executions."""

import asyncio
from typing import Any

from chronos.core.config import Overlap
from chronos.core.execution import AttemptStatus, Cause, Status
from chronos.core.job import JobState
from chronos.core.reasons import ReasonCode
from chronos.store.commands import CancelExecution, Claimed, DeleteJob, EndedAttempt, Reap, ReapRow, Triggered
from chronos.testing.conformance.fixture import SECOND_US, StoreFixture


async def _save_keyed_jobs(fixture: StoreFixture, *names: str, **options: Any) -> list[bytes]:
    return [(await fixture.save(name, overlap=Overlap.ALLOW, keyed=True, **options)).id for name in names]


async def _trigger_with_key(fixture: StoreFixture, job: bytes, *, key: str = "k", **options: Any) -> Triggered:
    fixture.tick()
    return await fixture.trigger(job, key=key, **options)


async def _statuses(fixture: StoreFixture, *runs: Triggered) -> list[Status]:
    return [await fixture.status(run.id) for run in runs]


async def _claim_one(fixture: StoreFixture) -> Claimed:
    """Claim the only ready execution."""
    [claimed] = await fixture.claim()
    return claimed


# --- which execution gets a free key


async def case_a_free_key_goes_to_the_best_ranked_execution(fixture: StoreFixture) -> None:
    [low] = await _save_keyed_jobs(fixture, "low", priority=1)
    [high] = await _save_keyed_jobs(fixture, "high", priority=10)
    await _trigger_with_key(fixture, low)
    running = await _claim_one(fixture)
    urgent = await _trigger_with_key(fixture, high)
    for _ in range(3):
        await _trigger_with_key(fixture, low)
    assert (
        await fixture.settle(running, take=1, take_lanes=tuple(await fixture.store.lanes()))
    ).started_successors == []
    running = await _claim_one(fixture)
    assert running.id == urgent.id
    await fixture.settle(running)
    for _ in range(3):
        running = await _claim_one(fixture)
        assert running.job == low
        await fixture.settle(running)


async def case_nothing_starves_behind_a_key(fixture: StoreFixture) -> None:
    """An execution that waited longer than a difference in priority is worth runs first."""
    [low] = await _save_keyed_jobs(fixture, "low", priority=1)
    [high] = await _save_keyed_jobs(fixture, "high", priority=10)
    await _trigger_with_key(fixture, high)
    running = await _claim_one(fixture)
    waiting = await _trigger_with_key(fixture, low)
    order = []
    for _ in range(12):
        fixture.tick(60 * SECOND_US)
        await _trigger_with_key(fixture, high)
        await fixture.settle(running)
        running = await _claim_one(fixture)
        order.append(running.id)
    assert order.index(waiting.id) == 8, "nine steps of priority equal nine minutes"


async def case_the_sweep_wakes_executions_by_rank(fixture: StoreFixture) -> None:
    """After an admission raised the limit, the sweep wakes the best-ranked execution."""
    jobs = await _save_keyed_jobs(fixture, "a", "b", "c")
    await _trigger_with_key(fixture, jobs[0])
    waiting = [await _trigger_with_key(fixture, job) for job in (jobs[2], jobs[1], jobs[0])]
    last = await _trigger_with_key(fixture, jobs[1], key_limit=3)
    assert [run.status for run in (*waiting, last)] == [Status.QUEUED] * 3 + [Status.READY]
    assert await fixture.wake() == 1
    assert await _statuses(fixture, *waiting) == [Status.READY, Status.QUEUED, Status.QUEUED]


async def case_a_full_job_does_not_keep_a_key_from_others(fixture: StoreFixture) -> None:
    full = (await fixture.save("full", overlap=Overlap.QUEUE, keyed=True, priority=10)).id
    [other] = await _save_keyed_jobs(fixture, "other", priority=1)
    [holder] = await _save_keyed_jobs(fixture, "holder")
    own = await _trigger_with_key(fixture, full, key="own")
    shared = await _trigger_with_key(fixture, holder)
    held = {run.id: run for run in await fixture.claim()}
    assert held.keys() == {own.id, shared.id}
    blocked, waits = await _trigger_with_key(fixture, full), await _trigger_with_key(fixture, other)
    assert (await fixture.settle(held[shared.id])).woken == 1
    assert await _statuses(fixture, blocked, waits) == [Status.QUEUED, Status.READY]


async def case_jobs_that_share_a_key_run_one_after_the_other(fixture: StoreFixture) -> None:
    jobs = await _save_keyed_jobs(fixture, *(f"job-{n:02}" for n in range(40)))
    triggered = [await _trigger_with_key(fixture, job) for job in jobs]
    for run in triggered:
        running = await _claim_one(fixture)
        assert running.id == run.id
        await fixture.settle(running)


async def case_freeing_a_key_wakes_the_next_execution(fixture: StoreFixture) -> None:
    """A cancellation, a pause, a deletion and a reap wake it at once, without a sweep."""
    [other] = await _save_keyed_jobs(fixture, "other")
    node = await fixture.start_node("dying")
    for end in ("cancel", "pause", "delete", "reap"):
        [job] = await _save_keyed_jobs(fixture, end)
        holder = await _trigger_with_key(fixture, job, cause=Cause.REPLAY)
        waits = await _trigger_with_key(fixture, other)
        assert [holder.status, waits.status] == [Status.READY, Status.QUEUED], end
        match end:
            case "cancel":
                await fixture.store.apply(CancelExecution(execution=holder.id, now_us=fixture.now_us))
            case "pause":
                await fixture.set_state(job, JobState.PAUSED)
            case "delete":
                await fixture.store.apply(DeleteJob(job=job, now_us=fixture.now_us))
            case _:
                await _reap(fixture, await _claim_one(fixture), node)
                await fixture.start_node("next")
        assert await fixture.status(waits.id) is Status.READY, end
        await fixture.settle(await _claim_one(fixture))


async def _reap(fixture: StoreFixture, run: Claimed, node: int) -> None:
    lost = EndedAttempt(run.id, "task", 1, AttemptStatus.LOST, fixture.now_us, fixture.now_us, node)
    row = ReapRow(run.id, run.job, run.token, Status.STALE, ReasonCode.WORKER_LOST, 2, (lost,))
    assert await fixture.store.apply(Reap(node=node, beat=0, rows=(row,), now_us=fixture.now_us)) == [run.id]


async def case_concurrent_settles_never_exceed_the_limit_of_a_key(fixture: StoreFixture) -> None:
    jobs = await _save_keyed_jobs(fixture, *(f"job-{n}" for n in range(6)))
    triggered = [await _trigger_with_key(fixture, job, key_limit=2) for job in jobs for _ in range(3)]
    ended = 0
    while ended < len(triggered):
        running = await fixture.claim()
        assert 0 < len(running) <= 2, "a free key is given to a waiting execution"
        await asyncio.gather(*(fixture.settle(run) for run in running))
        await fixture.wake()
        ended += len(running)


# --- the effect of a new version


async def case_a_version_without_a_key_wakes_executions_that_waited_for_it(fixture: StoreFixture) -> None:
    mine, other = await _save_keyed_jobs(fixture, "mine", "other")
    await _trigger_with_key(fixture, mine)
    running = await _claim_one(fixture)
    waits, elsewhere = await _trigger_with_key(fixture, mine), await _trigger_with_key(fixture, other)
    await fixture.save("mine", overlap=Overlap.ALLOW, limit=0, description="without a key")
    assert await _statuses(fixture, waits, elsewhere) == [Status.READY, Status.QUEUED], (
        "a running execution keeps its key"
    )
    assert (await _claim_one(fixture)).id == waits.id
    await fixture.settle(running)
    assert await _statuses(fixture, elsewhere) == [Status.READY]


async def case_a_version_without_a_key_frees_the_key_of_ready_executions(fixture: StoreFixture) -> None:
    mine, other = await _save_keyed_jobs(fixture, "mine", "other")
    ready = await _trigger_with_key(fixture, mine)
    waits = await _trigger_with_key(fixture, other)
    await fixture.save("mine", overlap=Overlap.ALLOW, limit=0, description="without a key")
    assert await _statuses(fixture, ready, waits) == [Status.READY, Status.READY]


async def case_a_version_with_another_limit_applies_at_once(fixture: StoreFixture) -> None:
    mine, other = await _save_keyed_jobs(fixture, "mine", "other")
    await _trigger_with_key(fixture, mine)
    running = await _claim_one(fixture)
    waiting = [
        await _trigger_with_key(fixture, mine),
        await _trigger_with_key(fixture, other),
        await _trigger_with_key(fixture, mine),
    ]
    await fixture.save("mine", overlap=Overlap.ALLOW, keyed=True, key_limit=3, description="three")
    statuses = await _statuses(fixture, *waiting)
    assert statuses.count(Status.READY) == 2
    assert statuses[0] is Status.READY
    await fixture.save("mine", overlap=Overlap.ALLOW, keyed=True, key_limit=1, description="one")
    assert (await _statuses(fixture, waiting[0], waiting[2])) == [Status.QUEUED, Status.QUEUED]
    for run in (running, *await fixture.claim()):
        await fixture.settle(run)
    assert len(await fixture.claim()) == 1


async def case_a_version_with_another_key_moves_queued_executions(fixture: StoreFixture) -> None:
    template = {"overlap": Overlap.ALLOW, "keyed": True, "key_limit": 1}
    saved = await fixture.save("mine", key="{{ payload.tenant }}", **template)
    runs = [
        await _trigger_with_key(
            fixture, saved.id, key=tenant, detail=f'{{"payload":{{"tenant":"{tenant}","region":"{region}"}}}}'
        )
        for tenant, region in (("t1", "north"), ("t1", "south"), ("t2", "north"), ("t3", "east"))
    ]
    assert [run.status for run in runs] == [Status.READY, Status.QUEUED, Status.READY, Status.READY]
    await fixture.save("mine", key="{{ payload.region }}", description="by region", **template)
    assert await _statuses(fixture, *runs) == [Status.READY, Status.READY, Status.QUEUED, Status.READY]
    assert (await _trigger_with_key(fixture, saved.id, key="t1")).status is Status.READY, "the key is free again"
    assert (await _trigger_with_key(fixture, saved.id, key="south")).status is Status.QUEUED
    claimed = {run.id: run for run in await fixture.claim()}
    await fixture.settle(claimed[runs[0].id])
    assert await _statuses(fixture, runs[2]) == [Status.READY]


async def case_a_version_with_a_new_key_applies_to_ready_executions(fixture: StoreFixture) -> None:
    saved = await fixture.save("mine", overlap=Overlap.ALLOW)
    [other] = await _save_keyed_jobs(fixture, "other")
    fixture.tick()
    first = await fixture.trigger(saved.id)
    running = await _claim_one(fixture)
    fixture.tick()
    ready = [await fixture.trigger(saved.id), await fixture.trigger(saved.id)]
    await fixture.save(
        "mine", overlap=Overlap.ALLOW, keyed=True, key="{{ job.name }}", key_limit=1, description="one at a time"
    )
    assert sorted(await _statuses(fixture, *ready)) == [Status.READY, Status.QUEUED]
    assert (await _trigger_with_key(fixture, other, key="mine")).status is Status.QUEUED
    assert running.id == first.id, "it has no key, because its version has none"
    await fixture.settle(running)
    assert len(await fixture.claim()) == 1


async def case_a_version_of_a_paused_job_applies_to_held_executions(fixture: StoreFixture) -> None:
    mine, other = await _save_keyed_jobs(fixture, "mine", "other")
    holder = await _trigger_with_key(fixture, other)
    held = await _trigger_with_key(fixture, mine, cause=Cause.REPLAY)
    await fixture.set_state(mine, JobState.PAUSED)
    await fixture.save("mine", overlap=Overlap.ALLOW, limit=0, state=JobState.PAUSED, description="without a key")
    assert await _statuses(fixture, holder, held) == [Status.READY, Status.QUEUED]
    await fixture.set_state(mine, JobState.ACTIVE)
    assert await _statuses(fixture, held) == [Status.READY]
