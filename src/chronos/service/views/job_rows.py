"""JobRows: jobs as rows of a list, each with its status, its recent runs, and its schedule in words."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from chronos.clock import Clock
from chronos.core.execution import Status
from chronos.core.job import Job, JobState, JobStatus
from chronos.service.views.job_status import derive_job_status, overdue_us
from chronos.service.views.schedule_words import ScheduleWords, describe_schedule
from chronos.store.contract import JobFilter, Store
from chronos.store.overview import JobActivity, JobSort, RecentRun, StatusCounts

RECENT_RUNS = 60
_NO_ACTIVITY = JobActivity()


@dataclass(frozen=True, slots=True, kw_only=True)
class RunMark:
    """One finished run or span, as one bar of a sparkline."""

    status: Status
    scheduled_us: int
    started_us: int | None
    finished_us: int
    duration_us: int | None  # None: it did not start
    retried: bool
    count: int  # of scheduled times; more than 1 for a span


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRow:
    """A job as one row of a list."""

    job: Job
    status: JobStatus
    schedule: ScheduleWords | None
    recent: tuple[RunMark, ...]  # oldest first
    p50_us: int | None  # of the durations of the recent runs that succeeded
    p95_us: int | None
    last_run: RunMark | None  # the newest finished run that had started
    next_us: int | None
    overdue_us: int | None  # for how long a run is late
    failing_since_us: int | None
    last_success_us: int | None
    running_since_us: int | None
    open_runs: int  # started or waiting, not finished


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRowPage:
    """One page of rows. A page that is not ``complete`` ends early; ``next_cursor`` continues the search."""

    rows: tuple[JobRow, ...]
    next_cursor: bytes | None
    previous_cursor: bytes | None
    complete: bool


class JobRows:
    """Reads jobs for lists."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store, self._clock = store, clock

    async def page(
        self, where: JobFilter, *, sort: JobSort = JobSort.NAME, limit: int = 100, cursor: bytes | None = None
    ) -> JobRowPage:
        """Return a page of jobs as rows. ``where.status`` means the status now.

        Raises ``Invalid`` for a cursor of another order.
        """
        where = replace(where, now_us=self._clock.now_us())
        page = await self._store.list_jobs(where, limit=limit, cursor=cursor, sort=sort)
        return JobRowPage(
            rows=tuple(await self.rows_of(page.items)),
            next_cursor=page.cursor,
            previous_cursor=page.previous,
            complete=page.complete,
        )

    async def rows_of(self, jobs: Sequence[Job], *, recent: int = RECENT_RUNS) -> list[JobRow]:
        """Return jobs as rows, in the same order."""
        activity = await self._store.job_activity([job.id for job in jobs], recent=recent)
        now_us = self._clock.now_us()
        return [build_row(job, activity.get(job.id, _NO_ACTIVITY), now_us) for job in jobs]

    async def counts(self, namespace: str | None) -> StatusCounts:
        """Count the jobs of a namespace (None: of all) by status, each up to ``COUNT_CAP + 1``."""
        return await self._store.count_jobs(namespace, self._clock.now_us())


def build_row(job: Job, activity: JobActivity, now_us: int) -> JobRow:
    """Build the row of a job."""
    marks = tuple(_to_mark(run) for run in reversed(activity.recent))
    durations_us = sorted(
        mark.duration_us for mark in marks if mark.status is Status.SUCCEEDED and mark.duration_us is not None
    )
    started = [runs.started_us for runs in activity.open if runs.started_us is not None]
    return JobRow(
        job=job,
        status=derive_job_status(job, activity, now_us),
        schedule=describe_schedule(job),
        recent=marks,
        p50_us=percentile(durations_us, 50),
        p95_us=percentile(durations_us, 95),
        last_run=next((mark for mark in reversed(marks) if mark.started_us is not None), None),
        next_us=job.next_us if job.state is JobState.ACTIVE else None,
        overdue_us=overdue_us(job, activity, now_us),
        failing_since_us=activity.failing_us,
        last_success_us=activity.succeeded_us,
        running_since_us=min(started, default=None),
        open_runs=sum(runs.runs for runs in activity.open),
    )


def percentile(sorted_values: Sequence[int], percent: int) -> int | None:
    """Return the smallest value that at least ``percent`` of the values do not exceed; None without values."""
    return sorted_values[-(-len(sorted_values) * percent // 100) - 1] if sorted_values else None


def _to_mark(run: RecentRun) -> RunMark:
    return RunMark(
        status=run.status,
        scheduled_us=run.scheduled_us,
        started_us=run.started_us,
        finished_us=run.finished_us,
        duration_us=None if run.started_us is None else max(0, run.finished_us - run.started_us),
        retried=run.attempt > 1,
        count=run.instants,
    )
