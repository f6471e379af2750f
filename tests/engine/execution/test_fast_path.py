"""The fast path of an execution: a single task at its first attempt, and how it continues as an ExecutionRun."""

import asyncio
import sys
from contextvars import ContextVar
from typing import Any

from chronos.core.execution import AttemptStatus, Cause, Status
from chronos.core.ids import requested_execution_id
from chronos.core.outcome import Outcome, Succeeded
from chronos.core.reasons import Reason, ReasonCode
from chronos.engine.job_catalog import CatalogEntry
from chronos.engine.options import EngineOptions
from chronos.runners.contract import AttemptCall
from chronos.runners.python.context import Context
from chronos.runners.wait import WaitRunner
from chronos.store.commands import Admit, Claim, Claimed, Command, RunRow, Trigger
from tests.support.engine_world import NodeOfWorld, World, in_world

_VARIABLE: ContextVar[str] = ContextVar("variable", default="nothing")


@in_world
async def test_functions_that_never_await_have_the_same_outcomes(world: World) -> None:
    async def fine() -> None: ...

    async def returns() -> dict[str, int]:
        return {"n": 1}

    async def breaks() -> None:
        raise ValueError("no")

    async def leaves() -> None:
        sys.exit(3)

    for function in (fine, returns, breaks, leaves):
        world.functions.register(function.__name__, function)
        await world.job(function.__name__, schedule="now", retry={"max_attempts": 1})
    node = await world.node()
    await world.advance(1)
    runs = {name: await world.last(name) for name in ("fine", "returns", "breaks", "leaves")}
    assert [run.status.name for run in runs.values()] == ["SUCCEEDED", "SUCCEEDED", "FAILED", "FAILED"]
    assert (runs["fine"].detail, runs["returns"].detail) == (None, {"result": {"n": 1}})
    assert [a.error for name in ("breaks", "leaves") for a in await world.attempts(runs[name])] == [
        "ValueError: no",
        "SystemExit: 3",
    ]
    assert node.engine.running_count == 0


@in_world
async def test_every_attempt_of_an_async_function_has_its_own_task_and_context_variables(world: World) -> None:
    seen: list[tuple[str, asyncio.Task[Any] | None]] = []

    async def retried() -> None:
        seen.append((_VARIABLE.get(), asyncio.current_task()))
        _VARIABLE.set("something")
        if len(seen) < 3:
            raise ValueError("again")

    world.functions.register("retried", retried)
    await world.job("retried", schedule="now", retry={"max_attempts": 3, "initial_interval": "1s", "jitter": 0})
    await world.node()
    await world.advance(30)
    assert (await world.last("retried")).status is Status.SUCCEEDED
    assert [value for value, _ in seen] == ["nothing"] * 3
    assert None not in {task for _, task in seen}
    assert len({task for _, task in seen}) == 3


@in_world
async def test_an_async_function_that_ignores_its_timeout_is_abandoned(world: World) -> None:
    free, stops_s = asyncio.Event(), []

    async def stubborn(ctx: Context) -> str:
        while not free.is_set():
            try:
                await free.wait()
            except asyncio.CancelledError:
                stops_s.append(world.passed_s)
        ctx.log.info("too late")
        return "too late"

    world.functions.register("stubborn", stubborn)
    node = await world.node()
    started_s = world.passed_s
    await world.job("stubborn", schedule="now", task_timeout="20s", retry={"max_attempts": 1})
    await world.advance(30)
    run = await world.last("stubborn")
    assert (run.status, node.engine.running_count) == (Status.FAILED, 0)
    asked_s, forced_s = stops_s
    assert 20 <= asked_s - started_s <= 22
    assert forced_s - asked_s == EngineOptions().timeout_grace_s
    free.set()
    await world.advance(2)
    assert (await world.last("stubborn")).status is Status.FAILED
    assert not await world.store.output(run.id)


@in_world
async def test_context_variables_do_not_leak_to_the_next_function(world: World) -> None:
    values: list[str] = []

    async def sets() -> None:
        values.append(_VARIABLE.get())
        _VARIABLE.set("something")

    world.functions.register("sets", sets)
    await world.node()
    await world.job("sets", schedule="@every 10s")
    await world.reach(35)
    assert values == ["nothing"] * 3


@in_world
async def test_freed_slots_serve_the_next_batches(world: World) -> None:
    """Many more executions are due than there are slots, but none needs a claim."""
    ran: list[float] = []

    async def short() -> None:
        ran.append(world.passed_s)

    world.functions.register("short", short)
    node = await world.node(slots=1_000)
    says: dict[str, Any] = {"python": {"name": "short"}, "schedule": "2027-01-01T00:00:20.5Z"}
    await world.saver.save([world.jobs.read({"name": f"job-{n}", **says}) for n in range(2_600)])
    sent: list[Command[Any]] = []

    def count_commands(command: Command[Any]) -> bool:
        sent.append(command)
        return False

    node.link.refuses = count_commands
    await world.reach(21)
    assert ran == [20.5] * 2_600
    rows = [row for command in sent if isinstance(command, Admit) for row in command.rows]
    assert len(rows) == 2_600
    assert all(row.claim for row in rows)
    assert not [each for each in sent if isinstance(each, Claim) and world.us(20.5) <= each.now_us < world.us(21)]


