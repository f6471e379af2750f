"""An event loop whose time is virtual: when nothing is left to do it jumps to the next timer instead of waiting.

::

    ready ──► run it                              time stands still while anything can run
      │ nothing ready
      ├── something outside is waited for ──► really wait for it; time stands still
      ├── somebody waits for this moment's end: ``quiet``
      ├── a timer is set ───────────────────► time jumps there
      └── neither ──────────────────────────► nothing could ever happen again: an error, not a test that hangs

No thread and no real second is involved, so the same program does the same things in the same order each time. Work of
the real world (threads of ``run_in_executor``, and whatever enters ``outside``) is waited for before time moves on.

Timers are kept in whole microseconds, and the system is asked nothing while it has nothing to say: a turn of this loop
costs less than one of asyncio's, of which a simulation takes millions.
"""

import asyncio
import heapq
import selectors
from collections import deque
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import Executor
from contextlib import contextmanager
from contextvars import Context, copy_context
from itertools import count
from typing import Any, TypeVar, TypeVarTuple, Unpack

T = TypeVar("T")
Ts = TypeVarTuple("Ts")
_ROUNDING_US = 0.05  # what may be left over of a whole microsecond after adding up floats
_CLOSED = "Event loop is closed"
_OWN_FILES = 1  # the pipe that wakes the loop from other threads
_MAX_CANCELLED_TIMERS = 100  # that were cancelled, which may stay until their time comes


class StandsStill(RuntimeError):
    """Everything waits and no timer is set: nothing could ever happen again."""


class _Handle(asyncio.Handle):
    """As asyncio's, but made at half the cost: there are several for each thing that happens."""

    __slots__ = ()

    def __init__(self, callback: Any, args: Any, loop: asyncio.AbstractEventLoop, context: Context | None) -> None:
        self._context = copy_context() if context is None else context
        self._loop, self._callback, self._args = loop, callback, args
        self._cancelled = False
        self._repr = self._source_traceback = None


class _Timer(asyncio.TimerHandle):
    """The same, for later."""

    __slots__ = ()

    def __init__(
        self, at_us: int, callback: Any, args: Any, loop: asyncio.AbstractEventLoop, context: Context | None
    ) -> None:
        self._context = copy_context() if context is None else context
        self._loop, self._callback, self._args = loop, callback, args
        self._cancelled = False
        self._repr = self._source_traceback = None
        self._when, self._scheduled = at_us / 1e6, True

    def cancel(self) -> None:
        if not self._cancelled:
            if self._scheduled:
                self._loop._timer_handle_cancelled(self)  # type: ignore[attr-defined]
            self._cancelled, self._callback, self._args = True, None, ()


