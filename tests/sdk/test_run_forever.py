"""The log of a program: failures of its jobs, and the lines of ``app.run()``."""

import logging
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from chronos import Chronos
from chronos.observe.stderr_log import log_to_stderr
from tests.sdk.conftest import Make

SOON_S = 60  # on a machine that is busy with others


def boom() -> None:
    raise ZeroDivisionError("boom")


async def boom_at_once() -> None:
    raise ZeroDivisionError("boom")


async def boom_later(ctx: Any) -> None:
    raise ZeroDivisionError("boom")


def lines(caplog: pytest.LogCaptureFixture, event: str) -> list[logging.LogRecord]:
    return [record for record in caplog.records if record.getMessage().startswith(event)]


@pytest.mark.parametrize(
    ("function", "options"),
    [
        (boom, {}),
        (boom, {"isolation": "process"}),
        (boom, {"isolation": "inline"}),
        (boom_at_once, {}),
        (boom_later, {}),
    ],
    ids=["thread", "process", "inline", "async", "async-with-context"],
)
def test_a_function_that_fails_is_logged_with_its_traceback(
    make: Make, caplog: pytest.LogCaptureFixture, function: Any, options: dict[str, Any]
) -> None:
    app = make("sqlite://", defaults={"retries": 0})
    app.job(name="work", **options)(function)
    with app:
        assert app.trigger("work").wait(SOON_S).status == "failed"
    [line] = lines(caplog, "attempt failed")
    assert (line.name, line.levelno) == ("chronos.engine", logging.WARNING)
    text = line.getMessage()
    assert "job=work" in text
    assert 'error="ZeroDivisionError: boom"' in text
    assert text.endswith('raise ZeroDivisionError("boom")\nZeroDivisionError: boom')
    assert text.count("Traceback") == 1
    assert f"in {function.__name__}" in text
    assert "chronos/engine" not in text  # frames of Chronos do not help the reader
    assert len(lines(caplog, "execution failed")) == 1


def test_commands_and_requests_that_fail_are_logged(make: Make, caplog: pytest.LogCaptureFixture) -> None:
    app = make("sqlite://", defaults={"retries": 0}, allow_private=True)
    app.command("command", ["sh", "-c", "echo oops >&2; exit 3"])
    app.webhook("webhook", "http://127.0.0.1:1/")
    with app:
        for name in ("command", "webhook"):
            assert app.trigger(name).wait(SOON_S).status == "failed"
    command, webhook = (line.getMessage() for line in lines(caplog, "attempt failed"))
    assert 'error="exited with code 3: oops"' in command
    assert "job=webhook" in webhook
    assert "127.0.0.1" in webhook


def test_a_job_logs_one_traceback_per_minute(make: Make, caplog: pytest.LogCaptureFixture) -> None:
    app = make("sqlite://", defaults={"retries": 0})
    app.job(boom)
    app.job(name="other")(boom_at_once)
    with app:
        for name in ("boom", "boom", "other", "boom"):
            app.trigger(name).wait(SOON_S)
    failed = [line.getMessage() for line in lines(caplog, "attempt failed")]
    assert [("job=boom" in text, "Traceback" in text) for text in failed] == [
        (True, True),
        (True, False),
        (False, True),
        (True, False),
    ]


def test_successes_are_logged_at_debug(make: Make, caplog: pytest.LogCaptureFixture) -> None:
    app = make("sqlite://")
    app.job(name="fine")(lambda: None)
    with app:
        app.trigger("fine").wait(SOON_S)
        assert not [record for record in caplog.records if record.name.startswith("chronos")]
        with caplog.at_level(logging.DEBUG, "chronos"):  # also when set while the app runs
            app.trigger("fine").wait(SOON_S)
    events = [record.getMessage().split(" job=")[0] for record in caplog.records if record.name == "chronos.engine"]
    assert events == ["execution started", "attempt succeeded", "execution succeeded"]


