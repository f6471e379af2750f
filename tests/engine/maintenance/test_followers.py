"""Jobs that follow others: on success, failure or completion, one upstream or several, through crashes."""

from typing import Any

import pytest
from msgspec.structs import replace

from chronos.core.events import ProblemReported
from chronos.core.execution import Cause, Execution, Status
from chronos.core.job import Target
from chronos.core.reasons import ReasonCode
from chronos.runners.command.runner import CommandRunner
from chronos.store.commands import Command, TakeOutbox
from tests.support.engine_world import World, in_world, statuses

ONE_TRY = {"max_attempts": 1}

# How the upstream ends, and how often followers on success, failure and completion run.
ENDS = [
    ("succeeded", (1, 0, 1)),
    ("completed_with_errors", (1, 0, 1)),
    ("failed", (0, 1, 1)),
    ("stale", (0, 1, 1)),
    ("canceled", (0, 0, 1)),
    ("skipped", (0, 0, 0)),
]


@pytest.mark.parametrize(("ends", "ran"), ENDS)
@in_world
async def test_which_outcomes_start_a_follower(world: World, ends: str, ran: tuple[int, int, int]) -> None:
    world.work("up", takes=500 if ends in ("stale", "canceled", "skipped") else 1, fails=ends == "failed")
    world.work("bad", fails=True)
    tasks = [{"name": name, "python": {"name": name}} for name in ("up", "bad")]
    says = {"on_failure": "continue"} if ends == "completed_with_errors" else {}
    delivery = "at_most_once" if ends == "stale" else "at_least_once"
    node = await world.node()
    await world.job(
        "up",
        schedule="@every 100s" if ends == "skipped" else "manual",
        retry=ONE_TRY,
        delivery=delivery,
        tasks=tasks if ends == "completed_with_errors" else tasks[:1],
        **says,
    )
    if ends == "skipped":
        await world.executions.trigger("up")
        await world.advance(99)
    followers = [world.work(on) for on in ("success", "failure", "completion")]
    for follower in followers:
        await world.job(follower.name, after=[{"job": "up", "on": follower.name}])
    if ends == "skipped":
        await world.advance(5)
    else:
        await world.executions.trigger("up")
        await world.advance(0.5)
    if ends == "stale":
        await node.crash()
        await world.node()
        await world.advance(50)
    if ends == "canceled":
        await world.executions.cancel((await world.last("up")).id)
    await world.advance(10)
    assert (await world.last("up")).status.name.lower() == ends
    assert tuple(len(follower.starts) for follower in followers) == ran
    if ends == "skipped":
        assert await world.runs("success") == [], "nothing failed: the run before it was still under way"
    elif ran[0] == 0:
        [skipped] = await world.runs("success")
        assert skipped.status is Status.SKIPPED
        assert skipped.reason is not None
        assert skipped.reason.code is ReasonCode.UPSTREAM_FAILED


@in_world
async def test_failure_skips_the_whole_chain(world: World) -> None:
    world.work("a", fails=True)
    b, c, alarm = world.work("b"), world.work("c"), world.work("alarm")
    await world.node()
    await world.job("a", schedule="manual", retry=ONE_TRY)
    await world.job("b", after=["a"])
    await world.job("c", after=["b"])
    await world.job("alarm", after=[{"job": "a", "on": "failure"}])
    await world.executions.trigger("a")
    await world.advance(10)
    assert (b.starts, c.starts, len(alarm.starts)) == ([], [], 1)
    assert [statuses(await world.runs(name)) for name in ("b", "c")] == [["skipped"], ["skipped"]]


@in_world
async def test_success_starts_the_whole_chain_at_once(world: World) -> None:
    works = [world.work(name, takes=1) for name in ("a", "b", "c")]
    await world.node()
    await world.job("a", schedule="@every 10s")
    await world.job("b", after=["a"])
    await world.job("c", after=["b"])
    await world.reach(29)
    assert [work.starts for work in works] == [[10, 20], [11, 21], [12, 22]]
    last: Execution = await world.last("c")
    assert last.cause is Cause.DEPENDENCY


@in_world
async def test_a_job_that_follows_several_waits_for_all_of_them(world: World) -> None:
    world.work("left", takes=1)
    world.work("right", takes=5)
    both = world.work("both")
    await world.node()
    await world.job("left", schedule="@every 20s")
    await world.job("right", schedule="@every 20s")
    await world.job("both", after=["left", "right"])
    await world.reach(59)
    assert both.starts == [25, 45]
    first = (await world.runs("both"))[0]
    assert len((first.detail or {})["upstream"]) == 2


@in_world
async def test_two_upstreams_that_end_together_start_one_run(world: World) -> None:
    for name in ("left", "right"):
        world.work(name, takes=2)
    both = world.work("both")
    await world.node()
    await world.job("left", schedule="@every 20s")
    await world.job("right", schedule="@every 20s")
    await world.job("both", after=["left", "right"])
    await world.reach(59)
    assert len(both.starts) == 2


@in_world
async def test_a_failed_upstream_among_several_skips_the_follower(world: World) -> None:
    world.work("left", takes=1, fails=True)
    world.work("right", takes=5)
    both = world.work("both")
    await world.node()
    await world.job("left", schedule="manual", retry=ONE_TRY)
    await world.job("right", schedule="manual")
    await world.job("both", after=["left", "right"])
    for name in ("left", "right"):
        await world.executions.trigger(name)
    await world.advance(20)
    assert both.starts == []
    assert statuses(await world.runs("both")) == ["skipped"]


