"""What functions print: it goes to the attempt's output and to the original stream."""

import asyncio
import io
import logging
import os
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import redirect_stdout
from types import FrameType
from typing import Any

import pytest

from chronos.clock import SystemClock
from chronos.core.outcome import Outcome, Succeeded
from chronos.engine.execution import output_buffer
from chronos.engine.execution.output_buffer import OutputBuffers
from chronos.runners.contract import AttemptCall
from chronos.runners.python import stdout_capture
from chronos.runners.python.context import Context
from chronos.runners.python.function_registry import FunctionRegistry, Isolation
from chronos.runners.python.process_pool import ProcessPool
from chronos.runners.python.runner import PythonRunner
from chronos.runners.python.worker_log import MAX_MESSAGE_CHARS, WorkerLog
from chronos.runners.python.worker_protocol import EndMessage, ToNode, WroteMessage
from tests.runners.python import function_prints as prints
from tests.runners.python.function_calls import Notes, a_call, notes


@pytest.fixture(autouse=True)
def _nothing_is_left_behind() -> Iterator[None]:
    before = sys.stdout, sys.stderr
    yield
    assert (sys.stdout, sys.stderr) == before


@pytest.fixture
def capturing() -> Iterator[None]:
    stdout_capture.start_capture()
    yield
    stdout_capture.stop_capture()


def run(
    *calls: tuple[Callable[..., Any], AttemptCall], inline: bool = False, isolation: str = "thread"
) -> list[Outcome]:
    """Make attempts at the same time."""
    functions = FunctionRegistry()
    for function, call in calls:
        functions.register(call.options["name"], function, isolation)

    async def main() -> list[Outcome]:
        runner = PythonRunner(functions, threads=4, processes=2, clock=SystemClock(), inline=inline)
        try:
            return await asyncio.gather(*(runner.run(call) for _, call in calls))
        finally:
            await runner.close()

    return asyncio.run(main())


def printed(function: Callable[..., Any], **how: Any) -> str:
    """Return the output of one attempt."""
    call = a_call(function.__name__)
    [outcome] = run((function, call), **how)
    assert isinstance(outcome, Succeeded), outcome
    return notes(call).text


async def speaks_at_once(ctx: Context) -> None:
    prints.speaks(ctx)


async def speaks_later(ctx: Context) -> None:
    await asyncio.sleep(0)
    prints.speaks(ctx)
    await asyncio.to_thread(print, "from a thread that was lent")


WAYS = [("thread", False), ("inline", False), ("thread", True), ("process", False)]


@pytest.mark.parametrize(("isolation", "inline"), WAYS)
@pytest.mark.usefixtures("capturing")
def test_prints_and_logs_are_captured_in_order(isolation: str, inline: bool) -> None:
    _is_what_speaks_says(printed(prints.speaks, isolation=isolation, inline=inline))


@pytest.mark.usefixtures("capturing")
def test_prints_of_async_functions_are_captured(
    capsys: pytest.CaptureFixture[str],
) -> None:  # capture starts later
    _is_what_speaks_says(printed(speaks_at_once))
    text = printed(speaks_later)
    end = "from a thread that was lent\n"
    assert text.endswith(end)
    _is_what_speaks_says(text.removesuffix(end))
    assert capsys.readouterr().out.endswith(end)


def _is_what_speaks_says(text: str) -> None:
    before, _, rest = text.partition("one 2\n")
    logged, _, after = rest.partition("\n")
    assert before == ""
    assert logged.endswith("INFO logged")
    assert after == "half a line, and the rest\nto stderr\nab\n"


def test_prints_also_reach_the_original_stream(capsys: pytest.CaptureFixture[str]) -> None:
    stdout_capture.start_capture()
    text = printed(prints.speaks)
    print("not of an attempt")
    stdout_capture.stop_capture()
    out, err = capsys.readouterr()
    assert out == "one 2\nhalf a line, and the rest\nab\nnot of an attempt\n"
    assert err == "to stderr\n"
    assert "not of an attempt" not in text


