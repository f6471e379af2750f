"""Clean shutdown: what finishes in time, what is released, what continues at the next start."""

import asyncio
from typing import Any

from chronos.core.execution import AttemptStatus, Status
from tests.engine.execution.test_execution_run import finished, python
from tests.support.engine_world import World, in_world


@in_world
async def test_work_finishes_within_the_grace_period(world: World) -> None:
    work = world.work("work", takes=10)
    node = await world.node()
    await world.job("work", schedule="@every 20s")
    await world.reach(22)
    await node.stop(grace_s=30)
    assert world.passed_s < 32
    assert (await world.story("work"), work.ends) == (["20 succeeded"], [30])
    await world.advance(100)
    assert len(work.starts) == 1, "nothing more is admitted"
    [record] = await world.store.nodes()
    assert record.stopped_us is not None


@in_world
async def test_unfinished_work_is_released_and_uses_no_attempt(world: World) -> None:
    work = world.work("work", 1000, 5)
    node = await world.node()
    await world.job("work", schedule="now", retry={"max_attempts": 1})
    await world.advance(2)
    await node.stop(grace_s=10)
    run = await world.last("work")
    assert (run.status, run.attempt, work.cut) == (Status.READY, 1, [12])
    await world.node()
    end = await finished(world, "work")
    assert (end.status, len(work.starts)) == (Status.SUCCEEDED, 2)
    assert [(a.number, a.status) for a in await world.attempts(end)] == [(1, AttemptStatus.SUCCEEDED)]


@in_world
async def test_hooks_of_the_last_executions_run_within_a_time_limit(world: World) -> None:
    work, quick, slow = world.work("work", takes=10), world.work("quick", takes=2), world.work("slow", 1000, 3)
    node = await world.node()
    for hook in ("quick", "slow"):
        name = f"then-{hook}"
        await world.job(name, schedule="now", does="work", on_complete={"python": {"name": hook}})
    await world.advance(5)
    await node.stop(grace_s=30)
    assert (work.ends, quick.ends, slow.cut) == ([10, 10], [12], [15])
    await world.node()
    await world.advance(30)
    assert (len(quick.starts), len(slow.starts), len(slow.ends)) == (1, 2, 1), "what was cut short is called again"


@in_world
async def test_a_failing_hook_is_left_to_the_next_node(world: World) -> None:
    """Its attempts are not used up during the shutdown, and the shutdown does not wait for the pauses between them."""
    world.work("work", takes=10)
    world.work("quick")
    failing, paused = world.work("failing", fails=True), world.work("paused", fails=True)
    node = await world.node()
    await world.job("then-paused", schedule="now", does="quick", on_complete={"python": {"name": "paused"}})
    await world.job("then-failing", schedule="now", does="work", on_complete={"python": {"name": "failing"}})
    await world.advance(9)
    before = len(paused.starts)
    await node.stop(grace_s=30)
    assert (failing.starts, len(paused.starts), world.passed_s) == ([10], before, 10)
    await world.node()
    await world.advance(60)
    assert len(failing.starts) == 1 + 5


@in_world
async def test_another_node_continues_at_once(world: World) -> None:
    work = world.work("work", 1000, 5)
    first = await world.node()
    await world.job("work", schedule="now")
    await world.advance(2)
    second = await world.node()
    await first.stop(grace_s=1)
    await world.advance(10)
    end = await world.last("work")
    assert (end.status, end.node, len(work.starts)) == (Status.SUCCEEDED, second.number, 2)


@in_world
async def test_work_sees_at_once_that_the_node_stops(world: World) -> None:
    noticed_s: list[float] = []

    async def work(ctx: Any) -> None:
        while not ctx.stopping:
            await world.advance(1)
        noticed_s.append(world.passed_s)

    world.functions.register("work", work)
    node = await world.node()
    await world.job("work", schedule="now")
    await world.advance(5.5)
    await node.stop()
    assert noticed_s == [6]
    assert (await world.last("work")).status is Status.SUCCEEDED


