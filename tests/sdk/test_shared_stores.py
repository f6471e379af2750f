"""Programs that share a store: what each one declares, runs and deletes."""

import asyncio
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from chronos import Chronos, Context, Invalid, RunFailed
from chronos.errors import StoreUnavailable
from tests.sdk.conftest import Make

SOON_S = 60  # on a machine that is busy with others


def list_names(app: Chronos) -> list[str]:
    return [job.name for job in app.all_jobs()]


def declare(app: Chronos, *jobs: str, cron: str = "@daily") -> None:
    for job in jobs:
        app.command(job, ["true"], cron=cron)


def test_starting_deletes_jobs_that_the_owner_no_longer_declares(make: Make, file_url: str) -> None:
    with make(file_url, owner="reports") as first, make(file_url) as other:
        declare(other, "stays")
        declare(first, "kept", "dropped")
        other.all_jobs()
        assert list_names(first) == ["dropped", "kept", "stays"]
    second = make(file_url, owner="reports")
    declare(second, "kept", "new")
    assert list_names(second) == ["dropped", "kept", "new", "stays"]  # reading deletes nothing
    with second:
        assert list_names(second) == ["kept", "new", "stays"]
    without_owner = make(file_url)
    with without_owner:
        assert list_names(without_owner) == ["kept", "new", "stays"]


def test_owners_and_namespaces_are_separate(make: Make, file_url: str) -> None:
    for namespace, owner in (("a", "x"), ("b", "x"), ("a", "y")):
        app = make(file_url, namespace=namespace, owner=owner)
        declare(app, f"{owner}-job")
        with app:
            pass
    with make(file_url, namespace="a", owner="x") as empty:
        assert list_names(empty) == ["y-job"]
    assert list_names(make(file_url, namespace="b")) == ["x-job"]


def test_only_a_changed_declaration_makes_a_new_version(make: Make, file_url: str) -> None:
    versions: list[tuple[int, str, str | None]] = []
    for cron in ("@daily", "@daily", "@hourly"):
        app = make(file_url)
        declare(app, "job", cron=cron)
        if len(versions) == 1:
            app.get("job").pause("by hand")
        with app:
            info = app.get("job").info()
            versions.append((info.version, info.state, info.schedule))
        app.stop()
    assert versions == [(1, "active", "@daily"), (1, "paused", "@daily"), (2, "paused", "@hourly")]


def test_each_program_runs_the_functions_that_it_has(make: Make, file_url: str) -> None:
    one, two = make(file_url, node_name="one"), make(file_url, node_name="two")

    @one.job
    def left() -> str:
        return "left"

    @two.job
    def right() -> str:
        return "right"

    with one, two:
        assert one.trigger("right").result(timeout=SOON_S) == "right"
        assert two.trigger("left").result(timeout=SOON_S) == "left"
        two.stop()
        waiting = one.trigger("right")
        time.sleep(0.1)
        assert waiting.status == "ready"
        two.start()
        assert waiting.result(timeout=SOON_S) == "right"


def test_defaults_apply_to_jobs_without_their_own_settings(make: Make, url: str) -> None:
    app = make(url, defaults={"retries": 0})

    @app.job
    def fails() -> None:
        raise ValueError("once")

    @app.job(retries=1, retry={"initial_interval": "1ms"})
    def fails_twice() -> None:
        raise ValueError("twice")

    with app:
        for job, attempts in ((fails, 1), (fails_twice, 2)):
            with pytest.raises(RunFailed) as caught:
                job.trigger().result(timeout=SOON_S)
            assert caught.value.run.tasks[0].attempts == attempts


def test_hooks_and_dependent_jobs_run_in_order(make: Make, url: str) -> None:
    app = make(url)
    calls: list[str] = []
    done = threading.Event()

    def before() -> None:
        calls.append("before")

    @app.job(on_start=before)
    def first() -> None:
        calls.append("first")

    @app.job(after=first)
    def second() -> None:
        calls.append("second")
        done.set()

    with app:
        first.trigger()
        assert done.wait(SOON_S)
    assert calls == ["before", "first", "second"]


def test_a_group_without_tasks_cannot_start(make: Make) -> None:
    app = make("sqlite://")
    app.group("empty")
    with pytest.raises(Invalid, match='the group "empty" has no tasks'):
        app.start()


def test_a_store_that_cannot_be_opened_raises_and_is_opened_again_later(make: Make, tmp_path: Path) -> None:
    app = make(f"sqlite:///{tmp_path / 'none' / 'jobs.db'}")
    for _ in range(2):
        with pytest.raises(StoreUnavailable):
            app.all_jobs()
    with pytest.raises(StoreUnavailable):
        asyncio.run(app.astart())
    with pytest.raises(StoreUnavailable):
        app.start()
    with pytest.raises(StoreUnavailable):
        app.run()
    (tmp_path / "none").mkdir()
    assert app.all_jobs() == []


def test_stopping_waits_for_runs_and_sets_ctx_stopping(make: Make, url: str) -> None:
    app = make(url)
    started = threading.Event()

    @app.job
    def cooperative(ctx: Context) -> str:
        started.set()
        while not ctx.stopping:
            time.sleep(0.005)
        return "finished"

    app.start()
    run = cooperative.trigger()
    assert started.wait(SOON_S)
    app.stop()
    assert run.result() == "finished"


