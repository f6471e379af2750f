"""Claimed executions that a node cannot start: it was suspended, or cannot read the definition."""

import asyncio
from collections.abc import Sequence
from typing import Any

from chronos.core.events import ProblemReported
from chronos.core.execution import AttemptStatus, Status
from chronos.core.job import Job
from chronos.errors import ChronosError, StoreBroken, StoreUnavailable
from chronos.store.commands import Beat, Claim, Command
from tests.support.engine_world import NodeOfWorld, World, in_world


class Reads:
    """The reads of definitions: they fail a number of times, or wait."""

    def __init__(self, world: World, node: NodeOfWorld) -> None:
        self._read = world.store.jobs_by_id
        self.errors: list[ChronosError] = []
        self.pass_on = asyncio.Event()
        self.pass_on.set()
        self.count = 0
        node.link.jobs_by_id = self  # type: ignore[attr-defined]

    async def __call__(self, jobs: Sequence[bytes]) -> dict[bytes, Job]:
        self.count += 1
        await self.pass_on.wait()
        if self.errors:
            raise self.errors.pop()
        return await self._read(jobs)


async def _one_behind_the_other(world: World) -> None:
    """Queue two executions. The second runs under a version that no node has loaded."""
    await world.job("slow", overlap="queue")
    await world.advance(2)
    await world.executions.trigger("slow")
    await world.advance(0.5)
    assert (await world.count(Status.RUNNING), await world.count(Status.QUEUED)) == (1, 1)
    await world.job("slow", overlap="queue", description="as it is now")


@in_world
async def test_a_definition_that_is_briefly_unreadable_is_read_again(world: World) -> None:
    work = world.work("slow", takes=5)
    node = await world.node(slots=1)
    await _one_behind_the_other(world)
    reads = Reads(world, node)
    reads.errors = [StoreUnavailable("not now")] * 3
    await world.advance(8.5)
    assert (reads.count, work.starts[1] - work.starts[0] < 5.5) == (4, True)
    assert [event.error for event in node.events if isinstance(event, ProblemReported)] == ["not now"] * 3
    await world.executions.trigger("slow")  # its slot is free again
    await world.advance(6)
    assert (len(work.ends), work.most) == (3, 1)


@in_world
async def test_an_execution_that_cannot_start_for_long_is_released(world: World) -> None:
    work = world.work("slow", takes=5)
    node = await world.node(slots=1)
    await _one_behind_the_other(world)
    reads = Reads(world, node)
    reads.pass_on.clear()
    await world.advance(30)
    assert (await world.count(Status.READY), len(work.starts)) == (1, 1)
    reads.pass_on.set()
    await world.advance(8)
    assert (len(work.ends), work.most) == (2, 1)
    assert [run.status for run in await world.runs("slow")] == [Status.SUCCEEDED] * 2


@in_world
async def test_a_broken_definition_keeps_no_slot(world: World) -> None:
    work, other = world.work("slow", takes=5), world.work("other")
    node = await world.node(slots=1)
    await _one_behind_the_other(world)
    reads = Reads(world, node)
    reads.errors = [StoreBroken("the page is damaged")]
    await world.job("other", schedule="@every 8s")
    await world.advance(9)
    assert len(other.starts) == 1
    await world.advance(30)
    assert (len(work.ends), work.most, reads.errors) == (2, 1, [])


@in_world
async def test_a_node_declared_dead_does_not_start_earlier_claims(world: World) -> None:
    work = world.work("slow", 5, 100)
    node = await world.node("one", slots=1)
    await _one_behind_the_other(world)
    reads = Reads(world, node)
    reads.pass_on.clear()
    node.link.refuses = lambda command: isinstance(command, Beat)
    await world.advance(5)
    assert reads.count == 1
    await world.node("two")
    await world.advance(60)
    assert len(work.starts) == 2  # taken over by the other node
    node.link.refuses = lambda _: False
    reads.pass_on.set()
    await world.advance(5)
    assert (len(work.starts), work.most) == (2, 1)


@in_world
async def test_a_suspended_node_does_not_start_earlier_claims(world: World) -> None:
    """When the process continues, another node may already hold the execution."""
    work = world.work("work", takes=5)
    node = await world.node()

    def stands_still(command: Command[Any]) -> bool:
        if isinstance(command, Claim):
            node.link.loses = lambda _: False
            world.stand_still(40)
        return False

    node.link.loses = stands_still
    await world.job("work", schedule="now")
    await world.advance(60)
    assert (len(work.starts), work.cut) == (1, [])
    assert (await world.attempts(await world.last("work")))[0].status is AttemptStatus.LOST
