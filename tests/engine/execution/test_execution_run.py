"""Task groups on the virtual clock: modes, failure strategies, overrides of single tasks, hooks, reports."""

from typing import Any
from uuid import UUID

import pytest

from chronos.core.execution import AttemptStatus, Execution, Status
from chronos.core.ids import attempt_id, task_run_id
from chronos.core.reasons import ReasonCode
from tests.support.engine_world import World, in_world

ONE_TRY = {"max_attempts": 1}
TWO_TRIES = {"max_attempts": 2, "initial_interval": "1s", "jitter": 0}


def python(name: str, **overrides: Any) -> dict[str, Any]:
    return {"name": name, "python": {"name": name}, **overrides}


async def finished(world: World, name: str, within_s: float = 60) -> Execution:
    """Return the last execution of a job, once it is over."""
    for _ in range(round(within_s)):
        await world.advance(1)
        if (await world.last(name)).status.final:
            return await world.last(name)
    raise AssertionError(f"{name} is still {(await world.last(name)).status.name} after {within_s} s")


# One of three tasks fails for good: "b", after two seconds. "a" takes one second, "c" takes ten.
TABLE = [
    # mode, on_failure, overrides of "c", the execution's end, the end of "c"
    ("sequential", "fail_fast", {}, "failed", "skipped"),
    ("sequential", "continue", {}, "completed_with_errors", "succeeded"),
    ("sequential", "retry", {}, "failed", "skipped"),
    ("sequential", "fail_fast", {"on_failure": "continue"}, "failed", "succeeded"),
    ("sequential", "retry", {"on_failure": "continue"}, "failed", "succeeded"),
    ("sequential", "continue", {"on_failure": "fail_fast"}, "completed_with_errors", "succeeded"),
    ("parallel", "fail_fast", {}, "failed", "canceled"),
    ("parallel", "continue", {}, "completed_with_errors", "succeeded"),
    ("parallel", "retry", {}, "failed", "canceled"),
    ("parallel", "fail_fast", {"on_failure": "continue"}, "failed", "succeeded"),
    ("parallel", "retry", {"on_failure": "continue"}, "failed", "succeeded"),
    ("graph", "fail_fast", {"needs": ["b"]}, "failed", "skipped"),
    ("graph", "continue", {"needs": ["b"]}, "completed_with_errors", "skipped"),
    ("graph", "retry", {"needs": ["b"]}, "failed", "skipped"),
    ("graph", "fail_fast", {"needs": ["b"], "on_failure": "continue"}, "failed", "succeeded"),
    ("graph", "continue", {"needs": ["b"], "on_failure": "continue"}, "completed_with_errors", "succeeded"),
    ("graph", "retry", {"needs": ["b"], "on_failure": "continue"}, "failed", "succeeded"),
    ("graph", "fail_fast", {"needs": ["a"]}, "failed", "canceled"),
    ("graph", "continue", {"needs": ["a"]}, "completed_with_errors", "succeeded"),
]


@pytest.mark.parametrize(("mode", "on_failure", "overrides", "ends", "c_ends"), TABLE)
@in_world
async def test_how_a_failed_task_affects_the_others(
    world: World, mode: str, on_failure: str, overrides: dict[str, Any], ends: str, c_ends: str
) -> None:
    a, b, c = world.work("a", takes=1), world.work("b", takes=2, fails=True), world.work("c", takes=10)
    await world.node()
    await world.job(
        "group",
        schedule="now",
        mode=mode,
        on_failure=on_failure,
        retry=TWO_TRIES,
        tasks=[python("a"), python("b"), python("c", **overrides)],
    )
    end = await finished(world, "group")

    assert end.status.name.lower() == ends
    assert await world.tasks(end) == {"a": "succeeded", "b": "failed", "c": c_ends}
    b_from = 1 if mode == "sequential" else 0
    assert a.starts == [0]
    assert b.starts == [b_from, b_from + 3], "both attempts, whatever the strategy"
    assert end.reason is not None
    assert end.reason.code == (
        ReasonCode.SOME_TASKS_FAILED if ends == "completed_with_errors" else ReasonCode.TASK_FAILED
    )
    if c_ends == "canceled":
        assert c.cut == [b_from + 5], "it is stopped when the other failed for good"
    assert bool(c.starts) == (c_ends != "skipped")


@in_world
async def test_no_other_task_starts_while_one_retries(world: World) -> None:
    """Only under ``retry``."""
    for on_failure in ("retry", "fail_fast"):
        first = world.work(f"first-{on_failure}", RuntimeError("once"), takes=1)
        side = world.work(f"side-{on_failure}", takes=1)
        then = world.work(f"then-{on_failure}")
        await (world.node() if not world.nodes else world.advance(0))
        began_s = world.passed_s
        await world.job(
            on_failure,
            schedule="now",
            on_failure=on_failure,
            retry={"max_attempts": 2, "initial_interval": "5s", "jitter": 0},
            tasks=[python(first.name), python(side.name), python(then.name, needs=[side.name])],
        )
        end = await finished(world, on_failure)
        assert end.status is Status.SUCCEEDED
        assert first.starts == [began_s, began_s + 5]
        # "side" ends after one second. The next task waits only if the strategy says so.
        assert then.starts == [began_s + (6 if on_failure == "retry" else 1)]


