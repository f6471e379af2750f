"""Concurrency keys: which execution gets a free key, and the effect of a new version on queued executions."""

import asyncio
from typing import Any

from chronos.core.config import Overlap
from chronos.core.execution import AttemptStatus, Cause, Status
from chronos.core.job import JobState
from chronos.core.reasons import ReasonCode
from chronos.store.commands import CancelExecution, Claimed, DeleteJob, EndedAttempt, Reap, ReapRow, Triggered
from chronos.testing.conformance.fixture import SECOND, StoreFixture


async def _save_keyed_jobs(w: StoreFixture, *names: str, **options: Any) -> list[bytes]:
    return [(await w.save(name, overlap=Overlap.ALLOW, keyed=True, **options)).id for name in names]


async def _trigger_with_key(w: StoreFixture, job: bytes, *, key: str = "k", **options: Any) -> Triggered:
    w.tick()
    return await w.trigger(job, key=key, **options)


async def _statuses(w: StoreFixture, *runs: Triggered) -> list[Status]:
    return [await w.status(run.id) for run in runs]


async def _claim_one(w: StoreFixture) -> Claimed:
    """Claim the only ready execution."""
    [claimed] = await w.claim()
    return claimed


# --- which execution gets a free key


async def case_a_free_key_goes_to_the_best_ranked_execution(w: StoreFixture) -> None:
    [low] = await _save_keyed_jobs(w, "low", priority=1)
    [high] = await _save_keyed_jobs(w, "high", priority=10)
    await _trigger_with_key(w, low)
    running = await _claim_one(w)
    urgent = await _trigger_with_key(w, high)
    for _ in range(3):
        await _trigger_with_key(w, low)
    assert (await w.settle(running, take=1, take_lanes=tuple(await w.store.lanes()))).taken == []
    running = await _claim_one(w)
    assert running.id == urgent.id
    await w.settle(running)
    for _ in range(3):
        running = await _claim_one(w)
        assert running.job == low
        await w.settle(running)


async def case_nothing_starves_behind_a_key(w: StoreFixture) -> None:
    """An execution that waited longer than a difference in priority is worth runs first."""
    [low] = await _save_keyed_jobs(w, "low", priority=1)
    [high] = await _save_keyed_jobs(w, "high", priority=10)
    await _trigger_with_key(w, high)
    running = await _claim_one(w)
    waiting = await _trigger_with_key(w, low)
    order = []
    for _ in range(12):
        w.tick(60 * SECOND)
        await _trigger_with_key(w, high)
        await w.settle(running)
        running = await _claim_one(w)
        order.append(running.id)
    assert order.index(waiting.id) == 8, "nine steps of priority equal nine minutes"


async def case_the_sweep_wakes_executions_by_rank(w: StoreFixture) -> None:
    """After an admission raised the limit, the sweep wakes the best-ranked execution."""
    jobs = await _save_keyed_jobs(w, "a", "b", "c")
    await _trigger_with_key(w, jobs[0])
    waiting = [await _trigger_with_key(w, job) for job in (jobs[2], jobs[1], jobs[0])]
    last = await _trigger_with_key(w, jobs[1], key_limit=3)
    assert [run.status for run in (*waiting, last)] == [Status.QUEUED] * 3 + [Status.READY]
    assert await w.wake() == 1
    assert await _statuses(w, *waiting) == [Status.READY, Status.QUEUED, Status.QUEUED]


async def case_a_full_job_does_not_keep_a_key_from_others(w: StoreFixture) -> None:
    full = (await w.save("full", overlap=Overlap.QUEUE, keyed=True, priority=10)).id
    [other] = await _save_keyed_jobs(w, "other", priority=1)
    [holder] = await _save_keyed_jobs(w, "holder")
    own = await _trigger_with_key(w, full, key="own")
    shared = await _trigger_with_key(w, holder)
    held = {run.id: run for run in await w.claim()}
    assert held.keys() == {own.id, shared.id}
    blocked, waits = await _trigger_with_key(w, full), await _trigger_with_key(w, other)
    assert (await w.settle(held[shared.id])).woken == 1
    assert await _statuses(w, blocked, waits) == [Status.QUEUED, Status.READY]


async def case_jobs_that_share_a_key_run_one_after_the_other(w: StoreFixture) -> None:
    jobs = await _save_keyed_jobs(w, *(f"job-{n:02}" for n in range(40)))
    triggered = [await _trigger_with_key(w, job) for job in jobs]
    for run in triggered:
        running = await _claim_one(w)
        assert running.id == run.id
        await w.settle(running)


async def case_freeing_a_key_wakes_the_next_execution(w: StoreFixture) -> None:
    """A cancellation, a pause, a deletion and a reap wake it at once, without a sweep."""
    [other] = await _save_keyed_jobs(w, "other")
    node = await w.start_node("dying")
    for end in ("cancel", "pause", "delete", "reap"):
        [job] = await _save_keyed_jobs(w, end)
        holder = await _trigger_with_key(w, job, cause=Cause.REPLAY)
        waits = await _trigger_with_key(w, other)
        assert [holder.status, waits.status] == [Status.READY, Status.QUEUED], end
        match end:
            case "cancel":
                await w.store.apply(CancelExecution(execution=holder.id, now_us=w.now))
            case "pause":
                await w.set_state(job, JobState.PAUSED)
            case "delete":
                await w.store.apply(DeleteJob(job=job, now_us=w.now))
            case _:
                await _reap(w, await _claim_one(w), node)
                await w.start_node("next")
        assert await w.status(waits.id) is Status.READY, end
        await w.settle(await _claim_one(w))


