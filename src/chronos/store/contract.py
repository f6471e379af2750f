"""The store's contract: what every store engine promises. One conformance suite tests these docstrings on all of them.

A store engine is an implementation of ``Store`` for one database, such as SQLite.

Writes are commands (``commands``), applied through ``Store.apply``:

- Atomic: a command is one transaction. It is applied completely or not at all. Rows of ``Admit`` and ``Settle`` are
  independent: each row is atomic, and rows of different jobs may be in different transactions.
- Durable: the answer is returned after the commit is on disk.
- Serializable: the result is the same as if the commands had been applied one after the other. An engine with one
  writer is deterministic: the same commands in the same order give the same rows.
- Safe to resend: a command whose answer was lost may be sent again. It is not applied twice.

Reads see every commit made before the read began. All statements of one read see the same commit. Lists use keyset
pagination: a later page costs as much as the first.

Errors are the same on every engine:

- ``NotFound``, ``Conflict`` and ``Invalid`` are about the request.
- ``Unavailable`` (and its subclasses ``StoreUnavailable``, ``StoreBusy`` and ``QueueFull``) is temporary: retry later.
- ``StoreBroken`` needs an operator.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntFlag
from typing import Generic, NamedTuple, Protocol, TypeVar

from chronos.core.config import Settings
from chronos.core.execution import Attempt, Cause, DeadLetter, Execution, Span, Status
from chronos.core.job import Job, JobSpec, JobState, JobStatus, JobVersion, UpstreamCondition
from chronos.core.node import AuditEntry, Node
from chronos.core.settings.levels import NO_LEVELS, Levels
from chronos.core.token import ApiToken
from chronos.store.commands import Command, OutboxItem, OutputRow
from chronos.store.overview import Blockage, EndedCounts, Facet, JobActivity, JobDays, JobSort, Load, StatusCounts

R = TypeVar("R")
T = TypeVar("T")


class Hint(IntFlag):
    """Kinds of work that may be ready; several can be combined."""

    JOBS = 1  # a job was created, changed or resumed: its next instant may be earlier than the one a node knows
    READY = 2  # executions became ready, for any node
    CANCEL = 4  # a running execution was asked to cancel
    OUTBOX = 8  # the outbox has new items
    SETTINGS = 16  # the defaults or the settings of a namespace changed


class DueGate(NamedTuple):
    """A gate that is due soon, with the columns that look-ahead needs."""

    job: bytes
    next_us: int
    version: int
    lane: int
    needs_gate_lock: bool  # pass it on as ``AdmitRow.needs_gate_lock``
    levels: int = NO_LEVELS  # pass it on as ``AdmitRow.levels``


class JobName(NamedTuple):
    """Namespace and name of a job that exists or was deleted."""

    namespace: str
    name: str


class CurrentLevels(NamedTuple):
    """The settings above the jobs of a namespace: the server's defaults and its own, with their numbers."""

    levels: Levels
    defaults: Settings
    namespace: Settings


class Depth(NamedTuple):
    """Number of open executions in one lane, by status."""

    lane: int
    ready: int
    queued: int
    running: int
    waiting: int


