"""The promises, by their numbers: several nodes on one store, crashes, nodes that freeze. G7 is in ``test_clocks``."""

import asyncio
from pathlib import Path
from random import Random
from typing import Any

import pytest

from chronos.assembly import make_store
from chronos.core.execution import AttemptStatus, Cause, Execution, Span, Status
from chronos.core.reasons import Code
from chronos.store.commands import Admit, Beat, Claim, Recover, Settle, SettleRow, Suspend
from chronos.store.contract import ExecutionFilter
from chronos.testing.loop import run
from tests.engine.world import SECOND_US, NodeOfWorld, World, in_world

LOSABLE = (Admit, Claim, Recover, Settle, Suspend)


def covered(world: World, records: list[Execution | Span], every_s: float) -> list[float]:
    """The instants that are on record, each as often as it is."""
    found: list[float] = []
    for record in records:
        if isinstance(record, Span):
            instants = range(record.from_us, record.to_us + 1, round(every_s * SECOND_US))
            assert len(instants) == record.count
            found += [world.second(at_us) for at_us in instants]
        elif record.cause in (Cause.SCHEDULE, Cause.RECOVERY):
            found.append(world.second(record.scheduled_us))
    return sorted(found)


def instants(first: float, last: float, every_s: float) -> list[float]:
    return [round(first + n * every_s, 3) for n in range(round((last - first) / every_s) + 1)]


async def never_two(world: World, job: bytes, seconds: float, step_s: float = 0.5) -> None:
    """Let time pass and look, again and again, that no two executions of a job run."""
    for _ in range(round(seconds / step_s)):
        await world.advance(step_s)
        running = await world.store.list_executions(ExecutionFilter(job=job, status=Status.RUNNING), limit=10)
        assert len(running.items) <= 1


def holder(world: World) -> NodeOfWorld:
    """The one node that works on something."""
    [node] = [node for node in world.nodes if node.alive and node.engine.busy]
    return node


# --- G1


@in_world
async def test_g1_unique(world: World) -> None:
    """Three nodes, and every third answer gets lost on its way: one record, and one run, of each instant."""
    work = world.work("work")
    dice = Random(7)
    for _ in range(3):
        (await world.node()).link.loses = lambda command: isinstance(command, LOSABLE) and dice.random() < 1 / 3
    for name in ("a", "b", "c"):
        await world.job(name, schedule="@every 2s", does="work", overlap="allow", end="2027-01-01T00:01:00Z")
    await world.reach(60.5)
    for node in world.nodes:
        node.link.loses = lambda _: False
    await world.reach(90)  # what a node was given and never heard of goes back after two heartbeats
    for name in ("a", "b", "c"):
        records = await world.records(name)
        assert covered(world, records, 2) == instants(2, 60, 2)
        assert {record.status for record in records} == {Status.SUCCEEDED}
    assert len(work.starts) == 90


@in_world
async def test_g1_unique_when_all_nodes_recover_the_same_gap(world: World) -> None:
    work = world.work("work")
    await world.job("work", schedule="@every 10s", recovery="all", overlap="allow")
    await world.advance(995)
    await asyncio.gather(*(world.node() for _ in range(4)))
    await world.advance(4)
    assert covered(world, await world.records("work"), 10) == instants(10, 990, 10)
    assert len(work.starts) == 99


# --- G2


@pytest.mark.parametrize("recovery", ["last", "all", "skip", "compressed"])
@in_world
async def test_g2_no_silent_miss(world: World, recovery: str) -> None:
    """Crashes, gaps, a pause, an update, a cut line: every instant is on record, once, with a reason."""
    world.work("work", takes=3)
    await world.job("work", schedule="@every 5s", recovery=recovery)
    one, two = await world.node(), await world.node()
    await world.reach(22)
    await one.crash()
    await world.reach(37)
    await two.crash()
    await world.reach(142)  # nobody
    three = await world.node()
    await world.reach(161)
    await world.switch("pause", "work")
    await world.reach(183)
    await world.switch("resume", "work")
    three.link.cut = True
    await world.reach(241)
    three.link.cut = False
    await world.reach(260)
    await world.job("work", schedule="@every 5s", recovery=recovery, priority=7)
    await world.reach(302)
    records = await world.records("work")
    assert covered(world, records, 5) == instants(5, 300, 5)
    ended = [record for record in records if record.status.final]
    assert all(record.reason is not None and record.reason.message for record in ended)