async def _reap(w: StoreFixture, run: Claimed, node: int) -> None:
    lost = EndedAttempt(run.id, "task", 1, AttemptStatus.LOST, w.now, w.now, node)
    row = ReapRow(run.id, run.job, run.token, Status.STALE, ReasonCode.WORKER_LOST, 2, (lost,))
    assert await w.store.apply(Reap(node=node, beat=0, rows=(row,), now_us=w.now)) == [run.id]


async def case_concurrent_settles_never_exceed_the_limit_of_a_key(w: StoreFixture) -> None:
    jobs = await _save_keyed_jobs(w, *(f"job-{n}" for n in range(6)))
    triggered = [await _trigger_with_key(w, job, key_limit=2) for job in jobs for _ in range(3)]
    ended = 0
    while ended < len(triggered):
        running = await w.claim()
        assert 0 < len(running) <= 2, "a free key is given to a waiting execution"
        await asyncio.gather(*(w.settle(run) for run in running))
        await w.wake()
        ended += len(running)


# --- the effect of a new version


async def case_a_version_without_a_key_wakes_executions_that_waited_for_it(w: StoreFixture) -> None:
    mine, other = await _save_keyed_jobs(w, "mine", "other")
    await _trigger_with_key(w, mine)
    running = await _claim_one(w)
    waits, elsewhere = await _trigger_with_key(w, mine), await _trigger_with_key(w, other)
    await w.save("mine", overlap=Overlap.ALLOW, limit=0, description="without a key")
    assert await _statuses(w, waits, elsewhere) == [Status.READY, Status.QUEUED], "a running execution keeps its key"
    assert (await _claim_one(w)).id == waits.id
    await w.settle(running)
    assert await _statuses(w, elsewhere) == [Status.READY]


async def case_a_version_without_a_key_frees_the_key_of_ready_executions(w: StoreFixture) -> None:
    mine, other = await _save_keyed_jobs(w, "mine", "other")
    ready = await _trigger_with_key(w, mine)
    waits = await _trigger_with_key(w, other)
    await w.save("mine", overlap=Overlap.ALLOW, limit=0, description="without a key")
    assert await _statuses(w, ready, waits) == [Status.READY, Status.READY]


async def case_a_version_with_another_limit_applies_at_once(w: StoreFixture) -> None:
    mine, other = await _save_keyed_jobs(w, "mine", "other")
    await _trigger_with_key(w, mine)
    running = await _claim_one(w)
    waiting = [await _trigger_with_key(w, mine), await _trigger_with_key(w, other), await _trigger_with_key(w, mine)]
    await w.save("mine", overlap=Overlap.ALLOW, keyed=True, key_limit=3, description="three")
    statuses = await _statuses(w, *waiting)
    assert statuses.count(Status.READY) == 2
    assert statuses[0] is Status.READY
    await w.save("mine", overlap=Overlap.ALLOW, keyed=True, key_limit=1, description="one")
    assert (await _statuses(w, waiting[0], waiting[2])) == [Status.QUEUED, Status.QUEUED]
    for run in (running, *await w.claim()):
        await w.settle(run)
    assert len(await w.claim()) == 1


async def case_a_version_with_another_key_moves_queued_executions(w: StoreFixture) -> None:
    template = {"overlap": Overlap.ALLOW, "keyed": True, "key_limit": 1}
    saved = await w.save("mine", key="{{ payload.tenant }}", **template)
    runs = [
        await _trigger_with_key(
            w, saved.id, key=tenant, detail=f'{{"payload":{{"tenant":"{tenant}","region":"{region}"}}}}'
        )
        for tenant, region in (("t1", "north"), ("t1", "south"), ("t2", "north"), ("t3", "east"))
    ]
    assert [run.status for run in runs] == [Status.READY, Status.QUEUED, Status.READY, Status.READY]
    await w.save("mine", key="{{ payload.region }}", description="by region", **template)
    assert await _statuses(w, *runs) == [Status.READY, Status.READY, Status.QUEUED, Status.READY]
    assert (await _trigger_with_key(w, saved.id, key="t1")).status is Status.READY, "the key is free again"
    assert (await _trigger_with_key(w, saved.id, key="south")).status is Status.QUEUED
    claimed = {run.id: run for run in await w.claim()}
    await w.settle(claimed[runs[0].id])
    assert await _statuses(w, runs[2]) == [Status.READY]


async def case_a_version_with_a_new_key_applies_to_ready_executions(w: StoreFixture) -> None:
    saved = await w.save("mine", overlap=Overlap.ALLOW)
    [other] = await _save_keyed_jobs(w, "other")
    w.tick()
    first = await w.trigger(saved.id)
    running = await _claim_one(w)
    w.tick()
    ready = [await w.trigger(saved.id), await w.trigger(saved.id)]
    await w.save(
        "mine", overlap=Overlap.ALLOW, keyed=True, key="{{ job.name }}", key_limit=1, description="one at a time"
    )
    assert sorted(await _statuses(w, *ready)) == [Status.READY, Status.QUEUED]
    assert (await _trigger_with_key(w, other, key="mine")).status is Status.QUEUED
    assert running.id == first.id, "it has no key, because its version has none"
    await w.settle(running)
    assert len(await w.claim()) == 1


async def case_a_version_of_a_paused_job_applies_to_held_executions(w: StoreFixture) -> None:
    mine, other = await _save_keyed_jobs(w, "mine", "other")
    holder = await _trigger_with_key(w, other)
    held = await _trigger_with_key(w, mine, cause=Cause.REPLAY)
    await w.set_state(mine, JobState.PAUSED)
    await w.save("mine", overlap=Overlap.ALLOW, limit=0, state=JobState.PAUSED, description="without a key")
    assert await _statuses(w, holder, held) == [Status.READY, Status.QUEUED]
    await w.set_state(mine, JobState.ACTIVE)
    assert await _statuses(w, held) == [Status.READY]
