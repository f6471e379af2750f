"""What happened, as typed values for whoever watches in this process: metrics, logs, alerts, the page.

The durable log is the records themselves; an event only says that one was written. Nobody watching costs nothing.
"""

from msgspec import Struct

from chronos.core.execution import AttemptStatus, Cause, Status
from chronos.core.reasons import ReasonCode


class Event(Struct, frozen=True, kw_only=True):
    """Something that happened at ``at_us``."""

    at_us: int


class ExecutionAdmitted(Event, frozen=True, kw_only=True):
    """An execution was created: ready, queued, running or, at once, skipped, which has a reason."""

    execution: bytes
    job: bytes
    cause: Cause
    status: Status
    code: ReasonCode | None = None


class ExecutionStarted(Event, frozen=True, kw_only=True):
    """This node began to work on an execution. ``late_us``: after its instant."""

    execution: bytes
    job: bytes
    attempt: int
    late_us: int


class AttemptEnded(Event, frozen=True, kw_only=True):
    """One try of one task is over."""

    execution: bytes
    job: bytes
    task: str
    number: int
    status: AttemptStatus
    duration_us: int
    error: str | None = None
    traceback: str | None = None  # of a function that raised


class ExecutionWaits(Event, frozen=True, kw_only=True):
    """An execution went to sleep: a retry's backoff or a durable wait."""

    execution: bytes
    job: bytes
    wake_us: int | None


class ExecutionEnded(Event, frozen=True, kw_only=True):
    """An execution came to its final status."""

    execution: bytes
    job: bytes
    status: Status
    code: ReasonCode
    duration_us: int
    message: str | None = None


class GapFound(Event, frozen=True, kw_only=True):
    """A job was behind: so many instants are recovered, so many left out."""

    job: bytes
    strategy: str
    runs: int
    left_out: int


class JobUnschedulable(Event, frozen=True, kw_only=True):
    """A job cannot be scheduled by this node, which goes on without it."""

    job: bytes
    error: str


class WorkUnclaimable(Event, frozen=True, kw_only=True):
    """Ready work of a queue that no live node can take; ``error`` says what is missing."""

    queue: str
    error: str


class JobChanged(Event, frozen=True, kw_only=True):
    """A job was saved, deleted, paused, resumed."""

    job: bytes
    action: str


class NodeLost(Event, frozen=True, kw_only=True):
    """A node died, and this node took its work over; emitted once per death."""

    node: int
    reaped: int


class ClockJumped(Event, frozen=True, kw_only=True):
    """Wall time moved against monotonic time by so much."""

    by_us: int


class ProblemReported(Event, frozen=True, kw_only=True):
    """Something that a person should know: a store that cannot be reached, skew, a thread that ignores cancelling."""

    where: str
    error: str
    duty: str = ""  # of the node, which an error of the store kept from being done
