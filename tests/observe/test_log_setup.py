"""Log setup and the event log: one output for all loggers, fields, levels and quotas."""

import asyncio
import io
import json
import logging
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from uuid import UUID

import pytest
import structlog

from chronos.core.events import (
    AttemptEnded,
    ClockJumped,
    Event,
    ExecutionAdmitted,
    ExecutionEnded,
    ExecutionStarted,
    ExecutionWaits,
    GapFound,
    JobChanged,
    JobUnschedulable,
    NodeLost,
    ProblemReported,
)
from chronos.core.execution import AttemptStatus, Cause, Status
from chronos.core.reasons import ReasonCode
from chronos.observe import event_log, log_setup
from chronos.observe.event_log import EventLog
from chronos.observe.log_quota import LINES_PER_MINUTE, LINES_PER_SUBJECT
from chronos.observe.log_setup import Logs, line_logger

JOB, RUN = UUID(int=7).bytes, UUID(int=8).bytes
ABOUT: dict[str, Any] = {"at_us": 1, "execution": RUN, "job": JOB}


@contextmanager
def logged(form: str = "json", level: str = "debug") -> Iterator[io.StringIO]:
    """Yield the log output of the block."""
    stream = io.StringIO()
    logs = Logs(level=level, form=form, stream=stream, node="a")
    try:
        yield stream
    finally:
        logs.close()


