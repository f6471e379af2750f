"""Nodes, the detection of dead nodes, and entries of the audit log."""

from collections.abc import Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class Process:
    """The unique identity of an operating system process. See ``chronos.process_identity``."""

    scope: str  # the boot of the machine, and the namespaces of pid and start time
    pid: int
    started: str  # start time, in the system's units


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """One process that runs an engine. ``beat`` counts its heartbeats; a reaper acts when it stops changing."""

    number: int
    name: str
    incarnation: bytes
    beat: int
    started_us: int
    beat_us: int
    stopped_us: int | None = None
    slots: int = 0
    labels: dict[str, str] = field(default_factory=dict)
    offer: str | None = None  # see ``shortage.Offer``; None: written by an older release
    process: Process | None = None  # None: not available on its system
    taken_over: int | None = None  # executions that other nodes took over when it was lost; None: it was not lost


class HeartbeatWatch:
    """Finds nodes that sent no heartbeat for the timeout, as seen by one observer.

    The store reads the heartbeats at some moment between request and response::

        request ─── read ─── response                     request ─── read ─── response
                                └── certainly silent for ────┘

    So a beat counts as new from the first response that shows it, and as unchanged until the last request whose
    response shows it. A node that is reported as silent has therefore sent no heartbeat for the whole timeout, which
    is at least two heartbeat intervals.

    If two responses are further apart than the pause between reads plus half a heartbeat interval, the observer was
    disconnected or stopped, and maybe other nodes were too. Then the watch over all nodes starts again.
    """

    def __init__(self, *, timeout_s: float, heartbeat_s: float, pause_s: float) -> None:
        self._timeout_s = timeout_s
        self._max_response_gap_s = pause_s + heartbeat_s / 2
        self._late_s = pause_s + 2 * heartbeat_s
        self._since: dict[int, tuple[int, float]] = {}  # node → its beat, and when it was first seen
        self._responded_s: float | None = None
        self._interrupted = False
        self.beating_nodes: frozenset[int] = frozenset()  # nodes whose beat changed recently

    def note_store_read(self, at_s: float) -> None:
        """Record that the store responded to any read."""
        if self._responded_s is not None and at_s - self._responded_s > self._max_response_gap_s:
            self._interrupted = True
        self._responded_s = at_s

    def observe(self, nodes: Sequence[Node], *, requested_s: float, responded_s: float) -> list[Node]:
        """Record the beats of all nodes that have not stopped. Returns nodes that are silent for the timeout."""
        self.note_store_read(responded_s)
        before, recent = self._since, self.beating_nodes
        beating = {n.number for n in nodes if n.number in before and before[n.number][0] != n.beat}
        if self._interrupted:
            before, recent, self._interrupted = {}, frozenset(), False
        self._since = {
            n.number: was if (was := before.get(n.number)) is not None and was[0] == n.beat else (n.beat, responded_s)
            for n in nodes
        }
        self.beating_nodes = frozenset(
            number
            for number in recent | beating
            if number in self._since and responded_s - self._since[number][1] < self._late_s
        )
        return [n for n in nodes if requested_s - self._since[n.number][1] >= self._timeout_s]


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditEntry:
    """One change in the audit log: actor, action, subject, time and origin. Append-only."""

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
    """The user or program that makes a change, and its address."""

    name: str = "system"
    origin: str = ""
