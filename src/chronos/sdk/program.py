"""``app.run()``: a program that does nothing but run its jobs, until it is told to end."""

import asyncio
import logging
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from chronos.interpreter import settle_memory, share_quickly
from chronos.sdk.home import WrongLoop
from chronos.sdk.runtime import Runtime

log = logging.getLogger("chronos.sdk")

_SIGNALS = (signal.SIGTERM, signal.SIGINT)


def serve(runtime: Runtime) -> int:
    """Run until a signal comes or the app is stopped; gives the status to exit with."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        share_quickly()
        return asyncio.run(_serve(runtime))
    raise WrongLoop("app.run() makes an event loop, and one runs here already; write: async with app")


async def _serve(runtime: Runtime) -> int:
    await runtime.home.settle()
    told: asyncio.Queue[signal.Signals] = asyncio.Queue()
    with _signals(told):
        try:
            await runtime.start()
        except BaseException:
            await runtime.home.leave()
            raise
        settle_memory()
        over = asyncio.create_task(runtime.over())
        await _first(over, told)
        leaving = asyncio.create_task(runtime.home.leave())
        await _first(leaving, told)
        if not leaving.done():
            await runtime.hurry()
        await leaving
    over.cancel()
    [error] = await asyncio.gather(over, return_exceptions=True)
    if not isinstance(error, Exception):
        return 0
    log.error("the engine broke, and the app ends", exc_info=error)
    return 1


async def _first(task: "asyncio.Task[None]", told: "asyncio.Queue[signal.Signals]") -> None:
    """Wait for a task to end, or for a signal."""
    signalled = asyncio.create_task(told.get())
    await asyncio.wait([task, signalled], return_when=asyncio.FIRST_COMPLETED)
    signalled.cancel()


@contextmanager
def _signals(told: "asyncio.Queue[signal.Signals]") -> Iterator[None]:
    """Signals go to the queue; outside the main thread a program gets none."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    loop = asyncio.get_running_loop()
    for number in _SIGNALS:
        loop.add_signal_handler(number, told.put_nowait, number)
    try:
        yield
    finally:
        for number in _SIGNALS:
            loop.remove_signal_handler(number)
