"""Executions that the store ends itself: all their open tasks end too."""

from typing import Any

from chronos.core.config import Overlap
from chronos.core.execution import Execution, Status, TaskStatus
from chronos.core.execution_detail import Detail, write_detail
from chronos.core.job import JobState
from chronos.core.reasons import ReasonCode
from chronos.core.task_group import TaskGroup, TaskState
from chronos.store.commands import CancelExecution, DeleteJob, Reap, ReapRow, Release, ReleaseRow, Suspend, SuspendRow
from chronos.testing.conformance.fixture import SECOND_US, T0_US, Run, StoreFixture

_OPEN_TASK_GROUP = TaskGroup(
    began_us=T0_US,
    tasks=(
        TaskState(name="done", status=TaskStatus.SUCCEEDED, attempts=1, started_us=T0_US, finished_us=T0_US),
        TaskState(
            name="again", status=TaskStatus.RETRYING, attempts=1, started_us=T0_US, wake_us=T0_US + 9, error="boom"
        ),
        TaskState(name="asleep", status=TaskStatus.WAITING, started_us=T0_US, signal="go"),
        TaskState(name="later"),
    ),
)
_DETAIL = write_detail(Detail(payload={"n": 1}, group=_OPEN_TASK_GROUP))
_EXPECTED_STATUSES = {"done": "SUCCEEDED", "again": "CANCELED", "asleep": "CANCELED", "later": "SKIPPED"}


def _tasks(one: Execution) -> dict[str, dict[str, Any]]:
    assert one.status is Status.CANCELED
    assert one.detail is not None
    assert one.detail["payload"] == {"n": 1}, "the rest of the detail is kept"
    return {task["name"]: task for task in one.detail["group"]["tasks"]}


async def _assert_tasks_ended(fixture: StoreFixture, execution: bytes, code: ReasonCode) -> None:
    one = await fixture.execution(execution)
    tasks = _tasks(one)
    assert {name: TaskStatus(task["status"]).name for name, task in tasks.items()} == _EXPECTED_STATUSES
    for name in ("again", "asleep", "later"):
        assert (tasks[name]["finished_us"], tasks[name]["stopped_by"]) == (one.finished_us, {"code": code.value})
        assert not {"wake_us", "signal"} & tasks[name].keys()
    assert tasks["again"]["error"] == "boom"
    assert one.reason is not None
    assert one.reason.code is code


async def _suspend(fixture: StoreFixture, run: Run) -> None:
    row = SuspendRow(run.id, run.token, fixture.now_us + SECOND_US, ("go",), 2, 0, _DETAIL)
    assert await fixture.store.apply(Suspend(rows=(row,), now_us=fixture.now_us)) == [run.id]


async def case_tasks_end_with_a_waiting_execution_that_is_canceled(fixture: StoreFixture) -> None:
    await fixture.save()
    run = await fixture.admit_one()
    await _suspend(fixture, run)
    assert await fixture.store.apply(CancelExecution(execution=run.id, now_us=fixture.tick())) is Status.CANCELED
    await _assert_tasks_ended(fixture, run.id, ReasonCode.CANCELED)


async def case_tasks_end_with_a_waiting_execution_that_is_replaced(fixture: StoreFixture) -> None:
    job = (await fixture.save(overlap=Overlap.REPLACE)).id
    [run] = await fixture.admit_next("job", needs_gate_lock=True)
    await _suspend(fixture, run)
    await fixture.trigger(job)
    await _assert_tasks_ended(fixture, run.id, ReasonCode.REPLACED)


async def case_tasks_end_with_a_deleted_job(fixture: StoreFixture) -> None:
    """One execution is waiting, the other one was released and is held."""
    job = (await fixture.save(overlap=Overlap.ALLOW, limit=2)).id
    runs = [await fixture.admit_one(), await fixture.admit_one()]
    await _suspend(fixture, runs[0])
    row = ReleaseRow(runs[1].id, runs[1].token, 0, _DETAIL)
    await fixture.store.apply(Release(rows=(row,), now_us=fixture.now_us))
    await fixture.set_state(job, JobState.PAUSED)
    await fixture.store.apply(DeleteJob(job=job, now_us=fixture.tick()))
    for run in runs:
        await _assert_tasks_ended(fixture, run.id, ReasonCode.JOB_DELETED)


async def case_tasks_end_with_a_canceled_execution_that_its_node_gives_up(fixture: StoreFixture) -> None:
    """Its node suspends or releases it, or dies; it does not start again."""
    await fixture.save(overlap=Overlap.ALLOW)
    slept, released, kept, lost = [await fixture.admit_one() for _ in range(4)]
    await fixture.store.apply(Release(rows=(ReleaseRow(kept.id, kept.token, 0, _DETAIL),), now_us=fixture.now_us))
    [again] = await fixture.claim()
    for run in (slept, released, again, lost):
        assert await fixture.store.apply(CancelExecution(execution=run.id, now_us=fixture.now_us)) is Status.RUNNING
    row = SuspendRow(slept.id, slept.token, fixture.now_us + SECOND_US, (), 2, 0, _DETAIL)
    assert await fixture.store.apply(Suspend(rows=(row,), now_us=fixture.tick())) == []
    rows = (ReleaseRow(released.id, released.token, 0, _DETAIL), ReleaseRow(again.id, again.token))
    assert await fixture.store.apply(Release(rows=rows, now_us=fixture.now_us)) == []
    dead = ReapRow(lost.id, lost.job, lost.token, Status.READY, ReasonCode.WORKER_LOST, 2, (), _DETAIL)
    await fixture.store.apply(Reap(node=fixture.node, beat=0, rows=(dead,), now_us=fixture.now_us))
    for run in (slept, released, again, lost):
        await _assert_tasks_ended(fixture, run.id, ReasonCode.CANCELED)
