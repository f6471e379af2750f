"""Recovery on the virtual clock: instants that were missed while no node was alive."""

from datetime import datetime
from typing import Any

import pytest

from chronos.core.calendar import from_us, to_us
from chronos.core.events import GapFound, JobUnschedulable, ProblemReported
from chronos.core.execution import Cause, Execution, Span, Status
from chronos.core.reasons import ReasonCode
from chronos.core.schedule import plugins
from chronos.errors import Invalid, StoreBroken
from chronos.store.commands import Command, Recover
from tests.support.engine_world import World, in_world


async def gap(world: World, *, alive_until: float = 15, until: float = 95) -> None:
    """Run one node, then none, then another one."""
    node = await world.node()
    await world.reach(alive_until)
    await node.crash()
    await world.reach(until)
    await world.node()
    await world.advance(3)


# The job runs every 10 s. No node is alive from 15 to 95, so the eight instants 20 … 90 are missed.
THREE_RAN = ["10 succeeded", "20-60 missed 5", "70 succeeded", "80 succeeded", "90 succeeded"]
STRATEGIES: list[tuple[Any, list[str]]] = [
    ("last", ["10 succeeded", "20-80 missed 7", "90 succeeded"]),
    ("skip", ["10 succeeded", "20-90 missed 8"]),
    ("all", ["10 succeeded", *(f"{at} succeeded" for at in range(20, 100, 10))]),
    ("compressed", ["10 succeeded", "20-80 missed 7", "90 succeeded"]),
    ({"strategy": "bounded", "max_count": 3}, THREE_RAN),
    ({"strategy": "bounded", "max_age": "30s"}, THREE_RAN),
    ({"strategy": "bounded", "max_count": 3, "max_age": "1h"}, THREE_RAN),
    ({"strategy": "bounded", "max_count": 0}, ["10 succeeded", "20-90 missed 8"]),
]


@pytest.mark.parametrize(("recovery", "story"), STRATEGIES)
@in_world
async def test_each_strategy_after_a_gap(world: World, recovery: Any, story: list[str]) -> None:
    work = world.work("work")
    await world.job("work", schedule="@every 10s", recovery=recovery)
    await gap(world)
    assert await world.story("work") == story
    runs = await world.runs("work")
    assert [run.cause for run in runs[1:]] == [Cause.RECOVERY] * (len(runs) - 1)
    assert all(run.recovered for run in runs[1:])
    await world.reach(115)
    # Then it continues as usual, even while the dead node is still registered.
    assert work.starts[-2:] == pytest.approx([100, 110], abs=0.1)


@pytest.mark.parametrize(("recovery", "story"), STRATEGIES)
@in_world
async def test_each_strategy_at_the_first_start(world: World, recovery: Any, story: list[str]) -> None:
    """The job was saved by a program that runs no engine."""
    world.work("work")
    await world.job("work", schedule={"every": "10s", "start": "2027-01-01T00:00:10Z"}, recovery=recovery)
    world.clock.jump(5)  # so that only the first instant, at 10, does not have to be recovered
    node = await world.node()
    await world.reach(15)
    await node.crash()
    await world.reach(95)
    await world.node()
    await world.advance(3)
    assert await world.story("work") == story


@in_world
async def test_a_compressed_run_receives_its_span(world: World) -> None:
    spans: list[Any] = []

    async def work(ctx: Any) -> None:
        spans.append(None if ctx.span is None else (ctx.span.from_, ctx.span.to, ctx.span.count))

    world.functions.register("work", work)
    await world.job("work", schedule="@every 10s", recovery="compressed")
    await gap(world)
    begin, end = (f"2027-01-01 00:0{at // 60}:{at % 60:02}+00:00" for at in (20, 90))
    assert spans[0] is None
    assert [str(part) for part in spans[1]] == [begin, end, "8"]


@pytest.mark.parametrize("overlap", ["allow", "skip", "queue"])
@pytest.mark.parametrize(
    ("after", "story"),
    [
        # Back at 42.5: the oldest missed instant, 20, is 22.5 s old. Up to ``after`` the whole gap is only late.
        ("30s", ["10 succeeded", "20 succeeded", "30 succeeded", "40 succeeded"]),
        ("20s", ["10 succeeded", "20-30 missed 2", "40 succeeded"]),
        ("0s", ["10 succeeded", "20-30 missed 2", "40 succeeded"]),
    ],
)
@in_world
async def test_the_oldest_instant_decides_between_late_and_missed(
    world: World, after: str, story: list[str], overlap: str
) -> None:
    world.work("work")
    await world.job("work", schedule="@every 10s", overlap=overlap, recovery={"strategy": "last", "after": after})
    await gap(world, until=42.5)
    assert await world.story("work") == story
    late = after == "30s"
    assert {run.cause for run in (await world.runs("work"))[1:]} == {Cause.SCHEDULE if late else Cause.RECOVERY}


