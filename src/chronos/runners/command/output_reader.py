"""Reads what a process prints, as it comes, without ever holding much of it or keeping the loop from other work."""

import asyncio
import codecs
import os
from collections.abc import Callable

from chronos.runners.secret_mask import MaskedStream, SecretMask

_CHUNK = 1 << 16
_MAX_UNTHROTTLED_BYTES = (
    1 << 20
)  # of a stream is passed on as it comes; of what follows only the latest, from time to time
_TAIL = 1 << 16
_TAIL_INTERVAL_S = 0.2
_LAST = 400  # characters kept to say what it printed last


class OutputReader:
    """One stream of a process, from a pipe to a sink."""

    def __init__(self, fd: int, write: Callable[[str], None], mask: SecretMask) -> None:
        self._loop = asyncio.get_running_loop()
        self._fd = fd
        self._write = write
        self._masked = MaskedStream(mask)
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._passed = 0
        self._tail = b""
        self._left_out = 0
        self._timer: asyncio.TimerHandle | None = None
        self._ended = self._loop.create_future()
        self.last = ""
        os.set_blocking(fd, False)
        self._loop.add_reader(fd, self._read)

    async def finish(self, within_s: float) -> None:
        """Until all of it has been read; whoever still holds the other end is not waited for longer than this."""
        if not self._ended.done():
            await asyncio.wait([self._ended], timeout=within_s)
        self.close()

    def close(self) -> None:
        """Let go of the pipe. Idempotent."""
        if self._fd < 0:
            return
        self._loop.remove_reader(self._fd)
        os.close(self._fd)
        self._fd = -1
        if self._timer is not None:
            self._timer.cancel()
        self._skip()
        self._pass(self._masked.feed(self._decoder.decode(b"", final=True)) + self._masked.flush())
        if not self._ended.done():
            self._ended.set_result(None)

    def _read(self) -> None:
        try:
            chunk = os.read(self._fd, _CHUNK)
        except BlockingIOError:
            return
        except OSError:
            chunk = b""
        if not chunk:
            self.close()
        elif self._passed < _MAX_UNTHROTTLED_BYTES:
            self._passed += len(chunk)
            self._pass(self._masked.feed(self._decoder.decode(chunk)))
        else:
            self._left_out += len(self._tail)
            if len(chunk) < _TAIL:
                kept = (self._tail + chunk)[-_TAIL:]
                self._left_out -= len(kept) - len(chunk)
                chunk = kept
            self._tail = chunk
            if self._timer is None:
                self._timer = self._loop.call_later(_TAIL_INTERVAL_S, self._skip)

    def _skip(self) -> None:
        """Pass on the latest of what came too fast."""
        self._timer = None
        if not self._tail:
            return
        tail, left_out = self._tail, self._left_out
        self._tail, self._left_out = b"", 0
        if left_out:  # what was held back belongs to something that is gone
            self._decoder.reset()
            self._pass(f"{self._masked.flush()}\n… {left_out} bytes left out …\n")
        self._pass(self._masked.feed(self._decoder.decode(tail)))

    def _pass(self, text: str) -> None:
        if text:
            text = text.replace("\0", "�")
            self.last = (self.last + text)[-_LAST:]
            self._write(text)
