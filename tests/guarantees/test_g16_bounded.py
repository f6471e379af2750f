"""G16: queues and memory stay within their limits."""

from chronos.core.execution import Execution, Status
from tests.support.engine_world import World, in_world


@in_world
async def test_g16_bounded(world: World) -> None:
    """Many triggers and huge errors and results: memory and the stored size of a run are bounded."""
    work = world.work("work", takes=0.5)
    world.work("long-error", RuntimeError("x" * 10_000_000))
    world.work("large-result", lambda: "x" * 2_000_000)
    node = await world.node(slots=10)
    await world.job("work", schedule="manual", overlap="allow", queue_max=100)
    for _ in range(500):
        await world.executions.trigger("work")
    await world.advance(5)
    assert (work.most, node.engine.running_count) == (10, 10)
    for name in ("long-error", "large-result"):
        await world.job(name, schedule="now", retry={"max_attempts": 1}, priority=10)
    await world.advance(30)
    assert len(work.ends) == 500
    for name in ("long-error", "large-result"):
        end = await world.last(name)
        assert end.status is Status.FAILED
        assert len(str(end)) < 20_000
        assert all(len(attempt.error or "") <= 4_000 for attempt in await world.attempts(end))


@in_world
async def test_g16_bounded_queues_stay_within_their_limit(world: World) -> None:
    world.work("work", takes=1000)
    await world.job("work", schedule="@every 1s", overlap="queue", queue_max=20, recovery="all")
    await world.advance(500)
    await world.node()
    for _ in range(5):
        await world.advance(20)
        assert await world.count(Status.QUEUED) <= 20
    assert sum(isinstance(record, Execution) for record in await world.records("work")) <= 150
