"""The true history: what the work itself and the link to the store recorded, in true time.

True time is that of the loop, which no clock of the simulation can change. The wall time that the work saw is kept too.
"""

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from enum import Enum

from chronos.core.config import Update
from chronos.core.execution import Status
from chronos.core.job import ScheduleSpec


class RunOutcome(Enum):
    """How one attempt ended."""

    DONE = "done"
    FAILED = "failed"
    STOPPED = "stopped"
    KILLED = "killed"  # with its machine, or by its node


@dataclass(slots=True, kw_only=True)
class Run:
    """One attempt of one task, as its work recorded it."""

    job: bytes
    name: str
    execution: bytes
    scheduled_us: int
    task: str
    number: int
    token: int
    machine: str
    start_s: float  # true time
    start_wall_us: int
    end_s: float | None = None
    outcome: RunOutcome | None = None


class Fault(Enum):
    """A kind of fault."""

    CRASH = "crash"
    FREEZE = "freeze"
    CUT = "cut"
    STALL = "stall"  # commands of a machine hang for a while, and are applied and answered later
    OUTAGE = "outage"
    JUMP = "jump"
    LOST_COMMAND = "lost command"
    LOST_ACK = "lost ack"
    DELAY = "delay"
    LOST_HINT = "lost hint"
    CONFLICT = "conflict"  # rows that another transaction has locked


@dataclass(frozen=True, slots=True, kw_only=True)
class Disturbance:
    """A fault of a machine, or, with an empty name, of all machines."""

    fault: Fault
    machine: str
    from_s: float
    to_s: float

    def overlaps(self, machine: str, from_s: float, to_s: float) -> bool:
        return self.machine in ("", machine) and self.from_s <= to_s and from_s <= self.to_s


class Action(Enum):
    """A kind of action of the operator."""

    SAVE = "save"  # create, or update to another version
    PAUSE = "pause"
    RESUME = "resume"
    DELETE = "delete"
    CANCEL = "cancel"
    TRIGGER = "trigger"
    BACKFILL = "backfill"
    REPLAY = "replay"
    DEAD_LETTER = "dead letter"  # replayed or dropped


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """An action that the store applied to a job (or, for ``CANCEL``, to an execution)."""

    action: Action
    at_s: float  # when it was applied
    now_us: int  # the time in the command
    latest_shown_us: int  # the latest time that the reference clock had shown by then
    job: bytes  # or the execution
    name: str = ""
    schedule: ScheduleSpec | None = None
    update: Update | None = None
    caught_up: bool = False  # the job's cursor had been in the future for a while: nothing was due
    version: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimNote:
    """The store gave an execution to a node."""

    execution: bytes
    job: bytes
    machine: str
    token: int
    at_s: float
    first: bool  # the first claim of the execution
    behind: int = 0  # newer versions of its job at the first claim


@dataclass(frozen=True, slots=True, kw_only=True)
class SettledNote:
    """The store accepted an outcome, while the newest claim token was ``newest``."""

    execution: bytes
    token: int
    newest: int
    status: Status
    at_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Backfill:
    """An acknowledged backfill: each instant of a past range must run once."""

    name: str
    job: bytes
    from_us: int  # both ends included
    to_us: int
    at_s: float
    ids: tuple[bytes, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Replay:
    """A replay of a whole execution, or from its failed tasks."""

    first: bytes
    from_failed: bool


@dataclass(slots=True)
class History:
    """Everything that the checker knows besides the records of the store."""

    runs: list[Run] = field(default_factory=list)
    disturbances: list[Disturbance] = field(default_factory=list)
    faults: dict[Fault, int] = field(default_factory=lambda: defaultdict(int))
    jumps: list[tuple[float, int]] = field(
        default_factory=list
    )  # of the reference clock: when, and what it showed before
    changes: list[Change] = field(default_factory=list)
    actions: Counter[Action] = field(default_factory=Counter)  # acknowledged actions
    claims: dict[tuple[bytes, int], ClaimNote] = field(default_factory=dict)  # by execution and token
    settled: dict[bytes, SettledNote] = field(default_factory=dict)  # by execution: the first accepted outcome
    acked: dict[bytes, Status] = field(default_factory=dict)  # outcomes that were acknowledged to a node
    triggered: dict[bytes, float] = field(default_factory=dict)  # acknowledged triggers
    tokens: dict[bytes, int] = field(default_factory=dict)  # the newest claim of each execution
    created: dict[bytes, float] = field(default_factory=dict)  # requested by the operator or by an upstream job
    keys: dict[str, set[bytes]] = field(default_factory=lambda: defaultdict(set))  # executions by idempotency key
    backfills: list[Backfill] = field(default_factory=list)  # acknowledged ones
    replays: dict[bytes, Replay] = field(default_factory=dict)  # acknowledged ones, by the new execution
    carried: dict[bytes, bytes] = field(
        default_factory=dict
    )  # replays that start at the failed tasks, and their originals
    dropped: set[bytes] = field(default_factory=set)  # dead letters that the operator dropped

    def disturbed(self, machine: str, from_s: float, to_s: float, *faults: Fault) -> bool:
        """Whether one of these faults (any, if none is named) disturbed a machine in this time."""
        return any(d.overlaps(machine, from_s, to_s) and (not faults or d.fault in faults) for d in self.disturbances)


def describe_run(run: Run) -> str:
    """A run as text for a finding."""
    return (
        f"{run.name} {run.execution.hex()[:12]} {run.task} attempt {run.number} token {run.token} on {run.machine} "
        f"at {run.start_s:.0f}–{-1 if run.end_s is None else run.end_s:.0f} s"
    )
