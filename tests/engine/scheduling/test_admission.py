"""From instant to start: overlap, limits, keys, slots, queues, priority, jitter, one-time and immediate jobs."""

from typing import Any

import pytest

from chronos.core.execution import Status
from chronos.core.job import JobState
from chronos.core.reasons import ReasonCode
from chronos.errors import QueueFull
from tests.support.engine_world import World, in_world, statuses

# --- overlap: a job every 10 s whose runs take 25 s


@pytest.mark.parametrize(
    ("overlap", "story"),
    [
        ("skip", ["10 succeeded", "20 skipped", "30 skipped", "40 succeeded", "50 skipped", "60 skipped"]),
        ("allow", ["10 succeeded", "20 succeeded", "30 succeeded", "40 succeeded", "50 running", "60 running"]),
        ("queue", ["10 succeeded", "20 succeeded", "30 running", "40 queued", "50 queued", "60 queued"]),
        ("replace", ["10 canceled", "20 canceled", "30 canceled", "40 canceled", "50 canceled", "60 running"]),
    ],
)
@in_world
async def test_overlap_of_scheduled_runs(world: World, overlap: str, story: list[str]) -> None:
    work = world.work("work", takes=25)
    await world.node()
    await world.job("work", schedule="@every 10s", overlap=overlap)
    await world.reach(65.5)
    assert await world.story("work") == story
    assert work.most == (3 if overlap == "allow" else 1)
    runs = await world.runs("work")
    codes = {run.reason.code for run in runs if run.reason is not None}
    extra = {"skip": {ReasonCode.OVERLAP}, "replace": {ReasonCode.REPLACED}}.get(overlap, set())
    assert codes - {ReasonCode.SUCCEEDED} == extra


@pytest.mark.parametrize(
    ("overlap", "first", "second"),
    [
        ("skip", "running", "queued"),  # no triggered run is dropped
        ("allow", "running", "running"),
        ("queue", "running", "queued"),
        ("replace", "canceled", "running"),
    ],
)
@in_world
async def test_overlap_of_triggered_runs(world: World, overlap: str, first: str, second: str) -> None:
    work = world.work("work", takes=25)
    await world.node()
    await world.job("work", schedule="@every 10s", overlap=overlap, end="2027-01-01T00:00:15Z")
    await world.reach(12)
    await world.executions.trigger("work")
    await world.advance(1)
    assert statuses(await world.runs("work")) == [first, second]
    await world.advance(60)
    assert statuses(await world.runs("work")) == ["canceled" if overlap == "replace" else "succeeded", "succeeded"]
    assert len(work.starts) == 2


@in_world
async def test_a_sleeping_run_counts_as_running(world: World) -> None:
    world.work("work", RuntimeError("x"))
    await world.node()
    await world.job("work", schedule="@every 10s", retry={"initial_interval": "15s", "jitter": 0})
    await world.reach(31)
    assert await world.story("work") == ["10 succeeded", "20 skipped", "30 succeeded"]


@in_world
async def test_queued_runs_start_in_order(world: World) -> None:
    work = world.work("work", 35, 1, 1, 1, takes=1)
    await world.node()
    await world.job("work", schedule="@every 10s", overlap="queue")
    await world.reach(59.5)
    assert work.starts == pytest.approx([10, 45, 46, 47, 50], abs=0.01)
    assert await world.story("work") == [f"{at} succeeded" for at in (10, 20, 30, 40, 50)]


# --- limits


@in_world
async def test_a_full_queue_skips_instants_and_refuses_requests(world: World) -> None:
    world.work("work", takes=1000)
    await world.node()
    await world.job("work", schedule="@every 10s", overlap="queue", queue_max=2)
    await world.reach(51)
    assert await world.story("work") == ["10 running", "20 queued", "30 queued", "40 skipped", "50 skipped"]
    skipped = (await world.runs("work"))[3]
    assert skipped.reason is not None
    assert skipped.reason.code is ReasonCode.QUEUE_FULL
    with pytest.raises(QueueFull):
        await world.executions.trigger("work")


@pytest.mark.parametrize("limit", [1, 2, 3])
@in_world
async def test_a_limit_bounds_allow(world: World, limit: int) -> None:
    work = world.work("work", takes=50)
    await world.node()
    await world.job("work", schedule="@every 10s", overlap="allow", concurrency={"limit": limit})
    await world.reach(45)
    runs = statuses(await world.runs("work"))
    assert runs == ["running"] * limit + ["queued"] * (4 - limit)
    await world.reach(61)
    assert work.most == limit


