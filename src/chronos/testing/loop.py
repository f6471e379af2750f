"""The virtual loop: an event loop that jumps to the next timer instead of waiting.

::

    ready ──► run it                              time stands still while anything can run
      │ nothing ready
      ├── ``outside`` is entered ────► really wait; time stands still
      ├── ``quiet`` is awaited ──────► let it return
      ├── a timer is set ────────────► time jumps there
      └── none of these ─────────────► nothing can ever happen again: raise ``StandsStill``

No real time and no threads are involved, so a program does the same things in the same order each time. Before time
moves on, the loop waits for the real world: for threads of ``run_in_executor`` and for blocks in ``outside``.

Timers are integers in microseconds, and the selector is only called if there is something to wait for. So a turn of
this loop is cheaper than one of asyncio, which matters for simulations with millions of turns.
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
_ROUNDING_US = 0.05  # tolerated rounding error of floats
_CLOSED = "Event loop is closed"
_OWN_FILES = 1  # the pipe that wakes the loop from other threads
_MAX_CANCELLED_TIMERS = 100  # cancelled timers that may stay in the heap


class StandsStill(RuntimeError):
    """Everything waits and no timer is set, so nothing can ever happen again."""


class _Handle(asyncio.Handle):
    """An ``asyncio.Handle`` that is cheaper to make, because a loop makes very many."""

    __slots__ = ()

    def __init__(self, callback: Any, args: Any, loop: asyncio.AbstractEventLoop, context: Context | None) -> None:
        self._context = copy_context() if context is None else context
        self._loop, self._callback, self._args = loop, callback, args
        self._cancelled = False
        self._repr = self._source_traceback = None


class _Timer(asyncio.TimerHandle):
    """An ``asyncio.TimerHandle`` that is cheaper to make."""

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
    """An event loop with virtual time. Use it with ``run`` or ``asyncio.Runner(loop_factory=VirtualLoop)``."""

    _ready: deque[asyncio.Handle]
    _selector: selectors.BaseSelector
    _closed: bool
    _stopping: bool

    def __init__(self) -> None:
        self.now_us = 0  # virtual microseconds since the loop was made
        self._now_s = 0.0
        self._outside_waiters = 0  # blocks that wait for the real world
        self._timers: list[tuple[int, int, _Timer]] = []
        self._cancelled = 0  # cancelled timers
        self._order = count()
        self._quiet_waiters: list[asyncio.Future[None]] = []
        super().__init__()
        self._files = self._selector._fd_to_key  # type: ignore[attr-defined]  # faster than get_map()

    def time(self) -> float:
        """Return the virtual seconds since the loop was made."""
        return self._now_s

    async def quiet(self) -> None:
        """Wait until everything that is due now has run. No time passes."""
        done = self.create_future()
        self._quiet_waiters.append(done)
        await done

    def call_at(
        self, when: float, callback: Callable[[Unpack[Ts]], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.TimerHandle:
        """Call at a virtual time, rounded up to a microsecond, so that a waiter never wakes early."""
        return self._set(when, callback, args, context)

    def call_later(
        self, delay: float, callback: Callable[[Unpack[Ts]], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.TimerHandle:
        """Call after a virtual delay."""
        return self._set(self._now_s + delay, callback, args, context)

    def _set(self, when: float, callback: Any, args: Any, context: Context | None) -> _Timer:
        if self._closed:
            raise RuntimeError(_CLOSED)
        exact_us = when * 1e6
        at_us = round(exact_us)
        if exact_us - at_us > _ROUNDING_US:
            at_us += 1
        if at_us == self.now_us and when > self._now_s:
            at_us += (
                1  # a shorter delay than a microsecond must not end at once, or its caller could wait again forever
            )
        timer = _Timer(at_us, callback, args, self, context)
        heapq.heappush(self._timers, (at_us, next(self._order), timer))
        return timer

    def call_soon(
        self, callback: Callable[[Unpack[Ts]], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.Handle:
        """Call in the next turn."""
        if self._closed:
            raise RuntimeError(_CLOSED)
        handle = _Handle(callback, args, self, context)
        self._ready.append(handle)
        return handle

    @contextmanager
    def outside(self) -> Iterator[None]:
        """Mark a block that waits for the real world. Virtual time stands still meanwhile."""
        self._outside_waiters += 1
        try:
            yield
        finally:
            self._outside_waiters -= 1

    def run_in_executor(
        self, executor: Executor | None, func: Callable[[Unpack[Ts]], T], *args: *Ts
    ) -> asyncio.Future[T]:
        """Run a function in a thread. Virtual time stands still until it returns."""
        future = super().run_in_executor(executor, func, *args)
        self._outside_waiters += 1
        future.add_done_callback(self._on_executor_done)
        return future

    async def shutdown_default_executor(self, *args: Any) -> None:
        """Wait for the threads of the default executor, in real time."""
        with self.outside():
            await super().shutdown_default_executor(*args)

    def close(self) -> None:
        """Close the loop and drop its timers."""
        super().close()
        self._timers.clear()
        self._quiet_waiters.clear()

    def _on_executor_done(self, _: object) -> None:
        self._outside_waiters -= 1

    # --- turns, in place of the base class's

    def _run_once(self) -> None:
        """Run turns until the loop is stopped. The base class would run one turn per call."""
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
        """Run everything that is ready now. Callbacks that become ready meanwhile run in the next turn."""
        ready = self._ready
        for _ in range(len(ready)):
            handle = ready.popleft()
            if not handle._cancelled:
                handle._run()

    def _poll_real_world(self) -> None:
        """Process events of the real world. Waits for them if nothing else is left to do."""
        busy = self._ready or self._stopping or (self._timers and self._timers[0][0] <= self.now_us)
        events = self._selector.select(None if self._outside_waiters and not busy else 0)
        self._process_events(events)  # type: ignore[attr-defined]

    def _advance_time(self) -> None:
        """End the current moment: return from ``quiet``, or jump to the next timer."""
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
                "everything waits and no timer is set; if a job waits for a thread or another process, "
                "put the wait into `with clock.outside():`"
            )

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        """Count a cancelled timer, and drop cancelled timers when they are many. Called by ``TimerHandle.cancel``."""
        if not handle._scheduled:  # type: ignore[attr-defined]
            return
        self._cancelled += 1
        timers = self._timers
        if self._cancelled > _MAX_CANCELLED_TIMERS and 2 * self._cancelled > len(timers):
            # The timer that is being cancelled now is not marked yet, so it stays for now.
            for _, _, timer in timers:
                timer._scheduled = not timer._cancelled
            timers[:] = [entry for entry in timers if not entry[2]._cancelled]
            heapq.heapify(timers)
            self._cancelled = 1


def run(main: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine in virtual time, as ``asyncio.run`` does in real time."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(main)
