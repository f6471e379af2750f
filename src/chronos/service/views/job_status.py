"""Derives the status of a job from its state and its activity. ``store.sql.jobs.statuses`` finds jobs by the same."""

from chronos.core.execution import Status
from chronos.core.job import Job, JobState, JobStatus
from chronos.store.overview import LATE_ADMISSION_US, LATE_START_US, JobActivity, OpenRuns

_IDLE = {
    JobState.DISABLED: JobStatus.DISABLED,
    JobState.DONE: JobStatus.DONE,
    JobState.PAUSED: JobStatus.PAUSED,
}
_AT_WORK = (Status.RUNNING, Status.WAITING)


def derive_job_status(job: Job, activity: JobActivity, now_us: int) -> JobStatus:
    """Return the first status that applies, in the order of ``JobStatus``."""
    if job.state in _IDLE:
        return _IDLE[job.state]
    if overdue_us(job, activity, now_us) is not None:
        return JobStatus.LATE
    if any(runs.attempt > 1 and runs.started_us is not None for runs in activity.open):
        return JobStatus.RETRYING
    if any(runs.status in _AT_WORK and runs.started_us is not None for runs in activity.open):
        return JobStatus.RUNNING
    if activity.failing_us is not None:
        return JobStatus.FAILING
    return JobStatus.NO_RUNS_YET if activity.ran_us is None else JobStatus.OK


def overdue_us(job: Job, activity: JobActivity, now_us: int) -> int | None:
    """Return for how long a run is late; None if no run is late."""
    if job.state is not JobState.ACTIVE:
        return None
    delays = [now_us - runs.since_us for runs in activity.open if _is_ready_for_long(runs, now_us)]
    if job.next_us is not None and job.next_us <= now_us - LATE_ADMISSION_US:
        delays.append(now_us - job.next_us)
    return max(delays, default=None)


def _is_ready_for_long(runs: OpenRuns, now_us: int) -> bool:
    return runs.status is Status.READY and not runs.held and runs.since_us <= now_us - LATE_START_US
