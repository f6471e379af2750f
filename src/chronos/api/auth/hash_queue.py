"""HashQueue: a bounded, fair queue for password hashes, each of which takes a core and 64 MiB for a while.

::

    known (the name was verified from there recently) ──► first    ┐
    others, one per address in turn                   ──► second  ┴──► at most ``threads`` threads

An address with many guesses delays itself, not others. When the queue is full, the address with the most waiting logins
loses its last one to an address that has none; otherwise the new login is refused immediately.
"""

import asyncio
from collections import OrderedDict, deque
from collections.abc import Callable
from typing import TypeVar

from chronos.api.errors import TooManyRequests

T = TypeVar("T")
HASH_THREADS = 2
MAX_WAITING_HASHES = 50  # per lane
MAX_WAITING_PER_ADDRESS = 20
_RETRY_AFTER_S = 2.0


class _HashLane:
    """Logins that wait for their password check, one per address in turn."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._waiting: OrderedDict[str, deque[asyncio.Future[None]]] = OrderedDict()
        self.length = 0

    def join(self, address: str) -> asyncio.Future[None]:
        """Add a login of an address; the future is done when its turn comes. Raises ``TooManyRequests``."""
        own_slots = self._waiting.get(address)
        if own_slots is not None and len(own_slots) >= MAX_WAITING_PER_ADDRESS:
            raise _busy()
        if self.length >= self._limit:
            max_bytes = max(self._waiting.values(), key=len)
            if own_slots is not None or len(max_bytes) < 2:
                raise _busy()
            last = max_bytes.pop()
            self.length -= 1
            last.set_exception(_busy())
        slot: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(address, deque()).append(slot)
        self.length += 1
        return slot

    def wake_next(self) -> bool:
        """Wake the next login. Returns False if none waits."""
        while self._waiting:
            address, own_slots = next(iter(self._waiting.items()))
            slot = own_slots.popleft()
            self.length -= 1
            if own_slots:
                self._waiting.move_to_end(address)
            else:
                del self._waiting[address]
            if not slot.done():  # it may have been canceled
                slot.set_result(None)
                return True
        return False


class HashQueue:
    """Runs slow functions in at most ``threads`` threads."""

    def __init__(self, threads: int = HASH_THREADS, limit: int = MAX_WAITING_HASHES) -> None:
        self._free = threads
        self._known, self._others = _HashLane(limit), _HashLane(limit)

    @property
    def waiting(self) -> int:
        """The number of waiting logins."""
        return self._known.length + self._others.length

    async def run(self, work: Callable[[], T], *, address: str, known: bool = False) -> T:
        """Run ``work`` in a thread and return its result. Raises ``TooManyRequests`` immediately if too many wait."""
        if self._free:
            self._free -= 1
        else:
            await self._wait_turn(address, self._known if known else self._others)
        try:
            return await asyncio.to_thread(work)
        finally:
            self._release()

    async def _wait_turn(self, address: str, lane: _HashLane) -> None:
        slot = lane.join(address)
        try:
            await slot
        except asyncio.CancelledError:
            if slot.done() and not slot.cancelled() and slot.exception() is None:
                self._release()  # its turn had already come
            raise

    def _release(self) -> None:
        if not (self._known.wake_next() or self._others.wake_next()):
            self._free += 1


def _busy() -> TooManyRequests:
    return TooManyRequests("too many logins are waiting; try again in a few seconds", _RETRY_AFTER_S)