@in_world
async def test_equal_keys_share_a_limit_across_jobs(world: World) -> None:
    works = [world.work(name, takes=10) for name in ("a", "b", "c")]
    await world.node()
    for work, key in zip(works, ("red", "red", "blue"), strict=True):
        says = {"overlap": "allow", "concurrency": {"limit": 1, "key": "{{ payload.color }}"}}
        await world.job(work.name, schedule="@every 30s", payload={"color": key}, **says)
    await world.reach(35)
    assert sorted(start for work in works[:2] for start in work.starts) == [30]
    assert works[2].starts == [30]
    await world.reach(55)
    second = sorted(start for work in works[:2] for start in work.starts)[1]
    assert second == 40, "freeing a key wakes the executions of any job that wait for it"


@in_world
async def test_the_key_of_a_triggered_run_comes_from_its_payload(world: World) -> None:
    work = world.work("work", takes=10, hears=True)
    await world.node()
    says: dict[str, Any] = {"overlap": "allow", "concurrency": {"limit": 2, "key": "{{ payload.customer }}"}}
    await world.job("work", schedule="manual", **says)
    for customer in ("x", "x", "x", "y"):
        await world.executions.trigger("work", {"customer": customer})
    await world.advance(5)
    assert sorted(payload["customer"] for payload in work.payloads) == ["x", "x", "y"]
    await world.advance(10)
    assert len(work.starts) == 4


@in_world
async def test_a_node_runs_no_more_executions_than_it_has_slots(world: World) -> None:
    work = world.work("work", takes=10)
    node = await world.node(slots=3)
    await world.job("work", schedule="manual", overlap="allow")
    for _ in range(10):
        await world.executions.trigger("work")
    await world.advance(5)
    assert (work.running, node.engine.running_count) == (3, 3)
    assert await world.count(Status.READY) == 7
    await world.advance(40)
    assert (work.most, len(work.ends)) == (3, 10)


@in_world
async def test_a_queue_has_its_own_slots(world: World) -> None:
    slow, quick = world.work("slow", takes=20), world.work("quick", takes=1)
    await world.node(slots=4, queue_slots={"bulk": 2})
    await world.job("slow", schedule="manual", overlap="allow", queue="bulk")
    await world.job("quick", schedule="manual", overlap="allow")
    for _ in range(6):
        await world.executions.trigger("slow")
    for _ in range(4):
        await world.executions.trigger("quick")
    await world.advance(10)
    assert (slow.running, slow.most) == (2, 2)
    assert len(quick.ends) == 4
    await world.advance(60)
    assert (len(slow.ends), slow.most) == (6, 2)


@in_world
async def test_the_slots_of_a_queue_limit_scheduled_runs_too(world: World) -> None:
    works = [world.work(f"w{n}", takes=15) for n in range(5)]
    await world.node(slots=10, queue_slots={"bulk": 2})
    for work in works:
        await world.job(work.name, schedule="@every 10s", queue="bulk")
    await world.reach(12)
    assert sum(work.running for work in works) == 2


@in_world
async def test_executions_start_only_on_nodes_that_can_run_them(world: World) -> None:
    work = world.work("work")
    await world.node(queues=frozenset({"other"}))
    await world.node(labels={"region": "eu"})
    right = await world.node(labels={"region": "us"})
    await world.job("work", schedule="@every 10s", placement={"labels": {"region": "us"}})
    await world.reach(35)
    assert len(work.starts) == 3
    assert {run.node for run in await world.runs("work")} == {right.number}


@in_world
async def test_nodes_that_only_schedule_or_only_work(world: World) -> None:
    work = world.work("work")
    await world.node(works=False)
    worker = await world.node(schedules=False)
    await world.job("work", schedule="@every 10s")
    await world.reach(35)
    assert work.starts == pytest.approx([10, 20, 30], abs=0.1)
    assert {run.node for run in await world.runs("work")} == {worker.number}


# --- priority


@in_world
async def test_higher_priority_starts_first_and_waiting_raises_the_rank(world: World) -> None:
    order: list[str] = []
    for name in ("low", "old", "high", "busy"):
        world.work(name, *[lambda name=name: order.append(name)] * 2, takes=0)
    world.work("block", takes=200)
    await world.node(slots=1)
    await world.job("block", schedule="now")
    await world.advance(1)
    await world.job("old", schedule="now", priority=1)  # waits for 130 s before the others arrive: worth two steps
    await world.reach(131)
    await world.job("low", schedule="now", priority=2)
    await world.job("high", schedule="now", priority=9)
    await world.reach(210)
    assert order == ["high", "old", "low"]


@in_world
async def test_new_high_priority_work_does_not_starve_old_work(world: World) -> None:
    patient = world.work("patient", takes=5)
    world.work("rush", takes=5)
    await world.node(slots=1)
    await world.job("rush", schedule="@every 4s", overlap="allow", priority=10)
    await world.reach(5)
    await world.job("patient", schedule="now", priority=9)
    await world.advance(130)
    assert patient.starts, "it waited for two minutes, and each step of priority is worth one"
    assert 60 <= patient.starts[0] <= 90


