"""Copies what functions print into the output of their attempts.

::

    print ─► sys.stdout ─► stand-in ─► the original stream
                               └─────► the sink of the current attempt, if there is one

``sys.stdout`` and ``sys.stderr`` belong to the process, not to attempts, so a context variable tells which attempt
prints. It is set in the attempt's own context (its task, or a copy for its thread), so nothing has to be reset.

The stand-ins are installed while an engine runs. Other code replaces the streams too (``redirect_stdout``, pytest,
notebooks), at any time and in any order. So each attempt checks the streams when it starts, and wraps a stream that has
no stand-in. A stream that is installed later, for example by the function itself, is not captured for this attempt:
text that a function catches itself is not output.
"""

import io
import os
import sys
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from types import TracebackType
from typing import Any

from chronos.runners.contract import Sink

#: The sink of the current attempt, and the number of the newest stand-in when it started.
_ATTEMPT: ContextVar[tuple[Sink, int] | None] = ContextVar("chronos_attempt", default=None)
_SYS: dict[str, Any] = vars(sys)  # subscripting compares and replaces without another thread in between
_STREAM_NAMES = ("stdout", "stderr")


class _DiscardedOutput(io.TextIOBase):
    """The stream of a program without a terminal."""

    def write(self, text: str) -> int:
        return len(text)


class StdoutStandIn:
    """Replaces a stream: passes everything on to it, and copies writes to the attempt."""

    def __init__(self, original: Any, sequence: int) -> None:
        self.original = original  # the replaced stream, or None
        self.stream: Any = _DiscardedOutput() if original is None else original
        self._sequence = sequence

    def write(self, text: str) -> int:
        """Write to the stream and to the current attempt."""
        sink = self._sink()
        if sink is None:
            written: int = self.stream.write(text)
            return written
        token = _ATTEMPT.set(None)  # another stand-in behind this one must not copy it again
        try:
            written = self.stream.write(text)
        except (OSError, ValueError):  # a closed stream or an unsupported character must not fail the work
            written = len(text)
        finally:
            _ATTEMPT.reset(token)
        sink.write(text)
        return written

    def _sink(self) -> Sink | None:
        attempt = _ATTEMPT.get()
        return attempt[0] if attempt is not None and self._sequence <= attempt[1] and _stand_ins.users else None

    def writelines(self, lines: Iterable[str]) -> None:
        for line in lines:
            self.write(line)

    def flush(self) -> None:
        try:
            self.stream.flush()
        except (OSError, ValueError):
            if self._sink() is None:
                raise

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name == "stream":
            raise AttributeError(name)
        return getattr(self.stream, name)

    def __enter__(self) -> "StdoutStandIn":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stream.close()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self.original!r}>"


class _InstalledStandIns:
    """The stand-ins that are installed in this process."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.users = 0
        self.sequence = 0  # the number of the newest stand-in
        self.current: dict[str, StdoutStandIn | None] = dict.fromkeys(_STREAM_NAMES)

    def install(self, name: str) -> None:
        """Put a stand-in before the current stream."""
        if name not in _SYS:
            return
        installed, stand_in = _SYS[name], self.current[name]
        if isinstance(installed, StdoutStandIn):
            self.current[name] = installed
        else:
            if stand_in is None or stand_in.original is not installed:
                self.sequence += 1
                stand_in = StdoutStandIn(installed, self.sequence)
            if _SYS[name] is installed:
                _SYS[name] = self.current[name] = stand_in

    def remove(self, name: str) -> None:
        """Restore the stream. Streams that other code installed stay.

        A stand-in that other code puts back later copies nothing.
        """
        installed, self.current[name] = _SYS.get(name), None
        if isinstance(installed, StdoutStandIn):
            stream = installed.original
            if _SYS[name] is installed:
                _SYS[name] = stream


_stand_ins = _InstalledStandIns()


def start_capture() -> None:
    """Capture the prints of this process, until ``stop_capture`` has been called as often."""
    with _stand_ins.lock:
        _stand_ins.users += 1
        for name in _STREAM_NAMES:
            _stand_ins.install(name)


def stop_capture() -> None:
    """Stop capturing and restore ``sys``."""
    with _stand_ins.lock:
        _stand_ins.users -= 1
        if not _stand_ins.users:
            for name in _STREAM_NAMES:
                _stand_ins.remove(name)


@contextmanager
def capture_prints() -> Iterator[None]:
    """Capture within this block."""
    start_capture()
    try:
        yield
    finally:
        stop_capture()


def route_prints_to(sink: Sink) -> None:
    """Send all later prints of this context to a sink. Call it in a context that ends with the attempt."""
    current = _stand_ins.current
    if _SYS.get("stdout") is not current["stdout"] or _SYS.get("stderr") is not current["stderr"]:
        _retake_streams()
    _ATTEMPT.set((sink, _stand_ins.sequence))


def _retake_streams() -> None:
    with _stand_ins.lock:
        if _stand_ins.users:
            for name in _STREAM_NAMES:
                _stand_ins.install(name)


def _reset_in_fork() -> None:
    """Restore the streams in a fork: it has no engine, and must not touch the shared locks and sockets."""
    _ATTEMPT.set(None)
    _stand_ins.lock = threading.Lock()
    _stand_ins.users = 0
    for name in _STREAM_NAMES:
        _stand_ins.remove(name)


os.register_at_fork(after_in_child=_reset_in_fork)