# --- G3


def test_g3_durable(tmp_path: Path) -> None:
    """Every node dies at once, in the middle of everything; another process opens the file and knows it all."""

    async def scene() -> None:
        world = World(f"sqlite:///{tmp_path / 'chronos.db'}")
        await world.open()
        work = world.work("work", takes=2)
        for _ in range(2):
            await world.node()
        await world.job("work", schedule="@every 5s", overlap="queue")
        asked = await world.asked.trigger("work", idempotency="pay-7")
        await world.reach(11)
        for node in world.nodes:
            await node.crash()
        before = await world.records("work")

        other = make_store(f"sqlite:///{tmp_path / 'chronos.db'}")
        await other.open()
        job = await other.job_named("default", "work")
        assert job is not None
        found = await other.list_executions(ExecutionFilter(job=job.id), limit=100)
        await other.close()
        assert [(record.id, record.status) for record in found.items[::-1]] == [(r.id, r.status) for r in before]
        assert len(work.ends) == sum(record.status is Status.SUCCEEDED for record in before)
        again = await world.asked.trigger("work", idempotency="pay-7")
        assert (again.id, again.created) == (asked.id, False)
        await world.close()

    run(scene())


# --- G4


@pytest.mark.parametrize("crash_at", [0.5, 5, 9.5, 14, 21.3])
@pytest.mark.parametrize("delivery", ["at_least_once", "at_most_once"])
@in_world
async def test_g4_recovered(world: World, crash_at: float, delivery: str) -> None:
    """From a worker's last heartbeat to another attempt, or a terminal status: 40 s at most."""
    work = world.work("work", takes=300)
    await world.node()
    await world.node()
    await world.job("work", schedule="now", delivery=delivery)
    await world.advance(crash_at)
    dead = holder(world)
    number = dead.number
    await dead.crash()
    [beaten] = [node for node in await world.store.nodes() if node.number == number]
    last_s = world.second(max(beaten.beat_us, beaten.started_us))
    await world.reach(last_s + 40)
    execution = await world.last("work")
    if delivery == "at_most_once":
        assert (execution.status, len(work.starts)) == (Status.STALE, 1)
    else:
        assert (execution.status, len(work.starts)) == (Status.RUNNING, 2)
        assert work.starts[1] <= last_s + 40


# --- G5


@pytest.mark.parametrize("overlap", ["skip", "queue", "replace"])
@in_world
async def test_g5_no_overlap(world: World, overlap: str) -> None:
    """Nodes crash and freeze: the store never holds two running executions, and no two functions ever run."""
    work = world.work("work", takes=8)
    saved = await world.job("work", schedule="@every 5s", overlap=overlap)
    for _ in range(3):
        await world.node()
    await never_two(world, saved.job_id, 17)
    frozen = holder(world)
    frozen.link.freeze()
    await never_two(world, saved.job_id, 50)
    frozen.link.thaw()
    await never_two(world, saved.job_id, 20)
    busy = [node for node in world.nodes if node.engine.busy]
    if busy:
        await busy[0].crash()
    await never_two(world, saved.job_id, 60)
    assert work.most == 1
    assert len(work.starts) > 4


@in_world
async def test_g5_a_node_that_cannot_beat_kills_its_work_before_others_take_over(world: World) -> None:
    work = world.work("work", 1000, 5)
    await world.node()
    await world.node()
    await world.job("work", schedule="now")
    await world.advance(12)
    holder(world).link.freeze()
    await world.advance(60)
    [killed] = work.cut
    assert len(work.starts) == 2
    assert killed < work.starts[1]
    assert killed <= 12 + 30 + 0.1


@in_world
async def test_g5_a_node_whose_line_is_cut_kills_its_work_too(world: World) -> None:
    work = world.work("work", 1000, 5)
    await world.node()
    await world.node()
    await world.job("work", schedule="now")
    await world.advance(12)
    node = holder(world)
    node.link.cut = True
    await world.advance(60)
    assert (len(work.cut), work.most, len(work.starts)) == (1, 1, 2)
    node.link.cut = False
    await world.advance(60)
    assert [run.status for run in await world.runs("work")] == [Status.SUCCEEDED]


# --- G6


