"""Fencing tokens as jobs see them: they grow with every attempt, task start and hook."""

from itertools import pairwise
from typing import Any
from uuid import UUID

from tests.support.engine_world import World, in_world


def record_tokens(world: World, *names: str) -> list[tuple[str, str, int]]:
    """Register functions that record (execution, name, token) in order. Each fails at its first attempt."""
    started: list[tuple[str, str, int]] = []

    def make(name: str) -> Any:
        async def function(ctx: Any) -> None:
            started.append((ctx.execution_id, name, ctx.token))
            if name.startswith("flaky") and ctx.attempt == 1:
                raise RuntimeError("not yet")

        return function

    for name in names:
        world.functions.register(name, make(name))
    return started


def is_growing(tokens: list[int]) -> bool:
    return all(before < after for before, after in pairwise(tokens))


def task(name: str, **says: Any) -> dict[str, Any]:
    return {"name": name, "python": {"name": name}, **says}


HOOKS = {"on_start": {"python": {"name": "hello"}}, "on_complete": {"python": {"name": "bye"}}}


@in_world
async def test_every_task_attempt_and_hook_has_a_higher_token(world: World) -> None:
    started = record_tokens(world, "hello", "one", "flaky", "flaky-too", "bye")
    await world.node()
    await world.job(
        "group",
        schedule="@every 100s",
        mode="parallel",
        retry={"initial_interval": "2s", "jitter": 0},
        tasks=[task("one"), task("flaky"), task("flaky-too")],
        **HOOKS,
    )
    await world.reach(350)
    names = [name for _, name, _ in started]
    assert names == ["hello", "one", "flaky", "flaky-too", "flaky", "flaky-too", "bye"] * 3
    assert is_growing([token for _, _, token in started])


@in_world
async def test_a_retry_beside_a_running_task_has_a_higher_token(world: World) -> None:
    """No node claims the execution again for it."""
    started = record_tokens(world, "flaky", "bye")
    world.work("long", takes=30)
    await world.node()
    await world.job(
        "group",
        schedule="now",
        mode="parallel",
        retry={"initial_interval": "2s", "jitter": 0},
        tasks=[task("long"), task("flaky")],
        on_complete={"python": {"name": "bye"}},
    )
    await world.advance(60)
    assert [name for _, name, _ in started] == ["flaky", "flaky", "bye"]
    assert is_growing([token for _, _, token in started])


@in_world
async def test_a_run_that_is_admitted_later_and_starts_earlier_does_not_fence_off_the_others(world: World) -> None:
    started = record_tokens(world, "flaky", "bye")
    world.work("slow", takes=25)
    await world.node()
    await world.job("job", schedule="@every 10s", overlap="queue", does="slow")
    await world.reach(31)  # one runs, two are queued
    await world.job("job", schedule="@every 10s", overlap="queue", does="flaky", on_complete=HOOKS["on_complete"])
    requested = await world.executions.trigger("job", at_us=world.us(5))
    await world.reach(120)
    assert started[0][0] == str(UUID(bytes=requested.id))
    attempts = [token for _, name, token in started if name == "flaky"]
    assert len(attempts) > 6
    assert is_growing(attempts)


@in_world
async def test_the_hook_of_a_canceled_sleeping_execution_has_a_token(world: World) -> None:
    started = record_tokens(world, "flaky", "bye")
    await world.node()
    await world.job(
        "job",
        schedule="manual",
        does="flaky",
        retry={"initial_interval": "1h", "jitter": 0},
        on_complete={"python": {"name": "bye"}},
    )
    requested = await world.executions.trigger("job")
    await world.advance(5)
    await world.executions.cancel(requested.id)
    await world.advance(20)
    assert [name for _, name, _ in started] == ["flaky", "bye"]
    assert is_growing([token for _, _, token in started])


@in_world
async def test_the_token_grows_when_a_node_dies(world: World) -> None:
    started = record_tokens(world, "hello", "bye")
    world.work("long", takes=20)
    first = await world.node()
    await world.job("job", schedule="now", does="long", **HOOKS)
    await world.advance(5)
    await first.crash()
    await world.node()
    await world.advance(90)
    names = [name for _, name, _ in started]
    assert names[0] == "hello"
    assert names[-1] == "bye"
    assert is_growing([token for _, _, token in started])
