"""Writes of nodes: they come, beat, go, and are declared dead."""

from dataclasses import dataclass, field
from typing import NamedTuple

from chronos.core.execution import CancelRequest, Status
from chronos.core.node import Process
from chronos.core.reasons import ReasonCode
from chronos.store.commands.base import Command
from chronos.store.commands.executions import EndedAttempt, FollowUp


@dataclass(frozen=True, slots=True, kw_only=True)
class RegisterNode(Command[int]):
    """A process starts: answers its number, the same one when the same incarnation is sent again."""

    name: str
    incarnation: bytes
    now_us: int
    slots: int = 0
    labels: dict[str, str] = field(default_factory=dict)
    offer: str | None = None  # what it offers to work, see ``shortage.Offer``
    process: Process | None = None


class HeldExecution(NamedTuple):
    """What the store says a node holds."""

    id: bytes
    token: int
    cancel: CancelRequest
    message: str | None = None  # why it was asked to cancel, as whoever asked said it


class BeatResult(NamedTuple):
    alive: bool  # False: the node was declared dead; it must stop its work and register anew
    held: list[HeldExecution]


@dataclass(frozen=True, slots=True, kw_only=True)
class Beat(Command[BeatResult]):
    """A heartbeat: the node's beat becomes ``beat`` if that is newer. Answers what the store says the node holds.

    ``offer`` replaces what the node offered before; None leaves it.
    """

    node: int
    beat: int
    now_us: int
    offer: str | None = None


class ReapRow(NamedTuple):
    """The verdict on one execution of a dead node: ready (tried again) or a final status."""

    id: bytes
    job: bytes
    token: int
    status: Status
    code: ReasonCode
    attempt: int  # the number its next try has
    lost: tuple[EndedAttempt, ...]  # what was running when the node died
    detail: str | None = None
    follow: tuple[FollowUp, ...] = ()
    dead_letter: bool = False
    message: str | None = None  # None: the code's usual sentence


@dataclass(frozen=True, slots=True, kw_only=True)
class Reap(Command[list[bytes] | None]):
    """Take work from a node whose beat still is ``beat``; otherwise nothing happens. Marks it dead when ``last``.

    Answers the ids reaped; None: nothing happened, as the node has beaten again or was marked dead before. Gates are
    freed and successors woken (to ready) as by ``Settle``. What would be tried again ends canceled when it was asked to
    cancel.
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