@in_world
async def test_g6_fenced(world: World) -> None:
    """What a node that was declared dead still says is refused, and changes nothing."""
    world.work("work", 1000, 5)
    await world.node()
    await world.node()
    await world.job("work", schedule="now")
    await world.advance(1)
    zombie = holder(world)
    number, held = zombie.number, await world.last("work")
    zombie.link.freeze()
    await world.advance(60)
    end = await world.last("work")
    assert (end.status, end.node == number) == (Status.SUCCEEDED, False)
    assert end.token > held.token
    late = SettleRow(held.id, held.job, held.token, Status.FAILED, Code.TASK_FAILED, "late", world.clock.now_us())
    answer = await world.store.apply(Settle(rows=(late,), node=number, now_us=world.clock.now_us()))
    assert answer.settled == []
    assert not (await world.store.apply(Beat(node=number, beat=10**6, now_us=world.clock.now_us()))).alive
    assert await world.last("work") == end
    attempts = await world.attempts(end)
    assert [attempt.status for attempt in attempts] == [AttemptStatus.LOST, AttemptStatus.SUCCEEDED]


@in_world
async def test_g6_a_thawed_node_comes_back_under_another_number(world: World) -> None:
    world.work("work", 1000, 5)
    await world.node()
    await world.node()
    await world.job("work", schedule="now")
    await world.advance(1)
    zombie = holder(world)
    number = zombie.number
    zombie.link.freeze()
    await world.advance(90)
    zombie.link.thaw()
    await world.advance(5)
    assert zombie.number not in (0, number)
    assert zombie.engine.busy == 0
    alive = [node.number for node in await world.store.nodes() if node.stopped_us is None]
    assert sorted(alive) == sorted(node.number for node in world.nodes)


# --- G8


@in_world
async def test_g8_timely(world: World) -> None:
    works = [world.work(f"w{n}") for n in range(20)]
    for _ in range(3):
        await world.node()
    for work in works:
        await world.job(work.name, schedule="@every 10s")
    await world.reach(41)
    assert all(work.starts == pytest.approx([10, 20, 30, 40], abs=0.01) for work in works)
    number = world.nodes[0].number
    await world.nodes[0].crash()
    await world.reach(91)
    for work in works:
        late = [start - at for start, at in zip(work.starts[4:], (50, 60, 70, 80, 90), strict=True)]
        assert all(0 <= seconds <= 5 for seconds in late)
        assert late[-1] == pytest.approx(0, abs=0.01), "its share belongs to others now"
    assert number not in {run.node for work in works for run in (await world.runs(work.name))[4:]}


# --- G9


@in_world
async def test_g9_ordered(world: World) -> None:
    """Under ``queue``, whatever happens to nodes; what is recovered comes first."""
    world.work("work", *[4, 1, 9, 1, 1, 14, 1, 1, 6], takes=1)
    await world.job("work", schedule="@every 5s", overlap="queue", recovery="all")
    first = await world.node()
    await world.node()
    await world.reach(32)
    await first.crash()
    await world.reach(48)
    for node in world.nodes[1:]:
        await node.crash()
    await world.reach(120)
    await world.node()
    await world.reach(200)
    runs = [run for run in await world.runs("work") if run.started_us is not None]
    assert [run.started_us for run in runs] == sorted(run.started_us or 0 for run in runs)
    assert covered(world, list(runs), 5) == instants(5, 200, 5)


# --- G10


@pytest.mark.parametrize(
    ("recovery", "ran", "left"),
    [
        ("last", 1, 3),
        ("skip", 0, 3),
        ({"strategy": "bounded", "max_count": 50}, 50, 3),
        ({"strategy": "bounded", "max_count": 1000, "max_age": "1m"}, 60, 3),
        ("compressed", 1, 3),
    ],
)
@in_world
async def test_g10_bounded_catch_up(world: World, recovery: Any, ran: int, left: int) -> None:
    """A year without a node, a job for each second of it: a few runs, and one record for the rest."""
    year = 365 * 86_400
    work, other = world.work("work"), world.work("other")
    await world.job("work", schedule="@every 1s", recovery=recovery, overlap="allow")
    await world.job("other", schedule="@every 1h", recovery="last")
    await world.advance(year + 0.5)
    await world.node()
    await world.advance(left)
    [span] = await world.spans("work")
    recovered = [run for run in await world.runs("work") if run.cause is Cause.RECOVERY]
    assert abs(len(recovered) - ran) <= 1
    assert span.count + len(recovered) == year
    assert span.status is Status.MISSED
    assert len(work.starts) == len(recovered) + left
    assert len(other.starts) == 1


