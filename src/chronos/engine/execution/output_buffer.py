"""OutputBuffers: keeps the output of attempts short and writes it to the store once per second.

The beginning and the end of each output are kept::

    part 0 │ part 1 │ part 2 …  ‖  … N bytes left out …  ‖  the last 32 KiB
    the head: each part is written once                      the tail: one part, rewritten as it moves

A chatty attempt costs one row per second. A silent attempt costs nothing: it has no output object. Store errors never
reach the work. Output that could not be written is kept, within bounds, and written later.
"""

import asyncio
import logging
import threading
from collections.abc import Iterable

import msgspec

from chronos.core.credentials import hide_userinfo
from chronos.errors import Unavailable
from chronos.runners.contract import Sink
from chronos.store.commands import PROGRESS, OutputRow, WriteOutput
from chronos.store.commands.batch_size import count_output_characters, take_one_batch
from chronos.store.contract import Store

HEAD_BYTES = 32 << 10
TAIL_BYTES = 32 << 10
MAX_HEAD_PARTS = 500  # many small writes fill the head early and continue in the tail
TAIL_PART = 1_000_000  # the part number of the tail
FLUSH_INTERVAL_S = 1.0
MAX_KEPT_BYTES = 16 << 20  # of rows that the store did not accept

log = logging.getLogger("chronos.engine")

AttemptKey = tuple[bytes, str, int]  # execution, task, number of the attempt
OutputPart = tuple[int, str]
OutputRowKey = tuple[bytes, str, int, int]  # the attempt and the part


class AttemptOutput:
    """The output of one attempt.

    Safe from any thread. Writes from a finalizer or signal handler during a write are dropped.
    """

    __slots__ = (
        "_buffers",
        "_head",
        "_head_room",
        "_is_writing",
        "_left_out",
        "_lock",
        "_part",
        "_progress",
        "_tail",
        "_tail_changed",
        "closed",
        "key",
        "pending",
    )

    def __init__(self, key: AttemptKey, buffers: "OutputBuffers") -> None:
        self.key = key
        self.closed = False  # later writes are dropped
        self.pending = False  # the buffers know about the change
        self._buffers = buffers
        self._lock = threading.RLock()
        self._is_writing = False  # only a finalizer or signal handler that interrupts the write sees True
        self._head: list[bytes] = []  # the part that is not written yet
        self._head_room = HEAD_BYTES
        self._part = 0
        self._tail = bytearray()  # up to twice TAIL_BYTES, so that not every write has to cut it
        self._tail_changed = False
        self._left_out = 0
        self._progress: str | None = None

    def write(self, text: str) -> None:
        """Add text.

        Removes user names and passwords from URLs, and replaces NUL and lone surrogates, which no store accepts.
        """
        data = hide_userinfo(text).replace("\0", "\ufffd").encode("utf-8", "replace")
        if not data:
            return
        with self._lock:
            if self.closed or self._is_writing:
                return
            self._is_writing = True
            try:
                self._add(data)
            finally:
                self._is_writing = False
            first, self.pending = not self.pending, True
        if first:
            self._buffers.note_change(self)

    def _add(self, data: bytes) -> None:
        if self._head_room:
            head = _take_first_bytes(data, self._head_room)
            if head:
                self._head.append(head)
            self._head_room = self._head_room - len(head) if len(head) == len(data) else 0
            data = data[len(head) :]
        if data:
            self._tail_changed = True
            self._tail += data
            if (over := len(self._tail) - TAIL_BYTES) > TAIL_BYTES:
                del self._tail[:over]
                self._left_out += over

    def progress(self, done: float, total: float | None) -> None:
        """Set how far the work is; only the latest value is kept."""
        text = msgspec.json.encode({"done": done, "total": total}).decode()
        with self._lock:
            if self.closed:
                return
            self._progress = text
            first, self.pending = not self.pending, True
        if first:
            self._buffers.note_change(self)

    def parts_to_write(self) -> list[OutputPart]:
        """Return the parts that changed since the last call."""
        parts: list[OutputPart] = []
        with self._lock:
            self.pending = False
            if self._progress is not None:
                parts.append((PROGRESS, self._progress))
                self._progress = None
            if self._head:
                parts.append((self._part, b"".join(self._head).decode()))
                self._head.clear()
                self._part += 1
                if self._part == MAX_HEAD_PARTS:
                    self._head_room = 0
            if self._tail_changed:
                self._tail_changed = False
                parts.append((TAIL_PART, self._tail_text()))
        return parts

    def _tail_text(self) -> str:
        kept = _take_last_bytes(self._tail, TAIL_BYTES)
        left_out = self._left_out + len(self._tail) - len(kept)
        text = kept.decode()
        return f"\n… {left_out} bytes left out …\n{text}" if left_out else text


class LazySink:
    """A sink that creates its output at the first write."""

    __slots__ = ("_buffers", "_ended", "_key", "output")

    def __init__(self, buffers: "OutputBuffers", key: AttemptKey) -> None:
        self._buffers = buffers
        self._key = key
        self._ended = False
        self.output: AttemptOutput | None = None

    def write(self, text: str) -> None:
        if not self._ended:
            (self.output or self._buffers.open_output(self, self._key)).write(text)

    def progress(self, done: float, total: float | None) -> None:
        if not self._ended:
            (self.output or self._buffers.open_output(self, self._key)).progress(done, total)

    def end(self) -> None:
        """Ignore later writes, for example from threads that the attempt left behind."""
        self._ended = True


