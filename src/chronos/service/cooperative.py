"""TimeSlicer: keeps long work of requests from delaying runs that are due.

Work of many small pieces runs on the event loop in short slices. One large piece runs in a thread, one thread at a
time, so that the event loop shares the interpreter with a single thread.
"""

import asyncio
import time
from collections.abc import Callable, Sequence
from typing import TypeVar

T = TypeVar("T")
R = TypeVar("R")
_SLICE_S = 0.005


class TimeSlicer:
    """Lets one request work at a time, for a few milliseconds, before other tasks get their turn."""

    def __init__(self, now_s: Callable[[], float] = time.perf_counter) -> None:
        self._now_s = now_s
        self._loop_lock = asyncio.Lock()
        self._thread_lock = asyncio.Lock()

    async def run_in_thread(self, function: Callable[[], T]) -> T:
        """Run a large piece of work in a thread."""
        async with self._thread_lock:
            return await asyncio.to_thread(function)

    async def map(self, items: Sequence[T], function: Callable[[T], R]) -> list[R]:
        """Apply a function to each item, in slices; returns the results in order."""
        if len(items) == 1:
            return [function(items[0])]
        results: list[R] = []
        await self.each(items, lambda item: results.append(function(item)))
        return results

    async def each(self, items: Sequence[T], function: Callable[[T], None]) -> None:
        """Call a function for each item in order, in slices."""
        index = 0
        while index < len(items):
            async with self._loop_lock:
                index = self._run_slice(items, index, function)
                await asyncio.sleep(0)

    def _run_slice(self, items: Sequence[T], index: int, function: Callable[[T], None]) -> int:
        """Process items from ``index`` for one slice. Returns the next index."""
        now_s = self._now_s
        until_s = now_s() + _SLICE_S
        while index < len(items):
            function(items[index])
            index += 1
            if now_s() >= until_s:
                break
        return index