@pytest.mark.usefixtures("capturing")
def test_concurrent_attempts_have_separate_output() -> None:
    async def talks(ctx: Context) -> None:
        for number in range(20):
            print(ctx.job, number)
            await asyncio.sleep(0)
        print("not", "in", "pieces")

    def shouts(ctx: Context) -> None:
        for number in range(200):
            print(ctx.job, number)

    calls: list[tuple[Callable[..., Any], AttemptCall]] = []
    calls += [(talks, a_call("talks", job_name=f"job-{n}")) for n in range(5)]
    calls += [(shouts, a_call("shouts", job_name=f"thread-{n}")) for n in range(4)]
    run(*calls)
    for function, call in calls:
        lines = [f"{call.job_name} {n}" for n in range(20 if function is talks else 200)]
        assert notes(call).text.splitlines() == lines + (["not in pieces"] if function is talks else [])


@pytest.mark.usefixtures("capturing")
def test_output_of_logging_is_captured() -> None:
    def warns() -> None:
        handler = logging.StreamHandler()
        logger = logging.Logger("of-a-test")
        logger.addHandler(handler)
        logger.warning("by logging")

    assert printed(warns) == "by logging\n"


@pytest.mark.usefixtures("capturing")
def test_a_traceback_follows_the_printed_text() -> None:
    def breaks() -> None:
        print("about to break")
        raise ValueError("broken")

    call = a_call("breaks")
    run((breaks, call))
    assert notes(call).text.startswith("about to break\nTraceback (most recent call last):\n")


@pytest.mark.usefixtures("capturing")
@pytest.mark.parametrize("others", [False, True])
def test_text_that_a_function_redirects_is_not_captured(others: bool) -> None:
    kept = io.StringIO()

    async def redirects() -> None:
        print("before")
        with redirect_stdout(kept):
            print("within")
            await asyncio.sleep(0.01)
            print("still within")
        print("after")

    async def other() -> None:
        print("begun meanwhile")
        await asyncio.sleep(0.02)
        print("ended later")

    call, another = a_call("redirects"), a_call("other")
    run((redirects, call), *([(other, another)] if others else []))
    assert notes(call).text == "before\nafter\n"
    assert notes(another).text == ("begun meanwhile\nended later\n" if others else "")
    assert kept.getvalue().replace("begun meanwhile\n", "") == "within\nstill within\n"


def test_streams_may_be_redirected_before_or_during_the_capture() -> None:
    outer, inner = io.StringIO(), io.StringIO()
    with redirect_stdout(outer):
        stdout_capture.start_capture()
        assert printed(prints.hello) == "hello\n"
        with redirect_stdout(inner):
            assert printed(prints.hello) == "hello\n"
            stdout_capture.stop_capture()
            assert sys.stdout is inner
            assert printed(prints.hello) == ""
        print("outer")
        stdout_capture.start_capture()  # the restored stand-in is reused, not wrapped again
        assert isinstance(sys.stdout, stdout_capture.StdoutStandIn)
        assert sys.stdout.original is outer
        assert printed(prints.hello) == "hello\n"
        stdout_capture.stop_capture()
        assert sys.stdout is outer
    assert (outer.getvalue(), inner.getvalue()) == ("hello\nouter\nhello\n", "hello\nhello\n")


def test_a_restored_stream_is_captured_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """As pytest does between the setup of a test and its call."""
    stream = io.StringIO()
    monkeypatch.setattr(sys, "stdout", stream)
    stdout_capture.start_capture()
    there = sys.stdout
    sys.stdout = stream
    assert printed(prints.hello) == "hello\n"
    assert sys.stdout is there
    stdout_capture.stop_capture()
    assert sys.stdout is stream


