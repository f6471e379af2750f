"""Logging to the standard error stream, for programs that configured no logging themselves.

A separate thread writes the lines, so a blocked reader never blocks the program's jobs. Lines that do not fit into the
queue are dropped.
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
LAST_LINES_TIMEOUT_S = 2.0  # to write the last lines


@contextmanager
def log_to_stderr() -> Iterator[bool]:
    """Log ``chronos`` lines from ``INFO`` up during the block. Yields False if the program configured handlers."""
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
    """Formats a line and queues it for the writing thread."""

    def __init__(self) -> None:
        super().__init__()
        formatter = logging.Formatter("%(asctime)s %(levelname)-7s %(name)s: %(message)s", "%Y-%m-%dT%H:%M:%SZ")
        formatter.converter = time.gmtime
        self.setFormatter(formatter)
        self._lines: queue.Queue[str | None] = queue.Queue(MAX_QUEUED_LINES)
        self._thread = threading.Thread(target=self._write, name="chronos-log", daemon=True)
        self._thread.start()

    def emit(self, record: logging.LogRecord) -> None:
        if logging.getLogger().handlers:  # the program has configured logging since: do not log twice
            return
        try:
            self._lines.put_nowait(self.format(record))
        except queue.Full:
            pass
        except Exception:  # noqa: BLE001 - logging must never break the caller
            self.handleError(record)

    def close(self) -> None:
        """Write the last lines, without waiting for a blocked reader."""
        with suppress(queue.Full):
            self._lines.put(None, timeout=LAST_LINES_TIMEOUT_S)
            self._thread.join(LAST_LINES_TIMEOUT_S)
        super().close()

    def _write(self) -> None:
        while (line := self._lines.get()) is not None:
            with suppress(OSError, ValueError, AttributeError):  # stderr is closed or missing
                sys.stderr.write(f"{line}\n")
                sys.stderr.flush()
