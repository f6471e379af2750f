"""Answers of the store for lists and pages: the recent runs of jobs, counts, and what jobs have in common.

Every count stops at ``COUNT_CAP``: a result of ``COUNT_CAP + 1`` means "more than that".
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from chronos.core.execution import Execution, Status
from chronos.core.job import JobStatus
from chronos.store.day_counts import DayCount

COUNT_CAP = 10_000
LATE_ADMISSION_US = 5_000_000  # an instant that is due for longer and not admitted is late
LATE_START_US = 30_000_000  # an execution that is ready for longer is late


class JobSort(StrEnum):
    """The order of a list of jobs."""

    NAME = "name"  # by namespace and name
    NEXT_RUN = "next_run_at"  # soonest first; only jobs that have a next run
    LAST_RUN = "last_run_at"  # newest first; only jobs that have run


class RecentRun(NamedTuple):
    """One entry of a job's history, without its detail."""

    status: Status
    scheduled_us: int
    started_us: int | None
    finished_us: int
    attempt: int
    instants: int  # more than 1 for a span


class OpenRuns(NamedTuple):
    """The open executions of a job that have the same status."""

    status: Status
    held: bool
    runs: int
    since_us: int  # the earliest time since which one of them is ready, or was admitted
    started_us: int | None  # of the one that started first
    attempt: int  # the highest number


@dataclass(frozen=True, slots=True, kw_only=True)
class JobActivity:
    """What a job did lately and does now."""

    recent: tuple[RecentRun, ...] = ()  # newest first
    open: tuple[OpenRuns, ...] = ()
    failing_us: int | None = None  # end of the first failure since the last success
    succeeded_us: int | None = None  # end of the last success
    ran_us: int | None = None  # the newest instant whose execution has ended


@dataclass(frozen=True, slots=True, kw_only=True)
class StatusCounts:
    """Number of jobs, in total and by status, each up to ``COUNT_CAP + 1``. OK and NO_RUNS_YET are not counted."""

    total: int
    by_status: dict[JobStatus, int]


class Facet(NamedTuple):
    """A value that jobs have in common, and the number of these jobs, up to ``COUNT_CAP + 1``."""

    value: str
    jobs: int


class Load(NamedTuple):
    """The open executions of one lane and node that have the same status."""

    lane: int
    status: Status
    node: int | None
    held: bool
    runs: int
    since_us: int  # the earliest time since which one of them is ready, or was admitted
    started_us: int | None  # the earliest start of a current attempt


@dataclass(frozen=True, slots=True, kw_only=True)
class Blockage:
    """What an execution that has not started waits for: places of its job, and places of its concurrency key."""

    limit: int  # of the job; 0: none
    used: int  # places of the job in use
    holders: tuple[Execution, ...]  # other executions of the job that use one, the longest-running first; a few
    key_limit: int | None  # None: it has no key
    key_used: int | None
    key_holders: tuple[Execution, ...]
    ahead: int  # queued executions of the job that go first


@dataclass(frozen=True, slots=True, kw_only=True)
class EndedCounts:
    """How many executions and instants of spans ended, by status."""

    counts: dict[Status, int]
    rows: int  # of history that were counted; ``COUNT_CAP + 1`` means that there are more


@dataclass(frozen=True, slots=True, kw_only=True)
class JobDays:
    """The runs of a job per day, by day number (days since 1970)."""

    days: dict[int, DayCount]
    complete: bool  # False: the job has more history than was counted, so older days have too few runs
