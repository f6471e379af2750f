"""Functions on the loop, in threads and inline: their results, failures and stops."""

import asyncio
import contextvars
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from chronos.assembly import count_abandoned_threads
from chronos.clock import SystemClock
from chronos.core.outcome import Failed, Outcome, Succeeded, Waits
from chronos.errors import Invalid
from chronos.runners.contract import AttemptCall, StopReason
from chronos.runners.python.context import Context
from chronos.runners.python.function_registry import FunctionRegistry
from chronos.runners.python.invocation import STOPPED
from chronos.runners.python.runner import PythonRunner
from chronos.runners.wait import WaitRunner
from tests.runners.python.function_calls import NOW, SECOND, a_call, notes, until

VARIABLE: contextvars.ContextVar[str] = contextvars.ContextVar("VARIABLE", default="unset")


def make(*calls: Callable[..., Any], inline: bool = False, threads: int = 4) -> PythonRunner:
    functions = FunctionRegistry()
    for call in calls:
        functions.register(call.__name__, call)
    return PythonRunner(functions, threads=threads, processes=1, clock=SystemClock(), inline=inline)


def outcome_of(function: Callable[..., Any], *, inline: bool = False, **fields: Any) -> tuple[Outcome, AttemptCall]:
    """Return the outcome of one attempt of a function."""
    call = a_call(function.__name__, **fields)

    async def main() -> Outcome:
        runner = make(function, inline=inline)
        try:
            return await runner.run(call)
        finally:
            await runner.close()

    return asyncio.run(main()), call


