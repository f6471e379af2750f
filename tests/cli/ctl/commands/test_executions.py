"""``chronosctl executions`` and ``dlq`` against a real server."""

import json
import os
import pty
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from chronos.cli.ctl.client import ApiClient
from chronos.cli.ctl.commands.executions import STATUSES
from chronos.cli.ctl.contexts import ServerContext
from chronos.cli.ctl.errors import Unreachable
from chronos.cli.ctl.watch import wait_for_end
from chronos.service.execution_filter import STATUS_WORDS
from tests.support.cli_server import Served, interrupt, serving

PROGRAM = Path(sys.executable).with_name("chronosctl")
WITHIN_S = 60.0


def test_executions_are_listed_and_shown(served: Served) -> None:
    served.create()
    served.create("bad", "false")
    good, bad = served.run("hello"), served.run("bad")
    assert served.json("executions", "list") == served.rest("/executions?limit=20")
    assert served.json("runs", "list", "--job", "hello") == served.rest("/jobs/hello/executions?limit=20")
    assert served.ctl("runs", "list", "--status", "troubled", "-o", "name").stdout == f"{bad}\n"
    assert served.ctl("executions", "list", "--all", "-o", "name").stdout == f"{bad}\n{good}\n"
    table = served.ctl("executions", "list", "-o", "wide").stdout.splitlines()
    assert "✕ failed" in table[1]
    assert "node-a" in table[1]
    assert served.json("executions", "get", good) == served.rest(f"/executions/{good}")
    shown = served.ctl("executions", "get", bad).stdout
    assert "status     ✕ failed" in shown
    assert "TASK  ATTEMPT  STATUS" in shown
    assert served.ctl("executions", "list", "--job", "ghost", code=3).stdout == ""


@pytest.mark.parametrize(
    "command", ["executions get", "executions logs", "executions cancel", "dlq show", "dlq replay"]
)
def test_a_job_name_instead_of_an_id_is_explained(served: Served, command: str) -> None:
    served.create()
    missing = served.ctl(*command.split(), "hello", code=3).stderr
    assert missing == (
        '✗ "hello" is a job, not an execution\n  list its executions: chronosctl executions list hello\n'
    )
    assert "\n  list the " in served.ctl(*command.split(), "ghost", code=3).stderr


def test_a_removed_task_is_marked(served: Served, tmp_path: Path) -> None:
    file = tmp_path / "job.json"
    tasks = [{"name": name, "command": {"argv": ["true"]}} for name in ("first", "second")]
    for some in (tasks, tasks[:1]):
        file.write_text(json.dumps({"name": "two", "schedule": "manual", "tasks": some}))
        served.ctl("jobs", "apply", "-f", str(file))
        if some is tasks:
            run = served.run("two")
    shown = served.ctl("executions", "get", run).stdout
    assert "second (retired)" in shown
    assert "first (retired)" not in shown


def test_spans_are_one_line(served: Served) -> None:
    served.ctl("jobs", "create", "tick", "--every", "100ms", "--", "true")
    served.ctl("jobs", "pause", "tick")
    time.sleep(0.4)
    served.ctl("jobs", "resume", "tick")
    deadline = time.monotonic() + WITHIN_S
    while "⊘ skipped ×" not in (shown := served.ctl("executions", "list", "--job", "tick", "--limit", "100").stdout):
        assert time.monotonic() < deadline, shown
        time.sleep(0.05)


def test_logs(served: Served) -> None:
    served.create("say", "printf", "one\\ttwo\\nthree")
    run = served.run("say")
    assert served.ctl("executions", "logs", run).stdout == "one\ttwo\nthree"
    assert served.ctl("executions", "logs", run, "--task", "main", "--attempt", "1").stdout == "one\ttwo\nthree"
    served.ctl("executions", "logs", "ghost", code=3)


def test_logs_are_followed(served: Served) -> None:
    served.create("say", "sh", "-c", "echo one; sleep 0.3; echo two")
    run = served.ctl("jobs", "run", "say").stdout.strip()
    assert served.ctl("executions", "logs", run, "--follow").stdout.split() == ["one", "two"]


def test_cancel(served: Served) -> None:
    served.create("slow", "sleep", "60")
    run = served.ctl("jobs", "run", "slow").stdout.strip()
    queued = served.ctl("jobs", "run", "slow").stdout.strip()
    assert "canceled" in served.ctl("executions", "cancel", queued, "--reason", "not needed").stderr
    assert set(served.json("executions", "cancel", run)) == {"execution_id", "status"}
    served.ctl("executions", "watch", run, code=6)
    assert "would be canceled" in served.ctl("executions", "cancel", run, "--dry-run").stderr
    served.ctl("executions", "cancel", run)
    served.create("quick", "true")
    done = served.ctl("jobs", "run", "quick", "--wait", "-o", "name").stdout.strip()
    for again in ((), ("--dry-run",)):
        assert (
            "the execution has already ended: succeeded"
            in served.ctl("executions", "cancel", done, *again, code=4).stderr
        )


def test_every_status_word_is_an_option() -> None:
    assert set(STATUSES) == set(STATUS_WORDS)


def test_replay(served: Served) -> None:
    served.create()
    first = served.run()
    again = served.ctl("executions", "replay", first, "--reason", "once more", "--wait", "-o", "name").stdout.strip()
    assert served.rest(f"/executions/{again}")["replay_of"] == first
    assert served.json("executions", "replay", first)["replay_of"] == first
    assert served.json("executions", "replay", first, "--task", "main")["replay_of"] == first
    assert "did you mean 'main'?" in served.ctl("executions", "replay", first, "--task", "mian", code=1).stderr


