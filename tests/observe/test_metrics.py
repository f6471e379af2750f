"""Metrics: events are counted, and the output is parsed like Prometheus does."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import cast
from uuid import UUID

import pytest
from prometheus_client.parser import text_string_to_metric_families

from chronos.assembly import make_service, make_store
from chronos.clock import SystemClock
from chronos.core.events import (
    AttemptEnded,
    Event,
    ExecutionAdmitted,
    ExecutionEnded,
    ExecutionStarted,
    GapFound,
    JobUnschedulable,
)
from chronos.core.execution import AttemptStatus, Cause, Status
from chronos.core.reasons import ReasonCode
from chronos.core.shortage import build_offer
from chronos.observe import metric_definitions
from chronos.observe.metrics import Metrics
from chronos.store.commands import RegisterNode
from chronos.store.contract import Counts, Store

PAGE = Path(__file__).parent.parent.parent / "docs" / "reference" / "metrics.md"
JOB = UUID(int=7).bytes
RUN = UUID(int=8).bytes
NAMES = {JOB: ("default", "nightly"), UUID(int=9).bytes: ("billing", "nightly")}
Series = dict[tuple[str, tuple[tuple[str, str], ...]], float]


def execution_ended(
    status: Status = Status.SUCCEEDED, code: ReasonCode = ReasonCode.SUCCEEDED, job: bytes = JOB
) -> ExecutionEnded:
    return ExecutionEnded(at_us=0, execution=RUN, job=job, status=status, code=code, duration_us=2_000_000)


def attempt_ended(status: AttemptStatus, job: bytes = JOB, task: str = "main") -> AttemptEnded:
    return AttemptEnded(at_us=0, execution=RUN, job=job, task=task, number=1, status=status, duration_us=500_000)


def series(text: bytes) -> Series:
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text.decode())
        for sample in family.samples
    }


def measure(
    *events: Event, per_job: bool = True, names: Callable[[bytes], tuple[str, str] | None] = NAMES.get
) -> Series:
    """Return the series after some events."""

    async def render() -> bytes:
        metrics = Metrics(make_store("sqlite://"), SystemClock(), name_of=names, per_job=per_job)
        for event in events:
            metrics.count_event(event)
        metrics.observe_commit(20, 0.004)
        metrics.count_recovered_jobs(3)
        return metrics.render()

    return series(asyncio.run(render()))


def value(shown: Series, name: str, **labels: str) -> float:
    return shown[name, tuple(sorted(labels.items()))]


@pytest.mark.parametrize(
    ("status", "code", "word"),
    [
        (Status.SUCCEEDED, ReasonCode.SUCCEEDED, "completed"),
        (Status.COMPLETED_WITH_ERRORS, ReasonCode.SOME_TASKS_FAILED, "completed"),
        (Status.FAILED, ReasonCode.TASK_FAILED, "failed"),
        (Status.CANCELED, ReasonCode.REPLACED, "canceled"),
        (Status.STALE, ReasonCode.WORKER_LOST, "stale"),
        (Status.SKIPPED, ReasonCode.UPSTREAM_FAILED, "skipped"),
    ],
)
def test_ended_executions_are_counted_by_status_and_reason(status: Status, code: ReasonCode, word: str) -> None:
    shown = measure(execution_ended(status, code), execution_ended(status, code))
    counted = value(shown, "scheduler_job_occurrences_total", job="nightly", status=word, reason=code.value)
    assert counted == 2
    timed = value(shown, "scheduler_job_execution_duration_seconds_count", job="nightly")
    assert timed == (0 if status is Status.SKIPPED else 2)


@pytest.mark.parametrize(
    ("status", "word"),
    [
        (AttemptStatus.SUCCEEDED, "success"),
        (AttemptStatus.FAILED, "failure"),
        (AttemptStatus.TIMED_OUT, "timeout"),
        (AttemptStatus.CANCELED, "canceled"),
        (AttemptStatus.LOST, "lost"),
    ],
)
def test_attempts_are_counted_by_status(status: AttemptStatus, word: str) -> None:
    shown = measure(attempt_ended(status))
    assert value(shown, "scheduler_task_attempts_total", job="nightly", task="main", status=word) == 1
    assert value(shown, "scheduler_task_execution_duration_seconds_sum", job="nightly", task="main") == 0.5


def test_skips_lateness_gaps_and_commits_are_counted() -> None:
    skipped = ExecutionAdmitted(
        at_us=0, execution=RUN, job=JOB, cause=Cause.SCHEDULE, status=Status.SKIPPED, code=ReasonCode.QUEUE_FULL
    )
    shown = measure(
        ExecutionAdmitted(at_us=0, execution=RUN, job=JOB, cause=Cause.SCHEDULE, status=Status.RUNNING),
        skipped,
        ExecutionStarted(at_us=0, execution=RUN, job=JOB, attempt=1, late_us=30_000),
        ExecutionStarted(at_us=0, execution=RUN, job=JOB, attempt=2, late_us=90_000_000),
        GapFound(at_us=0, job=JOB, strategy="last", runs=1, left_out=41),
        JobUnschedulable(at_us=0, job=JOB, error="no"),
        JobUnschedulable(at_us=1, job=JOB, error="no"),
    )
    assert value(shown, "scheduler_job_occurrences_total", job="nightly", status="skipped", reason="queue_full") == 1
    missed = {"job": "nightly", "status": "missed", "reason": "outside_recovery"}
    assert value(shown, "scheduler_job_occurrences_total", **missed) == 41
    assert value(shown, "scheduler_recovery_runs_total", job="nightly", strategy="last") == 1
    assert value(shown, "scheduler_jobs_recovery_failed_total") == 1
    assert value(shown, "scheduler_jobs_recovered_total") == 3
    assert value(shown, "scheduler_start_lateness_seconds_count") == 1
    assert value(shown, "scheduler_start_lateness_seconds_sum") == 0.03
    assert value(shown, "scheduler_store_batch_size_sum") == 20
    assert value(shown, "scheduler_store_commit_seconds_bucket", le="0.005") == 1
    assert value(shown, "process_resident_memory_bytes") > 0
    assert any(name == "python_info" for name, _ in shown)
    assert not [name for name, _ in shown if name.endswith("_created")]


def test_jobs_of_different_namespaces_have_different_labels() -> None:
    shown = measure(execution_ended(), execution_ended(job=UUID(int=9).bytes), execution_ended(job=b"?" * 16))
    jobs = {dict(labels)["job"] for name, labels in shown if name == "scheduler_job_occurrences_total"}
    assert jobs == {"nightly", "billing/nightly", metric_definitions.UNKNOWN_JOB_LABEL}


def test_without_per_job_the_label_is_empty() -> None:
    shown = measure(
        execution_ended(), execution_ended(job=UUID(int=9).bytes), attempt_ended(AttemptStatus.FAILED), per_job=False
    )
    counted = value(shown, "scheduler_job_occurrences_total", job="", status="completed", reason="succeeded")
    assert counted == 2
    assert value(shown, "scheduler_task_attempts_total", job="", task="", status="failure") == 1


def test_the_number_of_labels_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metric_definitions, "MAX_JOBS", 3)
    monkeypatch.setattr(metric_definitions, "MAX_TASKS", 4)
    ids = [UUID(int=number).bytes for number in range(10)]
    events: list[Event] = [execution_ended(job=job) for job in ids]
    events += [attempt_ended(AttemptStatus.SUCCEEDED, job, task) for job in ids for task in ("a", "b", "c")]
    shown = measure(*events, names=lambda job: ("default", f"job-{job[-1]}"))
    label = {"status": "completed", "reason": "succeeded"}
    counts = {
        job: value(shown, "scheduler_job_occurrences_total", job=job, **label)
        for job in ("job-0", "job-1", "job-2", metric_definitions.OTHER_LABEL)
    }
    assert counts == {"job-0": 1, "job-1": 1, "job-2": 1, metric_definitions.OTHER_LABEL: 7}
    pairs = {labels for name, labels in shown if name == "scheduler_task_attempts_total"}
    assert len(pairs) == 4 + 2 + 1  # four tasks, "other" of two jobs, and all other jobs
    assert sum(shown["scheduler_task_attempts_total", pair] for pair in pairs) == 30


def test_gauges_are_read_from_the_store_on_refresh() -> None:
    async def check() -> None:
        store: Store = make_store("sqlite://")
        clock = SystemClock()
        await store.open()
        metrics = Metrics(store, clock, name_of=NAMES.get)
        store.on_commit(metrics.observe_commit)
        for name, ago_us in (("a", 0), ("b", 3_600_000_000)):
            now_us = clock.now_us() - ago_us
            await store.apply(
                RegisterNode(name=name, incarnation=name.encode() * 16, now_us=now_us, slots=1, labels={})
            )
        await metrics.refresh()
        metrics.set_leader(True)
        shown = series(metrics.render())
        assert value(shown, "scheduler_nodes") == 1
        assert value(shown, "scheduler_leader") == 1
        assert value(shown, "scheduler_store_up") == 1
        for gauge in ("running", "in_queue", "paused"):
            assert value(shown, f"scheduler_jobs_{gauge}") == value(shown, f"scheduler_jobs_{gauge}_total") == 0
        assert value(shown, "scheduler_executions_waiting") == 0
        assert value(shown, "scheduler_dead_letters") == 0
        assert value(shown, "scheduler_store_commit_seconds_count") == 2
        await store.apply(RegisterNode(name="c", incarnation=b"c" * 16, now_us=clock.now_us(), slots=1, labels={}))
        await metrics.refresh()  # reads again, although the last read was just now
        assert value(series(metrics.render()), "scheduler_nodes") == 2
        await store.close()
        await metrics.refresh()
        assert value(series(metrics.render()), "scheduler_store_up") == 0
        assert value(series(metrics.render()), "scheduler_nodes") == 2

    asyncio.run(check())


def test_ready_work_that_no_live_node_can_take_is_counted() -> None:
    async def check() -> None:
        store: Store = make_store("sqlite://")
        clock = SystemClock()
        await store.open()
        metrics = Metrics(store, clock, name_of=NAMES.get)
        service = make_service(store, clock, checks={"python": lambda _: None})
        for name in ("a", "b"):
            body = {"name": name, "schedule": "now", "python": {"name": "f"}}
            await service.job_saver.save([service.jobs.read(body)])
        await metrics.refresh()
        assert value(series(metrics.render()), "scheduler_executions_unclaimable") == 2
        offer = build_offer(None, ["f"]).text
        await store.apply(
            RegisterNode(name="a", incarnation=b"a" * 16, now_us=clock.now_us(), slots=1, labels={}, offer=offer)
        )
        await metrics.refresh()
        assert value(series(metrics.render()), "scheduler_executions_unclaimable") == 0
        await store.close()

    asyncio.run(check())


def test_concurrent_refreshes_share_a_read() -> None:
    class CountingStore:
        def __init__(self, store: Store) -> None:
            self._store, self.reads, self.nodes = store, 0, store.nodes
            self.count_dead_letters, self.list_jobs = store.count_dead_letters, store.list_jobs

        async def counts(self) -> Counts:
            self.reads += 1
            return await self._store.counts()

    async def check() -> None:
        store = make_store("sqlite://")
        await store.open()
        counting = CountingStore(store)
        metrics = Metrics(cast(Store, counting), SystemClock(), name_of=NAMES.get)
        await asyncio.gather(*(metrics.refresh() for _ in range(100)))
        assert counting.reads <= 2
        await store.close()

    asyncio.run(check())


def test_every_metric_is_documented() -> None:
    families = {
        name
        for name, _ in measure(execution_ended(), attempt_ended(AttemptStatus.FAILED))
        if name.startswith("scheduler_")
    }
    page = PAGE.read_text()
    base = {name.removesuffix("_bucket").removesuffix("_sum").removesuffix("_count") for name in families}
    assert not {name for name in base if f"`{name}`" not in page}
