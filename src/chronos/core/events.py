"""What happened, as typed values for whoever watches in this process: metrics, logs, alerts, the page.

The durable log is the records themselves; an event only says that one was written. Nobody watching costs nothing.
"""

from dataclasses import dataclass

from chronos.core.execution import AttemptStatus, Cause, Status
from chronos.core.reasons import Code


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """Something that happened at ``at_us``."""

    at_us: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutionAdmitted(Event):
    """An execution was created: ready, queued, running or, at once, skipped, which has a reason."""

    execution: bytes
    job: bytes
    cause: Cause
    status: Status
    code: Code | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutionStarted(Event):
    """This node began to work on an execution. ``late_us``: after its instant."""

    execution: bytes
    job: bytes
    attempt: int
    late_us: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptEnded(Event):
    """One try of one task is over."""

    execution: bytes
    job: bytes
    task: str
    number: int
    status: AttemptStatus
    duration_us: int
    error: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutionWaits(Event):
    """An execution went to sleep: a retry's backoff or a durable wait."""

    execution: bytes
    job: bytes
    wake_us: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutionEnded(Event):
    """An execution came to its final status."""

    execution: bytes
    job: bytes
    status: Status
    code: Code
    duration_us: int
    message: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GapFound(Event):
    """A job was behind: so many instants are recovered, so many left out."""

    job: bytes
    strategy: str
    runs: int
    left_out: int


@dataclass(frozen=True, slots=True, kw_only=True)
class JobBroken(Event):
    """A job cannot be scheduled by this node, which goes on without it."""

    job: bytes
    error: str


@dataclass(frozen=True, slots=True, kw_only=True)
class JobChanged(Event):
    """A job was saved, deleted, paused, resumed."""

    job: bytes
    action: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeLost(Event):
    """A node died; its work was taken over."""

    node: int
    reaped: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ClockJumped(Event):
    """Wall time moved against monotonic time by so much."""

    by_us: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Trouble(Event):
    """Something that a person should know: a store that cannot be reached, skew, a thread that ignores cancelling."""

    where: str
    error: str
