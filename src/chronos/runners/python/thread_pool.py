"""ThreadPool: threads for blocking functions. Their number is bounded; they are reused, and abandoned if they hang.

They are daemons, so that a hanging thread does not keep the program from exiting. A thread cannot be killed: when an
attempt must end, its thread is abandoned and counted, and another one takes its place.

Results are handed to the event loop in batches: waking the loop costs more than most results.
"""

import asyncio
import threading
from collections import deque
from collections.abc import Callable
from queue import SimpleQueue

from chronos.core.outcome import Outcome
from chronos.runners.contract import Stop
from chronos.runners.python.invocation import STOPPED

MAX_ABANDONED_THREADS = 1_000  # that still run; beyond it no more are replaced


class _QueuedCall:
    """One function call, and the future of its result."""

    __slots__ = ("begun", "dropped", "finished", "loop", "result", "work")

    def __init__(self, work: Callable[[], Outcome], loop: asyncio.AbstractEventLoop) -> None:
        self.work = work
        self.loop = loop
        self.result: asyncio.Future[Outcome] = loop.create_future()
        self.begun = False
        self.dropped = False
        self.finished = False


class ThreadPool:
    """A pool that grows up to its size on demand."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._lock = threading.Lock()
        self._queue: SimpleQueue[_QueuedCall | None] = SimpleQueue()
        self._alive = 0  # without abandoned ones
        self._idle = 0
        self._backlog = 0  # calls that wait for a free thread
        self._finished_calls: deque[tuple[_QueuedCall, Outcome]] = deque()
        self._delivery_scheduled = False  # the loop will deliver ``_finished_calls``
        self.abandoned = 0  # in total
        self.abandoned_running = 0  # of these, how many still run

    async def run(self, work: Callable[[], Outcome], stop: Stop) -> Outcome:
        """Run the work in a thread. Work that has not started when a stop is requested is dropped.

        If cancelled, abandons the thread and raises ``CancelledError``.
        """
        item = _QueuedCall(work, asyncio.get_running_loop())
        stop.on_request(lambda: self._drop(item))
        if item.dropped:
            return STOPPED
        self._submit(item)
        try:
            return await item.result
        except asyncio.CancelledError:
            self._abandon(item)
            raise

    def close(self) -> None:
        """Let idle threads end. Busy ones end with their work."""
        with self._lock:
            for _ in range(self._alive):
                self._queue.put(None)
            self._alive = self._idle = 0

    def _submit(self, item: _QueuedCall) -> None:
        with self._lock:
            if self._idle:
                self._idle -= 1
            elif self._has_room():
                self._start()
            else:
                self._backlog += 1
        self._queue.put(item)

    def _has_room(self) -> bool:
        return self._alive + max(0, self.abandoned_running - MAX_ABANDONED_THREADS) < self._size

    def _start(self) -> None:
        self._alive += 1
        threading.Thread(target=self._serve, name="chronos-function", daemon=True).start()

    def _drop(self, item: _QueuedCall) -> None:
        with self._lock:
            if item.begun:
                return
            item.dropped = True
        if not item.result.done():
            item.result.set_result(STOPPED)

    def _abandon(self, item: _QueuedCall) -> None:
        with self._lock:
            item.dropped = True
            if not item.begun or item.finished:
                return
            self._alive -= 1
            self.abandoned += 1
            self.abandoned_running += 1
            if self._backlog and self._has_room():
                self._backlog -= 1
                self._start()

    def _serve(self) -> None:
        while (item := self._queue.get()) is not None:
            with self._lock:
                item.begun = not item.dropped
            if item.begun:
                outcome = item.work()
                if not self._finish(item, outcome):
                    return
            else:
                with self._lock:
                    self._become_idle()
            del item  # an idle thread must not keep objects alive

    def _finish(self, item: _QueuedCall, outcome: Outcome) -> bool:
        """Hand over an outcome. False: this thread was abandoned meanwhile."""
        with self._lock:
            if item.dropped:
                self.abandoned_running -= 1
                return False
            item.finished = True
            self._finished_calls.append((item, outcome))
            schedule = not self._delivery_scheduled
            self._delivery_scheduled = True
            self._become_idle()
        if schedule:
            try:
                item.loop.call_soon_threadsafe(self._deliver)
            except RuntimeError:  # the loop has been closed
                with self._lock:
                    self._delivery_scheduled = False
                    self._finished_calls.clear()
        return True

    def _become_idle(self) -> None:
        if self._backlog:
            self._backlog -= 1
        else:
            self._idle += 1

    def _deliver(self) -> None:
        with self._lock:
            self._delivery_scheduled = False
            finished, self._finished_calls = self._finished_calls, deque()
        for item, outcome in finished:
            if not item.result.done():
                item.result.set_result(outcome)
