"""``print`` in a job goes to the log of the run, in every isolation. Stopping the app restores ``sys.stdout``."""

import asyncio
import sys
import threading
import time
from collections.abc import Callable

import pytest

from chronos import Chronos, Context, Run
from chronos.store.commands import PROGRESS
from chronos.testing import Harness
from tests.sdk.conftest import Make

SOON_S = 60  # on a machine that is busy with others


def printed_elsewhere() -> None:
    """Must be at module level, because another process imports it."""
    print("from a process", flush=True)


async def printed_at_once() -> str:
    print("at once")
    return "ended"


async def printed_after_a_pause() -> str:
    print("first", end="")
    await asyncio.sleep(0)
    print(", then", file=sys.stderr)
    return "ended"


def printed_in_a_thread() -> str:
    print("in a thread")
    return "ended"


TEXTS: list[tuple[Callable[[], object], str]] = [
    (printed_at_once, "at once\n"),
    (printed_after_a_pause, "first, then\n"),
    (printed_in_a_thread, "in a thread\n"),
]


def test_output_of_every_kind_of_function_is_in_the_log(app: Chronos, capsys: pytest.CaptureFixture[str]) -> None:
    before = sys.stdout, sys.stderr
    jobs = [(app.job(function), text) for function, text in TEXTS]
    isolated = app.job(isolation="process")(printed_elsewhere)
    with app:
        for job, text in jobs:
            run = job.trigger()
            assert run.result(timeout=SOON_S) == "ended"
            assert run.log == text  # complete as soon as the run is over
        run = isolated.trigger()
        run.result(timeout=SOON_S)
        assert run.log == "from a process\n"
        print("beside the jobs")
    assert (sys.stdout, sys.stderr) == before
    out, err = capsys.readouterr()
    assert out == "at once\nfirstin a thread\nbeside the jobs\n"
    assert err == ", then\n"


def test_attempts_and_tasks_have_separate_output(app: Chronos) -> None:
    attempts: list[int] = []

    @app.job(retry={"max_attempts": 3, "initial_interval": "1ms"})
    async def stumbles() -> None:
        attempts.append(1)
        print("attempt", len(attempts))
        if len(attempts) < 3:
            raise ValueError("not yet")

    group = app.group("both", mode="parallel")
    meet = threading.Barrier(2)

    def talk(name: str) -> None:
        for number in range(50):
            meet.wait(SOON_S)
            print(name, number)

    @group.task
    def left() -> None:
        talk("left")

    @group.task
    def right() -> None:
        talk("right")

    with app:
        runs = stumbles.trigger(), group.trigger()
        for run in runs:
            assert run.wait(timeout=SOON_S).succeeded
        first, second = (_read_outputs(app, run) for run in runs)
    assert [first["main", number].partition("\n")[0] for number in (1, 2, 3)] == ["attempt 1", "attempt 2", "attempt 3"]
    assert "ValueError: not yet" in first["main", 2]
    assert first["main", 3] == "attempt 3\n"
    assert second == {(name, 1): "".join(f"{name} {n}\n" for n in range(50)) for name in ("left", "right")}


def _read_outputs(app: Chronos, run: Run) -> dict[tuple[str, int], str]:
    async def read() -> dict[tuple[str, int], str]:
        session = await app._runtime.session()
        outputs: dict[tuple[str, int], str] = {}
        for row in await session.service.runs.output(run._execution):
            if row.part != PROGRESS:
                outputs[row.task, row.number] = outputs.get((row.task, row.number), "") + row.text
        return outputs

    return app._runtime.home.run_blocking(read, "read")


@pytest.mark.parametrize("on_loop", [False, True])
def test_output_can_be_read_while_the_run_is_running(make: Make, on_loop: bool) -> None:
    app, resume = make("sqlite://"), threading.Event()

    def waits() -> None:
        print("waiting")
        resume.wait(SOON_S)

    async def polls() -> None:
        print("waiting")
        await asyncio.to_thread(resume.wait, SOON_S)

    job = app.job(polls if on_loop else waits)
    with app:
        run = job.trigger()
        until_s = time.monotonic() + SOON_S
        while not run.log and time.monotonic() < until_s:
            time.sleep(0.01)
        assert (run.log, run.status) == ("waiting\n", "running")
        resume.set()
        assert run.wait(timeout=SOON_S).succeeded
        assert run.log == "waiting\n"


def test_hooks_print_into_the_log_of_their_run(app: Chronos) -> None:
    done = threading.Event()

    def after() -> None:
        print("after it")
        done.set()

    @app.job(on_start=lambda: print("before it"), on_complete=after)
    def work(ctx: Context) -> None:
        print("at it")
        ctx.log.info("logged")

    with app:
        run = work.trigger()
        run.result(timeout=SOON_S)
        assert done.wait(SOON_S)
    log = run.log
    assert [text in log for text in ("before it\n", "at it\n", " INFO logged\n", "after it\n")] == [True] * 4


def test_output_is_captured_in_the_harness(capsys: pytest.CaptureFixture[str]) -> None:
    before = sys.stdout
    app = Chronos("sqlite://")
    for function, _ in TEXTS:
        app.job(function)
    app.job(isolation="process")(printed_elsewhere)
    harness = Harness()
    harness.load(app)
    for function, text in (*TEXTS, (printed_elsewhere, "from a process\n")):
        run = harness.trigger(function.__name__)
        assert run.status == "succeeded"
        assert harness._store is not None
        rows = harness._run(harness._store.output(bytes.fromhex(run.id.replace("-", ""))), "aexecutions")
        assert "".join(row.text for row in rows) == text
    harness.close()
    assert sys.stdout is before
    assert capsys.readouterr().out == "at once\nfirstin a thread\nfrom a process\n"
