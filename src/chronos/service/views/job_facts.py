"""JobFactsView: one job in full: since when and why it fails, who paused it, what is upstream and downstream of it."""

from dataclasses import dataclass

from chronos.clock import Clock
from chronos.core.execution import Execution, Status
from chronos.core.job import Job, JobState
from chronos.service.serializers.execution import lateness_us, read_detail
from chronos.service.views.job_rows import JobRow, JobRows, percentile
from chronos.service.why import WhyService
from chronos.store.contract import ExecutionFilter, Store

_SUCCEEDED = (Status.SUCCEEDED, Status.COMPLETED_WITH_ERRORS)
_FAILED = (Status.FAILED, Status.STALE)
_MAX_RUNS = 1_000  # that are read to find the first failure
_PAGE = 200
_RECENT_RUNS = 90
_FAILED_TASKS = ("failed", "timed_out")
_IDLE_ACTIONS = {JobState.PAUSED: "pause", JobState.DISABLED: "disable"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Failing:
    """Since when a job fails, and why."""

    since_us: int  # end of the first failure
    failures_in_a_row: int
    counted_all: bool  # False: there are at least so many
    first: Execution | None  # the first failure; None: it is no longer kept, or too far back
    last: Execution | None  # the last failure
    error: str | None  # of the last failure, in one line
    task: str | None  # that failed
    version: int | None  # the version that started it: its first run is the first failure
    last_success_us: int | None  # end of the last success, even if that run is no longer kept
    last_success: Execution | None


@dataclass(frozen=True, slots=True, kw_only=True)
class StateChange:
    """Who paused or disabled a job, when and why. ``by`` is None if the audit log no longer has it."""

    by: str | None
    at_us: int | None
    reason: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class JobFacts:
    """A job with everything that its page shows beside its runs."""

    row: JobRow
    failing: Failing | None
    paused: StateChange | None  # or disabled
    upstream: tuple[str, ...]
    downstream: tuple[str, ...]
    version_author: str | None
    version_saved_us: int | None
    delay_p99_us: int | None  # from due to started, of the recent runs
    retried: int  # recent runs that needed more than one attempt
    recent_runs: int


class JobFactsView:
    """Reads one job for its page."""

    def __init__(self, store: Store, clock: Clock, rows: JobRows, why: WhyService) -> None:
        self._store, self._clock, self._rows, self._why = store, clock, rows, why

    async def get(self, job: Job) -> JobFacts:
        """Return the facts of a job."""
        [row] = await self._rows.rows_of([job])
        page = await self._store.list_executions(ExecutionFilter(job=job.id), limit=_RECENT_RUNS)
        recent = [item for item in page.items if isinstance(item, Execution) and item.started_us is not None]
        delays_us = sorted(delay for item in recent if (delay := lateness_us(item)) is not None)
        versions = await self._store.versions(job.id, limit=1)
        followers = await self._store.followers(job.namespace, job.name)
        names = await self._store.names_of(sorted({follower for follower, _ in followers}))
        return JobFacts(
            row=row,
            failing=await self.failing(job, row),
            paused=await self._find_state_change(job),
            upstream=tuple(dict.fromkeys(upstream.job for upstream in job.spec.after)),
            downstream=tuple(sorted(name.name for name in names.values())),
            version_author=versions[0].author if versions else None,
            version_saved_us=versions[0].saved_us if versions else None,
            delay_p99_us=percentile(delays_us, 99),
            retried=sum(item.attempt > 1 for item in recent),
            recent_runs=len(recent),
        )

    async def failing(self, job: Job, row: JobRow) -> Failing | None:
        """Return since when a job fails; None if its last finished run succeeded, or it has none."""
        if row.failing_since_us is None:
            return None
        failures, success, counted_all = await self._read_failures(job)
        first, last = (
            (failures[-1], failures[0]) if failures and counted_all else (None, failures[0] if failures else None)
        )
        task, error = _find_error(last)
        is_first_of_version = first is not None and success is not None and success.job_version != first.job_version
        return Failing(
            since_us=row.failing_since_us,
            failures_in_a_row=len(failures),
            counted_all=counted_all,
            first=first,
            last=last,
            error=error,
            task=task,
            version=first.job_version if first is not None and is_first_of_version else None,
            last_success_us=row.last_success_us if success is None else success.finished_us,
            last_success=success,
        )

    async def _read_failures(self, job: Job) -> tuple[list[Execution], Execution | None, bool]:
        """Return the failures since the last success, newest first, that success, and whether these are all."""
        failures: list[Execution] = []
        cursor: bytes | None = None
        where = ExecutionFilter(job=job.id, statuses=(*_SUCCEEDED, *_FAILED))
        for _ in range(_MAX_RUNS // _PAGE):
            page = await self._store.list_executions(where, limit=_PAGE, cursor=cursor)
            for item in page.items:
                if not isinstance(item, Execution):
                    continue
                if item.status in _SUCCEEDED:
                    return failures, item, True
                failures.append(item)
            cursor = page.cursor
            if cursor is None:
                return failures, None, True
        return failures, None, False

    async def _find_state_change(self, job: Job) -> StateChange | None:
        action = _IDLE_ACTIONS.get(job.state)
        if action is None:
            return None
        entry = await self._why.find_state_change(job, self._clock.now_us())
        if entry is None or entry.action != action:
            return StateChange(by=None, at_us=job.paused_us, reason=job.note or None)
        return StateChange(by=entry.actor, at_us=entry.at_us, reason=job.note or None)


def _find_error(execution: Execution | None) -> tuple[str | None, str | None]:
    """Return the task that failed, and its error in one line."""
    if execution is None:
        return None, None
    report = read_detail(execution).report
    for task in () if report is None else report.tasks:
        if task.status in _FAILED_TASKS and task.error:
            return task.name, _one_line(task.error)
    return None, None if execution.reason is None else _one_line(execution.reason.message)


def _one_line(text: str, limit: int = 300) -> str:
    line = " ".join(text.split())
    return line if len(line) <= limit else f"{line[: limit - 1]}…"
