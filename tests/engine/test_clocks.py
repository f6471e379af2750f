"""G7, time: nothing starts early, and clocks that jump or differ run nothing twice and end nothing that runs."""

import asyncio

import pytest

from chronos.clock import SystemClock
from chronos.core.events import ClockJumped, Trouble
from chronos.core.execution import Status
from chronos.engine.node import NodeClock
from chronos.store.contract import Counts
from chronos.store.sql.sqlite_memory import MemoryStore
from tests.engine.world import SECOND_US, World, in_world


@in_world
async def test_g7_time_nothing_starts_before_its_instant(world: World) -> None:
    work = world.work("work")
    for skew_s in (0.9, -0.9, None):
        (await world.node()).link.skew_s = skew_s
    await world.advance(15)  # a heartbeat, by which each node knows its offset
    await world.job("work", schedule="@every 7s")
    began_s = world.passed_s
    await world.advance(71)
    # A node with another offset would be early; here the store's clock is each node's own plus what it measured.
    assert len(work.starts) >= 9
    assert all(start >= began_s + 7 - 0.91 for start in work.starts)


@in_world
async def test_g7_time_a_backward_jump_runs_nothing_again(world: World) -> None:
    work = world.work("work")
    node = await world.node()
    await world.job("work", schedule="@every 10s")
    await world.reach(35)
    world.jump(-20)
    assert world.now_s == pytest.approx(15, abs=0.1)
    await world.advance(50)  # to 65 on the wall
    assert await world.story("work") == [f"{at} succeeded" for at in (10, 20, 30, 40, 50, 60)]
    assert len(work.starts) == 6
    assert [round(event.by_us / SECOND_US) for event in node.events if isinstance(event, ClockJumped)] == [-20]


@pytest.mark.parametrize(
    ("recovery", "story"),
    [
        ("last", ["10 succeeded", "20-100 missed 9", "110 succeeded", "120 succeeded"]),
        ("skip", ["10 succeeded", "20-110 missed 10", "120 succeeded"]),
    ],
)
@in_world
async def test_g7_time_a_forward_jump_follows_recovery(world: World, recovery: str, story: list[str]) -> None:
    world.work("work")
    node = await world.node()
    await world.job("work", schedule="@every 10s", recovery=recovery)
    await world.reach(15)
    world.jump(100)  # to 115
    await world.advance(10)
    assert await world.story("work") == story
    await world.advance(10)
    assert any(isinstance(event, ClockJumped) for event in node.events)


@pytest.mark.parametrize("by_s", [7200, -7200])
@pytest.mark.parametrize("tasks", [1, 2])
@in_world
async def test_g7_time_a_jump_ends_nothing_that_runs(world: World, by_s: float, tasks: int) -> None:
    """Timeouts are of time that really passed: an hour is not over because somebody set the clock."""
    works = [world.work(f"w{n}", takes=100) for n in range(tasks)]
    for _ in range(2):
        await world.node()
    await world.job("job", schedule="now", tasks=[{"name": work.name, "python": {"name": work.name}} for work in works])
    await world.advance(5)
    world.jump(by_s)
    await world.advance(100 * tasks)
    assert [work.cut for work in works] == [[]] * tasks
    assert [work.ends for work in works] == [[100.0 * (n + 1)] for n in range(tasks)]
    assert (await world.last("job")).status is Status.SUCCEEDED


@in_world
async def test_g7_time_a_skewed_node_neither_admits_nor_claims(world: World) -> None:
    work = world.work("work")
    skewed, right = await world.node(), await world.node()
    skewed.link.skew_s = 5
    await world.advance(12)
    await world.job("work", schedule="@every 5s")
    await world.job("now", schedule="now", does="work")
    await world.advance(32)  # the right node leaves the skewed one a second for its share
    assert len(work.starts) == 7
    assert {run.node for run in await world.runs("work")} == {right.number}
    assert [skewed.engine.node.may_start] == [False]
    [told] = [event for event in skewed.events if isinstance(event, Trouble)]
    assert (told.where, told.error.startswith("this node's clock is 5.0 s behind the store's")) == ("clock", True)
    skewed.link.skew_s = 0.2
    await world.advance(11)
    assert skewed.engine.node.may_start
    skewed.link.skew_s = -2
    await world.advance(11)
    troubles = [event.error for event in skewed.events if isinstance(event, Trouble)]
    assert len(troubles) == 2
    assert "2.0 s ahead of the store's" in troubles[1]


@in_world
async def test_g7_time_a_node_corrects_its_clock_by_the_stores(world: World) -> None:
    """The store is half a second ahead: its time counts, so that all nodes agree."""
    work = world.work("work")
    node = await world.node()
    node.link.skew_s = 0.5
    await world.advance(11)
    await world.job("work", schedule={"cron": "*/10 * * * * *"})
    await world.reach(35)
    assert work.starts == pytest.approx([19.5, 29.5], abs=0.02)


@in_world
async def test_g7_time_what_was_to_be_caught_up_with_is_not_judged_by_a_clock_that_was_set_back(world: World) -> None:
    """An hour too late, the node asks how much is ready before it recovers that much; then somebody sets it right."""
    work = world.work("work")
    node = await world.node()
    await world.job("work", schedule="@every 10s", overlap="allow", recovery="all")
    await world.reach(15)
    count = world.store.counts
    asked = 0

    async def counts() -> Counts:
        nonlocal asked
        asked += 1
        if asked == 1:
            world.jump(-3600)
            node.engine.node.beat_soon()
            await world.advance(0.5)
        return await count()

    node.link.counts = counts  # type: ignore[attr-defined]
    world.jump(3600)
    await world.advance(30)
    assert asked >= 1
    assert work.starts == [10, 20, 30, 40]


class Distant(MemoryStore):
    """A store whose answers take their time on the way back, all but the second."""

    asked = 0

    async def clock_us(self) -> int | None:
        told_us = SystemClock().now_us()
        self.asked += 1
        if self.asked != 2:
            await asyncio.sleep(1)
        return told_us


def test_the_quickest_answer_tells_the_time() -> None:
    """Half of a second would be an offset that counts as none, and start things that much early."""

    async def case() -> None:
        clock, store = NodeClock(SystemClock()), Distant()
        await clock.measure(store)
        assert abs(clock.offset_us) < 0.4 * SECOND_US
        assert store.asked > 1

    asyncio.run(case())
