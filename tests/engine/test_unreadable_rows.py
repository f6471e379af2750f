"""Jobs whose definition a node cannot read: the node reports them and runs all others."""

from chronos.core.events import JobUnschedulable
from chronos.core.execution import Execution, Status
from chronos.testing import StoreProbe
from tests.support.engine_world import NodeOfWorld, World, in_world, statuses


def spoil(world: World, name: str) -> None:
    """Change the definition of a job by hand."""
    probe = StoreProbe(world.store)
    for table, where in (("job", "name = ?"), ("job_version", "job = (select id from job where name = ?)")):
        probe.execute(f"update {table} set spec = '{{\"schedule\": 5}}' where {where}", name)


def reported_errors(node: NodeOfWorld) -> list[str]:
    """Return the errors that were reported for such jobs."""
    return [event.error for event in node.events if isinstance(event, JobUnschedulable)]


@in_world
async def test_an_unreadable_job_is_reported_once_and_the_others_run(world: World) -> None:
    good, bad = world.work("good"), world.work("bad")
    for name in ("good", "bad"):
        await world.job(name, schedule="@every 10s", recovery="skip")
    spoil(world, "bad")
    node = await world.node()
    await world.reach(35)
    assert (good.starts, bad.starts) == ([10, 20, 30], [])
    [error] = reported_errors(node)
    assert error.startswith("bad: its definition cannot be read")

    await world.job("bad", schedule="@every 10s")
    await world.reach(55)
    assert len(good.starts) == 5
    assert bad.starts == [45.001]  # counted from when it was saved again
    assert reported_errors(node) == [error]


@in_world
async def test_a_ready_execution_of_an_unreadable_job_fails_and_can_be_replayed(world: World) -> None:
    work = world.work("job")
    await world.job("job", schedule="manual")
    await world.executions.trigger("job")
    spoil(world, "job")
    await world.node()
    await world.advance(3)
    [failed] = await world.records("job")
    assert isinstance(failed, Execution)
    assert failed.status is Status.FAILED
    assert failed.reason is not None
    assert "its definition cannot be read" in failed.reason.message
    assert work.starts == []
    await world.job("job", schedule="manual")
    await world.executions.replay_dead_letter(failed.id)
    await world.advance(3)
    assert statuses(await world.runs("job")) == ["failed", "succeeded"]


@in_world
async def test_unreadable_executions_of_a_dead_node_end_as_stale(world: World) -> None:
    """If the delivery setting cannot be read, the execution must not run again."""
    for name in ("good", "bad"):
        world.work(name, takes=20)
        await world.job(name, schedule="manual")
    node = await world.node()
    for name in ("good", "bad"):
        await world.executions.trigger(name)
    await world.advance(5)
    await node.crash()
    spoil(world, "bad")
    await world.node()
    await world.advance(120)
    assert statuses(await world.runs("good")) == ["succeeded"]
    assert statuses(await world.runs("bad")) == ["stale"]
    await world.jobs.delete("bad")


@in_world
async def test_an_unreadable_follower_does_not_run(world: World) -> None:
    """It may follow other jobs too, and these are unknown."""
    world.work("up")
    fine, bad = world.work("fine"), world.work("bad")
    await world.job("up", schedule="manual")
    for name in ("fine", "bad"):
        await world.job(name, after=["up"])
    spoil(world, "bad")
    node = await world.node()
    await world.executions.trigger("up")
    await world.advance(5)
    assert (len(fine.starts), len(bad.starts)) == (1, 0)
    assert [error.split(":")[0] for error in reported_errors(node)] == ["bad"]
    await world.jobs.delete("bad")
