"""What really happened, written down by the work itself and by the wire to the store, in true time.

True time is the loop's: no clock of the simulation can change it. The wall time that the work saw is kept beside it.
"""

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from enum import Enum

from chronos.core.config import Update
from chronos.core.execution import Status
from chronos.core.job import ScheduleSpec


class Fate(Enum):
    """How one try ended."""

    DONE = "done"
    FAILED = "failed"
    STOPPED = "stopped"
    KILLED = "killed"  # with its machine, or by force


@dataclass(slots=True, kw_only=True)
class Run:
    """One try of one task, as its work saw it."""

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
    fate: Fate | None = None


class Fault(Enum):
    """What was done to the system."""

    CRASH = "crash"
    FREEZE = "freeze"
    CUT = "cut"
    STALL = "stall"  # what a machine asks of the store hangs for a while, and is done and answered later
    OUTAGE = "outage"
    JUMP = "jump"
    LOST_COMMAND = "lost command"
    LOST_ACK = "lost ack"
    DELAY = "delay"
    LOST_HINT = "lost hint"
    CONFLICT = "conflict"  # rows that somebody else holds a lock on


@dataclass(frozen=True, slots=True, kw_only=True)
class Disturbance:
    """A machine, or with an empty name all of them, was not well for a while."""

    fault: Fault
    machine: str
    from_s: float
    to_s: float

    def meets(self, machine: str, from_s: float, to_s: float) -> bool:
        return self.machine in ("", machine) and self.from_s <= to_s and from_s <= self.to_s


class Deed(Enum):
    """What somebody asked for."""

    SAVE = "save"  # create, or update to another version
    PAUSE = "pause"
    RESUME = "resume"
    DELETE = "delete"
    CANCEL = "cancel"
    TRIGGER = "trigger"
    BACKFILL = "backfill"
    REPLAY = "replay"
    LETTER = "letter"  # a dead one: it is replayed, or dropped


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """The store did to a job (or, for ``CANCEL``, to an execution) what somebody asked for."""

    deed: Deed
    at_s: float  # when it was applied
    now_us: int  # what the command said it is
    highest_us: int  # the latest time that the clock which counts had shown until then
    job: bytes  # or the execution
    name: str = ""
    schedule: ScheduleSpec | None = None
    update: Update | None = None
    caught_up: bool = False  # the job's cursor stood in the future, and had for a while: nothing was due
    version: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimNote:
    """The store gave an execution to a node."""

    execution: bytes
    job: bytes
    machine: str
    token: int
    at_s: float
    first: bool  # it had never been given to anybody
    behind: int = 0  # versions that its job had gone on when it was first given out


@dataclass(frozen=True, slots=True, kw_only=True)
class SettledNote:
    """The store accepted an outcome, while the newest claim it had given out was ``newest``."""

    execution: bytes
    token: int
    newest: int
    status: Status
    at_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Backfill:
    """A past range that somebody asked for, and was told will be run: each of its instants once."""

    name: str
    job: bytes
    from_us: int  # both ends included
    to_us: int
    at_s: float
    ids: tuple[bytes, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Replay:
    """An execution that somebody asked for once more, all of it or from its failed tasks."""

    first: bytes
    from_failed: bool


@dataclass(slots=True)
class History:
    """Everything the checker may know beside the store's own records."""

    runs: list[Run] = field(default_factory=list)
    disturbances: list[Disturbance] = field(default_factory=list)
    faults: dict[Fault, int] = field(default_factory=lambda: defaultdict(int))
    jumps: list[tuple[float, int]] = field(default_factory=list)  # of the clock that counts: when, and what it showed
    changes: list[Change] = field(default_factory=list)
    deeds: Counter[Deed] = field(default_factory=Counter)  # that were acknowledged
    claims: dict[tuple[bytes, int], ClaimNote] = field(default_factory=dict)  # by execution and token
    settled: dict[bytes, SettledNote] = field(default_factory=dict)  # by execution: the first outcome that was accepted
    acked: dict[bytes, Status] = field(default_factory=dict)  # outcomes that a node was told are on record
    asked: dict[bytes, float] = field(default_factory=dict)  # triggers that were acknowledged
    tokens: dict[bytes, int] = field(default_factory=dict)  # the newest claim of each execution
    created: dict[bytes, float] = field(default_factory=dict)  # what was asked for, by hand or by a job before it
    keys: dict[str, set[bytes]] = field(default_factory=lambda: defaultdict(set))  # and what each key created
    backfills: list[Backfill] = field(default_factory=list)  # that were acknowledged
    replays: dict[bytes, Replay] = field(default_factory=dict)  # the same, by the new execution
    carried: dict[bytes, bytes] = field(default_factory=dict)  # replays that begin where the first one failed
    dropped: set[bytes] = field(default_factory=set)  # dead letters that are off the list

    def disturbed(self, machine: str, from_s: float, to_s: float, *faults: Fault) -> bool:
        """Whether one of these (any, if none is named) happened to a machine in this time."""
        return any(d.meets(machine, from_s, to_s) and (not faults or d.fault in faults) for d in self.disturbances)
