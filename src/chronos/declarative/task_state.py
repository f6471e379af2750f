"""Reads the state of tasks from their executions: last call, last success, pending retry.

Nothing is stored twice. Most of it comes from the newest started execution. A failed attempt records the time of the
last success, so that no longer search is needed, however often the task has failed since.
"""

from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from typing import Any

from chronos.assembly import make_store
from chronos.core.calendar import to_us
from chronos.core.execution import Attempt, Execution, Status
from chronos.core.job import Job, ensure_readable
from chronos.declarative.callback_runner import COVERED, LAST_SUCCESS, REGISTERED, PendingCallback
from chronos.declarative.errors import TaskInvalidStructureError
from chronos.declarative.persistence import apply_all
from chronos.declarative.task_jobs import NAMESPACE, DeclaredTaskState, is_task, read_task_state
from chronos.errors import Invalid
from chronos.store.commands import Signal
from chronos.store.contract import ExecutionFilter, JobFilter, Store

_PAGE_SIZE = 1_000
_SEARCH_PAGE_SIZE = 20
_MAX_SEARCHED = 1_000  # executions read to find a last success that no failed attempt records


async def read_states(store: str) -> dict[str, DeclaredTaskState]:
    """Read the persisted state of every task in a store, registered or not, by name.

    - ``store``: the address of the store.
    """
    opened = make_store(store)
    await opened.open()
    try:
        jobs = await read_jobs(opened)
        return {name: await read_state(opened, job) for name, job in jobs.items() if is_task(job)}
    finally:
        await opened.close()


async def read_jobs(store: Store) -> dict[str, Job]:
    """Every job of the namespace, by name. Raises ``TaskInvalidStructureError`` for an unreadable one."""
    jobs: dict[str, Job] = {}
    cursor: bytes | None = None
    while True:
        page = await store.list_jobs(JobFilter(namespace=NAMESPACE), limit=_PAGE_SIZE, cursor=cursor)
        for job in page.items:
            try:
                ensure_readable(job.spec)
            except Invalid as error:
                message = f'The persisted state of the task "{job.name}" is not a job definition: {error}'
                raise TaskInvalidStructureError(message, None).caused_by(error) from error
        jobs.update((job.name, job) for job in page.items)
        cursor = page.cursor
        if cursor is None:
            return jobs


async def read_state(store: Store, job: Job) -> DeclaredTaskState:
    """Read the state of one task. Raises ``TaskTryDeserializeError``."""
    record: dict[str, Any] = {}
    async for execution, attempts in _iterate_called(store, job):
        if "last_attempt_us" not in record:
            record["last_attempt_us"] = _find_last_attempt_us(execution, attempts)
            if execution.status is Status.WAITING:
                record["pending_retry_us"] = execution.wake_us
        success_us = _find_recorded_success_us(execution, attempts)
        if success_us is not None:
            record["last_success_us"] = success_us
            break
    return read_task_state(job, record)


async def find_last_attempts(store: Store, jobs: Sequence[Job]) -> dict[str, int | None]:
    """When tasks were last called, by name; None: never. Raises ``TaskTryDeserializeError``.

    The newest runs are read together. Older ones are read only where the newest does not tell.
    """
    called: dict[str, int | None] = {}
    for begin in range(0, len(jobs), _PAGE_SIZE):
        page = jobs[begin : begin + _PAGE_SIZE]
        newest = await store.latest([job.id for job in page], started=True)
        for job in page:
            last = newest.get(job.id)
            called[job.name] = None if last is None else await _find_last_call_us(store, job, last)
    return called


async def list_open(store: Store, jobs: Iterable[Job], status: Status) -> dict[str, Execution]:
    """The executions of tasks that are in a status, by the task's name."""
    names = {job.id: job.name for job in jobs}
    executions: dict[str, Execution] = {}
    cursor: bytes | None = None
    while True:
        page = await store.list_executions(ExecutionFilter(status=status), limit=_PAGE_SIZE, cursor=cursor)
        executions.update(
            (names[item.job], item) for item in page.items if isinstance(item, Execution) and item.job in names
        )
        cursor = page.cursor
        if cursor is None:
            return executions


def find_pending_retries(waiting: Mapping[str, Execution], now_us: int) -> dict[str, PendingCallback]:
    """The pending retries among waiting runs. A first attempt that waits for its registration is not one."""
    return {
        name: PendingCallback(now_us if run.wake_us is None else run.wake_us, called_us)
        for name, run in waiting.items()
        if (called_us := run.attempt_us) is not None and (run.wake_us is not None or run.attempt > 1)
    }


async def find_last_success_us(store: Store, job: bytes) -> int | None:
    """When a task last succeeded."""
    stored = (await store.jobs_by_id([job])).get(job)
    state = None if stored is None or not is_task(stored) else await read_state(store, stored)
    return None if state is None or state.last_success_at is None else to_us(state.last_success_at)


async def wake_registered(store: Store, waiting: Iterable[Execution], now_us: int) -> None:
    """Wake the runs that waited for the registration of their task."""
    await apply_all(
        store,
        (
            Signal(execution=execution.id, name=REGISTERED, payload="null", now_us=now_us)
            for execution in waiting
            if execution.wake_us is None
        ),
    )


async def _find_last_call_us(store: Store, job: Job, newest: Execution) -> int | None:
    if _was_called(newest):
        if newest.attempt == 1:
            return newest.started_us
        if newest.status is Status.WAITING and newest.wake_us is not None:
            return newest.attempt_us
    state = await read_state(store, job)
    return None if state.last_attempt_at is None else to_us(state.last_attempt_at)


async def _iterate_called(store: Store, job: Job) -> AsyncIterator[tuple[Execution, list[Attempt]]]:
    """Yield the executions in which the callback was called, newest first, with their ended attempts."""
    cursor: bytes | None = None
    for _ in range(0, _MAX_SEARCHED, _SEARCH_PAGE_SIZE):
        page = await store.list_executions(ExecutionFilter(job=job.id), limit=_SEARCH_PAGE_SIZE, cursor=cursor)
        for item in page.items:
            if not isinstance(item, Execution) or not _was_called(item):
                continue
            plain = item.status is Status.SUCCEEDED and item.attempt == 1
            view = None if plain else await store.execution(item.id)
            yield item, [] if view is None else view.attempts
        cursor = page.cursor
        if cursor is None:
            return


def _was_called(execution: Execution) -> bool:
    """Whether the callback was called: the run was not covered by another, and did not wait for its registration."""
    if execution.started_us is None:
        return False
    detail = execution.detail or {}
    result, group = detail.get("result"), detail.get("group")
    if isinstance(result, dict) and COVERED in result:
        return False
    return execution.attempt > 1 or group is None or group["tasks"][0].get("signal") != REGISTERED


def _find_last_attempt_us(execution: Execution, attempts: list[Attempt]) -> int | None:
    if execution.status is Status.RUNNING:
        return execution.attempt_us
    return attempts[-1].started_us if attempts else execution.started_us


def _find_recorded_success_us(execution: Execution, attempts: list[Attempt]) -> Any:
    if execution.status is Status.SUCCEEDED:
        return execution.finished_us
    carried = [a.detail[LAST_SUCCESS] for a in attempts if a.detail is not None and LAST_SUCCESS in a.detail]
    return carried[-1] if carried else None
