"""Backpressure: runs beyond the limit are refused, and finished runs free capacity."""

import asyncio
from functools import partial
from typing import Any

import pytest

from chronos.core.execution import Status
from chronos.errors import QueueFull
from chronos.service.backpressure import Backpressure
from chronos.service.bulk_actions import Action
from chronos.store.commands import SYSTEM
from chronos.store.contract import Counts
from tests.support.service_world import HOUR_US, START_US, World, in_world


class Counted:
    """A store that counts its counts."""

    def __init__(self, store: Any) -> None:
        self._store, self.times = store, 0

    async def counts(self) -> Counts:
        self.times += 1
        return await self._store.counts()  # type: ignore[no-any-return]

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)


async def fill(world: World, count: int) -> None:
    """Create this many waiting runs."""
    await world.save("other", overlap="allow")
    for _ in range(count):
        await world.runs.trigger("other")


def test_finished_runs_need_no_capacity() -> None:
    async def case(world: World) -> None:
        await world.save(overlap="allow")
        for _ in range(12):
            assert (await world.runs.trigger("job")).created
            [run] = await world.claim()
            await world.settle(run)

    in_world(case, max_pending=3)


def test_concurrent_requests_do_not_share_capacity() -> None:
    async def case(world: World) -> None:
        await world.save(overlap="allow")
        triggered = await asyncio.gather(*(world.runs.trigger("job") for _ in range(30)), return_exceptions=True)
        assert sum(not isinstance(one, BaseException) for one in triggered) == 5
        assert {type(one) for one in triggered if isinstance(one, BaseException)} == {QueueFull}
        assert (await world.store.counts()).open == {Status.READY: 5}

    in_world(case, max_pending=5)


def test_a_refused_flood_counts_only_a_few_times() -> None:
    async def case(world: World) -> None:
        store = Counted(world.store)
        room = Backpressure(store, world.clock, limit=2)
        await fill(world, 2)
        for _ in range(3):
            found = await asyncio.gather(*(room.reserve() for _ in range(500)), return_exceptions=True)
            assert {type(one) for one in found} == {QueueFull}
        assert 3 <= store.times <= 5

    in_world(case)


def test_reservations_count_until_they_are_released() -> None:
    async def case(world: World) -> None:
        room = Backpressure(world.store, world.clock, limit=4)
        assert await room.reserve(3) == 3
        assert await room.reserve(3) == 1
        with pytest.raises(QueueFull):
            await room.reserve()
        room.release(3, 0)
        assert await room.reserve(9) == 3

    in_world(case)


def test_a_repeated_key_is_served_when_the_queue_is_full() -> None:
    async def case(world: World) -> None:
        await world.save(overlap="allow")
        triggered = await world.runs.trigger("job", idempotency="k")
        [run] = await world.claim()
        await world.settle(run, Status.FAILED, dead_letter=True)
        again = await world.runs.replay(triggered.id, idempotency="k")
        letter = await world.runs.replay_dead_letter(triggered.id)
        for run in await world.claim():
            await world.settle(run)
        await fill(world, 4)
        assert await world.runs.trigger("job", idempotency="k") == (triggered.id, Status.FAILED, False)
        assert (await world.runs.replay(triggered.id, idempotency="k"))[::2] == (again.id, False)
        assert (await world.runs.replay_dead_letter(triggered.id))[::2] == (letter.id, False)
        for key in ("another", None):
            with pytest.raises(QueueFull, match="4 runs are already waiting, allowed 4"):
                await world.runs.trigger("job", idempotency=key)
        assert (await world.store.counts()).open == {Status.READY: 4}

    in_world(case, max_pending=4)


def test_a_repeated_backfill_is_served_when_the_queue_is_full() -> None:
    async def case(world: World) -> None:
        await world.save(overlap="allow")
        past = START_US - 3 * HOUR_US, START_US
        done = await world.backfills.run("job", *past, idempotency="k")
        assert len(done.ids) == 4
        await fill(world, 1)
        assert await world.backfills.run("job", *past, idempotency="k") == done
        longer = await world.backfills.run("job", START_US - 4 * HOUR_US, START_US, idempotency="another")
        assert (len(longer.ids), longer.next_us) == (1, START_US - 3 * HOUR_US)
        assert await world.backfills.run("job", *past, idempotency="k") == done
        with pytest.raises(QueueFull, match="6 runs are already waiting, allowed 6"):
            await world.backfills.run("job", *past, idempotency="new")
        assert (await world.store.counts()).open == {Status.READY: 6}

    in_world(case, max_pending=6)


def test_a_repeated_bulk_trigger_is_served_when_the_queue_is_full() -> None:
    async def case(world: World) -> None:
        for name in ("a", "b"):
            await world.save(name, overlap="allow")
        jobs = [await world.jobs.get(name) for name in ("a", "b")]
        trigger = partial(world.service.bulk_actions.act, Action.TRIGGER, jobs, actor=SYSTEM)
        first = await trigger(key=lambda job: job.name)
        await fill(world, 1)
        again = await trigger(key=lambda job: job.name)
        assert [one.execution for one in again] == [one.execution for one in first]
        assert [one.changed for one in again] == [False, False]
        refused = await trigger(key=lambda job: f"new {job.name}")
        assert {type(one.error) for one in refused} == {QueueFull}

    in_world(case, max_pending=3)
