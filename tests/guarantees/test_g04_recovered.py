"""G4: work of a dead node continues within the heartbeat timeout and two scans."""

import pytest

from chronos.core.execution import Status
from tests.support.engine_world import World, in_world
from tests.support.guarantee_checks import find_busy_node


@pytest.mark.parametrize("crash_at", [0.5, 5, 9.5, 14, 21.3])
@pytest.mark.parametrize("delivery", ["at_least_once", "at_most_once"])
@in_world
async def test_g4_recovered(world: World, crash_at: float, delivery: str) -> None:
    """At most 40 s pass from a node's last heartbeat to the next attempt or a final status."""
    work = world.work("work", takes=300)
    await world.node()
    await world.node()
    await world.job("work", schedule="now", delivery=delivery)
    await world.advance(crash_at)
    dead = find_busy_node(world)
    number = dead.number
    await dead.crash()
    [stored] = [node for node in await world.store.nodes() if node.number == number]
    last_s = world.second(max(stored.beat_us, stored.started_us))
    await world.reach(last_s + 40)
    execution = await world.last("work")
    if delivery == "at_most_once":
        assert (execution.status, len(work.starts)) == (Status.STALE, 1)
    else:
        assert (execution.status, len(work.starts)) == (Status.RUNNING, 2)
        assert work.starts[1] <= last_s + 40
