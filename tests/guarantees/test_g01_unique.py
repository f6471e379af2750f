"""G1: at most one execution exists per job, instant and cause."""

import asyncio
from random import Random

from chronos.core.execution import Status
from tests.support.engine_world import World, in_world
from tests.support.guarantee_checks import COMMANDS_THAT_MAY_BE_LOST, list_instants, list_recorded_instants


@in_world
async def test_g1_unique(world: World) -> None:
    """Three nodes, and every third answer is lost: each instant has one record and one run."""
    work = world.work("work")
    rng = Random(7)
    for _ in range(3):
        (await world.node()).link.loses = lambda command: (
            isinstance(command, COMMANDS_THAT_MAY_BE_LOST) and rng.random() < 1 / 3
        )
    for name in ("a", "b", "c"):
        await world.job(name, schedule="@every 2s", does="work", overlap="allow", end="2027-01-01T00:01:00Z")
    await world.reach(60.5)
    for node in world.nodes:
        node.link.loses = lambda _: False
    await world.reach(90)  # claims whose answer was lost are released after two heartbeats
    for name in ("a", "b", "c"):
        records = await world.records(name)
        assert list_recorded_instants(world, records, 2) == list_instants(2, 60, 2)
        assert {record.status for record in records} == {Status.SUCCEEDED}
    assert len(work.starts) == 90


@in_world
async def test_g1_unique_when_all_nodes_recover_the_same_gap(world: World) -> None:
    work = world.work("work")
    await world.job("work", schedule="@every 10s", recovery="all", overlap="allow")
    await world.advance(995)
    await asyncio.gather(*(world.node() for _ in range(4)))
    await world.advance(4)
    assert list_recorded_instants(world, await world.records("work"), 10) == list_instants(10, 990, 10)
    assert len(work.starts) == 99
