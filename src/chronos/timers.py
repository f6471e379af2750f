"""Many deadlines for the price of a few timers: those that end in the same second share one.

Most attempts end minutes before their timeout, so what counts is how little setting and dropping a deadline costs. It
may be up to a second late, which a timeout of many seconds does not notice.
"""

import asyncio
from collections.abc import Callable

COARSE_FROM_S = 10.0  # shorter timeouts get a timer of their own

Key = int | asyncio.TimerHandle


class Deadlines:
    """Calls back unless it is dropped before."""

    def __init__(self) -> None:
        self._seconds: dict[int, dict[int, Callable[[], None]]] = {}

    def set(self, owner: int, after_s: float, call: Callable[[], None]) -> Key:
        """Call after so long. ``owner`` is unique among those that are set; the key drops it."""
        loop = asyncio.get_running_loop()
        if after_s < COARSE_FROM_S:
            return loop.call_later(after_s, call)
        second = int(loop.time() + after_s) + 1
        calls = self._seconds.get(second)
        if calls is None:
            calls = self._seconds[second] = {}
            loop.call_at(second, self._come, second)
        calls[owner] = call
        return second

    def drop(self, owner: int, key: Key) -> None:
        """Do not call any more."""
        if isinstance(key, int):
            calls = self._seconds.get(key)
            if calls is not None:
                calls.pop(owner, None)
        else:
            key.cancel()

    def _come(self, second: int) -> None:
        for call in tuple(self._seconds.pop(second).values()):
            call()
