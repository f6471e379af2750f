"""OutputReader: passes the output of a process on as it arrives, with bounded memory and without blocking the loop."""

import asyncio
import codecs
import os
from collections.abc import Callable

from chronos.runners.secret_mask import MaskedStream, SecretMask

_CHUNK_BYTES = 1 << 16
_MAX_UNTHROTTLED_BYTES = 1 << 20  # per stream; beyond it only the latest output is passed on, at intervals
_TAIL_BYTES = 1 << 16
_TAIL_INTERVAL_S = 0.2
_LAST_TEXT_CHARS = 400  # of the end of the output, for error messages


class OutputReader:
    """Reads one stream of a process from a pipe into a sink."""

    def __init__(self, fd: int, write: Callable[[str], None], mask: SecretMask) -> None:
        self._loop = asyncio.get_running_loop()
        self._fd = fd
        self._write = write
        self._masked = MaskedStream(mask)
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._passed_bytes = 0
        self._tail = b""
        self._left_out_bytes = 0
        self._timer: asyncio.TimerHandle | None = None
        self._finished = self._loop.create_future()
        self.last_text = ""
        os.set_blocking(fd, False)
        self._loop.add_reader(fd, self._read)

    async def finish(self, timeout_s: float) -> None:
        """Wait until everything has been read, at most for the timeout: another process may hold the other end."""
        if not self._finished.done():
            await asyncio.wait([self._finished], timeout=timeout_s)
        self.close()

    def close(self) -> None:
        """Close the pipe. Idempotent."""
        if self._fd < 0:
            return
        self._loop.remove_reader(self._fd)
        os.close(self._fd)
        self._fd = -1
        if self._timer is not None:
            self._timer.cancel()
        self._flush_tail()
        self._emit(self._masked.feed(self._decoder.decode(b"", final=True)) + self._masked.flush())
        if not self._finished.done():
            self._finished.set_result(None)

    def _read(self) -> None:
        try:
            chunk = os.read(self._fd, _CHUNK_BYTES)
        except BlockingIOError:
            return
        except OSError:
            chunk = b""
        if not chunk:
            self.close()
        elif self._passed_bytes < _MAX_UNTHROTTLED_BYTES:
            self._passed_bytes += len(chunk)
            self._emit(self._masked.feed(self._decoder.decode(chunk)))
        else:
            self._left_out_bytes += len(self._tail)
            if len(chunk) < _TAIL_BYTES:
                kept = (self._tail + chunk)[-_TAIL_BYTES:]
                self._left_out_bytes -= len(kept) - len(chunk)
                chunk = kept
            self._tail = chunk
            if self._timer is None:
                self._timer = self._loop.call_later(_TAIL_INTERVAL_S, self._flush_tail)

    def _flush_tail(self) -> None:
        """Pass on the latest output of a stream that is throttled."""
        self._timer = None
        if not self._tail:
            return
        tail, left_out = self._tail, self._left_out_bytes
        self._tail, self._left_out_bytes = b"", 0
        if left_out:  # the text that was held back has lost its continuation
            self._decoder.reset()
            self._emit(f"{self._masked.flush()}\n… {left_out} bytes left out …\n")
        self._emit(self._masked.feed(self._decoder.decode(tail)))

    def _emit(self, text: str) -> None:
        if text:
            text = text.replace("\0", "�")
            self.last_text = (self.last_text + text)[-_LAST_TEXT_CHARS:]
            self._write(text)
