"""Commands for the outbox, dead letters, the audit log and retention."""

from dataclasses import dataclass
from typing import NamedTuple

from chronos.core.node import Actor
from chronos.store.commands.base import SYSTEM, Command


class OutboxItem(NamedTuple):
    """One item of the outbox, to be delivered."""

    id: bytes
    kind: str
    target: str
    execution: bytes
    body: str
    created_us: int


class AuditLine(NamedTuple):
    """One line of the audit log about an action that does not change the store."""

    actor: Actor
    action: str
    subject: str
    namespace: str = ""
    detail: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteAudit(Command[None]):
    """Add lines to the audit log. Lines that are sent again are written once."""

    lines: tuple[AuditLine, ...]
    now_us: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TakeOutbox(Command[list[OutboxItem]]):
    """Take the oldest outbox items that no live node has taken.

    - Selected: items without a target and items for one of ``targets``; None selects all. With ``include_held``, also
      items that this node has already taken.
    - Ordered: oldest first.
    - Bounded: ``limit`` items.
    - Returned: the items. They belong to this node until ``AckOutbox``.
    """

    node: int
    limit: int
    targets: tuple[str, ...] | None = None
    include_held: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class AckOutbox(Command[None]):
    """Delete outbox items that were delivered."""

    ids: tuple[bytes, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DropDeadLetters(Command[int]):
    """Delete dead letters. Their executions stay in history. Returns the number deleted."""

    executions: tuple[bytes, ...]
    now_us: int
    actor: Actor = SYSTEM


@dataclass(frozen=True, slots=True, kw_only=True)
class Trim(Command[int]):
    """Delete rows that retention no longer keeps. Returns the number of rows deleted.

    - Bounded: ``limit`` rows, and a bounded number of jobs per command.
    - Ordered, until ``limit`` is reached:

      1. history of jobs that ran often since they were last trimmed;
      2. one page of the sweep over everything else (``retention_sweep``), which pauses for an hour after each pass;
      3. history of deleted jobs, after ``keep_deleted_us``, until nothing is left;
      4. lines of the audit log, after ``AUDIT_KEPT_US``;
      5. nodes that stopped ``NODES_KEPT_US`` ago and own neither executions nor outbox items. The latest node stays,
         so that its number is not given to another;
      6. months of days, after ``DAYS_KEPT_US``.

    - Days: history of jobs that exist is counted by day before it is deleted (``Store.job_days``).
    - History: the rows that ended first are deleted first.
    - Idempotency keys: deleted after ``IDEMPOTENCY_KEPT_US``, at most about ``limit``; they are not counted.
    - Done jobs: deleted after their history, ``keep_age_us`` after their last change, unless they follow other jobs,
      have an owner or are declared by a program.
    """

    now_us: int
    limit: int
    keep_deleted_us: int = 90 * 86_400 * 1_000_000  # how long the history of deleted jobs is kept
