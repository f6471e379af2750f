"""Operations on running jobs: pause and resume, disable and enable, delete, update."""

from typing import Any

import pytest

from chronos.core.execution import Status
from chronos.core.job import JobState
from chronos.core.reasons import ReasonCode
from tests.support.engine_world import World, in_world

# --- pause


@in_world
async def test_instants_during_a_pause_become_one_skipped_span(world: World) -> None:
    work = world.work("work")
    await world.node()
    await world.job("work", schedule="@every 10s")
    await world.reach(15)
    await world.switch("pause", "work", reason="moving house")
    await world.reach(47)
    await world.switch("resume", "work")
    await world.reach(65)
    assert await world.story("work") == ["10 succeeded", "20-40 skipped 3", "50 succeeded", "60 succeeded"]
    [span] = await world.spans("work")
    assert span.reason.code is ReasonCode.PAUSED
    assert work.starts == [10, 50, 60], "its anchor is kept"


@in_world
async def test_a_pause_between_two_instants_skips_nothing(world: World) -> None:
    work = world.work("work")
    await world.node()
    await world.job("work", schedule="@every 10s")
    await world.reach(13)
    await world.switch("pause", "work")
    await world.reach(17)
    await world.switch("resume", "work")
    await world.reach(35)
    assert (work.starts, await world.spans("work")) == ([10, 20, 30], [])


@in_world
async def test_a_pause_holds_executions_that_have_not_started(world: World) -> None:
    block, work = world.work("block", takes=20), world.work("work", takes=1)
    await world.node(slots=1)
    await world.job("block", schedule="now")
    await world.job("work", schedule="@every 5s", overlap="queue")
    await world.reach(12)
    assert await world.story("work") == ["5 ready", "10 queued"]
    await world.switch("pause", "work")
    await world.reach(40)
    assert (work.starts, await world.story("work")) == ([], ["5 queued", "10 queued"])
    await world.switch("resume", "work")
    await world.reach(49)
    assert await world.story("work") == [
        "5 succeeded", "10 succeeded", "15-40 skipped 6", "45 succeeded",
    ]  # fmt: skip
    assert len(block.ends) == 1


@in_world
async def test_a_pause_lets_running_work_finish_with_its_retries(world: World) -> None:
    work = world.work("work", RuntimeError("x"), RuntimeError("y"), takes=2)
    await world.node()
    await world.job("work", schedule="@every 10s", retry={"initial_interval": "3s", "jitter": 0})
    await world.reach(11)
    await world.switch("pause", "work")
    await world.reach(40)
    assert await world.story("work") == ["10 succeeded"]
    assert work.starts == [10, 13, 19]


@in_world
async def test_a_trigger_runs_while_the_job_is_paused(world: World) -> None:
    work = world.work("work")
    await world.node()
    await world.job("work", schedule="@every 10s")
    await world.switch("pause", "work")
    await world.reach(25)
    await world.executions.trigger("work")
    await world.advance(1)
    assert work.starts == [pytest.approx(25, abs=0.01)]
    assert (await world.get("work")).state is JobState.PAUSED


@in_world
async def test_a_pause_survives_a_restart(world: World) -> None:
    work = world.work("work")
    node = await world.node()
    await world.job("work", schedule="@every 10s")
    await world.switch("pause", "work")
    await world.reach(25)
    await node.crash()
    await world.node()
    await world.reach(125)
    assert (work.starts, await world.story("work")) == ([], [])


# --- disable


@in_world
async def test_disabled_time_has_no_instants(world: World) -> None:
    work = world.work("work")
    node = await world.node()
    await world.job("work", schedule="@every 10s")
    await world.reach(15)
    await world.switch("disable", "work", reason="not needed")
    await world.reach(42)
    await node.crash()
    await world.node()
    await world.reach(95)
    await world.switch("enable", "work")
    await world.reach(112)
    assert (work.starts, await world.spans("work")) == ([10, 100, 110], [])


@in_world
async def test_a_job_saved_disabled_stays_off(world: World) -> None:
    work = world.work("work")
    await world.node()
    await world.job("work", schedule="@every 10s", enabled=False)
    await world.reach(35)
    assert work.starts == []
    await world.job("work", schedule="@every 10s", enabled=True)
    await world.reach(56)
    assert len(work.starts) == 2


# --- delete