PROGRAM = """
import sys, time
from chronos import Chronos, Context

app = Chronos(sys.argv[1], grace="100s")

@app.job
def slow(ctx: Context) -> str:
    print("started", flush=True)
    while not ctx.stopping:
        time.sleep(0.005)
    print("stopping", flush=True)
    while sys.argv[2] == "stubborn" and not ctx.canceled:
        time.sleep(0.005)
    print("ends", flush=True)
    return "done"

run = slow.trigger()
print("ready", run.id, flush=True)
status = app.run()
print("stopped", flush=True)
sys.exit(status)
"""


@pytest.fixture
def program(file_url: str, tmp_path: Path) -> Callable[[str], "subprocess.Popen[str]"]:
    script = tmp_path / "program.py"
    script.write_text(PROGRAM)

    def start(behavior: str) -> "subprocess.Popen[str]":
        return subprocess.Popen([sys.executable, script, file_url, behavior], stdout=subprocess.PIPE, text=True)

    return start


def read_until(process: "subprocess.Popen[str]", word: str) -> str:
    assert process.stdout is not None
    for line in process.stdout:
        if line.startswith(word):
            return line
    raise AssertionError(f"the program never printed {word!r}")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_lets_runs_finish(
    program: Callable[[str], "subprocess.Popen[str]"], file_url: str, make: Make, number: signal.Signals
) -> None:
    with program("cooperative") as process:
        run = read_until(process, "ready").split()[1]
        read_until(process, "started")
        os.kill(process.pid, number)
        read_until(process, "ends")
        read_until(process, "stopped")
        assert process.wait(SOON_S) == 0
    assert make(file_url).get_run(run).result() == "done"


def test_a_second_signal_ends_the_grace_period(
    program: Callable[[str], "subprocess.Popen[str]"], file_url: str, make: Make
) -> None:
    with program("stubborn") as process:
        read_until(process, "started")
        os.kill(process.pid, signal.SIGTERM)
        read_until(process, "stopping")  # otherwise the two signals might arrive as one
        os.kill(process.pid, signal.SIGTERM)
        assert process.wait(SOON_S) == 0


def test_a_run_triggered_right_before_the_stop_is_not_lost(make: Make, url: str) -> None:
    app = make(url)

    @app.job
    def job() -> str:
        return "done"

    async def main() -> str:
        async with app:
            return (await job.atrigger()).id

    run = app.get_run(asyncio.run(main()))
    assert run.status in ("ready", "succeeded")  # not claimed by the stopped node
    with app:
        assert run.result(timeout=SOON_S) == "done"


def test_a_function_with_process_isolation_runs_in_another_process(tmp_path: Path) -> None:
    script = tmp_path / "isolated.py"
    script.write_text(
        "import os\n"
        "from chronos import Chronos\n"
        "app = Chronos('sqlite://')\n"
        "@app.job(isolation='process', limits={'memory': '4GiB'})\n"
        "def where(n: int) -> list[int]:\n"
        "    return [os.getpid(), n * 2]\n"
        "if __name__ == '__main__':\n"
        "    with app:\n"
        "        pid, n = where.trigger({'n': 4}).result(timeout=30)\n"
        "    print(pid != os.getpid(), n)\n"
    )
    result = subprocess.run(
        [sys.executable, "-W", "error", str(script)], capture_output=True, text=True, timeout=60, check=False
    )
    assert (result.returncode, result.stderr, result.stdout) == (0, "", "True 8\n")


def test_a_script_that_only_triggers_ends_by_itself(tmp_path: Path, file_url: str) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        "import sys\n"
        "from chronos import Chronos\n"
        "app = Chronos(sys.argv[1])\n"
        "@app.job\n"
        "def job() -> None: ...\n"
        "if sys.argv[2] == 'start':\n"
        "    app.start()\n"
        "print(job.trigger().status)\n"
    )
    for mode in ("trigger", "start"):  # a running engine is stopped when the main thread ends
        program = [sys.executable, "-W", "error", str(script), file_url, mode]
        result = subprocess.run(program, capture_output=True, text=True, timeout=30, check=False)
        assert (result.returncode, result.stderr) == (0, "")


KILLED = """
import sys, time
from chronos import Chronos

app = Chronos(sys.argv[1], grace="0s")
started_s = time.monotonic()

@app.job(retry={"initial_interval": "100ms"})
def slow() -> None:
    print("started", time.monotonic() - started_s, flush=True)
    if sys.argv[2] == "first":
        time.sleep(1000)

if sys.argv[2] == "first":
    slow.trigger()
app.run()
"""


@pytest.mark.chaos
def test_a_restarted_program_takes_over_the_run_of_its_killed_process(file_url: str, tmp_path: Path) -> None:
    """It does so at once, before the heartbeat of the killed process times out after 30 s."""
    script = tmp_path / "program.py"
    script.write_text(KILLED)

    def start(which: str) -> "subprocess.Popen[str]":
        return subprocess.Popen([sys.executable, script, file_url, which], stdout=subprocess.PIPE, text=True)

    with start("first") as first:
        read_until(first, "started")
        first.kill()
        with start("second") as second:
            after_s = float(read_until(second, "started").split()[1])
            second.terminate()
    assert after_s < 20
