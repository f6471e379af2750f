"""Log lines: one way out for everything that is logged, for machines (``json``) or for people (``console``).

Lines of the standard library's loggers and our own go through the same steps. They are formatted where they are
logged and written by a thread of their own, so that a reader who stalls does not stop the scheduler: what does not fit
the queue any more is dropped, and counted.
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

MAX_WAITING = 10_000
_FILE_DESCRIPTORS = {"stdout": 1, "stderr": 2}
LAST_LINES_TIMEOUT_S = 2.0  # how long the last lines may take to be written
#: Loggers that say too much of what is of no use here.
_QUIET_LOGGER_LEVELS = {"aiohttp.access": logging.WARNING, "asyncio": logging.WARNING}


class Logs:
    """Logging, set up. ``close`` writes what still waits and puts everything back as it was."""

    def __init__(
        self,
        *,
        level: str = "info",
        form: str = "console",
        output: str = "stderr",
        stream: IO[str] | None = None,
        **bound: str,
    ) -> None:
        """``output`` is ``stderr`` or ``stdout``; ``stream`` takes the lines in its place."""
        waiting: queue.Queue[str | None] = queue.Queue(MAX_WAITING)
        self._handler = _DroppingHandler(waiting)
        self._handler.setFormatter(_new_formatter(form, bound, colors=_has_colors(output, stream)))
        self._writer = _LineWriterThread(
            waiting, _UnbufferedStream(_FILE_DESCRIPTORS[output]) if stream is None else stream
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
        """How many lines were lost because nobody took them."""
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
    """A standard stream without Python's buffers, whose locks would keep a stuck process from ending."""

    def __init__(self, number: int) -> None:
        self._number = number

    def write(self, text: str, /) -> int:
        left = text.encode(errors="backslashreplace")
        while left:
            left = left[os.write(self._number, left) :]
        return len(text)

    def flush(self) -> None:
        """Nothing is held back."""


class _LineWriterThread(threading.Thread):
    """Writes what is in the queue. Not a handler of ``logging``, which waits for its handlers when a process ends."""

    def __init__(self, waiting: "queue.Queue[str | None]", stream: _Stream) -> None:
        super().__init__(name="chronos-log", daemon=True)
        self._waiting, self._stream = waiting, stream

    def run(self) -> None:
        while (line := self._waiting.get()) is not None:
            with suppress(OSError, ValueError):  # nobody is there to read, and nowhere to say so
                self._stream.write(f"{line}\n")
                self._stream.flush()

    def stop(self) -> None:
        """Write the last lines; a reader who stalls is not waited for."""
        with suppress(queue.Full):
            self._waiting.put(None, timeout=LAST_LINES_TIMEOUT_S)
            self.join(LAST_LINES_TIMEOUT_S)


class _DroppingHandler(logging.Handler):
    """Formats, and puts the line in the queue if it fits."""

    def __init__(self, waiting: "queue.Queue[str | None]") -> None:
        super().__init__()
        self._waiting = waiting
        self.dropped = 0

    def emit(self, record: logging.LogRecord) -> None:
        try:
            self._waiting.put_nowait(self.format(record))
        except queue.Full:
            self.dropped += 1
        except Exception:  # noqa: BLE001 - as every handler: a line that cannot be written must not stop the work
            self.handleError(record)


def is_terminal(output: str) -> bool:
    """Whether a person reads what is logged there."""
    stream = sys.stdout if output == "stdout" else sys.stderr
    return stream is not None and stream.isatty()


def _has_colors(output: str, stream: IO[str] | None) -> bool:
    watched = is_terminal(output) if stream is None else stream.isatty()
    return watched and not os.environ.get("NO_COLOR")


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
    """For people. Tracebacks without the values of variables, among which are other people's secrets."""
    return structlog.dev.ConsoleRenderer(
        colors=colors, pad_event_to=32, exception_formatter=structlog.dev.plain_traceback
    )


def _new_own_line_processor(steps: list[Processor]) -> Processor:
    """Lines of our own come without the steps that foreign lines have behind them."""

    def through(logger: WrappedLogger, method: str, line: EventDict) -> EventDict:
        if not line["_from_structlog"]:
            return line
        for step in steps:
            line = step(logger, line["_record"].levelname.lower(), line)  # type: ignore[assignment]
        return line

    return through
