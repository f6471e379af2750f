"""Commands for running executions: claim, settle, and everything in between."""

from dataclasses import dataclass
from typing import Any, NamedTuple

from chronos.core.execution import AttemptStatus, Cause, Status
from chronos.core.node import Actor
from chronos.core.reasons import ReasonCode
from chronos.core.settings.levels import NO_LEVELS
from chronos.store.commands.base import SYSTEM, Command


class Claimed(NamedTuple):
    """An execution that now runs on the claiming node."""

    id: bytes
    job: bytes
    version: int
    cause: Cause
    scheduled_us: int
    attempt: int
    token: int
    admitted_us: int
    started_us: int  # start of its first attempt
    worked_us: int  # time of earlier attempts; counts against the execution timeout
    detail: str | None
    levels: int = NO_LEVELS  # see ``core.settings.levels``
    last_run_us: int | None = None  # the newest instant of its job whose execution has ended


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim(Command[list[Claimed]]):
    """Claim ready executions for a node.

    Each gets the status running, the node as owner, its next token and a start time.

    - Atomic: an execution is claimed by exactly one command.
    - Ordered: best-ranked first, among executions that no other transaction has locked. Executions of ``lanes`` come
      first, then those of ``late_lanes``.
    - Bounded: ``limit`` executions. In ``late_lanes`` only executions that have been ready since the given time.
    - Returned: the claimed executions. Resent with the same ``request``, the executions that were claimed the first
      time.
    """

    lanes: tuple[int, ...]
    limit: int
    node: int
    now_us: int
    request: bytes
    late_lanes: tuple[
        tuple[int, int], ...
    ] = ()  # (lane, ready since): meant for other nodes, which have not claimed them


class EndedAttempt(NamedTuple):
    """One ended attempt, as it is recorded."""

    execution: bytes
    task: str
    number: int
    status: AttemptStatus
    started_us: int
    finished_us: int
    node: int | None
    error: str | None = None
    detail: str | None = None  # JSON


class FollowUp(NamedTuple):
    """An outbox item that follows an outcome: a dependent job, a hook or an alert. Delivered at least once."""

    kind: str
    target: str
    body: str  # JSON


class SettleRow(NamedTuple):
    """The end of one execution, sent by the holder of its token."""

    id: bytes
    job: bytes
    token: int
    status: Status
    code: ReasonCode
    message: str | None  # None: the default sentence of the code
    finished_us: int
    detail: str | None = None  # JSON; None keeps the current detail
    attempts: tuple[EndedAttempt, ...] = ()  # attempts that are not recorded yet
    follow: tuple[FollowUp, ...] = ()
    dead_letter: bool = False


class Settled(NamedTuple):
    """The answer of ``Settle`` and ``SettleWith``."""

    settled: list[
        bytes
    ]  # ids of the settled rows; a row that is missing was rejected, because its token is no longer current
    started_successors: list[Claimed]  # queued successors that now run on the sending node
    woken: int  # number of queued successors that became ready
    outbox_items: int = 0  # number of outbox items written


@dataclass(frozen=True, slots=True, kw_only=True)
class Settle(Command[Settled]):
    """End executions.

    - Atomic: per row, moves the execution to history, frees its gate, wakes its queued successors, records attempts and
      dead letters, and fills the outbox.
    - Returned: see ``Settled``. A row whose execution does not run under its token is rejected and changes nothing. A
      row that was settled before with the same token and status counts as settled.
    - Successors: up to ``take`` successors in ``take_lanes`` start on ``node``; the others become ready. A freed
      concurrency key goes to the best-ranked queued execution of any job. If another transaction has locked the gate
      of that execution, a later ``Wake`` makes it ready.
    - Bounded: each execution at most once per command.
    """

    rows: tuple[SettleRow, ...]
    node: int
    now_us: int
    take: int = 0
    take_lanes: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SettleWith(Command[Settled]):
    """Settle one execution and run the user's SQL statements in the same transaction.

    - Atomic: the settlement and all statements, or nothing.
    - Returned: see ``Settle``. If the token is no longer current, nothing happens and ``settled`` is empty. If the row
      was settled before, the statements are not run again.
    - Raised: ``Invalid`` with the database's message if a statement fails or is not allowed; nothing is applied.
    - Statements: one per entry, and only such that read or write rows. Placeholders are ``$1`` on PostgreSQL, ``?`` or
      ``$1`` on SQLite.
    """

    row: SettleRow
    statements: tuple[tuple[str, tuple[Any, ...]], ...]
    node: int
    now_us: int


