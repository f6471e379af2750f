"""What an attempt in a worker process says to its node: its output and progress, what it remembers, and how it ended.

The socket outlives the attempt, and so may threads that it started: after its end nothing of it is said any more, or it
would be taken for the next one's.
"""

import threading
from collections.abc import Callable

from chronos.core.execution_detail import RecordedTask
from chronos.runners.python.worker_protocol import EndMessage, ProgressMessage, RememberMessage, ToNode, WroteMessage

MAX_MESSAGE_CHARS = 1 << 20  # characters of one message

_send_lock = threading.RLock()


class WorkerLog:
    """The sink of one attempt. Safe from any thread, and from whatever interrupts one; that is not said."""

    __slots__ = ("_ended", "_is_sending", "_send")

    def __init__(self, send: Callable[[ToNode], None]) -> None:
        self._send = send
        self._is_sending = False  # a message is being sent: only a finalizer or a signal's handler on top can see that
        self._ended = False

    def write(self, text: str) -> None:
        """Add output, in pieces that a message holds."""
        text = text.encode("utf-8", "replace").decode()
        for start in range(0, len(text), MAX_MESSAGE_CHARS):
            self._send_message(WroteMessage(text=text[start : start + MAX_MESSAGE_CHARS]))

    def progress(self, done: float, total: float | None) -> None:
        """Say how far the work is."""
        self._send_message(ProgressMessage(done=done, total=total))

    def send_memory_entry(self, index: int, entry: RecordedTask) -> None:
        """Say what its memory holds now."""
        self._send_message(RememberMessage(index=index, entry=entry))

    def end(self, message: EndMessage) -> None:
        """Say how it ended, which is the last thing."""
        with _send_lock:
            self._ended = True
            self._send(message)

    def _send_message(self, message: ToNode) -> None:
        with _send_lock:
            if self._ended or self._is_sending:
                return
            self._is_sending = True
            try:
                self._send(message)
            finally:
                self._is_sending = False
