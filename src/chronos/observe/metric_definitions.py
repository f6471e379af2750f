"""Definitions of all metrics, and the bounded labels of jobs.

A label per job would create millions of series on a large server. So only the first jobs that run get their own label;
all others share one. Without ``per_job`` the label is empty, which equals no label in Prometheus.
"""

from collections.abc import Callable

from prometheus_client import Counter, Gauge, Histogram
from prometheus_client.registry import CollectorRegistry

from chronos.observe.event_log import JobNameLookup, format_job_name

MAX_JOBS = 1_000
MAX_TASKS = 2_000  # of all jobs
OTHER_LABEL = "(other)"  # jobs and tasks beyond the limits
UNKNOWN_JOB_LABEL = "(unknown)"  # a job whose name this process does not know, such as a deleted one

_LONG_BUCKETS_S = (0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 10, 30, 60, 300, 900, 3600)
_SHORT_BUCKETS_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 60)
_COMMIT_BUCKETS_S = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 5)
_ROW_BUCKETS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)


class MetricDefinitions:
    """The metrics of one node, registered in its registry."""

    def __init__(self, registry: CollectorRegistry) -> None:
        def gauge(name: str, help_text: str) -> Gauge:
            return Gauge(name, help_text, registry=registry)

        def counter(name: str, help_text: str, *labels: str) -> Counter:
            return Counter(name, help_text, labels, registry=registry)

        def histogram(name: str, help_text: str, buckets: tuple[float, ...], *labels: str) -> Histogram:
            return Histogram(name, help_text, labels, registry=registry, buckets=buckets)

        def gauge_twice(name: str, help_text: str) -> Callable[[float], None]:
            """A gauge under two names. Prometheus reserves the suffix ``_total`` for counters; older alerts use it."""
            gauges = gauge(name, help_text), gauge(f"{name}_total", f"{help_text} The same as {name}.")

            def set_both(value: float) -> None:
                for each in gauges:
                    each.set(value)

            return set_both

        self.set_running = gauge_twice("scheduler_jobs_running", "Executions running now, on all nodes.")
        self.set_in_queue = gauge_twice("scheduler_jobs_in_queue", "Executions ready or queued now.")
        self.set_paused = gauge_twice("scheduler_jobs_paused", "Paused jobs.")
        self.waiting = gauge("scheduler_executions_waiting", "Executions that wait for a retry, a time or a signal.")
        self.dead_letters = gauge("scheduler_dead_letters", "Dead letters, at most 100,000.")
        self.abandoned_threads = gauge(
            "scheduler_threads_abandoned", "Threads of this node that ignored a stop and still run."
        )
        self.unclaimable = gauge("scheduler_executions_unclaimable", "Ready executions that no live node can take.")
        self.nodes = gauge("scheduler_nodes", "Live nodes.")
        self.leader = gauge("scheduler_leader", "1 if this node admits due jobs.")
        self.store_up = gauge("scheduler_store_up", "1 if the store responded to the last read.")
        self.execution_s = histogram(
            "scheduler_job_execution_duration_seconds",
            "Time from the first start of an execution to its end.",
            _LONG_BUCKETS_S,
            "job",
        )
        self.task_s = histogram(
            "scheduler_task_execution_duration_seconds",
            "Duration of one attempt of a task.",
            _LONG_BUCKETS_S,
            "job",
            "task",
        )
        self.attempts = counter("scheduler_task_attempts_total", "Ended attempts, by status.", "job", "task", "status")
        self.occurrences = counter(
            "scheduler_job_occurrences_total", "Ended executions, by status and reason.", *_OCCURRENCE_LABELS
        )
        self.recovery_runs = counter(
            "scheduler_recovery_runs_total", "Missed instants that recovery ran.", "job", "strategy"
        )
        self.recovered = counter("scheduler_jobs_recovered_total", "Jobs in the store when this node started.")
        self.recovery_failed = counter("scheduler_jobs_recovery_failed_total", "Jobs that this node cannot schedule.")
        self.lateness_s = histogram(
            "scheduler_start_lateness_seconds",
            "Time from the instant to the first start of a scheduled execution.",
            _SHORT_BUCKETS_S,
        )
        self.failures = counter(
            "scheduler_duty_failures_total", "Duties of this node that failed because of the store.", "duty"
        )
        self.failing = gauge(
            "scheduler_duties_failing", "Duties of this node that fail repeatedly. Above 0 the node is not ready."
        )
        self.auth_failures = counter(
            "scheduler_auth_failures_total", "Rejected credentials and denied requests.", "reason"
        )
        self.batch_rows = histogram("scheduler_store_batch_size", "Rows per transaction of the store.", _ROW_BUCKETS)
        self.commit_s = histogram(
            "scheduler_store_commit_seconds", "Duration of one transaction of the store.", _COMMIT_BUCKETS_S
        )


_OCCURRENCE_LABELS = ("job", "status", "reason")


class JobLabels:
    """Assigns labels to jobs and tasks, within limits."""

    def __init__(self, name_of: JobNameLookup, *, per_job: bool) -> None:
        self._name_of, self._per_job = name_of, per_job
        self._jobs: set[str] = set()
        self._tasks: set[tuple[str, str]] = set()

    def job(self, job: bytes) -> str:
        """Return the label of a job."""
        if not self._per_job:
            return ""
        full_name = self._name_of(job)
        if full_name is None:
            return UNKNOWN_JOB_LABEL
        label = format_job_name(full_name)
        if label not in self._jobs:
            if len(self._jobs) >= MAX_JOBS:
                return OTHER_LABEL
            self._jobs.add(label)
        return label

    def task(self, job: bytes, task: str) -> tuple[str, str]:
        """Return the labels of a job and one of its tasks."""
        if not self._per_job:
            return "", ""
        pair = self.job(job), task
        if pair[0] in (OTHER_LABEL, UNKNOWN_JOB_LABEL):
            return pair[0], pair[0]
        if pair not in self._tasks:
            if len(self._tasks) >= MAX_TASKS:
                return pair[0], OTHER_LABEL
            self._tasks.add(pair)
        return pair
