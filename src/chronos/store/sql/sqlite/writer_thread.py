"""The thread that writes a SQLite file: one call after the other. A hand-over each way is all that it costs."""

import asyncio
from collections.abc import Callable
from contextlib import ExitStack, suppress
from queue import SimpleQueue
from threading import Thread
from typing import Any, NamedTuple, TypeVar

T = TypeVar("T")
#: Called with what a call gave, or else with what it raised.
Done = Callable[[Any, BaseException | None], None]


class _PendingCall(NamedTuple):
    """A call, and who is told what became of it."""

    call: Callable[[], Any]
    loop: asyncio.AbstractEventLoop
    done: Done


class WriterThread:
    """Makes calls in the order in which they come."""

    def __init__(self) -> None:
        self._calls: SimpleQueue[_PendingCall | None] = SimpleQueue()
        # What it does is durable or not there at all, so a process that ends without closing need not wait for it.
        self._thread = Thread(target=self._work, name="chronos-sqlite-writer", daemon=True)
        self._thread.start()

    def begin(self, call: Callable[[], Any], done: Done) -> None:
        """Make a call, and call back on the loop when it is over."""
        loop = asyncio.get_running_loop()
        if (outside := getattr(loop, "outside", None)) is not None:
            done = _hold_context_until_done(
                outside(), done
            )  # a loop whose time is not the world's stands still meanwhile
        self._calls.put(_PendingCall(call, loop, done))

    async def run(self, call: Callable[[], T]) -> T:
        """What the call gives or raises. Cancelling the waiter does not cancel the call."""
        answer: asyncio.Future[T] = asyncio.get_running_loop().create_future()

        def resolve(result: Any, error: BaseException | None) -> None:
            if answer.done():
                return
            if error is None:
                answer.set_result(result)
            else:
                answer.set_exception(error)

        self.begin(call, resolve)
        return await answer

    def close(self) -> None:
        """Finish what is in line, and end."""
        self._calls.put(None)
        self._thread.join()

    def _work(self) -> None:
        while pending := self._calls.get():
            try:
                result, error = pending.call(), None
            except BaseException as raised:  # noqa: BLE001 - it goes to whoever waits
                result, error = None, raised
            with suppress(RuntimeError):  # the loop was closed: nobody waits any more
                pending.loop.call_soon_threadsafe(pending.done, result, error)
            del pending, result, error  # nothing is kept while the thread waits


def _hold_context_until_done(context: Any, done: Done) -> Done:
    held = ExitStack()
    held.enter_context(context)

    def leave(result: Any, error: BaseException | None) -> None:
        held.close()
        done(result, error)

    return leave
