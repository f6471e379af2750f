"""The programs as processes: exit codes, streams, encodings, colours, completion."""

import os
import pty
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from chronos.cli.ctl.commands import schedule as module
from chronos.cli.main import chronos, chronosctl

BIN = Path(sys.executable).parent
CLEAN = {"PATH": os.defpath, "LC_ALL": "C.UTF-8"}
BAD = ["schedule", "next", "0 25 * * *"]
MANY = ["schedule", "next", "* * * * * *", "--count", "10000"]


def run(program: str, *arguments: str, **env: str) -> subprocess.CompletedProcess[bytes]:
    """Run the installed script in a clean environment."""
    return subprocess.run([BIN / program, *arguments], capture_output=True, check=False, env=CLEAN | env)


def commands(command: click.Command, *path: str) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    path = (*path, command.name or "")
    yield path, command
    if isinstance(command, click.Group):
        for below in command.commands.values():
            yield from commands(below, *path)


EVERY = [(path, command) for program in (chronos, chronosctl) for path, command in commands(program)]


def test_the_installed_script_runs() -> None:
    arguments = ["schedule", "next", "0 9 * * *", "--after", "2027-01-01T00:00:00Z", "--count", "1", "-o", "json"]
    result = run("chronosctl", *arguments)
    assert (result.returncode, result.stdout, result.stderr) == (0, b'[\n  "2027-01-01T09:00:00Z"\n]\n', b"")


def test_data_goes_to_stdout_and_messages_to_stderr() -> None:
    result = run("chronosctl", *BAD)
    assert (result.returncode, result.stdout) == (1, b"")
    assert result.stderr.decode() == '✗ cron field "hour" is 25, allowed 0–23\n    0 25 * * *\n      ^^\n'


@pytest.mark.parametrize("program", ["chronos", "chronosctl"])
def test_version(program: str) -> None:
    result = run(program, "--version")
    assert (result.returncode, result.stdout.decode()) == (0, f"{program} {version('chronos-scheduler')}\n")


@pytest.mark.parametrize(("path", "command"), EVERY, ids=[" ".join(path) for path, _ in EVERY])
def test_help(path: tuple[str, ...], command: click.Command) -> None:
    program = chronos if path[0] == "chronos" else chronosctl
    for flag in ("--help", "-h"):
        result = CliRunner().invoke(program, [*path[1:], flag])
        assert result.exit_code == 0
        assert result.stdout.startswith(f"Usage: {' '.join(path)} ")
    assert command.help


EXAMPLES = sorted(
    {
        example
        for _, command in EVERY
        for example in re.findall(r"^ +(chronosctl schedule .*)$", command.help or "", re.MULTILINE)
    }
)


@pytest.mark.parametrize("example", EXAMPLES)
def test_examples_in_help_run(example: str) -> None:
    result = CliRunner().invoke(chronosctl, shlex.split(example)[1:])
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout


def test_help_does_not_load_the_engine() -> None:
    source = (
        "import sys\n"
        "from chronos.cli.main import chronosctl\n"
        "sys.argv[1:] = ['schedule', 'explain', '--help']\n"
        "try: chronosctl()\n"
        "except SystemExit: print(*(name for name in sys.modules if name.startswith('chronos.core')), file=sys.stderr)"
    )
    result = subprocess.run([sys.executable, "-c", source], capture_output=True, check=True, env=CLEAN)
    assert result.stderr == b"\n"


