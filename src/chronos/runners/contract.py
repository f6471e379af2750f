"""The contract of a runner: make one attempt of one task, and stop when told to.

A runner knows nothing of retries, timeouts or the store. It receives an ``AttemptCall`` and returns an ``Outcome``::

    call ──► run ──► Succeeded | Failed | Waits
              ▲
       call.stop is requested: end the work soon and cleanly (SIGTERM, a flag, closing the connection)
       the coroutine is cancelled: kill the work, and return only when nothing of it is left. Work that cannot be
       killed is abandoned after a last timeout, if the runner has set call.on_abandon, which is called then

``AttemptRun`` turns the outcome of a stopped call into timed out, canceled or released, by the reason of the stop. If
the work still succeeds, that counts, unless ``Stop.overrides_success`` is set: the work noticed the stop, or its
timeout had passed.
"""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum, StrEnum
from typing import Any, Protocol

from chronos.core.execution_detail import RecordedTask
from chronos.core.ids import attempt_id, task_run_id
from chronos.core.outcome import Outcome
from chronos.core.planner import CoveredSpan


class StopReason(Enum):
    """Why an attempt must end early."""

    TIMEOUT = "timeout"  # of the task or of the execution
    CANCELED = "canceled"
    SHUTDOWN = "shutdown"  # the grace period of a shutdown is over


class HookInput(StrEnum):
    """What a hook receives as its payload. A function may take all of it as a parameter of this name."""

    OCCURRENCE = "occurrence"  # on_start
    REPORT = "report"  # on_complete


class Stop:
    """A request to stop an attempt. It can be read from any thread, but must be requested and awaited on the loop."""

    __slots__ = ("_callbacks", "overrides_success", "reason")

    def __init__(self) -> None:
        self.reason: StopReason | None = None
        self.overrides_success = False  # a success no longer counts: the work noticed the stop, or timed out
        self._callbacks: list[Callable[[], None]] = []

    @property
    def requested(self) -> bool:
        return self.reason is not None

    def request(self, reason: StopReason) -> None:
        """Request the stop; the first reason counts."""
        if self.reason is not None:
            return
        self.reason = reason
        if reason is StopReason.TIMEOUT:
            self.overrides_success = True
        for callback in self._callbacks:
            callback()
        self._callbacks.clear()

    def close(self) -> None:
        """Drop the callbacks: the attempt is over, and later requests have no effect."""
        self._callbacks.clear()

    def on_request(self, callback: Callable[[], None]) -> None:
        """Call ``callback`` on the loop when the stop is requested; at once if it already is."""
        if self.reason is not None:
            callback()
        else:
            self._callbacks.append(callback)

    async def wait(self) -> StopReason:
        """Wait until the stop is requested."""
        if self.reason is None:
            requested = asyncio.get_running_loop().create_future()
            self.on_request(lambda: None if requested.done() else requested.set_result(None))
            await requested
        assert self.reason is not None
        return self.reason


class Sink(Protocol):
    """Where an attempt's output goes. It keeps the head and the tail of long output."""

    def write(self, text: str) -> None:
        """Add output. Safe from any thread."""

    def progress(self, done: float, total: float | None) -> None:
        """Report how far the work is. Safe from any thread."""


@dataclass(slots=True, kw_only=True)
class AttemptCall:
    """One attempt of one task: everything that a runner may know."""

    execution: bytes
    job: bytes
    job_name: str
    namespace: str
    task: str
    number: int  # the attempt, from 1
    token: int
    scheduled_us: int
    started_us: int
    deadline_us: int | None  # wall time, for information; the caller enforces it
    has_timeout: bool = True  # False: no setting has a timeout, so the runner's default applies
    timeout_factor: float = 1.0  # lengthens the runner's own timeouts, after a retry
    last_run_us: int | None
    options: Mapping[str, Any] = field(repr=False)  # of the target; may contain credentials
    payload: Any = field(default=None, repr=False)  # of the trigger, or of the job; for a hook, its input
    hook: HookInput | None = None  # None: the call is a task, not a hook
    span: CoveredSpan | None = None
    stop: Stop = field(default_factory=Stop)
    stopping: Stop = field(
        default_factory=Stop
    )  # requested when the node shuts down: finish soon, nothing is killed yet
    sink: Sink
    grace_s: float = 30.0  # from asking to killing
    timeout_grace_s: float = 2.0  # the same after a timeout
    signals: Mapping[str, Any] = field(default_factory=dict)  # received by this execution
    memory: list[RecordedTask] = field(default_factory=list)  # durable calls; stored after the attempt
    detail: dict[str, Any] = field(default_factory=dict)  # for the attempt's record: exit_code, response …
    statements: list[tuple[str, tuple[Any, ...]]] = field(default_factory=list)  # SQL that commits with the task
    on_abandon: Callable[[], None] | None = None  # set by a runner that can abandon its work

    @property
    def task_run_id(self) -> bytes:
        """The id of the task within the execution: the same for all of its attempts."""
        return task_run_id(self.execution, self.task)

    @property
    def attempt_id(self) -> bytes:
        """The id of the attempt."""
        return attempt_id(self.execution, self.task, self.number)


class Runner(Protocol):
    """The runner of one kind of target."""

    def check(self, options: Mapping[str, Any]) -> None:
        """Raise ``Invalid`` or, better, ``InvalidOptions`` with every fault, if a job with these options could never
        run.

        Called when a job is saved.
        """

    async def run(self, call: AttemptCall) -> Outcome:
        """Make the attempt. Errors of the work are outcomes (``Failed``), never exceptions."""

    async def close(self) -> None:
        """Release pools, workers and connections that are kept between calls. Idempotent."""
