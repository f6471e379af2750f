"""Nodes and the audit log: who is alive, and who changed what."""

from dataclasses import dataclass, field


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