@in_world
async def test_work_that_ignores_every_stop_does_not_delay_the_shutdown(world: World) -> None:
    world.work("work", takes=10_000, stubborn=True)
    node = await world.node()
    await world.job("work", schedule="now", task_timeout="5h", execution_timeout="5h")
    await world.advance(1)
    await node.stop(grace_s=10)
    assert world.passed_s < 20
    assert (await world.last("work")).status is Status.READY


@in_world
async def test_unfinished_at_most_once_work_fails(world: World) -> None:
    work = world.work("work", takes=1000)
    node = await world.node()
    await world.job("work", schedule="now", delivery="at_most_once")
    await world.advance(1)
    await node.stop(grace_s=5)
    await world.node()
    await world.advance(60)
    assert ((await world.last("work")).status, len(work.starts)) == (Status.FAILED, 1)


@in_world
async def test_a_task_group_continues_where_it_stopped(world: World) -> None:
    a, b, c = world.work("a", takes=5), world.work("b", 1000, 1), world.work("c", takes=1)
    node = await world.node()
    await world.job("group", schedule="now", tasks=[python("a"), python("b"), python("c")])
    await world.advance(7)
    await node.stop(grace_s=3)
    await world.node()
    end = await finished(world, "group")
    assert (end.status, [len(work.starts) for work in (a, b, c)]) == (Status.SUCCEEDED, [1, 2, 1])


@in_world
async def test_no_further_task_starts_on_a_stopping_node(world: World) -> None:
    a, b = world.work("a", takes=5), world.work("b", takes=5)
    node = await world.node()
    await world.job("group", schedule="now", tasks=[python("a"), python("b")])
    await world.advance(2)
    await node.stop(grace_s=60)
    assert (a.ends, b.starts, (await world.last("group")).status) == ([5], [], Status.READY)
    await world.node()
    end = await finished(world, "group")
    assert (end.status, len(a.starts), len(b.starts)) == (Status.SUCCEEDED, 1, 1)


@in_world
async def test_a_failing_task_of_a_stopping_node_keeps_its_backoff(world: World) -> None:
    work = world.work("work", takes=5, fails=True)
    node = await world.node()
    await world.job("work", schedule="now", retry={"max_attempts": 2, "initial_interval": "30s", "jitter": 0})
    await world.advance(2)
    await node.stop(grace_s=60)
    assert (await world.last("work")).status is Status.WAITING
    await world.node()
    end = await finished(world, "work")
    assert (end.status, work.starts) == (Status.FAILED, [0, 35])


@in_world
async def test_no_retry_starts_on_a_stopping_node(world: World) -> None:
    """One task waits for its retry while another still runs. The next node makes the retry."""
    slow, flaky = world.work("slow", takes=20), world.work("flaky", RuntimeError("once"))
    node = await world.node()
    retry = {"initial_interval": "10s", "jitter": 0}
    await world.job("group", schedule="now", mode="parallel", retry=retry, tasks=[python("slow"), python("flaky")])
    await world.advance(5)
    await node.stop(grace_s=60)
    assert (slow.ends, flaky.starts) == ([20], [0])
    await world.node()
    end = await finished(world, "group")
    assert (end.status, len(slow.starts), len(flaky.starts)) == (Status.SUCCEEDED, 1, 2)


@in_world
async def test_a_second_stop_ends_the_grace_period(world: World) -> None:
    work = world.work("work", 1000, 1)
    node = await world.node()
    await world.job("work", schedule="now")
    await world.advance(2)
    stopping = asyncio.create_task(node.stop(grace_s=60))
    await world.advance(3)
    assert (work.cut, stopping.done()) == ([], False)
    await node.stop()
    await stopping
    assert (work.cut, (await world.last("work")).status) == ([5], Status.READY)
