"""What functions print goes into their attempt's output, too.

::

    print ─► sys.stdout ─► stand-in ─► the stream that was there before
                               └─────► the sink of the attempt that runs here, if one does

``sys.stdout`` and ``sys.stderr`` belong to the process, attempts do not: a context variable says whose a text is. It is
set in a context of the attempt's own (its task, a copy for its thread), so nothing has to be put back.

The stand-ins are there while an engine runs. Others use the same place (``redirect_stdout``, pytest, notebooks), at any
time and in any order. So each attempt looks, as it begins, who stands there, and puts a stand-in before a stream that
has none. What is put there later, as by the function itself, is not listened to on its behalf: text that it catches is
no output.
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

#: Where the attempt that runs here prints to, and how old the youngest stand-in was when it began.
_ATTEMPT: ContextVar[tuple[Sink, int] | None] = ContextVar("chronos_attempt", default=None)
_SYS: dict[str, Any] = vars(sys)  # by subscript, comparing and replacing is one step: no other thread comes in between
_STREAM_NAMES = ("stdout", "stderr")


class _DiscardedOutput(io.TextIOBase):
    """Where a program without a terminal prints to."""

    def write(self, text: str) -> int:
        return len(text)


class StdoutStandIn:
    """In the place of a stream: all it is asked goes to that stream, and what is written to the attempt as well."""

    def __init__(self, original: Any, sequence: int) -> None:
        self.original = original  # what stood in its place, perhaps nothing
        self.stream: Any = _DiscardedOutput() if original is None else original
        self._sequence = sequence

    def write(self, text: str) -> int:
        """Write to the stream, and to the attempt that runs here."""
        sink = self._sink()
        if sink is None:
            written: int = self.stream.write(text)
            return written
        token = _ATTEMPT.set(None)  # another stand-in may be behind this one, and should not hear it again
        try:
            written = self.stream.write(text)
        except (OSError, ValueError):  # closed, gone, or without this character: no reason for the work to fail
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
    """Who stands where, in this process."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.users = 0
        self.sequence = 0  # of the youngest stand-in
        self.current: dict[str, StdoutStandIn | None] = dict.fromkeys(_STREAM_NAMES)

    def install(self, name: str) -> None:
        """Stand before the stream that is there."""
        if name not in _SYS:
            return
        stream_now, stand_in = _SYS[name], self.current[name]
        if isinstance(stream_now, StdoutStandIn):
            self.current[name] = stream_now
        else:
            if stand_in is None or stand_in.original is not stream_now:
                self.sequence += 1
                stand_in = StdoutStandIn(stream_now, self.sequence)
            if _SYS[name] is stream_now:
                _SYS[name] = self.current[name] = stand_in

    def remove(self, name: str) -> None:
        """Put the stream back. What others put there is theirs; a stand-in that they put back later hears nothing."""
        stream_now, self.current[name] = _SYS.get(name), None
        if isinstance(stream_now, StdoutStandIn):
            stream = stream_now.original
            if _SYS[name] is stream_now:
                _SYS[name] = stream


_stand_ins = _InstalledStandIns()


def start_capture() -> None:
    """Listen to what is printed in this process, until ``stop`` has been called as often."""
    with _stand_ins.lock:
        _stand_ins.users += 1
        for name in _STREAM_NAMES:
            _stand_ins.install(name)


def stop_capture() -> None:
    """Listen no more, and leave ``sys`` as it was."""
    with _stand_ins.lock:
        _stand_ins.users -= 1
        if not _stand_ins.users:
            for name in _STREAM_NAMES:
                _stand_ins.remove(name)


@contextmanager
def capture_prints() -> Iterator[None]:
    """Listen for as long as this lasts."""
    start_capture()
    try:
        yield
    finally:
        stop_capture()


def route_prints_to(sink: Sink) -> None:
    """What is printed from here on is an attempt's. To be called in a context that ends with the attempt."""
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
    """A fork has no engine, and shares locks and sockets that it must not touch: it prints as any program does."""
    _ATTEMPT.set(None)
    _stand_ins.lock = threading.Lock()
    _stand_ins.users = 0
    for name in _STREAM_NAMES:
        _stand_ins.remove(name)


os.register_at_fork(after_in_child=_reset_in_fork)
