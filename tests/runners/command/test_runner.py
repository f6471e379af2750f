"""The command target with real processes: its input, its end, and that nothing of it is left."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from chronos.core.outcome import Failed, Outcome, Succeeded
from chronos.core.planner import CoveredSpan
from chronos.errors import Invalid
from chronos.runners.command import supervisor
from chronos.runners.command.runner import CommandRunner
from chronos.runners.contract import AttemptCall, StopReason
from tests.support.target_calls import Kept, make_call

linux = pytest.mark.skipif(sys.platform != "linux", reason="needs /proc and subreapers")
root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")


def run(options: Mapping[str, Any], **changes: Any) -> tuple[Outcome, AttemptCall, str]:
    sink = Kept()
    call = make_call(options, sink=sink, **changes)

    async def go() -> Outcome:
        runner = CommandRunner(secrets={"KEY": "s3cr3t-value"}.get)
        runner.check(options)
        try:
            return await runner.run(call)
        finally:
            await runner.close()

    return asyncio.run(go()), call, sink.text


def shell(text: str, **options: Any) -> dict[str, Any]:
    return {"shell": True, "command": text, **options}


def failed(outcome: Outcome) -> Failed:
    assert isinstance(outcome, Failed)
    return outcome


def alive(pid: int) -> bool:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return stat.rpartition(") ")[2][0] != "Z"


def wait_until(holds: Any, within_s: float = 60.0) -> None:
    end = time.monotonic() + within_s
    while not holds():
        assert time.monotonic() < end, "it did not come to be"
        time.sleep(0.01)


def test_output_and_exit_code_are_kept() -> None:
    outcome, call, text = run(shell("echo out; echo err >&2"))
    assert outcome == Succeeded()
    assert call.detail == {"exit_code": 0}
    assert sorted(text.splitlines()) == ["err", "out"]


def test_a_failure_contains_the_exit_code_and_the_last_output() -> None:
    outcome, call, _ = run(shell("echo 'disk full' >&2; exit 3"))
    assert failed(outcome) == Failed(error="exited with code 3: disk full", kinds=("exit_3", "exit"))
    assert call.detail["exit_code"] == 3


def test_other_exit_codes_may_mean_success() -> None:
    assert run(shell("exit 3", success_codes=[0, 3]))[0] == Succeeded()


def test_a_failure_names_the_signal() -> None:
    outcome, call, _ = run(shell("kill -SEGV $$"))
    assert failed(outcome).error == "killed by SIGSEGV"
    assert failed(outcome).kinds == ("exit_-11", "exit")
    assert call.detail["exit_code"] == -signal.SIGSEGV


def test_arguments_are_never_interpreted_by_a_shell() -> None:
    _, _, text = run({"argv": ["printf", "%s|", "$HOME", "; echo no", "a b", "{{ payload.x }}"]}, payload={"x": "`id`"})
    assert text == "$HOME|; echo no|a b|`id`|"


def test_the_environment_is_clean_and_describes_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DATABASE_PASSWORD", "hunter2")
    options = {"argv": ["env"], "env": {"MODE": "fast", "AT": "{{ execution.scheduled_at }}", "N": 3}}
    _, _, text = run(options, payload={"a": [1]})
    env = dict(line.split("=", 1) for line in text.splitlines())
    assert "DATABASE_PASSWORD" not in env
    assert env["PATH"]
    assert (env["MODE"], env["AT"], env["N"]) == ("fast", "2027-01-15T08:00:00Z", "3")
    assert {name: value for name, value in env.items() if name.startswith("CHRONOS_")} == {
        "CHRONOS_EXECUTION_ID": "0190f1f2-aaaa-8bbb-8ccc-dddddddddddd",
        "CHRONOS_JOB": "report",
        "CHRONOS_TASK": "work",
        "CHRONOS_TASK_RUN_ID": "033f4f5f-b6dd-56a3-a068-49b6c1c1b588",
        "CHRONOS_ATTEMPT": "1",
        "CHRONOS_ATTEMPT_ID": "1c881070-c766-8e38-93f7-adb9a0cde1ba",
        "CHRONOS_TOKEN": "7",
        "CHRONOS_SCHEDULED_AT": "2027-01-15T08:00:00Z",
        "CHRONOS_PAYLOAD": '{"a":[1]}',
    }


def test_a_compressed_run_tells_its_span() -> None:
    span = CoveredSpan(from_us=0, to_us=60_000_000, count=2)
    _, _, text = run(shell('echo "$CHRONOS_SPAN_FROM $CHRONOS_SPAN_TO $CHRONOS_SPAN_COUNT"'), span=span)
    assert text == "1970-01-01T00:00:00Z 1970-01-01T00:01:00Z 2\n"


def test_a_payload_that_no_environment_can_hold_is_left_to_stdin() -> None:
    payload = "x" * 300_000
    outcome, _, text = run(shell('wc -c; echo "${CHRONOS_PAYLOAD-none}"', stdin=True), payload=payload)
    assert outcome == Succeeded()
    assert text.split() == ["300002", "none"]


def test_stdin_is_empty_unless_given() -> None:
    assert run({"argv": ["cat"]})[2] == ""
    assert run({"argv": ["cat"], "stdin": "key={{ payload.k }}"}, payload={"k": 5})[2] == "key=5"


def test_a_command_has_three_open_files_and_its_own_session() -> None:
    code = "import os; print(sorted(map(int, os.listdir('/dev/fd')))[:-1], os.getsid(0) == os.getpid())"
    _, _, text = run({"argv": [sys.executable, "-c", code]})
    assert text == "[0, 1, 2] True\n"


def test_a_command_runs_in_the_given_directory(tmp_path: Path) -> None:
    assert run({"argv": ["pwd", "-P"], "cwd": str(tmp_path)})[2] == f"{tmp_path.resolve()}\n"


def test_a_command_runs_in_the_directory_of_the_node_by_default(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run({"argv": ["pwd", "-P"]})[2] == f"{tmp_path.resolve()}\n"
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    assert run({"argv": ["pwd", "-P"]})[2] == "/\n"


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"argv": ["no-such-program-here"]}, 'program "no-such-program-here" not found'),
        ({"argv": ["/etc/passwd"]}, '"/etc/passwd" is not executable'),
        ({"argv": ["true"], "cwd": "/no/such/place"}, 'cannot change to the directory "/no/such/place"'),
        ({"argv": ["true", "x" * 200_000]}, "the arguments and environment are too long"),
    ],
)
def test_a_command_that_cannot_start_fails_without_a_retry(options: dict[str, Any], error: str) -> None:
    outcome, call, _ = run(options)
    assert error in failed(outcome).error
    assert not failed(outcome).worth_retrying
    assert call.detail == {}


def test_secrets_are_masked_in_output_even_between_pieces() -> None:
    text = 'printf "key s3cr"; sleep 0.05; printf "3t-value and s3cr3t-value"; echo "$K" >&2; exit 1'
    outcome, _, shown = run(shell(text, env={"K": "{{ secret.KEY }}"}))
    assert "s3cr" not in shown
    assert shown.count("***") == 3
    assert failed(outcome).error == "exited with code 1: ***"


def test_a_missing_secret_is_named() -> None:
    outcome, _, _ = run(shell("true", env={"K": "{{ secret.OTHER }}"}))
    assert 'secret "OTHER" does not exist' in failed(outcome).error


def test_output_that_is_not_utf8_is_replaced() -> None:
    _, _, text = run(shell(r"printf 'a\377b\303'; sleep 0.02; printf '\251\000c'"))
    assert text == "a\N{REPLACEMENT CHARACTER}bé\N{REPLACEMENT CHARACTER}c"


def test_a_flood_of_output_is_bounded_and_does_not_block_the_loop() -> None:
    sink = Kept()
    call = make_call(shell("head -c 200000000 /dev/zero | tr '\\0' 'x'; echo; echo the end"), sink=sink)
    gaps: list[float] = []

    async def beat() -> None:
        while True:
            before = time.perf_counter()
            await asyncio.sleep(0.001)
            gaps.append(time.perf_counter() - before)

    async def go() -> Outcome:
        runner = CommandRunner()
        beating = asyncio.create_task(beat())
        try:
            return await runner.run(call)
        finally:
            beating.cancel()
            await runner.close()

    assert asyncio.run(go()) == Succeeded()
    assert len(sink.text) < 4_000_000
    assert "bytes left out" in sink.text
    assert sink.text.endswith("the end\n")
    assert sorted(gaps)[len(gaps) // 2] < 0.05


def test_a_stopped_command_receives_sigterm_and_may_exit() -> None:
    sink = Kept()
    call = make_call(shell("trap 'echo bye; exit 0' TERM; echo up; while :; do sleep 0.01; done"), sink=sink)

    async def go() -> Outcome:
        runner = CommandRunner()
        running = asyncio.create_task(runner.run(call))
        await sink.holds(1)
        call.stop.request(StopReason.CANCELED)
        try:
            return await running
        finally:
            await runner.close()

    assert asyncio.run(go()) == Succeeded()
    assert sink.text.endswith("bye\n")


@linux
def test_a_canceled_command_is_killed_with_its_descendants() -> None:
    sink = Kept()
    deaf = "trap '' TERM; sleep 300 & setsid sleep 300 & (setsid sh -c 'sleep 300 & echo $!; wait') & echo $$; wait"
    call = make_call(shell(f"{deaf}; sleep 300"), sink=sink)

    async def go() -> list[int]:
        runner = CommandRunner()
        running = asyncio.create_task(runner.run(call))
        await sink.holds(2)
        pids = [int(pid) for pid in sink.text.split()]
        assert all(map(alive, pids))
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        left = [pid for pid in pids if alive(pid)]
        await runner.close()
        return left

    assert asyncio.run(go()) == []


@linux
def test_processes_that_a_command_leaves_behind_are_killed(tmp_path: Path) -> None:
    started, left = time.monotonic(), tmp_path / "left"
    stays = f"echo $$; echo > '{left}'; exec sleep 300"
    script = f'setsid env -i PATH="$PATH" sh -c "$STAYS" & until test -e \'{left}\'; do sleep 0.01; done; exit 0'
    outcome, _, text = run(shell(script, env={"STAYS": stays}))
    assert outcome == Succeeded()
    assert not alive(int(text))
    assert time.monotonic() - started < 150


@linux
def test_commands_die_with_a_killed_node(tmp_path: Path) -> None:
    script = tmp_path / "node.py"
    script.write_text(
        "import asyncio\n"
        "from chronos.runners.command.runner import CommandRunner\n"
        "from tests.support.target_calls import make_call\n"
        "class Out:\n"
        "    def write(self, text): print(text, end='', flush=True)\n"
        "text = 'echo $$; setsid sh -c \"echo \\\\$\\\\$; exec sleep 300\" & sleep 300'\n"
        "call = make_call({'shell': True, 'command': text}, sink=Out())\n"
        "asyncio.run(CommandRunner().run(call))\n"
    )
    node = subprocess.Popen(
        [sys.executable, str(script)],
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": str(Path(__file__).parents[3])},
    )
    assert node.stdout is not None
    with node.stdout:
        pids = [int(node.stdout.readline()) for _ in range(2)]
        assert all(map(alive, pids))
        node.kill()
        node.wait()
    wait_until(lambda: not any(map(alive, pids)))


@linux
def test_a_command_with_too_many_processes_is_killed() -> None:
    text = "i=0; while [ $i -lt 400 ]; do sleep 300 & i=$((i+1)); done; wait"
    outcome, _, _ = run(shell(text, limits={"processes": 40}))
    error = failed(outcome)
    assert "processes" in error.kinds or error.kinds[0].startswith("exit_")  # root is watched, others hit the limit


@linux
@pytest.mark.chaos
@pytest.mark.parametrize("changes", [{}, pytest.param({"user": "nobody", "cwd": "/"}, marks=root)])
def test_a_fork_bomb_is_bounded(changes: dict[str, Any]) -> None:
    """A slow bomb: it doubles every few hundredths of a second, also in its own sessions."""
    begun = time.monotonic()
    bomb = "b() { sleep 0.02; b & setsid -f sh -c 'sleep 0.02; sleep 300' & b & wait; }; b"
    outcome, _, _ = run(shell(bomb, limits={"processes": 60}, **changes))
    if (
        not changes and os.geteuid() == 0
    ):  # other users reach the kernel's limit, and the shell reports that in its own way
        assert "it had more than 60 processes at once" in failed(outcome).error
    assert time.monotonic() - begun < 60
    listing = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True).stdout
    assert "sleep 0.02; b" not in listing


def test_limits_are_enforced() -> None:
    _, _, text = run(shell("ulimit -n; ulimit -v; ulimit -t; ulimit -c", limits={"files": 64, "memory": "512MiB"}))
    assert text.split() == ["64", "524288", "unlimited", "0"]


@pytest.mark.slow
def test_cpu_time_is_limited() -> None:
    outcome, _, _ = run(shell("while :; do :; done", limits={"cpu_s": 1}))
    assert "more than 1 s of CPU" in failed(outcome).error


@root
def test_a_command_may_run_as_another_user() -> None:
    outcome, _, text = run({"argv": ["sh", "-c", "id -un; echo $HOME"], "user": "nobody", "cwd": "/"})
    assert outcome == Succeeded()
    assert text.split()[0] == "nobody"


@root
def test_nothing_is_imported_once_the_user_has_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a machine where that user may not read Python's own files."""
    program = tmp_path / "supervisor.py"
    program.write_text(
        f"""
import runpy, socket, sys
module = runpy.run_path({supervisor.__file__!r})
sys.modules.pop("warnings", None)
sys.meta_path.clear()
module["serve_start_requests"](socket.socket(fileno=0))
"""
    )
    monkeypatch.setattr(supervisor, "__file__", str(program))
    outcome, _, text = run({"argv": ["id", "-un"], "user": "nobody", "cwd": "/"})
    assert (outcome, text.split()) == (Succeeded(), ["nobody"])


