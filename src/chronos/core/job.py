"""Definitions: what a job is, in immutable values. Only what somebody said is kept; the rest falls from above."""

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
from chronos.core.schedule.parser import parse_schedule
from chronos.core.schedule.schedule import Schedule
from chronos.errors import Invalid

DEFAULT_NAMESPACE = "default"
_NAME_INDEPENDENT = re.compile(r"[0-9*,/ -]+|@[a-z]+|@every [0-9a-z.]+", re.ASCII)  # no ``H`` of a name, no words


class JobState(IntEnum):
    """Whether a job's schedule is in force."""

    ACTIVE = 0
    PAUSED = 1
    DISABLED = 2
    DONE = 3  # a one-time job that fired


class UpstreamCondition(StrEnum):
    """Which outcome of an upstream job lets a follower run."""

    SUCCESS = "success"
    FAILURE = "failure"
    COMPLETION = "completion"


class ScheduleSpec(Definition, frozen=True, kw_only=True):
    """A schedule as it was written, from which its value can be made again on any node."""

    text: str
    timezone: str | None = None
    dialect: str = "auto"
    dst: str = "robust"
    start_us: int | None = None
    end_us: int | None = None
    jitter_us: int = 0
    exclude: tuple[str, ...] = ()

    def parse(self, key: str) -> Schedule:
        """The schedule; ``key`` is the job's name. Raises ``InvalidSchedule``.

        Thousands of jobs often say the same: what the name has nothing to do with is made and kept once.
        """
        return _shared(self) if self.is_name_independent else _parse(self, key)

    @property
    def is_name_independent(self) -> bool:
        """Whether the job's name surely has nothing to do with its instants."""
        return not self.jitter_us and not self.exclude and _NAME_INDEPENDENT.fullmatch(self.text) is not None


class OutgoingSchedule(Definition, frozen=True, kw_only=True):
    """A schedule that was replaced and stays in force for a while: the new one follows it."""

    schedule: ScheduleSpec
    until_us: int  # its instants up to here count
    first_us: int | None = None  # the first instant of the new one
    before: "OutgoingSchedule | None" = None  # itself still waited for this one when it was replaced


class Target(Definition, frozen=True, kw_only=True):
    """What a task does: a kind (``http``, ``command``, ``python``, ``wait`` …) and that kind's own options."""

    kind: str
    options: dict[str, Any] = field(default_factory=dict)

    def __repr__(self) -> str:
        """Without credentials: a target may stand in a log line or in a traceback."""
        return f"Target(kind={self.kind!r}, options={mask_options(self.options)!r})"


class Task(Definition, frozen=True, kw_only=True):
    """One unit of work of a job, with what it overrides."""

    name: str
    target: Target
    needs: tuple[str, ...] = ()
    settings: Settings = NOTHING_SET


class UpstreamJob(Definition, frozen=True, kw_only=True):
    """Another job of the namespace that this one follows."""

    job: str
    on: UpstreamCondition = UpstreamCondition.SUCCESS


class JobSpec(Definition, frozen=True, kw_only=True):
    """All that a version of a job says. Saved whole; two versions are compared by value."""

    schedule: ScheduleSpec | None = None  # none: runs when it is triggered, or follows others
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
    outgoing: OutgoingSchedule | None = None  # not said by anybody: kept while an update comes into force


class Unreadable(JobSpec, frozen=True, kw_only=True):
    """In place of what the store holds and this release cannot read: nothing is known of it but why."""

    error: str


def ensure_readable(spec: JobSpec) -> JobSpec:
    """The spec itself. Raises ``Invalid`` where it stands for one that cannot be read."""
    if isinstance(spec, Unreadable):
        raise Invalid(spec.error)
    return spec


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A job as the store holds it: identity, the version in force, and where its schedule stands."""

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


@dataclass(frozen=True, slots=True, kw_only=True)
class JobVersion:
    """One version of a job, kept for listing, comparing and rolling back."""

    job: bytes
    version: int
    spec: JobSpec
    saved_us: int
    author: str


def _parse(spec: ScheduleSpec, key: str) -> Schedule:
    return parse_schedule(
        spec.text,
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
def _shared(spec: ScheduleSpec) -> Schedule:
    return _parse(spec, "")
