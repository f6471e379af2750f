"""Writes around running executions: claim, settle, and everything that may happen in between."""

from dataclasses import dataclass
from typing import Any, NamedTuple

from chronos.core.execution import AttemptStatus, Cause, Status
from chronos.core.node import Actor
from chronos.core.reasons import ReasonCode
from chronos.store.commands.base import SYSTEM, Command


class Claimed(NamedTuple):
    """An execution that is now this node's to run."""

    id: bytes
    job: bytes
    version: int
    cause: Cause
    scheduled_us: int
    attempt: int
    token: int
    admitted_us: int
    started_us: int  # of its first attempt
    worked_us: int
    detail: str | None
    last_run_us: int | None = None  # the newest instant of its job whose run has ended


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim(Command[list[Claimed]]):
    """Take the best-ranked ready executions of some lanes: running, owner, next token, start recorded.

    Disjoint from every other claim; up to ``limit``, best-ranked first among what no other transaction holds. While
    there is room, those of ``late_lanes`` follow, but only what has been ready since its instant or longer. Sent again
    after an error, with the same ``request``, it answers what it took the first time.
    """

    lanes: tuple[int, ...]
    limit: int
    node: int
    now_us: int
    request: bytes
    late_lanes: tuple[tuple[int, int], ...] = ()  # (lane, ready since): meant for others, who did not come in time


class EndedAttempt(NamedTuple):
    """One ended try, for the record."""

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
    """Something that must follow an outcome: a dependent, a hook, an alert. At least once."""

    kind: str
    target: str
    body: str  # JSON


class SettleRow(NamedTuple):
    """The end of an execution, by whoever holds its token."""

    id: bytes
    job: bytes
    token: int
    status: Status
    code: ReasonCode
    message: str | None  # None: the code's usual sentence
    finished_us: int
    detail: str | None = None  # JSON; None keeps what the execution carries
    attempts: tuple[EndedAttempt, ...] = ()  # those not recorded yet
    follow: tuple[FollowUp, ...] = ()
    dead_letter: bool = False


class Settled(NamedTuple):
    settled: list[bytes]  # ids; one that is missing was refused: its token is no longer current
    taken: list[Claimed]  # queued successors handed over to the asking node
    woken: int  # queued successors that became ready for anyone
    outbox_items: int = 0  # outbox items that were written


@dataclass(frozen=True, slots=True, kw_only=True)
class Settle(Command[Settled]):
    """Move executions to history, free their gates, wake what was queued behind them, fill the outbox: one transaction.

    A row is refused, and changes nothing, when the execution is not running under its token. A row that was settled
    before with the same token and status is a success. Woken successors in ``take_lanes`` are handed over running, at
    most ``take`` of them; the others become ready. A concurrency key that comes free goes to whoever is ranked best of
    all who wait for it, whichever their jobs; where a concurrent engine cannot tell, ``Wake`` finds them. Each
    execution at most once a command.
    """

    rows: tuple[SettleRow, ...]
    node: int
    now_us: int
    take: int = 0
    take_lanes: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SettleWith(Command[Settled]):
    """Settle one execution together with statements of the user's own, in the same transaction and the same database.

    When the token is no longer current nothing happens, and ``settled`` is empty; one that was settled before with the
    same token and status is a success, and the statements are not run again. Raises ``Invalid`` with the database's
    message when a statement fails: then nothing was applied. Placeholders are ``$1`` on PostgreSQL, ``?`` or ``$1`` on
    SQLite; only statements that read and write rows are taken, one each.
    """

    row: SettleRow
    statements: tuple[tuple[str, tuple[Any, ...]], ...]
    node: int
    now_us: int


class AdvanceRow(NamedTuple):
    id: bytes
    token: int
    detail: str  # JSON: the task runs as they stand now
    attempts: tuple[EndedAttempt, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Advance(Command[list[bytes]]):
    """Record ended tasks and started successors within running executions. Answers the ids whose token held."""

    rows: tuple[AdvanceRow, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AdvanceWith(Command[bool]):
    """Advance one execution together with statements of the user's own, as ``SettleWith`` does for the last task.

    Answers whether the token held; if not, nothing happens. Sent again, it does nothing more: the row's last attempt,
    which is the one that the statements belong to, is on record then.
    """

    row: AdvanceRow
    statements: tuple[tuple[str, tuple[Any, ...]], ...]


class SuspendRow(NamedTuple):
    """A running execution goes to sleep until ``wake_us`` (None: not by itself) or a signal, whichever comes first."""

    id: bytes
    token: int
    wake_us: int | None
    signals: tuple[str, ...]  # any of them wakes it
    attempt: int  # the number its next try has
    worked_us: int
    detail: str | None = None
    attempts: tuple[EndedAttempt, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Suspend(Command[list[bytes]]):
    """Running to waiting: no slot, no owner, still counted by its gate. Answers the ids that went to sleep.

    One that was asked to cancel ends canceled instead.
    """

    rows: tuple[SuspendRow, ...]
    now_us: int


class ReleaseRow(NamedTuple):
    id: bytes
    token: int
    worked_us: int = 0
    detail: str | None = None  # JSON; None keeps what the execution carries
    attempts: tuple[EndedAttempt, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Release(Command[list[bytes]]):
    """Running back to ready without spending an attempt: the node shuts down. Answers the ids given back.

    One that was asked to cancel ends canceled instead.
    """

    rows: tuple[ReleaseRow, ...]
    now_us: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Wake(Command[int]):
    """Waiting executions whose time has come become ready, at most ``limit``, earliest first. Answers how many.

    So does what is queued although its gate and its concurrency key have room, best-ranked first.
    """

    now_us: int
    limit: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Signal(Command[bool]):
    """Wake an execution that waits for this signal among others; its detail gets the payload under ``signals.<name>``.

    Answers False when it is open but does not wait for it. Raises ``NotFound`` when it is not open.
    """

    execution: bytes
    name: str
    payload: str  # JSON
    now_us: int
    actor: Actor = SYSTEM


@dataclass(frozen=True, slots=True, kw_only=True)
class CancelExecution(Command[Status]):
    """Cancel one execution: what has not started ends now (answer: canceled), what runs is asked to (answer: running).

    Raises ``NotFound`` when there is none, ``Conflict`` when it has ended otherwise.
    """

    execution: bytes
    now_us: int
    message: str | None = None
    actor: Actor = SYSTEM


class OutputRow(NamedTuple):
    """A small part of what one try wrote, or (``PROGRESS``) how far it says it is."""

    execution: bytes
    task: str
    number: int  # of the try
    part: int
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteOutput(Command[None]):
    """Keep output and logs of tries; a part that is there already is replaced. Goes with its execution's history.

    Rows of executions that are not known (any more) are passed over.
    """

    rows: tuple[OutputRow, ...]


PROGRESS = -1  # as ``part``: the progress of a try, as JSON