def test_a_failed_start_reports_its_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "supervisor.py"
    program.write_text(
        f"""
import runpy, socket
module = runpy.run_path({supervisor.__file__!r})
module["_prepare_and_exec"].__globals__["_lower_rlimit"] = lambda *_, **__: 1 / 0
module["serve_start_requests"](socket.socket(fileno=0))
"""
    )
    monkeypatch.setattr(supervisor, "__file__", str(program))
    outcome, _, _ = run({"argv": ["true"], "limits": {"files": 100}})
    assert failed(outcome).error == "the command could not be started (limits): ZeroDivisionError: division by zero"


def test_a_program_is_searched_in_the_order_of_path(tmp_path: Path) -> None:
    for name, mode in (("a", 0o644), ("b", 0o755), ("c", 0o755)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "tool").write_text(f"#!/bin/sh\necho {name}\n")
        (tmp_path / name / "tool").chmod(mode)
    all_of_them = ":".join(["/nowhere", *(str(tmp_path / name) for name in "abc")])
    assert run({"argv": ["tool"], "env": {"PATH": all_of_them}})[2] == "b\n"
    outcome, _, _ = run({"argv": ["tool"], "env": {"PATH": f"/nowhere:{tmp_path / 'a'}:/nowhere"}})
    assert failed(outcome).error == '"tool" is not executable; make it executable, or run it with its interpreter'


