"""Jobs that run on save: the job or version and its execution are created together or not at all."""

import asyncio

from chronos.core.config import Overlap
from chronos.core.execution import CancelRequest, Cause, Execution, Status
from chronos.core.ids import key_gate_id, requested_execution_id
from chronos.core.job import JobState
from chronos.core.node import Actor
from chronos.errors import Conflict, QueueFull
from chronos.store.commands import NEW, DeleteJob, RunOnSave, Saved, SaveJobs
from chronos.store.contract import ExecutionFilter, Hint
from chronos.testing.conformance.fixture import StoreFixture, raises

ANA = Actor(name="ana", origin="127.0.0.1")
RUN_ON_SAVE = RunOnSave()


async def _runs(w: StoreFixture, job: bytes) -> list[Execution]:
    page = await w.store.list_executions(ExecutionFilter(job=job), limit=99)
    return [item for item in page.items if isinstance(item, Execution)]


def _id_of(saved: Saved, now_us: int) -> bytes:
    request = f"chronos:saved:{saved.id.hex()}:{saved.version}".encode()
    return requested_execution_id(saved.id, Cause.MANUAL, now_us, request)


async def case_a_new_job_runs_with_the_command_that_saves_it(w: StoreFixture) -> None:
    await w.start_node()
    hints: list[Hint] = []
    w.store.on_hint(hints.append)
    row = w.row("job", expect=NEW, next_us=None, run=RUN_ON_SAVE)
    [saved] = await w.store.apply(SaveJobs(rows=(row,), now_us=w.tick(), actor=ANA))
    [run] = await _runs(w, saved.id)
    assert (run.id, run.cause, run.status, run.job_version) == (_id_of(saved, w.now), Cause.MANUAL, Status.READY, 1)
    assert any(Hint.READY in hint for hint in hints)
    lines = (await w.store.audit(namespace="default", limit=9)).items
    assert {(e.actor, e.action, e.subject, e.detail) for e in lines} == {
        ("ana", "create", "job", "version 1"),
        ("ana", "trigger", "job", run.id.hex()),
    }
    assert [claimed.id for claimed in await w.claim()] == [run.id]


async def case_each_version_runs_once_and_an_unchanged_save_does_not(w: StoreFixture) -> None:
    saved = await w.save("job", overlap=Overlap.ALLOW, run=RUN_ON_SAVE)
    w.tick()
    assert not (await w.save("job", overlap=Overlap.ALLOW, run=RUN_ON_SAVE)).changed
    assert len(await _runs(w, saved.id)) == 1
    second = await w.save("job", overlap=Overlap.ALLOW, lane="other", priority=9, description="new", run=RUN_ON_SAVE)
    latest, first = await _runs(w, saved.id)
    assert (latest.id, latest.job_version, first.job_version) == (_id_of(second, w.now), 2, 2)
    lanes = {key: number for number, key in (await w.store.lanes()).items()}
    assert {run.id for run in await w.claim(lanes=(lanes["other"],))} == {latest.id, first.id}
    off = w.row("job", overlap=Overlap.ALLOW, lane="other", priority=9, description="new", state=JobState.DISABLED)
    on = w.row(
        "job",
        overlap=Overlap.ALLOW,
        lane="other",
        priority=9,
        description="new",
        run=RUN_ON_SAVE,
        expect_state=off.state,
    )
    await w.set_state(saved.id, JobState.DISABLED)
    await w.store.apply(SaveJobs(rows=(on,), now_us=w.tick()))
    assert len(await _runs(w, saved.id)) == 2, "only its state changed"


async def case_a_run_on_save_follows_the_overlap_policy(w: StoreFixture) -> None:
    await w.save("job", overlap=Overlap.REPLACE, queue_max=1)
    [running] = await w.admit_next("job", needs_gate_lock=True)
    hints: list[Hint] = []
    w.store.on_hint(hints.append)
    w.tick()
    saved = await w.save("job", overlap=Overlap.REPLACE, queue_max=1, description="new", run=RUN_ON_SAVE)
    latest, before = await _runs(w, saved.id)
    assert (before.id, before.cancel, latest.status) == (running.id, CancelRequest.REPLACED, Status.QUEUED)
    assert any(Hint.CANCEL in hint for hint in hints)


async def case_without_room_for_the_run_nothing_is_saved(w: StoreFixture) -> None:
    key = RunOnSave(key_gate_id("default", "k"), 1)
    first = await w.save("a", keyed=True, queue_max=0, run=key)
    rows = (w.row("b", expect=NEW), w.row("c", expect=NEW, keyed=True, queue_max=0, run=key))
    with raises(QueueFull, '"c" cannot run now, because its queue is full'):
        await w.store.apply(SaveJobs(rows=rows, now_us=w.tick()))
    with raises(QueueFull, "nothing was saved"):
        await w.save("a", keyed=True, queue_max=0, description="new", run=key)
    assert (await w.job("a")).version == 1
    assert await w.store.job_named("default", "b") is None
    [run] = await w.claim()
    assert run.job == first.id
    await w.settle(run)
    assert (await w.store.apply(SaveJobs(rows=rows, now_us=w.tick())))[1].created
    assert len(await w.claim()) == 1


async def case_jobs_that_run_on_save_are_created_concurrently(w: StoreFixture) -> None:
    await w.start_node()
    key = RunOnSave(key_gate_id("default", "k"), 1)
    commands = [
        SaveJobs(rows=(w.row(f"job-{n}", expect=NEW, run=key if n % 2 else RUN_ON_SAVE),), now_us=w.now + n, actor=ANA)
        for n in range(10)
    ]
    conflicting = SaveJobs(rows=(w.row("job-3", expect=NEW, run=RUN_ON_SAVE),), now_us=w.now + 20)
    *results, rejected = await asyncio.gather(
        *(w.store.apply(command) for command in [*commands, conflicting]), return_exceptions=True
    )
    assert isinstance(rejected, Conflict)
    for command, result in zip(commands, results, strict=True):
        assert not isinstance(result, BaseException)
        [run] = await _runs(w, result[0].id)
        assert run.id == _id_of(result[0], command.now_us)
    w.tick()
    assert len(await w.claim()) == 6, "one with the key, and all without"


async def case_an_idempotent_create_runs_the_job_once(w: StoreFixture) -> None:
    await w.start_node()
    command = SaveJobs(rows=(w.row("job", expect=NEW, run=RUN_ON_SAVE),), now_us=w.tick(), idempotency="k")
    [first] = await w.store.apply(command)
    [again] = await w.store.apply(command)
    assert (again.id, again.created) == (first.id, False)
    assert len(await _runs(w, first.id)) == 1


async def case_a_reused_name_has_its_own_run(w: StoreFixture) -> None:
    first = await w.save("job", run=RUN_ON_SAVE)
    await w.store.apply(DeleteJob(job=first.id, now_us=w.tick()))
    second = await w.save("job", run=RUN_ON_SAVE)
    assert [run.id for run in await _runs(w, second.id)] == [_id_of(second, w.now)]
