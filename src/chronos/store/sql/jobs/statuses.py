"""Conditions for the status of jobs, and the jobs that may have a status, from short indexes.

``service.views.job_status`` derives the same statuses from the activity of a job.
"""

from chronos.core.execution import Status
from chronos.core.job import JobState, JobStatus
from chronos.store.overview import COUNT_CAP, LATE_ADMISSION_US, LATE_START_US
from chronos.store.sql.query import Dialect

_READY, _RUNNING, _WAITING = int(Status.READY), int(Status.RUNNING), int(Status.WAITING)
_READY_LONG = (
    f"{{0}}status = {_READY} and {{0}}held = 0 and coalesce({{0}}ready_since_us, {{0}}admitted_us) <= "
    f"cast({{1}} as bigint) - {LATE_START_US}"
).format
_IS_RETRY = "{0}attempt > 1 and {0}started_us is not null".format
_IS_WORK = f"{{0}}status in ({_RUNNING}, {_WAITING}) and {{0}}started_us is not null".format
_NOT_ADMITTED = f"{{0}}next_us is not null and {{0}}next_us <= cast({{1}} as bigint) - {LATE_ADMISSION_US}".format

#: Statuses of jobs that are not active, which the table ``idle`` lists.
IDLE_STATES = {
    JobStatus.DISABLED: JobState.DISABLED,
    JobStatus.DONE: JobState.DONE,
    JobStatus.PAUSED: JobState.PAUSED,
}
#: Statuses of active jobs of which an index has all candidates.
FOUND_BY_INDEX = (JobStatus.LATE, JobStatus.RETRYING, JobStatus.RUNNING, JobStatus.FAILING)


def status_sql(status: JobStatus, now_us: str) -> str:
    """Return a condition on a gate ``g``: its job has this status at ``now_us``, a placeholder."""
    if status in IDLE_STATES:
        return f"g.state = {int(IDLE_STATES[status])}"
    ready_long, retry, work = (
        f"exists (select 1 from active as a where a.job = g.job and {test})"
        for test in (_READY_LONG("a.", now_us), _IS_RETRY("a."), _IS_WORK("a."))
    )
    tests = {
        JobStatus.LATE: f"(({_NOT_ADMITTED('g.', now_us)}) or {ready_long})",
        JobStatus.RETRYING: retry,
        JobStatus.RUNNING: work,
        JobStatus.FAILING: "g.failing_us is not null",
        JobStatus.NO_RUNS_YET: "g.ran_us is null",
    }
    earlier: list[str] = []
    for other, test in tests.items():
        if other is status:
            return " and ".join(["g.state = 0", *earlier, test])
        earlier.append(f"not {test}" if test.startswith(("(", "exists")) else f"not ({test})")
    return " and ".join(["g.state = 0", *earlier])


def candidates_sql(status: JobStatus, now_us: str) -> str:
    """Return a query of the ids of jobs that may have a status of ``FOUND_BY_INDEX``, and of a few more jobs.

    It returns at most ``COUNT_CAP + 1`` ids.
    """
    cap = f"limit {COUNT_CAP + 1}"
    open_ones = f"select distinct job from (select job from active where {{}} {cap}) as o".format
    match status:
        case JobStatus.LATE:
            due = f"select job from gate where state = 0 and {_NOT_ADMITTED('', now_us)} {cap}"
            ready = f"select job from active where {_READY_LONG('', now_us)} {cap}"
            return f"select job from (select job from ({due}) as d union select job from ({ready}) as r) as late {cap}"
        case JobStatus.RETRYING:
            return open_ones(_IS_RETRY(""))
        case JobStatus.RUNNING:
            return open_ones(_IS_WORK(""))
        case _:
            return f"select job from gate where failing_us is not null {cap}"


def named_candidates_sql(d: Dialect, status: JobStatus, now_us: str) -> str:
    """Return a query of the candidates of a status: job, namespace, name."""
    return f"""select n.id as job, n.namespace, n.name from ({candidates_sql(status, now_us)}) as s
        join job as n on {d.is_job("n", "s.job")}"""
