"""G5: a healthy node is never declared dead, whatever happens to the node that watches it; G4: a dead one soon is."""

import asyncio
from random import Random
from typing import Any

import pytest

from chronos.core.events import NodeLost
from chronos.core.execution import AttemptStatus
from chronos.core.node import Node
from chronos.engine.heartbeat import Heartbeat
from chronos.store.commands import Command, Reap
from tests.support.engine_world import NodeOfWorld, World, in_world

TIMEOUT_S = 3.0
SCAN_S = 1.0
OPTIONS = {"heartbeat_s": TIMEOUT_S / 2, "heartbeat_timeout_s": TIMEOUT_S, "reaper_s": SCAN_S, "tick_s": 0.5}
OFTEN = {"max_attempts": 9, "initial_interval": "100ms", "max_interval": "100ms", "jitter": 0}
TRIALS = 50
TROUBLE_S = 25.0


def lost(*nodes: NodeOfWorld) -> list[int]:
    """The nodes that others declared dead."""
    return [event.node for node in nodes for event in node.events if isinstance(event, NodeLost)]


def delay_looks(node: NodeOfWorld, dice: Random) -> None:
    """Now and then it takes long to ask for the nodes: on the way there, on the way back, or both."""
    read = node.link.nodes

    async def nodes() -> list[Node]:
        await asyncio.sleep(dice.choice((0.0, 0.0, 0.3, 2.0, 4.0, 8.0)))
        answer: list[Node] = await read()
        await asyncio.sleep(dice.choice((0.0, 0.0, 0.0, 0.3, 2.0, 8.0)))
        return answer

    node.link.nodes = nodes  # type: ignore[attr-defined]


async def cut_now_and_then(node: NodeOfWorld, dice: Random, until_s: float) -> None:
    """Its calls hang and go on later, or fail, or hang and then fail."""
    loop = asyncio.get_running_loop()
    while loop.time() < until_s:
        await asyncio.sleep(dice.uniform(0.1, 4))
        lasts_s = dice.choice((0.3, 1.2, 2.5, 5.0, 8.0)) * dice.uniform(0.8, 1.2)
        how = dice.choice(("hangs", "fails", "both"))
        node.link.cut = how == "fails"
        if how != "fails":
            node.link.freeze()
        await asyncio.sleep(lasts_s)
        node.link.cut = how == "both"
        node.link.thaw()
        await asyncio.sleep(0)
        node.link.cut = False


@pytest.mark.parametrize("seed", range(TRIALS))
@in_world
async def test_g5_a_node_that_is_cut_off_takes_nothing_from_healthy_ones(world: World, seed: int) -> None:
    dice = Random(seed)
    works = [world.work(f"work-{n}", takes=TROUBLE_S + 30) for n in range(3)]
    for work in works:
        await world.job(work.name, schedule="now", retry=OFTEN)
    healthy = [await world.node(name, **OPTIONS) for name in ("one", "two")]
    await world.advance(dice.uniform(1, 3))
    before = {node.number for node in healthy}
    observer = await world.node("observer", works=False, **OPTIONS)
    delay_looks(observer, dice)
    await cut_now_and_then(observer, dice, world.passed_s + TROUBLE_S)
    await world.advance(10)  # long enough to act on what it believes
    own = observer.engine.node.former_numbers  # which it gave up itself, and may take over at once
    others = [number for number in lost(*healthy, observer) if number not in own]
    assert others == [number for number in lost(*healthy) if number not in before | own]
    assert {node.number for node in healthy} == before
    assert [(len(work.starts), work.cut) for work in works] == [(1, [])] * len(works)

    # And one that is killed then is noticed by the only one that is left to notice, in time.
    del observer.link.nodes
    await healthy[1].crash()
    second = await world.node("third", **OPTIONS)
    await world.advance(2 * TIMEOUT_S)
    killed_s, beaten_s = world.passed_s, beaten(healthy[0])
    await healthy[0].crash()
    await world.advance(TIMEOUT_S + 2 * SCAN_S - (killed_s - beaten_s))
    runs = [await world.last(work.name) for work in works]
    assert {run.node for run in runs} == {second.number}


def beaten(node: NodeOfWorld) -> float:
    """When it was last heard of, in monotonic seconds."""
    life: Heartbeat = node.engine.node
    return life._last_beat_s


