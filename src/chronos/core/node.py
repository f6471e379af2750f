"""Nodes and the audit log: who is alive, and who changed what."""

from collections.abc import Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class Process:
    """A process of an operating system, named so that no other one is ever taken for it."""

    scope: str  # the boot of the machine, and the namespaces in which the number and the time count
    pid: int
    started: str  # in the units of the system


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """One start of one process. ``beat`` counts its heartbeats: a reaper acts when it saw no change for long enough."""

    number: int
    name: str
    incarnation: bytes
    beat: int
    started_us: int
    beat_us: int
    stopped_us: int | None = None
    slots: int = 0
    labels: dict[str, str] = field(default_factory=dict)
    offer: str | None = None  # see ``shortage.Offer``; None: a release that does not say
    process: Process | None = None  # None: its system does not say


class HeartbeatWatch:
    """Which nodes have been silent for the heartbeat timeout, by the beats that one observer sees.

    An observation is read from the store at some moment between the question and its answer::

        asked ─── read ─── answered                       asked ─── read ─── answered
                               └── surely silent for ──────┘

    So a beat counts as new when the first answer that shows it arrives, and as unchanged when the last question that
    it answers was asked. A node that the observer calls silent has therefore not beaten for the whole timeout, which
    is at least two heartbeat intervals.

    Answers that come further apart than the pause between two looks and half a heartbeat interval prove nothing: the
    observer was cut off or stood still, and perhaps the others with it. The watch over all of them starts again.
    """

    def __init__(self, *, timeout_s: float, heartbeat_s: float, pause_s: float) -> None:
        self._timeout_s = timeout_s
        self._patience_s = pause_s + heartbeat_s / 2
        self._late_s = pause_s + 2 * heartbeat_s
        self._since: dict[int, tuple[int, float]] = {}  # node → its beat, and when that was first seen
        self._answered_s: float | None = None
        self._interrupted = False
        self.beating_nodes: frozenset[int] = (
            frozenset()
        )  # nodes that were seen to beat lately, not only found in the store

    def note_store_read(self, at_s: float) -> None:
        """Say that the store has answered something."""
        if self._answered_s is not None and at_s - self._answered_s > self._patience_s:
            self._interrupted = True
        self._answered_s = at_s

    def observe(self, nodes: Sequence[Node], *, asked_s: float, answered_s: float) -> list[Node]:
        """Note the beats of all nodes that have not stopped; returns those that are silent for too long."""
        self.note_store_read(answered_s)
        before, lively = self._since, self.beating_nodes
        beating = {n.number for n in nodes if n.number in before and before[n.number][0] != n.beat}
        if self._interrupted:
            before, lively, self._interrupted = {}, frozenset(), False
        self._since = {
            n.number: was if (was := before.get(n.number)) is not None and was[0] == n.beat else (n.beat, answered_s)
            for n in nodes
        }
        self.beating_nodes = frozenset(
            number
            for number in lively | beating
            if number in self._since and answered_s - self._since[number][1] < self._late_s
        )
        return [n for n in nodes if asked_s - self._since[n.number][1] >= self._timeout_s]


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditEntry:
    """One change: who, what, when, from where. Append-only."""

    id: bytes
    at_us: int
    actor: str
    action: str
    namespace: str
    subject: str
    origin: str = ""
    detail: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Actor:
    """Who asks for a change, and from where."""

    name: str = "system"
    origin: str = ""
