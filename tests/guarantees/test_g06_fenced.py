"""G6: a stale claim token changes nothing."""

from chronos.core.execution import AttemptStatus, Status
from chronos.core.reasons import ReasonCode
from chronos.store.commands import Beat, Settle, SettleRow
from tests.support.engine_world import World, in_world
from tests.support.guarantee_checks import find_busy_node


@in_world
async def test_g6_fenced(world: World) -> None:
    """Late commands of a node that was declared dead are refused, and change nothing."""
    world.work("work", 1000, 5)
    await world.node()
    await world.node()
    await world.job("work", schedule="now")
    await world.advance(1)
    zombie = find_busy_node(world)
    number, held = zombie.number, await world.last("work")
    zombie.link.freeze()
    await world.advance(60)
    end = await world.last("work")
    assert (end.status, end.node == number) == (Status.SUCCEEDED, False)
    assert end.token > held.token
    late = SettleRow(held.id, held.job, held.token, Status.FAILED, ReasonCode.TASK_FAILED, "late", world.clock.now_us())
    answer = await world.store.apply(Settle(rows=(late,), node=number, now_us=world.clock.now_us()))
    assert answer.settled == []
    assert not (await world.store.apply(Beat(node=number, beat=10**6, now_us=world.clock.now_us()))).alive
    assert await world.last("work") == end
    attempts = await world.attempts(end)
    assert [attempt.status for attempt in attempts] == [AttemptStatus.LOST, AttemptStatus.SUCCEEDED]


@in_world
async def test_g6_a_thawed_node_returns_with_a_new_number(world: World) -> None:
    world.work("work", 1000, 5)
    await world.node()
    await world.node()
    await world.job("work", schedule="now")
    await world.advance(1)
    zombie = find_busy_node(world)
    number = zombie.number
    zombie.link.freeze()
    await world.advance(90)
    zombie.link.thaw()
    await world.advance(5)
    assert zombie.number not in (0, number)
    assert zombie.engine.running_count == 0
    alive = [node.number for node in await world.store.nodes() if node.stopped_us is None]
    assert sorted(alive) == sorted(node.number for node in world.nodes)
