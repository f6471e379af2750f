"""Every example in the help of a command and on the reference page works."""

import re
import shlex
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from chronos.cli.main import NOUNS, chronosctl
from tests.support.cli_server import SECRET, Served, interrupt, serving

PROGRAM = Path(sys.executable).with_name("chronosctl")
PAGE = Path(__file__).parents[3] / "docs" / "reference" / "cli.md"
JOBS = """\
name: nightly-etl
schedule: 0 2 * * *
timezone: Europe/Paris
command: {argv: [echo, done]}
"""
APPROVAL = '{"name": "release", "schedule": "manual", "tasks": [{"name": "a", "wait": {"signal": "approved"}}]}'
EXAMPLE = re.compile(r"^ +((?:EDITOR=\S+ )?chronosctl (?!schedule|completion).*)$", re.MULTILINE)
FOREVER = re.compile(r"--watch|executions watch (?!ID)")
ONCE = "echo hi; test -e failed || { touch failed; exit 1; }"  # fails only the first time


def helps(command: click.Command) -> Iterator[str]:
    yield command.help or ""
    if isinstance(command, click.Group):
        for below in command.commands.values():
            yield from helps(below)


COMMANDS = [chronosctl.commands[name] for name in NOUNS]
EXAMPLES = sorted(
    {example for noun in (*COMMANDS, chronosctl) for text in helps(noun) for example in EXAMPLE.findall(text)}
)


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "jobs.yaml").write_text(JOBS)
    return tmp_path


@pytest.fixture
def known(place: Path) -> Iterator[Served]:
    """A server with a user, whose credentials are in the URL."""
    users = {"ana": {"password_hash": SECRET, "role": "admin"}}
    with serving(users=users) as served:
        served.url = served.url.replace("//", "//ana:secret@")
        yield served


def test_every_command_has_examples() -> None:
    silent = [noun.name for noun in COMMANDS for text in helps(noun) if not EXAMPLE.search(text)]
    assert not silent
    assert len(EXAMPLES) > 40


@pytest.mark.parametrize("example", [example for example in EXAMPLES if not FOREVER.search(example)])
def test_examples_of_help_run(example: str, known: Served, place: Path) -> None:
    env, arguments = parsed(example.replace(" ID", f" {prepare(known, example, place)}"))
    if arguments[0] == "login":
        arguments[1] = known.url.replace("ana:secret@", "") if "--user" in arguments else known.url
    assert known.ctl(*arguments, env=env, input="secret\n").output


@pytest.mark.parametrize("example", [example for example in EXAMPLES if FOREVER.search(example)])
def test_endless_examples_run(example: str, known: Served, place: Path) -> None:
    prepare(known, example, place)
    _, arguments = parsed(example)
    with subprocess.Popen([PROGRAM, "--server", known.url, *arguments], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline()
        interrupt(process)
    assert process.returncode == 130


def prepare(served: Served, example: str, place: Path) -> str:
    """Create what an example needs, and return the ID in it."""
    if "create hello" not in example:
        served.create("hello", "sh", "-c", f"cd '{place}'; {ONCE}", schedule="@every 1h")
        served.ctl("jobs", "edit", "hello", env={"EDITOR": "sed -i s/1h/2h/"})
    if "nightly-etl" in example:
        served.ctl("jobs", "apply", "-f", "jobs.yaml")
    if "tokens delete" in example:
        served.ctl("tokens", "create", "ci")
    if re.search("context (use|delete)|logout", example):
        served.ctl("context", "set", "local", "--url", served.url)
    failed = "" if "create hello" in example else served.run("hello")
    if "executions watch ID" in example:
        return served.run("hello")
    if "signal" in example:
        served.ctl("jobs", "apply", "-f", "-", input=APPROVAL)
        return waiting(served)
    if "cancel" in example:
        served.create("slow", "sleep", "60")
        return served.ctl("jobs", "run", "slow").stdout.strip()
    return failed


def waiting(served: Served) -> str:
    run = served.ctl("jobs", "run", "release").stdout.strip()
    until_s = time.monotonic() + 60
    while "waiting" not in served.ctl("executions", "get", run).stdout:
        assert time.monotonic() < until_s, "the execution does not wait"
        time.sleep(0.01)
    return run


def parsed(example: str) -> tuple[dict[str, str], list[str]]:
    words = shlex.split(example)
    env = dict(word.split("=", 1) for word in words[: words.index("chronosctl")])
    return env, words[words.index("chronosctl") + 1 :]


# --- the page

BLOCK = re.compile(r"^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)
COMMAND = re.compile(r"^\$ (chronosctl (?!schedule|completion).*)\n((?:(?!\$ ).*\n)*)", re.MULTILINE)


def test_the_page_shows_the_real_output(served: Served, place: Path) -> None:
    """Run the commands in order on one server. ``…`` stands for varying output."""
    examples = COMMAND.findall("".join(BLOCK.findall(PAGE.read_text())))
    assert len(examples) > 10
    for command, output in examples:
        result = CliRunner().invoke(chronosctl, parsed(command)[1], env={"CHRONOS_SERVER": served.url})
        expected = re.sub(r"(\\ ){2,}", r" {2,}", re.escape(output)).replace("…", ".*")  # a slow run widens a column
        assert re.fullmatch(expected, result.output, re.DOTALL), f"{command}\n{result.output}"