def lines(stream: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def log_events(*events: Event, level: str = "debug") -> list[dict[str, Any]]:
    with logged(level=level) as stream:
        watcher = EventLog({JOB: ("default", "nightly")}.get)
        for event in events:
            watcher.log_event(event)
    return lines(stream)


def test_all_loggers_share_one_output() -> None:
    with logged() as stream:
        line_logger("chronos.server").info("ours", answer=42)
        logging.getLogger("other.library").warning("theirs: %s", "x", extra={"more": "y"})
        with structlog.contextvars.bound_contextvars(request_id="r1"):
            logging.getLogger("other.library").info("within")
            line_logger("chronos.server").info("also within")
    log_lines = lines(stream)
    for line in log_lines:
        assert line.pop("timestamp").endswith("Z")
        assert line.pop("node") == "a"
    theirs = {"logger": "other.library"}
    assert log_lines == [
        {"event": "ours", "answer": 42, "level": "info", "logger": "chronos.server"},
        {"event": "theirs: x", "more": "y", "level": "warning", **theirs},
        {"event": "within", "request_id": "r1", "level": "info", **theirs},
        {"event": "also within", "request_id": "r1", "level": "info", "logger": "chronos.server"},
    ]


def test_errors_are_logged_with_their_traceback() -> None:
    with logged() as stream:
        try:
            raise ValueError("no")
        except ValueError:
            logging.getLogger("x").exception("it broke")
            line_logger("y").exception("it broke")
    log_lines = lines(stream)
    assert len(log_lines) == 2
    assert all(line["exception"].endswith("ValueError: no") for line in log_lines)


def test_warnings_are_logged() -> None:
    with logged() as stream, warnings.catch_warnings():
        warnings.simplefilter("always")
        logging.captureWarnings(True)
        warnings.warn("old", DeprecationWarning, stacklevel=1)
    assert "DeprecationWarning: old" in lines(stream)[0]["event"]


def test_console_lines_are_plain_text() -> None:
    with logged("console") as stream:
        line_logger("chronos.server").info("ours", answer=42)
    assert "ours" in stream.getvalue()
    assert "answer=42" in stream.getvalue()
    assert "\x1b" not in stream.getvalue()


def test_close_restores_the_configuration() -> None:
    root = logging.getLogger()
    before = root.level, list(root.handlers)
    with logged():
        assert (root.level, len(root.handlers)) == (logging.DEBUG, 1)
    assert (root.level, root.handlers) == before


def test_a_blocked_reader_does_not_block_logging(monkeypatch: pytest.MonkeyPatch) -> None:
    unblocked = threading.Event()

    class BlockedStream(io.StringIO):
        def write(self, text: str) -> int:
            unblocked.wait(10)
            return super().write(text)

    monkeypatch.setattr(log_setup, "MAX_QUEUED_LINES", 5)
    logs = Logs(level="info", form="json", stream=BlockedStream())
    for _ in range(100):
        logging.getLogger("x").info("y")
    dropped = logs.dropped
    unblocked.set()
    logs.close()
    assert dropped >= 50


@pytest.mark.parametrize(
    ("event", "level", "text"),
    [
        (ExecutionAdmitted(**ABOUT, cause=Cause.SCHEDULE, status=Status.READY), "debug", "execution admitted"),
        (
            ExecutionAdmitted(**ABOUT, cause=Cause.SCHEDULE, status=Status.SKIPPED, code=ReasonCode.OVERLAP),
            "info",
            "execution skipped",
        ),
        (ExecutionStarted(**ABOUT, attempt=1, late_us=5), "debug", "execution started"),
        (ExecutionWaits(**ABOUT, wake_us=1), "debug", "execution waiting"),
        (ExecutionWaits(**ABOUT, wake_us=None), "debug", "execution waiting"),
        (GapFound(at_us=1, job=JOB, strategy="last", runs=1, left_out=2), "warning", "missed instants"),
        (JobUnschedulable(at_us=1, job=JOB, error="x"), "error", "job broken"),
        (JobChanged(at_us=1, job=JOB, action="saved"), "info", "job saved"),
        (NodeLost(at_us=1, node=4, reaped=2), "warning", "node lost"),
        (ClockJumped(at_us=1, by_us=5_000_000), "warning", "clock changed"),
        (ProblemReported(at_us=1, where="store", error="away"), "warning", "problem"),
    ],
)
def test_each_event_has_its_level_and_text(event: Event, level: str, text: str) -> None:
    [line] = log_events(event)
    assert (line["level"], line["event"], line["node"]) == (level, text, "a")
    assert line.get("job", "nightly") == "nightly"


@pytest.mark.parametrize("status", [status for status in Status if status.final])
def test_ended_executions_have_a_level_by_status(status: Status) -> None:
    [line] = log_events(
        ExecutionEnded(**ABOUT, status=status, code=ReasonCode.CANCELED, duration_us=1_500_000, message="So.")
    )
    quiet = {Status.SUCCEEDED: "debug", Status.SKIPPED: "info", Status.CANCELED: "info"}
    loud = {Status.FAILED: "error", Status.STALE: "error"}
    assert line["level"] == (quiet | loud).get(status, "warning")
    assert (line["job"], line["execution"], line["duration_s"]) == ("nightly", str(UUID(int=8)), 1.5)
    assert line.get("message") == (None if status is Status.SUCCEEDED else "So.")


@pytest.mark.parametrize("status", list(AttemptStatus))
def test_attempts_are_logged_with_task_and_error(status: AttemptStatus) -> None:
    [line] = log_events(AttemptEnded(**ABOUT, task="main", number=2, status=status, duration_us=5, error="x"))
    assert (line["task"], line["attempt"], line["error"]) == ("main", 2, "x")


def test_success_is_not_logged_at_info() -> None:
    ended = ExecutionEnded(**ABOUT, status=Status.SUCCEEDED, code=ReasonCode.SUCCEEDED, duration_us=1)
    assert not log_events(ended, level="info")


def test_a_repeated_problem_is_logged_once_per_interval() -> None:
    away = [ProblemReported(at_us=at_us, where="store", error="away") for at_us in range(1, 20_000_000, 1_000_000)]
    log_lines = log_events(*away, ProblemReported(at_us=2, where="store", error="full"))
    assert [(line["error"], line.get("repeated")) for line in log_lines] == [
        ("away", None),
        ("away", 9),
        ("full", None),
    ]


def failed(at_us: int, job: bytes = JOB) -> Event:
    return AttemptEnded(
        at_us=at_us,
        execution=RUN,
        job=job,
        task="main",
        number=1,
        status=AttemptStatus.FAILED,
        duration_us=5,
        error="ValueError: no",
        traceback="Traceback (most recent call last):\nValueError: no\n",
    )


def test_a_job_logs_one_traceback_per_minute() -> None:
    log_lines = log_events(*(failed(1 + n * 10_000_000) for n in range(8)), failed(2, RUN))
    assert [("exception" in line) for line in log_lines] == [True, *[False] * 5, True, False, True]


def test_lines_beyond_the_quota_are_counted() -> None:
    jobs = [n.to_bytes(16) for n in range(100, 5_100)]
    many = [failed(n, job) for n, job in enumerate(jobs, 1)] + [failed(9_000, JOB) for _ in range(7)]
    often = [failed(70_000_000 + n) for n in range(1_000)]
    log_lines = log_events(*many, *often, failed(140_000_000))
    logged_events = [line["event"] for line in log_lines]
    assert logged_events.count("attempt failed") == LINES_PER_MINUTE + LINES_PER_SUBJECT + 1
    left_out = [(line.get("job"), line["count"]) for line in log_lines if line["event"] == "log lines left out"]
    assert left_out == [(None, 5_000 - LINES_PER_MINUTE + 7), ("nightly", 1_000 - LINES_PER_SUBJECT)]


def test_left_out_lines_are_reported_without_another_event(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_log, "MINUTE_US", 1_000)

    async def storm() -> None:
        watcher = EventLog({JOB: ("default", "nightly")}.get)
        for at_us in range(LINES_PER_SUBJECT + 5):
            watcher.log_event(failed(1 + at_us))
        await reported.wait()

    class ReportHandler(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if "left out" in record.getMessage():
                reported.set()

    reported, handler = asyncio.Event(), ReportHandler()
    with logged() as stream:
        logging.getLogger("chronos").addHandler(handler)
        try:
            asyncio.run(asyncio.wait_for(storm(), 60))
        finally:
            logging.getLogger("chronos").removeHandler(handler)
    assert lines(stream)[-1]["count"] == 5


def test_standard_handlers_print_the_fields(caplog: pytest.LogCaptureFixture) -> None:
    log = line_logger("chronos.server")
    log.warning("it is full", where="a place", count=3, node="a-1")
    try:
        raise ValueError("no")
    except ValueError:
        log.exception("it broke")
    first, second = caplog.messages
    assert first == 'it is full where="a place" count=3 node=a-1'
    assert second.startswith("it broke\nTraceback")
    assert second.endswith("ValueError: no")
    assert {record.filename for record in caplog.records} == {"test_log_setup.py"}


def test_an_unknown_job_is_logged_by_its_id() -> None:
    [line] = log_events(JobUnschedulable(at_us=1, job=RUN, error="x"))
    assert line["job"] == str(UUID(int=8))


def test_context_of_concurrent_tasks_does_not_mix() -> None:
    async def one(name: str) -> None:
        structlog.contextvars.bind_contextvars(request_id=name)
        await asyncio.sleep(0)
        line_logger("x").info(name)

    async def both() -> None:
        await asyncio.gather(one("a"), one("b"))

    with logged() as stream:
        asyncio.run(both())
    assert all(line["request_id"] == line["event"] for line in lines(stream) if line["logger"] == "x")
