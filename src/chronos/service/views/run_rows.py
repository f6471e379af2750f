"""RunRows: runs as rows of a list, newest first, and the neighbours of a run."""

from collections.abc import Callable
from dataclasses import dataclass

from chronos.clock import Clock
from chronos.core.execution import Execution, Span, Status
from chronos.service.serializers.execution import count_attempts, lateness_us, read_detail
from chronos.service.views.job_rows import RECENT_RUNS, percentile
from chronos.store.contract import ExecutionFilter, JobName, Neighbours, Page, Store
from chronos.store.overview import LATE_START_US, JobActivity

NOT_RUN = (Status.SKIPPED, Status.MISSED)
IN_PROGRESS = (Status.RUNNING, Status.WAITING, Status.READY, Status.QUEUED)
FAILED = (Status.FAILED, Status.STALE, Status.COMPLETED_WITH_ERRORS)
_MAX_PAGES = 20  # that one page may read to find matching runs
_MAX_IN_PROGRESS = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRow:
    """A run or a span as one row of a list."""

    item: Execution | Span
    job: JobName | None  # None: nothing is known of the job any longer
    node: str | None
    status: str  # of the item, or ``retrying`` or ``late``
    details: str | None  # why it ended, or what it waits for, as a sentence
    duration_us: int | None  # so far, if it is in progress
    lateness_us: int | None
    attempts: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RunPage:
    """One page of rows. A page that is not ``complete`` ends early; ``next_cursor`` continues the search."""

    rows: tuple[RunRow, ...]
    next_cursor: bytes | None
    complete: bool


class RunRows:
    """Reads runs for lists."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store, self._clock = store, clock

    async def page(
        self,
        where: ExecutionFilter,
        *,
        namespace: str | None = None,
        slow: bool = False,
        limit: int = 100,
        cursor: bytes | None = None,
        sees: Callable[[str], bool] | None = None,
    ) -> RunPage:
        """Return a page of runs, newest first.

        - ``namespace``: only runs of jobs in it. ``sees`` leaves out other namespaces.
        - ``slow``: only runs that took longer than 95% of the recent runs of their job.
        """
        found: list[Execution | Span] = []
        names: dict[bytes, JobName] = {}
        complete = True
        for _ in range(_MAX_PAGES):
            page = await self._store.list_executions(where, limit=limit - len(found), cursor=cursor)
            names |= await self._store.names_of(sorted({item.job for item in page.items} - names.keys()))
            kept = [item for item in page.items if _is_seen(names.get(item.job), namespace, sees)]
            found += await self._keep_slow(kept) if slow else kept
            cursor, complete = page.cursor, page.complete
            if cursor is None or len(found) >= limit:
                break
        is_short = cursor is not None and len(found) < limit
        rows = await self.rows_of(found, names)
        return RunPage(rows=tuple(rows), next_cursor=cursor, complete=complete and not is_short)

    async def in_progress(
        self,
        *,
        job: bytes | None = None,
        namespace: str | None = None,
        limit: int = 100,
        sees: Callable[[str], bool] | None = None,
    ) -> list[RunRow]:
        """Return runs that are not finished: the longest-running first, then those that wait, the oldest first.

        Reads at most 1,000 of them.
        """
        where = ExecutionFilter(job=job, statuses=IN_PROGRESS)
        page: Page[Execution | Span] = await self._store.list_executions(where, limit=_MAX_IN_PROGRESS)
        names = await self._store.names_of(sorted({item.job for item in page.items}))
        seen = [item for item in page.items if _is_seen(names.get(item.job), namespace, sees)]
        seen.sort(key=_by_start)
        return await self.rows_of(seen[:limit], names)

    async def rows_of(self, items: list[Execution | Span], names: dict[bytes, JobName] | None = None) -> list[RunRow]:
        """Return runs as rows, in the same order."""
        known = await self._store.names_of(sorted({item.job for item in items})) if names is None else names
        numbers = {item.node for item in items if isinstance(item, Execution)}
        nodes = {node.number: node.name for node in await self._store.nodes()} if numbers - {None} else {}
        now_us = self._clock.now_us()
        return [build_run_row(item, known.get(item.job), nodes, now_us) for item in items]

    async def neighbours(self, execution: Execution) -> Neighbours:
        """Return the runs of the same job just before and after a run."""
        return await self._store.neighbours(execution.job, execution.id)

    async def _keep_slow(self, items: list[Execution | Span]) -> list[Execution | Span]:
        """Return the runs that took longer than 95% of the recent runs of their job."""
        jobs = sorted({item.job for item in items})
        activity = await self._store.job_activity(jobs, recent=RECENT_RUNS)
        usual = {job: _find_p95(found) for job, found in activity.items()}
        slow: list[Execution | Span] = []
        for item in items:
            limit_us = usual.get(item.job)
            if not isinstance(item, Execution) or limit_us is None:
                continue
            if item.started_us is not None and item.finished_us is not None:
                slow += [item] if item.finished_us - item.started_us > limit_us else []
        return slow


def build_run_row(item: Execution | Span, job: JobName | None, nodes: dict[int, str], now_us: int) -> RunRow:
    """Build the row of a run or span."""
    details = None if item.reason is None or item.status is Status.SUCCEEDED else item.reason.message
    if isinstance(item, Span):
        return RunRow(
            item=item,
            job=job,
            node=None,
            status=item.status.name.lower(),
            details=details,
            duration_us=None,
            lateness_us=None,
            attempts=0,
        )
    end_us = now_us if item.finished_us is None else item.finished_us
    return RunRow(
        item=item,
        job=job,
        node=None if item.node is None else nodes.get(item.node, str(item.node)),
        status=find_run_status(item, now_us),
        details=details or _describe_wait(item),
        duration_us=None if item.started_us is None else max(0, end_us - item.started_us),
        lateness_us=lateness_us(item),
        attempts=count_attempts(item, read_detail(item)),
    )


def find_run_status(execution: Execution, now_us: int) -> str:
    """Return the status of a run as people see it: ``retrying`` and ``late`` are told apart."""
    if not execution.status.final and execution.started_us is not None and execution.attempt > 1:
        return "retrying"
    if execution.status is Status.READY and not execution.held and execution.admitted_us <= now_us - LATE_START_US:
        return "late"
    return execution.status.name.lower()


def _describe_wait(execution: Execution) -> str | None:
    if execution.held:
        return "Waiting: the job is paused."
    match execution.status:
        case Status.READY:
            return "Waiting for a slot."
        case Status.QUEUED:
            return "Waiting for an earlier run to finish."
        case Status.WAITING if execution.started_us is None:
            return "Waiting for its start time."
        case Status.WAITING:
            return "Waiting for a retry, a time or a signal."
        case _:
            return None


def _is_seen(job: JobName | None, namespace: str | None, sees: Callable[[str], bool] | None) -> bool:
    if job is None:
        return namespace is None and sees is None
    return namespace in (None, job.namespace) and (sees is None or sees(job.namespace))


def _by_start(item: Execution | Span) -> tuple[int, int, bytes]:
    started_us = item.started_us if isinstance(item, Execution) else None
    return (1, int.from_bytes(item.id[:6]), item.id) if started_us is None else (0, started_us, item.id)


def _find_p95(activity: JobActivity) -> int | None:
    durations_us = sorted(
        run.finished_us - run.started_us
        for run in activity.recent
        if run.status is Status.SUCCEEDED and run.started_us is not None
    )
    return percentile(durations_us, 95)
