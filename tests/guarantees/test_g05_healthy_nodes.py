"""G5: a healthy node is never declared dead, whatever happens to the node that watches it. G4: a dead one is."""

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
RETRY_OFTEN = {"max_attempts": 9, "initial_interval": "100ms", "max_interval": "100ms", "jitter": 0}
TRIALS = 50
FAULTS_S = 25.0


def list_declared_dead(*nodes: NodeOfWorld) -> list[int]:
    """The numbers of the nodes that these nodes declared dead."""
    return [event.node for node in nodes for event in node.events if isinstance(event, NodeLost)]


def delay_node_reads(node: NodeOfWorld, rng: Random) -> None:
    """Reading the nodes sometimes takes long: the request, the answer, or both."""
    read = node.link.nodes

    async def nodes() -> list[Node]:
        await asyncio.sleep(rng.choice((0.0, 0.0, 0.3, 2.0, 4.0, 8.0)))
        answer: list[Node] = await read()
        await asyncio.sleep(rng.choice((0.0, 0.0, 0.0, 0.3, 2.0, 8.0)))
        return answer

    node.link.nodes = nodes  # type: ignore[attr-defined]


async def disturb_link(node: NodeOfWorld, rng: Random, until_s: float) -> None:
    """Calls hang and continue later, or fail, or hang and then fail."""
    loop = asyncio.get_running_loop()
    while loop.time() < until_s:
        await asyncio.sleep(rng.uniform(0.1, 4))
        lasts_s = rng.choice((0.3, 1.2, 2.5, 5.0, 8.0)) * rng.uniform(0.8, 1.2)
        mode = rng.choice(("hangs", "fails", "both"))
        node.link.cut = mode == "fails"
        if mode != "fails":
            node.link.freeze()
        await asyncio.sleep(lasts_s)
        node.link.cut = mode == "both"
        node.link.thaw()
        await asyncio.sleep(0)
        node.link.cut = False


@pytest.mark.parametrize("seed", range(TRIALS))
@in_world
async def test_g5_a_node_that_is_cut_off_takes_nothing_from_healthy_nodes(world: World, seed: int) -> None:
    rng = Random(seed)
    works = [world.work(f"work-{n}", takes=FAULTS_S + 30) for n in range(3)]
    for work in works:
        await world.job(work.name, schedule="now", retry=RETRY_OFTEN)
    healthy = [await world.node(name, **OPTIONS) for name in ("one", "two")]
    await world.advance(rng.uniform(1, 3))
    before = {node.number for node in healthy}
    observer = await world.node("observer", works=False, **OPTIONS)
    delay_node_reads(observer, rng)
    await disturb_link(observer, rng, world.passed_s + FAULTS_S)
    await world.advance(10)  # long enough to act on a wrong belief
    own = observer.engine.node.former_numbers  # it may take over its own former numbers at once
    others = [number for number in list_declared_dead(*healthy, observer) if number not in own]
    assert others == [number for number in list_declared_dead(*healthy) if number not in before | own]
    assert {node.number for node in healthy} == before
    assert [(len(work.starts), work.cut) for work in works] == [(1, [])] * len(works)

    # A node that is killed then is noticed in time by the only node left.
    del observer.link.nodes
    await healthy[1].crash()
    second = await world.node("third", **OPTIONS)
    await world.advance(2 * TIMEOUT_S)
    killed_s, last_beat_s = world.passed_s, get_last_beat_s(healthy[0])
    await healthy[0].crash()
    await world.advance(TIMEOUT_S + 2 * SCAN_S - (killed_s - last_beat_s))
    runs = [await world.last(work.name) for work in works]
    assert {run.node for run in runs} == {second.number}


def get_last_beat_s(node: NodeOfWorld) -> float:
    """The monotonic time of its last heartbeat."""
    heartbeat: Heartbeat = node.engine.node
    return heartbeat._last_beat_s


