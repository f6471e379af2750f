"""Long work on the event loop in short turns, so that requests of thousands of jobs hold up nothing that is due."""

import asyncio
import time
from collections.abc import Callable, Sequence
from typing import TypeVar

T = TypeVar("T")
_TURN_S = 0.005


class Turns:
    """One request works at a time, for some milliseconds; then the others, and everything else, have theirs."""

    def __init__(self) -> None:
        self._mine = asyncio.Lock()

    async def each(self, items: Sequence[T], do: Callable[[T], None]) -> None:
        """Do something with each of them, in order."""
        at = 0
        while at < len(items):
            async with self._mine:
                at = _some(items, at, do)
                await asyncio.sleep(0)


def _some(items: Sequence[T], at: int, do: Callable[[T], None]) -> int:
    """Go on from a place for one turn; gives the place after it."""
    until_s = time.perf_counter() + _TURN_S
    while at < len(items):
        do(items[at])
        at += 1
        if time.perf_counter() >= until_s:
            break
    return at
