"""G7: nothing starts early. Clocks that jump or differ run nothing twice and end no running work."""

import asyncio
from collections.abc import Iterable
from itertools import repeat

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chronos.core.events import ClockJumped, ProblemReported
from chronos.core.execution import Status
from chronos.engine.node_clock import NodeClock
from chronos.store.contract import Counts
from chronos.store.sql.sqlite.memory import MemoryStore
from chronos.testing.clock import VirtualClock
from chronos.testing.loop import run
from tests.support.engine_world import SECOND_US, World, in_world


@in_world
async def test_g7_time_nothing_starts_before_its_instant(world: World) -> None:
    work = world.work("work")
    for skew_s in (0.9, -0.9, None):
        (await world.node()).link.skew_s = skew_s
    await world.advance(15)  # by a heartbeat each node knows its offset
    await world.job("work", schedule="@every 7s")
    started_s = world.passed_s
    await world.advance(71)
    # The store's clock is each node's clock plus its measured offset; a wrong offset would start early.
    assert len(work.starts) >= 9
    assert all(start >= started_s + 7 - 0.91 for start in work.starts)


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
async def test_g7_time_a_jump_ends_no_running_work(world: World, by_s: float, tasks: int) -> None:
    """Timeouts measure time that really passed: setting the clock does not end an hour."""
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
    await world.advance(32)  # the right node leaves the skewed one a second
    assert len(work.starts) == 7
    assert {run.node for run in await world.runs("work")} == {right.number}
    assert [skewed.engine.node.may_start] == [False]
    [problem] = [event for event in skewed.events if isinstance(event, ProblemReported)]
    assert (problem.where, problem.error.startswith("this node's clock is 5.0 s behind the store's")) == ("clock", True)
    skewed.link.skew_s = 0.2
    await world.advance(11)
    assert skewed.engine.node.may_start
    skewed.link.skew_s = -2
    await world.advance(11)
    problems = [event.error for event in skewed.events if isinstance(event, ProblemReported)]
    assert len(problems) == 2
    assert "2.0 s ahead of the store's" in problems[1]


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
async def test_g7_time_recovery_stops_when_the_clock_is_set_back_meanwhile(world: World) -> None:
    """An hour ahead, the node counts ready executions before it recovers. Then its clock is corrected."""
    work = world.work("work")
    node = await world.node()
    await world.job("work", schedule="@every 10s", overlap="allow", recovery="all")
    await world.reach(15)
    count = world.store.counts
    counted = 0

    async def counts() -> Counts:
        nonlocal counted
        counted += 1
        if counted == 1:
            world.jump(-3600)
            node.engine.node.beat_soon()
            await world.advance(0.5)
        return await count()

    node.link.counts = counts  # type: ignore[attr-defined]
    world.jump(3600)
    await world.advance(30)
    assert counted >= 1
    assert work.starts == [10, 20, 30, 40]


class DistantStore(MemoryStore):
    """A store whose clock is ``ahead_s`` ahead of the wall clock, with delays of requests and answers."""

    def __init__(self, delays_s: Iterable[tuple[float, float]], *, ahead_s: float = 0.0) -> None:
        super().__init__()
        self._wall, self._delays_s, self._ahead_us = VirtualClock(), iter(delays_s), round(ahead_s * SECOND_US)
        self.reads = 0

    async def clock_us(self) -> int | None:
        there_s, back_s = next(self._delays_s)
        self.reads += 1
        await asyncio.sleep(there_s)
        clock_us = self._wall.now_us() + self._ahead_us
        await asyncio.sleep(back_s)
        return clock_us


SLOW_ANSWER = (0.0, 0.082)  # as after a restart of the database
SLOW_REQUEST = (0.082, 0.0)
QUICK = (0.001, 0.002)


@pytest.mark.parametrize("delay_s", [SLOW_ANSWER, SLOW_REQUEST])
def test_slow_answers_do_not_move_a_clock_that_may_be_right(delay_s: tuple[float, float]) -> None:
    """Half of its duration, 41 ms, as an offset would make everything start early or late."""

    async def case() -> None:
        clock, store = NodeClock(VirtualClock()), DistantStore(repeat(delay_s))
        await clock.measure(store)
        assert clock.offset_us == 0
        assert store.reads == 4

    run(case())


@pytest.mark.parametrize(
    ("ahead_s", "delays_s", "offset_s"),
    [
        (0.5, [SLOW_ANSWER] * 4, 0.418),  # the clock may have been read when the answer came
        (0.5, [SLOW_REQUEST] * 4, 0.5),
        (-0.5, [SLOW_ANSWER] * 4, -0.5),  # the clock may have been read when the request was sent
        (-0.5, [SLOW_REQUEST] * 4, -0.418),
        (0.5, [SLOW_ANSWER, QUICK], 0.498),  # the quick answer is more exact, and is the last
        (-0.5, [SLOW_REQUEST, QUICK], -0.499),
    ],
)
def test_an_offset_moves_to_the_nearer_end_of_its_possible_range(
    ahead_s: float, delays_s: list[tuple[float, float]], offset_s: float
) -> None:
    async def case() -> None:
        clock, store = NodeClock(VirtualClock()), DistantStore(delays_s, ahead_s=ahead_s)
        await clock.measure(store)
        assert clock.offset_us == pytest.approx(offset_s * SECOND_US, abs=2)
        assert store.reads == len(delays_s)

    run(case())


DELAY_S = st.floats(0, 3)


@given(
    known_s=st.floats(-5, 5),
    ahead_s=st.floats(-5, 5),
    delays_s=st.lists(st.tuples(DELAY_S, DELAY_S), min_size=4, max_size=4),
)
@settings(max_examples=100, deadline=None)
def test_an_answer_never_moves_an_offset_away_from_the_truth(
    known_s: float, ahead_s: float, delays_s: list[tuple[float, float]]
) -> None:
    async def case() -> None:
        clock = NodeClock(VirtualClock())
        clock.offset_us = known_us = round(known_s * SECOND_US)
        true_us = round(ahead_s * SECOND_US)
        await clock.measure(DistantStore(delays_s, ahead_s=ahead_s))
        low_us, high_us = sorted((known_us, true_us))
        assert low_us - 2 <= clock.offset_us <= high_us + 2

    run(case())


def test_a_clock_that_was_set_is_not_believed_until_it_was_compared() -> None:
    """What is written between the moment it was set and the next comparison bears the right time all the same."""

    async def case() -> None:
        wall = VirtualClock()
        clock, store = NodeClock(wall), DistantStore(repeat((0.0, 0.0)), ahead_s=0.25)
        await clock.measure(store)
        right = VirtualClock()
        for by_s in (5, -12):
            wall.jump(by_s)
            await asyncio.sleep(3)
            assert clock.is_wrong_now
            assert clock.now_us() == right.now_us() + SECOND_US // 4
            await clock.measure(store)
            assert clock.now_us() == right.now_us() + SECOND_US // 4

    run(case())
