"""``app.run()``: a program that does nothing but run its jobs, until it is told to end."""

import asyncio
import logging
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from chronos.assembly import hide_url_password, is_in_memory
from chronos.core.calendar import rfc3339
from chronos.core.job import JobState
from chronos.observe.stderr_log import log_to_stderr
from chronos.sdk.home_loop import WrongLoop
from chronos.sdk.runtime import Runtime
from chronos.tuning import is_on_loop, shorten_switch_interval, tune_garbage_collector, wait_for_task_or_signal

log = logging.getLogger("chronos.sdk")

_SIGNALS = (signal.SIGTERM, signal.SIGINT)
_NAMED = 5  # jobs that are named when the program starts


def serve(runtime: Runtime) -> int:
    """Run until a signal comes or the app is stopped; gives the status to exit with."""
    if is_on_loop():
        raise WrongLoop("app.run() makes an event loop, and one runs here already; write: async with app")
    shorten_switch_interval()
    with log_to_stderr():
        return asyncio.run(_serve(runtime))


async def _serve(runtime: Runtime) -> int:
    await runtime.home.settle()
    told: asyncio.Queue[signal.Signals] = asyncio.Queue()
    with _signals(told):
        try:
            await runtime.start()
        except BaseException:
            await runtime.home.leave()
            raise
        tune_garbage_collector()
        log.info("%s", greeting(runtime))
        over = asyncio.create_task(runtime.over())
        if (number := await wait_for_task_or_signal(over, told)) is not None:
            log.info("%s: stopping; %s", number.name, parting(await runtime.busy(), runtime.options.grace_s))
        leaving = asyncio.create_task(runtime.home.leave())
        await wait_for_task_or_signal(leaving, told)
        if not leaving.done():
            await runtime.end_grace_period()
        await leaving
    over.cancel()
    [error] = await asyncio.gather(over, return_exceptions=True)
    if not isinstance(error, Exception):
        log.info("stopped")
        return 0
    log.error("the engine broke, and the app ends", exc_info=error)
    return 1


def greeting(runtime: Runtime) -> str:
    """What the program runs, on which store, and what comes next."""
    jobs = sorted(runtime.saved, key=lambda job: job.name)
    names = ", ".join(job.name for job in jobs[:_NAMED]) + (f" and {len(jobs) - _NAMED} more" if jobs[_NAMED:] else "")
    what = f"{len(jobs)} job{'' if len(jobs) == 1 else 's'} ({names})" if jobs else "no jobs of its own"
    where = "in memory" if is_in_memory(runtime.url) else f"on {hide_url_password(runtime.url)}"
    coming = [(job.next_us, job.name) for job in jobs if job.state is JobState.ACTIVE and job.next_us is not None]
    if coming:
        next_us, name = min(coming)
        after = f"next: {name} at {rfc3339(next_us)}"
    else:
        after = "nothing is scheduled, so it waits for triggers"
    return f"{runtime.options.node_name} runs {what} {where}; {after}"


def parting(busy: int, grace_s: float) -> str:
    """What a program that stops waits for."""
    if not busy:
        return "nothing runs"
    return f"{busy} execution{' has' if busy == 1 else 's have'} {grace_s:g} s to finish"


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