@linux
def test_a_command_gains_no_privileges() -> None:
    assert run({"argv": ["grep", "NoNewPrivs", "/proc/self/status"]})[2].split() == ["NoNewPrivs:", "1"]


@linux
@root
def test_a_command_of_another_user_gains_no_privileges() -> None:
    options = {"argv": ["grep", "NoNewPrivs", "/proc/self/status"], "user": "nobody"}
    assert run(options)[2].split() == ["NoNewPrivs:", "1"]


def test_a_command_that_writes_too_large_a_file_is_killed(tmp_path: Path) -> None:
    writes = shell('exec head -c 5000 /dev/zero > "$F"', env={"F": str(tmp_path / "zeros")})
    outcome, _, _ = run(writes | {"limits": {"file_size": "1KiB"}})
    assert "SIGXFSZ: it wrote a file of more than 1024 bytes (limits.file_size)" in failed(outcome).error
    assert (tmp_path / "zeros").stat().st_size == 1024


def test_hundreds_of_commands_at_once() -> None:
    async def go() -> list[Outcome]:
        runner = CommandRunner()
        calls = [make_call({"argv": ["true"]}, number=n + 1) for n in range(100)]
        try:
            return await asyncio.gather(*map(runner.run, calls))
        finally:
            await runner.close()

    assert asyncio.run(go()) == [Succeeded()] * 100


