"""G5: no two executions of one job run under skip, queue and replace."""

import pytest

from chronos.core.execution import Status
from tests.support.engine_world import World, in_world
from tests.support.guarantee_checks import check_no_overlap, find_busy_node


@pytest.mark.parametrize("overlap", ["skip", "queue", "replace"])
@in_world
async def test_g5_no_overlap(world: World, overlap: str) -> None:
    """Nodes crash and freeze: the store never has two running executions, and two functions never run at once."""
    work = world.work("work", takes=8)
    saved = await world.job("work", schedule="@every 5s", overlap=overlap)
    for _ in range(3):
        await world.node()
    await check_no_overlap(world, saved.job_id, 17)
    frozen = find_busy_node(world)
    frozen.link.freeze()
    await check_no_overlap(world, saved.job_id, 50)
    frozen.link.thaw()
    await check_no_overlap(world, saved.job_id, 20)
    busy = [node for node in world.nodes if node.engine.running_count]
    if busy:
        await busy[0].crash()
    await check_no_overlap(world, saved.job_id, 60)
    assert work.most == 1
    assert len(work.starts) > 4


@in_world
async def test_g5_a_node_that_cannot_send_heartbeats_kills_its_work_before_others_take_over(world: World) -> None:
    work = world.work("work", 1000, 5)
    await world.node()
    await world.node()
    await world.job("work", schedule="now")
    await world.advance(12)
    find_busy_node(world).link.freeze()
    await world.advance(60)
    [killed] = work.cut
    assert len(work.starts) == 2
    assert killed < work.starts[1]
    assert killed <= 12 + 30 + 0.1


@in_world
async def test_g5_a_node_without_a_connection_kills_its_work_too(world: World) -> None:
    work = world.work("work", 1000, 5)
    await world.node()
    await world.node()
    await world.job("work", schedule="now")
    await world.advance(12)
    node = find_busy_node(world)
    node.link.cut = True
    await world.advance(60)
    assert (len(work.cut), work.most, len(work.starts)) == (1, 1, 2)
    node.link.cut = False
    await world.advance(60)
    assert [run.status for run in await world.runs("work")] == [Status.SUCCEEDED]