@in_world
async def test_a_crash_loses_no_follower(world: World) -> None:
    """The upstream's end and its outbox item are one transaction; the next node handles the item."""
    world.work("up", takes=1)
    down = world.work("down")
    node = await world.node()
    await world.job("up", schedule="manual")
    await world.job("down", after=["up"])
    await world.executions.trigger("up")
    node.link.refuses = lambda command: isinstance(command, TakeOutbox)
    await world.advance(5)
    assert (await world.last("up")).status is Status.SUCCEEDED
    assert down.starts == []
    await node.crash()
    await world.node()
    await world.advance(60)
    assert len(down.starts) == 1


@in_world
async def test_a_slow_hook_delays_no_other_item(world: World) -> None:
    world.work("up")
    hook, down = world.work("hook", takes=100), world.work("down")
    await world.node()
    await world.job("up", schedule="@every 10s", on_complete={"python": {"name": "hook"}})
    await world.job("down", after=["up"])
    await world.reach(35)
    assert len(hook.starts) == 3, "none of them is over"
    assert [round(at) for at in down.starts] == [10, 20, 30]
    await world.reach(136)
    assert [round(at) for at in hook.ends] == [110, 120, 130]


@in_world
async def test_an_unreadable_item_is_reported_and_delays_no_other_item(world: World) -> None:
    """Another release may have written it."""
    world.work("up")
    hook, down = world.work("hook"), world.work("down")
    node = await world.node()
    await world.job("up", schedule="@every 10s", on_complete={"python": {"name": "hook"}})
    await world.job("down", after=["up"])
    apply, taken = node.link.apply, list[float]()

    async def spoil(command: Command[Any]) -> Any:
        answer = await apply(command)
        if not isinstance(command, TakeOutbox):
            return answer
        taken.append(world.now_s)
        assert len(taken) < 1000, "it must not be taken again and again"
        return [item._replace(body="{}") if item.kind == "hook" else item for item in answer]

    node.link.apply = spoil  # type: ignore[method-assign]
    await world.reach(35)
    assert hook.starts == []
    assert [round(at) for at in down.starts] == [10, 20, 30]
    errors = [event.error for event in node.events if isinstance(event, ProblemReported) and event.where == "outbox"]
    assert 3 <= len(errors) < 20
    assert all("hook" in error and "ValidationError" in error for error in errors)
    node.link.apply = apply  # type: ignore[method-assign]
    await world.advance(70)
    assert len(hook.starts) >= 3


@in_world
async def test_an_item_in_progress_is_taken_once(world: World) -> None:
    """However often other items come and go meanwhile, and however often it fails."""
    world.work("up")
    hook = world.work("hook", *[RuntimeError("not yet")] * 3, takes=30)
    node = await world.node()
    await world.job("up", schedule="@every 1s", on_complete={"python": {"name": "hook"}})
    apply, taken = node.link.apply, list[bytes]()

    async def count(command: Command[Any]) -> Any:
        answer = await apply(command)
        if isinstance(command, TakeOutbox):
            taken.extend(item.id for item in answer if item.kind == "hook")
        return answer

    node.link.apply = count  # type: ignore[method-assign]
    await world.reach(60)
    assert len(hook.ends) > 20
    assert len(taken) == len(set(taken)) == 60
    node.link.loses = lambda command: isinstance(command, TakeOutbox)
    await world.reach(63)
    node.link.loses = lambda _: False
    await world.reach(100)
    assert len(hook.starts) == 100 + 3, "items whose TakeOutbox answer was lost are taken again"


@in_world
async def test_a_hook_that_can_never_work_is_not_retried(world: World) -> None:
    """For example a hook that was stored when templates could name secrets."""
    world.work("up")
    world._runners["command"] = CommandRunner()
    node = await world.node()
    draft = world.jobs.read({"name": "up", "schedule": "@every 100s", "python": {"name": "up"}})
    hook = Target(kind="command", options={"argv": ["true"], "env": {"A": "{{ secret.X }}"}})
    await world.saver.save([replace(draft, spec=replace(draft.spec, on_complete=hook))])
    await world.reach(190)
    [error] = [event.error for event in node.events if isinstance(event, ProblemReported)]
    assert error.startswith('up: on_complete: command.env.A: "secret.X" cannot be used')


@in_world
async def test_a_paused_follower_is_held(world: World) -> None:
    world.work("up")
    down = world.work("down")
    await world.node()
    await world.job("up", schedule="@every 10s")
    await world.job("down", after=["up"])
    await world.switch("pause", "down")
    await world.reach(15)
    assert down.starts == []
    await world.switch("resume", "down")
    await world.reach(19)
    assert len(down.starts) == 1


@in_world
async def test_a_disabled_follower_stays_off(world: World) -> None:
    world.work("up")
    down = world.work("down")
    await world.node()
    await world.job("up", schedule="@every 10s")
    await world.job("down", after=["up"])
    await world.switch("disable", "down")
    await world.reach(15)
    assert (down.starts, await world.story("down")) == ([], [])
    await world.switch("enable", "down")
    await world.reach(25)
    assert len(down.starts) == 1
