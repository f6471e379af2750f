"""Writes of definitions: save, delete, pause and resume."""

from dataclasses import dataclass
from typing import NamedTuple

from msgspec import Struct

from chronos.core.execution import Span
from chronos.core.job import JobSpec, JobState
from chronos.core.node import Actor
from chronos.core.policy import GateSpec
from chronos.store.commands.base import SYSTEM, Command

NEW = 0  # as ``expect``: the job must not exist


class RunOnSave(NamedTuple):
    """An execution that a job is to have as soon as it is saved. Its id follows from the job and its version."""

    key: bytes | None = None  # of its concurrency gate
    key_limit: int = 0


class JobRow(Struct, frozen=True, kw_only=True, gc=False):
    """One job to save, with what follows from its spec worked out. They come by the thousand."""

    namespace: str
    name: str
    spec: JobSpec
    gate: GateSpec
    next_us: int | None
    state: JobState = JobState.ACTIVE
    expect: int | None = None  # the version it was made from; NEW; None: whatever is there
    expect_state: JobState | None = None  # the state that ``state`` was decided for; None: whatever it is
    run: RunOnSave | None = None  # with a new job or version; one that says what is there already does not run


class Saved(NamedTuple):
    id: bytes
    version: int
    created: bool
    changed: bool  # False: nothing was written; without a new version: it was switched only
    incarnation: int = 1  # of one that was created: how often there was a job of this name


class DeleteRow(NamedTuple):
    """One job to delete; ``expect`` is the version it was last seen at."""

    job: bytes
    expect: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SaveJobs(Command[list[Saved]]):
    """Create or replace jobs, and delete others, all or none. Each job at most once.

    A new version re-configures what is ready or queued in the same transaction: with its concurrency keys, which are
    made anew by its template, and their limit. It wakes queued executions where there is room now. A job that stays
    paused or disabled keeps its note. One that says what is there already is no new version; where its row says what
    state it ``expect_state`` in and wants another, it is switched. Deleting means what it means for ``DeleteJob``.

    Raises ``Conflict`` naming the first job that is not at its expected version or, where something would change, not
    in its expected state; ``NotFound`` when one to delete is gone; ``QueueFull`` when there is no room for what is to
    run at once.

    With an ``idempotency`` key, which is for one new job, the answer is the job that the same key created in that
    namespace before (not ``created``, and it may be gone by now), and nothing is written.
    """

    rows: tuple[JobRow, ...]
    now_us: int
    actor: Actor = SYSTEM
    delete: tuple[DeleteRow, ...] = ()
    idempotency: str | None = None
    rollback_to: int | None = None  # the old version that the (one) job is to say again, for the audit log
    others: tuple["SaveJobs", ...] = ()  # of others that were merged into this one: see ``store.command_merge``

    @property
    def parts(self) -> tuple["SaveJobs", ...]:
        """Itself, and what was merged into it."""
        return (self, *self.others)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteJob(Command[None]):
    """Delete a job: what is ready, queued or waiting is canceled, what runs is asked to stop; its history remains.

    What was due by ``now_us`` and not admitted is recorded as one skipped span.
    Raises ``NotFound``, or ``Conflict`` when it is not at ``expect``.
    """

    job: bytes
    now_us: int
    expect: int | None = None
    actor: Actor = SYSTEM


@dataclass(frozen=True, slots=True, kw_only=True)
class SetJobState(Command[bool]):
    """Pause, resume, disable, enable. Pausing holds what is ready and queued, except what was triggered by hand.

    Disabling records what was due by ``now_us`` and not admitted as one skipped span.
    What is held is queued: it keeps no others from running, of its job or behind its concurrency key. Resuming lets go
    of it, in its order, moves the cursor to ``next_us`` and records the instants in between as ``spans``.
    With ``expect_state``, the state it was decided for, somebody else who did the same meanwhile is not outdone: the answer is
    False, and nothing is changed. Raises ``NotFound``, or ``Conflict`` when the job is not at ``expect``, in a third
    state, or ``spans`` do not begin where its cursor stands.
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
    others: tuple["SetJobState", ...] = ()  # of other jobs that were merged into this one: see ``store.command_merge``

    @property
    def parts(self) -> tuple["SetJobState", ...]:
        """Itself, and what was merged into it."""
        return (self, *self.others)
