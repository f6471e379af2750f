"""Durable waits: ``wait`` tasks and waits inside Python functions, across restarts of everything."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from chronos.core.execution import Status
from tests.engine.execution.test_execution_run import finished, python
from tests.support.engine_world import World, in_world

# --- wait tasks


def before_and_after(**wait: Any) -> dict[str, Any]:
    return {"schedule": "now", "tasks": [python("before"), {"name": "pause", "wait": wait}, python("after")]}


@pytest.mark.parametrize(
    ("wait", "ends"),
    [
        ({"for": "30s"}, 31),
        ({"until": "2027-01-01T00:00:45Z"}, 45),
        ({"schedule": "* * * * *"}, 60),
        ({"for": "50s", "until": "2027-01-01T00:00:20Z"}, 20),
    ],
)
@pytest.mark.parametrize("restart", [False, True])
@in_world
async def test_a_wait_for_time(world: World, wait: dict[str, Any], ends: float, restart: bool) -> None:
    before, after = world.work("before", takes=1), world.work("after")
    node = await world.node()
    await world.job("job", **before_and_after(**wait))
    await world.advance(5)
    assert ((await world.last("job")).status, node.engine.running_count) == (Status.WAITING, 0)
    if restart:
        await node.crash()
        await world.node()
    await world.advance(60)
    assert before.starts == [0]
    assert after.starts == pytest.approx([ends], abs=0.01)
    assert (await world.last("job")).status is Status.SUCCEEDED


@in_world
async def test_a_wait_that_ends_while_no_node_is_alive(world: World) -> None:
    world.work("before")
    after = world.work("after")
    node = await world.node()
    await world.job("job", **before_and_after(**{"for": "30s"}))
    await world.advance(5)
    await node.crash()
    await world.advance(1000)
    await world.node()
    await world.advance(3)
    assert after.starts == pytest.approx([1005], abs=1.1)


@in_world
async def test_a_signal_ends_a_wait_with_its_payload(world: World) -> None:
    world.work("before")
    after = world.work("after")
    node = await world.node()
    await world.job("job", **before_and_after(signal="approved"))
    await world.advance(5)
    run = await world.last("job")
    assert await world.executions.signal(run.id, "something-else") is False
    await node.crash()
    await world.advance(100)
    await world.node()
    assert await world.executions.signal(run.id, "approved", {"by": "ann"}) is True
    await world.advance(2)
    end = await world.last("job")
    assert end.status is Status.SUCCEEDED
    assert after.starts == pytest.approx([105], abs=0.1)
    assert (end.detail or {})["result"] == {"pause": {"by": "ann"}}


@in_world
async def test_a_signal_that_does_not_arrive_in_time(world: World) -> None:
    world.work("before")
    after = world.work("after")
    await world.node()
    await world.job("job", **before_and_after(signal="approved", timeout="20s"))
    await world.advance(30)
    end = await world.last("job")
    assert (end.status, after.starts) == (Status.FAILED, [])
    assert await world.tasks(end) == {"before": "succeeded", "pause": "timed_out", "after": "skipped"}


@in_world
async def test_waiting_holds_no_slot_and_counts_against_no_timeout(world: World) -> None:
    world.work("before")
    world.work("after")
    other = world.work("other")
    await world.node(slots=1)
    await world.job("job", **before_and_after(**{"for": "100s"}), execution_timeout="10s", task_timeout="5s")
    await world.job("other", schedule="@every 30s")
    await world.reach(105)
    assert (await world.last("job")).status is Status.SUCCEEDED
    assert len(other.starts) == 3


@in_world
async def test_several_waits_at_once_wake_one_by_one(world: World) -> None:
    ends = [world.work(f"after-{n}") for n in (10, 20, 30)]
    await world.node()
    tasks: list[dict[str, Any]] = [{"name": f"wait-{n}", "wait": {"for": f"{n}s"}} for n in (10, 20, 30)]
    tasks += [python(f"after-{n}", needs=[f"wait-{n}"]) for n in (10, 20, 30)]
    await world.job("job", schedule="now", tasks=tasks)
    end = await finished(world, "job")
    assert [work.starts for work in ends] == [pytest.approx([at], abs=0.01) for at in (10, 20, 30)]
    assert end.status is Status.SUCCEEDED


@in_world
async def test_a_wait_beside_running_work(world: World) -> None:
    """The execution as a whole cannot sleep, but the wait still ends on time."""
    slow, after = world.work("slow", takes=30), world.work("after")
    await world.node()
    tasks = [python("slow"), {"name": "pause", "wait": {"for": "10s"}}, python("after", needs=["pause"])]
    await world.job("job", schedule="now", tasks=tasks)
    end = await finished(world, "job")
    assert (end.status, slow.ends) == (Status.SUCCEEDED, [30])
    assert after.starts == pytest.approx([10], abs=0.01)


@in_world
async def test_a_signal_beside_running_work(world: World) -> None:
    """One task runs while another waits for a signal. The signal can be sent and is not lost."""
    world.work("slow", takes=30)
    after = world.work("after")
    await world.node()
    tasks = [python("slow"), {"name": "pause", "wait": {"signal": "go"}}, python("after", needs=["pause"])]
    await world.job("job", schedule="now", tasks=tasks)
    await world.advance(10)
    run = await world.last("job")
    if not await world.executions.signal(run.id, "go"):  # it does not sleep yet: the sender must try again
        await world.advance(25)
        assert await world.executions.signal(run.id, "go") is True
    end = await finished(world, "job")
    assert (end.status, len(after.starts)) == (Status.SUCCEEDED, 1)


@in_world
async def test_a_canceled_wait_is_cleaned_up(world: World) -> None:
    world.work("before")
    world.work("after")
    await world.node()
    await world.job("job", **before_and_after(**{"for": "1h"}))
    await world.advance(5)
    await world.executions.cancel((await world.last("job")).id)
    assert await world.store.next_wake_us() is None
    assert (await world.last("job")).status is Status.CANCELED


# --- waits inside functions


def stepwise(world: World, function: Callable[..., Awaitable[Any]]) -> None:
    world.functions.register("stepwise", function)


@pytest.mark.parametrize("restart", [False, True])
@in_world
async def test_sleeping_in_a_function(world: World, restart: bool) -> None:
    seen: list[tuple[str, float]] = []

    async def work(ctx: Any) -> str:
        async def step(name: str) -> float:
            seen.append((name, world.passed_s))
            return world.passed_s

        first = await ctx.step("first", step, "first")
        await ctx.sleep("20s")
        second = await ctx.step("second", step, "second")
        await ctx.sleep(30)
        return f"{first:g} {second:g} {world.passed_s:g}"

    stepwise(world, work)
    node = await world.node()
    await world.job("stepwise", schedule="now")
    await world.advance(5)
    assert ((await world.last("stepwise")).status, node.engine.running_count) == (Status.WAITING, 0)
    if restart:
        await node.stop()
        await world.advance(5)
        node = await world.node()
    await world.advance(25)
    if restart:
        await node.crash()
        await world.node()
    await world.advance(40)
    end = await world.last("stepwise")
    assert (end.status, [name for name, _ in seen]) == (Status.SUCCEEDED, ["first", "second"])
    assert (end.detail or {})["result"] == "0 20 50"


@in_world
async def test_a_signal_wakes_a_function(world: World) -> None:
    async def work(ctx: Any) -> Any:
        first = await ctx.wait_for_signal("one")
        try:
            await ctx.wait_for_signal("two", timeout="10s")
        except TimeoutError:
            return {"one": first, "two": "too late"}
        return None

    stepwise(world, work)
    node = await world.node()
    await world.job("stepwise", schedule="now")
    await world.advance(5)
    run = await world.last("stepwise")
    assert await world.executions.signal(run.id, "two") is False
    assert await world.executions.signal(run.id, "one", [1, 2]) is True
    await world.advance(1)
    await node.crash()
    await world.node()
    await world.advance(30)
    end = await world.last("stepwise")
    assert (end.status, (end.detail or {})["result"]) == (Status.SUCCEEDED, {"one": [1, 2], "two": "too late"})


@in_world
async def test_a_function_that_fails_after_a_sleep_is_retried_from_its_memory(world: World) -> None:
    calls: list[str] = []

    async def work(ctx: Any) -> None:
        await ctx.step("expensive", calls.append, "expensive")
        await ctx.sleep(10)
        calls.append("cheap")
        if calls.count("cheap") < 3:
            raise RuntimeError("not yet")

    stepwise(world, work)
    await world.node()
    await world.job("stepwise", schedule="now", retry={"jitter": 0})
    end = await finished(world, "stepwise")
    assert (end.status, calls) == (Status.SUCCEEDED, ["expensive", "cheap", "cheap", "cheap"])


@in_world
async def test_a_sleeping_function_counts_as_running(world: World) -> None:
    async def work(ctx: Any) -> None:
        await ctx.sleep(15)

    stepwise(world, work)
    await world.node()
    await world.job("stepwise", schedule="@every 10s")
    await world.reach(44)
    assert await world.story("stepwise") == ["10 succeeded", "20 skipped", "30 waiting", "40 skipped"]


@in_world
async def test_a_sleeping_execution_uses_no_memory_of_the_node(world: World) -> None:
    async def work(ctx: Any) -> None:
        await ctx.sleep(60)

    stepwise(world, work)
    node = await world.node(slots=2)
    await world.job("stepwise", schedule="manual", overlap="allow")
    for _ in range(300):
        await world.executions.trigger("stepwise")
    await world.advance(20)
    assert (await world.count(Status.WAITING), node.engine.running_count) == (300, 0)
    await world.advance(60)
    assert {run.status for run in await world.runs("stepwise")} == {Status.SUCCEEDED}
