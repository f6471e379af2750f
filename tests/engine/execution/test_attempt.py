"""Attempts of one task on the virtual clock: retries and their pauses, timeouts, stops, delivery."""

import asyncio
import contextlib
from typing import Any

import pytest

from chronos.core.execution import AttemptStatus, Status
from chronos.core.reasons import ReasonCode
from tests.engine.execution.test_execution_run import finished, python
from tests.support.engine_world import World, in_world


class Flaky(RuntimeError):
    """An error that is retried."""


class Broken(RuntimeError):
    """An error that is not retried."""


# --- retries


@pytest.mark.parametrize(
    ("retry", "starts"),
    [
        ({"max_attempts": 1}, [0]),
        ({"max_attempts": 3, "jitter": 0}, [0, 1, 3]),
        ({"max_attempts": 5, "initial_interval": "2s", "multiplier": 3, "jitter": 0}, [0, 2, 8, 26, 80]),
        ({"max_attempts": 5, "initial_interval": "2s", "multiplier": 3, "max_interval": "5s", "jitter": 0},
         [0, 2, 7, 12, 17]),
        ({"max_attempts": 4, "initial_interval": "0s", "jitter": 0}, [0, 0, 0, 0]),
        ({"max_retries": 1, "initial_interval": "7s", "multiplier": 1, "jitter": 0}, [0, 7]),
    ],
)  # fmt: skip
@in_world
async def test_pauses_grow_up_to_their_cap(world: World, retry: dict[str, Any], starts: list[float]) -> None:
    work = world.work("work", fails=True)
    await world.node()
    await world.job("work", schedule="now", retry=retry)
    end = await finished(world, "work", within_s=120)
    assert work.starts == pytest.approx(starts, abs=1e-3)
    assert end.status is Status.FAILED
    assert [(a.number, a.status) for a in await world.attempts(end)] == [
        (number, AttemptStatus.FAILED) for number in range(1, len(starts) + 1)
    ]


@in_world
async def test_jitter_makes_pauses_longer_and_differs_by_execution(world: World) -> None:
    works = [world.work(f"w{n}", fails=True) for n in range(8)]
    await world.node()
    retry = {"max_attempts": 2, "initial_interval": "10s", "jitter": 0.5}
    for work in works:
        await world.job(work.name, schedule="now", retry=retry)
    await world.advance(20)
    pauses = [work.starts[1] - work.starts[0] for work in works]
    assert all(10 <= pause <= 15.001 for pause in pauses)
    assert len({round(pause, 2) for pause in pauses}) > 4


@pytest.mark.parametrize(
    ("retry_on", "error", "tries"),
    [
        ([], Broken("x"), 3),
        (["Flaky"], Flaky("x"), 3),
        (["Flaky"], Broken("x"), 1),
        (["RuntimeError"], Broken("x"), 3),
        (["timeout"], Broken("x"), 1),
    ],
)
@in_world
async def test_retry_on_selects_the_errors_to_retry(
    world: World, retry_on: list[str], error: Exception, tries: int
) -> None:
    work = world.work("work", error, error, error)
    await world.node()
    await world.job("work", schedule="now", retry={"jitter": 0, "retry_on": retry_on})
    end = await finished(world, "work")
    assert (end.status, len(work.starts)) == (Status.FAILED, tries)


@in_world
async def test_a_timeout_is_retried_under_its_own_name(world: World) -> None:
    work = world.work("work", 100, 1)
    await world.node()
    await world.job("work", schedule="now", task_timeout="5s", retry={"jitter": 0, "retry_on": ["timeout"]})
    end = await finished(world, "work")
    assert (end.status, work.starts) == (Status.SUCCEEDED, [0, 6])
    assert [a.status for a in await world.attempts(end)][:1] == [AttemptStatus.TIMED_OUT]


@in_world
async def test_unlimited_retries(world: World) -> None:
    work = world.work("work", *[Flaky("x")] * 20)
    await world.node()
    await world.job("work", schedule="now", retry={"max_attempts": None, "multiplier": 1, "jitter": 0})
    end = await finished(world, "work")
    assert (end.status, len(work.starts)) == (Status.SUCCEEDED, 21)


@in_world
async def test_waiting_for_a_retry_holds_no_slot(world: World) -> None:
    flaky, other = world.work("flaky", Flaky("x")), world.work("other", takes=1)
    node = await world.node(slots=1)
    await world.job("flaky", schedule="now", retry={"initial_interval": "10s", "jitter": 0})
    await world.advance(0.5)
    assert (await world.last("flaky")).status is Status.WAITING
    assert node.engine.running_count == 0
    await world.job("other", schedule="now")
    await world.advance(2)
    assert other.starts == [0.5]
    await world.advance(10)
    assert flaky.starts == [0, 10]


