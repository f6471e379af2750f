"""What attempts write, kept short and brought to the store now and then, so that it can be read while they run.

Of each attempt the beginning and the end are kept::

    part 0 │ part 1 │ part 2 …  ‖  … N bytes left out …  ‖  the last 32 KiB
    the head: each part is written once                      the tail: one part, written again as it moves

A chatty attempt costs one row a second, a silent one nothing at all: its output does not even exist. Trouble with the
store never reaches the work; what could not be written is kept, within bounds, and tried again.
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
MAX_HEAD_PARTS = 500  # one that dribbles fills its head early, and goes on in the tail
TAIL_PART = 1_000_000  # as ``part``
FLUSH_INTERVAL_S = 1.0
MAX_KEPT_BYTES = 16 << 20  # of rows that the store did not take

log = logging.getLogger("chronos.engine")

AttemptKey = tuple[bytes, str, int]  # execution, task, number of the attempt
OutputPart = tuple[int, str]
OutputRowKey = tuple[bytes, str, int, int]  # of a row: the attempt and the part


class AttemptOutput:
    """The output of one attempt. Safe from any thread, and from whatever interrupts one; that is not kept."""

    __slots__ = (
        "_book",
        "_head",
        "_head_room",
        "_inside",
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

    def __init__(self, key: AttemptKey, book: "OutputBuffers") -> None:
        self.key = key
        self.closed = False  # what is written afterwards is nobody's any more
        self.pending = False  # the book knows that there is something to write
        self._book = book
        self._lock = threading.RLock()
        self._inside = False  # somebody writes: only a finalizer or a signal's handler on top of it can see that
        self._head: list[bytes] = []  # of the part that is not written yet
        self._head_room = HEAD_BYTES
        self._part = 0
        self._tail = bytearray()  # up to twice its size, so that it is cut now and then and not at every write
        self._tail_changed = False
        self._left_out = 0
        self._progress: str | None = None

    def write(self, text: str) -> None:
        """Add text, without the user and password of any URL; NUL and lone surrogates, which no store takes, are
        replaced.
        """
        data = hide_userinfo(text).replace("\0", "\ufffd").encode("utf-8", "replace")
        if not data:
            return
        with self._lock:
            if self.closed or self._inside:
                return
            self._inside = True
            try:
                self._add(data)
            finally:
                self._inside = False
            tell, self.pending = not self.pending, True
        if tell:
            self._book.changed(self)

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
        """Remember how far the work is; only the latest counts."""
        text = msgspec.json.encode({"done": done, "total": total}).decode()
        with self._lock:
            if self.closed:
                return
            self._progress = text
            tell, self.pending = not self.pending, True
        if tell:
            self._book.changed(self)

    def parts_to_write(self) -> list[OutputPart]:
        """What changed since this was asked last."""
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
    """Stands for an output that does not exist until something is written."""

    __slots__ = ("_book", "_ended", "_key", "output")

    def __init__(self, book: "OutputBuffers", key: AttemptKey) -> None:
        self._book = book
        self._key = key
        self._ended = False
        self.output: AttemptOutput | None = None

    def write(self, text: str) -> None:
        if not self._ended:
            (self.output or self._book.open_output(self, self._key)).write(text)

    def progress(self, done: float, total: float | None) -> None:
        if not self._ended:
            (self.output or self._book.open_output(self, self._key)).progress(done, total)

    def end(self) -> None:
        """The attempt is over: what something that it left behind still writes is nobody's."""
        self._ended = True


class OutputBuffers:
    """The outputs of all attempts of a node."""

    def __init__(self, store: Store, *, interval_s: float = FLUSH_INTERVAL_S) -> None:
        self._store = store
        self._interval_s = interval_s
        self._lock = threading.RLock()  # what runs on top of a write, as finalizers do, may print as well
        self._changed: dict[AttemptOutput, None] = {}
        self._due: dict[OutputRowKey, OutputRow] = {}  # to be written, oldest first
        self._loop: asyncio.AbstractEventLoop | None = None
        self._wake: asyncio.Event | None = None
        self._writing = asyncio.Lock()  # a part that is written again must not overtake itself
        self.dropped = 0  # rows given up, because the store was away too long

    def sink(self, execution: bytes, task: str, number: int) -> LazySink:
        """Where one attempt writes to."""
        return LazySink(self, (execution, task, number))

    async def close(self, sink: Sink) -> None:
        """The attempt is over: bring the rest of what it wrote to the store."""
        if isinstance(sink, LazySink):
            sink.end()
            if sink.output is not None:
                await self.close_output(sink.output)

    def leave(self, sink: Sink) -> None:
        """The attempt was ended by force: take nothing more from it, and write what there is when others are."""
        if isinstance(sink, LazySink):
            sink.end()
            if sink.output is not None:
                sink.output.closed = True

    async def close_output(self, output: AttemptOutput) -> None:
        """Bring the rest of one output to the store; later writes to it are lost."""
        output.closed = True
        with self._lock:
            self._changed.pop(output, None)
        await self._send(_to_output_rows(output))

    async def run(self) -> None:
        """Write what changes, at most once an interval; without changes it sleeps. Until it is cancelled."""
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
        """Write all that has changed, and what the store did not take before."""
        with self._lock:
            changed, self._changed = self._changed, {}
        await self._send([row for output in changed for row in _to_output_rows(output)])

    # --- for outputs, from any thread

    def open_output(self, sink: LazySink, key: AttemptKey) -> AttemptOutput:
        """The output of a sink, made when it is first needed."""
        with self._lock:
            made = AttemptOutput(key, self)
            if sink.output is None:
                sink.output = made
            return sink.output

    def changed(self, output: AttemptOutput) -> None:
        """An output has something to write."""
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
        except RuntimeError:  # the loop was closed under a thread that still writes
            return

    # --- the store

    async def _send(self, rows: Iterable[OutputRow]) -> None:
        self._due.update((row[:4], row) for row in rows)
        async with self._writing:
            # Whoever comes first takes what the others, who wait here, have brought: they find nothing left to do.
            while self._due:
                batch = {row[:4]: row for row in take_one_batch(self._due.values(), count_output_characters)}
                for place in batch:
                    del self._due[place]
                try:
                    await self._store.apply(WriteOutput(rows=tuple(batch.values())))
                except Unavailable:
                    self._requeue(batch)
                    self._wake_writer()
                    return
                except Exception:
                    self.dropped += len(batch)
                    log.exception("the output of %d attempts could not be written", len(batch))
                except BaseException:
                    self._requeue(batch)
                    raise

    def _requeue(self, batch: dict[OutputRowKey, OutputRow]) -> None:
        """Rows that the store did not take go first again, unless newer ones came; the oldest go when they are many."""
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
    """At most the first bytes, not through the middle of a character."""
    if len(data) <= size:
        return data
    while size and data[size] & 0xC0 == 0x80:
        size -= 1
    return data[:size]


def _take_last_bytes(data: bytearray, size: int) -> bytearray:
    """At most the last bytes, not from the middle of a character."""
    start = max(0, len(data) - size)
    while start < len(data) and data[start] & 0xC0 == 0x80:
        start += 1
    return data[start:]
