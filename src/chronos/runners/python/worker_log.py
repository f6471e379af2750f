"""WorkerLog: sends the output, progress, memory and end of an attempt from a worker process to its node.

The socket outlives the attempt, and so may threads that the attempt started. Nothing is sent after the end of the
attempt, or it would count for the next one.
"""

import threading
from collections.abc import Callable

from chronos.core.execution_detail import RecordedTask
from chronos.runners.python.worker_protocol import EndMessage, ProgressMessage, RememberMessage, ToNode, WroteMessage

MAX_MESSAGE_CHARS = 1 << 20

_send_lock = threading.RLock()


class WorkerLog:
    """The sink of one attempt.

    Safe from any thread. Writes from a finalizer or signal handler during a write are dropped.
    """

    __slots__ = ("_ended", "_is_sending", "_send")

    def __init__(self, send: Callable[[ToNode], None]) -> None:
        self._send = send
        self._is_sending = False  # only a finalizer or signal handler that interrupts a write sees True
        self._ended = False

    def write(self, text: str) -> None:
        """Send output, in pieces that fit into a message."""
        text = text.encode("utf-8", "replace").decode()
        for start in range(0, len(text), MAX_MESSAGE_CHARS):
            self._send_message(WroteMessage(text=text[start : start + MAX_MESSAGE_CHARS]))

    def progress(self, done: float, total: float | None) -> None:
        """Send how far the work is."""
        self._send_message(ProgressMessage(done=done, total=total))

    def send_memory_entry(self, index: int, entry: RecordedTask) -> None:
        """Send one entry of the memory."""
        self._send_message(RememberMessage(index=index, entry=entry))

    def end(self, message: EndMessage) -> None:
        """Send the end; nothing is sent after it."""
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
