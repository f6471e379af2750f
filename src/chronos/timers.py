"""Many deadlines for the price of a few timers: those that end in the same second share one.

Most attempts end minutes before their timeout, so what counts is how little setting and dropping a deadline costs. It
may be up to a second late, which a timeout of many seconds does not notice.
"""

import asyncio
from collections.abc import Callable

MIN_SHARED_TIMER_S = 10.0  # shorter timeouts get a timer of their own

TimerKey = int | asyncio.TimerHandle


class Timers:
    """Calls back unless it is dropped before."""

    def __init__(self) -> None:
        self._calls_by_second: dict[int, dict[int, Callable[[], None]]] = {}

    def set(self, owner: int, after_s: float, call: Callable[[], None]) -> TimerKey:
        """Call after so long. ``owner`` is unique among those that are set; the key drops it."""
        loop = asyncio.get_running_loop()
        if after_s < MIN_SHARED_TIMER_S:
            return loop.call_later(after_s, call)
        second = int(loop.time() + after_s) + 1
        calls = self._calls_by_second.get(second)
        if calls is None:
            calls = self._calls_by_second[second] = {}
            loop.call_at(second, self._call_due, second)
        calls[owner] = call
        return second

    def drop(self, owner: int, key: TimerKey) -> None:
        """Do not call any more."""
        if isinstance(key, int):
            calls = self._calls_by_second.get(key)
            if calls is not None:
                calls.pop(owner, None)
        else:
            key.cancel()

    def _call_due(self, second: int) -> None:
        for call in tuple(self._calls_by_second.pop(second).values()):
            call()
