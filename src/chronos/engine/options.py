"""What a node may be told about itself."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from chronos.errors import Invalid


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineOptions:
    """One node: its name, its slots, which work it takes, and how often it looks after what."""

    node_name: str = "node"
    slots: int = 100  # executions it works on at once
    queue_slots: Mapping[str, int] = field(default_factory=dict)  # of those, at most so many of a queue
    queues: frozenset[str] | None = None  # None: any
    labels: Mapping[str, str] = field(default_factory=dict)
    lookahead_s: float = 5.0
    tick_s: float = 1.0  # a safety net, not the clock
    reaper_s: float = 5.0
    heartbeat_s: float = 10.0
    heartbeat_timeout_s: float = 30.0
    grace_s: float = 30.0  # from asking work to stop to forcing it, and of a shutdown
    timeout_grace_s: float = 2.0  # the same for work whose time is over
    schedules: bool = True  # False: it only works on what others admit
    works: bool = True  # False: it only admits

    def __post_init__(self) -> None:
        if self.slots < 1:
            raise Invalid("slots must be at least 1: a node without any would never run a thing")
        for name in ("lookahead_s", "tick_s", "reaper_s", "heartbeat_s", "heartbeat_timeout_s"):
            if getattr(self, name) <= 0:
                raise Invalid(f"{name} must be more than 0")
        if self.heartbeat_timeout_s < 2 * self.heartbeat_s:
            raise Invalid(
                "heartbeat_timeout must be at least twice heartbeat_interval, or one late beat looks like death"
            )
        if self.grace_s < 0:
            raise Invalid("grace_period cannot be negative")
        if self.timeout_grace_s < 0:
            raise Invalid("timeout_grace cannot be negative")