@in_world
async def test_a_scheduled_run_does_not_overtake_ready_work_of_higher_priority(world: World) -> None:
    order: list[str] = []
    world.work("block", takes=15)
    world.work("urgent", lambda: order.append("urgent"))
    world.work("clock", *[lambda: order.append("clock")] * 5)
    await world.node(slots=1)
    await world.job("block", schedule="now")
    await world.advance(1)
    await world.job("urgent", schedule="now", priority=10)
    await world.job("clock", schedule={"at": "2027-01-01T00:00:15Z"}, priority=1)
    await world.reach(17)
    assert order == ["urgent", "clock"]


# --- other schedules


@in_world
async def test_jitter_delays_within_bounds_and_every_node_agrees(world: World) -> None:
    work = world.work("work")
    await world.node()
    await world.node()
    await world.job("work", schedule={"every": "20s", "jitter": "5s"})
    await world.reach(110)
    runs = await world.runs("work")
    assert [world.second(run.scheduled_us) for run in runs] == [20, 40, 60, 80, 100]
    delays = [start - 20 * (n + 1) for n, start in enumerate(work.starts)]
    assert all(0 <= delay <= 6.1 for delay in delays)  # one second more if another node takes over
    assert len({round(delay, 1) for delay in delays}) > 2


@in_world
async def test_a_one_time_job_runs_once_and_is_done(world: World) -> None:
    work = world.work("work")
    node = await world.node()
    await world.job("work", schedule={"in": "30s"})
    await world.reach(29)
    assert work.starts == []
    await world.reach(31)
    assert (work.starts, (await world.get("work")).state) == ([30], JobState.DONE)
    await node.crash()
    await world.node()
    await world.advance(120)
    assert work.starts == [30]


@in_world
async def test_an_immediate_job_runs_as_soon_as_a_slot_is_free(world: World) -> None:
    block, work = world.work("block", takes=7), world.work("work")
    await world.node(slots=1)
    await world.job("block")
    await world.advance(1)
    await world.job("work")
    await world.advance(30)
    assert (block.starts, work.starts) == ([0], [7])
    assert await world.story("work") == ["1 succeeded"]


@in_world
async def test_a_counted_schedule_ends(world: World) -> None:
    work = world.work("work")
    await world.node()
    await world.job("work", schedule="R3/2027-01-01T00:00:10Z/PT10S")
    await world.advance(100)
    assert work.starts == [10, 20, 30]
    assert (await world.get("work")).state is JobState.DONE


@in_world
async def test_a_thousand_jobs_of_one_instant(world: World) -> None:
    work = world.work("work")
    await world.node(slots=50)
    reads = [
        world.jobs.read({"name": f"j{n}", "python": {"name": "work"}, "schedule": "0 * * * *"}) for n in range(1000)
    ]
    await world.saver.save(reads)
    world.jump(3590)
    await world.advance(30)
    assert len(work.starts) == 1000
    assert work.starts[-1] == pytest.approx(10, abs=0.01)


@in_world
async def test_work_that_becomes_ready_during_a_settlement_starts_at_once(world: World) -> None:
    """A pending settlement holds slots for successors. Work that finds no slot meanwhile is claimed afterwards."""
    works = [world.work(f"w{n}") for n in range(5)]
    await world.node()
    for work in works:
        await world.job(work.name, schedule="now")
    await world.advance(0.1)
    assert [work.starts for work in works] == [[0]] * 5


@pytest.mark.parametrize("overlap", ["allow", "queue"])
@in_world
async def test_an_instant_behind_a_full_key_and_a_full_queue_is_recorded(world: World, overlap: str) -> None:
    world.work("work", takes=1_000)
    await world.node()
    await world.job("work", schedule="@every 10s", overlap=overlap, queue_max=2, concurrency={"limit": 1, "key": "k"})
    await world.reach(55)
    assert await world.story("work") == ["10 running", "20 queued", "30 queued", "40 skipped", "50 skipped"]
    last = await world.last("work")
    assert last.reason is not None
    assert last.reason.code is ReasonCode.QUEUE_FULL


@in_world
async def test_a_run_that_waits_for_its_key_overlaps_with_the_next(world: World) -> None:
    world.work("first", takes=40)
    world.work("second")
    await world.node()
    await world.job("first", schedule={"at": "2027-01-01T00:00:05Z"}, concurrency={"limit": 1, "key": "k"})
    await world.job("second", schedule="@every 10s", overlap="skip", concurrency={"limit": 1, "key": "k"})
    await world.reach(65)
    skipped = ["20 skipped", "30 skipped", "40 skipped"]
    assert await world.story("second") == ["10 succeeded", *skipped, "50 succeeded", "60 succeeded"]


@in_world
async def test_a_replacing_run_needs_no_place_in_the_queue(world: World) -> None:
    world.work("work", takes=15)
    await world.node()
    await world.job("work", schedule="@every 10s", overlap="replace", queue_max=0)
    await world.reach(25)
    assert await world.story("work") == ["10 canceled", "20 running"]
