"""Late claims: a node takes executions of other lanes that waited long enough, after those of its own lanes."""

from chronos.core.config import Overlap
from chronos.core.execution import Status
from chronos.core.job import JobState
from chronos.store.commands import Claim, Release, ReleaseRow, Suspend, SuspendRow
from chronos.testing.conformance.fixture import SECOND, StoreFixture


async def case_late_lanes_give_executions_that_waited_long_enough(w: StoreFixture) -> None:
    await w.save("gpu", lane="gpu", overlap=Overlap.ALLOW)
    first = await w.admit_one("gpu", claim=False)
    since_us = w.now
    later = await w.admit_one("gpu", claim=False)
    [lane] = [number for number, key in (await w.store.lanes()).items() if key == "gpu"]
    assert await w.claim(lanes=(), late=((lane, since_us - 1),)) == []
    [run] = await w.claim(lanes=(), late=((lane, since_us),))
    assert (run.id, await w.status(first.id), await w.status(later.id)) == (first.id, Status.RUNNING, Status.READY)
    assert run.token > first.token
    assert (await w.settle(run)).settled == [first.id]
    assert [c.id for c in await w.claim(lanes=(), late=((lane, w.now),))] == [later.id]


async def case_a_nodes_own_work_comes_before_late_work(w: StoreFixture) -> None:
    await w.save("gpu", lane="gpu", overlap=Overlap.ALLOW, priority=10)
    await w.save("cpu", lane="cpu", overlap=Overlap.ALLOW, priority=1)
    late = [await w.admit_one("gpu", claim=False) for _ in range(3)]
    own = [await w.admit_one("cpu", claim=False) for _ in range(2)]
    lanes = {key: number for number, key in (await w.store.lanes()).items()}
    taken = await w.claim(3, lanes=(lanes["cpu"],), late=((lanes["gpu"], w.now),))
    assert [run.id for run in taken] == [own[0].id, own[1].id, late[0].id]
    assert [run.id for run in await w.claim(1, lanes=(lanes["cpu"],), late=((lanes["gpu"], w.now),))] == [late[1].id]


async def case_late_work_of_many_lanes_goes_by_rank_whatever_the_priority(w: StoreFixture) -> None:
    for i in range(20):
        await w.save(f"job-{i:02}", lane=f"lane-{i:02}", priority=1 + i % 10)
    names = [f"job-{i:02}" for i in range(20)]
    ready = {name: (await w.admit_next(name, claim=False))[0].id for name in names}
    late = tuple((number, w.now) for number in await w.store.lanes())
    ranked = sorted(names, key=lambda name: (-(1 + names.index(name) % 10), ready[name]))
    assert [run.id for run in await w.claim(5, lanes=(), late=late)] == [ready[name] for name in ranked[:5]]
    assert len(await w.claim(lanes=(), late=late)) == 15


async def case_lateness_counts_from_the_last_time_an_execution_became_ready(w: StoreFixture) -> None:
    await w.save("gpu", lane="gpu", overlap=Overlap.QUEUE)
    run = await w.admit_one("gpu")
    queued = await w.admit_one("gpu")
    [lane] = [number for number, key in (await w.store.lanes()).items() if key == "gpu"]
    w.tick(100 * SECOND)
    await w.store.apply(Suspend(rows=(SuspendRow(run.id, run.token, w.now + 5, (), 2, 0),), now_us=w.now))
    w.tick(100 * SECOND)
    assert await w.wake() == 1
    since_us = w.now
    assert await w.claim(lanes=(), late=((lane, since_us - 1),)) == []
    [woken] = await w.claim(lanes=(), late=((lane, since_us),))
    w.tick(100 * SECOND)
    await w.store.apply(Release(rows=(ReleaseRow(woken.id, woken.token),), now_us=w.now))
    assert await w.claim(lanes=(), late=((lane, w.now - 1),)) == []
    [again] = await w.claim(lanes=(), late=((lane, w.now),))
    w.tick(100 * SECOND)
    assert (await w.settle(again)).woken == 1
    assert await w.claim(lanes=(), late=((lane, w.now - 1),)) == []
    assert [c.id for c in await w.claim(lanes=(), late=((lane, w.now),))] == [queued.id]


async def case_held_work_is_never_late(w: StoreFixture) -> None:
    saved = await w.save("gpu", lane="gpu")
    run = await w.admit_one("gpu", claim=False)
    [lane] = [number for number, key in (await w.store.lanes()).items() if key == "gpu"]
    await w.set_state(saved.id, JobState.PAUSED)
    w.tick(100 * SECOND)
    assert await w.claim(lanes=(), late=((lane, w.now),)) == []
    await w.set_state(saved.id, JobState.ACTIVE)
    resumed_us = w.now
    assert await w.claim(lanes=(), late=((lane, resumed_us - 1),)) == []
    assert [c.id for c in await w.claim(lanes=(), late=((lane, resumed_us),))] == [run.id]


async def case_an_empty_late_claim_takes_nothing(w: StoreFixture) -> None:
    await w.save("gpu", lane="gpu")
    await w.admit_one("gpu", claim=False)
    [lane] = [number for number, key in (await w.store.lanes()).items() if key == "gpu"]
    none = Claim(lanes=(), limit=0, node=w.node, now_us=w.now, request=w.request(), late_lanes=((lane, w.now),))
    assert await w.store.apply(none) == []
    assert await w.claim(lanes=(), late=()) == []
    assert await w.claim(lanes=(), late=((lane + 1, w.now),)) == []
