"""The parameters of a simulated world, and the input of its checker.

A day of the usual world has:

- two or three machines, and about 28 instants of fifteen jobs; with requests and dependent jobs, 38 attempts
- 12 heartbeats per machine, and as many checks for dead nodes
- six actions of an operator, such as triggers, cancellations, pauses and updates
- two to four large faults (``FAULTS``, ``FREQUENT_FAULTS``), which last from a minute to half a day
- on the link to the store, twelve delays, three lost commands, one lost answer, one conflict and eight lost hints

The last day and a half of each world is calm, because promises about healing can only be checked then.
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
SCHEDULED_CAUSES = (Cause.SCHEDULE, Cause.RECOVERY)  # from a schedule; all other causes are requests
SLOW = EngineOptions(  # about a hundred times slower than the defaults, so that idle time costs nothing
    slots=50,
    lookahead_s=10 * 3_600,
    tick_s=5 * 3_600,
    reaper_s=2 * 3_600,
    heartbeat_s=2 * 3_600,
    heartbeat_timeout_s=6 * 3_600,
    grace_s=60,
)
#: Per day.
FAULTS = {Fault.CRASH: 1.0, Fault.FREEZE: 0.7, Fault.CUT: 0.7, Fault.STALL: 0.5, Fault.OUTAGE: 0.2, Fault.JUMP: 0.5}
FREQUENT_FAULTS = {fault: 2 * per_day for fault, per_day in FAULTS.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """The parameters of one world. The seed determines everything else."""

    seed: int
    days: float = 8.5
    healing_days: float = 1.5  # more than three times settles_s
    machines: int = 3
    one_clock: bool = (
        False  # all share one clock, which is set sometimes; otherwise each has its own, and the store too
    )
    start: datetime = datetime(2027, 3, 20, tzinfo=UTC)  # eight days before the clocks change in Paris
    jobs: tuple[SimJob, ...] = field(default_factory=lambda: tuple(all_jobs()))
    odds: Odds = field(default_factory=Odds)
    options: EngineOptions = SLOW
    faults: Mapping[Fault, float] = field(default_factory=lambda: FAULTS)  # per day
    actions: float = 6.0  # of the operator, per day

    @property
    def settles_s(self) -> float:
        """The time after which everything that was disturbed is taken over and works again."""
        return self.options.heartbeat_timeout_s + 2 * self.options.reaper_s + self.options.tick_s

    @property
    def suspect_s(self) -> float:
        """How long after a disturbance a node may still be declared dead."""
        return self.options.heartbeat_timeout_s + self.options.reaper_s

    @property
    def late_s(self) -> float:
        """The delay that lost and late commands may cause: a tick for a lost hint, and some delays."""
        return self.options.tick_s + 15 * self.odds.longest_s


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """The input of the checker."""

    scenario: Scenario
    history: History
    records: list[Execution]
    spans: list[Span]
    begin_us: int
    end_us: int  # by the reference clock
    healed_s: float
    end_s: float
    inconsistencies: list[str]  # from the checks of the store itself
    next_due_us: int | None
    dead_letters: list[bytes]  # by execution
    engine_errors: list[BaseException]  # errors that ended an engine