@in_world
async def test_an_execution_fails_if_all_its_tolerated_tasks_fail(world: World) -> None:
    for name in ("a", "b"):
        world.work(name, fails=True)
    await world.node()
    await world.job("group", schedule="now", on_failure="continue", retry=ONE_TRY, tasks=[python("a"), python("b")])
    end = await finished(world, "group")
    assert end.status is Status.FAILED
    assert end.reason is not None
    assert end.reason.code is ReasonCode.TASK_FAILED


@in_world
async def test_a_clean_up_task_runs_even_when_the_task_before_it_timed_out(world: World) -> None:
    world.work("build", takes=100)
    clean = world.work("clean", takes=1)
    await world.node()
    await world.job(
        "group",
        schedule="now",
        retry=ONE_TRY,
        tasks=[python("build", task_timeout="3s"), python("clean", on_failure="continue")],
    )
    end = await finished(world, "group")
    assert await world.tasks(end) == {"build": "timed_out", "clean": "succeeded"}
    assert (end.status, clean.starts) == (Status.FAILED, [3])


@in_world
async def test_results_are_kept_by_task(world: World) -> None:
    world.work("a", lambda: {"rows": 3})
    world.work("b", lambda: "done")
    world.work("c")
    world.work("one", lambda: "alone")
    await world.node()
    await world.job("several", schedule="now", tasks=[python("a"), python("b"), python("c")])
    await world.job("one", schedule="now")
    await world.job("none", schedule="now", does="c")
    several, one, none = [await finished(world, name) for name in ("several", "one", "none")]
    assert (several.detail or {})["result"] == {"a": {"rows": 3}, "b": "done"}
    assert (one.detail or {})["result"] == "alone"
    assert none.detail is None, "one task that returns nothing leaves nothing but its row"


@in_world
async def test_many_tasks_run_at_once_in_one_slot(world: World) -> None:
    """An execution takes one slot, whatever its number of tasks."""
    works = [world.work(f"t{n}", takes=2) for n in range(20)]
    await world.node(slots=1)
    await world.job("wide", schedule="now", mode="parallel", tasks=[python(work.name) for work in works])
    end = await finished(world, "wide")
    assert end.status is Status.SUCCEEDED
    assert {start for work in works for start in work.starts} == {0}


# --- hooks


@in_world
async def test_hooks_run_around_the_tasks(world: World) -> None:
    hello, main, bye = world.work("hello", takes=1), world.work("main", takes=2), world.work("bye", hears=True)
    await world.node()
    await world.job(
        "job",
        schedule="now",
        does="main",
        on_start={"python": {"name": "hello"}},
        on_complete={"python": {"name": "bye"}},
    )
    end = await finished(world, "job")
    assert end.status is Status.SUCCEEDED
    assert (hello.starts, main.starts) == ([0], [1])
    assert bye.starts == [3]
    [report] = bye.payloads
    assert (report["status"], report["reason"]["code"], report["strategy"]) == ("succeeded", "succeeded", "fail_fast")
    assert [(task["name"], task["status"]) for task in report["tasks"]] == [("main", "succeeded")]


@in_world
async def test_the_report_has_the_occurrence_and_every_attempt(world: World) -> None:
    main = world.work("main", RuntimeError("one"), RuntimeError("two"))
    hello, bye = world.work("hello", hears=True), world.work("bye", hears=True)
    await world.node("node-a")
    saved = await world.job(
        "job",
        schedule="manual",
        does="main",
        payload={"n": 1},
        retry={"initial_interval": "10s", "jitter": 0},
        on_start={"python": {"name": "hello"}},
        on_complete={"python": {"name": "bye"}},
    )
    requested = await world.executions.trigger("job")
    await world.advance(60)
    assert main.starts == [0, 10, 30]
    about = {
        "execution_id": str(UUID(bytes=requested.id)),
        "job_id": str(UUID(bytes=saved.job_id)),
        "job_name": "job",
        "namespace": "default",
        "job_version": 1,
        "scheduled_at": "2027-01-01T00:00:00Z",
        "trigger": "manual",
        "recovered": False,
        "node": "node-a",
        "replay_of": None,
        "span": None,
    }
    assert hello.payloads == [{**about, "payload": {"n": 1}}]
    [report] = bye.payloads
    assert {name: report[name] for name in about} == about
    [task] = report["tasks"]
    assert task["task_run_id"] == str(UUID(bytes=task_run_id(requested.id, "main")))
    assert task["attempts"] == [
        {
            "number": number,
            "attempt_id": str(UUID(bytes=attempt_id(requested.id, "main", number))),
            "status": "succeeded" if error is None else "failed",
            "started_at": f"2027-01-01T00:00:{second}Z",
            "finished_at": f"2027-01-01T00:00:{second}Z",
            "error": error,
            "worker": "node-a",
            "backoff_ms": backoff_ms,
        }
        for number, second, error, backoff_ms in (
            (1, "00", "RuntimeError: one", 10_000),
            (2, "10", "RuntimeError: two", 20_000),
            (3, "30", None, None),
        )
    ]
    assert (await world.executions.get_json(requested.id))["report"] == report, "the record is the same"


