"""The short ways of an execution: functions that never wait, one task of any kind, and how they join the long one."""

import sys
from contextvars import ContextVar
from typing import Any

from chronos.core.execution import Cause, Status
from chronos.core.ids import asked_execution_id
from chronos.core.reasons import Code
from chronos.store.commands import Admit, Claim, Command, RunRow, Trigger
from tests.engine.world import World, in_world

_SAID: ContextVar[str] = ContextVar("said", default="nothing")


@in_world
async def test_functions_that_never_wait_end_as_others_do(world: World) -> None:
    async def fine() -> None: ...

    async def tells() -> dict[str, int]:
        return {"n": 1}

    async def breaks() -> None:
        raise ValueError("no")

    async def leaves() -> None:
        sys.exit(3)

    for function in (fine, tells, breaks, leaves):
        world.functions.register(function.__name__, function)
        await world.job(function.__name__, schedule="now", retry={"max_attempts": 1})
    node = await world.node()
    await world.advance(1)
    runs = {name: await world.last(name) for name in ("fine", "tells", "breaks", "leaves")}
    assert [run.status.name for run in runs.values()] == ["SUCCEEDED", "SUCCEEDED", "FAILED", "FAILED"]
    assert (runs["fine"].detail, runs["tells"].detail) == (None, {"result": {"n": 1}})
    assert [a.error for name in ("breaks", "leaves") for a in await world.attempts(runs[name])] == [
        "ValueError: no",
        "SystemExit: 3",
    ]
    assert node.engine.busy == 0


@in_world
async def test_what_one_function_sets_the_next_does_not_see(world: World) -> None:
    heard: list[str] = []

    async def sets() -> None:
        heard.append(_SAID.get())
        _SAID.set("something")

    world.functions.register("sets", sets)
    await world.node()
    await world.job("sets", schedule="@every 10s")
    await world.reach(35)
    assert heard == ["nothing"] * 3


@in_world
async def test_slots_that_the_first_have_left_serve_the_next(world: World) -> None:
    """Many more are due at once than there are slots: none has to be claimed by a command of its own."""
    ran: list[float] = []

    async def short() -> None:
        ran.append(world.passed_s)

    world.functions.register("short", short)
    node = await world.node(slots=1_000)
    says: dict[str, Any] = {"python": {"name": "short"}, "schedule": "2027-01-01T00:00:20.5Z"}
    await world.jobs.save([world.jobs.read({"name": f"job-{n}", **says}) for n in range(2_600)])
    sent: list[Command[Any]] = []

    def hear(command: Command[Any]) -> bool:
        sent.append(command)
        return False

    node.link.refuses = hear
    await world.reach(21)
    assert ran == [20.5] * 2_600
    rows = [row for command in sent if isinstance(command, Admit) for row in command.rows]
    assert len(rows) == 2_600
    assert all(row.claim for row in rows)
    assert not [each for each in sent if isinstance(each, Claim) and world.us(20.5) <= each.now_us < world.us(21)]


@in_world
async def test_a_detail_that_nobody_can_read_ends_the_execution_not_the_node(world: World) -> None:
    world.work("work", hears=True)
    node = await world.node()
    await world.job("work", schedule="2027-01-01T01:00:00Z")
    await world.job("fine", does="work", schedule="@every 10s")
    await world.asked.trigger("work", {"a": 1})
    await world.advance(1)
    await world.store.apply(_broken_run(world, (await world.get("work")).id))
    await world.reach(25)
    last = await world.last("work")
    assert last.status is Status.FAILED
    assert last.reason is not None
    assert last.reason.code is Code.TASK_FAILED
    assert last.reason.message is not None
    assert "cannot be run" in last.reason.message
    assert (await world.last("fine")).status is Status.SUCCEEDED
    assert not node.watch.done()


def _broken_run(world: World, job: bytes) -> Command[Any]:
    now_us = world.clock.now_us()
    id_ = asked_execution_id(job, Cause.MANUAL, now_us, b"broken")
    run = RunRow(id_, Cause.MANUAL, now_us, now_us, '{"group": 7}')
    return Trigger(job=job, run=run, now_us=now_us)
