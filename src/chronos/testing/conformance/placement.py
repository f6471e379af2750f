"""Late claims: a node takes executions of other lanes that waited long enough, after those of its own lanes."""

from chronos.core.config import Overlap
from chronos.core.execution import Status
from chronos.core.job import JobState
from chronos.store.commands import Claim, Release, ReleaseRow, Suspend, SuspendRow
from chronos.testing.conformance.fixture import SECOND_US, StoreFixture


async def case_late_lanes_give_executions_that_waited_long_enough(fixture: StoreFixture) -> None:
    await fixture.save("gpu", lane="gpu", overlap=Overlap.ALLOW)
    first = await fixture.admit_one("gpu", claim=False)
    since_us = fixture.now_us
    later = await fixture.admit_one("gpu", claim=False)
    [lane] = [number for number, key in (await fixture.store.lanes()).items() if key == "gpu"]
    assert await fixture.claim(lanes=(), late=((lane, since_us - 1),)) == []
    [run] = await fixture.claim(lanes=(), late=((lane, since_us),))
    assert (run.id, await fixture.status(first.id), await fixture.status(later.id)) == (
        first.id,
        Status.RUNNING,
        Status.READY,
    )
    assert run.token > first.token
    assert (await fixture.settle(run)).settled == [first.id]
    assert [c.id for c in await fixture.claim(lanes=(), late=((lane, fixture.now_us),))] == [later.id]


async def case_a_nodes_own_work_comes_before_late_work(fixture: StoreFixture) -> None:
    await fixture.save("gpu", lane="gpu", overlap=Overlap.ALLOW, priority=10)
    await fixture.save("cpu", lane="cpu", overlap=Overlap.ALLOW, priority=1)
    late = [await fixture.admit_one("gpu", claim=False) for _ in range(3)]
    own = [await fixture.admit_one("cpu", claim=False) for _ in range(2)]
    lanes = {key: number for number, key in (await fixture.store.lanes()).items()}
    taken = await fixture.claim(3, lanes=(lanes["cpu"],), late=((lanes["gpu"], fixture.now_us),))
    assert [run.id for run in taken] == [own[0].id, own[1].id, late[0].id]
    assert [
        run.id for run in await fixture.claim(1, lanes=(lanes["cpu"],), late=((lanes["gpu"], fixture.now_us),))
    ] == [late[1].id]


async def case_late_work_of_many_lanes_goes_by_rank_whatever_the_priority(fixture: StoreFixture) -> None:
    for i in range(20):
        await fixture.save(f"job-{i:02}", lane=f"lane-{i:02}", priority=1 + i % 10)
    names = [f"job-{i:02}" for i in range(20)]
    ready = {name: (await fixture.admit_next(name, claim=False))[0].id for name in names}
    late = tuple((number, fixture.now_us) for number in await fixture.store.lanes())
    ranked = sorted(names, key=lambda name: (-(1 + names.index(name) % 10), ready[name]))
    assert [run.id for run in await fixture.claim(5, lanes=(), late=late)] == [ready[name] for name in ranked[:5]]
    assert len(await fixture.claim(lanes=(), late=late)) == 15


async def case_lateness_counts_from_the_last_time_an_execution_became_ready(fixture: StoreFixture) -> None:
    await fixture.save("gpu", lane="gpu", overlap=Overlap.QUEUE)
    run = await fixture.admit_one("gpu")
    queued = await fixture.admit_one("gpu")
    [lane] = [number for number, key in (await fixture.store.lanes()).items() if key == "gpu"]
    fixture.tick(100 * SECOND_US)
    await fixture.store.apply(
        Suspend(rows=(SuspendRow(run.id, run.token, fixture.now_us + 5, (), 2, 0),), now_us=fixture.now_us)
    )
    fixture.tick(100 * SECOND_US)
    assert await fixture.wake() == 1
    since_us = fixture.now_us
    assert await fixture.claim(lanes=(), late=((lane, since_us - 1),)) == []
    [woken] = await fixture.claim(lanes=(), late=((lane, since_us),))
    fixture.tick(100 * SECOND_US)
    await fixture.store.apply(Release(rows=(ReleaseRow(woken.id, woken.token),), now_us=fixture.now_us))
    assert await fixture.claim(lanes=(), late=((lane, fixture.now_us - 1),)) == []
    [again] = await fixture.claim(lanes=(), late=((lane, fixture.now_us),))
    fixture.tick(100 * SECOND_US)
    assert (await fixture.settle(again)).woken == 1
    assert await fixture.claim(lanes=(), late=((lane, fixture.now_us - 1),)) == []
    assert [c.id for c in await fixture.claim(lanes=(), late=((lane, fixture.now_us),))] == [queued.id]


async def case_held_work_is_never_late(fixture: StoreFixture) -> None:
    saved = await fixture.save("gpu", lane="gpu")
    run = await fixture.admit_one("gpu", claim=False)
    [lane] = [number for number, key in (await fixture.store.lanes()).items() if key == "gpu"]
    await fixture.set_state(saved.id, JobState.PAUSED)
    fixture.tick(100 * SECOND_US)
    assert await fixture.claim(lanes=(), late=((lane, fixture.now_us),)) == []
    await fixture.set_state(saved.id, JobState.ACTIVE)
    resumed_us = fixture.now_us
    assert await fixture.claim(lanes=(), late=((lane, resumed_us - 1),)) == []
    assert [c.id for c in await fixture.claim(lanes=(), late=((lane, resumed_us),))] == [run.id]


async def case_an_empty_late_claim_takes_nothing(fixture: StoreFixture) -> None:
    await fixture.save("gpu", lane="gpu")
    await fixture.admit_one("gpu", claim=False)
    [lane] = [number for number, key in (await fixture.store.lanes()).items() if key == "gpu"]
    none = Claim(
        lanes=(),
        limit=0,
        node=fixture.node,
        now_us=fixture.now_us,
        request=fixture.new_request_id(),
        late_lanes=((lane, fixture.now_us),),
    )
    assert await fixture.store.apply(none) == []
    assert await fixture.claim(lanes=(), late=()) == []
    assert await fixture.claim(lanes=(), late=((lane + 1, fixture.now_us),)) == []
