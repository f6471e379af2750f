"""A log line with fields: an object for machines, a sentence for people, whichever handler the program has.

``log.info("started", node="a")`` becomes a record of ``logging`` whose message is a ``LogLine``. Handlers of the
standard library print it as ``started node=a``; ``Logs`` takes the fields apart.
"""

import json
import logging
import traceback
from typing import Any

_STACK_LEVEL = 3  # so that a record names the line that logged, and not this module
_UNQUOTED_CHARS = frozenset("-_.:/+@,;…")


class LogLine(dict[str, Any]):
    """The fields of one line: ``event`` is what happened, ``exception`` a traceback."""

    __slots__ = ()

    def __str__(self) -> str:
        said = " ".join(
            f"{name}={_format_value(value)}" for name, value in self.items() if name not in ("event", "exception")
        )
        text = f"{self.get('event', '')} {said}".rstrip()
        trace = self.get("exception")
        return text if trace is None else f"{text}\n{trace.rstrip()}"


class LineLogger:
    """A logger of the standard library that takes fields. It reads no global settings."""

    __slots__ = ("_logger",)

    def __init__(self, name: str) -> None:
        self._logger = logging.getLogger(name)

    def is_enabled_for(self, level: int) -> bool:
        """Whether a line of this level goes anywhere."""
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
        """An error with the traceback of the exception that is being handled."""
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
        extra = {"_logger": self._logger, "_name": logging.getLevelName(level).lower()}  # by which ``Logs`` knows it
        self._logger.log(level, line, extra=extra, stacklevel=_STACK_LEVEL)


def line_logger(name: str) -> LineLogger:
    """The logger of a name, for lines with fields."""
    return LineLogger(name)


def _format_traceback(error: object) -> str | None:
    if isinstance(error, BaseException):
        return "".join(traceback.format_exception(error)).rstrip()
    return traceback.format_exc().rstrip() if error else None


def _format_value(value: object) -> str:
    """A value as it stands in a sentence: in quotes where it would not be one word."""
    text = str(value)
    if text and all(char.isalnum() or char in _UNQUOTED_CHARS for char in text):
        return text
    return json.dumps(text, ensure_ascii=False)
