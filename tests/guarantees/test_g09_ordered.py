"""G9: executions of one job run in instant order under queue."""

from tests.support.engine_world import World, in_world
from tests.support.guarantee_checks import list_instants, list_recorded_instants


@in_world
async def test_g9_ordered(world: World) -> None:
    """Under ``queue``, whatever happens to nodes; what is recovered comes first."""
    world.work("work", *[4, 1, 9, 1, 1, 14, 1, 1, 6], takes=1)
    await world.job("work", schedule="@every 5s", overlap="queue", recovery="all")
    first = await world.node()
    await world.node()
    await world.reach(32)
    await first.crash()
    await world.reach(48)
    for node in world.nodes[1:]:
        await node.crash()
    await world.reach(120)
    await world.node()
    await world.reach(200)
    runs = [run for run in await world.runs("work") if run.started_us is not None]
    assert [run.started_us for run in runs] == sorted(run.started_us or 0 for run in runs)
    assert list_recorded_instants(world, list(runs), 5) == list_instants(5, 200, 5)
