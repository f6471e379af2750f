"""Metrics of a node: counts the engine's events, and reads gauges from the store before a scrape.

Each server has its own registry, so that two servers in one process do not mix.
"""

import asyncio
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from typing import TypeVar, assert_never

from prometheus_client import (
    Counter,
    GCCollector,
    Histogram,
    Metric,
    PlatformCollector,
    ProcessCollector,
    generate_latest,
)
from prometheus_client.registry import Collector, CollectorRegistry

from chronos.clock import Clock
from chronos.core.events import (
    AttemptEnded,
    Event,
    ExecutionAdmitted,
    ExecutionEnded,
    ExecutionStarted,
    GapFound,
    JobLeftAlone,
    JobUnschedulable,
    ProblemReported,
)
from chronos.core.execution import AttemptStatus, Status
from chronos.core.job import JobState
from chronos.core.lane import read_lane
from chronos.core.node import Node
from chronos.core.reasons import ReasonCode
from chronos.core.shortage import explain_shortage
from chronos.errors import ChronosError
from chronos.observe.delay_history import DelayHistory
from chronos.observe.event_log import JobNameLookup
from chronos.observe.last_successes import SUCCESSES, LastSuccesses
from chronos.observe.metric_definitions import UNKNOWN_JOB_LABEL, JobLabels, MetricDefinitions
from chronos.store.contract import Store

_STORE_READ_TIMEOUT_S = 2.0
_MAX_DEAD_LETTERS = 100_000  # a count beyond it would take long
_PAUSE_PER_READ, _MAX_PAUSE_S = 4, 0.5  # pause between two reads: 4 times the last read, to bound the load
_MAX_UNSCHEDULABLE_JOBS = 10_000
_MAX_CACHED_SERIES = 20_000
K = TypeVar("K")
V = TypeVar("V")