PROGRAM = """
import logging, sys
from chronos import Chronos

app = Chronos(sys.argv[1], defaults={"retries": 0})

@app.job(every="1h")
def hourly() -> None: ...

@app.job
def breaks() -> None:
    1 / 0

if "configured" in sys.argv:
    logging.basicConfig(level="INFO", format="mine: %(message)s")
if "background" in sys.argv:
    with app:
        breaks.trigger().wait(60)
        print("handlers", logging.getLogger().handlers, logging.getLogger("chronos").handlers)
    sys.exit(0)
breaks.trigger()
sys.exit(app.run())
"""


@pytest.fixture
def program(file_url: str, tmp_path: Path) -> Callable[..., "subprocess.Popen[str]"]:
    script = tmp_path / "program.py"
    script.write_text(PROGRAM)

    def start(*arguments: str) -> "subprocess.Popen[str]":
        command = [sys.executable, str(script), file_url, *arguments]
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    return start


def stop_after(process: "subprocess.Popen[str]", text: str) -> list[str]:
    """End a program after a line of stderr that contains ``text``. Returns all its lines."""
    assert process.stderr is not None
    lines: list[str] = []
    stopped = False
    for line in process.stderr:
        lines.append(line.rstrip())
        if text in line and not stopped:
            os.kill(process.pid, signal.SIGTERM)
            stopped = True
    assert process.wait(SOON_S) == 0
    return lines


def test_a_program_logs_its_jobs_and_their_failures(
    program: Callable[..., "subprocess.Popen[str]"], file_url: str
) -> None:
    with program() as process:
        logged = stop_after(process, "execution failed")
    sdk_lines = [line.partition("chronos.sdk: ")[2] for line in logged if "chronos.sdk: " in line]
    assert sdk_lines[0].startswith(f"store opened: {file_url}, in ")
    assert sdk_lines[1] == "2 jobs found: 2 recovered"  # saved by the trigger before the start
    assert re.fullmatch(r"started in \d+ ms", sdk_lines[2])
    [start] = [line for line in logged if " runs " in line]
    assert f"runs 2 jobs (breaks, hourly) on {file_url}; next: hourly at 20" in start
    assert logged.count("ZeroDivisionError: division by zero") == 1
    [failed] = [line for line in logged if "attempt failed" in line]
    assert failed.split()[1:3] == ["WARNING", "chronos.engine:"]
    assert any(line.endswith("chronos.sdk: SIGTERM: stopping; nothing runs") for line in logged)
    assert logged[-1].endswith("chronos.sdk: stopped")


def test_a_program_with_logging_configured_has_every_line_once(program: Callable[..., "subprocess.Popen[str]"]) -> None:
    with program("configured") as process:
        logged = stop_after(process, "execution failed")
    assert sum("attempt failed" in line for line in logged) == 1
    assert all(line.startswith("mine: ") for line in logged if "job=" in line or " runs " in line)
    assert logged[-1] == "mine: stopped"


@pytest.mark.parametrize("name", ["chronos", None])
def test_no_handler_is_added_where_the_program_has_one(name: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    for logger in (logging.getLogger("chronos"), logging.getLogger()):
        monkeypatch.setattr(logger, "handlers", [])
    with log_to_stderr() as added:
        assert added
        assert len(logging.getLogger("chronos").handlers) == 1
    handler = logging.NullHandler()
    monkeypatch.setattr(logging.getLogger(name), "handlers", [handler])
    with log_to_stderr() as added:
        assert not added
        assert logging.getLogger(name).handlers == [handler]


def test_an_app_in_the_background_adds_no_handler(program: Callable[..., "subprocess.Popen[str]"]) -> None:
    with program("background") as process:
        out, errors = process.communicate(timeout=SOON_S)
    assert out == "handlers [] []\n"
    assert "ZeroDivisionError: division by zero" in errors  # Python logs warnings without a handler


def test_the_store_is_named_without_its_password() -> None:
    app = Chronos("postgresql://me:hidden@db/jobs?password=hidden&sslmode=off")
    assert repr(app) == "<Chronos postgresql://me:…@db/jobs?password=…&sslmode=off>"
