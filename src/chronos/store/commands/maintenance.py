"""Writes of upkeep: the outbox, dead letters, retention."""

from dataclasses import dataclass
from typing import NamedTuple

from chronos.core.node import Actor
from chronos.store.commands.base import SYSTEM, Command


class OutboxItem(NamedTuple):
    id: bytes
    kind: str
    target: str
    execution: bytes
    body: str
    created_us: int


class AuditLine(NamedTuple):
    """One line of the audit log about what is not a change of the store."""

    actor: Actor
    action: str
    subject: str
    namespace: str = ""
    detail: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteAudit(Command[None]):
    """Add lines to the audit log. The same lines sent again are written once."""

    lines: tuple[AuditLine, ...]
    now_us: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TakeOutbox(Command[list[OutboxItem]]):
    """Take the oldest outbox items that no living node holds; sent again, a node gets its own again.

    Only those for anybody (without a target) or for one of ``targets``; None: all. Without ``include_held`` a node gets none
    of those that it holds already.
    """

    node: int
    limit: int
    targets: tuple[str, ...] | None = None
    include_held: bool = True


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
    """Delete what nobody wants to keep any more, at most ``limit`` rows; answers how many went.

    Bounded work. It looks at jobs that ran often since they were trimmed last; at a page of everything else, where it
    stopped before, and once it has seen it all not before an hour has passed; at what deleted jobs left behind once in
    a while, until nothing of it is left. Of history the oldest rows go, by when they ended. A job that is done goes
    after its history, ``keep_age_us`` after it was last heard of, unless it follows others or has an owner. While there
    is room, lines of the audit log go after ``AUDIT_KEPT_US``, and nodes that have been gone for ``NODES_KEPT_US`` and
    hold nothing. The latest node stays: its number must not be given to another.
    """

    now_us: int
    limit: int
    keep_deleted_us: int = 90 * 86_400 * 1_000_000  # how long the history of deleted jobs is kept
