"""Which nodes are expected to admit jobs: those that were seen alive, not those that are only registered."""

from tests.support.engine_world import World, in_world

JOBS = 20


@in_world
async def test_a_killed_node_makes_no_run_late(world: World) -> None:
    """It stays registered until the heartbeat timeout, but its share of the jobs must not wait for it."""
    works = [world.work(f"work-{n}") for n in range(JOBS)]
    for n in range(JOBS):
        await world.job(f"work-{n}", schedule="@every 2s")
    node = await world.node("same")
    await world.reach(5)
    await node.crash()
    await world.node("same")
    await world.reach(15)
    for work in works:
        late = [start % 2 for start in work.starts]
        assert max(late) < 0.5, work.starts
        assert len(work.starts) == 7


@in_world
async def test_jobs_are_shared_among_live_nodes(world: World) -> None:
    works = [world.work(f"work-{n}") for n in range(JOBS)]
    for n in range(JOBS):
        await world.job(f"work-{n}", schedule="@every 5s")
    nodes = [await world.node("one"), await world.node("two")]
    await world.reach(62)
    ran_by: set[int | None] = set()
    for n, work in enumerate(works):
        ran_by |= {run.node for run in (await world.runs(f"work-{n}"))[-4:]}
        assert max(start % 5 for start in work.starts) < 1.5, work.starts
    assert ran_by == {node.number for node in nodes}
