"""What happened and happens: executions, their task runs and attempts, and the one table of status transitions."""

from dataclasses import dataclass
from enum import IntEnum
from typing import Any

from msgspec import Struct

from chronos.core.reasons import Reason, ReasonCode


class Status(IntEnum):
    """Of an execution. Open below 10; from 20 on something went wrong."""

    READY = 1  # admitted, waits for a slot
    QUEUED = 2  # waits behind an earlier one
    RUNNING = 3
    WAITING = 4  # asleep: a retry's backoff or a durable wait; holds no slot
    SUCCEEDED = 10
    SKIPPED = 11
    CANCELED = 12
    COMPLETED_WITH_ERRORS = 20
    FAILED = 21
    STALE = 22
    MISSED = 23

    @property
    def final(self) -> bool:
        return self >= Status.SUCCEEDED


class TaskStatus(IntEnum):
    """Of a task within one execution, over all its tries."""

    PENDING = 1
    RUNNING = 2
    RETRYING = 3
    WAITING = 4
    SUCCEEDED = 10
    FAILED = 11
    TIMED_OUT = 12
    CANCELED = 13
    SKIPPED = 14

    @property
    def final(self) -> bool:
        return self >= TaskStatus.SUCCEEDED


class AttemptStatus(IntEnum):
    """Of one try."""

    RUNNING = 1
    SUCCEEDED = 10
    FAILED = 11
    TIMED_OUT = 12
    CANCELED = 13
    LOST = 14  # its worker died


class Cause(IntEnum):
    """Why an execution exists; also which limits may drop it: what was asked for is never skipped."""

    SCHEDULE = 1
    RECOVERY = 2
    BACKFILL = 3
    MANUAL = 4
    REPLAY = 5
    DEPENDENCY = 6

    @property
    def requested(self) -> bool:
        """Nothing asked for is dropped: ``overlap: skip`` acts as ``queue``."""
        return self is not Cause.SCHEDULE


def due_us(cause: Cause, scheduled_us: int, admitted_us: int) -> int:
    """When an execution should have begun: at its instant, or, if it was asked for, at once."""
    return scheduled_us if cause in (Cause.SCHEDULE, Cause.RECOVERY) else admitted_us


class CancelRequest(IntEnum):
    """What has been asked of a running execution."""

    NO = 0
    REQUESTED = 1  # by a person
    REPLACED = 2  # by a newer execution of its job
    DELETED = 3  # with its job

    @property
    def code(self) -> ReasonCode:
        """Why an execution ends that was asked to stop in this way."""
        return _CODES[self]


_CODES = {
    CancelRequest.REQUESTED: ReasonCode.CANCELED,
    CancelRequest.REPLACED: ReasonCode.REPLACED,
    CancelRequest.DELETED: ReasonCode.JOB_DELETED,
}


#: The one transition table. ``None`` is "not there yet".
TRANSITIONS: dict[Status | None, frozenset[Status]] = {
    None: frozenset({Status.READY, Status.QUEUED, Status.RUNNING, Status.SKIPPED, Status.MISSED}),
    Status.READY: frozenset({Status.RUNNING, Status.QUEUED, Status.CANCELED}),  # queued again: the limit shrank
    Status.QUEUED: frozenset({Status.READY, Status.RUNNING, Status.CANCELED}),
    Status.RUNNING: frozenset(
        {
            Status.READY,  # released by a node that shuts down, or lost and tried again
            Status.WAITING,
            Status.SUCCEEDED,
            Status.COMPLETED_WITH_ERRORS,
            Status.FAILED,
            Status.CANCELED,
            Status.STALE,
        }
    ),
    Status.WAITING: frozenset({Status.READY, Status.CANCELED}),
    **{status: frozenset() for status in Status if status.final},
}

TASK_TRANSITIONS: dict[TaskStatus | None, frozenset[TaskStatus]] = {
    None: frozenset({TaskStatus.PENDING, TaskStatus.SUCCEEDED}),  # a replay carries over what succeeded before
    TaskStatus.PENDING: frozenset({TaskStatus.RUNNING, TaskStatus.WAITING, TaskStatus.CANCELED, TaskStatus.SKIPPED}),
    TaskStatus.RUNNING: frozenset(TaskStatus) - {TaskStatus.PENDING, TaskStatus.RUNNING},
    TaskStatus.RETRYING: frozenset({TaskStatus.RUNNING, TaskStatus.FAILED, TaskStatus.CANCELED}),
    TaskStatus.WAITING: frozenset(
        {TaskStatus.RUNNING, TaskStatus.SUCCEEDED, TaskStatus.TIMED_OUT, TaskStatus.CANCELED}
    ),
    **{status: frozenset() for status in TaskStatus if status.final},
}


def is_allowed_transition(old: Status | None, new: Status) -> bool:
    """Whether an execution may go from one status to another."""
    return new in TRANSITIONS[old]


class Attempt(Struct, frozen=True, kw_only=True):
    """One try of one task: when, where, how it ended."""

    execution: bytes
    task: str
    number: int
    status: AttemptStatus
    started_us: int
    finished_us: int | None = None
    node: int | None = None
    error: str | None = None
    detail: dict[str, Any] | None = None  # exit code, response, whatever its target reports


class Execution(Struct, frozen=True, kw_only=True):
    """One firing of a job at one scheduled instant: the group of its task runs, and the lock."""

    id: bytes
    job: bytes
    job_version: int
    cause: Cause
    scheduled_us: int
    status: Status
    reason: Reason | None = None
    attempt: int = 1
    token: int = 0
    node: int | None = None
    admitted_us: int
    started_us: int | None = None
    attempt_us: int | None = None  # when its last attempt began
    finished_us: int | None = None
    wake_us: int | None = None
    cancel: CancelRequest = CancelRequest.NO
    held: bool = False
    worked_us: int = 0  # of earlier attempts: what counts against the execution timeout
    detail: dict[str, Any] | None = None  # payload, tasks, result, error, replay_of, span, report

    @property
    def recovered(self) -> bool:
        return self.cause is Cause.RECOVERY


class Span(Struct, frozen=True, kw_only=True):
    """A run of instants that did not run, as one record."""

    id: bytes
    job: bytes
    status: Status  # skipped or missed
    from_us: int
    to_us: int
    count: int
    reason: Reason
    recorded_us: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetter:
    """What failed for good and waits for somebody to replay or drop it."""

    execution: bytes
    job: bytes
    namespace: str
    failed_us: int
    reason: Reason