class VirtualLoop(asyncio.SelectorEventLoop):
    """See the module. Use it with ``run``, or ``asyncio.Runner(loop_factory=VirtualLoop)``."""

    _ready: deque[asyncio.Handle]
    _selector: selectors.BaseSelector
    _closed: bool
    _stopping: bool

    def __init__(self) -> None:
        self.now_us = 0  # microseconds since the loop was made
        self._now_s = 0.0
        self._outside_waiters = 0  # how many wait for the real world
        self._timers: list[tuple[int, int, _Timer]] = []
        self._cancelled = 0  # of the timers
        self._order = count()
        self._quiet_waiters: list[asyncio.Future[None]] = []
        super().__init__()
        self._files = self._selector._fd_to_key  # type: ignore[attr-defined]  # its map counts them in Python

    def time(self) -> float:
        """Virtual seconds since the loop was made."""
        return self._now_s

    async def quiet(self) -> None:
        """Until everything that is due at this very moment has been done; no time passes."""
        done = self.create_future()
        self._quiet_waiters.append(done)
        await done

    def call_at(
        self, when: float, callback: Callable[[Unpack[Ts]], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.TimerHandle:
        """As ever, at a whole microsecond: whoever wakes finds that the time it waited for has come."""
        return self._set(when, callback, args, context)

    def call_later(
        self, delay: float, callback: Callable[[Unpack[Ts]], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.TimerHandle:
        """As ever."""
        return self._set(self._now_s + delay, callback, args, context)

    def _set(self, when: float, callback: Any, args: Any, context: Context | None) -> _Timer:
        if self._closed:
            raise RuntimeError(_CLOSED)
        exact_us = when * 1e6
        at_us = round(exact_us)
        if exact_us - at_us > _ROUNDING_US:
            at_us += 1
        if at_us == self.now_us and when > self._now_s:
            at_us += 1  # else whoever waits for what is left over would wake at once, and wait again, for ever
        timer = _Timer(at_us, callback, args, self, context)
        heapq.heappush(self._timers, (at_us, next(self._order), timer))
        return timer

    def call_soon(
        self, callback: Callable[[Unpack[Ts]], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.Handle:
        """As ever."""
        if self._closed:
            raise RuntimeError(_CLOSED)
        handle = _Handle(callback, args, self, context)
        self._ready.append(handle)
        return handle

    @contextmanager
    def outside(self) -> Iterator[None]:
        """While entered, time stands still and the loop waits for the real world."""
        self._outside_waiters += 1
        try:
            yield
        finally:
            self._outside_waiters -= 1

    def run_in_executor(
        self, executor: Executor | None, func: Callable[[Unpack[Ts]], T], *args: *Ts
    ) -> asyncio.Future[T]:
        """As ever; threads are of the real world, so time stands still until it is done."""
        future = super().run_in_executor(executor, func, *args)
        self._outside_waiters += 1
        future.add_done_callback(self._on_executor_done)
        return future

    async def shutdown_default_executor(self, *args: Any) -> None:
        """As ever; its threads are waited for in real time."""
        with self.outside():
            await super().shutdown_default_executor(*args)

    def close(self) -> None:
        """As ever; what was to come does not."""
        super().close()
        self._timers.clear()
        self._quiet_waiters.clear()

    def _on_executor_done(self, _: object) -> None:
        self._outside_waiters -= 1

    # --- one turn, in place of the base's

    def _run_once(self) -> None:
        """Turn after turn: the base would only ask after each whether it is to stop."""
        ready, timers, files = self._ready, self._timers, self._files
        while True:
            if self._outside_waiters or len(files) > _OWN_FILES:
                self._poll_real_world()
            if not ready and not self._stopping and not self._outside_waiters:
                self._advance_time()
            while timers and timers[0][0] <= self.now_us:
                timer = heapq.heappop(timers)[2]
                timer._scheduled = False
                ready.append(timer)
            self._run_ready()
            if self._stopping:
                return

    def _run_ready(self) -> None:
        """Everything that is ready now; what becomes ready meanwhile has to wait for the next turn."""
        ready = self._ready
        for _ in range(len(ready)):
            handle = ready.popleft()
            if not handle._cancelled:
                handle._run()

    def _poll_real_world(self) -> None:
        """Whether the real world has something to say; and if it is waited for and nothing else is left, wait."""
        busy = self._ready or self._stopping or (self._timers and self._timers[0][0] <= self.now_us)
        found = self._selector.select(None if self._outside_waiters and not busy else 0)
        self._process_events(found)  # type: ignore[attr-defined]

    def _advance_time(self) -> None:
        """Nothing is left to do at this moment."""
        timers = self._timers
        while timers and timers[0][2]._cancelled:
            heapq.heappop(timers)[2]._scheduled = False
            self._cancelled -= 1
        if timers and timers[0][0] <= self.now_us:
            return
        if self._quiet_waiters:
            for done in self._quiet_waiters:
                if not done.done():
                    done.set_result(None)
            self._quiet_waiters.clear()
        elif timers:
            self.now_us = timers[0][0]
            self._now_s = self.now_us / 1e6
        elif len(self._files) > _OWN_FILES:
            self._process_events(self._selector.select(None))  # type: ignore[attr-defined]
        else:
            raise StandsStill(
                "everything waits, and no timer is set: nothing could ever happen again; "
                "enter the clock's outside() around what waits for a thread or another process"
            )

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        """The base is told by each timer; those that are many and will never ring are thrown away."""
        if not handle._scheduled:  # type: ignore[attr-defined]
            return
        self._cancelled += 1
        timers = self._timers
        if self._cancelled > _MAX_CANCELLED_TIMERS and 2 * self._cancelled > len(timers):
            # The one that is just being cancelled is not marked so yet, and stays for this time.
            for _, _, timer in timers:
                timer._scheduled = not timer._cancelled
            timers[:] = [each for each in timers if not each[2]._cancelled]
            heapq.heapify(timers)
            self._cancelled = 1


def run(main: Coroutine[Any, Any, T]) -> T:
    """``asyncio.run`` in virtual time."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(main)
