"""Events: callbacks for what a program does, and an iterator over what ended on any node."""

import asyncio
import logging
import queue
import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from chronos import (
    AttemptFinished,
    Chronos,
    InstantsMissed,
    Invalid,
    JobEvent,
    RunEnded,
    RunStarted,
    SpanRecorded,
)
from chronos.core.events import GapFound
from chronos.sdk.events import to_event
from chronos.testing import Harness
from tests.support.cli_server import serving

SOON_S = 60


def work() -> str:
    return "done"


def fail() -> None:
    raise ValueError("no")


@pytest.fixture
def app(tmp_path: Path) -> Iterator[Chronos]:
    app = Chronos(f"sqlite:///{tmp_path / 'jobs.db'}", defaults={"retries": 0})
    yield app
    app.stop(grace=0)


def test_callbacks_receive_the_events_of_all_jobs(app: Chronos) -> None:
    received: queue.Queue[JobEvent] = queue.Queue()
    for kind in (RunStarted, AttemptFinished, RunEnded):
        app.on(kind, received.put)
    good, bad = app.job(work), app.job(fail)
    with app:
        run = good.trigger()
        started, attempt, ended = (received.get(timeout=SOON_S) for _ in range(3))
        assert isinstance(started, RunStarted)
        assert (started.job, started.run_id, started.attempt) == ("work", run.id, 1)
        assert isinstance(attempt, AttemptFinished)
        assert (attempt.task, attempt.attempt, attempt.status, attempt.error) == ("main", 1, "succeeded", None)
        assert isinstance(ended, RunEnded)
        assert (ended.run_id, ended.status, ended.succeeded) == (run.id, "succeeded", True)
        assert ended.at >= started.at
        assert ended.duration is not None
        assert timedelta() <= attempt.duration <= ended.duration + timedelta(seconds=1)
        bad.trigger()
        _, attempt, ended = (received.get(timeout=SOON_S) for _ in range(3))
        assert isinstance(attempt, AttemptFinished)
        assert attempt.status == "failed"
        assert "ValueError: no" in str(attempt.error)
        assert "raise ValueError" in str(attempt.traceback)
        assert isinstance(ended, RunEnded)
        assert (ended.status, ended.succeeded) == ("failed", False)


def test_names_select_events_by_their_outcome(app: Chronos) -> None:
    received: queue.Queue[tuple[str, str]] = queue.Queue()

    def note(name: str) -> Any:
        return lambda event: received.put((name, event.job))

    for name in ("failure", "success", "completion"):
        app.on(name, note(name))
    good, bad = app.job(work), app.job(fail)
    with app:
        good.trigger().wait(timeout=SOON_S)
        bad.trigger().wait(timeout=SOON_S)
        assert sorted(received.get(timeout=SOON_S) for _ in range(4)) == [
            ("completion", "fail"),
            ("completion", "work"),
            ("failure", "fail"),
            ("success", "work"),
        ]


def test_callbacks_are_functions_or_async_functions_and_can_be_removed(
    app: Chronos, caplog: pytest.LogCaptureFixture
) -> None:
    received: queue.Queue[str] = queue.Queue()

    @app.on("completion")
    def sync(event: RunEnded) -> None:
        received.put(f"sync in {threading.current_thread().name.rpartition('_')[0]}")
        raise RuntimeError("a mistake in a callback")

    @app.on("completion")
    async def on_loop(event: RunEnded) -> None:
        await asyncio.sleep(0)
        received.put("async")

    remove = app.on("completion", lambda event: received.put("removed"))
    remove()
    job = app.job(work)
    with app, caplog.at_level(logging.ERROR):
        added_later = app.on(RunEnded, lambda event: received.put("later"))
        job.trigger().wait(timeout=SOON_S)
        assert [received.get(timeout=SOON_S) for _ in range(3)] == ["sync in chronos-callbacks", "async", "later"]
        added_later()
        job.trigger().wait(timeout=SOON_S)
        assert [received.get(timeout=SOON_S) for _ in range(2)] == ["sync in chronos-callbacks", "async"]
    assert received.empty()
    assert "a callback of app.on failed for RunEnded of work" in caplog.text


def test_a_gap_is_an_event_about_missed_instants() -> None:
    gap = GapFound(at_us=1_800_000_000_000_000, job=bytes(16), strategy="last", runs=1, left_out=36)
    event = to_event(gap, "work")
    assert isinstance(event, InstantsMissed)
    assert (event.job, event.strategy, event.recovered, event.left_out) == ("work", "last", 1, 36)


