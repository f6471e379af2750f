"""Functions in worker processes: killable, limited, reused, and never alive without their node."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from chronos.clock import SystemClock
from chronos.core.execution_detail import RecordedTask
from chronos.core.outcome import Failed, Outcome, Succeeded, Waits
from chronos.runners.contract import AttemptCall, StopReason
from chronos.runners.python.function_registry import FunctionRegistry, inspect_function
from chronos.runners.python.invocation import STOPPED
from chronos.runners.python.process_pool import ProcessPool
from chronos.runners.python.runner import PythonRunner
from tests.runners.python import function_work as work
from tests.runners.python.function_calls import a_call, notes, until

ROOT = Path(__file__).parents[3]


async def run_in(pool: ProcessPool, function: Callable[..., Any], call: AttemptCall | None = None) -> Outcome:
    return await pool.run(inspect_function("f", function, "process"), call or a_call("f"))


def with_pool(main: Callable[[ProcessPool], Coroutine[Any, Any, None]], **options: Any) -> None:
    async def run_with_pool() -> None:
        pool = ProcessPool(1, clock=SystemClock(), **options)
        try:
            await main(pool)
        finally:
            await pool.close()

    asyncio.run(run_with_pool())


async def until_written(call: AttemptCall) -> str:
    await until(lambda: bool(notes(call).texts))
    return notes(call).text


def is_alive(pid: int) -> bool:
    """Whether a process exists and is not a zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_functions_run_one_after_the_other_in_one_worker_process() -> None:
    async def main(pool: ProcessPool) -> None:
        assert await run_in(pool, work.add, a_call("f", payload={"a": 1})) == Succeeded(result={"sum": 11})
        first, second = await run_in(pool, work.who), await run_in(pool, work.who)
        assert isinstance(first, Succeeded)
        assert first == second
        assert first.result != os.getpid()
        call = a_call("f", payload=[1], number=3)
        assert await run_in(pool, work.reports, call) == Succeeded(
            result=["00010203-0405-0607-0809-0a0b0c0d0e0f", 3, 7, [1], "2027-01-15T08:00:00+00:00"]
        )
        assert notes(call).text.endswith(" INFO hello from nightly\n")
        assert notes(call).steps == [(1, 2)]
        assert call.statements == [("insert", (1, None, "x", b"\0y"))]
        missing = await run_in(pool, work.add, a_call("f", payload={}))
        assert missing == Failed(error='the payload of "f" lacks "a"', kinds=("bad_payload",), worth_retrying=False)
        call = a_call("f")
        failed = await run_in(pool, work.raises, call)
        assert failed == Failed(error="LookupError: not there", kinds=("LookupError", "builtins.LookupError"))
        assert "in raises\n" in notes(call).text
        assert "worker.py" not in notes(call).text
        left = await run_in(pool, work.leaves)
        assert isinstance(left, Failed)
        assert left.error == "SystemExit: 2"
        assert await run_in(pool, work.who) == first

    with_pool(main)


def test_an_object_that_wraps_a_function_can_be_imported() -> None:
    async def main(pool: ProcessPool) -> None:
        assert await run_in(pool, work._held) == Succeeded(result="found inside")

    with_pool(main)


def test_durable_calls_continue_in_another_process() -> None:
    async def main(pool: ProcessPool) -> None:
        call = a_call("f")
        asleep = await run_in(pool, work.stepwise, call)
        assert isinstance(asleep, Waits)
        assert asleep.resumes
        assert [entry.kind for entry in call.memory] == ["step", "sleep"]
        woken = a_call("f", memory=list(call.memory), started_us=asleep.until_us)
        waits = await run_in(pool, work.stepwise, woken)
        assert isinstance(waits, Waits)
        assert waits.signal == "go"
        last = a_call("f", memory=list(woken.memory), signals={"go": "on"})
        assert await run_in(pool, work.stepwise, last) == Succeeded(result=[call.memory[0].value, "on"])

    with_pool(main, max_uses=1)


