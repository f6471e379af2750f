"""Commands for nodes: registration, heartbeats, shutdown, and reaping the work of dead nodes."""

from dataclasses import dataclass, field
from typing import NamedTuple

from chronos.core.execution import CancelRequest, Status
from chronos.core.node import Process
from chronos.core.reasons import ReasonCode
from chronos.store.commands.base import Command
from chronos.store.commands.executions import EndedAttempt, FollowUp


@dataclass(frozen=True, slots=True, kw_only=True)
class RegisterNode(Command[int]):
    """Register a node. Returns its number; the same incarnation always gets the same number."""

    name: str
    incarnation: bytes
    now_us: int
    slots: int = 0
    labels: dict[str, str] = field(default_factory=dict)
    offer: str | None = None  # queues and functions that it offers, see ``shortage.Offer``
    process: Process | None = None


class NodeExecution(NamedTuple):
    """An execution that, according to the store, runs on a node."""

    id: bytes
    token: int
    cancel: CancelRequest
    message: str | None = None  # the reason given with the cancel request


class BeatResult(NamedTuple):
    """The answer to a heartbeat."""

    alive: bool  # False: the node was declared dead; it must stop its work and register again
    running: list[NodeExecution]


@dataclass(frozen=True, slots=True, kw_only=True)
class Beat(Command[BeatResult]):
    """A heartbeat. Sets the node's beat to ``beat`` if that is newer, and its offer if ``offer`` is not None.

    - Returned: whether the node is alive, and the executions that run on it.
    """

    node: int
    beat: int
    now_us: int
    offer: str | None = None


class ReapRow(NamedTuple):
    """The decision about one execution of a dead node: ready (for another attempt) or a final status."""

    id: bytes
    job: bytes
    token: int
    status: Status
    code: ReasonCode
    attempt: int  # number of its next attempt
    lost: tuple[EndedAttempt, ...]  # the attempts that ran when the node died
    detail: str | None = None
    follow: tuple[FollowUp, ...] = ()
    dead_letter: bool = False
    message: str | None = None  # None: the default sentence of the code


@dataclass(frozen=True, slots=True, kw_only=True)
class Reap(Command[list[bytes] | None]):
    """Take executions from a node whose beat is still ``beat``. With ``last``, mark the node as dead.

    - Atomic: frees gates and makes successors ready, as ``Settle`` does.
    - Canceled: an execution that would get another attempt, but was asked to cancel, ends as canceled.
    - Returned: the reaped ids. None, with nothing changed, if the node has sent another heartbeat, was already marked
      as dead, or is just sending one.
    """

    node: int
    beat: int
    rows: tuple[ReapRow, ...]
    now_us: int
    last: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class StopNode(Command[None]):
    """Record that a node has shut down cleanly. Its outbox items are free again."""

    node: int
    now_us: int
