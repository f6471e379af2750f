"""``time.sleep`` in a job under test: noticed, explained, and counted without waiting."""

import asyncio
import time
import warnings
from collections.abc import Iterator
from time import sleep

import pytest

from chronos.sdk.app import Chronos
from chronos.testing.blocking_sleep import BlockingSleepWarning
from chronos.testing.harness import Harness, Ran


@pytest.fixture
def harness() -> Iterator[Harness]:
    harness = Harness()
    yield harness
    harness.close()


def duration_s(run: Ran) -> float:
    assert run.started_at is not None
    assert run.finished_at is not None
    return (run.finished_at - run.started_at).total_seconds()


def test_a_sleep_is_explained_once_and_takes_virtual_time(harness: Harness) -> None:
    app = Chronos("sqlite://")

    @app.job(every="1h")
    def poll() -> None:
        time.sleep(60)
        time.sleep(5)

    harness.load(app)
    with pytest.warns(BlockingSleepWarning) as caught:
        runs = harness.advance("3 hours 30 minutes")["poll"]
    [warning] = caught
    assert warning.filename == __file__
    assert str(warning.message) == (
        'the job "poll" calls time.sleep(60): in a test it returns at once, and its time passes when the function '
        "returns; use await asyncio.sleep(60) in an async function to let time pass at that line"
    )
    assert [duration_s(run) for run in runs] == [65, 65, 65]


def test_a_sleep_beyond_the_timeout_times_out(harness: Harness) -> None:
    app = Chronos("sqlite://")

    @app.job(timeout="5s", retries=0)
    def slow() -> None:
        time.sleep(600)

    @app.job(timeout="5s", retries=0)
    async def blocking() -> None:
        time.sleep(600)  # noqa: ASYNC251

    harness.load(app)
    for name in ("slow", "blocking"):
        with pytest.warns(BlockingSleepWarning):
            run = harness.trigger(name)
        assert run.status == "failed"
        assert run.error is not None
        assert "timeout" in run.error
        assert duration_s(run) == 5


def test_a_sleep_imported_by_name_is_noticed(harness: Harness) -> None:
    app = Chronos("sqlite://")

    @app.job
    def poll() -> None:
        sleep(60)

    harness.load(app)
    with pytest.warns(BlockingSleepWarning, match=r"time\.sleep\(60\)"):
        assert duration_s(harness.trigger("poll")) == 60
    assert sleep is time.sleep
    assert sleep.__module__ == "time"


def test_a_sleep_in_an_async_function_is_explained(harness: Harness) -> None:
    app = Chronos("sqlite://")

    @app.job
    async def poll() -> None:
        time.sleep(60)  # noqa: ASYNC251

    harness.load(app)
    with pytest.warns(BlockingSleepWarning, match="blocks every other job of the program; use await"):
        assert duration_s(harness.trigger("poll")) == 60


def test_a_wrong_argument_of_a_sleep_is_an_error_of_the_job(harness: Harness) -> None:
    app = Chronos("sqlite://")

    @app.job(retries=0)
    def poll() -> None:
        time.sleep(-1)

    harness.load(app)
    assert "non-negative" in (harness.trigger("poll").error or "")


def test_sleeps_outside_jobs_really_sleep(harness: Harness) -> None:
    app = Chronos("sqlite://")

    @app.job
    async def poll() -> None:
        await asyncio.sleep(60)

    harness.load(app)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        harness.trigger("poll")
        before = time.monotonic()
        time.sleep(0.001)
    assert time.monotonic() - before >= 0.001
