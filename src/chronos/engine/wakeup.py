"""Wakeup: an asyncio event with a timeout, for a single waiter."""

import asyncio


class Wakeup:
    """Wakes one waiting loop. ``wake`` before ``wait`` makes the next ``wait`` return immediately."""

    __slots__ = ("_is_set", "_waiter")

    def __init__(self) -> None:
        self._is_set = False
        self._waiter: asyncio.Future[None] | None = None

    def wake(self) -> None:
        self._is_set = True
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    async def wait(self, timeout_s: float) -> None:
        """Wait until ``wake`` is called, or until the timeout."""
        if not self._is_set:
            loop = asyncio.get_running_loop()
            self._waiter = loop.create_future()
            timer = loop.call_later(timeout_s, self.wake)
            try:
                await self._waiter
            finally:
                timer.cancel()
                self._waiter = None
        self._is_set = False
