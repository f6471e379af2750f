"""Executions, tasks and attempts: their statuses, transitions and records."""

from dataclasses import dataclass
from enum import IntEnum
from typing import Any

from msgspec import Struct

from chronos.core.reasons import Reason, ReasonCode
from chronos.core.settings.levels import NO_LEVELS


class Status(IntEnum):
    """The status of an execution: open below 10, a problem from 20 on."""

    READY = 1  # waits for a slot
    QUEUED = 2  # waits behind an earlier execution
    RUNNING = 3
    WAITING = 4  # suspended for a retry's backoff or a durable wait; holds no slot
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
    """The status of a task within one execution, over all its attempts."""

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
    """The status of one attempt."""

    RUNNING = 1
    SUCCEEDED = 10
    FAILED = 11
    TIMED_OUT = 12
    CANCELED = 13
    LOST = 14  # its node died


class Cause(IntEnum):
    """Why an execution exists. Only a scheduled one may be skipped for overlap."""

    SCHEDULE = 1
    RECOVERY = 2
    BACKFILL = 3
    MANUAL = 4
    REPLAY = 5
    DEPENDENCY = 6

    @property
    def requested(self) -> bool:
        """Whether it must not be skipped: ``overlap: skip`` then acts as ``queue``."""
        return self is not Cause.SCHEDULE


def due_us(cause: Cause, scheduled_us: int, admitted_us: int) -> int:
    """Return when an execution should start: at its instant, or when it was admitted if it was requested.

    A request for a later time is delayed until then.
    """
    return scheduled_us if cause in (Cause.SCHEDULE, Cause.RECOVERY) else max(scheduled_us, admitted_us)


class CancelRequest(IntEnum):
    """Why a running execution should stop."""

    NO = 0
    REQUESTED = 1  # by a user
    REPLACED = 2  # by a newer execution of its job
    DELETED = 3  # with its job

    @property
    def code(self) -> ReasonCode:
        """The reason code of an execution that is stopped in this way."""
        return _CODES[self]


_CODES = {
    CancelRequest.REQUESTED: ReasonCode.CANCELED,
    CancelRequest.REPLACED: ReasonCode.REPLACED,
    CancelRequest.DELETED: ReasonCode.JOB_DELETED,
}


#: The transition table of executions. ``None``: not created yet.
TRANSITIONS: dict[Status | None, frozenset[Status]] = {
    None: frozenset({Status.READY, Status.QUEUED, Status.RUNNING, Status.SKIPPED, Status.MISSED}),
    Status.READY: frozenset({Status.RUNNING, Status.QUEUED, Status.CANCELED}),  # queued again when the limit shrinks
    Status.QUEUED: frozenset({Status.READY, Status.RUNNING, Status.CANCELED}),
    Status.RUNNING: frozenset(
        {
            Status.READY,  # released by a node that shuts down, or lost and retried
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
    # A replay keeps tasks that succeeded before, and skips tasks that were not chosen.
    None: frozenset({TaskStatus.PENDING, TaskStatus.SUCCEEDED, TaskStatus.SKIPPED}),
    TaskStatus.PENDING: frozenset({TaskStatus.RUNNING, TaskStatus.WAITING, TaskStatus.CANCELED, TaskStatus.SKIPPED}),
    TaskStatus.RUNNING: frozenset(TaskStatus) - {TaskStatus.PENDING, TaskStatus.RUNNING},
    TaskStatus.RETRYING: frozenset({TaskStatus.RUNNING, TaskStatus.FAILED, TaskStatus.CANCELED}),
    TaskStatus.WAITING: frozenset(
        {TaskStatus.RUNNING, TaskStatus.SUCCEEDED, TaskStatus.TIMED_OUT, TaskStatus.CANCELED}
    ),
    **{status: frozenset() for status in TaskStatus if status.final},
}


def is_allowed_transition(old: Status | None, new: Status) -> bool:
    """Return whether an execution may go from one status to another."""
    return new in TRANSITIONS[old]


class Attempt(Struct, frozen=True, kw_only=True):
    """One attempt of a task: when and where it ran, and how it ended."""

    execution: bytes
    task: str
    number: int
    status: AttemptStatus
    started_us: int
    finished_us: int | None = None
    node: int | None = None
    error: str | None = None
    detail: dict[str, Any] | None = None  # exit code, response or other facts from its target


class Execution(Struct, frozen=True, kw_only=True):
    """One firing of a job: the group of its tasks, and the lock on its instant."""

    id: bytes
    job: bytes
    job_version: int
    levels: int = NO_LEVELS  # the defaults and namespace settings it was admitted under
    cause: Cause
    scheduled_us: int
    status: Status
    reason: Reason | None = None
    attempt: int = 1
    token: int = 0
    node: int | None = None
    admitted_us: int
    started_us: int | None = None
    attempt_us: int | None = None  # start of its last attempt
    finished_us: int | None = None
    wake_us: int | None = None
    cancel: CancelRequest = CancelRequest.NO
    held: bool = False
    worked_us: int = 0  # time of earlier attempts, which counts against the execution timeout
    detail: dict[str, Any] | None = None  # payload, tasks, result, error, replay_of, span, report

    @property
    def recovered(self) -> bool:
        return self.cause is Cause.RECOVERY


class Span(Struct, frozen=True, kw_only=True):
    """A range of instants that did not run, recorded together with the reason."""

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
    """A failed execution without attempts left. A person decides whether to replay or discard it."""

    execution: bytes
    job: bytes
    namespace: str
    failed_us: int
    reason: Reason
