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
_TURN_S = 0.005


class TimeSlicer:
    """One request works at a time, for some milliseconds; then the others, and everything else, have theirs."""

    def __init__(self, now_s: Callable[[], float] = time.perf_counter) -> None:
        self._now_s = now_s
        self._mine = asyncio.Lock()
        self._beside = asyncio.Lock()

    async def run_in_thread(self, do: Callable[[], T]) -> T:
        """Do something large beside the event loop."""
        async with self._beside:
            return await asyncio.to_thread(do)

    async def map(self, items: Sequence[T], do: Callable[[T], R]) -> list[R]:
        """What something makes of each of them, in order."""
        if len(items) == 1:
            return [do(items[0])]
        made: list[R] = []
        await self.each(items, lambda item: made.append(do(item)))
        return made

    async def each(self, items: Sequence[T], do: Callable[[T], None]) -> None:
        """Do something with each of them, in order."""
        at = 0
        while at < len(items):
            async with self._mine:
                at = self._some(items, at, do)
                await asyncio.sleep(0)

    def _some(self, items: Sequence[T], at: int, do: Callable[[T], None]) -> int:
        """Go on from a place for one turn; gives the place after it."""
        now_s = self._now_s
        until_s = now_s() + _TURN_S
        while at < len(items):
            do(items[at])
            at += 1
            if now_s() >= until_s:
                break
        return at
