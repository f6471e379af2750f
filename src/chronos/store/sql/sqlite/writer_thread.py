"""The thread that writes a SQLite file, one call after the other."""

import asyncio
from collections.abc import Callable
from contextlib import ExitStack, suppress
from queue import SimpleQueue
from threading import Thread
from typing import Any, NamedTuple, TypeVar

T = TypeVar("T")
#: Called with the result of a call, or with its error.
Done = Callable[[Any, BaseException | None], None]


class _PendingCall(NamedTuple):
    """A queued call, and the callback for its result."""

    call: Callable[[], Any]
    loop: asyncio.AbstractEventLoop
    done: Done


class WriterThread:
    """Runs calls in order on one thread."""

    def __init__(self) -> None:
        self._calls: SimpleQueue[_PendingCall | None] = SimpleQueue()
        # A daemon thread: each call is atomic, so a process that exits without closing need not wait for it.
        self._thread = Thread(target=self._work, name="chronos-sqlite-writer", daemon=True)
        self._thread.start()

    def begin(self, call: Callable[[], Any], done: Done) -> None:
        """Queue a call. ``done`` is called on the loop when it has finished."""
        loop = asyncio.get_running_loop()
        if (outside := getattr(loop, "outside", None)) is not None:
            # A loop with virtual time stands still during the call.
            done = _hold_context_until_done(outside(), done)
        self._calls.put(_PendingCall(call, loop, done))

    async def run(self, call: Callable[[], T]) -> T:
        """Run a call and return its result. Canceling the caller does not cancel the call."""
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
        """Run the queued calls, then end the thread."""
        self._calls.put(None)
        self._thread.join()

    def _work(self) -> None:
        while pending := self._calls.get():
            try:
                result, error = pending.call(), None
            except BaseException as raised:  # noqa: BLE001 - raised to the caller
                result, error = None, raised
            with suppress(RuntimeError):  # the loop is closed
                pending.loop.call_soon_threadsafe(pending.done, result, error)
            del pending, result, error  # free the memory while the thread waits


def _hold_context_until_done(context: Any, done: Done) -> Done:
    held = ExitStack()
    held.enter_context(context)

    def leave(result: Any, error: BaseException | None) -> None:
        held.close()
        done(result, error)

    return leave
