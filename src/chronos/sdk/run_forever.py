"""``app.run()``: run the jobs of a program until a signal ends it."""

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
_MAX_NAMED_JOBS = 5  # in the log line of the start


def run_forever(runtime: Runtime) -> int:
    """Run until a signal arrives or the app is stopped. Returns the exit status."""
    if is_on_loop():
        raise WrongLoop("app.run() starts an event loop, and this thread already runs one; write: async with app")
    shorten_switch_interval()
    with log_to_stderr():
        return asyncio.run(_run(runtime))


async def _run(runtime: Runtime) -> int:
    await runtime.home.adopt_running_loop()
    signals: asyncio.Queue[signal.Signals] = asyncio.Queue()
    with _signals_to_queue(signals):
        try:
            await runtime.start()
        except BaseException:
            await runtime.home.release()
            raise
        tune_garbage_collector()
        log.info("%s", describe_start(runtime))
        engine_end = asyncio.create_task(runtime.wait_for_engine_end())
        if (number := await wait_for_task_or_signal(engine_end, signals)) is not None:
            running = await runtime.count_running()
            log.info("%s: stopping; %s", number.name, describe_stop(running, runtime.options.grace_s))
        release = asyncio.create_task(runtime.home.release())
        await wait_for_task_or_signal(release, signals)
        if not release.done():
            await runtime.end_grace_period()
        await release
    engine_end.cancel()
    [error] = await asyncio.gather(engine_end, return_exceptions=True)
    if not isinstance(error, Exception):
        log.info("stopped")
        return 0
    log.error("the engine failed; the app ends", exc_info=error)
    return 1


def describe_start(runtime: Runtime) -> str:
    """The log line of the start: the jobs, the store, and the next run."""
    jobs = sorted(runtime.saved_jobs, key=lambda job: job.name)
    names = ", ".join(job.name for job in jobs[:_MAX_NAMED_JOBS])
    if len(jobs) > _MAX_NAMED_JOBS:
        names += f" and {len(jobs) - _MAX_NAMED_JOBS} more"
    declared = f"{len(jobs)} job{'' if len(jobs) == 1 else 's'} ({names})" if jobs else "no jobs of its own"
    store = "in memory" if is_in_memory(runtime.url) else f"on {hide_url_password(runtime.url)}"
    upcoming = [(job.next_us, job.name) for job in jobs if job.state is JobState.ACTIVE and job.next_us is not None]
    if upcoming:
        next_us, name = min(upcoming)
        next_run = f"next: {name} at {rfc3339(next_us)}"
    else:
        next_run = "nothing is scheduled, so it waits for triggers"
    return f"{runtime.options.node_name} runs {declared} {store}; {next_run}"


def describe_stop(running: int, grace_s: float) -> str:
    """The part of the log line of the stop that says what the program waits for."""
    if not running:
        return "nothing runs"
    return f"{running} execution{' has' if running == 1 else 's have'} {grace_s:g} s to finish"


@contextmanager
def _signals_to_queue(signals: "asyncio.Queue[signal.Signals]") -> Iterator[None]:
    """Put signals into the queue. Outside the main thread a program receives none."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    loop = asyncio.get_running_loop()
    for number in _SIGNALS:
        loop.add_signal_handler(number, signals.put_nowait, number)
    try:
        yield
    finally:
        for number in _SIGNALS:
            loop.remove_signal_handler(number)
