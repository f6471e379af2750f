"""LastSuccesses: the metric with the time of each job's last success.

Successes on this node are noted as they happen. Earlier ones are read from the store, a few jobs per scrape, so that a
restart does not hide a job that has not run since. Jobs that were deleted, disabled or are done leave the metric.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from prometheus_client import Metric
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from chronos.core.execution import Execution, Status
from chronos.core.job import Job, JobState
from chronos.observe import metric_definitions
from chronos.observe.event_log import JobNameLookup, format_job_name
from chronos.store.contract import ExecutionFilter, JobFilter, Store

SUCCESSES = (Status.SUCCEEDED, Status.COMPLETED_WITH_ERRORS)
_LOOKUPS_PER_SCRAPE = 100
_SYNC_INTERVAL_US = 60_000_000
_SHOWN_STATES = (JobState.ACTIVE, JobState.PAUSED)


@dataclass(slots=True)
class _LastSuccess:
    """The label of a job, and when it last succeeded; 0 if never, as far as the store knows."""

    label: str
    at_us: int = 0


class LastSuccesses(Collector):
    """Remembers the last success of up to ``MAX_JOBS`` jobs."""

    def __init__(self, name_of: JobNameLookup) -> None:
        self._name_of = name_of
        self._by_job: dict[bytes, _LastSuccess] = {}
        self._unread: list[bytes] = []  # jobs whose history was not read yet
        self._next_sync_us = 0

    def note(self, job: bytes, at_us: int) -> None:
        """Record that a job succeeded on this node."""
        entry = self._by_job.get(job)
        if entry is not None:
            entry.at_us = max(entry.at_us, at_us)
        elif len(self._by_job) < metric_definitions.MAX_JOBS and (full_name := self._name_of(job)) is not None:
            self._by_job[job] = _LastSuccess(format_job_name(full_name), at_us)

    async def read_store(self, store: Store, now_us: int) -> None:
        """Once per minute, follow the jobs of the store. Then read a few histories that were not read yet."""
        if now_us >= self._next_sync_us:
            await self._follow_jobs(store)
            self._next_sync_us = now_us + _SYNC_INTERVAL_US
        jobs = self._unread[:_LOOKUPS_PER_SCRAPE]
        newest = await store.latest(jobs) if jobs else {}
        for job in jobs:
            at_us = _finished_us(newest.get(job))
            if at_us is None and job in newest:
                at_us = await _find_last_success_us(store, job)
            if at_us is not None and (entry := self._by_job.get(job)) is not None:
                entry.at_us = max(entry.at_us, at_us)
        self._unread = self._unread[len(jobs) :]

    def collect(self) -> Iterator[Metric]:
        family = GaugeMetricFamily(
            "scheduler_job_last_success_timestamp_seconds", "When the job last succeeded.", labels=["job"]
        )
        for entry in self._by_job.values():
            if entry.at_us:
                family.add_metric([entry.label], entry.at_us / 1e6)
        yield family

    async def _follow_jobs(self, store: Store) -> None:
        """Add the jobs of a store that has at most ``MAX_JOBS``. Drop jobs that left the metric."""
        page = await store.list_jobs(JobFilter(), limit=metric_definitions.MAX_JOBS)
        if page.cursor is None:
            jobs = {job.id: job for job in page.items if job.state in _SHOWN_STATES}
            new = [job for job in jobs.values() if job.id not in self._by_job]
            self._by_job |= {job.id: _LastSuccess(_to_label(job)) for job in new}
            self._unread += [job.id for job in new]
        else:
            known = await store.jobs_by_id(list(self._by_job))
            jobs = {id_: job for id_, job in known.items() if job.state in _SHOWN_STATES}
        self._by_job = {job: entry for job, entry in self._by_job.items() if job in jobs}


def _to_label(job: Job) -> str:
    return format_job_name((job.namespace, job.name))


def _finished_us(execution: Execution | None) -> int | None:
    return execution.finished_us if execution is not None and execution.status in SUCCESSES else None


async def _find_last_success_us(store: Store, job: bytes) -> int | None:
    """Search the history of a job whose newest execution did not succeed."""
    found = [
        item.finished_us
        for status in SUCCESSES
        for item in (await store.list_executions(ExecutionFilter(job=job, status=status), limit=1)).items
        if isinstance(item, Execution) and item.finished_us is not None
    ]
    return max(found, default=None)
