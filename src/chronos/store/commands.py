"""Every write, as a value: all of its time, ids and randomness are inside, so applying it is deterministic.

A command is applied whole or not at all. ``Admit`` and ``Settle`` carry rows of many jobs that stand for themselves:
each row is applied whole, those of different jobs perhaps in different transactions. Hot commands answer row by row: a
row that lost a race is simply not among the answers, never an error. ``R`` is what applying the command answers.

Rows are plain tuples, because tens of thousands of them pass here each second.
"""

from dataclasses import dataclass, field
from typing import Generic, NamedTuple, TypeVar

from chronos.core.execution import AttemptStatus, Cancel, Cause, Span, Status
from chronos.core.job import JobSpec, JobState
from chronos.core.node import Actor
from chronos.core.policy import GateSpec
from chronos.core.reasons import Code

R = TypeVar("R")
SYSTEM = Actor()


class Command(Generic[R]):
    """Marks a write; ``R`` is its answer."""

    __slots__ = ()


# --- admission ---------------------------------------------------------------------------------------------------


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

    Compare-and-set on (next_us, version, active) as for ``Admit``; a lost race answers an empty list. Runs that do not
    fit the queue are not admitted, and the cursor then stays at the first of them (``Recover`` is sent again later).
    """

    job: bytes
    version: int
    expect_us: int
    next_us: int | None
    runs: tuple[RunRow, ...]
    spans: tuple[Span, ...]
    now_us: int


class Triggered(NamedTuple):
    id: bytes
    status: Status
    created: bool  # False: the same idempotency key had created it before


@dataclass(frozen=True, slots=True, kw_only=True)
class Trigger(Command[Triggered]):
    """Create one asked-for execution, paused or not. The cursor is not touched.

    The same ``idempotency`` key within the job's namespace answers the same execution. Raises ``NotFound`` when the
    job is gone, ``QueueFull`` when its queue is full.
    """

    job: bytes
    run: RunRow
    now_us: int
    idempotency: str | None = None
    actor: Actor = SYSTEM


# --- claim, run, settle ------------------------------------------------------------------------------------------


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim(Command[list[Claimed]]):
    """Take the best-ranked ready executions of some lanes: running, owner, next token, start recorded.

    Disjoint from every other claim; up to ``limit``, best-ranked first among what no other transaction holds. Sent
    again after an error, with the same ``request``, it answers what it took the first time.
    """

    lanes: tuple[int, ...]
    limit: int
    node: int
    now_us: int
    request: bytes


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


class Follow(NamedTuple):
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
    code: Code
    message: str | None  # None: the code's usual sentence
    finished_us: int
    detail: str | None = None  # JSON; None keeps what the execution carries
    attempts: tuple[EndedAttempt, ...] = ()  # of multi-task executions, those not recorded yet
    follow: tuple[Follow, ...] = ()
    dead_letter: bool = False


class Settled(NamedTuple):
    settled: list[bytes]  # ids; one that is missing was refused: its token is no longer current
    taken: list[Claimed]  # queued successors handed over to the asking node
    woken: int  # queued successors that became ready for anyone


@dataclass(frozen=True, slots=True, kw_only=True)
class Settle(Command[Settled]):
    """Move executions to history, free their gates, wake what was queued behind them, fill the outbox: one transaction.

    A row is refused, and changes nothing, when the execution is not running under its token. A row that was settled
    before with the same token and status is a success. Woken successors in ``take_lanes`` are handed over running, at
    most ``take`` of them; the others become ready. Each execution at most once a command.
    """

    rows: tuple[SettleRow, ...]
    node: int
    now_us: int
    take: int = 0
    take_lanes: tuple[int, ...] = ()


class AdvanceRow(NamedTuple):
    id: bytes
    token: int
    detail: str  # JSON: the task runs as they stand now
    attempts: tuple[EndedAttempt, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Advance(Command[list[bytes]]):
    """Record ended tasks and started successors within running executions. Answers the ids whose token held."""

    rows: tuple[AdvanceRow, ...]


class SuspendRow(NamedTuple):
    """A running execution goes to sleep until ``wake_us`` or a signal, whichever comes first; None: not by itself."""

    id: bytes
    token: int
    wake_us: int | None
    signal: str | None
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Release(Command[list[bytes]]):
    """Running back to ready without spending an attempt: the node shuts down. Answers the ids given back.

    One that was asked to cancel ends canceled instead.
    """

    rows: tuple[ReleaseRow, ...]
    now_us: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Wake(Command[int]):
    """Waiting executions whose time has come become ready, at most ``limit``, earliest first. Answers how many."""

    now_us: int
    limit: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Signal(Command[bool]):
    """Wake an execution that waits for this signal; its detail gets the payload under ``signals.<name>``.

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