def test_a_wrapped_stream_is_captured_once(monkeypatch: pytest.MonkeyPatch) -> None:
    class Tee(io.TextIOBase):
        def __init__(self, stream: Any) -> None:
            self.stream = stream

        def write(self, text: str) -> int:
            return int(self.stream.write(text))

    stream = io.StringIO()
    monkeypatch.setattr(sys, "stdout", stream)
    stdout_capture.start_capture()
    tee = sys.stdout = Tee(sys.stdout)  # one stand-in behind it, and one before it
    assert printed(prints.hello) == "hello\n"
    stdout_capture.stop_capture()
    assert printed(prints.hello) == ""
    assert sys.stdout is tee
    assert stream.getvalue() == "hello\nhello\n"


def test_the_last_stop_restores_the_streams() -> None:
    before = sys.stdout, sys.stderr
    stdout_capture.start_capture()
    stdout_capture.start_capture()
    stdout_capture.stop_capture()
    assert printed(prints.hello) == "hello\n"
    stdout_capture.stop_capture()
    assert (sys.stdout, sys.stderr) == before
    assert printed(prints.hello) == ""


class Broken(io.StringIO):
    def write(self, text: str) -> int:
        raise BrokenPipeError("not readable")

    def flush(self) -> None:
        raise BrokenPipeError("not readable")


def closed() -> io.StringIO:
    stream = io.StringIO()
    stream.close()
    return stream