@in_world
async def test_late_instants_run_one_after_the_other(world: World) -> None:
    """They overlap only because no node was ready in time, so they are not skipped."""
    work = world.work("work", takes=1.5)
    await world.job("work", schedule="@every 2s", overlap="skip")
    await gap(world, alive_until=3.8, until=11)
    await world.reach(30)
    assert (await world.story("work"))[:6] == [*(f"{at} succeeded" for at in (2, 4, 6, 8, 10)), "12 skipped"]
    assert work.most == 1


@in_world
async def test_late_instants_that_do_not_fit_are_retried_with_pauses(world: World) -> None:
    work = world.work("work", takes=9)
    await world.job("work", schedule="@every 2s", overlap="skip", queue_max=0)
    node = await world.node()
    asked_s: list[float] = []

    def count_commands(command: Command[Any]) -> bool:
        if isinstance(command, Recover):
            asked_s.append(world.now_s)
        return False

    node.link.refuses = count_commands
    await world.reach(3)
    node.link.freeze()
    await world.reach(8)
    node.link.thaw()
    await world.reach(13)
    assert 2 <= len(asked_s) <= 8
    assert (work.starts[0], len(work.starts), work.most) == (2, 2, 1)


@in_world
async def test_nothing_recovered_is_dropped_by_overlap(world: World) -> None:
    work = world.work("work", takes=3)
    await world.job("work", schedule="@every 10s", overlap="skip", recovery="all")
    await gap(world)
    await world.reach(119.5)
    story = await world.story("work")
    assert [line for line in story if not line.endswith("succeeded")] == ["100 skipped", "110 skipped"]
    assert (work.most, len(work.starts)) == (1, 9)


@in_world
async def test_the_reason_describes_the_strategy(world: World) -> None:
    world.work("work")
    await world.job("work", schedule="@every 10s", recovery={"strategy": "bounded", "max_count": 1})
    await gap(world)
    [span] = await world.spans("work")
    assert span.reason.code is ReasonCode.OUTSIDE_RECOVERY
    assert "at most 1 missed run," in span.reason.message
    [gap_event] = [event for event in world.nodes[-1].events if isinstance(event, GapFound)]
    assert (gap_event.strategy, gap_event.runs, gap_event.left_out) == ("bounded", 1, 7)


@pytest.mark.parametrize("recovery", ["last", "all", "compressed", "skip"])
@in_world
async def test_a_crash_during_recovery_loses_and_repeats_nothing(world: World, recovery: str) -> None:
    """The answer to the recovery is lost, its node dies, and the next one plans again. Some runs are unfinished too."""
    world.work("work", takes=4)
    await world.job("work", schedule="@every 10s", recovery=recovery, overlap="queue")
    node = await world.node()
    await world.reach(15)
    await node.crash()
    await world.reach(95)
    second = await world.node()
    second.link.loses = lambda command: isinstance(command, Recover)
    await world.advance(2)
    await second.crash()
    await world.node()
    await world.advance(150)
    records = [record for record in await world.records("work") if _from(record) < world.us(100)]
    covered: list[int] = []
    for record in records:
        if isinstance(record, Span):
            covered += range(record.from_us, record.to_us + 1, 10_000_000)
        else:
            assert record.status is Status.SUCCEEDED
            covered.append(record.scheduled_us)
    assert sorted(covered) == [world.us(at) for at in range(10, 100, 10)]


@pytest.mark.parametrize("overlap", ["replace", "queue", "allow"])
@in_world
async def test_gaps_of_many_jobs_are_recovered_together(world: World, overlap: str) -> None:
    """The answers are lost once and one job is rejected. Each of the others runs once."""
    names = [f"job-{n:02}" for n in range(40)]
    work = world.work("work")
    for name in names:
        await world.job(name, does="work", schedule="@every 10s", recovery="last", overlap=overlap)
    node = await world.node()
    await world.reach(15)
    await node.crash()
    await world.reach(95)
    refused = (await world.get(names[3])).id
    lost: list[bytes] = []

    def refuse(command: Command[Any]) -> bool:
        if isinstance(command, Recover) and command.job == refused:
            raise Invalid("not this one")
        return False

    def lose(command: Command[Any]) -> bool:
        if not isinstance(command, Recover) or command.job in lost:
            return False
        lost.append(command.job)
        return True

    second = await world.node()
    second.link.refuses, second.link.loses = refuse, lose
    await world.advance(3)
    for name in names:
        if name != names[3]:
            assert await world.story(name) == ["10 succeeded", "20-80 missed 7", "90 succeeded"]
    assert await world.story(names[3]) == ["10 succeeded"]
    assert {event.job for event in second.events if isinstance(event, JobUnschedulable)} == {refused}
    assert len(lost) == len(names) - 1
    assert len(work.starts) == 2 * len(names) - 1