# --- nodes ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class RegisterNode(Command[int]):
    """A process starts: answers its number, the same one when the same incarnation is sent again."""

    name: str
    incarnation: bytes
    now_us: int
    slots: int = 0
    labels: dict[str, str] = field(default_factory=dict)


class Held(NamedTuple):
    """What the store says a node holds."""

    id: bytes
    token: int
    cancel: Cancel


class Beaten(NamedTuple):
    alive: bool  # False: the node was declared dead; it must stop its work and register anew
    held: list[Held]


@dataclass(frozen=True, slots=True, kw_only=True)
class Beat(Command[Beaten]):
    """A heartbeat: the node's beat becomes ``beat`` if that is newer. Answers what the store says the node holds."""

    node: int
    beat: int
    now_us: int


class ReapRow(NamedTuple):
    """The verdict on one execution of a dead node: ready (tried again) or a final status."""

    id: bytes
    job: bytes
    token: int
    status: Status
    code: Code
    attempt: int  # the number its next try has
    lost: EndedAttempt
    detail: str | None = None
    follow: tuple[Follow, ...] = ()
    dead_letter: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Reap(Command[list[bytes]]):
    """Take work from a node whose beat still is ``beat``; otherwise nothing happens. Marks it dead when ``last``.

    Answers the ids reaped. Gates are freed and successors woken (to ready) as by ``Settle``. What would be tried again
    ends canceled when it was asked to cancel.
    """

    node: int
    beat: int
    rows: tuple[ReapRow, ...]
    now_us: int
    last: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class StopNode(Command[None]):
    """A node has shut down in good order."""

    node: int
    now_us: int


# --- jobs ----------------------------------------------------------------------------------------------------------

NEW = 0  # as ``expect``: the job must not exist


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRow:
    """One job to save, with what follows from its spec worked out."""

    namespace: str
    name: str
    spec: JobSpec
    gate: GateSpec
    next_us: int | None
    state: JobState = JobState.ACTIVE
    expect: int | None = None  # the version it was made from; NEW; None: whatever is there


class Saved(NamedTuple):
    id: bytes
    version: int
    created: bool
    changed: bool  # False: the same spec was there already, nothing was written


@dataclass(frozen=True, slots=True, kw_only=True)
class SaveJobs(Command[list[Saved]]):
    """Create or replace jobs, all or none. Each name at most once.

    A new version re-configures what is ready or queued in the same transaction, and wakes queued executions where the
    new limit has room. Raises ``Conflict`` naming the first job that is not at its expected version.
    """

    rows: tuple[JobRow, ...]
    now_us: int
    actor: Actor = SYSTEM


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteJob(Command[None]):
    """Delete a job: what is ready, queued or waiting is canceled, what runs is asked to stop; its history remains.

    Raises ``NotFound``, or ``Conflict`` when it is not at ``expect``.
    """

    job: bytes
    now_us: int
    expect: int | None = None
    actor: Actor = SYSTEM


@dataclass(frozen=True, slots=True, kw_only=True)
class SetJobState(Command[None]):
    """Pause, resume, disable, enable. Pausing holds what is ready and queued, except what was asked for by hand.

    Resuming lets go of it, moves the cursor to ``next_us`` and records the instants in between as ``spans``.
    Raises ``NotFound``, or ``Conflict`` when the job is not at ``expect``.
    """

    job: bytes
    state: JobState
    now_us: int
    next_us: int | None = None
    keep_cursor: bool = False
    spans: tuple[Span, ...] = ()
    note: str = ""
    expect: int | None = None
    actor: Actor = SYSTEM


# --- upkeep --------------------------------------------------------------------------------------------------------


class OutboxItem(NamedTuple):
    id: bytes
    kind: str
    target: str
    execution: bytes
    body: str
    created_us: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TakeOutbox(Command[list[OutboxItem]]):
    """Take the oldest outbox items that no living node holds; sent again, a node gets its own again."""

    node: int
    limit: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AckOutbox(Command[None]):
    """These have been dealt with."""

    ids: tuple[bytes, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DropDeadLetters(Command[int]):
    """Forget dead letters (their executions stay in history). Answers how many there were."""

    executions: tuple[bytes, ...]
    now_us: int
    actor: Actor = SYSTEM


@dataclass(frozen=True, slots=True, kw_only=True)
class Trim(Command[int]):
    """Delete history that no job wants to keep any more, at most ``limit`` rows; answers how many went.

    Bounded work: it looks only at jobs that ran often enough since they were trimmed last, and at the oldest rows.
    """

    now_us: int
    limit: int


#: Commands that answer row by row and never refuse as a whole.
HOT = (Admit, Claim, Settle, Advance, Suspend, Release, Wake, Beat)
