"""The history of the demo has every story that the web UI and the documentation show."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeVar

import pytest

from chronos.assembly import make_store
from chronos.core.execution import Cause, Execution, Span, Status
from chronos.core.job import JobState
from chronos.demo.behaviour import days
from chronos.demo.history import write_history
from chronos.demo.jobs import DEMO_JOBS
from chronos.store.contract import ExecutionFilter, JobFilter, Store
from chronos.testing.clock import to_instant_us

T = TypeVar("T")
START_US = to_instant_us("2026-11-18T16:00:00Z")


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("demo") / "demo.db"
    write_history(path, START_US)
    return path


def read(file: Path, query: Callable[[Store], Awaitable[T]]) -> T:
    async def run() -> T:
        store = make_store(f"sqlite:///{file}")
        await store.open()
        try:
            return await query(store)
        finally:
            await store.close()

    return asyncio.run(run())


def list_runs(file: Path, name: str) -> list[Execution | Span]:
    async def query(store: Store) -> list[Execution | Span]:
        job = await store.job_named("default", name)
        assert job is not None
        page = await store.list_executions(ExecutionFilter(job=job.id), limit=1_000, cursor=None)
        return list(page.items)

    return read(file, query)


def count_statuses(file: Path, name: str) -> Counter[Status]:
    return Counter(run.status for run in list_runs(file, name))


def test_all_jobs_are_there_in_every_state(file: Path) -> None:
    async def query(store: Store) -> Counter[JobState]:
        page = await store.list_jobs(JobFilter(), limit=100)
        assert {job.name for job in page.items} == {job.name for job in DEMO_JOBS}
        return Counter(job.state for job in page.items)

    states = read(file, query)
    assert states.keys() == {JobState.ACTIVE, JobState.PAUSED, JobState.DISABLED, JobState.DONE}
    assert 35 <= states.total() <= 45


def test_the_store_is_consistent_and_covers_thirty_days(file: Path) -> None:
    assert read(file, lambda store: store.verify()) == []
    backups = list_runs(file, "backup-database")
    assert len(backups) == 30
    assert all(run.status is Status.SUCCEEDED for run in backups)


def test_a_job_fails_since_its_second_version(file: Path) -> None:
    runs = [run for run in list_runs(file, "nightly-etl") if isinstance(run, Execution)]
    assert {run.status for run in runs if run.job_version == 1} == {Status.SUCCEEDED}
    assert {run.status for run in runs if run.job_version == 2} == {Status.FAILED}
    assert Cause.REPLAY in {run.cause for run in runs}


def test_a_retry_storm_ends_in_success(file: Path) -> None:
    runs = [run for run in list_runs(file, "invoice-export") if isinstance(run, Execution)]
    assert sum(run.attempt == 5 for run in runs) >= 7
    assert {run.status for run in runs} == {Status.SUCCEEDED}


def test_dead_letters_share_an_error(file: Path) -> None:
    assert count_statuses(file, "payments-sync")[Status.FAILED] >= 10


def test_an_outage_leaves_a_missed_span_and_one_run_for_all(file: Path) -> None:
    [missed] = [run for run in list_runs(file, "cache-warm") if isinstance(run, Span)]
    assert missed.status is Status.MISSED
    assert missed.count >= 7
    causes = Counter(run.cause for run in list_runs(file, "metrics-rollup") if isinstance(run, Execution))
    assert causes[Cause.RECOVERY] == 1


def test_long_runs_skip_instants(file: Path) -> None:
    assert count_statuses(file, "inventory-sync")[Status.SKIPPED] >= 1


def test_a_lost_node_leaves_a_run_with_a_second_attempt_on_another_node(file: Path) -> None:
    [taken] = [
        run for run in list_runs(file, "video-transcode") if isinstance(run, Execution) and run.cause is Cause.MANUAL
    ]
    assert taken.attempt == 2
    assert taken.status is Status.SUCCEEDED


def test_people_canceled_paused_and_disabled(file: Path) -> None:
    assert count_statuses(file, "warehouse-vacuum")[Status.CANCELED] == 1
    audit = read(file, lambda store: store.audit(namespace=None, limit=200, cursor=None))
    assert {"ana", "ben", "deploy"} <= {entry.actor for entry in audit.items}


def test_work_without_a_node_waits(file: Path) -> None:
    [*_, oldest] = list_runs(file, "train-recommender")
    assert oldest.status is Status.READY


def test_a_daylight_saving_night_is_in_the_history(file: Path) -> None:
    """Europe/Paris leaves summer time on 25 October 2026: 02:30 happens twice, and the backup runs once."""
    night = [
        run
        for run in list_runs(file, "backup-database")
        if abs(run_us(run) - to_instant_us("2026-10-25T00:30:00Z")) < days(0.2)
    ]
    assert len(night) == 1


def run_us(run: Execution | Span) -> int:
    return run.scheduled_us if isinstance(run, Execution) else run.from_us