@in_world
async def test_a_broken_store_does_not_mark_jobs_as_broken(world: World) -> None:
    work = world.work("job")
    await world.job("job", schedule="@every 10s")
    await world.reach(95)
    node = await world.node()

    def breaks(command: Command[Any]) -> bool:
        if isinstance(command, Recover):
            raise StoreBroken("the file was moved")
        return False

    node.link.refuses = breaks
    await world.advance(3)
    assert [event for event in node.events if isinstance(event, JobUnschedulable)] == []
    assert [event.error for event in node.events if isinstance(event, ProblemReported)] != []
    node.link.refuses = lambda _: False
    await world.reach(99)
    assert len(work.starts) == 1


@in_world
async def test_two_nodes_recover_the_same_gap_once(world: World) -> None:
    work = world.work("work")
    await world.job("work", schedule="@every 10s", recovery="all", overlap="allow")
    node = await world.node()
    await world.reach(15)
    await node.crash()
    await world.reach(95)
    await world.node()
    await world.node()
    await world.advance(3)
    assert len(work.starts) == 9
    assert [line.split()[0] for line in await world.story("work")] == [str(at) for at in range(10, 100, 10)]


@in_world
async def test_recovering_all_of_an_unlimited_job_is_paced(world: World) -> None:
    """Thousands of missed instants neither flood the store nor block another job."""
    work, other = world.work("work", takes=1), world.work("other")
    keep = {"max_count": 10_000}
    await world.job("work", schedule="@every 1s", overlap="allow", recovery="all", retention=keep)
    await world.job("other", schedule="@every 30s", recovery="skip", priority=10)
    await world.advance(4_000)
    await world.node(slots=250)
    most = 0
    for _ in range(30):
        await world.advance(1)
        most = max(most, await world.count(Status.READY))
    assert most <= 3_000
    assert other.starts
    times = [world.second(run.scheduled_us) for run in await world.runs("work")]
    assert times[:4_000] == [float(at) for at in range(1, 4_001)]
    assert len(work.starts) == len(times)


@in_world
async def test_recovering_all_into_a_bounded_queue_continues_as_it_empties(world: World) -> None:
    work = world.work("work", takes=0.1)
    await world.job("work", schedule="@every 10s", overlap="queue", queue_max=5, recovery="all")
    await world.advance(300)
    await world.node()
    for _ in range(10):
        await world.advance(1)
        assert await world.count(Status.QUEUED) <= 5
    assert len(work.starts) == 30
    assert work.most == 1


@in_world
async def test_a_one_time_job_that_was_missed_runs_later(world: World) -> None:
    work = world.work("work")
    await world.job("work", schedule={"in": "20s"})
    await world.advance(500)
    await world.node()
    await world.advance(3)
    assert len(work.starts) == 1
    assert (await world.story("work")) == ["20 succeeded"]


@in_world
async def test_a_job_that_cannot_be_restored_does_not_stop_the_rest(world: World) -> None:
    world.work("work")
    lost, fine = await world.job("lost", schedule="@every 10s", does="nowhere"), world.work("fine")
    await world.job("fine", schedule="@every 10s")
    await gap(world)
    assert len(fine.starts) == 2
    open_runs = [run for run in await world.records_of(lost.job_id) if isinstance(run, Execution)]
    assert {run.status for run in open_runs} <= {Status.READY, Status.QUEUED}, "it waits for a node that has it"


def _from(record: Execution | Span) -> int:
    return record.from_us if isinstance(record, Span) else record.scheduled_us


@in_world
async def test_due_instants_do_not_wait_for_recovery(world: World) -> None:
    """The store delays the recovery for a long time."""
    late, prompt = world.work("late"), world.work("prompt")
    await world.job("late", schedule="@every 10s", recovery="last")
    node = await world.node()
    await world.reach(15)
    await node.crash()
    await world.job("prompt", schedule={"every": "1s", "start": "2027-01-01T00:01:36Z"})
    await world.reach(95)
    second = await world.node()
    second.link.refuses = lambda command: isinstance(command, Recover)
    await world.reach(99.5)
    assert (late.starts, prompt.starts) == ([10], [96, 97, 98, 99])
    second.link.refuses = lambda _: False
    await world.advance(5)
    assert (await world.story("late"))[:3] == ["10 succeeded", "20-80 missed 7", "90 succeeded"]


class Almanac:
    """Every ten seconds, up to its last page. Also the entry point that provides it."""

    value = "almanac:Almanac"

    def load(self) -> Any:
        return self

    def next_after(self, instant: datetime) -> datetime:
        if World.second(to_us(instant)) >= 40:
            raise LookupError("the last page is missing")
        return from_us(World.us(World.second(to_us(instant)) // 10 * 10 + 10))


@in_world
async def test_a_gap_that_cannot_be_planned_is_reported_once(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plugins, "_registered", lambda: {"almanac": Almanac()})
    world.work("odd")
    fine = world.work("fine")
    await world.job("odd", schedule="@almanac", recovery="all")
    await world.job("fine", schedule="@every 10s", recovery="last")
    await world.reach(85)
    node = await world.node()
    await world.advance(10)
    errors = [event.error for event in node.events if isinstance(event, JobUnschedulable)]
    assert len(errors) == 1
    assert "the last page is missing" in errors[0]
    assert len(fine.starts) == 2