def test_events_of_other_namespaces_are_not_received(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'jobs.db'}"
    received: queue.Queue[str] = queue.Queue()
    app, other = Chronos(url), Chronos(url, namespace="other")
    app.on("completion", lambda event: received.put(event.job))
    app.job(name="mine")(work)
    app._runtime.functions.register("theirs", work)  # this program runs the job of the other namespace too
    run = other.job(name="theirs")(work).trigger()
    with app:
        run.wait(timeout=SOON_S)
        app.trigger("mine").wait(timeout=SOON_S)
        assert received.get(timeout=SOON_S) == "mine"
    other.stop()


@pytest.mark.parametrize("event", ["started", 7, JobEvent, int, None])
def test_unknown_events_are_refused(event: Any) -> None:
    app = Chronos("sqlite://")
    with pytest.raises(Invalid, match=r'unknown event .*; use one of "start", .*, or a class: RunStarted'):
        app.on(event, print)
    with pytest.raises(Invalid, match=r"iterate over app\.events"):
        app.on(SpanRecorded, print)
    with pytest.raises(Invalid, match="the callback is 7"):
        app.on("failure", 7)  # type: ignore[call-overload]


def test_a_harness_delivers_events_in_virtual_time() -> None:
    app, ended, missed = Chronos("sqlite://"), list[str](), list[InstantsMissed]()
    app.on("completion", lambda event: ended.append(f"{event.job} {event.at:%H:%M}"))
    app.on("missed", missed.append)
    app.job(cron="0 9 * * *")(work)
    harness = Harness()
    try:
        harness.clock.set("2027-01-01T08:00:00Z")
        harness.load(app)
        harness.advance(days=1, hours=2)
    finally:
        harness.close()
    assert ended == ["work 09:00", "work 09:00"]


@pytest.fixture(params=["store", "server"])
def source(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Chronos]:
    """An app whose jobs another program or the server runs."""
    if request.param == "store":
        url = f"sqlite:///{tmp_path / 'jobs.db'}"
        with Chronos(url, defaults={"retries": 0}):
            app = Chronos(url, defaults={"retries": 0})
            yield app
            app.stop()
        return
    with serving() as served:
        app = Chronos(served.url, defaults={"retries": 0})
        yield app
        app.stop()


def test_a_stream_has_what_ended_on_any_node(source: Chronos) -> None:
    good, bad = source.command("good", ["true"]), source.command("bad", ["false"])
    good.trigger().wait(timeout=SOON_S)
    with source.events() as events:
        runs = [bad.trigger(), good.trigger()]
        ended = {event.job: event for event in (next(events), next(events)) if isinstance(event, RunEnded)}
        assert {name: event.status for name, event in ended.items()} == {"good": "succeeded", "bad": "failed"}
        assert {event.run_id for event in ended.values()} == {run.id for run in runs}
        assert ended["bad"].message
        assert ended["good"].duration is not None
        position = events.position
    run = good.trigger()
    run.wait(timeout=SOON_S)
    with source.events(after=position) as events:
        event = next(events)
        assert isinstance(event, RunEnded)
        assert event.run_id == run.id
    assert list(events) == []  # closed


def test_a_stream_is_an_async_iterator_from_any_loop(source: Chronos) -> None:
    job = source.command("good", ["true"])

    async def read() -> None:
        async with asyncio.timeout(SOON_S), source.events() as events:
            run = await job.atrigger()
            async for event in events:
                assert isinstance(event, RunEnded)
                assert event.run_id == run.id
                break

    asyncio.run(read())


def test_a_stream_has_spans(source: Chronos) -> None:
    job = source.command("often", ["true"], every="100ms")
    with source.events() as events:
        job.pause()
        [instant] = job.preview(count=1).next
        while datetime.now(UTC) <= instant:
            time.sleep(0.01)
        job.resume()
        event = next(event for event in events if isinstance(event, SpanRecorded))
        assert (event.job, event.span.status, event.span.reason) == ("often", "skipped", "paused")


def test_a_stream_ends_with_its_app(tmp_path: Path) -> None:
    app = Chronos(f"sqlite:///{tmp_path / 'jobs.db'}")

    async def read() -> list[Any]:
        async with app:
            events = app.events()
            await events.aopen()
            reader = asyncio.create_task(_collect(events))
        async with asyncio.timeout(SOON_S):
            return await reader

    assert asyncio.run(read()) == []


async def _collect(events: Any) -> list[Any]:
    return [event async for event in events]


def test_a_wrong_position_is_refused(source: Chronos) -> None:
    for wrong in ("x", 7, ""):
        with pytest.raises(Invalid, match="after is "):
            source.events(after=wrong)  # type: ignore[arg-type]


def test_a_client_has_no_events_of_its_own() -> None:
    with pytest.raises(Invalid, match=r"iterate over app\.events\(\)"):
        Chronos("http://127.0.0.1:9").on("failure", print)
