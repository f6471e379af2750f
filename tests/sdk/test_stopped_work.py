"""A run that is asked to stop and returns early was stopped; it did not succeed."""

import asyncio
import time
from collections.abc import Iterator
from contextlib import suppress
from threading import Event
from typing import Any

import pytest

from chronos import Chronos, Context

SOON_S = 60  # on a machine that is busy with others


def checks_canceled(ctx: Context) -> str:
    """Return as soon as ``ctx.canceled`` is set."""
    ctx.log.info("up")
    while not ctx.canceled:
        time.sleep(0.005)
    ctx.transaction.execute("this would fail")
    return "gave up"


def checks_heartbeat(ctx: Context) -> str:
    """Return as soon as ``ctx.heartbeat()`` is False."""
    ctx.log.info("up")
    while ctx.heartbeat():
        time.sleep(0.005)
    return "gave up"


async def swallows() -> str:
    """Suppress its ``CancelledError``."""
    print("up")
    with suppress(asyncio.CancelledError):
        await asyncio.sleep(SOON_S)
    return "half done"


async def swallows_with_context(ctx: Context) -> str:
    """The same with a context, which takes another path in the runner."""
    ctx.log.info("up")
    return await swallows()


@pytest.fixture
def app() -> Iterator[Chronos]:
    app = Chronos("sqlite://", grace=5, defaults={"retries": 0})
    app.start()
    yield app
    app.stop()


def start_run(app: Chronos, name: str) -> Any:
    run = app.trigger(name)
    until_s = time.monotonic() + SOON_S
    while "up" not in run.log:
        assert time.monotonic() < until_s, "the run does not start"
        time.sleep(0.01)
    return run


@pytest.mark.parametrize("function", [checks_canceled, checks_heartbeat])
@pytest.mark.parametrize("isolation", ["thread", "process"])
def test_a_function_that_returns_on_cancel_was_canceled(app: Chronos, function: Any, isolation: Any) -> None:
    app.job(name="work", isolation=isolation)(function)
    run = start_run(app, "work")
    run.cancel("enough")
    info = run.wait(SOON_S)
    assert (info.status, info.reason, info.message, info.result) == ("canceled", "canceled", "enough", None)
    assert [task.status for task in info.tasks] == ["canceled"]


@pytest.mark.parametrize("function", [swallows, swallows_with_context])
def test_an_async_function_that_suppresses_its_cancellation_was_canceled(app: Chronos, function: Any) -> None:
    app.job(name="work")(function)
    run = start_run(app, "work")
    run.cancel()
    info = run.wait(SOON_S)
    assert (info.status, info.result) == ("canceled", None)


@pytest.mark.parametrize("isolation", ["thread", "process"])
def test_a_function_that_returns_at_its_timeout_timed_out(app: Chronos, isolation: Any) -> None:
    app.job(name="work", isolation=isolation, timeout="100ms")(checks_canceled)
    info = app.trigger("work").wait(SOON_S)
    assert (info.status, [task.status for task in info.tasks]) == ("failed", ["timed_out"])


def test_a_function_that_never_checks_succeeds_unless_it_is_past_its_timeout(app: Chronos) -> None:
    up, resume = Event(), Event()

    @app.job(name="free")
    def free() -> str:
        up.set()
        resume.wait(SOON_S)
        return "done"

    @app.job(name="bound", timeout="100ms")
    def bound() -> None:
        time.sleep(0.3)

    run = app.trigger("free")
    assert up.wait(SOON_S)
    run.cancel()
    resume.set()
    assert run.wait(SOON_S).result == "done"
    info = app.trigger("bound").wait(SOON_S)
    assert (info.status, [task.status for task in info.tasks]) == ("failed", ["timed_out"])


def test_a_command_that_exits_with_zero_on_sigterm_was_canceled(app: Chronos) -> None:
    script = ["sh", "-c", "trap 'exit 0' TERM; echo up; while :; do sleep 0.01; done"]
    app.command("work", script)
    app.command("bound", script, timeout="100ms")
    run = start_run(app, "work")
    run.cancel()
    assert run.wait(SOON_S).status == "canceled"
    info = app.trigger("bound").wait(SOON_S)
    assert (info.status, [task.status for task in info.tasks]) == ("failed", ["timed_out"])


def ignores() -> None:
    """Never check whether to stop."""
    time.sleep(SOON_S)


@pytest.mark.parametrize("target", ["thread", "process", "command"])
@pytest.mark.parametrize("limit", [{"timeout": "100ms"}, {"execution_timeout": "100ms"}])
def test_work_that_ignores_its_timeout_is_ended_after_a_short_grace(limit: Any, target: Any) -> None:
    """The long grace applies to canceled runs and to a shutdown."""
    with Chronos("sqlite://", grace=10 * SOON_S, timeout_grace="100ms", defaults={"retries": 0}) as app:
        if target == "command":
            app.command("work", ["sh", "-c", "trap '' TERM; while :; do sleep 0.01; done"], **limit)
        else:
            app.job(name="work", isolation=target, **limit)(ignores)
        info = app.trigger("work").wait(SOON_S - 20)
        assert info.status == "failed"


def test_the_default_grace_after_a_timeout_is_two_seconds() -> None:
    assert Chronos("sqlite://")._runtime._options.timeout_grace_s == 2


def test_a_run_interrupted_by_a_shutdown_runs_again() -> None:
    app = Chronos("sqlite://", grace=0.1, defaults={"retries": 0})
    app.job(name="work")(checks_canceled)
    with app:
        run = start_run(app, "work")
    assert run.status == "ready"
    app.stop()
