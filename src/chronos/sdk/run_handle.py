"""The handle of one run (an execution): wait for it, cancel it, read its result."""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from chronos.errors import Invalid, NotFound
from chronos.runners.python.typed_values import Converter
from chronos.sdk.home_loop import LoopResult, OnHomeLoop, blocking, on_home_loop
from chronos.sdk.info import RunFailed, RunInfo
from chronos.sdk.info_reader import read_run_info
from chronos.sdk.job_options import Duration, to_seconds
from chronos.service.serializers import id_text, read_id
from chronos.store.commands import PROGRESS

if TYPE_CHECKING:
    from chronos.sdk.runtime import Runtime

R_co = TypeVar("R_co", covariant=True)
_MIN_POLL_S = 0.005  # another process may run the execution, so the store is polled
_MAX_POLL_S = 0.5


class Run(OnHomeLoop):
    """One run of a job: an execution.

    Every method reads the store, so the run may be in any process, or over long ago. ``id`` is its id; ``job`` is the
    name of the job, or empty for a run from ``Chronos.get_run``. ``trigger``, ``backfill`` and ``replay`` return runs.

    Example::

        run = send_report.trigger({"month": "2027-01"})
        print(run.result(timeout="5m"))
    """

    #: The run was enqueued in the program's own transaction: it exists once that is committed and delivered.
    _is_pending = False

    def __init__(self, runtime: "Runtime", execution: bytes, job: str) -> None:
        self._runtime = runtime
        self._home = runtime.home
        self._execution = execution
        self.id = id_text(execution)
        self.job = job

    @on_home_loop
    async def ainfo(self) -> RunInfo:
        """Read the run.

        Returns a ``RunInfo``. Raises ``NotFound`` for an unknown id.
        """
        session = await self._runtime.session()
        info = read_run_info(await session.service.runs.get_json(self._execution, masked=False))
        self.job = self.job or info.job or ""
        return info

    async def astatus(self) -> str:
        """The status: ``ready``, ``queued``, ``running``, ``waiting``, ``succeeded``, ``failed``, …"""
        return (await self.ainfo()).status

    @on_home_loop
    async def await_(self, timeout: Duration | None = None) -> RunInfo:  # noqa: ASYNC109
        """Wait until the run is over, with success or without.

        - ``timeout``: how long to wait, as seconds, a timedelta or text such as ``"90s"``; None waits without limit.

        Returns the ``RunInfo``. Raises ``TimeoutError`` when the run is not over by then; the run continues.
        """
        session = await self._runtime.session()
        limit_s = None if timeout is None else to_timeout_s(timeout)
        async with asyncio.timeout(limit_s):
            with session.watch_end(self._execution) as ended:
                poll_s = _MIN_POLL_S
                while not await self._is_over():
                    with suppress(TimeoutError):
                        async with asyncio.timeout(poll_s):
                            await ended.wait()
                        ended.clear()  # the event may come shortly before the write is visible
                        poll_s = 0.0
                    poll_s = min(max(poll_s * 1.5, _MIN_POLL_S), _MAX_POLL_S)
                return await self.ainfo()

    async def _is_over(self) -> bool:
        """Whether the run is over. A pending run may not exist yet."""
        session = await self._runtime.session()
        try:
            return (await session.service.runs.get(self._execution)).execution.status.final
        except NotFound:
            if self._is_pending:
                return False
            raise

    async def aresult(self, timeout: Duration | None = None) -> Any:  # noqa: ASYNC109
        """Wait until the run is over and return its result.

        - ``timeout``: as in ``wait``.

        Returns the JSON value that the job returned. Raises ``RunFailed`` when the run did not succeed, and
        ``TimeoutError`` when it is not over in time.
        """
        info = await self.await_(timeout)
        if not info.succeeded:
            raise RunFailed(self.job, info)
        return info.result

    @on_home_loop
    async def acancel(self, reason: str | None = None) -> None:
        """Cancel the run.

        A run that has not started never starts. A running one is asked to stop, and forced to when the grace period is
        over.

        - ``reason``: a sentence for the history.

        Raises ``Conflict`` when the run is over already with another status.
        """
        session = await self._runtime.session()
        await session.service.runs.cancel(self._execution, message=reason)

    @on_home_loop
    async def asignal(self, name: str, payload: Any = None) -> bool:
        """Send a signal to a run that waits for it.

        - ``name``: the name of the signal.
        - ``payload``: a JSON value that the waiting task receives.

        Returns False when the run does not wait for this signal. Raises ``NotFound`` when the run is over.
        """
        session = await self._runtime.session()
        return await session.service.runs.signal(self._execution, name, payload)

    @on_home_loop
    async def areplay(
        self, *, from_failed: bool = False, tasks: Sequence[str] | None = None, reason: str | None = None
    ) -> "Run":
        """Run the same work again, as a new run.

        - ``from_failed``: True leaves out the tasks that succeeded.
        - ``tasks``: the names of the tasks to run. The others keep their results, or are skipped if they have none.
        - ``reason``: a sentence for the history.

        Returns the new ``Run``. Raises ``Conflict`` when this run is not over, and ``Invalid`` for an unknown task.
        """
        session = await self._runtime.session()
        replayed = await session.service.runs.replay(
            self._execution, from_failed=from_failed, tasks=tasks, reason=reason
        )
        return Run(self._runtime, replayed.id, self.job)

    @on_home_loop
    async def alog(self) -> str:
        """The output of the tasks, oldest first. Of long output the beginning and the end are kept."""
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

    def _format_call(self, method: str) -> str:
        return f"run.{method}(…)"

    def __repr__(self) -> str:
        return f"<Run {self.id} of {self.job}>"


class TypedRun(Run, Generic[R_co]):
    """One run of a task. ``result`` has the type that the function is annotated to return.

    A run that was enqueued with ``connection=…`` exists after the commit, as soon as a node has delivered it. ``wait``
    and ``result`` wait for that too. After a rollback they wait until their timeout.
    """

    _converter: Converter | None = None

    async def aresult(self, timeout: Duration | None = None) -> R_co:  # noqa: ASYNC109
        """Wait until the run is over and return its result.

        - ``timeout``: as in ``wait``.

        Returns what the function returned. Raises ``RunFailed`` when the run did not succeed, and ``TimeoutError`` when
        it is not over in time.
        """
        value = await super().aresult(timeout)
        result: R_co = value if self._converter is None else self._converter.from_json(value)
        return result

    def result(self, timeout: Duration | None = None) -> R_co:
        """Wait until the run is over and return its result. See ``aresult``."""
        result: R_co = super().result(timeout)
        return result


def read_execution_id(text: str) -> bytes:
    """The id of an execution as the store keeps it. Raises ``NotFound``."""
    execution = read_id(text)
    if execution is None:
        raise NotFound(f"{text!r} is not the id of a run; ids look like {id_text(bytes(16))}")
    return execution


def to_timeout_s(timeout: Duration) -> float:
    """How long to wait, in seconds. Raises ``Invalid``."""
    if isinstance(timeout, timedelta):
        return timeout.total_seconds()
    if isinstance(timeout, str):
        return to_seconds(timeout, "timeout")
    if isinstance(timeout, bool) or not isinstance(timeout, int | float):
        raise Invalid(f'timeout is {timeout!r}; use a number of seconds, a timedelta or text like "90s"')
    return timeout
