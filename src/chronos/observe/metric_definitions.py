"""Every metric by name, with its buckets; labels of jobs that stay within bounds.

With a label for each job a server of a million jobs would drown whoever collects them. So a bounded number of jobs get
their own label, those that ran first; the rest share one. Without ``per_job`` the label is empty, which to Prometheus
is the same as no label.
"""

from prometheus_client import Counter, Gauge, Histogram
from prometheus_client.registry import CollectorRegistry

from chronos.observe.event_log import JobNameLookup, format_job_name

MAX_JOBS = 1_000
MAX_TASKS = 2_000  # of all jobs together
OTHER_LABEL = "(other)"  # beyond the bound
UNKNOWN_JOB_LABEL = "(unknown)"  # a job that was deleted before its name was needed

_LONG_BUCKETS_S = (0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 10, 30, 60, 300, 900, 3600)
_SHORT_BUCKETS_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 60)
_COMMIT_BUCKETS_S = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 5)
_ROW_BUCKETS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)


class MetricDefinitions:
    """The metrics themselves, in a registry of their own."""

    def __init__(self, registry: CollectorRegistry) -> None:
        def gauge(name: str, about: str) -> Gauge:
            return Gauge(name, about, registry=registry)

        def counter(name: str, about: str, *labels: str) -> Counter:
            return Counter(name, about, labels, registry=registry)

        def histogram(name: str, about: str, buckets: tuple[float, ...], *labels: str) -> Histogram:
            return Histogram(name, about, labels, registry=registry, buckets=buckets)

        self.running = gauge("scheduler_jobs_running_total", "Executions that run now, on any node.")
        self.in_queue = gauge("scheduler_jobs_in_queue_total", "Executions that are ready or queued now.")
        self.unclaimable = gauge(
            "scheduler_executions_unclaimable", "Ready executions that no live node can take: a worker is missing."
        )
        self.paused = gauge("scheduler_jobs_paused_total", "Jobs that are paused.")
        self.nodes = gauge("scheduler_nodes", "Nodes that are alive.")
        self.leader = gauge("scheduler_leader", "1 where this node admits what is due.")
        self.store_up = gauge("scheduler_store_up", "1 where the store answered when it was asked last.")
        self.execution_s = histogram(
            "scheduler_job_execution_duration_seconds",
            "From an execution's first start to its end.",
            _LONG_BUCKETS_S,
            "job",
        )
        self.task_s = histogram(
            "scheduler_task_execution_duration_seconds",
            "How long one attempt of a task took.",
            _LONG_BUCKETS_S,
            "job",
            "task",
        )
        self.attempts = counter(
            "scheduler_task_attempts_total", "Attempts that ended, by how.", "job", "task", "status"
        )
        self.occurrences = counter(
            "scheduler_job_occurrences_total", "Executions that came to an end, by how and why.", *_OCCURRENCE_LABELS
        )
        self.recovery_runs = counter(
            "scheduler_recovery_runs_total", "Missed instants that were run after all.", "job", "strategy"
        )
        self.recovered = counter("scheduler_jobs_recovered_total", "Jobs found in the store when this node started.")
        self.recovery_failed = counter(
            "scheduler_jobs_recovery_failed_total", "Jobs of the store that this node cannot schedule."
        )
        self.lateness_s = histogram(
            "scheduler_start_lateness_seconds",
            "From the instant to the first start of a scheduled run.",
            _SHORT_BUCKETS_S,
        )
        self.failures = counter(
            "scheduler_duty_failures_total", "Duties of this node that an error of the store ended.", "duty"
        )
        self.failing = gauge(
            "scheduler_duties_failing", "Duties of this node that keep failing the same way; above 0 it is not ready."
        )
        self.auth_failures = counter(
            "scheduler_auth_failures_total", "Credentials that were refused, and requests that were denied.", "reason"
        )
        self.batch_rows = histogram("scheduler_store_batch_size", "Rows of one transaction of the store.", _ROW_BUCKETS)
        self.commit_s = histogram("scheduler_store_commit_seconds", "How long one transaction took.", _COMMIT_BUCKETS_S)


_OCCURRENCE_LABELS = ("job", "status", "reason")


class JobLabels:
    """Which labels a job and its tasks get."""

    def __init__(self, name_of: JobNameLookup, *, per_job: bool) -> None:
        self._name_of, self._per_job = name_of, per_job
        self._jobs: set[str] = set()
        self._tasks: set[tuple[str, str]] = set()

    def job(self, job: bytes) -> str:
        """The label of a job."""
        if not self._per_job:
            return ""
        named = self._name_of(job)
        if named is None:
            return UNKNOWN_JOB_LABEL
        label = format_job_name(named)
        if label not in self._jobs:
            if len(self._jobs) >= MAX_JOBS:
                return OTHER_LABEL
            self._jobs.add(label)
        return label

    def task(self, job: bytes, task: str) -> tuple[str, str]:
        """The labels of a job and one of its tasks."""
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
