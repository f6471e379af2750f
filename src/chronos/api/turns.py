"""Long work on the event loop in short turns, so that requests of thousands of jobs hold up nothing that is due."""

import asyncio
import time
from collections.abc import Callable, Sequence
from typing import TypeVar

T = TypeVar("T")
_TURN_S = 0.005


class Turns:
    """One request works at a time, for some milliseconds; then the others, and everything else, have theirs."""

    def __init__(self, now_s: Callable[[], float] = time.perf_counter) -> None:
        self._now_s = now_s
        self._mine = asyncio.Lock()

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
