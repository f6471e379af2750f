"""Commands that create executions: admission, recovery, triggers, backfills and recorded skips."""

from dataclasses import dataclass
from typing import NamedTuple

from chronos.core.execution import Cause, Span, Status
from chronos.core.node import Actor
from chronos.core.reasons import ReasonCode
from chronos.core.settings.levels import NO_LEVELS
from chronos.store.commands.base import SYSTEM, Command


class AdmitRow(NamedTuple):
    """One instant of one job. It is admitted if the gate is at ``expect_us``, ``version`` and ``levels``."""

    job: bytes
    version: int
    expect_us: int
    next_us: int | None  # the new cursor; None: the schedule has ended and the job is done
    id: bytes
    ready_us: int  # when it is due, including jitter; decides its rank
    claim: bool  # this node can run it and has a slot
    needs_gate_lock: bool = False  # from ``DueGate``: the job is keyed or has overlap ``replace``
    key: bytes | None = None  # concurrency key, for keyed jobs
    key_limit: int = 0
    levels: int = NO_LEVELS  # from ``DueGate``


class Admitted(NamedTuple):
    """One admitted instant or run."""

    id: bytes
    job: bytes
    status: Status  # running (claimed by the sending node), ready, queued or skipped
    token: int
    last_run_us: int | None = None  # see ``Claimed``
    code: ReasonCode | None = None  # why it was skipped, as recorded


@dataclass(frozen=True, slots=True, kw_only=True)
class Admit(Command[list[Admitted]]):
    """Admit scheduled instants: move each gate's cursor and create its execution.

    - Atomic: per row, a compare-and-set on (``next_us``, ``version``, ``levels``, state active). The gate decides
      whether the execution runs, is ready, is queued or is skipped.
    - Returned: the admitted rows, in no particular order. A missing row was lost to another node, or its gate was
      locked: read the gate again. Resent with the same ``request``, the rows admitted the first time are returned.
    - Bounded: each job at most once per command.
    """

    rows: tuple[AdmitRow, ...]
    node: int
    now_us: int
    request: bytes


class RunRow(NamedTuple):
    """One execution to create by ``Recover``, ``Trigger``, ``Enqueue`` or ``Backfill``."""

    id: bytes
    cause: Cause
    scheduled_us: int
    ready_us: int
    detail: str | None = None  # JSON
    key: bytes | None = None  # concurrency key
    key_limit: int = 0
    wake_us: int | None = None  # delayed: it waits until then, and its gate does not count it before


@dataclass(frozen=True, slots=True, kw_only=True)
class Recover(Command[list[Admitted]]):
    """Recover the missed instants of one job: its cursor, runs and spans.

    - Atomic: one transaction; a compare-and-set as for ``Admit``.
    - Overlap: ``skip`` acts as ``queue`` for all runs, including those that are only late (``Cause.SCHEDULE``).
    - Bounded: runs that do not fit the queue are not admitted. The cursor stays at the first of them; send ``Recover``
      again later. With ``all_or_nothing``, one run that does not fit leaves everything unchanged.
    - Returned: the admitted rows. Empty if the race was lost, or if ``all_or_nothing`` rejected the command.
    """

    job: bytes
    version: int
    expect_us: int
    next_us: int | None
    runs: tuple[RunRow, ...]
    spans: tuple[Span, ...]
    now_us: int
    all_or_nothing: bool = False
    merged: tuple["Recover", ...] = ()  # commands of other jobs merged into this one, see ``store.command_merge``

    @property
    def parts(self) -> tuple["Recover", ...]:
        """This command and the commands merged into it."""
        return (self, *self.merged)


class Triggered(NamedTuple):
    """The execution of a trigger, new or from before."""

    id: bytes
    status: Status
    created: bool  # False: an earlier request with the same idempotency key created it


@dataclass(frozen=True, slots=True, kw_only=True)
class Trigger(Command[Triggered]):
    """Create one requested execution, even if the job is paused. The cursor does not move.

    - Idempotent: within the job's namespace, the same ``idempotency`` key returns the same execution.
    - Raised: ``NotFound`` if the job does not exist; ``QueueFull`` if its queue is full, or if ``room`` is False and
      the execution would be new.
    """

    job: bytes
    run: RunRow
    now_us: int
    idempotency: str | None = None
    actor: Actor = SYSTEM
    room: bool = True  # whether the store accepts another pending execution
    replay_of: bytes | None = None  # the replayed execution, for the audit log


@dataclass(frozen=True, slots=True, kw_only=True)
class Enqueue(Command[list[Triggered]]):
    """Create requested executions of one job, all or none, even if the job is paused. The cursor does not move.

    - Ordered: as given.
    - Idempotent: a run whose id exists is left as it is. The same ``idempotency`` key returns the same executions.
    - Returned: one answer per run.
    - Raised: ``NotFound`` if the job does not exist; ``QueueFull`` if its queue has no room for all of them.
    """

    job: bytes
    runs: tuple[RunRow, ...]
    now_us: int
    idempotency: str | None = None
    actor: Actor = SYSTEM


class Backfilled(NamedTuple):
    """The executions of a backfill, new or from before."""

    ids: list[bytes]  # in the order of the runs, including those created by an earlier request
    statuses: list[Status]  # of the executions created now


@dataclass(frozen=True, slots=True, kw_only=True)
class Backfill(Command[Backfilled]):
    """Create requested executions of one job for past instants, even if the job is paused. The cursor does not move.

    - Ordered: as given.
    - Bounded: by the job's queue, and by ``room`` for new executions. The first run that does not fit ends the
      command; send the rest later.
    - Returned: the executions up to there.
    - Idempotent: with the same ``idempotency`` key an instant has the same execution.
    - Raised: ``NotFound`` if the job does not exist.
    """

    job: bytes
    runs: tuple[RunRow, ...]
    now_us: int
    idempotency: str | None = None
    actor: Actor = SYSTEM
    room: int | None = None  # maximum number of new executions; None: no limit


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordSkip(Command[bool]):
    """Record one execution as skipped because of the outcome of an upstream job.

    - Atomic: writes the history row and the outbox item for the job's own followers.
    - Returned: False, with nothing changed, if the execution is already recorded or the job does not exist.
    """

    id: bytes
    job: bytes
    cause: Cause
    scheduled_us: int
    code: ReasonCode
    message: str | None  # None: the default sentence of the code
    now_us: int