@in_world
async def test_deleting_a_job_stops_its_running_and_drops_its_waiting_executions(world: World) -> None:
    work = world.work("work", takes=100)
    await world.node()
    saved = await world.job("work", schedule="@every 10s", overlap="queue")
    await world.reach(35)
    await world.jobs.delete("work")
    await world.advance(1)
    records = await world.records_of(saved.job_id)
    assert [record.status for record in records] == [Status.CANCELED] * 3
    assert all(record.reason is not None and record.reason.code is ReasonCode.JOB_DELETED for record in records)
    await world.advance(60)
    assert (len(work.starts), work.running) == (1, 0)


@in_world
async def test_the_name_of_a_deleted_job_can_be_reused(world: World) -> None:
    work = world.work("work", takes=100)
    await world.node()
    old = await world.job("work", schedule="@every 10s")
    await world.reach(15)
    await world.jobs.delete("work")
    new = await world.job("work", schedule="@every 10s")
    await world.reach(36)
    assert old.job_id != new.job_id
    assert len(work.starts) == 2
    assert await world.story("work") == ["25 running", "35 skipped"]


# --- update

UPDATES: list[tuple[Any, list[float]]] = [
    ("immediate", [10, 20, 25, 55, 85]),
    ("graceful", [10, 20, 30, 55, 85]),
    ({"policy": "windowed", "count": 2}, [10, 20, 30, 40, 55, 85]),
    ({"policy": "windowed", "duration": "30s"}, [10, 20, 30, 40, 50, 55, 85]),
]


@pytest.mark.parametrize(("update", "starts"), UPDATES)
@in_world
async def test_when_a_new_schedule_takes_over(world: World, update: Any, starts: list[float]) -> None:
    work = world.work("work")
    await world.node()
    await world.job("work", schedule="@every 10s")
    await world.reach(24)
    says = {"every": "30s", "start": "2027-01-01T00:00:25Z"}
    await world.job("work", schedule=says, update=update)
    await world.reach(90)
    assert work.starts == starts
    assert await world.spans("work") == []


@in_world
async def test_a_running_execution_finishes_under_its_version(world: World) -> None:
    old, new = world.work("old", takes=15), world.work("new", takes=1)
    await world.node()
    await world.job("job", does="old", schedule="@every 10s", overlap="queue")
    await world.reach(22)
    assert await world.story("job") == ["10 running", "20 queued"]
    await world.job("job", does="new", schedule="@every 10s", overlap="queue")
    await world.reach(39)
    assert (old.starts, old.ends) == ([10], [25])
    assert new.starts == pytest.approx([25, 30], abs=0.01), "queued executions use the new settings"
    assert [run.job_version for run in await world.runs("job")] == [1, 2, 2]


@in_world
async def test_removing_a_task_affects_later_executions_only(world: World) -> None:
    a, b = world.work("a", takes=3), world.work("b", takes=3)
    await world.node()
    tasks = [{"name": name, "python": {"name": name}} for name in ("a", "b")]
    await world.job("job", schedule="@every 10s", tasks=tasks)
    await world.reach(11)
    await world.job("job", schedule="@every 10s", tasks=tasks[:1])
    await world.reach(29)
    assert (a.starts, b.starts) == ([10, 20], [13])
    first, second = await world.runs("job")
    assert await world.tasks(first) == {"a": "succeeded", "b": "succeeded"}
    assert second.status is Status.SUCCEEDED


@in_world
async def test_an_update_of_overlap_applies_to_queued_executions(world: World) -> None:
    work = world.work("work", takes=100)
    await world.node()
    await world.job("work", schedule="@every 10s", overlap="queue", end="2027-01-01T00:00:45Z")
    await world.reach(45)
    assert work.running == 1
    says = {"overlap": "allow", "concurrency": {"limit": 3}}
    await world.job("work", schedule="@every 10s", end="2027-01-01T00:00:45Z", **says)
    await world.advance(1)
    assert work.running == 3


@in_world
async def test_saving_an_unchanged_job_changes_nothing(world: World) -> None:
    work = world.work("work")
    await world.node()
    await world.job("work", schedule="@every 10s")
    await world.reach(15)
    again = await world.job("work", schedule="@every 10s")
    await world.reach(35)
    assert (again.changed, work.starts) == (False, [10, 20, 30])