class AdvanceRow(NamedTuple):
    """Progress of the tasks of one running execution."""

    id: bytes
    token: int
    detail: str  # JSON: the current state of the tasks
    attempts: tuple[EndedAttempt, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Advance(Command[list[bytes]]):
    """Record ended tasks and started tasks of running executions.

    - Atomic: all rows in one transaction. A row whose token is no longer current changes nothing.
    - Returned: the ids whose token was current.
    """

    rows: tuple[AdvanceRow, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AdvanceWith(Command[bool]):
    """Advance one execution and run the user's SQL statements in the same transaction, as ``SettleWith`` does.

    - Atomic: the progress and all statements, or nothing.
    - Returned: whether the token was current; if not, nothing happens.
    - Resent: the statements are not run again, because the row's last attempt, to which they belong, is recorded.
    - Raised: as ``SettleWith``.
    """

    row: AdvanceRow
    statements: tuple[tuple[str, tuple[Any, ...]], ...]


class SuspendRow(NamedTuple):
    """A running execution that waits until ``wake_us`` (None: no time) or for a signal, whichever comes first."""

    id: bytes
    token: int
    wake_us: int | None
    signals: tuple[str, ...]  # any of them wakes it
    attempt: int  # number of its next attempt
    worked_us: int
    detail: str | None = None
    attempts: tuple[EndedAttempt, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Suspend(Command[list[bytes]]):
    """Make running executions wait. A waiting execution has no slot and no owner; its gate still counts it.

    - Atomic: all rows in one transaction. A row whose token is no longer current changes nothing.
    - Canceled: an execution that was asked to cancel ends as canceled instead.
    - Returned: the ids that now wait.
    """

    rows: tuple[SuspendRow, ...]
    now_us: int


class ReleaseRow(NamedTuple):
    """A running execution that becomes ready again."""

    id: bytes
    token: int
    worked_us: int = 0
    detail: str | None = None  # JSON; None keeps the current detail
    attempts: tuple[EndedAttempt, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Release(Command[list[bytes]]):
    """Make running executions ready again without using up an attempt, because their node shuts down.

    - Atomic: all rows in one transaction. A row whose token is no longer current changes nothing.
    - Canceled: an execution that was asked to cancel ends as canceled instead.
    - Returned: the ids that are ready again.
    """

    rows: tuple[ReleaseRow, ...]
    now_us: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Wake(Command[int]):
    """Make executions ready.

    These are waiting ones whose ``wake_us`` has passed, and queued ones behind a concurrency key that has room.

    - Ordered: waiting executions earliest first; queued ones, whose gate and concurrency key have room, best-ranked
      first.
    - Bounded: ``limit`` waiting executions, and the queues of ``limit`` concurrency keys.
    - Returned: the number made ready.
    """

    now_us: int
    limit: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Signal(Command[bool]):
    """Wake an execution that waits for this signal. Its detail gets the payload under ``signals.<name>``.

    - Returned: False, with nothing changed, if the execution is open but does not wait for this signal.
    - Raised: ``NotFound`` if the execution is not open.
    """

    execution: bytes
    name: str
    payload: str  # JSON
    now_us: int
    actor: Actor = SYSTEM


@dataclass(frozen=True, slots=True, kw_only=True)
class CancelExecution(Command[Status]):
    """Cancel one execution.

    - Returned: ``CANCELED`` if the execution has ended as canceled; an execution that does not run ends at once.
      ``RUNNING`` if it runs; its node is asked to stop it.
    - Raised: ``NotFound`` if the execution does not exist; ``Conflict`` if it has ended with another status.
    """

    execution: bytes
    now_us: int
    message: str | None = None
    actor: Actor = SYSTEM


class OutputRow(NamedTuple):
    """A part of the output of one attempt, or its progress (``part`` is ``PROGRESS``)."""

    execution: bytes
    task: str
    number: int  # of the attempt
    part: int
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteOutput(Command[None]):
    """Store output and logs of attempts. They are deleted with the history of their execution.

    - Idempotent: a part that exists is replaced.
    - Ignored: rows of executions that do not exist.
    """

    rows: tuple[OutputRow, ...]


PROGRESS = -1  # as ``part``: the text is the progress of the attempt, as JSON
