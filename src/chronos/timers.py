"""Shared timers: deadlines in the same second use one timer of the event loop.

Most attempts end long before their timeout, so setting and dropping a deadline must be cheap. A shared deadline may be
up to one second late, which does not matter for timeouts of ten seconds and more.
"""

import asyncio
from collections.abc import Callable

MIN_SHARED_TIMER_S = 10.0  # shorter timeouts get their own timer

TimerKey = int | asyncio.TimerHandle


class Timers:
    """Calls functions at their deadlines, unless they are dropped before."""

    def __init__(self) -> None:
        self._calls_by_second: dict[int, dict[int, Callable[[], None]]] = {}

    def set(self, owner: int, after_s: float, call: Callable[[], None]) -> TimerKey:
        """Call ``call`` after ``after_s`` seconds. ``owner`` is unique. Returns the key for ``drop``."""
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
        """Cancel a deadline."""
        if isinstance(key, int):
            calls = self._calls_by_second.get(key)
            if calls is not None:
                calls.pop(owner, None)
        else:
            key.cancel()

    def _call_due(self, second: int) -> None:
        for call in tuple(self._calls_by_second.pop(second).values()):
            call()
