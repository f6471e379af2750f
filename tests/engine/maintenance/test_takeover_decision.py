"""What a takeover makes of the time that a dead node held an execution."""

from chronos.core.execution import AttemptStatus, Status
from tests.support.engine_world import World, in_world


@in_world
async def test_time_after_the_death_of_a_node_is_not_work(world: World) -> None:
    """The first attempt works for 25 s, the second one for 25 s; the node's silence of 30 s in between is not work."""
    world.work("work", 1000.0, 25.0)
    first = await world.node()
    await world.job("work", schedule="now", execution_timeout="60s")
    await world.advance(1)
    await world.node()
    await world.reach(25)
    await first.crash()
    await world.advance(120)
    end = await world.last("work")
    lost, second = await world.attempts(end)
    assert (lost.status, second.status) == (AttemptStatus.LOST, AttemptStatus.SUCCEEDED)
    assert second.started_us - lost.started_us >= 50_000_000
    assert end.status is Status.SUCCEEDED
    assert 40_000_000 < (end.detail or {})["report"]["worked_us"] <= 50_000_000