class Metrics:
    """The metrics of one node.

    ``count_event`` takes the engine's events, ``observe_commit`` the store's transactions.
    """

    def __init__(
        self,
        store: Store,
        clock: Clock,
        *,
        name_of: JobNameLookup,
        per_job: bool = True,
        heartbeat_timeout_s: float = 30.0,
        has_process_metrics: bool = True,
    ) -> None:
        self._store, self._clock = store, clock
        self.delays = DelayHistory(clock)
        self._heartbeat_timeout_us = round(heartbeat_timeout_s * 1e6)
        self._registry = CollectorRegistry()
        self._meters = MetricDefinitions(self._registry)
        self._labels = JobLabels(name_of, per_job=per_job)
        self._attempt_series: dict[tuple[bytes, str, AttemptStatus], tuple[Counter, Histogram]] = {}
        self._end_series: dict[tuple[bytes, Status, ReasonCode], tuple[Counter, Histogram]] = {}
        self._last_successes = LastSuccesses(name_of) if per_job else None
        if self._last_successes is not None:
            self._registry.register(self._last_successes)
        self._unschedulable: set[bytes] = set()
        self._left_alone: set[bytes] = set()
        self._reads_begun = 0
        self._next_read_s = 0.0  # earliest start of the next read
        self.active_jobs = 0  # as of the last read
        self._reading = asyncio.Lock()
        if has_process_metrics:
            add_process_metrics(self._registry)

    # --- counting

    def count_event(self, event: Event) -> None:
        """Count an event."""
        meters, labels = self._meters, self._labels
        match event:
            case ExecutionStarted():
                if event.attempt == 1:
                    meters.lateness_s.observe(event.late_us / 1e6)
                    self.delays.add_delay(event.late_us / 1e6)
            case AttemptEnded():
                attempts, task_s = self._find_attempt_series(event)
                attempts.inc()
                task_s.observe(event.duration_us / 1e6)
            case ExecutionEnded():
                ends, execution_s = self._find_end_series(event)
                ends.inc()
                if self._last_successes is not None and event.status in SUCCESSES:
                    self._last_successes.note(event.job, event.at_us)
                if event.status is not Status.SKIPPED:
                    execution_s.observe(event.duration_us / 1e6)
            case ExecutionAdmitted(status=Status.SKIPPED):
                reason = (event.code or ReasonCode.OVERLAP).value
                meters.occurrences.labels(labels.job(event.job), "skipped", reason).inc()
            case GapFound():
                self._count_gap(event)
            case JobUnschedulable() | JobLeftAlone():
                self._count_unscheduled_job(event)
            case ProblemReported(duty=duty) if duty:
                meters.failures.labels(duty).inc()
            case _:
                pass

    def _count_unscheduled_job(self, event: JobUnschedulable | JobLeftAlone) -> None:
        """Count a job once that this node does not schedule. One that is left to other programs has not failed."""
        is_broken = isinstance(event, JobUnschedulable)
        counted = self._unschedulable if is_broken else self._left_alone
        if event.job not in counted and len(counted) < _MAX_UNSCHEDULABLE_JOBS:
            counted.add(event.job)
            if is_broken:
                self._meters.recovery_failed.inc()

    def observe_commit(self, rows: int, took_s: float) -> None:
        """Record a committed transaction of the store."""
        self._meters.batch_rows.observe(rows)
        self._meters.commit_s.observe(took_s)
        self.delays.add_commit(took_s)

    def count_auth_failure(self, reason: str) -> None:
        """Count rejected credentials or a denied request."""
        self._meters.auth_failures.labels(reason).inc()

    def count_recovered_jobs(self, jobs: int) -> None:
        """Count the jobs that were in the store when the node started."""
        self._meters.recovered.inc(jobs)

    def set_failing_duties_source(self, count: Callable[[], int]) -> None:
        """Set the function that returns the number of failing duties. It is called for every scrape."""
        self._meters.failing.set_function(count)

    def set_abandoned_threads_source(self, count: Callable[[], int]) -> None:
        """Set the function that returns the number of abandoned threads that still run. See ``ThreadPool``."""
        self._meters.abandoned_threads.set_function(count)

    @property
    def unschedulable_jobs(self) -> int:
        """The number of jobs that this node cannot schedule."""
        return len(self._unschedulable)

    @property
    def left_alone_jobs(self) -> int:
        """The number of jobs that this node leaves to programs with their custom schedules."""
        return len(self._left_alone)

    def set_leader(self, is_leader: bool) -> None:
        """Record whether this node admits due jobs."""
        self._meters.leader.set(is_leader)

    # Finding a series by its labels costs more than counting, so series in use are cached.

    def _find_attempt_series(self, event: AttemptEnded) -> tuple[Counter, Histogram]:
        key = event.job, event.task, event.status
        series = self._attempt_series.get(key)
        if series is None:
            job, task = self._labels.task(event.job, event.task)
            attempts = self._meters.attempts.labels(job, task, to_attempt_label(event.status))
            series = attempts, self._meters.task_s.labels(job, task)
            if job != UNKNOWN_JOB_LABEL:
                _cache_series(self._attempt_series, key, series)
        return series

    def _find_end_series(self, event: ExecutionEnded) -> tuple[Counter, Histogram]:
        key = event.job, event.status, event.code
        series = self._end_series.get(key)
        if series is None:
            job = self._labels.job(event.job)
            ends = self._meters.occurrences.labels(job, to_occurrence_label(event.status), event.code.value)
            series = ends, self._meters.execution_s.labels(job)
            if job != UNKNOWN_JOB_LABEL:
                _cache_series(self._end_series, key, series)
        return series

    def _count_gap(self, gap: GapFound) -> None:
        job = self._labels.job(gap.job)
        if gap.runs:
            self._meters.recovery_runs.labels(job, gap.strategy).inc(gap.runs)
        if gap.left_out:
            self._meters.occurrences.labels(job, "missed", ReasonCode.OUTSIDE_RECOVERY.value).inc(gap.left_out)

    # --- scraping

    def render(self) -> bytes:
        """Return all metrics in the text format of Prometheus."""
        return generate_latest(_WithoutCreated(self._registry))

    def collect(self) -> Iterator[Metric]:
        """Yield all metrics, as a collector does."""
        return _WithoutCreated(self._registry).collect()

    async def refresh(self) -> None:
        """Read the gauges from the store.

        Callers that arrive during a read wait and share the next read, so no caller gets values older than its call.
        If the store does not respond, the old values stay and ``scheduler_store_up`` is 0.
        """
        before = self._reads_begun
        async with self._reading:
            if self._reads_begun == before:
                loop = asyncio.get_running_loop()
                await asyncio.sleep(self._next_read_s - loop.time())
                began_s = loop.time()
                self._reads_begun += 1
                await self._read_gauges()
                took_s = loop.time() - began_s
                self._next_read_s = began_s + took_s + min(took_s * _PAUSE_PER_READ, _MAX_PAUSE_S)

    async def _read_gauges(self) -> None:
        meters = self._meters
        try:
            async with asyncio.timeout(_STORE_READ_TIMEOUT_S):
                counts = await self._store.counts()
                nodes = await self._store.nodes()
                dead_letters = await self._store.count_dead_letters(_MAX_DEAD_LETTERS)
                unclaimable = await self._count_unclaimable(nodes) if counts.open.get(Status.READY) else 0
        except (ChronosError, TimeoutError):
            meters.store_up.set(0)
            return
        await self._read_last_successes()
        live_since_us = self._clock.now_us() - self._heartbeat_timeout_us
        meters.store_up.set(1)
        self.active_jobs = counts.jobs.get(JobState.ACTIVE, 0)
        meters.set_running(counts.open.get(Status.RUNNING, 0))
        meters.set_in_queue(counts.open.get(Status.READY, 0) + counts.open.get(Status.QUEUED, 0))
        meters.waiting.set(counts.open.get(Status.WAITING, 0))
        meters.dead_letters.set(dead_letters)
        meters.unclaimable.set(unclaimable)
        meters.set_paused(counts.jobs.get(JobState.PAUSED, 0))
        meters.nodes.set(sum(node.stopped_us is None and node.beat_us >= live_since_us for node in nodes))

    async def _read_last_successes(self) -> None:
        if self._last_successes is not None:
            with suppress(ChronosError, TimeoutError):  # the next scrape reads on
                async with asyncio.timeout(_STORE_READ_TIMEOUT_S):
                    await self._last_successes.read_store(self._store, self._clock.now_us())

    async def _count_unclaimable(self, nodes: Sequence[Node]) -> int:
        """Count the ready executions in lanes that no live node can serve."""
        lanes = await self._store.lanes()
        ready = await self._store.ready_lanes()
        unserved = {
            lane for lane in ready if lane in lanes and explain_shortage(read_lane(lanes[lane]), nodes) is not None
        }
        return sum(depth.ready for depth in await self._store.depths() if depth.lane in unserved) if unserved else 0


