"""An event loop whose time is virtual: when nothing is left to do it jumps to the next timer instead of waiting.

::

    ready ──► run it                              time stands still while anything can run
      │ nothing ready
      ├── something outside is waited for ──► really wait for it; time stands still
      ├── a timer is set ───────────────────► time jumps there
      └── neither ──────────────────────────► nothing could ever happen again: an error, not a test that hangs

No thread and no real second is involved, so the same program does the same things in the same order each time. Work of
the real world (threads of ``run_in_executor``, and whatever enters ``outside``) is waited for before time moves on.
"""

import asyncio
import selectors
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import Executor
from contextlib import contextmanager
from contextvars import Context
from typing import Any, TypeVar, TypeVarTuple, Unpack

T = TypeVar("T")
Ts = TypeVarTuple("Ts")
_RESOLUTION_S = 1e-7  # what a float still tells apart after ten years; timers are whole microseconds apart
_ROUNDING_US = 0.05  # what may be left over of a whole microsecond after adding up floats
_OWN_FILES = 1  # the pipe that wakes the loop from other threads


class StandsStill(RuntimeError):
    """Everything waits and no timer is set: nothing could ever happen again."""


class _Time(selectors.DefaultSelector):
    """Where the loop would wait, and so where time passes."""

    def __init__(self) -> None:
        super().__init__()
        self.now_us = 0
        self.outside = 0  # how many wait for the real world

    def select(self, timeout: float | None = None) -> list[Any]:
        alone = len(self.get_map()) <= _OWN_FILES
        if self.outside:
            return super().select(0 if timeout == 0 else None)
        found = [] if alone else super().select(0)
        if found or timeout == 0:
            return found
        if timeout is not None:
            self.now_us += max(1, round(timeout * 1e6))
            return []
        if alone:
            raise StandsStill(
                "everything waits, and no timer is set: nothing could ever happen again; "
                "enter the clock's outside() around what waits for a thread or another process"
            )
        return super().select(None)


class VirtualLoop(asyncio.SelectorEventLoop):
    """See the module. Use it with ``run``, or ``asyncio.Runner(loop_factory=VirtualLoop)``."""

    def __init__(self) -> None:
        self._time = _Time()
        super().__init__(self._time)
        self._clock_resolution = _RESOLUTION_S

    def time(self) -> float:
        """Virtual seconds since the loop was made."""
        return self._time.now_us / 1e6

    def call_at(
        self, when: float, callback: Callable[[Unpack[Ts]], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.TimerHandle:
        """As ever, at a whole microsecond: whoever wakes finds that the time it waited for has come."""
        at_us = round(when * 1e6)
        if when * 1e6 - at_us > _ROUNDING_US:
            at_us += 1
        if at_us == self._time.now_us and when > self.time():
            at_us += 1  # else whoever waits for what is left over would wake at once, and wait again, for ever
        return super().call_at(at_us / 1e6, callback, *args, context=context)

    @contextmanager
    def outside(self) -> Iterator[None]:
        """While entered, time stands still and the loop waits for the real world."""
        self._time.outside += 1
        try:
            yield
        finally:
            self._time.outside -= 1

    def run_in_executor(
        self, executor: Executor | None, func: Callable[[Unpack[Ts]], T], *args: *Ts
    ) -> asyncio.Future[T]:
        """As ever; threads are of the real world, so time stands still until it is done."""
        future = super().run_in_executor(executor, func, *args)
        self._time.outside += 1
        future.add_done_callback(self._came_back)
        return future

    async def shutdown_default_executor(self, *args: Any) -> None:
        """As ever; its threads are waited for in real time."""
        with self.outside():
            await super().shutdown_default_executor(*args)

    def _came_back(self, _: object) -> None:
        self._time.outside -= 1


def run(main: Coroutine[Any, Any, T]) -> T:
    """``asyncio.run`` in virtual time."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(main)
