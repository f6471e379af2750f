"""What wakes a loop of the node: somebody rings, or the time it wanted to wait is over."""

import asyncio


class Wakeup:
    """For one who waits. Rung while nobody does, the next wait is over at once."""

    __slots__ = ("_rung", "_waiter")

    def __init__(self) -> None:
        self._rung = False
        self._waiter: asyncio.Future[None] | None = None

    def wake(self) -> None:
        self._rung = True
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    async def wait(self, timeout_s: float) -> None:
        """Until it is rung, at most so long."""
        if not self._rung:
            loop = asyncio.get_running_loop()
            self._waiter = loop.create_future()
            timer = loop.call_later(timeout_s, self.wake)
            try:
                await self._waiter
            finally:
                timer.cancel()
                self._waiter = None
        self._rung = False
