"""Settings of the Python interpreter, and helpers for its event loop and signals."""

import asyncio
import gc
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager

#: By default, a thread may wait 5 ms for the interpreter lock. The store's writer thread needs the lock for
#: microseconds, many times per second.
_SWITCH_INTERVAL_S = 0.0002
_GC_THRESHOLDS = (50_000, 20, 20)  # new objects, and collections of the younger generations


def shorten_switch_interval() -> None:
    """Let threads that need the interpreter briefly, such as the writer thread, get it sooner."""
    sys.setswitchinterval(_SWITCH_INTERVAL_S)


def tune_garbage_collector() -> None:
    """Collect less often: objects made at startup stay, and few later ones form reference cycles."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*_GC_THRESHOLDS)


@contextmanager
def collect_garbage_rarely() -> Iterator[None]:
    """Collect less often during the block, which makes very many objects that stay."""
    before = gc.get_threshold()
    gc.set_threshold(*_GC_THRESHOLDS)
    try:
        yield
    finally:
        gc.set_threshold(*before)


def is_on_loop() -> bool:
    """Return whether the caller runs on an event loop."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


async def wait_for_task_or_signal(
    task: "asyncio.Task[None]", signals: "asyncio.Queue[signal.Signals]"
) -> signal.Signals | None:
    """Wait until a task ends or a signal arrives. Returns the signal, or None."""
    next_signal = asyncio.create_task(signals.get())
    await asyncio.wait([task, next_signal], return_when=asyncio.FIRST_COMPLETED)
    if next_signal.done():
        return next_signal.result()
    next_signal.cancel()
    return None