@in_world
async def test_a_retry_runs_on_another_node(world: World) -> None:
    flaky = world.work("flaky", Flaky("x"))
    first = await world.node()
    await world.job("flaky", schedule="now", retry={"initial_interval": "10s", "jitter": 0})
    await world.advance(1)
    await first.crash()
    second = await world.node()
    end = await finished(world, "flaky")
    assert (end.status, flaky.starts, end.node) == (Status.SUCCEEDED, [0, 10], second.number)
    assert [(a.number, a.status) for a in await world.attempts(end)] == [
        (1, AttemptStatus.FAILED),
        (2, AttemptStatus.SUCCEEDED),
    ]


# --- timeouts


@in_world
async def test_the_task_timeout_limits_one_attempt(world: World) -> None:
    work = world.work("work", takes=100)
    await world.node()
    await world.job("work", schedule="now", task_timeout="5s", retry={"max_attempts": 2, "jitter": 0})
    end = await finished(world, "work")
    assert (work.starts, work.cut) == ([0, 6], [5, 11])
    assert end.status is Status.FAILED
    assert await world.tasks(end) == {"main": "timed_out"}


@in_world
async def test_the_execution_timeout_counts_work_and_not_waiting(world: World) -> None:
    work = world.work("work", takes=4, fails=True)
    await world.node()
    retry = {"max_attempts": 10, "initial_interval": "20s", "multiplier": 1, "jitter": 0}
    await world.job("work", schedule="now", execution_timeout="10s", retry=retry)
    end = await finished(world, "work", within_s=100)
    # Two full attempts take eight seconds. The third is stopped after two more, long after ten seconds of wall time.
    assert (work.starts, work.cut) == ([0, 24, 48], [50])
    assert end.status is Status.FAILED
    assert end.reason is not None
    assert end.reason.code is ReasonCode.EXECUTION_TIMEOUT


@in_world
async def test_the_execution_timeout_limits_all_tasks_together(world: World) -> None:
    works = [world.work(name, takes=4) for name in ("a", "b", "c")]
    await world.node()
    await world.job("group", schedule="now", execution_timeout="6s", tasks=[python(work.name) for work in works])
    end = await finished(world, "group")
    assert await world.tasks(end) == {"a": "succeeded", "b": "canceled", "c": "skipped"}
    assert works[1].cut == [6]
    assert end.status is Status.FAILED


@in_world
async def test_an_execution_timeout_shorter_than_the_task_timeout(world: World) -> None:
    work = world.work("work", takes=100)
    await world.node()
    await world.job("work", schedule="now", execution_timeout="3s")
    end = await finished(world, "work")
    assert (end.status, work.cut) == (Status.FAILED, [3])
    assert end.reason is not None
    assert end.reason.code is ReasonCode.EXECUTION_TIMEOUT


@pytest.mark.parametrize(
    ("settings", "task", "code"),
    [
        ({"task_timeout": "3s"}, "timed_out", ReasonCode.TASK_FAILED),
        ({"execution_timeout": "3s"}, "canceled", ReasonCode.EXECUTION_TIMEOUT),
    ],
)
@pytest.mark.parametrize("result", [None, "late"])
def test_work_that_ends_after_its_timeout_has_not_succeeded(
    settings: dict[str, str], task: str, code: ReasonCode, result: str | None
) -> None:
    """Both on the fast path and as an ExecutionRun."""

    @in_world
    async def check(world: World) -> None:
        async def work() -> str | None:
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.sleep(100)
            await asyncio.sleep(1)
            return result

        world.functions.register("work", work)
        await world.node()
        await world.job("work", schedule="now", retry={"max_attempts": 1}, **settings)
        end = await finished(world, "work")
        assert (end.status, end.reason and end.reason.code) == (Status.FAILED, code)
        assert await world.tasks(end) == {"main": task}

    check()


@pytest.mark.parametrize("settings", [{"task_timeout": "3s"}, {"execution_timeout": "3s"}])
@pytest.mark.parametrize("hears", [False, True])
def test_work_that_ignores_its_timeout_is_killed_after_the_short_grace_period(
    settings: dict[str, str], hears: bool
) -> None:
    """Checked on both paths. Canceled work keeps the long grace period."""

    @in_world
    async def check(world: World) -> None:
        world.work("work", takes=1000, stubborn=True, hears=hears)
        node = await world.node(grace_s=300, timeout_grace_s=2)
        await world.job("work", schedule="now", retry={"max_attempts": 1}, **settings)
        await world.advance(4.9)
        assert (await world.last("work")).status is Status.RUNNING
        await world.advance(1.2)  # including the one second before an async function is abandoned
        assert ((await world.last("work")).status, node.engine.running_count) == (Status.FAILED, 0)

    check()


@in_world
async def test_work_without_a_timeout_is_not_stopped(world: World) -> None:
    work = world.work("work", takes=5000)
    await world.node(tick_s=60, reaper_s=60, heartbeat_s=60, heartbeat_timeout_s=180)
    await world.job("work", schedule="now", task_timeout="2h", execution_timeout="0s")
    await world.advance(5100)
    assert (await world.last("work")).status is Status.SUCCEEDED
    assert work.ends == [5000]


# --- stopping