@in_world
async def test_an_unreadable_detail_ends_the_execution_not_the_node(world: World) -> None:
    world.work("work", hears=True)
    node = await world.node()
    await world.job("work", schedule="2027-01-01T01:00:00Z")
    await world.job("fine", does="work", schedule="@every 10s")
    await world.executions.trigger("work", {"a": 1})
    await world.advance(1)
    await world.store.apply(_broken_run(world, (await world.get("work")).id))
    await world.reach(25)
    last = await world.last("work")
    assert last.status is Status.FAILED
    assert last.reason is not None
    assert last.reason.code is ReasonCode.TASK_FAILED
    assert last.reason.message is not None
    assert "broke off with an internal error" in last.reason.message
    assert (await world.last("fine")).status is Status.SUCCEEDED
    assert not node.watch.done()


def _broken_run(world: World, job: bytes) -> Command[Any]:
    now_us = world.clock.now_us()
    id_ = requested_execution_id(job, Cause.MANUAL, now_us, b"broken")
    run = RunRow(id_, Cause.MANUAL, now_us, now_us, '{"group": 7}')
    return Trigger(job=job, run=run, now_us=now_us)


@in_world
async def test_an_execution_stopped_before_its_call_is_never_called(world: World) -> None:
    called: list[float] = []

    async def quick() -> None:
        called.append(world.passed_s)

    world.functions.register("quick", quick)
    node = await world.node()
    await world.job("quick", schedule="2027-01-01T00:00:20Z")
    executor = node.engine._executor
    begin = executor.begin

    def begin_and_stop(claimed: Claimed, entry: CatalogEntry) -> None:
        begin(claimed, entry)
        executor._running_executions[claimed.id].stop(ReasonCode.CANCELED, "not today")

    executor.begin = begin_and_stop  # type: ignore[method-assign]
    await world.reach(21)
    last = await world.last("quick")
    assert (called, last.status, last.reason) == ([], Status.CANCELED, Reason(ReasonCode.CANCELED, "not today"))
    [attempt] = await world.attempts(last)
    assert (attempt.status, attempt.started_us, attempt.finished_us) == (
        AttemptStatus.CANCELED,
        world.us(20),
        world.us(20),
    )
    assert last.detail is not None
    assert (last.detail["report"]["began_us"], last.detail["report"]["worked_us"]) == (world.us(20), 0)
    assert node.engine.running_count == 0


@in_world
async def test_a_short_outage_of_the_store_does_not_end_an_execution(world: World) -> None:
    last_runs: list[object] = []

    async def knows(ctx: Context) -> None:
        last_runs.append(ctx.last_run_at)

    world.functions.register("knows", knows)
    node = await world.node()
    await world.job("knows", schedule="2027-01-01T00:00:20Z")
    _cut_as_it_begins(node, for_s=1)
    await world.reach(25)
    assert ((await world.last("knows")).status, last_runs) == (Status.SUCCEEDED, [None])


@in_world
async def test_an_execution_stopped_for_shutdown_before_its_call_is_released(world: World) -> None:
    async def knows(ctx: Context) -> None:
        await asyncio.sleep(600)

    world.functions.register("knows", knows)
    node = await world.node()
    await world.job("knows", schedule="2027-01-01T00:00:20Z")
    _cut_as_it_begins(node, for_s=3)
    await world.reach(20.1)
    await node.stop(grace_s=1)
    assert world.passed_s < 60
    assert (await world.last("knows")).status is Status.READY


def _cut_as_it_begins(node: NodeOfWorld, *, for_s: float) -> None:
    """Make the store unreachable for a while, from the start of an execution."""
    executor, link = node.engine._executor, node.link
    begin = executor.begin

    def begin_and_cut(claimed: Claimed, entry: CatalogEntry) -> None:
        begin(claimed, entry)
        link.cut = True
        asyncio.get_running_loop().call_later(for_s, setattr, link, "cut", False)

    executor.begin = begin_and_cut  # type: ignore[method-assign]


@in_world
async def test_an_outcome_that_cannot_be_recorded_ends_the_execution_and_frees_its_slot(world: World) -> None:
    class Odd(WaitRunner):
        async def run(self, call: AttemptCall) -> Outcome:
            call.detail["said"] = "\udcff"
            return Succeeded()

    world._runners["wait"] = Odd()
    node = await world.node()
    await world.job("odd", wait={"for": "1s"}, schedule="2027-01-01T00:00:20Z")
    await world.reach(21)
    last = await world.last("odd")
    assert last.status is Status.FAILED
    assert last.reason is not None
    assert "broke off with an internal error" in str(last.reason.message)
    assert node.engine.running_count == 0