def add_process_metrics(registry: CollectorRegistry) -> None:
    """Add the metrics of the process and of Python to a registry. Those that it has already are left as they are."""
    for collector in (ProcessCollector, PlatformCollector, GCCollector):
        with suppress(ValueError):
            collector(registry=registry)


def describe_metrics() -> Iterable[Metric]:
    """Return the metrics of a node without values."""
    registry = CollectorRegistry()
    MetricDefinitions(registry)
    return list(registry.collect())


def _cache_series(cache: dict[K, V], key: K, series: V) -> None:
    """Cache a series. A full cache is cleared."""
    if len(cache) >= _MAX_CACHED_SERIES:
        cache.clear()
    cache[key] = series


class _WithoutCreated(Collector):
    """A registry without the ``_created`` samples, which would double the number of series."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._registry = registry

    def collect(self) -> Iterator[Metric]:
        for family in self._registry.collect():
            family.samples = [sample for sample in family.samples if not sample.name.endswith("_created")]
            yield family


def to_attempt_label(status: AttemptStatus) -> str:
    """Return the label of an attempt's status."""
    match status:
        case AttemptStatus.SUCCEEDED:
            return "success"
        case AttemptStatus.FAILED:
            return "failure"
        case AttemptStatus.TIMED_OUT:
            return "timeout"
        case AttemptStatus.CANCELED:
            return "canceled"
        case AttemptStatus.LOST:
            return "lost"
        case AttemptStatus.RUNNING:
            return "running"
        case _:
            assert_never(status)


def to_occurrence_label(status: Status) -> str:
    """Return the label of an execution's status."""
    if status in (Status.SUCCEEDED, Status.COMPLETED_WITH_ERRORS):
        return "completed"
    return status.name.lower()