@pytest.mark.parametrize("stream", [None, closed(), Broken(), io.TextIOWrapper(io.BytesIO(), encoding="ascii")])
def test_a_stream_that_cannot_be_written_does_not_fail_the_work(stream: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", stream)
    stdout_capture.start_capture()
    try:
        assert printed(prints.umlauts) == "Füße\n"
    finally:
        stdout_capture.stop_capture()
    assert sys.stdout is stream


@pytest.mark.usefixtures("capturing")
def test_outside_of_attempts_stream_errors_are_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in = stdout_capture.StdoutStandIn(Broken(), 0)
    with pytest.raises(BrokenPipeError):
        stand_in.write("x")
    with pytest.raises(BrokenPipeError):
        stand_in.flush()


def test_a_stand_in_has_the_attributes_of_its_stream() -> None:
    stream = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
    stand_in = stdout_capture.StdoutStandIn(stream, 0)
    assert (stand_in.encoding, stand_in.isatty(), stand_in.buffer) == ("utf-8", False, stream.buffer)
    with pytest.raises(AttributeError):
        _ = stand_in.nothing_like_it
    with pytest.raises(TypeError):
        stand_in.write(b"bytes")  # type: ignore[arg-type]
    with stand_in as same:
        same.writelines(["a", "b"])
        stand_in.flush()
        assert stream.buffer.getvalue() == b"ab"
    assert stream.closed
    nowhere = stdout_capture.StdoutStandIn(None, 0)
    assert (nowhere.write("abc"), nowhere.isatty()) == (3, False)


@pytest.mark.usefixtures("capturing")
def test_a_fork_prints_to_the_original_streams() -> None:
    """It shares locks and sockets that it must not touch."""

    def forks() -> None:
        print("parent")
        child = os.fork()
        if not child:
            there = isinstance(sys.stdout, stdout_capture.StdoutStandIn) or isinstance(
                sys.stderr, stdout_capture.StdoutStandIn
            )
            os._exit(int(there))
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # newer Python versions warn about forks with threads
        assert printed(forks, inline=True) == "parent\n"


@pytest.mark.usefixtures("capturing")
@pytest.mark.parametrize("within", ["open_output", "__init__", "_add", "_take_first_bytes", "note_change", "progress"])
def test_code_that_interrupts_a_write_may_print(within: str) -> None:
    """A signal handler or finalizer may run while the output's lock is held, as a profiler does here."""
    store: Any = None
    sink = OutputBuffers(store).sink(bytes(16), "task", 1)
    met: list[str] = []

    def on_top(frame: FrameType, event: str, _: object) -> None:
        code = frame.f_code
        if event == "call" and code.co_filename == output_buffer.__file__ and code.co_name == within:
            met.append(within)
            print("on top")

    def busy(ctx: Context) -> None:
        sys.setprofile(on_top)
        try:
            print("printed")
            ctx.log.info("logged")
            ctx.progress(1)
        finally:
            sys.setprofile(None)

    [outcome] = run((busy, a_call("busy", sink=sink)), inline=True)
    assert outcome == Succeeded()
    assert met
    assert sink.output is not None
    text = "".join(text for _, text in sink.output.parts_to_write())
    assert [text.count(each) for each in ("printed", "logged\n")] == [1, 1]


@pytest.mark.usefixtures("capturing")
def test_prints_of_leftover_threads_are_not_captured() -> None:
    async def main() -> None:
        written: list[Any] = []

        class Store:
            async def apply(self, command: object) -> None:
                written.append(command)

        store: Any = Store()
        book = OutputBuffers(store)
        go_on = asyncio.Event()
        left: list[asyncio.Task[None]] = []

        async def stays() -> None:
            await go_on.wait()
            print("too late")

        async def leaves() -> None:
            await asyncio.sleep(0)
            left.append(asyncio.create_task(stays()))

        functions = FunctionRegistry()
        functions.register("leaves", leaves)
        runner = PythonRunner(functions, threads=1, processes=1, clock=SystemClock())
        sink = book.sink(bytes(16), "task", 1)
        assert await runner.run(a_call("leaves", sink=sink)) == Succeeded()
        await book.close(sink)
        go_on.set()
        await asyncio.gather(*left)
        await book.flush()
        assert written == []
        await runner.close()

    asyncio.run(main())


# --- processes


def test_a_worker_process_separates_attempts_and_splits_long_texts(capfd: pytest.CaptureFixture[str]) -> None:
    async def main() -> None:
        functions = FunctionRegistry()
        for function in (prints.much, prints.leaves_a_thread, prints.hello_beside_it):
            functions.register(function.__name__, function, Isolation.PROCESS)
        pool = ProcessPool(1, clock=SystemClock())
        try:
            calls = [a_call(name) for name in ("much", "leaves_a_thread", "hello_beside_it")]
            for call in calls:
                known = functions.get(call.options["name"])
                assert known is not None
                assert isinstance(await pool.run(known, call), Succeeded)
        finally:
            await pool.close()
        much, leaves, hello = (notes(call).text for call in calls)
        assert len(much) == prints.MUCH + 1
        assert (leaves, hello) == ("", "hello\n")

    asyncio.run(main())
    out, _ = capfd.readouterr()
    assert out.endswith("hello\n")  # it also goes to the node's own stream


def test_a_worker_log_ends_with_its_attempt_and_is_not_interrupted() -> None:
    sent: list[ToNode] = []

    def send(message: ToNode) -> None:
        voice.write("on top of it")
        sent.append(message)

    voice = WorkerLog(send)
    voice.write("")
    voice.write("x" * MAX_MESSAGE_CHARS + "yz")
    assert sent == [WroteMessage(text="x" * MAX_MESSAGE_CHARS), WroteMessage(text="yz")]
    voice.end(EndMessage())
    voice.write("too late")
    voice.progress(1, None)
    assert sent[2:] == [EndMessage()]


def test_only_threads_with_the_context_of_the_attempt_are_captured() -> None:
    """Threads that a function starts itself do not have its context."""
    call = a_call("starts")

    def starts() -> None:
        thread = threading.Thread(target=print, args=("elsewhere",))
        thread.start()
        thread.join()
        print("here")

    stdout_capture.start_capture()
    run((starts, call))
    stdout_capture.stop_capture()
    assert isinstance(call.sink, Notes)
    assert call.sink.text == "here\n"
