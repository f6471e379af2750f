"""What is to happen in a simulated world, but for the dice; and what the checker is given when it is over.

A day of the usual world: two or three machines; some 28 instants of fifteen jobs, which with what is asked for and what
follows make 38 tries; 12 heartbeats of each machine and as many looks for the dead; six things that a person asks for
(trigger, backfill, replay, cancel, pause and resume, update, delete and create anew, dead letters); two to four great
faults (``FAULTS``, ``OFTEN``), which last from a minute to half a day; and on the way to the store twelve delays, three
lost commands, one lost answer, one conflict, eight lost hints. The last day and a half of each world is calm, as
promises about healing can only be judged then.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime

from chronos.core.execution import Cause, Execution, Span
from chronos.engine.options import EngineOptions
from tests.simulation.history import Fault, History
from tests.simulation.jobs import SimJob, all_jobs
from tests.simulation.store_link import Odds

DAY_S = 86_400.0
BY_CALENDAR = (Cause.SCHEDULE, Cause.RECOVERY)  # what a schedule brings; all else is asked for
SLOW = EngineOptions(  # some hundred times slower than the usual, so that idling takes no time
    slots=50,
    lookahead_s=10 * 3_600,
    tick_s=5 * 3_600,
    reaper_s=2 * 3_600,
    heartbeat_s=2 * 3_600,
    heartbeat_timeout_s=6 * 3_600,
    grace_s=60,
)
#: A day.
FAULTS = {Fault.CRASH: 1.0, Fault.FREEZE: 0.7, Fault.CUT: 0.7, Fault.STALL: 0.5, Fault.OUTAGE: 0.2, Fault.JUMP: 0.5}
OFTEN = {fault: 2 * a_day for fault, a_day in FAULTS.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """One world. With the seed everything is said."""

    seed: int
    days: float = 8.5
    healing_days: float = 1.5  # more than it takes to settle, three times
    machines: int = 3
    one_clock: bool = False  # all share one clock, which is set now and then; else each has its own, and the store one
    start: datetime = datetime(2027, 3, 20, tzinfo=UTC)  # eight days before the clocks change in Paris
    jobs: tuple[SimJob, ...] = field(default_factory=lambda: tuple(all_jobs()))
    odds: Odds = field(default_factory=Odds)
    options: EngineOptions = SLOW
    faults: Mapping[Fault, float] = field(default_factory=lambda: FAULTS)  # a day
    deeds: float = 6.0  # of a person, a day

    @property
    def settles_s(self) -> float:
        """After which everything that was disturbed has been taken over and works again."""
        return self.options.heartbeat_timeout_s + 2 * self.options.reaper_s + self.options.tick_s

    @property
    def suspect_s(self) -> float:
        """How long after a disturbance a node may still be declared dead."""
        return self.options.heartbeat_timeout_s + self.options.reaper_s

    @property
    def late_s(self) -> float:
        """What lost and late commands may cost: a tick when a hint or a look was lost, and some delays."""
        return self.options.tick_s + 15 * self.odds.longest_s


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """What the checker is given."""

    scenario: Scenario
    history: History
    records: list[Execution]
    spans: list[Span]
    begin_us: int
    end_us: int  # by the clock that counts
    healed_s: float
    end_s: float
    unsound: list[str]  # what the store's own checks found
    next_due_us: int | None
    letters: list[bytes]  # the dead ones, by execution
    broken: list[BaseException]  # what ended an engine that nobody stopped
