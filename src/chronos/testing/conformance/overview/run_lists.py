"""Lists of runs with several filters, the neighbours of a run, counts of ended runs, and open runs in total."""

from chronos.core.config import Overlap
from chronos.core.execution import Cause, Status
from chronos.store.commands import OutputRow, WriteOutput
from chronos.store.contract import ExecutionFilter, Neighbours
from chronos.testing.conformance.fixture import SECOND_US, T0_US, StoreFixture


async def case_runs_are_filtered_by_several_things_at_once(fixture: StoreFixture) -> None:
    job = (await fixture.save("job", overlap=Overlap.ALLOW)).id
    other = (await fixture.save("other", overlap=Overlap.ALLOW)).id
    good, bad, lost, odd = [await fixture.admit_one() for _ in range(4)]
    await fixture.settle(good)
    await fixture.settle(bad, status=Status.FAILED)
    await fixture.settle(lost, status=Status.STALE)
    await fixture.settle(odd, status=Status.CANCELED)
    running = await fixture.admit_one("other")
    asked = await fixture.trigger(job)

    async def listed(**where: object) -> list[bytes]:
        page = await fixture.store.list_executions(ExecutionFilter(**where), limit=20)  # type: ignore[arg-type]
        assert page.cursor is None
        return [item.id for item in page.items]

    failed = (Status.FAILED, Status.STALE)
    for where in ({}, {"job": job}):
        assert await listed(statuses=failed, **where) == [lost.id, bad.id]
        assert await listed(statuses=(*failed, Status.SUCCEEDED), **where) == [lost.id, bad.id, good.id]
        assert await listed(statuses=(Status.CANCELED, Status.READY), **where) == [asked.id, odd.id]
        assert await listed(causes=(Cause.MANUAL,), **where) == [asked.id]
        assert await listed(statuses=failed, status=Status.FAILED, **where) == [bad.id]
        assert await listed(statuses=(Status.SUCCEEDED,), troubled=True, **where) == []
    assert await listed(statuses=(Status.RUNNING,)) == [running.id]
    assert await listed(statuses=(Status.RUNNING,), job=job) == []
    assert await listed(node=fixture.node, causes=(Cause.SCHEDULE,), job=other) == [running.id]
    assert await listed(node=fixture.node + 1) == []
    second_us = T0_US + 2 * SECOND_US
    assert await listed(job=job, causes=(Cause.SCHEDULE,), from_us=second_us, to_us=second_us + 1_000) == [bad.id]
    pages: list[bytes] = []
    cursor = None
    ended = ExecutionFilter(statuses=(*failed, Status.CANCELED))
    while cursor is not None or not pages:
        page = await fixture.store.list_executions(ended, limit=1, cursor=cursor)
        pages += [item.id for item in page.items]
        cursor = page.cursor
    assert pages == [odd.id, lost.id, bad.id]


async def case_a_run_has_neighbours(fixture: StoreFixture) -> None:
    job = (await fixture.save("job", overlap=Overlap.ALLOW)).id
    await fixture.save("other", overlap=Overlap.ALLOW)
    first = await fixture.admit_one()
    await fixture.settle(await fixture.admit_one("other"))
    second, third = [await fixture.admit_one() for _ in range(2)]
    await fixture.settle(first, second)
    assert await fixture.store.neighbours(job, first.id) == Neighbours(None, second.id)
    assert await fixture.store.neighbours(job, second.id) == Neighbours(first.id, third.id)
    assert await fixture.store.neighbours(job, third.id) == Neighbours(second.id, None)


async def case_ended_runs_are_counted_in_a_range(fixture: StoreFixture) -> None:
    job = (await fixture.save("job", overlap=Overlap.ALLOW)).id
    await fixture.save("other", overlap=Overlap.ALLOW, namespace="else")
    from_us = fixture.now_us
    await fixture.settle(await fixture.admit_one(), await fixture.admit_one())
    middle_us = fixture.tick()
    await fixture.settle(await fixture.admit_one(), status=Status.FAILED)
    to_us = fixture.tick()
    store = fixture.store
    assert (await store.count_ended(from_us, to_us)).counts == {Status.SUCCEEDED: 2, Status.FAILED: 1}
    assert (await store.count_ended(from_us, middle_us)).counts == {Status.SUCCEEDED: 2}
    assert (await store.count_ended(from_us, to_us, job=job)).rows == 3
    assert (await store.count_ended(from_us, to_us, namespace="default")).rows == 3
    assert (await store.count_ended(from_us, to_us, namespace="else")).counts == {}
    assert (await store.count_ended(to_us, to_us + 1)).counts == {}


async def case_open_runs_are_summed_by_lane_and_node(fixture: StoreFixture) -> None:
    await fixture.save("job", overlap=Overlap.QUEUE, limit=1)
    running = await fixture.admit_one()
    queued = await fixture.admit_one()
    loads = await fixture.store.loads()
    assert [(load.status, load.node, load.runs) for load in loads] == [
        (Status.QUEUED, None, 1),
        (Status.RUNNING, fixture.node, 1),
    ]
    assert loads[1].started_us is not None
    blockage = await fixture.store.blockage(queued.id)
    assert blockage is not None
    assert (blockage.limit, blockage.used, blockage.ahead, blockage.key_limit) == (1, 1, 0, None)
    assert [holder.id for holder in blockage.holders] == [running.id]
    assert await fixture.store.blockage(bytes(16)) is None


async def case_output_is_read_by_task_and_attempt(fixture: StoreFixture) -> None:
    await fixture.save()
    run = await fixture.admit_one()
    keys = [("a", 1), ("a", 2), ("b", 1)]
    await fixture.store.apply(WriteOutput(rows=tuple(OutputRow(run.id, *key, 0, "x") for key in keys)))

    async def read(**where: object) -> list[tuple[str, int]]:
        return [(row.task, row.number) for row in await fixture.store.output(run.id, **where)]  # type: ignore[arg-type]

    assert await read() == keys
    assert await read(task="a") == keys[:2]
    assert await read(task="a", number=2) == [("a", 2)]
    assert await read(number=1) == [("a", 1), ("b", 1)]