@in_world
async def test_g5_a_node_that_sends_a_heartbeat_in_time_keeps_its_work(world: World) -> None:
    """It is believed dead, and sends a heartbeat before its work is taken over. So nothing is taken, then or later."""
    work = world.work("work", takes=60)
    await world.job("work", schedule="now", retry=RETRY_OFTEN)
    one = await world.node("one", **OPTIONS)
    await world.advance(4)
    two = await world.node("two", works=False, **OPTIONS)
    one.engine.node._kill_cutoff_s = 1e9  # it does not kill its own work, so that only others could end it
    one.engine.node._start_cutoff_s = 1e9
    one.link.cut = True
    reaps: list[Command[Any]] = []

    def beat_first(command: Command[Any]) -> bool:
        if isinstance(command, Reap):
            reaps.append(command)
            one.link.cut = False
        return False

    running_on = world.store.running_on

    async def held(node: int) -> list[Any]:
        answer = await running_on(node)
        one.link.cut = False
        one.engine.node.beat_soon()
        await world.advance(0.5)
        return answer

    two.link.running_on = held  # type: ignore[attr-defined]
    two.link.refuses = beat_first
    await world.advance(20)
    assert reaps, "it was believed dead"
    assert (len(work.starts), work.cut) == (1, [])
    assert list_declared_dead(one, two) == []
    assert [a.status for a in await world.attempts(await world.last("work"))] in ([], [AttemptStatus.RUNNING])


@in_world
async def test_g5_a_node_kills_its_work_in_time_although_a_call_to_the_store_hangs(world: World) -> None:
    """A driver may need an answer of the server to end a cancelled call."""
    work = world.work("work", takes=60)
    await world.job("work", schedule="now", retry=RETRY_OFTEN)
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
    assert list_declared_dead(two) == [number]
    assert len(work.cut) == 1
    assert work.cut[0] <= hung_s + TIMEOUT_S
    assert len(work.starts) == 2
    assert work.cut[0] < work.starts[1]
    answers.set()
    one.link.thaw()
    await world.advance(10)
    assert len(work.starts) == 2


@in_world
async def test_only_one_of_two_nodes_reports_a_takeover_at_the_same_time(world: World) -> None:
    work = world.work("work", takes=60)
    await world.job("work", schedule="now", retry=RETRY_OFTEN)
    dead = await world.node("dead", **OPTIONS)
    await world.advance(3)
    watchers = [await world.node(name, works=False, **OPTIONS) for name in ("one", "two")]
    reaped: list[int] = []
    both = asyncio.Event()

    def wait_for_other_watcher(watcher: NodeOfWorld) -> None:
        running_on = watcher.link.running_on

        async def held(node: int) -> list[Any]:
            answer: list[Any] = await running_on(node)
            reaped.append(node)
            if len(reaped) == 2:
                both.set()
            await both.wait()
            return answer

        watcher.link.running_on = held  # type: ignore[attr-defined]

    for watcher in watchers:
        wait_for_other_watcher(watcher)
    number = dead.number
    await dead.crash()
    await world.advance(20)
    assert reaped == [number, number], "both believed it dead"
    assert list_declared_dead(*watchers) == [number]
    assert len(work.starts) == 1


@in_world
async def test_g5_a_node_that_joins_during_a_takeover_keeps_its_work(world: World) -> None:
    """The nodes were read before it joined; the running work is read long after."""
    work = world.work("work", takes=60)
    dead = await world.node("dead", **OPTIONS)
    watcher = await world.node("watcher", works=False, **OPTIONS)
    await world.advance(3)
    await dead.crash()
    running_on = world.store.running_on
    joined: list[NodeOfWorld] = []

    async def held(node: int) -> list[Any]:
        answer = await running_on(node)
        if not joined:
            joined.append(await world.node("new", **OPTIONS))
            await world.job("work", schedule="now", retry=RETRY_OFTEN)
            await world.advance(TIMEOUT_S + 2)
        return answer

    watcher.link.running_on = held  # type: ignore[attr-defined]
    await world.advance(25)
    assert joined
    assert (len(work.starts), work.cut) == (1, [])
    assert (await world.last("work")).node == joined[0].number
