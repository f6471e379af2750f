"""``time.sleep`` in a job under test: it returns at once, and its time passes when the function returns.

A test must not really wait, and virtual time cannot pass in the middle of a sync function, because that function
occupies the event loop. So the time is added at the end of the attempt, where it counts for durations, timeouts and
overlaps. A warning explains it, once per job.
"""

import asyncio
import time
import warnings
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from chronos.core.outcome import Outcome
from chronos.runners.contract import AttemptCall, Runner, Stop
from chronos.runners.python.function_registry import Function, FunctionRegistry

_real_sleep = time.sleep


class BlockingSleepWarning(UserWarning):
    """A job under test called ``time.sleep``."""


class _AttemptSleeps:
    """The seconds that one attempt slept with ``time.sleep``."""

    def __init__(self, job: str, function: Function | None, warned: set[str]) -> None:
        self._job, self._function, self._warned = job, function, warned
        self.total_s = 0.0

    def add(self, seconds: float) -> None:
        if not seconds >= 0:
            _real_sleep(seconds)  # raises the usual error
        self.total_s += seconds
        if self._job not in self._warned:
            self._warned.add(self._job)
            warnings.warn(self._explain(seconds), BlockingSleepWarning, stacklevel=3)

    def _explain(self, seconds: float) -> str:
        if self._function is not None and self._function.is_async:
            return (
                f'the job "{self._job}" calls time.sleep({seconds:g}) in an async function, which blocks every other '
                f"job of the program; use await asyncio.sleep({seconds:g})"
            )
        return (
            f'the job "{self._job}" calls time.sleep({seconds:g}): in a test it returns at once, and its time passes '
            f"when the function returns; use await asyncio.sleep({seconds:g}) in an async function to let time pass "
            "at that line"
        )


_current_attempt: ContextVar[_AttemptSleeps | None] = ContextVar("chronos_attempt_sleeps", default=None)


def _sleep(seconds: float) -> None:
    """Replace ``time.sleep``: really sleep unless the caller is a job under test."""
    attempt = _current_attempt.get()
    if attempt is None:
        _real_sleep(seconds)
    else:
        attempt.add(seconds)


@contextmanager
def replace_sleep(functions: Iterable[Function]) -> Iterator[None]:
    """Replace ``time.sleep`` during the block, also where the module of a function has imported it by name."""
    namespaces = [vars(time), *(getattr(function.call, "__globals__", {}) for function in functions)]
    places = [(names, name) for names in namespaces for name, value in names.items() if value is _real_sleep]
    for names, name in places:
        names[name] = _sleep
    try:
        yield
    finally:
        for names, name in places:
            names[name] = _real_sleep


async def _let_time_pass(seconds: float, stop: Stop) -> None:
    """Wait in virtual time, until the attempt must stop."""
    try:
        async with asyncio.timeout(seconds):
            await stop.wait()
    except TimeoutError:
        pass
    except asyncio.CancelledError:
        task = asyncio.current_task()
        if task is None or not stop.requested:
            raise
        task.uncancel()  # the runner of an async function cancels its task to stop it


class SleepWatchingRunner:
    """Runs functions with another runner, and lets the time of their ``time.sleep`` pass afterwards."""

    def __init__(self, runner: Runner, functions: FunctionRegistry) -> None:
        self._runner, self._functions = runner, functions
        self._warned: set[str] = set()  # jobs

    def check(self, options: Mapping[str, Any]) -> None:
        """Check the options."""
        self._runner.check(options)

    async def run(self, call: AttemptCall) -> Outcome:
        """Make the attempt."""
        attempt = _AttemptSleeps(call.job_name, self._functions.get(call.options["name"]), self._warned)
        token = _current_attempt.set(attempt)
        try:
            outcome = await self._runner.run(call)
        finally:
            _current_attempt.reset(token)
        if attempt.total_s:
            await _let_time_pass(attempt.total_s, call.stop)
        return outcome

    async def close(self) -> None:
        """Close the other runner."""
        await self._runner.close()