class Counts(NamedTuple):
    """Number of jobs by state, and of open executions by status."""

    jobs: dict[JobState, int]
    open: dict[Status, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Page(Generic[T]):
    """One page of a list. ``cursor`` requests the next page; None means that this is the last.

    ``previous`` requests the page before this one, where a list offers it. A page that is not ``complete`` is short
    because the search for matching items was long: the next page continues it.
    """

    items: list[T]
    cursor: bytes | None
    previous: bytes | None = None
    complete: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class JobFilter:
    """Selects jobs for a list. Fields with None or an empty value do not restrict the list."""

    namespace: str | None = None
    prefix: str = ""
    contains: str = ""
    tag: tuple[str, str | None] | None = None  # key and value; a value of None matches every value
    state: JobState | None = None
    owner: str | None = None
    more_tags: tuple[tuple[str, str | None], ...] = ()  # further tags that a job must have
    status: JobStatus | None = None  # at the time ``now_us``
    now_us: int = 0
    zone: str | None = None  # of the schedule
    queue: str | None = None
    target: str | None = None  # the kind of target of any task
    next_before_us: int | None = None  # the next run is before this

    @property
    def searches(self) -> bool:
        """Whether no index helps with a part of the filter, so that jobs are read to find those that match."""
        others = (self.zone, self.queue, self.target, self.next_before_us, self.status)
        return bool(self.more_tags) or any(value is not None for value in others)


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutionFilter:
    """Selects executions for a list. Fields with None do not restrict the list."""

    job: bytes | None = None
    status: Status | None = None
    troubled: bool = False  # only failed, stale, missed and completed with errors
    started: bool | None = None  # only open executions: True for those that have started, False for the others
    statuses: tuple[Status, ...] = ()  # any of these
    causes: tuple[Cause, ...] = ()
    node: int | None = None  # the node that ran it last
    from_us: int | None = None  # due or requested from then on
    to_us: int | None = None  # due or requested before then

    @property
    def selected_statuses(self) -> tuple[Status, ...] | None:
        """The statuses that match; None: all."""
        chosen = set(Status)
        if self.troubled:
            chosen &= {status for status in Status if status >= Status.COMPLETED_WITH_ERRORS}
        if self.statuses:
            chosen &= set(self.statuses)
        if self.status is not None:
            chosen &= {self.status}
        if self.started is not None:
            chosen = {status for status in chosen if not status.final}
        return None if len(chosen) == len(Status) else tuple(sorted(chosen))

    @property
    def searches(self) -> bool:
        """Whether no index helps with a part of the filter."""
        return bool(self.causes) or self.node is not None


class Neighbours(NamedTuple):
    """The executions of a job just before and after another one, in list order, without spans."""

    older: bytes | None
    newer: bytes | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutionView:
    """One execution and its recorded attempts, oldest first. Attempts of one task are in the order of their numbers."""

    execution: Execution
    attempts: list[Attempt]


class Store(Protocol):
    """Keeps jobs and executions. The docstrings of its methods are the specification; see the module for the rules."""

    async def open(self) -> None:
        """Connect, check the store and migrate its schema.

        - Checked: the store is writable, undamaged, and durable after every commit.
        - Migrated: under a lock. Other nodes wait, and find the work done.
        - Raised: ``StoreUnavailable`` or ``StoreBroken``. The message says what to do.
        """

    async def close(self) -> None:
        """Wait until every command that was sent is answered, then disconnect, and drop the callbacks. Idempotent.

        The store may be opened again.
        """

    async def apply(self, command: Command[R]) -> R:
        """Apply one command.

        - Atomic: all of the command or nothing (see the module). Commands that wait share a transaction (group
          commit); an error of one command does not affect the others.
        - Returned: the command's answer, after the commit is durable. Each command documents its answer.
        - Raised: the errors that the command documents; ``Invalid`` for values that no engine can store (NUL and lone
          surrogates in text, numbers beyond 64 bits); ``StoreBusy`` when too many commands wait; ``StoreUnavailable``
          when the store cannot be reached; ``StoreBroken``.
        - Canceled: canceling the caller does not cancel the command.
        """

    def on_hint(self, callback: Callable[[Hint], None]) -> None:
        """Register a callback for hints, from this node's writes and from other nodes'.

        - Called: on the event loop, after the commit. Errors of the callback are logged.
        - Not reliable: a hint can be late, duplicated or missing.
        """

    def on_commit(self, callback: Callable[[int, float], None]) -> None:
        """Register a callback for metrics: called after each transaction of this process with (rows, seconds)."""

    async def clock_us(self) -> int | None:
        """Return the store's clock, or None if the store uses this machine's clock."""

    # --- gates and work

    async def due(self, until_us: int, limit: int) -> list[DueGate]:
        """Return active gates with ``next_us <= until_us``.

        - Ordered: earliest first.
        - Bounded: ``limit`` rows. The cost does not grow with the number of jobs.
        """

    async def next_due_us(self) -> int | None:
        """Return when the next active gate is due, or None."""

    async def next_wake_us(self) -> int | None:
        """Return the earliest ``wake_us`` of a waiting execution, or None."""

    async def running_on(self, node: int) -> list[Execution]:
        """Return the running executions of a node, by id."""

    async def running_since(self, before_us: int, limit: int) -> list[Execution]:
        """Return running executions whose current attempt started before ``before_us``.

        - Ordered: the longest-running first.
        - Bounded: ``limit`` rows. The cost grows with the number of open executions.
        """

    async def lanes(self) -> dict[int, str]:
        """Return the text of every lane, by number."""

    async def ready_lanes(self) -> list[int]:
        """Return the lanes that have a ready execution that is not held.

        - Ordered: by number.
        - Bounded: the cost grows with the number of these lanes only.
        """

    async def depths(self) -> list[Depth]:
        """Return the depth of each lane that has an open execution, by lane."""

    async def counts(self) -> Counts:
        """Return the totals. A state or status without entries is missing.

        - Bounded: the cost grows with the number of open executions, not with jobs or history.
        """

    # --- jobs

    async def jobs_by_id(self, ids: Sequence[bytes]) -> dict[bytes, Job]:
        """Return the jobs with these ids. Missing jobs are left out."""

    async def job_named(self, namespace: str, name: str) -> Job | None:
        """Return the job with this name, or None. Names are compared bytewise."""

    async def list_jobs(
        self, where: JobFilter, *, limit: int, cursor: bytes | None = None, sort: JobSort = JobSort.NAME
    ) -> Page[Job]:
        """Return a page of jobs.

        - Ordered: by ``sort``. ``cursor`` belongs to the same order; it is the ``cursor`` or ``previous`` of a page.
        - Bounded: if the filter has a part that no index serves, or the order is LAST_RUN, a page reads a bounded
          number of jobs or runs. It may then have fewer jobs, or none, and is not ``complete``.
        - Raised: ``Invalid`` for a cursor of another order.
        """

    async def job_activity(self, jobs: Sequence[bytes], *, recent: int) -> dict[bytes, JobActivity]:
        """Return what jobs did lately and do now, with at most ``recent`` entries of the history of each.

        - Left out: jobs that do not exist.
        - Bounded: three queries. The cost grows with the number of ``jobs`` and of their open executions.
        """

    async def count_jobs(self, namespace: str | None, now_us: int) -> StatusCounts:
        """Count the jobs of a namespace (None: of all) by their status at ``now_us``.

        - Bounded: every count stops at ``COUNT_CAP + 1``.
        """

    async def job_days(self, job: bytes, zone: str, from_us: int, to_us: int) -> JobDays:
        """Return the runs of a job per day of a zone, from history and from what was counted when it was trimmed.

        - Kept: 400 days. Days of trimmed history are those of the zone that the schedule had then.
        - Bounded: reads at most 20,000 rows of history, the newest, and 16 months.
        """

    async def tag_facets(self, namespace: str | None, *, limit: int) -> list[Facet]:
        """Return tags as ``key=value`` (or ``key``) with the number of their jobs, the first ``limit`` in order."""

    async def owner_facets(self, namespace: str | None, *, limit: int) -> list[Facet]:
        """Return owners with the number of their jobs, the first ``limit`` in order."""

    async def names_of(self, ids: Sequence[bytes]) -> dict[bytes, JobName]:
        """Return the names of jobs. A deleted job is included while any record of it exists."""

    async def namespaces(self, *, limit: int) -> list[str]:
        """Return the namespaces that have jobs.

        - Ordered: by name.
        - Bounded: ``limit`` names. The cost grows with the number of namespaces, not of jobs.
        """

    async def current_levels(self, namespaces: Sequence[str]) -> dict[str, CurrentLevels]:
        """Return the settings in force above the jobs of namespaces. A namespace without a record sets nothing."""

    async def settings_at(self, pairs: Sequence[tuple[str, int]]) -> Mapping[tuple[str, int], Settings]:
        """Return settings by (namespace, number). An empty namespace means the server's defaults.

        - A version never changes, so the answer may be cached.
        - Missing pairs are left out.
        """

    async def versions(self, job: bytes, *, limit: int, before: int | None = None) -> list[JobVersion]:
        """Return versions of a job, newest first; with ``before``, only older ones."""

    async def specs_at(self, pairs: Sequence[tuple[bytes, int]]) -> dict[tuple[bytes, int], JobSpec]:
        """Return specs by (job, version).

        - Found: current and old versions, also of deleted jobs while any record of them exists.
        - Missing pairs are left out.
        """

    async def followers(self, namespace: str, name: str) -> list[tuple[bytes, UpstreamCondition]]:
        """Return the ids of the jobs that run after the named job, each with its condition.

        - Ordered: by id and condition.
        - The named job need not exist.
        """

    # --- executions

    async def list_executions(
        self, where: ExecutionFilter, *, limit: int, cursor: bytes | None = None
    ) -> Page[Execution | Span]:
        """Return a page of open and ended executions and of spans.

        - Ordered: newest first, by the millisecond when each was due or requested. Within one millisecond, requested
          executions are in the order of their requests, and those of a backfill in the order of their instants.
        - Complete: consecutive pages have no gaps and no duplicates.
        - Bounded: with ``causes`` or ``node``, a page reads a bounded number of rows. It may then be short, and is not
          ``complete``.
        """

    async def neighbours(self, job: bytes, execution: bytes) -> Neighbours:
        """Return the executions of a job just before and after another one."""

    async def loads(self) -> list[Load]:
        """Return the number of open executions per lane, status and node.

        - Ordered: by lane, status and node.
        - Bounded: the cost grows with the number of open executions.
        """

    async def blockage(self, execution: bytes) -> Blockage | None:
        """Return what an open execution waits for; None if it is not open."""

    async def execution(self, execution: bytes) -> ExecutionView | None:
        """Return one execution with its attempts, or None.

        - Bounded: two queries.
        """

    async def output(self, execution: bytes, *, task: str | None = None, number: int | None = None) -> list[OutputRow]:
        """Return the output of an execution's attempts, or of one task or attempt.

        - Ordered: by task, attempt number and part.
        """

    async def ended_since(self, after: tuple[int, bytes], limit: int) -> list[Execution | Span]:
        """Return history strictly after ``after``, a pair (``finished_us``, id).

        - Ordered: by (``finished_us``, id).
        - Bounded: ``limit`` rows.
        - Late rows: a row may be committed after a read that has passed its ``finished_us``. A caller that must see
          every row starts each read a little earlier.
        """

    async def count_ended(
        self, from_us: int, to_us: int, *, job: bytes | None = None, namespace: str | None = None
    ) -> EndedCounts:
        """Count the executions and instants that ended from ``from_us`` and before ``to_us``, by status.

        - With ``job`` or ``namespace``: only those of the job, or of jobs that exist in the namespace.
        - Bounded: reads at most ``COUNT_CAP + 1`` rows of history, the oldest of the range.
        """

    async def latest(self, jobs: Sequence[bytes], *, started: bool = False) -> dict[bytes, Execution]:
        """Return the newest execution of each job, open or ended.

        - With ``started``: the newest execution that was started.
        - Left out: spans, and jobs without such an execution.
        - Bounded: the cost grows with the number of ``jobs`` only, so it may be called for many jobs.
        """

    async def list_dead_letters(
        self, *, namespace: str | None, limit: int, cursor: bytes | None = None
    ) -> Page[DeadLetter]:
        """Return a page of dead letters, newest first. ``namespace`` None means all namespaces."""

    async def count_dead_letters(self, limit: int) -> int:
        """Return the number of dead letters in all namespaces.

        - Bounded: counts at most ``limit``, and returns ``limit`` if there are more.
        """

    # --- the rest

    async def nodes(self) -> list[Node]:
        """Return every known node, alive or stopped, by number."""

    async def outbox(self, *, limit: int, after: bytes | None = None) -> list[OutboxItem]:
        """Return outbox items that are not acknowledged, oldest first; with ``after``, those after this id."""

    async def audit(self, *, namespace: str | None, limit: int, cursor: bytes | None = None) -> Page[AuditEntry]:
        """Return a page of the audit log, newest first. ``namespace`` None means all namespaces."""

    async def token(self, token_hash: str) -> ApiToken | None:
        """Return the API token with this hash, or None. An expired token is returned too."""

    async def tokens(self) -> list[ApiToken]:
        """Return every API token, by name."""

    async def verify(self) -> list[str]:
        """Check counters against rows and tables against each other, for tests and ``doctor``.

        - Returned: one sentence per problem; empty if the store is consistent.
        - Bounded: reads all open executions, the gate of every job, and the latest 10,000 ended executions. Do not call
          it periodically.
        """

    async def check_statements(self) -> list[str]:
        """Have the database parse the store's prepared statements without running them, for ``doctor``.

        - Returned: one sentence per rejected statement. Empty if the database is part of this program.
        """

    async def maintain(self, now_us: int) -> None:
        """Create storage ahead of time and drop expired storage (partitions). Call it every few minutes.

        - Bounded: short steps; a step that would wait for a lock is skipped until the next call.
        """

    async def backup(self, path: str) -> None:
        """Write a consistent copy of the store to a new file, while the store is in use.

        - Raised: ``Invalid`` if ``path`` exists, or if the engine has its own backup tools;
          ``StoreUnavailable`` if the file cannot be written.
        """


def list_methods(contract: type) -> list[str]:
    """Return the names of the methods of a contract, such as ``Store``."""
    return [name for name, value in vars(contract).items() if callable(value) and not name.startswith("_")]