def test_why(served: Served) -> None:
    served.create("bad", "false")
    run = served.run("bad")
    steps = served.rest(f"/executions/{run}/why")
    assert served.json("executions", "why", run) == steps
    text = served.ctl("executions", "why", run).stdout
    assert all(step["sentence"] in text for step in steps["steps"])
    assert "triggered" in served.ctl("executions", "why", "bad").stdout
    at = served.ctl("executions", "why", "bad", "--at", "2026-01-01T00:00:00Z", "-o", "jsonl").stdout
    assert json.loads(at.splitlines()[0])["verdict"]


def test_signals(served: Served) -> None:
    job = {"name": "release", "schedule": "manual", "tasks": [{"name": "approval", "wait": {"signal": "ok"}}]}
    served.ctl("jobs", "apply", "-f", "-", input=json.dumps(job))
    run = served.ctl("jobs", "run", "release").stdout.strip()
    deadline = time.monotonic() + WITHIN_S
    while served.rest(f"/executions/{run}")["status"] != "waiting":
        assert time.monotonic() < deadline
        time.sleep(0.02)
    assert "would be sent" in served.ctl("executions", "signal", run, "ok", "--dry-run").stderr
    served.ctl("executions", "signal", run, "other", code=4)
    assert "ok was received" in served.ctl("executions", "signal", run, "ok", "--payload", '{"by": "ana"}').stderr
    served.ctl("executions", "watch", run)


def test_waiting_shows_the_output(served: Served) -> None:
    served.create("talks", "sh", "-c", "echo one; echo two >&2")
    assert served.ctl("jobs", "run", "talks", "--wait").stdout.endswith("\noutput\none\ntwo\n")
    served.create("breaks", "sh", "-c", "echo why; exit 1")
    failed = served.ctl("jobs", "run", "breaks", "--wait", code=6)
    assert failed.stdout.endswith("\noutput\nwhy\n")
    served.create("silent", "true")
    assert "output" not in served.ctl("jobs", "run", "silent", "--wait").stdout
    assert json.loads(served.ctl("jobs", "run", "talks", "--wait", "-o", "json").stdout)["status"] == "succeeded"


def test_dead_letters(served: Served) -> None:
    served.create("bad", "false")
    first, second = served.run("bad"), served.run("bad")
    assert served.json("dlq", "list") == served.rest("/dead-letters?limit=100")
    assert served.ctl("dlq", "list", "--all", "-o", "name").stdout == f"{second}\n{first}\n"
    assert served.json("dlq", "show", first) == served.rest(f"/executions/{first}")
    assert served.ctl("dlq", "discard", first).stdout == f"{first}\n"
    served.ctl("dlq", "discard", first, code=3)
    assert "it was replayed or discarded, or did not fail" in served.ctl("dlq", "replay", first, code=3).stderr
    assert served.ctl("audit").stdout.splitlines()[1].split()[-4:] == ["discard", "dead", "letters", first]
    served.ctl("dlq", "replay", second, "--wait", code=6)
    assert second not in served.ctl("dlq", "list", "-o", "name").stdout


@pytest.mark.parametrize("command", [["jobs", "list", "--watch"], ["executions", "watch", "hello"]])
def test_watching_in_a_pipe_prints_changes(served: Served, command: list[str]) -> None:
    served.create()
    served.run()
    with subprocess.Popen(
        [PROGRAM, "--server", served.url, *command, "--interval", "20ms"], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        first = json.loads(process.stdout.readline())
        served.run()
        served.ctl("jobs", "pause", "hello")
        second = json.loads(process.stdout.readline())
        interrupt(process)
        process.stdout.read()
    assert first != second
    assert process.returncode == 130


@pytest.mark.parametrize(
    ("form", "lines"),
    [("name", ["hello"]), ("table", ["NAME   STATE ", "hello  active", "hello  paused"]), ("yaml", ["---", "id: "])],
)
def test_watching_in_a_pipe_uses_the_given_format(served: Served, form: str, lines: list[str]) -> None:
    served.create()
    command = [str(PROGRAM), "--server", served.url, "jobs", "list", "--watch", "--interval", "20ms", "-o", form]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for number, line in enumerate(lines):
            if number == 2:
                served.ctl("jobs", "pause", "hello")
            assert process.stdout.readline().startswith(line)
        interrupt(process)
        process.stdout.read()


def test_watching_on_a_terminal_redraws(served: Served) -> None:
    served.create()
    leader, follower = pty.openpty()
    arguments = [str(PROGRAM), "--server", served.url, "jobs", "list", "--watch", "--interval", "20ms"]
    process = subprocess.Popen(arguments, stdout=follower, env={**os.environ, "TERM": "xterm"})
    os.close(follower)
    seen = b""
    while seen.count(b"\x1b[2J") < 3:
        seen += os.read(leader, 4096)
    interrupt(process)
    process.wait(WITHIN_S)
    os.close(leader)
    assert b"hello" in seen
    assert process.returncode == 130


def test_waiting_survives_a_restart_of_the_server(monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[float] = []
    monkeypatch.setattr("chronos.cli.ctl.watch.time.sleep", pauses.append)
    with serving() as served:
        served.create("slow", "sleep", "60")
        run = served.ctl("jobs", "run", "slow").stdout.strip()

        class Leaving(ApiClient):
            """A client whose server goes away after the first reply."""

            def get(self, *path: str, **query: object) -> Any:
                if len(pauses) >= 1:
                    self._port = 9
                return super().get(*path, **query)

        with pytest.raises(Unreachable):
            wait_for_end(Leaving(ServerContext(url=served.url)), run)
    assert pauses == [0.05, 0.2, 0.5, 1.0, 2.0, 5.0]
