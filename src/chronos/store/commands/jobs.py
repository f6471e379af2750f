"""Commands for job definitions: save, delete, pause, resume, disable, enable."""

from dataclasses import dataclass
from typing import NamedTuple

from msgspec import Struct

from chronos.core.execution import Span
from chronos.core.job import JobSpec, JobState
from chronos.core.node import Actor
from chronos.core.settings.gate_profile import Gate
from chronos.store.commands.base import SYSTEM, Command

NEW = 0  # as ``expect``: the job must not exist yet


class RunOnSave(NamedTuple):
    """An execution that starts when its job is saved. Its id follows from the job and the version."""

    key: bytes | None = None  # concurrency key
    key_limit: int = 0


class JobRow(Struct, frozen=True, kw_only=True, gc=False):
    """One job to save, with the values derived from its spec."""

    namespace: str
    name: str
    spec: JobSpec
    gate: Gate  # what it sets, or a ``GateSpec``, which inherits nothing
    next_us: int | None
    state: JobState = JobState.ACTIVE
    expect: int | None = None  # the version it was made from; NEW; None: any version
    expect_state: JobState | None = None  # the state that ``state`` was decided for; None: any state
    run: RunOnSave | None = None  # runs with a new job or a new version, not with an unchanged spec


class Saved(NamedTuple):
    """The answer for one saved job."""

    id: bytes
    version: int
    created: bool
    changed: bool  # False: nothing was written. True with the same version: only the state changed
    incarnation: int = 1  # of a created job: how many jobs have had this name


class DeleteRow(NamedTuple):
    """One job to delete. ``expect`` is the version that the caller has read."""

    job: bytes
    expect: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SaveJobs(Command[list[Saved]]):
    """Create or replace jobs, and delete others.

    - Atomic: all rows and deletions, or none.
    - Returned: one ``Saved`` per row, in order.
    - New version: reconfigures ready and queued executions. Their concurrency keys are rendered again from the new
      template, with the new limit. Queued executions that now have room are woken. A job that stays paused or disabled
      keeps its note.
    - Unchanged spec: not a new version. If ``expect_state`` is set and differs from ``state``, only the state changes.
    - Deletions: as ``DeleteJob``.
    - Raised: ``Conflict`` for the first job that is not at its expected version or, if it would change, not in its
      expected state; ``NotFound`` if a job to delete does not exist; ``QueueFull`` if a run on save does not fit;
      ``Invalid`` if a job occurs twice.
    - Idempotent: an ``idempotency`` key is for one new job. If the same key created a job in the namespace before, that
      job is returned (``created`` is False; it may be deleted by now) and nothing is written.
    """

    rows: tuple[JobRow, ...]
    now_us: int
    actor: Actor = SYSTEM
    delete: tuple[DeleteRow, ...] = ()
    idempotency: str | None = None
    rollback_to: int | None = None  # the old version that the one job goes back to, for the audit log
    merged: tuple["SaveJobs", ...] = ()  # commands merged into this one, see ``store.command_merge``

    @property
    def parts(self) -> tuple["SaveJobs", ...]:
        """This command and the commands merged into it."""
        return (self, *self.merged)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteJob(Command[None]):
    """Delete a job. Its history remains.

    - Atomic: cancels ready, queued and waiting executions, asks running ones to stop, and records instants that were
      due by ``now_us`` but not admitted as one skipped span.
    - Raised: ``NotFound`` if the job does not exist; ``Conflict`` if it is not at version ``expect``.
    """

    job: bytes
    now_us: int
    expect: int | None = None
    actor: Actor = SYSTEM


@dataclass(frozen=True, slots=True, kw_only=True)
class SetJobState(Command[bool]):
    """Pause, resume, disable or enable a job.

    - Pausing holds ready and queued executions, except those that were triggered manually. A held execution is queued
      and does not block others of its job or behind its concurrency key.
    - Resuming releases held executions in their order, moves the cursor to ``next_us`` and records the instants in
      between as ``spans``.
    - Disabling records instants that were due by ``now_us`` but not admitted as one skipped span.
    - Returned: True. With ``expect_state``, False and nothing changed if the job is already in ``state``.
    - Raised: ``NotFound`` if the job does not exist; ``Conflict`` if it is not at version ``expect``, is in a state
      other than ``expect_state`` and ``state``, or if ``spans`` do not start at its cursor.
    """

    job: bytes
    state: JobState
    now_us: int
    next_us: int | None = None
    keep_cursor: bool = False
    spans: tuple[Span, ...] = ()
    note: str = ""
    expect: int | None = None
    expect_state: JobState | None = None
    actor: Actor = SYSTEM
    merged: tuple["SetJobState", ...] = ()  # commands of other jobs merged into this one, see ``store.command_merge``

    @property
    def parts(self) -> tuple["SetJobState", ...]:
        """This command and the commands merged into it."""
        return (self, *self.merged)