@in_world
async def test_a_lost_attempt_is_retried_without_backoff(world: World) -> None:
    world.work("main", 1000.0)
    first = await world.node()
    await world.job("job", schedule="now", does="main", on_complete={"python": {"name": "bye"}})
    bye = world.work("bye", hears=True)
    await world.advance(1)
    await world.node()
    await first.crash()
    await world.advance(90)
    [report] = bye.payloads
    assert [(a["status"], a["worker"], a["backoff_ms"]) for a in report["tasks"][0]["attempts"]] == [
        ("lost", "node-0", 0),
        ("succeeded", "node-1", None),
    ]


@in_world
async def test_the_report_names_the_task_that_stopped_another(world: World) -> None:
    world.work("a", takes=1, fails=True)
    world.work("b", takes=50)
    world.work("c", takes=50)
    bye = world.work("bye", hears=True)
    await world.node()
    await world.job(
        "job",
        schedule="now",
        mode="parallel",
        retry=TWO_TRIES,
        tasks=[python("a"), python("b"), python("c")],
        on_complete={"python": {"name": "bye"}},
    )
    await finished(world, "job")
    [report] = bye.payloads
    assert report["status"] == "failed"
    assert report["stopped"] == [{"code": "task_failed", "by": "a", "tasks": ["b", "c"]}]
    assert {task["name"]: len(task["attempts"]) for task in report["tasks"]} == {"a": 2, "b": 1, "c": 1}
    assert "always fails" in report["reason"]["message"]


@in_world
async def test_a_failing_hook_does_not_change_the_outcome_and_is_retried(world: World) -> None:
    hello, main = world.work("hello", fails=True), world.work("main")
    bye = world.work("bye", RuntimeError("not yet"), RuntimeError("not yet"))
    await world.node()
    hooks = {"on_start": {"python": {"name": "hello"}}, "on_complete": {"python": {"name": "bye"}}}
    await world.job("job", schedule="now", does="main", **hooks)
    end = await finished(world, "job")
    await world.advance(30)
    assert end.status is Status.SUCCEEDED
    assert (len(hello.starts), len(main.starts), len(bye.starts)) == (1, 1, 3)
    assert await world.store.outbox(limit=10) == []


@in_world
async def test_on_start_runs_once_across_retries(world: World) -> None:
    hello, main = world.work("hello"), world.work("main", RuntimeError("1"), RuntimeError("2"))
    await world.node()
    await world.job("job", schedule="now", does="main", on_start={"python": {"name": "hello"}})
    end = await finished(world, "job")
    assert (end.status, len(hello.starts), len(main.starts)) == (Status.SUCCEEDED, 1, 3)


@in_world
async def test_on_complete_runs_after_a_reap(world: World) -> None:
    main, bye = world.work("main", takes=1000), world.work("bye", hears=True)
    first = await world.node()
    await world.node()
    await world.advance(1)
    await world.job(
        "job",
        schedule="now",
        does="main",
        delivery="at_most_once",
        on_complete={"python": {"name": "bye"}},
    )
    await world.advance(1)
    holder = next(node for node in world.nodes if node.engine.running_count)
    await holder.crash()
    assert first in world.nodes
    end = await finished(world, "job")
    assert (end.status, len(main.starts)) == (Status.STALE, 1)
    await world.advance(10)
    [report] = bye.payloads
    assert (report["status"], report["reason"]["code"]) == ("stale", "worker_lost")
    [attempt] = await world.attempts(end)
    assert attempt.status is AttemptStatus.LOST


@pytest.mark.parametrize("when", ["running", "waiting"])
@in_world
async def test_on_complete_runs_after_a_cancel(world: World, when: str) -> None:
    """Also if the execution is canceled between two attempts."""
    world.work("main", *([RuntimeError("once")] if when == "waiting" else []), takes=30)
    bye = world.work("bye", hears=True)
    await world.node()
    retry = {"initial_interval": "1m"}
    await world.job("job", schedule="manual", does="main", retry=retry, on_complete={"python": {"name": "bye"}})
    requested = await world.executions.trigger("job")
    await world.advance(2)
    await world.executions.cancel(requested.id)
    await world.advance(10)
    assert (await world.last("job")).status is Status.CANCELED
    assert [report["status"] for report in bye.payloads] == ["canceled"]
