"""G13: nothing unstarted starts after pause, cancel or delete."""

from chronos.core.execution import Status
from tests.support.engine_world import World, in_world


@in_world
async def test_g13_control(world: World) -> None:
    """After the answer to pause, cancel and delete nothing unstarted starts, on any node."""
    works = {name: world.work(name, takes=1) for name in ("paused", "deleted", "canceled")}
    block = world.work("block", takes=20)
    for _ in range(2):
        await world.node(slots=1)
    for n in range(2):
        await world.job(f"block-{n}", schedule="now", does="block")
    await world.advance(1)
    for name in works:
        await world.job(name, schedule="@every 2s", overlap="queue")
    await world.reach(12)
    assert await world.count(Status.READY) == 3
    await world.switch("pause", "paused")
    await world.jobs.delete("deleted")
    for run_ in await world.runs("canceled"):
        assert await world.executions.cancel(run_.id) is Status.CANCELED
    canceled = {run_.id for run_ in await world.runs("canceled")}
    await world.switch("disable", "canceled")
    for node in world.nodes:
        await node.crash()
    for _ in range(2):
        await world.node()
    await world.advance(120)
    assert [work.starts for work in works.values()] == [[], [], []]
    assert all(run_.status is Status.CANCELED for run_ in await world.runs("canceled") if run_.id in canceled)
    assert len(block.ends) == 2


@in_world
async def test_g13_control_an_admission_on_its_way_comes_too_late(world: World) -> None:
    """A node hangs at the instant; meanwhile the job is deleted, paused, changed."""
    works = {name: world.work(name) for name in ("deleted", "paused", "changed")}
    node = await world.node()
    for name in works:
        await world.job(name, schedule="@every 10s")
    await world.reach(9)
    node.link.freeze()
    await world.reach(11)
    await world.jobs.delete("deleted")
    await world.switch("pause", "paused")
    changed = world.work("otherwise")
    await world.job("changed", schedule="@every 10s", does="otherwise")
    node.link.thaw()
    await world.reach(19)
    assert [work.starts for work in works.values()] == [[], [], []]
    assert len(changed.starts) == 1, "late, and as the job is now"