def test_a_killed_supervisor_is_replaced() -> None:
    async def go() -> list[Outcome]:
        runner = CommandRunner()
        first = await runner.run(make_call({"argv": ["true"]}))
        process = runner._launcher._process
        assert process is not None
        process.kill()
        process.wait()
        second = await runner.run(make_call({"argv": ["true"]}))
        await runner.close()
        await runner.close()
        return [first, second]

    assert asyncio.run(go()) == [Succeeded()] * 2


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({}, "command.argv must be a list"),
        ({"argv": "rm -rf x"}, "command.argv must be a list"),
        ({"argv": []}, "command.argv must be a list"),
        ({"argv": [""]}, "command.argv[0] is empty"),
        ({"argv": ["a\0b"]}, "NUL"),
        ({"argv": ["true"], "evn": {}}, 'no option "evn"; did you mean "env"?'),
        ({"argv": ["true"], "limits": {"cpu": 1}}, 'no option "cpu"; did you mean "cpu_s"?'),
        ({"argv": ["true"], "limits": {"memory": "lots"}}, "expected a number of bytes or a size such as 256MiB"),
        ({"argv": ["true"], "limits": {"files": 0}}, "is 0, allowed 1"),
        ({"argv": ["true"], "limits": {"file_size": 0}}, "file_size is 0; use at least 1"),
        ({"command": "ls | wc"}, 'add "shell": true'),
        ({"command": "ls", "shell": "yes"}, "must be true or false"),
        ({"argv": ["ls"], "shell": True}, "argv and shell"),
        ({"argv": ["true"], "env": {"A=B": "x"}}, "not a valid variable name"),
        ({"argv": ["true"], "env": {"CHRONOS_TOKEN": "9"}}, "Chronos sets it"),
        ({"argv": ["curl", "{{ secret.KEY }}"]}, "would be visible to everyone"),
        ({"argv": ["true", "{{ jobs.name }}"]}, '"jobs.name" is unknown; did you mean "job"?'),
        ({"argv": ["true"], "cwd": "here"}, "use an absolute path"),
        ({"argv": ["true"], "user": "no-such-user"}, "command.user"),
        ({"argv": ["true"], "success_codes": [256]}, "is 256, allowed 0 to 255"),
        ({"argv": ["true"], "stdin": 5}, "command.stdin must be text"),
    ],
)
def test_invalid_options_are_rejected(options: dict[str, Any], error: str) -> None:
    with pytest.raises(Invalid) as raised:
        CommandRunner(secrets={"KEY": "s3cr3t-value"}.get).check(options)
    assert error in str(raised.value)
