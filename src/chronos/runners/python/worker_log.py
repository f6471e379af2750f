"""What an attempt in a worker process says to its node: its output and progress, what it remembers, and how it ended.

The socket outlives the attempt, and so may threads that it started: after its end nothing of it is said any more, or it
would be taken for the next one's.
"""

import threading
from collections.abc import Callable

from chronos.core.detail import Remembered
from chronos.engine.runners.wire import Ended, Progressed, Remembers, ToNode, Wrote

PIECE = 1 << 20  # characters of one message

_speaking = threading.RLock()


class Voice:
    """The sink of one attempt. Safe from any thread, and from whatever interrupts one; that is not said."""

    __slots__ = ("_inside", "_over", "_send")

    def __init__(self, send: Callable[[ToNode], None]) -> None:
        self._send = send
        self._inside = False  # a message is being sent: only a finalizer or a signal's handler on top can see that
        self._over = False

    def write(self, text: str) -> None:
        """Add output, in pieces that a message holds."""
        text = text.encode("utf-8", "replace").decode()
        for start in range(0, len(text), PIECE):
            self._say(Wrote(text=text[start : start + PIECE]))

    def progress(self, done: float, total: float | None) -> None:
        """Say how far the work is."""
        self._say(Progressed(done=done, total=total))

    def remembered(self, place: int, entry: Remembered) -> None:
        """Say what its memory holds now."""
        self._say(Remembers(place=place, entry=entry))

    def end(self, message: Ended) -> None:
        """Say how it ended, which is the last thing."""
        with _speaking:
            self._over = True
            self._send(message)

    def _say(self, message: ToNode) -> None:
        with _speaking:
            if self._over or self._inside:
                return
            self._inside = True
            try:
                self._send(message)
            finally:
                self._inside = False
