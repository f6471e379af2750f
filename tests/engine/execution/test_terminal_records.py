"""Ends leave nothing open: due instants are recorded, waiting tasks end, attempts stay in order."""

import pytest

from chronos.core.execution import Span, Status
from chronos.core.reasons import ReasonCode
from tests.support.engine_world import World, in_world


@pytest.mark.parametrize(("verb", "code"), [("disable", ReasonCode.DISABLED), ("delete", ReasonCode.JOB_DELETED)])
@in_world
async def test_due_instants_are_recorded(world: World, verb: str, code: ReasonCode) -> None:
    """No node was alive to admit them."""
    job = (await world.job("job", schedule="@every 10s", does="nothing")).job_id
    await world.advance(35)
    await (world.jobs.delete("job") if verb == "delete" else world.switch(verb, "job"))
    [span] = await world.records_of(job)
    assert isinstance(span, Span)
    assert (world.second(span.from_us), world.second(span.to_us), span.count) == (10, 30, 3)
    assert (span.status, span.reason.code) == (Status.SKIPPED, code)
    await world.node()
    await world.advance(60)
    assert await world.records_of(job) == [span]


@pytest.mark.parametrize("by", ["cancel", "replace", "delete"])
@in_world
async def test_a_task_that_waits_for_its_retry_ends_with_its_execution(world: World, by: str) -> None:
    world.work("job", fails=True)
    await world.node()
    await world.job("job", schedule="manual", overlap="replace", retry={"initial_interval": "1h"})
    run = await world.executions.trigger("job")
    await world.advance(5)
    match by:
        case "cancel":
            await world.executions.cancel(run.id)
        case "replace":
            await world.executions.trigger("job")
        case _:
            await world.jobs.delete("job")
    shown = await world.executions.get_json(run.id)
    [task] = shown["tasks"]
    assert (shown["status"], task["status"]) == ("canceled", "canceled")
    assert task["finished_at"] == shown["finished_at"]
    assert [attempt["status"] for attempt in task["attempts"]] == ["failed"]
    assert "wakes_at" not in task


@in_world
async def test_attempts_stay_in_their_order_when_the_clock_is_set_back(world: World) -> None:
    world.work("job", 5_000.0, 1.0)
    first = await world.node()
    await world.job("job", schedule="now")
    await world.advance(3)
    await first.crash()
    world.jump(-3_600)
    await world.node()
    await world.advance(100)
    [run] = await world.records("job")
    shown = await world.executions.get_json(run.id)
    [task] = shown["tasks"]
    assert task["status"] == "succeeded"
    assert [(one["number"], one["status"]) for one in task["attempts"]] == [(1, "lost"), (2, "succeeded")]
