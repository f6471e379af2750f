"""The interpreter of a process that runs Chronos: its settings, its event loop and its signals."""

import asyncio
import gc
import signal
import sys

#: Python lets a thread that waits for the interpreter have it after 5 ms, unless the other one gives it up before. The
#: store's writer needs it for some microseconds between two statements, many times a second.
_SWITCH_INTERVAL_S = 0.0002
_GC_THRESHOLDS = (50_000, 20, 20)  # objects made, and younger generations looked through


def shorten_switch_interval() -> None:
    """Threads that need the interpreter for a moment do not wait long for those that have much to do."""
    sys.setswitchinterval(_SWITCH_INTERVAL_S)


def tune_garbage_collector() -> None:
    """What is there when all has started stays; and what comes makes thousands of objects, few of them in circles."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*_GC_THRESHOLDS)


def is_on_loop() -> bool:
    """Whether this is called from a coroutine."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


async def wait_for_task_or_signal(
    task: "asyncio.Task[None]", told: "asyncio.Queue[signal.Signals]"
) -> signal.Signals | None:
    """Wait for a task to end, or for a signal, which is returned."""
    signalled = asyncio.create_task(told.get())
    await asyncio.wait([task, signalled], return_when=asyncio.FIRST_COMPLETED)
    if signalled.done():
        return signalled.result()
    signalled.cancel()
    return None
