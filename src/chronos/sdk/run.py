"""One execution, as something to wait for."""

import asyncio
from contextlib import suppress
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from chronos.errors import Invalid, NotFound
from chronos.sdk.home_loop import LoopResult, OnHomeLoop, at_home, blocking
from chronos.sdk.info import RunFailed, RunInfo, run_info
from chronos.sdk.job_options import Duration, seconds
from chronos.service.serializers import id_text, read_id
from chronos.store.commands import PROGRESS

if TYPE_CHECKING:
    from chronos.sdk.runtime import Runtime

_SOONEST_S = 0.005  # how often the store is asked for an execution that another process may run
_RAREST_S = 0.5


class Run(OnHomeLoop):
    """An execution. Everything about it is asked of the store, so it may run in any process, or be long over."""

    def __init__(self, runtime: "Runtime", execution: bytes, job: str) -> None:
        self._runtime = runtime
        self._home = runtime.home
        self._execution = execution
        self.id = id_text(execution)
        self.job = job

    @at_home
    async def ainfo(self) -> RunInfo:
        """The execution as it stands."""
        session = await self._runtime.session()
        execution = (await session.service.runs.get(self._execution)).execution
        return run_info(execution, await session.service.runs.report(execution))

    async def astatus(self) -> str:
        """How it stands: ready, queued, running, waiting, succeeded, failed …"""
        return (await self.ainfo()).status

    @at_home
    async def await_(self, timeout: Duration | None = None) -> RunInfo:  # noqa: ASYNC109
        """Wait until it is over, however it ends. Raises ``TimeoutError``; the execution then goes on."""
        session = await self._runtime.session()
        limit_s = None if timeout is None else wait_s(timeout)
        async with asyncio.timeout(limit_s):
            with session.ending(self._execution) as ended:
                pause_s = _SOONEST_S
                while not (info := await self.ainfo()).is_over:
                    with suppress(TimeoutError):
                        async with asyncio.timeout(pause_s):
                            await ended.wait()
                        ended.clear()  # it may be told a moment before it is written
                        pause_s = 0.0
                    pause_s = min(max(pause_s * 1.5, _SOONEST_S), _RAREST_S)
                return info

    async def aresult(self, timeout: Duration | None = None) -> Any:  # noqa: ASYNC109
        """Wait for it and give its result. Raises ``RunFailed`` when it did not succeed, or ``TimeoutError``."""
        info = await self.await_(timeout)
        if not info.succeeded:
            raise RunFailed(self.job, info)
        return info.result

    @at_home
    async def acancel(self, reason: str | None = None) -> None:
        """Cancel it: what has not started never will; what runs is asked to stop.

        Raises ``Conflict`` when it has ended otherwise.
        """
        session = await self._runtime.session()
        await session.service.runs.cancel(self._execution, message=reason)

    @at_home
    async def asignal(self, name: str, payload: Any = None) -> bool:
        """Send it a signal. Gives False when it does not wait for this one."""
        session = await self._runtime.session()
        return await session.service.runs.signal(self._execution, name, payload)

    @at_home
    async def areplay(self, *, from_failed: bool = False, reason: str | None = None) -> "Run":
        """Run it again as a new execution, all of it or without what succeeded. Raises ``Conflict`` when not over."""
        session = await self._runtime.session()
        asked = await session.service.runs.replay(self._execution, from_failed=from_failed, reason=reason)
        return Run(self._runtime, asked.id, self.job)

    @at_home
    async def alog(self) -> str:
        """What its tasks wrote, oldest first; of much output the head and the tail."""
        session = await self._runtime.session()
        rows = await session.service.runs.output(self._execution)
        return "".join(row.text for row in rows if row.part != PROGRESS)

    info = blocking(ainfo)
    status = LoopResult(astatus)
    wait = blocking(await_)
    result = blocking(aresult)
    cancel = blocking(acancel)
    signal = blocking(asignal)
    replay = blocking(areplay)
    log = LoopResult(alog)

    def _called(self, method: str) -> str:
        return f"run.{method}(…)"

    def __repr__(self) -> str:
        return f"<Run {self.id} of {self.job}>"


def execution_bytes(text: str) -> bytes:
    """The id of an execution as the store knows it."""
    found = read_id(text)
    if found is None:
        raise NotFound(f"{text!r} is no id of an execution; those look like {id_text(bytes(16))}")
    return found


def wait_s(timeout: Duration) -> float:
    """How long to wait, in seconds; what is over already is not waited for."""
    if isinstance(timeout, timedelta):
        return timeout.total_seconds()
    if isinstance(timeout, str):
        return seconds(timeout, "timeout")
    if isinstance(timeout, bool) or not isinstance(timeout, int | float):
        raise Invalid(f'timeout is {timeout!r}; give a number of seconds, a timedelta or text like "90s"')
    return timeout