class OutputBuffers:
    """The outputs of all attempts of a node."""

    def __init__(self, store: Store, *, interval_s: float = FLUSH_INTERVAL_S) -> None:
        self._store = store
        self._interval_s = interval_s
        self._lock = threading.RLock()  # reentrant: a finalizer may print during a write
        self._changed: dict[AttemptOutput, None] = {}
        self._due: dict[OutputRowKey, OutputRow] = {}  # rows to write, oldest first
        self._loop: asyncio.AbstractEventLoop | None = None
        self._wake: asyncio.Event | None = None
        self._writing = asyncio.Lock()  # two versions of one part must not overtake each other
        self.dropped = 0  # rows dropped because the store was unavailable too long

    def sink(self, execution: bytes, task: str, number: int) -> LazySink:
        """Return the sink of one attempt."""
        return LazySink(self, (execution, task, number))

    async def close(self, sink: Sink) -> None:
        """End the output of an attempt and write the rest of it."""
        if isinstance(sink, LazySink):
            sink.end()
            if sink.output is not None:
                await self.close_output(sink.output)

    def abandon(self, sink: Sink) -> None:
        """End the output of a killed attempt; the rest is written with the next flush."""
        if isinstance(sink, LazySink):
            sink.end()
            if sink.output is not None:
                sink.output.closed = True

    async def close_output(self, output: AttemptOutput) -> None:
        """Write the rest of one output. Later writes to it are lost."""
        output.closed = True
        with self._lock:
            self._changed.pop(output, None)
        await self._send(_to_output_rows(output))

    async def run(self) -> None:
        """Write changed output at most once per interval, until cancelled."""
        self._loop = asyncio.get_running_loop()
        wake = self._wake = asyncio.Event()
        if self._changed or self._due:
            wake.set()
        try:
            while True:
                await wake.wait()
                await asyncio.sleep(self._interval_s)
                wake.clear()
                await self.flush()
                if self._due:
                    wake.set()
        finally:
            self._loop = self._wake = None

    async def flush(self) -> None:
        """Write everything that changed, and the rows that the store did not accept before."""
        with self._lock:
            changed, self._changed = self._changed, {}
        await self._send([row for output in changed for row in _to_output_rows(output)])

    # --- for outputs, from any thread

    def open_output(self, sink: LazySink, key: AttemptKey) -> AttemptOutput:
        """Return the output of a sink; the first call creates it."""
        with self._lock:
            output = AttemptOutput(key, self)
            if sink.output is None:
                sink.output = output
            return sink.output

    def note_change(self, output: AttemptOutput) -> None:
        """Note that an output has something to write."""
        with self._lock:
            first = not self._changed
            if not output.closed:
                self._changed[output] = None
        if first:
            self._wake_writer()

    def _wake_writer(self) -> None:
        loop, wake = self._loop, self._wake
        if loop is None or wake is None:
            return
        try:
            loop.call_soon_threadsafe(wake.set)
        except RuntimeError:  # the loop was closed while a thread still writes
            return

    # --- the store

    async def _send(self, rows: Iterable[OutputRow]) -> None:
        self._due.update((row[:4], row) for row in rows)
        async with self._writing:
            # The first caller also writes the rows of those that wait for the lock.
            while self._due:
                batch = {row[:4]: row for row in take_one_batch(self._due.values(), count_output_characters)}
                for key in batch:
                    del self._due[key]
                try:
                    await self._store.apply(WriteOutput(rows=tuple(batch.values())))
                except Unavailable:
                    self._requeue(batch)
                    self._wake_writer()
                    return
                except Exception:
                    self.dropped += len(batch)
                    log.exception("could not write %d rows of attempt output", len(batch))
                except BaseException:
                    self._requeue(batch)
                    raise

    def _requeue(self, batch: dict[OutputRowKey, OutputRow]) -> None:
        """Queue rows again in front, unless newer versions exist. Drops the oldest rows beyond the size limit."""
        self._due = {**batch, **self._due}
        size = sum(len(row.text) for row in self._due.values())
        while size > MAX_KEPT_BYTES:
            oldest = next(iter(self._due))
            size -= len(self._due.pop(oldest).text)
            self.dropped += 1


def _to_output_rows(output: AttemptOutput) -> list[OutputRow]:
    execution, task, number = output.key
    return [OutputRow(execution, task, number, part, text) for part, text in output.parts_to_write()]


def _take_first_bytes(data: bytes, size: int) -> bytes:
    """Return at most the first ``size`` bytes, without splitting a character."""
    if len(data) <= size:
        return data
    while size and data[size] & 0xC0 == 0x80:
        size -= 1
    return data[:size]


def _take_last_bytes(data: bytearray, size: int) -> bytearray:
    """Return at most the last ``size`` bytes, without splitting a character."""
    start = max(0, len(data) - size)
    while start < len(data) and data[start] & 0xC0 == 0x80:
        start += 1
    return data[start:]
