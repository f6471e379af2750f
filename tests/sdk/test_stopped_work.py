"""Work that is told to stop and gives up in good order: it was stopped, and did not succeed."""

import asyncio
import time
from collections.abc import Iterator
from contextlib import suppress
from threading import Event
from typing import Any

import pytest

from chronos import Chronos, Context

SOON_S = 60  # on a machine that is busy with others


def heeds(ctx: Context) -> str:
    """Ends as soon as it is told to, as it should."""
    ctx.log.info("up")
    while not ctx.canceled:
        time.sleep(0.005)
    ctx.transaction.execute("this would fail")
    return "gave up"


def beats(ctx: Context) -> str:
    """The same, by another name."""
    ctx.log.info("up")
    while ctx.heartbeat():
        time.sleep(0.005)
    return "gave up"


async def swallows() -> str:
    """Hears of it as an async function does, and makes nothing of it."""
    print("up")
    with suppress(asyncio.CancelledError):
        await asyncio.sleep(SOON_S)
    return "half done"


async def swallows_with_context(ctx: Context) -> str:
    """The same, which is called in another way."""
    ctx.log.info("up")
    return await swallows()


@pytest.fixture
def app() -> Iterator[Chronos]:
    app = Chronos("sqlite://", grace=5, defaults={"retries": 0})
    app.start()
    yield app
    app.stop()


def begun(app: Chronos, name: str) -> Any:
    run = app.trigger(name)
    until_s = time.monotonic() + SOON_S
    while "up" not in run.log:
        assert time.monotonic() < until_s, "it does not begin"
        time.sleep(0.01)
    return run


@pytest.mark.parametrize("function", [heeds, beats])
@pytest.mark.parametrize("isolation", ["thread", "process"])
def test_a_function_that_heeds_a_cancel_was_canceled(app: Chronos, function: Any, isolation: Any) -> None:
    app.job(name="work", isolation=isolation)(function)
    run = begun(app, "work")
    run.cancel("enough")
    info = run.wait(SOON_S)
    assert (info.status, info.reason, info.message, info.result) == ("canceled", "canceled", "enough", None)
    assert [task.status for task in info.tasks] == ["canceled"]


@pytest.mark.parametrize("function", [swallows, swallows_with_context])
def test_an_async_function_that_goes_on_after_its_cancellation_was_stopped(app: Chronos, function: Any) -> None:
    app.job(name="work")(function)
    run = begun(app, "work")
    run.cancel()
    info = run.wait(SOON_S)
    assert (info.status, info.result) == ("canceled", None)


@pytest.mark.parametrize("isolation", ["thread", "process"])
def test_a_function_that_heeds_its_timeout_has_timed_out(app: Chronos, isolation: Any) -> None:
    app.job(name="work", isolation=isolation, timeout="100ms")(heeds)
    info = app.trigger("work").wait(SOON_S)
    assert (info.status, [task.status for task in info.tasks]) == ("failed", ["timed_out"])


def test_a_function_that_does_not_know_and_makes_it_has_succeeded_unless_its_time_is_over(app: Chronos) -> None:
    up, go_on = Event(), Event()

    @app.job(name="free")
    def free() -> str:
        up.set()
        go_on.wait(SOON_S)
        return "done"

    @app.job(name="bound", timeout="100ms")
    def bound() -> None:
        time.sleep(0.3)

    run = app.trigger("free")
    assert up.wait(SOON_S)
    run.cancel()
    go_on.set()
    assert run.wait(SOON_S).result == "done"
    info = app.trigger("bound").wait(SOON_S)
    assert (info.status, [task.status for task in info.tasks]) == ("failed", ["timed_out"])


def test_a_command_that_ends_well_on_sigterm_was_stopped(app: Chronos) -> None:
    script = ["sh", "-c", "trap 'exit 0' TERM; echo up; while :; do sleep 0.01; done"]
    app.command("work", script)
    app.command("bound", script, timeout="100ms")
    run = begun(app, "work")
    run.cancel()
    assert run.wait(SOON_S).status == "canceled"
    info = app.trigger("bound").wait(SOON_S)
    assert (info.status, [task.status for task in info.tasks]) == ("failed", ["timed_out"])


def ignores() -> None:
    """Does not ask whether it is to stop."""
    time.sleep(SOON_S)


@pytest.mark.parametrize("target", ["thread", "process", "command"])
@pytest.mark.parametrize("limit", [{"timeout": "100ms"}, {"execution_timeout": "100ms"}])
def test_what_ignores_its_timeout_is_ended_after_a_short_grace(limit: Any, target: Any) -> None:
    """The long grace is for what is canceled, and for a shutdown."""
    with Chronos("sqlite://", grace=10 * SOON_S, timeout_grace="100ms", defaults={"retries": 0}) as app:
        if target == "command":
            app.command("work", ["sh", "-c", "trap '' TERM; while :; do sleep 0.01; done"], **limit)
        else:
            app.job(name="work", isolation=target, **limit)(ignores)
        info = app.trigger("work").wait(SOON_S - 20)
        assert info.status == "failed"


def test_the_grace_after_a_timeout_is_two_seconds_unless_it_is_said() -> None:
    assert Chronos("sqlite://")._runtime._options.timeout_grace_s == 2


def test_what_gives_up_at_a_shutdown_runs_again() -> None:
    app = Chronos("sqlite://", grace=0.1, defaults={"retries": 0})
    app.job(name="work")(heeds)
    with app:
        run = begun(app, "work")
    assert run.status == "ready"
    app.stop()
