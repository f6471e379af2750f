"""Log setup of a server: one output for all loggers, for machines (``json``) or for people (``console``).

Our own lines and those of other loggers go through the same steps. The calling thread formats a line, and a separate
thread writes it, so a blocked reader never blocks the scheduler. Lines that do not fit into the queue are dropped and
counted.
"""

import logging
import os
import queue
import sys
import threading
from contextlib import suppress
from typing import IO, Protocol

import structlog
from structlog.stdlib import ProcessorFormatter
from structlog.types import EventDict, Processor, WrappedLogger

from chronos.observe.log_line import line_logger

__all__ = ["Logs", "line_logger"]

MAX_QUEUED_LINES = 10_000
_FILE_DESCRIPTORS = {"stdout": 1, "stderr": 2}
LAST_LINES_TIMEOUT_S = 2.0  # to write the last lines
#: Loggers of libraries that are too verbose.
_QUIET_LOGGER_LEVELS = {"aiohttp.access": logging.WARNING, "asyncio": logging.WARNING}


class Logs:
    """The logging of a server. ``close`` writes the queued lines and restores the previous configuration."""

    def __init__(
        self,
        *,
        level: str = "info",
        form: str = "console",
        output: str = "stderr",
        stream: IO[str] | None = None,
        **bound: str,
    ) -> None:
        """Configure logging. ``output`` is ``stderr`` or ``stdout``; ``stream`` replaces it."""
        lines: queue.Queue[str | None] = queue.Queue(MAX_QUEUED_LINES)
        self._handler = _DroppingHandler(lines)
        self._handler.setFormatter(_new_formatter(form, bound, colors=_has_colors(output, stream)))
        self._writer = _LineWriterThread(
            lines, _UnbufferedStream(_FILE_DESCRIPTORS[output]) if stream is None else stream
        )
        self._writer.start()
        root = logging.getLogger()
        self._before = (
            root.level,
            list(root.handlers),
            {name: logging.getLogger(name).level for name in _QUIET_LOGGER_LEVELS},
        )
        root.handlers = [self._handler]
        root.setLevel(level.upper())
        for name, least in _QUIET_LOGGER_LEVELS.items():
            logging.getLogger(name).setLevel(max(least, root.level))
        logging.captureWarnings(True)

    @property
    def dropped(self) -> int:
        """The number of lines that were dropped because the queue was full."""
        return self._handler.dropped

    def close(self) -> None:
        self._writer.stop()
        logging.captureWarnings(False)
        level, handlers, quiet = self._before
        root = logging.getLogger()
        root.handlers = handlers
        root.setLevel(level)
        for name, least in quiet.items():
            logging.getLogger(name).setLevel(least)


class _Stream(Protocol):
    def write(self, text: str, /) -> int: ...

    def flush(self) -> None: ...


class _UnbufferedStream:
    """A standard stream without Python's buffers, whose locks could keep a stuck process from ending."""

    def __init__(self, number: int) -> None:
        self._number = number

    def write(self, text: str, /) -> int:
        left = text.encode(errors="backslashreplace")
        while left:
            left = left[os.write(self._number, left) :]
        return len(text)

    def flush(self) -> None:
        """No-op: nothing is buffered."""


class _LineWriterThread(threading.Thread):
    """Writes queued lines. It is not a handler, because ``logging`` waits for its handlers when a process ends."""

    def __init__(self, lines: "queue.Queue[str | None]", stream: _Stream) -> None:
        super().__init__(name="chronos-log", daemon=True)
        self._lines, self._stream = lines, stream

    def run(self) -> None:
        while (line := self._lines.get()) is not None:
            with suppress(OSError, ValueError):  # the reader is gone: drop the line
                self._stream.write(f"{line}\n")
                self._stream.flush()

    def stop(self) -> None:
        """Write the last lines, without waiting for a blocked reader."""
        with suppress(queue.Full):
            self._lines.put(None, timeout=LAST_LINES_TIMEOUT_S)
            self.join(LAST_LINES_TIMEOUT_S)


class _DroppingHandler(logging.Handler):
    """Formats a line and queues it, or drops it if the queue is full."""

    def __init__(self, lines: "queue.Queue[str | None]") -> None:
        super().__init__()
        self._lines = lines
        self.dropped = 0

    def emit(self, record: logging.LogRecord) -> None:
        try:
            self._lines.put_nowait(self.format(record))
        except queue.Full:
            self.dropped += 1
        except Exception:  # noqa: BLE001 - logging must never break the caller
            self.handleError(record)


def is_terminal(output: str) -> bool:
    """Return whether an output is a terminal."""
    stream = sys.stdout if output == "stdout" else sys.stderr
    return stream is not None and stream.isatty()


def _has_colors(output: str, stream: IO[str] | None) -> bool:
    terminal = is_terminal(output) if stream is None else stream.isatty()
    return terminal and not os.environ.get("NO_COLOR")


def _new_formatter(form: str, bound: dict[str, str], *, colors: bool) -> ProcessorFormatter:
    def bind(_: WrappedLogger, __: str, line: EventDict) -> EventDict:
        for name, value in bound.items():
            line.setdefault(name, value)
        return line

    steps: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        bind,
    ]
    last: list[Processor] = (
        [structlog.processors.format_exc_info, structlog.processors.JSONRenderer(ensure_ascii=False)]
        if form == "json"
        else [_new_console_renderer(colors)]
    )
    return ProcessorFormatter(
        foreign_pre_chain=[structlog.stdlib.ExtraAdder(), *steps],
        processors=[_new_own_line_processor(steps), ProcessorFormatter.remove_processors_meta, *last],
    )


def _new_console_renderer(colors: bool) -> Processor:
    """Return a renderer for people. Tracebacks do not show variables, which may hold secrets."""
    return structlog.dev.ConsoleRenderer(
        colors=colors, pad_event_to=32, exception_formatter=structlog.dev.plain_traceback
    )


def _new_own_line_processor(steps: list[Processor]) -> Processor:
    """Return a processor that applies to our own lines the steps that foreign lines have already passed."""

    def apply_steps(logger: WrappedLogger, method: str, line: EventDict) -> EventDict:
        if not line["_from_structlog"]:
            return line
        for step in steps:
            line = step(logger, line["_record"].levelname.lower(), line)  # type: ignore[assignment]
        return line

    return apply_steps