# --- G13


@in_world
async def test_g13_control(world: World) -> None:
    """After the answer to pause, cancel and delete nothing unstarted starts, on any node."""
    works = {name: world.work(name, takes=1) for name in ("paused", "deleted", "canceled")}
    block = world.work("block", takes=20)
    for _ in range(2):
        await world.node(slots=1)
    for n in range(2):
        await world.job(f"block-{n}", schedule="now", does="block")
    await world.advance(1)
    for name in works:
        await world.job(name, schedule="@every 2s", overlap="queue")
    await world.reach(12)
    assert await world.count(Status.READY) == 3
    await world.switch("pause", "paused")
    await world.jobs.delete("deleted")
    for run_ in await world.runs("canceled"):
        assert await world.asked.cancel(run_.id) is Status.CANCELED
    canceled = {run_.id for run_ in await world.runs("canceled")}
    await world.switch("disable", "canceled")
    for node in world.nodes:
        await node.crash()
    for _ in range(2):
        await world.node()
    await world.advance(120)
    assert [work.starts for work in works.values()] == [[], [], []]
    assert all(run_.status is Status.CANCELED for run_ in await world.runs("canceled") if run_.id in canceled)
    assert len(block.ends) == 2


@in_world
async def test_g13_control_an_admission_on_its_way_comes_too_late(world: World) -> None:
    """A node hangs at the instant; meanwhile the job is deleted, paused, changed."""
    works = {name: world.work(name) for name in ("deleted", "paused", "changed")}
    node = await world.node()
    for name in works:
        await world.job(name, schedule="@every 10s")
    await world.reach(9)
    node.link.freeze()
    await world.reach(11)
    await world.jobs.delete("deleted")
    await world.switch("pause", "paused")
    changed = world.work("otherwise")
    await world.job("changed", schedule="@every 10s", does="otherwise")
    node.link.thaw()
    await world.reach(19)
    assert [work.starts for work in works.values()] == [[], [], []]
    assert len(changed.starts) == 1, "late, and as the job is now"


# --- G14


@pytest.mark.parametrize("fault", ["cut", "frozen", "skewed", "crashed"])
@in_world
async def test_g14_liveness(world: World, fault: str) -> None:
    """Ten minutes in which no node can do anything; a minute after it heals the schedule runs in full."""
    works = [world.work(f"w{n}", takes=1) for n in range(5)]
    for _ in range(2):
        await world.node()
    for work in works:
        await world.job(work.name, schedule="@every 10s", recovery="skip")
    await world.reach(45)
    for node in list(world.nodes):
        match fault:
            case "cut":
                node.link.cut = True
            case "frozen":
                node.link.freeze()
            case "skewed":
                node.link.skew_s = -30
            case _:
                await node.crash()
    await world.reach(645)
    for node in list(world.nodes):
        node.link.cut, node.link.skew_s = False, 0
        node.link.thaw()
        if fault == "crashed":
            await world.node()
    await world.reach(705)
    healed_s = world.passed_s
    await world.advance(60)
    for work in works:
        starts = [start for start in work.starts if start >= healed_s]
        assert starts == pytest.approx(instants(710, 760, 10), abs=1.1)
    assert await world.count(Status.RUNNING) <= len(works)
    for work in works:
        assert covered(world, await world.records(work.name), 10) == instants(10, 760, 10)


# --- G16


@in_world
async def test_g16_bounded(world: World) -> None:
    """Floods and giants: what is held in memory, and stored of one run, has a bound."""
    work = world.work("work", takes=0.5)
    world.work("long-error", RuntimeError("x" * 10_000_000))
    world.work("large-result", lambda: "x" * 2_000_000)
    node = await world.node(slots=10)
    await world.job("work", schedule="manual", overlap="allow", queue_max=100)
    for _ in range(500):
        await world.asked.trigger("work")
    await world.advance(5)
    assert (work.most, node.engine.busy) == (10, 10)
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
async def test_g16_bounded_queues_hold_through_everything(world: World) -> None:
    world.work("work", takes=1000)
    await world.job("work", schedule="@every 1s", overlap="queue", queue_max=20, recovery="all")
    await world.advance(500)
    await world.node()
    for _ in range(5):
        await world.advance(20)
        assert await world.count(Status.QUEUED) <= 20
    assert sum(isinstance(record, Execution) for record in await world.records("work")) <= 150
