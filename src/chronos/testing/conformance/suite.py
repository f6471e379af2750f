"""The list of all cases, and a function that runs one."""

from collections.abc import Awaitable, Callable

from chronos.store.contract import Store
from chronos.testing.conformance import (
    admission,
    batches,
    concurrency_keys,
    dependencies,
    execution_lifecycle,
    fencing_tokens,
    hints,
    job_deletes,
    job_state,
    jobs,
    node_reads,
    nodes,
    paused_jobs,
    placement,
    reads,
    rejected_values,
    requested_runs,
    retention,
    run_on_save,
    schedule_ends,
    task_ends,
    tokens,
)
from chronos.testing.conformance.fixture import StoreFixture
from chronos.testing.conformance.overview import days, job_lists, run_lists

Case = Callable[[StoreFixture], Awaitable[None]]
_CASE_MODULES = (
    jobs,
    job_state,
    schedule_ends,
    paused_jobs,
    run_on_save,
    job_deletes,
    retention,
    admission,
    batches,
    requested_runs,
    concurrency_keys,
    execution_lifecycle,
    fencing_tokens,
    task_ends,
    placement,
    dependencies,
    nodes,
    reads,
    node_reads,
    job_lists,
    run_lists,
    days,
    hints,
    tokens,
    rejected_values,
)
CASES: list[Case] = [
    case
    for module in _CASE_MODULES
    for name, case in vars(module).items()
    if callable(case) and name.startswith("case_")
]


async def run(case: Case, store: Store) -> None:
    """Run a case on an open, empty store, then verify the store."""
    await case(StoreFixture(store))
    assert await store.verify() == []
