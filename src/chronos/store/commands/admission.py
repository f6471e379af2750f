"""Writes that bring executions into being: scheduled instants, recovered gaps, what is asked for, what is skipped."""

from dataclasses import dataclass
from typing import NamedTuple

from chronos.core.execution import Cause, Span, Status
from chronos.core.node import Actor
from chronos.core.reasons import ReasonCode
from chronos.store.commands.base import SYSTEM, Command


class AdmitRow(NamedTuple):
    """One instant of one job, expected to stand at ``expect_us`` under ``version``."""

    job: bytes
    version: int
    expect_us: int
    next_us: int | None  # where the cursor goes; None: the schedule ends here, and the job is done
    id: bytes
    ready_us: int  # when it is due, jitter included; what it is ranked by
    claim: bool  # this node can run it and has a slot
    careful: bool = False  # as its gate says: keyed or ``replace``, so not for the hot statement
    key: bytes | None = None  # of its concurrency gate, for keyed jobs
    key_limit: int = 0


class Admitted(NamedTuple):
    id: bytes
    job: bytes
    status: Status  # running (claimed by the asking node), ready, queued or skipped
    token: int
    last_run_us: int | None = None  # as of a ``Claimed``


@dataclass(frozen=True, slots=True, kw_only=True)
class Admit(Command[list[Admitted]]):
    """Move cursors by compare-and-set on (next_us, version, active) and create the executions, decided by their gates.

    Answers the rows that were admitted, in no particular order; a row that is missing was lost to another node, or its
    gate was busy: read the gate again. Each job at most once a command; keyed jobs and ``replace`` are welcome too.
    """

    rows: tuple[AdmitRow, ...]
    node: int
    now_us: int
    request: bytes


class RunRow(NamedTuple):
    """One execution to create under a gate whose cursor moves, or without any cursor."""

    id: bytes
    cause: Cause
    scheduled_us: int
    ready_us: int
    detail: str | None = None  # JSON
    key: bytes | None = None  # of its concurrency gate
    key_limit: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Recover(Command[list[Admitted]]):
    """Judge a gap of one job at once: cursor, runs and spans in one transaction.

    ``overlap: skip`` acts as ``queue`` for all of its runs, those that are merely late (``Cause.SCHEDULE``) included.

    Compare-and-set on (next_us, version, active) as for ``Admit``; a lost race answers an empty list. Runs that do not
    fit the queue are not admitted, and the cursor then stays at the first of them (``Recover`` is sent again later).
    If ``all_or_nothing``, one run that does not fit leaves everything as it was, and the answer is an empty list.
    """

    job: bytes
    version: int
    expect_us: int
    next_us: int | None
    runs: tuple[RunRow, ...]
    spans: tuple[Span, ...]
    now_us: int
    all_or_nothing: bool = False
    others: tuple["Recover", ...] = ()  # gaps of other jobs that were merged into this one: see ``store.command_merge``

    @property
    def parts(self) -> tuple["Recover", ...]:
        """Itself, and what was merged into it."""
        return (self, *self.others)


class Triggered(NamedTuple):
    id: bytes
    status: Status
    created: bool  # False: the same idempotency key had created it before


@dataclass(frozen=True, slots=True, kw_only=True)
class Trigger(Command[Triggered]):
    """Create one asked-for execution, paused or not. The cursor is not touched.

    The same ``idempotency`` key within the job's namespace answers the same execution. Raises ``NotFound`` when the
    job is gone, ``QueueFull`` when its queue is full, or when there is no ``room`` for one that was not known before.
    """

    job: bytes
    run: RunRow
    now_us: int
    idempotency: str | None = None
    actor: Actor = SYSTEM
    room: bool = True
    replay_of: bytes | None = None  # the execution that it repeats, for the audit log


class Backfilled(NamedTuple):
    ids: list[bytes]  # in the order of the runs, those that the same key or command had created before included
    statuses: list[Status]  # of those that were created now


@dataclass(frozen=True, slots=True, kw_only=True)
class Backfill(Command[Backfilled]):
    """Create asked-for executions of one job for past instants, in this order, as many as its queue has room for.

    Paused or not, as ``Trigger``; the cursor is not touched. The first run that does not fit ends it: what was
    answered is there, the rest may be sent later. With the same ``idempotency`` key an instant has the same
    execution. Of those that were not known before, ``room`` are created at most. Raises ``NotFound`` when the job is
    gone.
    """

    job: bytes
    runs: tuple[RunRow, ...]
    now_us: int
    idempotency: str | None = None
    actor: Actor = SYSTEM
    room: int | None = None  # None: for all of them


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordSkip(Command[bool]):
    """Write one execution to history that did not run, because of what a job it follows came to.

    Followers of the job hear of it as of every end. Answers False, and changes nothing, when the execution is known
    already or the job is gone.
    """

    id: bytes
    job: bytes
    cause: Cause
    scheduled_us: int
    code: ReasonCode
    message: str | None  # None: the code's usual sentence
    now_us: int
