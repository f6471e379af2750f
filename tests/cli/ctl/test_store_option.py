"""``chronosctl --store``: a store without a server, read while its program runs, written while none does."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import apsw
import pytest
from click.testing import CliRunner, Result

from chronos import Chronos
from chronos.cli.main import chronosctl

PROGRAM = """
import sys
from chronos import Chronos

app = Chronos(sys.argv[1])

@app.job(every="100ms", overlap="skip")
def poll():
    print("polled")

with app:
    poll.trigger().wait(60)
    print("ready", flush=True)
    sys.stdin.read()
"""
PATIENCE_S = 60


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'app.db'}"


@pytest.fixture
def program(url: str, tmp_path: Path) -> Iterator["subprocess.Popen[str]"]:
    """A running program that uses the store."""
    script = tmp_path / "program.py"
    script.write_text(PROGRAM)
    command = [sys.executable, str(script), url]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert "ready\n" in iter(process.stdout.readline, "")  # after what the job prints
        yield process
        if process.poll() is None:
            process.communicate("", timeout=PATIENCE_S)


def fill(url: str) -> None:
    """Make a store with a job, and stop its program."""
    app = Chronos(url)
    app.command("hello", ["echo", "hi"], cron="0 9 * * *")
    with app:
        app.trigger("hello").wait(PATIENCE_S)


def ctl(url: str, *arguments: str) -> Result:
    return CliRunner().invoke(chronosctl, ["--store", url, *arguments], prog_name="chronosctl")


def test_a_running_program_is_looked_into(url: str, program: "subprocess.Popen[str]") -> None:
    jobs = json.loads(ctl(url, "jobs", "list", "-o", "json").stdout)["items"]
    assert [job["name"] for job in jobs] == ["poll"]
    runs = json.loads(ctl(url, "executions", "list", "poll", "-o", "json").stdout)["items"]
    assert ctl(url, "executions", "logs", runs[-1]["id"]).stdout == "polled\n"
    status = ctl(url, "status").stdout
    assert f"server      {url}, Chronos " in status
    assert "1 in all: 1 active" in status
    assert "alive" in ctl(url, "nodes").stdout


def test_a_running_program_is_not_written_to(url: str, program: "subprocess.Popen[str]") -> None:
    for arguments in (["jobs", "pause", "poll"], ["jobs", "run", "poll"], ["jobs", "delete", "poll", "--yes"]):
        refused = ctl(url, *arguments)
        assert refused.exit_code == 4
        assert (
            f"(process {program.pid}), so it can only be read here; make the change in that program" in refused.stderr
        )
    assert json.loads(ctl(url, "jobs", "get", "poll", "-o", "json").stdout)["state"] == "active"


def test_reading_loses_nothing_when_the_program_is_killed(url: str, program: "subprocess.Popen[str]") -> None:
    """The reader closes the file while the program writes its log, and once more after the program has died."""
    seen: set[str] = set()
    for _ in range(20):
        page = json.loads(ctl(url, "executions", "list", "--all", "-o", "json").stdout)
        seen |= {item["id"] for item in page["items"] if item.get("status") == "succeeded"}
    os.kill(program.pid, signal.SIGKILL)
    program.wait(PATIENCE_S)
    page = json.loads(ctl(url, "executions", "list", "--all", "-o", "json").stdout)
    assert seen <= {item.get("id") for item in page["items"]}
    connection = apsw.Connection(url.removeprefix("sqlite:///"))
    assert connection.execute("pragma integrity_check").fetchall() == [("ok",)]
    connection.close()


def test_a_store_without_a_live_program_is_written(url: str) -> None:
    fill(url)
    assert ctl(url, "jobs", "pause", "hello", "--reason", "holidays").exit_code == 0
    job = json.loads(ctl(url, "jobs", "get", "hello", "-o", "json").stdout)
    assert job["state"] == "paused"
    assert ctl(url, "jobs", "create", "other", "--every", "1h", "--", "true").exit_code == 0
    assert ctl(url, "jobs", "list", "-o", "name").stdout.split() == ["hello", "other"]
    again = Chronos(url)
    again.command("hello", ["echo", "hi"], cron="0 9 * * *")
    with again:
        again.trigger("other").wait(PATIENCE_S)


def test_a_postgresql_store_is_read_and_written(postgres_url: str) -> None:
    url = postgres_url
    app = Chronos(url)
    app.command("hello", ["echo", "hi"], cron="0 9 * * *")
    with app:
        assert ctl(url, "jobs", "pause", "hello").exit_code == 0
        assert json.loads(ctl(url, "jobs", "get", "hello", "-o", "json").stdout)["state"] == "paused"


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["--store", "sqlite:///missing.db", "jobs", "list"], 1, "missing.db does not exist; check the path"),
        (["--store", "sqlite://", "jobs", "list"], 1, "a store in memory belongs to its process"),
        (["--store", "notes.db", "jobs", "list"], 1, 'unknown store "notes.db"'),
        (["--store", "sqlite:///notes.db", "jobs", "list"], 1, "notes.db is not a Chronos store"),
        (["--store", "sqlite:///x.db", "jobs", "list", "--server", "http://x"], 2, "cannot be combined with --server"),
    ],
)
def test_wrong_stores_are_refused(
    arguments: list[str], code: int, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    notes = apsw.Connection("notes.db")
    notes.execute("create table notes (text)")
    notes.close()
    result = CliRunner().invoke(chronosctl, arguments, prog_name="chronosctl")
    assert result.exit_code == code
    assert message in result.stderr
    assert sorted(os.listdir()) == ["notes.db"]
