"""Long work of requests, so that bodies of thousands of jobs hold up nothing that is due.

What has many small pieces is done on the event loop in short turns. One large piece is done in a thread, one at a time:
the event loop goes on meanwhile, and shares the interpreter with this thread alone.
"""

import asyncio
import time
from collections.abc import Callable, Sequence
from typing import TypeVar

T = TypeVar("T")
R = TypeVar("R")
_SLICE_S = 0.005


class TimeSlicer:
    """One request works at a time, for some milliseconds; then the others, and everything else, have theirs."""

    def __init__(self, now_s: Callable[[], float] = time.perf_counter) -> None:
        self._now_s = now_s
        self._loop_lock = asyncio.Lock()
        self._thread_lock = asyncio.Lock()

    async def run_in_thread(self, function: Callable[[], T]) -> T:
        """Do something large beside the event loop."""
        async with self._thread_lock:
            return await asyncio.to_thread(function)

    async def map(self, items: Sequence[T], function: Callable[[T], R]) -> list[R]:
        """What something makes of each of them, in order."""
        if len(items) == 1:
            return [function(items[0])]
        results: list[R] = []
        await self.each(items, lambda item: results.append(function(item)))
        return results

    async def each(self, items: Sequence[T], function: Callable[[T], None]) -> None:
        """Do something with each of them, in order."""
        index = 0
        while index < len(items):
            async with self._loop_lock:
                index = self._run_slice(items, index, function)
                await asyncio.sleep(0)

    def _run_slice(self, items: Sequence[T], index: int, function: Callable[[T], None]) -> int:
        """Go on from a place for one turn; gives the place after it."""
        now_s = self._now_s
        until_s = now_s() + _SLICE_S
        while index < len(items):
            function(items[index])
            index += 1
            if now_s() >= until_s:
                break
        return index
