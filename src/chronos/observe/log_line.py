"""Log lines with fields, on top of ``logging``.

``log.info("started", node="a")`` becomes a log record whose message is a ``LogLine``. Handlers of the standard library
print it as ``started node=a``; ``Logs`` reads its fields.
"""

import json
import logging
import traceback
from typing import Any

_STACK_LEVEL = 3  # so that a record names the calling line, not this module
_UNQUOTED_CHARS = frozenset("-_.:/+@,;…")


class LogLine(dict[str, Any]):
    """The fields of one line: ``event`` is the message, ``exception`` a traceback."""

    __slots__ = ()

    def __str__(self) -> str:
        fields = " ".join(
            f"{name}={_format_value(value)}" for name, value in self.items() if name not in ("event", "exception")
        )
        text = f"{self.get('event', '')} {fields}".rstrip()
        trace = self.get("exception")
        return text if trace is None else f"{text}\n{trace.rstrip()}"


class LineLogger:
    """A logger that takes fields, on top of one of the standard library."""

    __slots__ = ("_logger",)

    def __init__(self, name: str) -> None:
        self._logger = logging.getLogger(name)

    def is_enabled_for(self, level: int) -> bool:
        """Return whether lines of this level are logged."""
        return self._logger.isEnabledFor(level)

    def debug(self, event: str, **fields: Any) -> None:
        self._write(logging.DEBUG, event, fields)

    def info(self, event: str, **fields: Any) -> None:
        self._write(logging.INFO, event, fields)

    def warning(self, event: str, **fields: Any) -> None:
        self._write(logging.WARNING, event, fields)

    def error(self, event: str, **fields: Any) -> None:
        self._write(logging.ERROR, event, fields)

    def exception(self, event: str, **fields: Any) -> None:
        """Log an error with the traceback of the current exception."""
        self._write(logging.ERROR, event, {"exc_info": True, **fields})

    def log(self, level: int, event: str, **fields: Any) -> None:
        self._write(level, event, fields)

    def _write(self, level: int, event: str, fields: dict[str, Any]) -> None:
        if not self._logger.isEnabledFor(level):
            return
        trace = _format_traceback(fields.pop("exc_info", None))
        line = LogLine(event=event, **fields)
        if trace is not None:
            line["exception"] = trace
        extra = {
            "_logger": self._logger,
            "_name": logging.getLevelName(level).lower(),
        }  # marks our own lines for ``Logs``
        self._logger.log(level, line, extra=extra, stacklevel=_STACK_LEVEL)


def line_logger(name: str) -> LineLogger:
    """Return a logger for lines with fields."""
    return LineLogger(name)


def _format_traceback(error: object) -> str | None:
    if isinstance(error, BaseException):
        return "".join(traceback.format_exception(error)).rstrip()
    return traceback.format_exc().rstrip() if error else None


def _format_value(value: object) -> str:
    """Format a value, in quotes if it is not a single word."""
    text = str(value)
    if text and all(char.isalnum() or char in _UNQUOTED_CHARS for char in text):
        return text
    return json.dumps(text, ensure_ascii=False)