def run(main: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(main())


def add(a: int, b: int = 10) -> dict[str, int]:
    return {"sum": a + b}


async def add_async(a: int, b: int = 10) -> dict[str, int]:
    await asyncio.sleep(0)
    return {"sum": a + b}


def nap(ctx: Context) -> str:
    ctx.transaction.execute("forgotten while it sleeps")
    ctx.sleep(5)
    ctx.transaction.execute("kept")
    return "rested"


async def nap_async(ctx: Context) -> str:
    ctx.transaction.execute("forgotten while it sleeps")
    await ctx.sleep(5)
    ctx.transaction.execute("kept")
    return "rested"


@pytest.mark.parametrize("inline", [False, True])
@pytest.mark.parametrize("function", [add, add_async])
def test_a_function_receives_its_payload_and_returns_its_result(function: Callable[..., Any], inline: bool) -> None:
    outcome, _ = outcome_of(function, inline=inline, payload={"a": 1})
    assert outcome == Succeeded(result={"sum": 11})


@pytest.mark.parametrize("function", [add, add_async])
def test_a_payload_that_does_not_fit_is_not_worth_retrying(function: Callable[..., Any]) -> None:
    outcome, _ = outcome_of(function, payload={"c": 1})
    assert outcome == Failed(
        error=f'the payload of "{function.__name__}" lacks "a"', kinds=("bad_payload",), worth_retrying=False
    )


@pytest.mark.parametrize("inline", [False, True])
@pytest.mark.parametrize("function", [nap, nap_async])
def test_durable_sleep(function: Callable[..., Any], inline: bool) -> None:
    before = time.time_ns() // 1000
    asleep, call = outcome_of(function, inline=inline)
    assert isinstance(asleep, Waits)
    assert asleep.resumes
    assert asleep.until_us is not None
    assert 0 <= asleep.until_us - 5 * SECOND - before < 60 * SECOND
    assert call.statements == []
    awake, call = outcome_of(function, inline=inline, memory=call.memory, started_us=asleep.until_us)
    assert awake == Succeeded(result="rested")
    assert call.statements[-1] == ("kept", ())


class Broken(ValueError):
    """An error with its own traceback."""


def raises() -> None:
    raise Broken("it broke")


async def raises_async() -> None:
    raises()


@pytest.mark.parametrize("inline", [False, True])
@pytest.mark.parametrize("function", [raises, raises_async])
def test_an_exception_is_a_failure_with_the_names_of_all_its_classes(
    function: Callable[..., Any], inline: bool
) -> None:
    outcome, call = outcome_of(function, inline=inline)
    assert outcome == Failed(
        error="Broken: it broke",
        kinds=("Broken", f"{__name__}.Broken", "ValueError", "builtins.ValueError"),
    )
    assert notes(call).text.startswith("Traceback (most recent call last):\n")
    assert notes(call).text.endswith(".Broken: it broke\n")
    assert "in raises\n" in notes(call).text
    assert "calling.py" not in notes(call).text


def leaves() -> None:
    sys.exit(3)


def interrupts() -> None:
    raise KeyboardInterrupt


async def leaves_async() -> None:
    sys.exit(3)


async def cancels_itself() -> None:
    raise asyncio.CancelledError


class Unspeakable(Exception):
    def __str__(self) -> str:
        raise ZeroDivisionError


def unspeakable() -> None:
    raise Unspeakable


@pytest.mark.parametrize(
    ("function", "error"),
    [
        (leaves, "SystemExit: 3"),
        (leaves_async, "SystemExit: 3"),
        (interrupts, "KeyboardInterrupt"),
        (cancels_itself, "CancelledError"),
        (unspeakable, "Unspeakable: (its __str__ failed)"),
    ],
)
@pytest.mark.parametrize("inline", [False, True])
def test_no_exception_of_a_function_escapes_the_runner(function: Callable[..., Any], error: str, inline: bool) -> None:
    outcome, _ = outcome_of(function, inline=inline)
    assert isinstance(outcome, Failed)
    assert outcome.error == error


def gives_object() -> object:
    return threading.Lock()


def gives_coroutine() -> object:
    return add_async(1)


def gives_much() -> str:
    return "x" * (1 << 20)


def gives_half_a_character() -> str:
    return "\ud800"


@pytest.mark.parametrize(
    ("function", "sentence"),
    [
        (gives_object, '"gives_object" returned a lock, which is not JSON'),
        (gives_coroutine, '"gives_coroutine" returned a coroutine, which is not JSON'),
        (gives_much, '"gives_much" returned 1,048,578 bytes of JSON, but at most 1,048,576 are allowed'),
        (gives_half_a_character, '"gives_half_a_character" returned a str, which is not JSON'),
    ],
)
def test_results_are_json_and_bounded(function: Callable[..., Any], sentence: str) -> None:
    outcome, _ = outcome_of(function)
    assert isinstance(outcome, Failed)
    assert sentence in outcome.error
    assert not outcome.worth_retrying


def test_a_function_that_was_changed_is_not_retried() -> None:
    _, call = outcome_of(nap)

    def nap2(ctx: Context) -> None:
        ctx.step("other", int)

    outcome, _ = outcome_of(nap2, memory=call.memory)
    assert isinstance(outcome, Failed)
    assert not outcome.worth_retrying
    assert "the function has changed since" in outcome.error


def sets_variable() -> str:
    seen = VARIABLE.get()
    VARIABLE.set("changed")
    return f"{seen} on {threading.current_thread().name}"


async def sets_variable_async() -> str:
    return sets_variable()


@pytest.mark.parametrize("inline", [False, True])
def test_context_variables_are_copied_into_functions(inline: bool) -> None:
    async def main() -> None:
        runner = make(sets_variable, sets_variable_async, inline=inline)
        VARIABLE.set("given")
        for _ in range(2):
            outcome = await runner.run(a_call("sets_variable"))
            assert outcome == Succeeded(result="given on MainThread" if inline else "given on chronos-function")
            in_its_task = asyncio.create_task(runner.run(a_call("sets_variable_async")))
            assert await in_its_task == Succeeded(result="given on MainThread")
        assert VARIABLE.get() == "given"
        await runner.close()

    run(main)


def test_threads_are_bounded_and_all_work_is_done() -> None:
    most, now, lock, meet = [0], [0], threading.Lock(), threading.Barrier(3)

    def busy() -> None:
        with lock:
            now[0] += 1
            most[0] = max(most[0], now[0])
        meet.wait(60)
        time.sleep(0.0005)
        with lock:
            now[0] -= 1

    async def main() -> None:
        runner = make(busy, threads=3)
        outcomes = await asyncio.gather(*(runner.run(a_call("busy")) for _ in range(198)))
        assert outcomes == [Succeeded()] * 198
        assert most[0] == 3
        await runner.close()
        await runner.close()

    run(main)


def test_a_thread_ends_when_it_reads_canceled() -> None:
    def loop(ctx: Context) -> str:
        ctx.log.info("begun")
        while ctx.heartbeat():
            time.sleep(0.001)
        return "ended well"

    async def main() -> None:
        runner = make(loop)
        call = a_call("loop")
        running = asyncio.create_task(runner.run(call))
        await asyncio.to_thread(notes(call).wrote.wait)
        call.stop.request(StopReason.CANCELED)
        assert await running == Succeeded(result="ended well")
        assert runner.abandoned == 0

    run(main)


def test_a_thread_that_ignores_a_stop_is_abandoned_and_replaced() -> None:
    begun, go_on = threading.Event(), threading.Event()

    def stubborn(ctx: Context) -> None:
        begun.set()
        go_on.wait()
        ctx.log.info("too late")

    def quick() -> str:
        return "done"

    async def main() -> None:
        runner = make(stubborn, quick, threads=1)
        call = a_call("stubborn")
        running = asyncio.create_task(runner.run(call))
        await asyncio.to_thread(begun.wait)
        behind = asyncio.create_task(runner.run(a_call("quick")))
        dropped_call = a_call("quick")
        dropped = asyncio.create_task(runner.run(dropped_call))
        await asyncio.sleep(0)
        dropped_call.stop.request(StopReason.CANCELED)
        assert await dropped is STOPPED
        call.stop.request(StopReason.TIMEOUT)
        await asyncio.sleep(0.01)
        assert not running.done()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        assert await behind == Succeeded(result="done")
        assert (runner.abandoned, runner.abandoned_running, runner.abandoned_threads) == (1, 1, 1)
        assert count_abandoned_threads({"python": runner, "wait": WaitRunner()}) == 1
        go_on.set()
        await until(lambda: not runner.abandoned_running)
        assert count_abandoned_threads({"python": runner}) == 0
        assert notes(call).texts == []
        assert await runner.run(a_call("quick")) == Succeeded(result="done")
        assert runner.abandoned == 1

    run(main)


def test_an_async_function_is_cancelled_by_a_stop() -> None:
    seen: list[str] = []
    begun = asyncio.Event()

    async def waits() -> None:
        begun.set()
        try:
            await asyncio.sleep(60)
        finally:
            await asyncio.sleep(0.001)
            seen.append("cleaned up")

    async def main() -> None:
        runner = make(waits)
        call = a_call("waits")
        running = asyncio.create_task(runner.run(call))
        await begun.wait()
        call.stop.request(StopReason.TIMEOUT)
        assert await running is STOPPED
        assert seen == ["cleaned up"]
        before = a_call("waits")
        before.stop.request(StopReason.CANCELED)
        assert await runner.run(before) is STOPPED
        at_once = a_call("waits")
        running = asyncio.create_task(runner.run(at_once))
        at_once.stop.request(StopReason.CANCELED)  # before its first step
        assert await running is STOPPED
        assert seen == ["cleaned up"]

    run(main)


def test_a_timeout_inside_a_function_is_an_ordinary_error() -> None:
    async def impatient() -> str:
        try:
            async with asyncio.timeout(0.001):
                await asyncio.sleep(60)
        except TimeoutError:
            await asyncio.sleep(0.001)
            return "went on"
        return "never"

    assert outcome_of(impatient)[0] == Succeeded(result="went on")


def test_an_async_function_that_does_not_end_is_abandoned() -> None:
    free, begun = asyncio.Event(), asyncio.Event()

    async def stubborn(ctx: Context) -> None:
        begun.set()
        while not free.is_set():
            try:
                await free.wait()
            except asyncio.CancelledError:
                ctx.log.info("no")

    async def main() -> None:
        runner = make(stubborn)
        call = a_call("stubborn")
        running = asyncio.create_task(runner.run(call))
        await begun.wait()
        running.cancel()
        assert call.on_abandon is not None
        call.on_abandon()
        assert (runner.abandoned, runner.abandoned_running) == (1, 1)
        free.set()
        await running
        await until(lambda: not runner.abandoned_running)

    run(main)


def test_check_names_the_invalid_options() -> None:
    runner = make(add)
    runner.check({"name": "add", "payload": {}})
    runner.check({"name": "somewhere_else", "limits": {"memory": "64MiB", "cpu_s": 1.5}})
    wrong: list[tuple[dict[str, Any], str]] = [
        ({}, "registered function, got None"),
        ({"name": "add", "isolate": 1}, 'python has no option "isolate"'),
        ({"name": "add", "limits": {"memory": "1MiB"}}, 'register "add" with isolation="process"'),
        ({"name": "x", "limits": {"memory": "much"}}, 'python.limits.memory is "much"'),
        ({"name": "x", "limits": {"cpu_s": 0}}, "python.limits.cpu_s is 0"),
        ({"name": "x", "limits": {"disk": 0}}, 'python.limits has no option "disk"'),
        ({"name": "x", "limits": {"memory": 1}}, "use at least 1MiB"),
        ({"name": "x", "limits": 3}, "python.limits must be an object"),
    ]
    for options, sentence in wrong:
        with pytest.raises(Invalid, match=sentence):
            runner.check(options)


def test_an_unregistered_function_fails() -> None:
    async def main() -> None:
        outcome = await make().run(a_call("missing"))
        assert outcome == Failed(error='this node has no function "missing"', kinds=("no_function",))

    run(main)


def test_an_abandoned_thread_does_not_keep_the_program_from_exiting() -> None:
    program = """
import asyncio, threading
from chronos.clock import SystemClock
from chronos.runners.python.function_registry import FunctionRegistry
from chronos.runners.python.runner import PythonRunner
from tests.runners.python.function_calls import a_call

begun = threading.Event()

def hangs():
    begun.set()
    threading.Event().wait()

async def main():
    functions = FunctionRegistry()
    functions.register("hangs", hangs)
    runner = PythonRunner(functions, threads=1, processes=1, clock=SystemClock())
    running = asyncio.create_task(runner.run(a_call("hangs")))
    await asyncio.to_thread(begun.wait)
    running.cancel()
    await asyncio.wait([running])
    await runner.close()

asyncio.run(main())
"""
    assert subprocess.run([sys.executable, "-c", program], timeout=30, check=False).returncode == 0


def test_attempts_know_their_time() -> None:
    def says(ctx: Context) -> str:
        return ctx.scheduled_at.isoformat()

    assert outcome_of(says, scheduled_us=NOW)[0] == Succeeded(result="2027-01-15T08:00:00+00:00")
