"""Events of the engine, for watchers in the same process: metrics and logs.

The durable record of what happened is in the store. An event only announces that a record was written.
"""

from msgspec import Struct

from chronos.core.execution import AttemptStatus, Cause, Status
from chronos.core.reasons import ReasonCode


class Event(Struct, frozen=True, kw_only=True):
    """Something that happened at ``at_us``."""

    at_us: int


class ExecutionAdmitted(Event, frozen=True, kw_only=True):
    """An execution was created as ready, queued, running or skipped. ``code`` is the reason of a skip."""

    execution: bytes
    job: bytes
    cause: Cause
    status: Status
    code: ReasonCode | None = None


class ExecutionStarted(Event, frozen=True, kw_only=True):
    """This node started an execution, ``late_us`` after its instant."""

    execution: bytes
    job: bytes
    attempt: int
    late_us: int


class AttemptEnded(Event, frozen=True, kw_only=True):
    """An attempt of a task ended."""

    execution: bytes
    job: bytes
    task: str
    number: int
    status: AttemptStatus
    duration_us: int
    error: str | None = None
    traceback: str | None = None  # of a Python function that raised


class ExecutionWaits(Event, frozen=True, kw_only=True):
    """An execution was suspended: for a retry's backoff or a durable wait."""

    execution: bytes
    job: bytes
    wake_us: int | None


class ExecutionEnded(Event, frozen=True, kw_only=True):
    """An execution reached its final status."""

    execution: bytes
    job: bytes
    status: Status
    code: ReasonCode
    duration_us: int
    message: str | None = None


class GapFound(Event, frozen=True, kw_only=True):
    """A job missed instants: ``runs`` of them run now, ``left_out`` do not."""

    job: bytes
    strategy: str
    runs: int
    left_out: int


class JobUnschedulable(Event, frozen=True, kw_only=True):
    """This node cannot schedule a job and continues without it."""

    job: bytes
    error: str


class JobLeftAlone(Event, frozen=True, kw_only=True):
    """This node does not schedule a job, because only other programs have its custom schedule."""

    job: bytes
    reason: str


class WorkUnclaimable(Event, frozen=True, kw_only=True):
    """No live node can take ready work of a queue. ``error`` says what is missing."""

    queue: str
    error: str


class JobChanged(Event, frozen=True, kw_only=True):
    """A job was saved, deleted, paused or resumed."""

    job: bytes
    action: str


class NodeLost(Event, frozen=True, kw_only=True):
    """A node died and this node took over its executions. Emitted once per death."""

    node: int
    reaped: int


class ClockJumped(Event, frozen=True, kw_only=True):
    """The wall clock moved by ``by_us`` against the monotonic clock."""

    by_us: int


class ProblemReported(Event, frozen=True, kw_only=True):
    """A problem for an operator: an unreachable store, clock skew, a thread that ignores cancellation."""

    where: str
    error: str
    duty: str = ""  # the duty of the node that failed because of the store
