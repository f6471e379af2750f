"""The store's contract: what every engine promises. These docstrings are its specification, tested on all engines.

Writes are commands (``commands``), applied through one method. Every command is one transaction: all of it or nothing,
durable before it is acknowledged. Engines that apply serially are deterministic: the same commands in the same order
give the same rows. Concurrent engines equal some serial order.

Errors are the same everywhere: ``NotFound``, ``Conflict``, ``Invalid`` are answers about the request; ``Unavailable``
(among them ``StoreUnavailable`` and ``QueueFull``) may be tried again, and a command that was applied although its
answer was lost does no harm when it is sent again; ``StoreBroken`` needs a person.

Reads see what was committed before they began. Lists are keyset-paged: no page costs more than the first.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import IntFlag
from typing import Generic, NamedTuple, Protocol, TypeVar

from chronos.core.execution import Attempt, DeadLetter, Execution, Span, Status
from chronos.core.job import Job, JobSpec, JobState, JobVersion, UpstreamCondition
from chronos.core.node import AuditEntry, Node
from chronos.core.token import ApiToken
from chronos.store.commands import Command, OutboxItem, OutputRow

R = TypeVar("R")
T = TypeVar("T")


class Hint(IntFlag):
    """What there may be to look for."""

    JOBS = 1  # a job was created, changed or resumed: something may be due earlier than known
    READY = 2  # ready executions were left for anyone
    CANCEL = 4  # a running execution was asked to cancel
    OUTBOX = 8  # something must follow an outcome


class DueGate(NamedTuple):
    """A gate whose time comes: what look-ahead needs, and no more."""

    job: bytes
    next_us: int
    version: int
    lane: int
    careful: bool  # to be passed on with its admission


class JobName(NamedTuple):
    """Where a job is, or was, and what it is called there."""

    namespace: str
    name: str


class Depth(NamedTuple):
    """How much stands in one lane."""

    lane: int
    ready: int
    queued: int
    running: int
    waiting: int


class Counts(NamedTuple):
    """How many jobs there are in each state, and open executions in each status."""

    jobs: dict[JobState, int]
    open: dict[Status, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Page(Generic[T]):
    """A page of a list; ``cursor`` asks for the next one, None says that there is none."""

    items: list[T]
    cursor: bytes | None


@dataclass(frozen=True, slots=True, kw_only=True)
class JobFilter:
    """Which jobs to list; what is None or empty does not restrict."""

    namespace: str | None = None
    prefix: str = ""
    contains: str = ""
    tag: tuple[str, str | None] | None = None  # key, and its value where that matters
    state: JobState | None = None
    owner: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutionFilter:
    """Which executions to list."""

    job: bytes | None = None
    status: Status | None = None
    troubled: bool = False  # failed, stale, missed, completed with errors


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutionView:
    """One execution with all of its recorded attempts, oldest first; those of one task by their numbers."""

    execution: Execution
    attempts: list[Attempt]


class Store(Protocol):
    """A place where jobs and executions are kept."""

    async def open(self) -> None:
        """Connect, check that the store is sound and durable, migrate it under a lock.

        Raises ``StoreUnavailable`` or ``StoreBroken`` with a sentence that says what to do.
        """

    async def close(self) -> None:
        """Finish what was sent and let go. Idempotent."""

    async def apply(self, command: Command[R]) -> R:
        """Apply one command in one transaction, together with others that wait (group commit).

        Returns when it is durable. Cancelling the waiter does not cancel the command. What no engine can keep (NUL and
        lone surrogates in a text, numbers beyond 64 bits) is ``Invalid`` on all of them.
        """

    def on_hint(self, callback: Callable[[Hint], None]) -> None:
        """Call back when there may be something to do, by this node's writes or another's, in the event loop.

        A hint: it can be late, double or missing.
        """

    def on_commit(self, callback: Callable[[int, float], None]) -> None:
        """Call back after every transaction of this process with its number of rows and its seconds: for metrics."""

    async def clock_us(self) -> int | None:
        """The store's own clock, where it has one that differs from this machine's."""

    # --- gates and work

    async def due(self, until_us: int, limit: int) -> list[DueGate]:
        """Active gates with ``next_us <= until_us``, earliest first. Its cost does not grow with the number of jobs."""

    async def next_due_us(self) -> int | None:
        """When the next gate is due, or None."""

    async def next_wake_us(self) -> int | None:
        """When the next waiting execution wakes by itself, or None."""

    async def held_by(self, node: int) -> list[Execution]:
        """The running executions of a node."""

    async def running_since(self, before_us: int, limit: int) -> list[Execution]:
        """Running executions whose current attempt began before, longest first. Looks at all that is open."""

    async def lanes(self) -> dict[int, str]:
        """Every lane's number and text."""

    async def ready_lanes(self) -> list[int]:
        """The lanes in which something is ready and not held, by number. Its cost is that of these lanes alone."""

    async def depths(self) -> list[Depth]:
        """How much stands in each lane that has anything."""

    async def counts(self) -> Counts:
        """Totals. Bounded by the number of open executions, not by history; jobs are counted as they change."""

    # --- jobs

    async def jobs_by_id(self, ids: Sequence[bytes]) -> dict[bytes, Job]:
        """Those of the jobs that exist."""

    async def job_named(self, namespace: str, name: str) -> Job | None:
        """The job of a name. Names compare bytewise."""

    async def list_jobs(self, where: JobFilter, *, limit: int, cursor: bytes | None = None) -> Page[Job]:
        """By namespace and name."""

    async def names_of(self, ids: Sequence[bytes]) -> dict[bytes, JobName]:
        """What jobs are called, or were: deleted ones are known for as long as anything of them is on record."""

    async def namespaces(self, *, limit: int) -> list[str]:
        """Those that have jobs, in order. Its cost is that of the namespaces alone, however many jobs they have."""

    async def versions(self, job: bytes, *, limit: int, before: int | None = None) -> list[JobVersion]:
        """Newest first."""

    async def specs_at(self, pairs: Sequence[tuple[bytes, int]]) -> dict[tuple[bytes, int], JobSpec]:
        """What jobs said at some versions, by (job, version): in force, old, or of a job that was deleted."""

    async def followers(self, namespace: str, name: str) -> list[tuple[bytes, UpstreamCondition]]:
        """The jobs that follow the one of this name, by their ids, and on which outcome; it need not exist."""

    # --- executions

    async def list_executions(
        self, where: ExecutionFilter, *, limit: int, cursor: bytes | None = None
    ) -> Page[Execution | Span]:
        """Newest first, open ones and history together: by the millisecond that it was due or asked for.

        Within one millisecond, runs that were asked for are in the order of the requests, and those of backfills in the
        order of their instants. Pages follow on each other without gap or repetition.
        """

    async def execution(self, execution: bytes) -> ExecutionView | None:
        """One execution with its attempts, in at most two queries."""

    async def output(self, execution: bytes) -> list[OutputRow]:
        """What the tries of an execution wrote, by task, try and part."""

    async def ended_since(self, after: tuple[int, bytes], limit: int) -> list[Execution | Span]:
        """History by (when it ended, id), strictly after this pair.

        What ended at the same time may be committed later: whoever must not miss anything looks back a little.
        """

    async def latest(self, jobs: Sequence[bytes], *, started: bool = False) -> dict[bytes, Execution]:
        """The newest execution of each of these jobs, open or ended; ``started``: the newest one that was started.

        Jobs that have none are left out; spans do not count.
        Its cost is that of these executions alone: it is for many jobs at once.
        """

    async def list_dead_letters(
        self, *, namespace: str | None, limit: int, cursor: bytes | None = None
    ) -> Page[DeadLetter]:
        """Newest first."""

    # --- the rest

    async def nodes(self) -> list[Node]:
        """Every node that is known, living or not, by number."""

    async def outbox(self, *, limit: int, after: bytes | None = None) -> list[OutboxItem]:
        """What must still follow, oldest first."""

    async def audit(self, *, namespace: str | None, limit: int, cursor: bytes | None = None) -> Page[AuditEntry]:
        """Newest first."""

    async def token(self, token_hash: str) -> ApiToken | None:
        """The token of this hash, in force or expired."""

    async def tokens(self) -> list[ApiToken]:
        """Every token, by name."""

    async def verify(self) -> list[str]:
        """Hold counters against rows, and tables against each other: one sentence for each thing that does not fit.

        Reads everything that is open, the counters of every job, what it says, and the latest 10,000 ended executions:
        for tests and for ``doctor``, not for a timer.
        """

    async def check_statements(self) -> list[str]:
        """Have the database read the statements that the store keeps ready, without running them: for ``doctor``.

        One sentence for each that it refuses. Empty where the database is a part of this program.
        """

    async def maintain(self, now_us: int) -> None:
        """Make room ahead and let go of what is too old (partitions), in short steps. Call it every few minutes."""

    async def backup(self, path: str) -> None:
        """Write a consistent copy to a file while work goes on. ``Invalid`` where the engine brings its own tools."""