@pytest.mark.parametrize("arguments", [[], ["schedule"]])
def test_without_a_command_the_help_is_shown(arguments: list[str]) -> None:
    result = CliRunner().invoke(chronosctl, arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith("Usage: chronosctl")


def test_usage_errors_point_to_the_help() -> None:
    result = CliRunner().invoke(chronosctl, ["schedule", "last"])
    assert result.exit_code == 2
    assert result.stderr == "✗ No such command 'last'.\n  chronosctl schedule --help\n"


def test_an_unknown_command_gets_a_suggestion_only_if_it_is_similar() -> None:
    result = CliRunner().invoke(chronosctl, ["secrets"])
    assert result.exit_code == 2
    assert result.stderr == '✗ unknown command "secrets"\n  chronosctl --help\n'
    assert "Did you mean 'jobs'?" in CliRunner().invoke(chronosctl, ["job"]).stderr


def test_the_program_that_runs_the_server_names_its_commands() -> None:
    shown = CliRunner().invoke(chronos, ["--help"]).stdout
    assert not {name for name in ("server", "config", "doctor", "backup", "restore") if f"\n  {name} " not in shown}


def test_a_closed_pipe_is_not_an_error() -> None:
    with subprocess.Popen(
        [BIN / "chronosctl", *MANY], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=CLEAN
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait() == 0


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
def test_a_full_disk_is_an_error() -> None:
    with Path("/dev/full").open("wb") as full:
        result = subprocess.run(
            [BIN / "chronosctl", *MANY], stdout=full, stderr=subprocess.PIPE, check=False, env=CLEAN
        )
    assert result.returncode == 1
    assert result.stderr.decode().startswith("✗ ")
    assert len(result.stderr.splitlines()) == 1


def test_closed_streams_are_not_an_error() -> None:
    script = f'exec "{BIN / "chronosctl"}" schedule next "$1" >&- 2>&-'
    for expression, code in (("0 9 * * *", 0), ("0 25 * * *", 1)):
        result = subprocess.run(["/bin/sh", "-c", script, "sh", expression], check=False, env=CLEAN)
        assert result.returncode == code


@pytest.fixture
def keep_sigint() -> Iterator[None]:
    """Restore the handler of SIGINT, which a program ignores once it was interrupted. Child processes inherit that."""
    handler = signal.getsignal(signal.SIGINT)
    yield
    signal.signal(signal.SIGINT, handler)


@pytest.mark.usefixtures("keep_sigint")
def test_an_interrupt_ends_with_130(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted() -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr(module, "_now_us", interrupted)
    result = CliRunner().invoke(chronosctl, ["schedule", "next", "0 9 * * *"])
    assert (result.exit_code, result.stdout) == (130, "")
    assert "Traceback" not in result.stderr


def test_an_unexpected_error_is_not_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken() -> int:
        raise ZeroDivisionError

    monkeypatch.setattr(module, "_now_us", broken)
    result = CliRunner().invoke(chronosctl, ["schedule", "next", "0 9 * * *"])
    assert isinstance(result.exception, ZeroDivisionError)


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "cp437"])
def test_output_works_in_any_encoding(encoding: str) -> None:
    result = run("chronosctl", *BAD, PYTHONIOENCODING=encoding, PYTHONUTF8="0")
    assert result.returncode == 1
    assert result.stderr.decode(encoding).startswith('error: cron field "hour" is 25, allowed 0-23\n')
    assert run("chronosctl", "schedule", "next", "0 🙂 * * *", PYTHONIOENCODING=encoding).returncode == 1
    explained = run("chronosctl", "schedule", "explain", "0 9 * * *", PYTHONIOENCODING=encoding)
    assert (explained.returncode, explained.stderr) == (0, b"")


def test_arguments_that_are_not_utf8_are_rejected() -> None:
    result = subprocess.run(
        [os.fsencode(BIN / "chronosctl"), b"schedule", b"next", b"\xff\xfe"],
        capture_output=True,
        check=False,
        env=CLEAN,
    )
    assert result.returncode == 2
    assert b"not valid UTF-8" in result.stderr


def on_a_terminal(**env: str) -> bytes:
    """What a terminal receives on stderr."""
    leader, follower = pty.openpty()
    try:
        subprocess.run([BIN / "chronosctl", *BAD], stderr=follower, check=False, env=CLEAN | env)
        return os.read(leader, 4096)
    finally:
        os.close(leader)
        os.close(follower)


def test_colours_are_used_only_on_a_terminal_without_no_color() -> None:
    assert on_a_terminal(TERM="xterm").startswith("\x1b[31m✗ \x1b[0mcron".encode())
    assert on_a_terminal(TERM="xterm", NO_COLOR="1").startswith("✗ cron".encode())
    assert on_a_terminal(TERM="dumb").startswith("✗ cron".encode())
    assert b"\x1b" not in run("chronosctl", *BAD, TERM="xterm").stderr


@pytest.mark.parametrize("shell", ["bash", "fish", "zsh"])
def test_completion_scripts(shell: str) -> None:
    script = run("chronosctl", "completion", shell).stdout.decode()
    assert f"_CHRONOSCTL_COMPLETE={shell}_complete" in script


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("chronosctl sche", ["schedule"]),
        ("chronosctl schedule next --dst l", ["literal"]),
        ("chronosctl schedule next --timezone europe/par", ["Europe/Paris"]),
    ],
)
def test_completion(words: str, expected: list[str]) -> None:
    position = str(len(words.split()) - 1)
    result = run("chronosctl", _CHRONOSCTL_COMPLETE="bash_complete", COMP_WORDS=words, COMP_CWORD=position)
    assert [line.partition(",")[2] for line in result.stdout.decode().splitlines()] == expected
