"""Placement: which node takes which work, and what happens if the right node is missing."""

from typing import Any

import pytest

from chronos.core.events import WorkUnclaimable
from chronos.core.execution import Status
from tests.support.engine_world import World, in_world

GPU = {"labels": {"gpu": "yes"}}


def placed(fallback: str | None = None, **says: Any) -> dict[str, Any]:
    return {"placement": GPU if fallback is None else {**GPU, "fallback": fallback}, **says}


@in_world
async def test_work_goes_to_the_node_with_its_labels(world: World) -> None:
    work = world.work("job")
    await world.node("plain")
    right = await world.node("right", labels={"gpu": "yes"})
    await world.job("job", schedule="@every 10s", **placed("20s"))
    await world.advance(35)
    assert work.starts == pytest.approx([10, 20, 30], abs=1.1)
    assert {run.node for run in await world.runs("job")} == {right.number}


@in_world
async def test_work_waits_for_a_function_that_is_registered_later(world: World) -> None:
    await world.node()
    await world.job("job", schedule="now")
    await world.advance(5)  # the node knows the lane, and cannot run it
    work = world.work("job")
    await world.advance(2)
    assert work.starts == pytest.approx([5], abs=1.1)


@in_world
async def test_work_without_a_fallback_waits(world: World) -> None:
    work = world.work("job")
    await world.node("plain")
    await world.job("job", schedule="now", **placed())
    await world.advance(3600)
    assert (work.starts, (await world.last("job")).status) == ([], Status.READY)


@in_world
async def test_work_that_no_node_can_take_is_reported_within_a_minute(world: World) -> None:
    work = world.work("job")
    node = await world.node("plain")

    def shortages() -> list[str]:
        return [event.error for event in node.events if isinstance(event, WorkUnclaimable)]

    await world.advance(5)  # the node has checked once and found nothing
    await world.job("job", schedule="now", **placed())
    await world.advance(60)
    assert shortages() == ["no live node has the label gpu=yes; live nodes: plain"]
    await world.advance(600)
    assert len(shortages()) == 1  # the same shortage is not reported every minute
    await world.node("right", labels={"gpu": "yes"})
    await world.advance(60)
    assert len(work.starts) == 1
    await world.job("other", schedule="now", python={"name": "elsewhere"})
    await world.advance(60)
    assert shortages()[1:] == ['no live node has the function "elsewhere"; live nodes: plain, right']


@in_world
async def test_after_the_fallback_any_node_takes_the_work(world: World) -> None:
    work = world.work("job")
    node = await world.node("plain")
    await world.job("job", schedule="now", **placed("20s"))
    await world.advance(19.5)
    assert work.starts == []
    await world.advance(3)
    assert work.starts == pytest.approx([20.5], abs=0.6)
    assert (await world.last("job")).node == node.number


@in_world
async def test_a_busy_node_looks_for_late_work_too(world: World) -> None:
    late, usual = world.work("late"), world.work("usual", takes=0.05)
    await world.node("plain", slots=1)
    await world.job("late", schedule="now", **placed("5s"))
    await world.job("usual", schedule="@every 100ms", overlap="queue")
    await world.advance(15)
    assert late.starts == pytest.approx([6], abs=2)
    assert len(usual.starts) > 100


@in_world
async def test_a_fallback_still_needs_the_queue_and_the_function(world: World) -> None:
    work = world.work("job")
    await world.node("other", queues=frozenset({"other"}))
    await world.job("job", schedule="now", **placed("5s"))
    await world.advance(60)
    assert work.starts == []


@in_world
async def test_a_full_queue_takes_no_late_work(world: World) -> None:
    late, usual = world.work("late"), world.work("usual", takes=30)
    await world.node("plain", queue_slots={"q": 1})
    await world.job("usual", schedule="now", queue="q")
    await world.job("late", schedule="now", queue="q", **placed("5s"))
    await world.advance(29)
    assert (usual.starts, late.starts) == ([0], [])
    await world.advance(4)
    assert late.starts == pytest.approx([31], abs=1.5)


@in_world
async def test_a_retry_waits_for_the_right_node_again(world: World) -> None:
    work = world.work("job", RuntimeError("once"))
    right = await world.node("right", labels={"gpu": "yes"})
    await world.node("plain")
    retry = {"initial_interval": "60s", "jitter": 0}
    await world.job("job", schedule="now", retry=retry, **placed("20s"))
    await world.advance(2)
    await right.stop()
    await world.advance(70)
    assert len(work.starts) == 1
    await world.advance(15)
    assert work.starts[1:] == pytest.approx([81], abs=1.5)
    assert (await world.last("job")).status is Status.SUCCEEDED