def test_the_failure_of_a_crashed_process_names_the_signal() -> None:
    async def main(pool: ProcessPool) -> None:
        call = a_call("f")
        crashed = await run_in(pool, work.crashes_after_a_step, call)
        assert crashed == Failed(error="its process was killed by SIGSEGV", kinds=("crashed",))
        assert call.detail == {"exit_code": -signal.SIGSEGV}
        assert call.memory == [RecordedTask(kind="step", name="first", done=True, value="kept")]
        ended = await run_in(pool, work.ends_the_process)
        assert ended == Failed(error="its process ended by itself with exit code 5", kinds=("crashed",))
        assert await run_in(pool, work.add, a_call("f", payload={"a": 1})) == Succeeded(result={"sum": 11})

    with_pool(main)


def test_a_stop_is_requested_before_the_process_is_killed() -> None:
    async def main(pool: ProcessPool) -> None:
        call = a_call("f")
        running = asyncio.create_task(run_in(pool, work.polite, call))
        await until_written(call)
        waiting_call = a_call("f")
        waiting = asyncio.create_task(run_in(pool, work.who, waiting_call))  # the one process is busy
        await asyncio.sleep(0)
        waiting_call.stop.request(StopReason.CANCELED)
        assert await waiting is STOPPED
        call.stop.request(StopReason.CANCELED)
        assert await running == Succeeded(result="ended well")
        call = a_call("f")
        running = asyncio.create_task(run_in(pool, work.notices_shutdown, call))
        await until_written(call)
        call.stopping.request(StopReason.SHUTDOWN)
        assert await running == Succeeded(result="put away")

    with_pool(main)


def test_cancelling_kills_the_whole_process_group_at_once() -> None:
    async def main(pool: ProcessPool) -> None:
        call = a_call("f")
        running = asyncio.create_task(run_in(pool, work.stubborn_with_child, call))
        worker, child = (int(word) for word in (await until_written(call)).split()[-2:])
        call.stop.request(StopReason.TIMEOUT)
        behind = asyncio.create_task(run_in(pool, work.who))
        await asyncio.sleep(0.01)
        assert not running.done()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        assert not is_alive(worker)
        assert isinstance(await behind, Succeeded)
        await until(lambda: not is_alive(child))  # the kernel takes a moment

    with_pool(main)


def test_children_of_a_dead_worker_are_killed() -> None:
    async def main(pool: ProcessPool) -> None:
        call = a_call("f")
        outcome = await run_in(pool, work.leaves_child_behind, call)
        assert outcome == Failed(error="its process was killed by SIGTERM", kinds=("crashed",))
        _, child = (int(word) for word in notes(call).text.split()[-2:])
        await until(lambda: not is_alive(child))

    with_pool(main)


def test_limits() -> None:
    async def main(pool: ProcessPool) -> None:
        options = {"name": "f", "limits": {"memory": "64MiB"}}
        hungry = await run_in(pool, work.eats_memory, a_call("f", options=options))
        assert isinstance(hungry, Failed)
        assert "MemoryError" in hungry.kinds
        assert await run_in(pool, work.eats_memory) == Succeeded(result=512 << 20)

    with_pool(main)


@pytest.mark.slow
def test_a_function_that_uses_too_much_cpu_is_killed() -> None:
    async def main(pool: ProcessPool) -> None:
        busy = await run_in(pool, work.eats_cpu, a_call("f", options={"name": "f", "limits": {"cpu_s": 1}}))
        assert isinstance(busy, Failed)
        assert busy.error == "its process was killed by SIGXCPU: it used more than 1 s of CPU"
        assert busy.kinds == ("crashed",)

    with_pool(main)


