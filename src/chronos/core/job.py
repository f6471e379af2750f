"""Definitions of jobs, as immutable values. A definition holds only its own settings; the rest is inherited."""

import re
from dataclasses import dataclass
from datetime import timedelta
from enum import IntEnum, StrEnum
from functools import lru_cache
from typing import Any

from msgspec import field

from chronos.core.calendar import from_us
from chronos.core.config import NOTHING_SET, Definition, Settings
from chronos.core.credentials import mask_options
from chronos.core.schedule.cron_parser import MACROS
from chronos.core.schedule.parser import parse_schedule
from chronos.core.schedule.schedule import Schedule
from chronos.core.schedule.union import split_expressions
from chronos.core.settings.levels import NO_LEVELS
from chronos.errors import Invalid, InvalidSchedule

DEFAULT_NAMESPACE = "default"
ONE_OFF_TAG = "one-off"  # of a job that has only one-off runs, with the kind of its target
#: No ``H``, no words, and no custom schedules, which a program may register again.
_NAME_INDEPENDENT = re.compile(rf"[0-9*,/ -]+|{'|'.join(MACROS)}|@every [0-9a-z.]+", re.ASCII)


class JobState(IntEnum):
    """The state of a job: only an active job follows its schedule."""

    ACTIVE = 0
    PAUSED = 1
    DISABLED = 2
    DONE = 3  # its schedule has ended


class JobStatus(StrEnum):
    """What a person wants to know about a job at first sight. The first that applies, in this order."""

    DISABLED = "disabled"
    DONE = "done"
    PAUSED = "paused"
    LATE = "late"  # an instant is due and not admitted, or an execution is ready for long
    RETRYING = "retrying"
    RUNNING = "running"
    FAILING = "failing"  # its last finished run failed or is stale
    NO_RUNS_YET = "no_runs_yet"
    OK = "ok"


class UpstreamCondition(StrEnum):
    """The outcome of an upstream job that starts a downstream job."""

    SUCCESS = "success"
    FAILURE = "failure"
    COMPLETION = "completion"


class ScheduleSpec(Definition, frozen=True, kw_only=True):
    """A schedule as it was written. Every node can parse it to the same schedule. A union is one text."""

    text: str
    timezone: str | None = None
    dialect: str = "auto"
    dst: str = "robust"
    start_us: int | None = None
    end_us: int | None = None
    jitter_us: int = 0
    exclude: tuple[str, ...] = ()

    def parse(self, key: str) -> Schedule:
        """Parse the schedule of the job named ``key``. Raises ``InvalidSchedule``.

        Schedules that do not depend on the name are cached, because many jobs share the same text.
        """
        return _parse_shared(self) if self.is_name_independent else _parse(self, key)

    @property
    def is_name_independent(self) -> bool:
        """Whether the instants certainly do not depend on the job's name."""
        return not self.jitter_us and not self.exclude and _NAME_INDEPENDENT.fullmatch(self.text) is not None


class OutgoingSchedule(Definition, frozen=True, kw_only=True):
    """A replaced schedule that stays in force until the new one begins."""

    schedule: ScheduleSpec
    until_us: int  # its last instant is not after this
    first_us: int | None = None  # the first instant of the new one
    before: "OutgoingSchedule | None" = None  # was still in force when this one was replaced


class Target(Definition, frozen=True, kw_only=True):
    """What a task does: a kind (``http``, ``command``, ``python``, ``wait`` …) and the options of that kind."""

    kind: str
    options: dict[str, Any] = field(default_factory=dict)

    def __repr__(self) -> str:
        """Mask credentials, because a target may appear in a log line or traceback."""
        return f"Target(kind={self.kind!r}, options={mask_options(self.options)!r})"


class Task(Definition, frozen=True, kw_only=True):
    """One step of a job, with the settings it overrides."""

    name: str
    target: Target
    needs: tuple[str, ...] = ()
    settings: Settings = NOTHING_SET


class UpstreamJob(Definition, frozen=True, kw_only=True):
    """Another job of the namespace that must end before this one runs."""

    job: str
    on: UpstreamCondition = UpstreamCondition.SUCCESS


class JobSpec(Definition, frozen=True, kw_only=True):
    """The definition in one version of a job. Versions are compared by value."""

    schedule: ScheduleSpec | None = None  # None: runs only when triggered, or after upstream jobs
    tasks: tuple[Task, ...] = ()
    settings: Settings = NOTHING_SET
    description: str = ""
    after: tuple[UpstreamJob, ...] = ()
    on_start: Target | None = None
    on_complete: Target | None = None
    alerts: tuple[dict[str, Any], ...] = ()
    owner: str | None = None
    tags: dict[str, str] = field(default_factory=dict)
    payload: Any = None
    outgoing: OutgoingSchedule | None = None  # set by Chronos while an update comes into force


class Unreadable(JobSpec, frozen=True, kw_only=True):
    """A definition in the store that this release cannot read; ``error`` says why."""

    error: str


def ensure_readable(spec: JobSpec) -> JobSpec:
    """Return the spec. Raises ``Invalid`` if it is unreadable."""
    if isinstance(spec, Unreadable):
        raise Invalid(spec.error)
    return spec


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A job in the store: its identity, current version, state and next instant."""

    id: bytes
    namespace: str
    name: str
    incarnation: int
    version: int
    state: JobState
    spec: JobSpec
    next_us: int | None
    created_us: int
    updated_us: int
    paused_us: int | None = None
    note: str = ""  # why it is paused or disabled
    levels: int = NO_LEVELS  # the levels that its next execution gets, see ``core.settings.levels``


def find_zone(job: Job) -> str | None:
    """Return the time zone of a job's schedule; None if it has no schedule, or one that cannot be read."""
    if isinstance(job.spec, Unreadable) or job.spec.schedule is None:
        return None
    try:
        return job.spec.schedule.parse(job.name).zone.name
    except InvalidSchedule:
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class JobVersion:
    """One version of a job, kept for listing, comparing and rolling back."""

    job: bytes
    version: int
    spec: JobSpec
    saved_us: int
    author: str


def _parse(spec: ScheduleSpec, key: str) -> Schedule:
    expressions = split_expressions(spec.text)
    return parse_schedule(
        spec.text if len(expressions) == 1 else [text for text, _ in expressions],
        timezone=spec.timezone,
        dialect=spec.dialect,
        dst=spec.dst,
        start=None if spec.start_us is None else from_us(spec.start_us),
        end=None if spec.end_us is None else from_us(spec.end_us),
        jitter=timedelta(microseconds=spec.jitter_us) if spec.jitter_us else None,
        exclude=spec.exclude,
        key=key,
    )


@lru_cache(maxsize=4_096)
def _parse_shared(spec: ScheduleSpec) -> Schedule:
    return _parse(spec, "")
