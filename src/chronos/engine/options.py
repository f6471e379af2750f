"""Options of a node."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from chronos.errors import Invalid


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineOptions:
    """One node: its name, its slots, the work it takes, and the intervals of its loops."""

    node_name: str = "node"
    slots: int = 100  # executions that run at the same time
    queue_slots: Mapping[str, int] = field(default_factory=dict)  # the most slots that each queue may use
    queues: frozenset[str] | None = None  # None: any
    labels: Mapping[str, str] = field(default_factory=dict)
    lookahead_s: float = 5.0
    tick_s: float = 1.0  # how often loops look again even without a hint
    reaper_s: float = 5.0
    heartbeat_s: float = 10.0
    heartbeat_timeout_s: float = 30.0
    grace_s: float = 30.0  # from asking work to stop to killing it; also the grace period of a shutdown
    timeout_grace_s: float = 2.0  # the same after a timeout
    schedules: bool = True  # False: it only runs what other nodes admit
    works: bool = True  # False: it only admits
    version: str = ""  # of Chronos, as shown to operators
    address: str = ""  # where the node's API listens

    def __post_init__(self) -> None:
        if self.slots < 1:
            raise Invalid("slots must be at least 1; a node without slots never runs anything")
        for name in ("lookahead_s", "tick_s", "reaper_s", "heartbeat_s", "heartbeat_timeout_s"):
            if getattr(self, name) <= 0:
                raise Invalid(f"{name} must be greater than 0")
        if self.heartbeat_timeout_s < 2 * self.heartbeat_s:
            raise Invalid(
                "heartbeat_timeout must be at least twice heartbeat_interval, so that one late heartbeat is tolerated"
            )
        if self.grace_s < 0:
            raise Invalid("grace_period must not be negative")
        if self.timeout_grace_s < 0:
            raise Invalid("timeout_grace must not be negative")
