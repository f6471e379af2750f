"""Every noun has verbs, and some nouns have the default verb ``list``."""

import json
import os
import pty
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.cli_server import SECRET, Served, interrupt, serving

PROGRAM = Path(sys.executable).with_name("chronosctl")
LISTED = ["nodes", "queues", "ns", "audit"]


@pytest.fixture(scope="module")
def idle_server() -> Iterator[Served]:
    """A server whose replies do not change, because no worker runs the requested execution."""
    with serving(works=False) as served:
        served.create()
        served.ctl("jobs", "run", "hello")
        yield served


@pytest.mark.parametrize("noun", LISTED)
@pytest.mark.parametrize("options", [(), ("-o", "name"), ("-o", "json"), ("-o", "wide")])
def test_list_is_the_default_verb(idle_server: Served, noun: str, options: tuple[str, ...]) -> None:
    alone = idle_server.ctl(noun, *options).output
    assert idle_server.ctl(noun, "list", *options).output == alone
    assert alone or noun == "nodes"


def test_nodes_are_listed(shared: Served) -> None:
    assert shared.ctl("nodes", "list", "-o", "name").stdout == shared.ctl("nodes", "-o", "name").stdout == "node-a\n"


def test_users_are_listed() -> None:
    with serving(users={"ana": {"password_hash": SECRET, "role": "admin"}}) as served:
        ana = {"CHRONOS_SERVER": served.url.replace("//", "//ana:secret@")}
        assert served.ctl("users", "list", "-o", "name", env=ana).stdout == "ana\n"
        assert served.ctl("users", "-o", "name", env=ana).stdout == "ana\n"


@pytest.mark.parametrize("noun", [*LISTED, "users"])
def test_the_help_of_a_noun_lists_its_verb(shared: Served, noun: str) -> None:
    shown = shared.ctl(noun, "--help").stdout
    assert shown == shared.ctl(noun, "-h").stdout
    assert "  list  " in shown
    assert "--output" in shared.ctl(noun, "-o", "json", "--help").stdout
    assert "No such command 'remove'" in shared.ctl(noun, "remove", code=2).stderr


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("chronosctl nodes ", ["list"]),
        ("chronosctl nodes --wat", ["--watch"]),
        ("chronosctl nodes --watch --inter", ["--interval"]),
        ("chronosctl nodes -o y", ["yaml"]),
        ("chronosctl nodes list --he", ["--help"]),
        ("chronosctl nodes --he", ["--help"]),
        ("chronosctl executions list he", ["hello"]),
        ("chronosctl cluster ", ["status"]),
    ],
)
def test_completion(shared: Served, words: str, expected: list[str]) -> None:
    shared.ctl("jobs", "delete", "--all", "--yes")
    shared.create("hello")
    count = len(words.split()) - (not words.endswith(" "))
    asked = {"_CHRONOSCTL_COMPLETE": "bash_complete", "COMP_WORDS": words, "COMP_CWORD": str(count)}
    env = {**os.environ, **asked, "CHRONOS_SERVER": shared.url}
    result = subprocess.run([PROGRAM], capture_output=True, check=False, text=True, env=env)
    assert [line.partition(",")[2] for line in result.stdout.splitlines()] == expected


def test_cluster_status_shows_status_and_nodes(served: Served) -> None:
    state = served.json("cluster", "status")
    assert set(state) == {"status", "nodes"}
    assert set(state["status"]) == set(served.rest("/status"))
    assert [set(node) for node in state["nodes"]] == [set(node) for node in served.rest("/nodes")["items"]]
    shown = served.ctl("cluster", "status").stdout
    assert served.url in shown
    assert shown.splitlines()[-2].startswith("NAME")
    assert shown.splitlines()[-1].startswith("node-a")
    assert served.ctl("cluster", "status", "-o", "name").stdout == "node-a\n"


def test_executions_list_takes_a_job_name(served: Served) -> None:
    served.create()
    served.create("other")
    run = served.run()
    served.run("other")
    assert served.ctl("executions", "list", "hello", "-o", "name").stdout.split() == [run]
    assert served.json("executions", "list", "hello") == served.json("executions", "list", "--job", "hello")
    assert served.ctl("runs", "list", "hello", "--job", "hello", "-o", "name").stdout.split() == [run]
    assert "give only one" in served.ctl("executions", "list", "hello", "--job", "other", code=2).stderr


def test_create_shows_how_words_are_understood(served: Served) -> None:
    weekdays = "every weekday at 9am in New York"
    created = served.ctl("jobs", "create", "digest", "--schedule", weekdays, "--", "true")
    assert created.stderr.startswith("understood as 0 9 * * 1-5, America/New_York\ncreated, next run ")
    assert created.stdout == "digest\n"
    tried = served.ctl("jobs", "create", "again", "--schedule", weekdays, "--dry-run", "--", "true")
    assert "understood as 0 9 * * 1-5" in tried.stderr
    plain = served.ctl("jobs", "create", "plain", "--schedule", "0 9 * * 1-5", "--", "true")
    assert "understood" not in plain.stderr


@pytest.mark.parametrize("command", [["status"], ["cluster", "status"], ["jobs", "get", "hello"]])
def test_watching_a_value_in_a_pipe_prints_changes(served: Served, command: list[str]) -> None:
    served.create()
    arguments = [str(PROGRAM), "--server", served.url, *command, "--watch", "--interval", "20ms"]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        first = json.loads(process.stdout.readline())
        served.ctl("jobs", "pause", "hello")
        second = json.loads(process.stdout.readline())
        interrupt(process)
        process.stdout.read()
    assert first != second
    assert set(first) <= set(second)
    assert process.returncode == 130


@pytest.mark.parametrize(("form", "line"), [("name", "hello"), ("yaml", "---"), ("table", "name       hello")])
def test_watching_a_value_in_a_pipe_uses_the_given_format(served: Served, form: str, line: str) -> None:
    served.create()
    arguments = [str(PROGRAM), "--server", served.url, "jobs", "get", "hello", "-w", "--interval", "20ms", "-o", form]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == f"{line}\n"
        interrupt(process)
        process.stdout.read()
    assert process.returncode == 130


@pytest.mark.parametrize("command", [["status"], ["cluster", "status"], ["jobs", "get", "hello"]])
def test_watching_a_value_on_a_terminal_redraws(served: Served, command: list[str]) -> None:
    served.create()
    leader, follower = pty.openpty()
    arguments = [str(PROGRAM), "--server", served.url, *command, "--watch", "--interval", "20ms"]
    process = subprocess.Popen(arguments, stdout=follower, env={**os.environ, "TERM": "xterm"})
    os.close(follower)
    seen = b""
    while seen.count(b"\x1b[2J") < 3:
        seen += os.read(leader, 4096)
    interrupt(process)
    process.wait(60)
    os.close(leader)
    assert b"{" not in seen
    assert process.returncode == 130


def test_a_version_or_a_missing_job_cannot_be_watched(served: Served) -> None:
    served.create()
    assert "a version never changes" in served.ctl("jobs", "get", "hello", "--version", "1", "--watch", code=2).stderr
    served.ctl("jobs", "get", "missing", "--watch", code=3)