@in_world
async def test_canceling_asks_before_it_kills(world: World) -> None:
    work = world.work("work", takes=100)
    await world.node()
    await world.job("work", schedule="now")
    await world.advance(3)
    answer = await world.executions.cancel((await world.last("work")).id, message="enough")
    assert answer is Status.RUNNING
    await world.advance(0.1)
    end = await world.last("work")
    assert (end.status, work.cut) == (Status.CANCELED, [3])
    assert end.reason is not None
    assert (end.reason.code, end.reason.message) == (ReasonCode.CANCELED, "enough")
    assert [a.status for a in await world.attempts(end)] == [AttemptStatus.CANCELED]


@in_world
async def test_canceling_kills_work_that_ignores_the_request(world: World) -> None:
    work = world.work("work", takes=1000, stubborn=True)
    node = await world.node(grace_s=10)
    await world.job("work", schedule="now")
    await world.advance(3)
    await world.executions.cancel((await world.last("work")).id)
    await world.advance(9)
    assert (await world.last("work")).status is Status.RUNNING
    await world.advance(5)
    end = await world.last("work")
    assert (end.status, node.engine.running_count) == (Status.CANCELED, 0)
    assert work.cut[0] == 3


@in_world
async def test_work_that_noticed_the_cancellation_is_canceled_even_if_it_returns(world: World) -> None:
    """Only the function knows whether it finished or gave up."""
    work = world.work("work", takes=5, stubborn=True)
    await world.node()
    await world.job("work", schedule="now")
    await world.advance(3)
    await world.executions.cancel((await world.last("work")).id)
    end = await finished(world, "work")
    assert (end.status, work.ends) == (Status.CANCELED, [5])


@in_world
async def test_canceling_ends_a_sleeping_execution_at_once(world: World) -> None:
    work = world.work("work", Flaky("x"))
    await world.node()
    await world.job("work", schedule="now", retry={"initial_interval": "1m"})
    await world.advance(3)
    answer = await world.executions.cancel((await world.last("work")).id)
    assert answer is Status.CANCELED
    await world.advance(100)
    assert (await world.story("work"), len(work.starts)) == (["0 canceled"], 1)


@in_world
async def test_no_task_starts_after_a_cancel_during_on_start(world: World) -> None:
    hello, work = world.work("hello", takes=5, stubborn=True), world.work("work")
    await world.node()
    await world.job("work", schedule="now", on_start={"python": {"name": "hello"}})
    await world.advance(1)
    await world.executions.cancel((await world.last("work")).id)
    await world.advance(10)
    assert (await world.last("work")).status is Status.CANCELED
    assert (len(hello.starts), work.starts) == (1, [])


# --- delivery


@in_world
async def test_at_most_once_work_is_never_retried(world: World) -> None:
    work = world.work("work", fails=True)
    await world.node()
    await world.job("work", schedule="now", delivery="at_most_once", retry={"max_attempts": 5})
    end = await finished(world, "work")
    await world.advance(60)
    assert (end.status, len(work.starts)) == (Status.FAILED, 1)


@in_world
async def test_at_least_once_work_is_retried_at_once_after_a_crash(world: World) -> None:
    work = world.work("work", takes=5)
    first = await world.node()
    await world.job("work", schedule="now", retry={"initial_interval": "10m"})
    await world.advance(1)
    await first.crash()
    second = await world.node()
    await world.advance(60)
    end = await world.last("work")
    assert (end.status, end.node, len(work.starts)) == (Status.SUCCEEDED, second.number, 2)
    assert [a.status for a in await world.attempts(end)] == [AttemptStatus.LOST, AttemptStatus.SUCCEEDED]


@in_world
async def test_a_lost_attempt_counts_as_an_attempt(world: World) -> None:
    work = world.work("work", takes=500)
    await world.job("work", schedule="now", retry={"max_attempts": 2, "initial_interval": "10m"})
    for _ in range(2):
        node = await world.node()
        await world.advance(50)
        await node.crash()
    await world.node()
    await world.advance(50)
    end = await world.last("work")
    assert (end.status, len(work.starts)) == (Status.STALE, 2)
    assert end.reason is not None
    assert end.reason.code is ReasonCode.WORKER_LOST
    [letter] = (await world.executions.dead_letters()).items
    assert letter.execution == end.id


@in_world
async def test_only_unfinished_tasks_run_again_after_a_crash(world: World) -> None:
    a, b, c = world.work("a", takes=1), world.work("b", takes=20), world.work("c", takes=1)
    first = await world.node()
    await world.job("group", schedule="now", tasks=[python("a"), python("b"), python("c")])
    await world.advance(5)
    await first.crash()
    await world.node()
    await world.advance(80)
    end = await world.last("group")
    assert (end.status, [len(work.starts) for work in (a, b, c)]) == (Status.SUCCEEDED, [1, 2, 1])
    attempts = [(attempt.task, attempt.number, attempt.status) for attempt in await world.attempts(end)]
    assert sorted(attempts) == [
        ("a", 1, AttemptStatus.SUCCEEDED),
        ("b", 1, AttemptStatus.LOST),
        ("b", 2, AttemptStatus.SUCCEEDED),
        ("c", 1, AttemptStatus.SUCCEEDED),
    ]
