"""What a runner promises: to make one attempt of one task, and to stop when it is told.

A runner knows nothing of retries, timeouts or the store. It is given a ``AttemptCall`` and gives an ``Outcome``::

    call ──► run ──► Succeeded | Failed | Waits
              ▲
       call.stop is asked: end the work in good order, soon (SIGTERM, a flag, closing the connection)
       the coroutine is cancelled: end it now, by force; return only when nothing of it is left. Work that cannot be
       ended is left behind after a last chance, if the runner has set call.on_abandon, which is called then

An ``Attempt`` turns a call that was stopped into timed out, canceled or released, by the reason of the stop. If the
work still succeeds, that counts, unless ``Stop.late`` is set: the work noticed the stop, or its time was over.
"""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Protocol

from chronos.core.execution_detail import RecordedTask
from chronos.core.outcome import Outcome
from chronos.core.planner import CoveredSpan


class StopReason(Enum):
    """Why an attempt is to end before its time."""

    TIMEOUT = "timeout"  # its own, or that of the execution
    CANCELED = "canceled"
    SHUTDOWN = "shutdown"  # the grace period of a shutdown is over


class Stop:
    """Asks an attempt to stop. Safe to look at from any thread; asked and awaited on the loop's own."""

    __slots__ = ("_callbacks", "overrides_success", "reason")

    def __init__(self) -> None:
        self.reason: StopReason | None = None
        self.overrides_success = (
            False  # success counts no more: the work was told to stop and knows it, or its time is over
        )
        self._callbacks: list[Callable[[], None]] = []

    @property
    def requested(self) -> bool:
        return self.reason is not None

    def request(self, reason: StopReason) -> None:
        """Ask; the first reason counts."""
        if self.reason is not None:
            return
        self.reason = reason
        if reason is StopReason.TIMEOUT:
            self.overrides_success = True
        for callback in self._callbacks:
            callback()
        self._callbacks.clear()

    def close(self) -> None:
        """The attempt is over: nothing hears of it when it is asked now."""
        self._callbacks.clear()

    def on_request(self, callback: Callable[[], None]) -> None:
        """Call back, on the loop, when it is asked; at once if it has been."""
        if self.reason is not None:
            callback()
        else:
            self._callbacks.append(callback)

    async def wait(self) -> StopReason:
        """Until it is requested."""
        if self.reason is None:
            requested = asyncio.get_running_loop().create_future()
            self.on_request(lambda: None if requested.done() else requested.set_result(None))
            await requested
        assert self.reason is not None
        return self.reason


class Sink(Protocol):
    """Where an attempt's output goes. It keeps the head and the tail of what is too long."""

    def write(self, text: str) -> None:
        """Add output. Safe from any thread."""

    def progress(self, done: float, total: float | None) -> None:
        """Say how far the work is. Safe from any thread."""


@dataclass(slots=True, kw_only=True)
class AttemptCall:
    """One attempt of one task: all that a runner may know."""

    execution: bytes
    job: bytes
    job_name: str
    namespace: str
    task: str
    number: int  # of the attempt, from 1
    token: int
    scheduled_us: int
    started_us: int
    deadline_us: int | None  # wall time, for the work to know; whoever calls keeps it
    has_timeout: bool = True  # False: no level sets a timeout, and the runner's own default counts
    last_run_us: int | None
    options: Mapping[str, Any] = field(repr=False)  # of the target; they hold credentials
    payload: Any = field(default=None, repr=False)  # as triggered, or the job's own
    span: CoveredSpan | None = None
    stop: Stop = field(default_factory=Stop)
    stopping: Stop = field(default_factory=Stop)  # the node shuts down: finish soon, nothing is forced yet
    sink: Sink
    grace_s: float = 30.0  # from asking to forcing; a runner that kills may use it to tell its children
    timeout_grace_s: float = 2.0  # the same after a timeout, its own or that of the execution
    signals: Mapping[str, Any] = field(default_factory=dict)  # that came for this execution
    memory: list[RecordedTask] = field(default_factory=list)  # durable steps; what the runner leaves here is stored
    detail: dict[str, Any] = field(default_factory=dict)  # for the attempt's record: exit_code, response …
    statements: list[tuple[str, tuple[Any, ...]]] = field(default_factory=list)  # SQL to commit with its completion
    on_abandon: Callable[[], None] | None = None  # set by a runner that can leave work to itself which does not end


class Runner(Protocol):
    """One kind of target."""

    def check(self, options: Mapping[str, Any]) -> None:
        """Raise ``Invalid``, naming the option, when a job with these could never run; better ``InvalidOptions``,
        naming all that are wrong. Called when it is saved.
        """

    async def run(self, call: AttemptCall) -> Outcome:
        """Make the attempt. Errors of the work are outcomes (``Failed``), never exceptions."""

    async def close(self) -> None:
        """Let go of what is kept between calls: pools, workers, connections. Idempotent."""
