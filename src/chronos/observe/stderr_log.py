"""Log lines on the standard error stream, for programs that configured no logging of their own.

A thread of its own writes them, so that a reader that stalls does not stop the program's jobs: lines that do not fit
into the queue are dropped.
"""

import logging
import queue
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

LOGGER_NAME = "chronos"
MAX_QUEUED_LINES = 10_000
LAST_LINES_TIMEOUT_S = 2.0  # how long the last lines may take to be written


@contextmanager
def log_to_stderr() -> Iterator[bool]:
    """Show what ``chronos`` logs, from ``INFO`` up, until the block ends; not where the program configured handlers."""
    logger = logging.getLogger(LOGGER_NAME)
    if logger.handlers or logging.getLogger().handlers or logger.disabled:
        yield False
        return
    handler, level = _StderrHandler(), logger.level
    logger.addHandler(handler)
    if level == logging.NOTSET:
        logger.setLevel(logging.INFO)
    try:
        yield True
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)
        handler.close()


class _StderrHandler(logging.Handler):
    """Formats a line and leaves it to the thread that writes."""

    def __init__(self) -> None:
        super().__init__()
        form = logging.Formatter("%(asctime)s %(levelname)-7s %(name)s: %(message)s", "%Y-%m-%dT%H:%M:%SZ")
        form.converter = time.gmtime
        self.setFormatter(form)
        self._waiting: queue.Queue[str | None] = queue.Queue(MAX_QUEUED_LINES)
        self._thread = threading.Thread(target=self._write, name="chronos-log", daemon=True)
        self._thread.start()

    def emit(self, record: logging.LogRecord) -> None:
        if logging.getLogger().handlers:  # the program has configured logging meanwhile: one line is enough
            return
        try:
            self._waiting.put_nowait(self.format(record))
        except queue.Full:
            pass
        except Exception:  # noqa: BLE001 - as every handler: a line that cannot be written must not stop the work
            self.handleError(record)

    def close(self) -> None:
        """Write the last lines; a reader that stalls is not waited for."""
        with suppress(queue.Full):
            self._waiting.put(None, timeout=LAST_LINES_TIMEOUT_S)
            self._thread.join(LAST_LINES_TIMEOUT_S)
        super().close()

    def _write(self) -> None:
        while (line := self._waiting.get()) is not None:
            with suppress(OSError, ValueError, AttributeError):  # closed, or there is none
                sys.stderr.write(f"{line}\n")
                sys.stderr.flush()
