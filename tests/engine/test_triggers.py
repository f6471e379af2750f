"""Requests of users: triggers, replays, backfills, and dead letters."""

from typing import Any

import pytest

from chronos.core.execution import Cause, Status
from chronos.errors import Conflict, Invalid, NotFound, QueueFull
from tests.engine.execution.test_execution_run import finished, python
from tests.support.engine_world import World, in_world, statuses

ONE_TRY = {"max_attempts": 1}


# --- trigger


@in_world
async def test_a_trigger_runs_now_with_its_payload(world: World) -> None:
    work = world.work("work", hears=True)
    await world.node()
    await world.job("work", schedule="@daily", payload={"size": 1})
    await world.advance(5)
    requested = await world.executions.trigger("work", {"size": 2}, reason="to see")
    await world.executions.trigger("work")
    await world.advance(1)
    assert work.payloads == [{"size": 2}, {"size": 1}]
    first = (await world.executions.get(requested.id)).execution
    assert (first.cause, first.status) == (Cause.MANUAL, Status.SUCCEEDED)
    assert (first.detail or {})["reason"] == "to see"


@in_world
async def test_the_same_idempotency_key_returns_the_same_execution(world: World) -> None:
    work = world.work("work")
    node = await world.node()
    await world.job("work", schedule="manual")
    first = await world.executions.trigger("work", idempotency="order-7")
    await world.advance(5)
    again = await world.executions.trigger("work", idempotency="order-7")
    await node.crash()
    await world.node()
    third = await world.executions.trigger("work", idempotency="order-7")
    other = await world.executions.trigger("work", idempotency="order-8")
    await world.advance(60)
    assert (first.created, again.created, third.created, other.created) == (True, False, False, True)
    assert first.id == again.id == third.id != other.id
    assert len(work.starts) == 2


@in_world
async def test_a_trigger_beyond_the_queue_is_rejected_and_can_be_retried(world: World) -> None:
    work = world.work("work", takes=10)
    await world.node()
    await world.job("work", schedule="manual", queue_max=1)
    for _ in range(2):
        await world.executions.trigger("work")
    with pytest.raises(QueueFull):
        await world.executions.trigger("work")
    await world.advance(11)
    await world.executions.trigger("work")
    await world.advance(30)
    assert len(work.starts) == 3


# --- replay


async def failed_group(world: World, **needs: list[str]) -> bytes:
    """Run a group whose second task fails. ``needs`` are the needs of its tasks."""
    await world.node()
    tasks = [python(name) | ({"needs": needs[name]} if name in needs else {}) for name in "abc"]
    await world.job("group", schedule="manual", retry=ONE_TRY, tasks=tasks, payload={"n": 1})
    requested = await world.executions.trigger("group", {"n": 7})
    await world.advance(1)
    assert (await world.last("group")).status is Status.FAILED
    return requested.id


@in_world
async def test_replaying_all_tasks(world: World) -> None:
    a, b, c = world.work("a", lambda: 1, hears=True), world.work("b", RuntimeError("once")), world.work("c")
    first = await failed_group(world)
    again = await world.executions.replay(first, reason="the disk is back")
    end = await finished(world, "group")
    assert end.id == again.id != first
    assert (end.status, end.cause) == (Status.SUCCEEDED, Cause.REPLAY)
    assert [len(work.starts) for work in (a, b, c)] == [2, 2, 1]
    assert (end.detail or {})["replay_of"] == first.hex()
    assert a.payloads == [{"n": 7}, {"n": 7}], "with its own payload"


@in_world
async def test_replaying_from_the_failed_tasks(world: World) -> None:
    a, b, c = world.work("a", lambda: "kept"), world.work("b", RuntimeError("once")), world.work("c")
    first = await failed_group(world)
    await world.executions.replay(first, from_failed=True)
    end = await finished(world, "group")
    assert end.status is Status.SUCCEEDED
    assert [len(work.starts) for work in (a, b, c)] == [1, 2, 1]
    assert (end.detail or {})["result"] == {"a": "kept"}
    assert await world.tasks(end) == {"a": "succeeded", "b": "succeeded", "c": "succeeded"}


@in_world
async def test_replaying_chosen_tasks(world: World) -> None:
    a, b, c = world.work("a", lambda: "kept"), world.work("b", RuntimeError("once")), world.work("c")
    first = await failed_group(world)
    await world.executions.replay(first, tasks=["c"])
    end = await finished(world, "group")
    assert end.status is Status.SUCCEEDED
    assert [len(work.starts) for work in (a, b, c)] == [1, 1, 1]
    assert await world.tasks(end) == {"a": "succeeded", "b": "skipped", "c": "succeeded"}
    shown = await world.executions.get_json(end.id)
    assert [task.get("stopped_by") for task in shown["tasks"]] == [None, {"code": "not_chosen"}, None]
    await world.executions.replay(end.id, tasks=["a", "b"])  # a task that was left out can be chosen later
    assert await world.tasks(await finished(world, "group")) == dict.fromkeys("abc", "succeeded")
    assert [len(work.starts) for work in (a, b, c)] == [2, 2, 1]