def test_the_pool_is_bounded_and_worn_or_idle_processes_end() -> None:
    async def main(pool: ProcessPool) -> None:
        outcomes = await asyncio.gather(*(run_in(pool, work.who) for _ in range(6)))
        pids = {outcome.result for outcome in outcomes if isinstance(outcome, Succeeded)}
        assert len(outcomes) == 6
        assert len(pids) == 3  # two uses each
        await until(lambda: not any(is_alive(pid) for pid in pids))
        again = await run_in(pool, work.who)
        assert isinstance(again, Succeeded)
        assert again.result not in pids
        await until(lambda: not is_alive(again.result))  # idle for too long

    with_pool(main, max_uses=2, idle_s=0.05)


def test_a_process_that_idled_too_long_is_not_reused() -> None:
    async def main(pool: ProcessPool) -> None:
        assert await run_in(pool, work.add, a_call("f", payload={"a": 1})) == Succeeded(result={"sum": 11})
        [worker] = pool._idle
        running = asyncio.create_task(run_in(pool, work.add, a_call("f", payload={"a": 2})))
        pool._retire(worker)  # in the same turn of the loop
        assert await running == Succeeded(result={"sum": 12})

    with_pool(main)


def test_the_runner_uses_processes_and_close_ends_them() -> None:
    async def main() -> None:
        functions = FunctionRegistry()
        functions.register("who", work.who, "process")
        runner = PythonRunner(functions, threads=1, processes=1, clock=SystemClock())
        outcome = await runner.run(a_call("who"))
        assert isinstance(outcome, Succeeded)
        assert outcome.result != os.getpid()
        assert is_alive(outcome.result)
        await runner.close()
        assert not is_alive(outcome.result)
        await runner.close()
        inline = PythonRunner(functions, threads=1, processes=1, clock=SystemClock(), inline=True)
        assert await inline.run(a_call("who")) == Succeeded(result=os.getpid())

    asyncio.run(main())


PROGRAM = """
import asyncio, sys
from chronos.clock import SystemClock
from chronos.runners.python.function_registry import FunctionRegistry
from chronos.runners.python.runner import PythonRunner
from tests.runners.python import function_work as work
from tests.runners.python.function_calls import a_call

def here(ctx):
    return __name__

class Loud:
    def write(self, text):
        print(text, flush=True)
    def progress(self, done, total): ...

async def main():
    functions = FunctionRegistry()
    functions.register("here", here, "process")
    functions.register("stubborn", work.stubborn_with_child, "process")
    runner = PythonRunner(functions, threads=1, processes=1, clock=SystemClock())
    print(await runner.run(a_call("here", sink=Loud())), flush=True)
    if "stay" in sys.argv:
        await runner.run(a_call("stubborn", sink=Loud()))
    await runner.close()

if __name__ == "__main__":
    asyncio.run(main())
"""


@pytest.fixture
def program(tmp_path: Path) -> Path:
    path = tmp_path / "program.py"
    path.write_text(PROGRAM)
    return path


def environment() -> dict[str, str]:
    return os.environ | {"PYTHONPATH": str(ROOT)}


def test_a_function_of_the_program_itself_is_found_by_path(program: Path) -> None:
    done = subprocess.run(
        [sys.executable, str(program)], env=environment(), capture_output=True, text=True, timeout=60, check=False
    )
    assert done.stderr == ""
    assert done.stdout == "Succeeded(result='__mp_main__')\n"


def test_a_function_of_an_interactive_session_is_rejected() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], env=environment(), capture_output=True, text=True, timeout=60, check=False
    )
    assert "the function was defined in an interactive session" in done.stdout


def test_workers_and_their_children_die_with_a_killed_node(program: Path) -> None:
    with subprocess.Popen(
        [sys.executable, str(program), "stay"], env=environment(), stdout=subprocess.PIPE, text=True
    ) as node:
        assert node.stdout is not None
        node.stdout.readline()
        pids = [int(word) for word in node.stdout.readline().split()[-2:]]
        assert all(is_alive(pid) for pid in pids)
        node.kill()
        node.wait()
        until = time.monotonic() + 60
        while any(is_alive(pid) for pid in pids) and time.monotonic() < until:
            time.sleep(0.005)
        assert not [pid for pid in pids if is_alive(pid)]
