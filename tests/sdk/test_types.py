"""Types: decorated functions keep their signatures, and results are typed. mypy checks this file."""

from collections.abc import Coroutine
from datetime import datetime
from typing import TYPE_CHECKING, Any, assert_type

from chronos import (
    Chronos,
    DiffInfo,
    Job,
    JobHandle,
    JobInfo,
    PreviewInfo,
    Run,
    RunEnded,
    RunInfo,
    RunStarted,
    SpanInfo,
    SpanRecorded,
    Task,
    VersionInfo,
)

app = Chronos("sqlite://")


@app.job(cron="0 9 * * *", retries=3, overlap="queue", payload={"a": 1})
def add(a: int, b: int = 2) -> float:
    return a + b


@app.job
async def fetch(url: str) -> bytes:
    return url.encode()


group = app.group("group", mode="graph")


@group.task
def first() -> None: ...


@group.task(needs=[first], timeout="1h")
def double(n: int) -> int:
    return 2 * n


def test_functions_keep_their_types() -> None:
    assert_type(add(1, b=2), float)
    assert_type(double(2), int)
    coroutine: Coroutine[Any, Any, bytes] = fetch("x")
    coroutine.close()
    job: Job[[str], Coroutine[Any, Any, bytes]] = fetch
    task: Task = double
    assert (job.name, task.name) == ("fetch", "double")


if TYPE_CHECKING:
    assert_type(add.trigger({"a": 1}, key="k"), Run)
    assert_type(add.trigger().wait(timeout=5), RunInfo)
    assert_type(add.trigger().status, str)
    assert_type(add.next_run, datetime | None)
    assert_type(add.is_running, bool)
    assert_type(add.executions(limit=5), list[RunInfo | SpanInfo])
    assert_type(app.all_jobs(), list[JobInfo])
    add("text")  # type: ignore[arg-type]
    app.job(corn="@daily")  # type: ignore[call-overload]
    app.job(overlap="never")  # type: ignore[call-overload]
    add.trigger(at=3)  # type: ignore[arg-type]
    assert_type(add.update(every="5m", retries=None, end=None), JobInfo)
    add.update(every=[])  # type: ignore[arg-type]
    add.update(corn="@daily")  # type: ignore[call-arg]
    assert_type(add.versions(), list[VersionInfo])
    assert_type(add.diff(1, 2), DiffInfo)
    assert_type(add.rollback(1), JobInfo)
    assert_type(add.preview(count=3), PreviewInfo)
    assert_type(app.all_jobs(tag="team", state="paused"), list[JobInfo])
    app.all_jobs(state="asleep")  # type: ignore[arg-type]
    assert_type(app.pause("reason"), list[JobHandle])
    app.on("failure", lambda event: print(event.message))
    app.on(RunStarted, lambda event: print(event.message))  # type: ignore[attr-defined]
    app.on("failed", print)  # type: ignore[call-overload]
    assert_type(next(app.events()), RunEnded | SpanRecorded)