@in_world
async def test_a_chosen_task_that_fails_again_fails_the_replay(world: World) -> None:
    for name in "abc":
        world.work(name, fails=name == "b")
    first = await failed_group(world)
    await world.executions.replay(first, tasks=["b"])
    assert (await finished(world, "group")).status is Status.FAILED


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"tasks": []}, "tasks is empty"),
        ({"tasks": ["b"], "from_failed": True}, "exclude each other"),
        ({"tasks": ["bb"]}, 'the job has no task "bb"'),
        ({"tasks": ["c"]}, 'needs "b", which did not succeed; choose it too'),
    ],
)
@in_world
async def test_tasks_that_cannot_be_replayed_are_refused(world: World, options: dict[str, Any], message: str) -> None:
    for name in "abc":
        world.work(name, fails=name == "b")
    first = await failed_group(world, b=["a"], c=["b"])
    with pytest.raises(Invalid, match=message):
        await world.executions.replay(first, **options)
    await world.executions.replay(first, tasks=["b", "c"])


@in_world
async def test_an_unfinished_execution_cannot_be_replayed(world: World) -> None:
    world.work("work", takes=10)
    await world.node()
    await world.job("work", schedule="manual")
    requested = await world.executions.trigger("work")
    await world.advance(1)
    with pytest.raises(Conflict):
        await world.executions.replay(requested.id)


# --- backfill


@pytest.mark.parametrize("overlap", ["skip", "allow", "queue"])
@in_world
async def test_a_backfill_runs_a_past_range_once(world: World, overlap: str) -> None:
    work = world.work("work", takes=1)
    await world.node()
    await world.job("work", schedule={"cron": "*/10 * * * * *"}, overlap=overlap, end="2027-01-01T00:00:05Z")
    await world.advance(1)
    begin, end = world.us(-60), world.us(-20)
    await world.backfills.run("work", begin, end, idempotency="may")
    await world.backfills.run("work", begin, end, idempotency="may")
    await world.advance(20)
    runs = sorted(await world.runs("work"), key=lambda run: (run.started_us, run.scheduled_us))
    assert [world.second(run.scheduled_us) for run in runs] == [-60, -50, -40, -30, -20]
    assert {(run.status, run.cause) for run in runs} == {(Status.SUCCEEDED, Cause.BACKFILL)}
    assert work.most == (5 if overlap == "allow" else 1)


@in_world
async def test_a_backfill_does_not_change_the_schedule(world: World) -> None:
    work = world.work("work")
    await world.node()
    await world.job("work", schedule="@every 10s")
    await world.reach(25)
    await world.backfills.run("work", world.us(10), world.us(20))
    await world.reach(45)
    assert sorted(await world.story("work")) == [f"{at} succeeded" for at in (10, 10, 20, 20, 30, 40)]
    assert len(work.starts) == 6


# --- dead letters


@in_world
async def test_dead_letters_are_listed_replayed_and_dropped(world: World) -> None:
    works: list[Any] = [world.work(name, RuntimeError(f"{name} broke")) for name in ("a", "b")]
    await world.node()
    for work in works:
        await world.job(work.name, schedule="now", retry=ONE_TRY)
    await world.advance(1)
    letters = (await world.executions.dead_letters()).items
    assert sorted(letter.reason.message.split(": ")[-1] for letter in letters) == ["a broke", "b broke"]
    again = await world.executions.replay_dead_letter(letters[0].execution)
    twice = await world.executions.replay_dead_letter(letters[0].execution)
    assert again.id == twice.id
    await world.executions.drop_dead_letters([letters[1].execution])
    with pytest.raises(NotFound, match="it was replayed or discarded, or did not fail"):
        await world.executions.replay_dead_letter(letters[1].execution)
    await world.advance(1)
    assert (await world.executions.dead_letters()).items == []
    assert sorted(statuses(await world.runs("a")) + statuses(await world.runs("b"))) == [
        "failed", "failed", "succeeded",
    ]  # fmt: skip


@in_world
async def test_canceled_and_tolerated_executions_are_not_dead_letters(world: World) -> None:
    world.work("slow", takes=50)
    world.work("bad", fails=True)
    world.work("good")
    await world.node()
    tasks = [python("good"), python("bad")]
    await world.job("tolerant", schedule="now", on_failure="continue", retry=ONE_TRY, tasks=tasks)
    await world.job("slow", schedule="now")
    await world.advance(1)
    await world.executions.cancel((await world.last("slow")).id)
    await world.advance(1)
    assert (await world.executions.dead_letters()).items == []