@in_world
async def test_g5_a_node_that_beat_again_keeps_what_it_runs(world: World) -> None:
    """It is believed dead, beats before its work is taken, and so nothing is taken: neither now nor as left behind."""
    work = world.work("work", takes=60)
    await world.job("work", schedule="now", retry=OFTEN)
    one = await world.node("one", **OPTIONS)
    await world.advance(4)
    two = await world.node("two", works=False, **OPTIONS)
    one.engine.node._kill_cutoff_s = 1e9  # it does not end its own work, so that only the others could
    one.engine.node._start_cutoff_s = 1e9
    one.link.cut = True
    asked: list[Command[Any]] = []

    def beat_first(command: Command[Any]) -> bool:
        if isinstance(command, Reap):
            asked.append(command)
            one.link.cut = False
        return False

    held_by = world.store.held_by

    async def held(node: int) -> list[Any]:
        answer = await held_by(node)
        one.link.cut = False
        one.engine.node.beat_soon()
        await world.advance(0.5)
        return answer

    two.link.held_by = held  # type: ignore[attr-defined]
    two.link.refuses = beat_first
    await world.advance(20)
    assert asked, "it was believed dead"
    assert (len(work.starts), work.cut) == (1, [])
    assert lost(one, two) == []
    assert [a.status for a in await world.attempts(await world.last("work"))] in ([], [AttemptStatus.RUNNING])


@in_world
async def test_g5_a_node_ends_its_work_in_time_although_its_store_does_not_let_go_of_a_call(world: World) -> None:
    """A driver may need the server's answer to end a call that was cancelled."""
    work = world.work("work", takes=60)
    await world.job("work", schedule="now", retry=OFTEN)
    one = await world.node("one", **OPTIONS)
    await world.advance(2)
    two = await world.node("two", **OPTIONS)
    answers = asyncio.Event()
    clock_us = one.link.clock_us

    async def hangs() -> int | None:
        try:
            await answers.wait()
        except asyncio.CancelledError:
            await answers.wait()
            raise
        return await clock_us()

    one.link.clock_us = hangs  # type: ignore[method-assign]
    one.link.freeze()
    hung_s, number = world.passed_s, one.number
    await world.advance(TIMEOUT_S + 3 * SCAN_S)
    assert lost(two) == [number]
    assert len(work.cut) == 1
    assert work.cut[0] <= hung_s + TIMEOUT_S
    assert len(work.starts) == 2
    assert work.cut[0] < work.starts[1]
    answers.set()
    one.link.thaw()
    await world.advance(10)
    assert len(work.starts) == 2


@in_world
async def test_of_two_nodes_that_take_over_at_once_only_the_one_that_did_reports_it(world: World) -> None:
    work = world.work("work", takes=60)
    await world.job("work", schedule="now", retry=OFTEN)
    dead = await world.node("dead", **OPTIONS)
    await world.advance(3)
    watchers = [await world.node(name, works=False, **OPTIONS) for name in ("one", "two")]
    asked: list[int] = []
    both = asyncio.Event()

    def wait_for_the_other(watcher: NodeOfWorld) -> None:
        held_by = watcher.link.held_by

        async def held(node: int) -> list[Any]:
            answer: list[Any] = await held_by(node)
            asked.append(node)
            if len(asked) == 2:
                both.set()
            await both.wait()
            return answer

        watcher.link.held_by = held  # type: ignore[attr-defined]

    for watcher in watchers:
        wait_for_the_other(watcher)
    number = dead.number
    await dead.crash()
    await world.advance(20)
    assert asked == [number, number], "both believed it dead"
    assert lost(*watchers) == [number]
    assert len(work.starts) == 1


@in_world
async def test_g5_a_node_that_came_while_another_one_hung_keeps_what_it_runs(world: World) -> None:
    """Which nodes there are was read before it came; which work runs is read long after."""
    work = world.work("work", takes=60)
    dead = await world.node("dead", **OPTIONS)
    watcher = await world.node("watcher", works=False, **OPTIONS)
    await world.advance(3)
    await dead.crash()
    held_by = world.store.held_by
    came: list[NodeOfWorld] = []

    async def held(node: int) -> list[Any]:
        answer = await held_by(node)
        if not came:
            came.append(await world.node("new", **OPTIONS))
            await world.job("work", schedule="now", retry=OFTEN)
            await world.advance(TIMEOUT_S + 2)
        return answer

    watcher.link.held_by = held  # type: ignore[attr-defined]
    await world.advance(25)
    assert came
    assert (len(work.starts), work.cut) == (1, [])
    assert (await world.last("work")).node == came[0].number
