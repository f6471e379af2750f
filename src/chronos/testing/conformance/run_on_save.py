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


async def _runs(fixture: StoreFixture, job: bytes) -> list[Execution]:
    page = await fixture.store.list_executions(ExecutionFilter(job=job), limit=99)
    return [item for item in page.items if isinstance(item, Execution)]


def _id_of(saved: Saved, now_us: int) -> bytes:
    request = f"chronos:saved:{saved.id.hex()}:{saved.version}".encode()
    return requested_execution_id(saved.id, Cause.MANUAL, now_us, request)


async def case_a_new_job_runs_with_the_command_that_saves_it(fixture: StoreFixture) -> None:
    await fixture.start_node()
    hints: list[Hint] = []
    fixture.store.on_hint(hints.append)
    row = fixture.build_job_row("job", expect=NEW, next_us=None, run=RUN_ON_SAVE)
    [saved] = await fixture.store.apply(SaveJobs(rows=(row,), now_us=fixture.tick(), actor=ANA))
    [run] = await _runs(fixture, saved.id)
    assert (run.id, run.cause, run.status, run.job_version) == (
        _id_of(saved, fixture.now_us),
        Cause.MANUAL,
        Status.READY,
        1,
    )
    assert any(Hint.READY in hint for hint in hints)
    lines = (await fixture.store.audit(namespace="default", limit=9)).items
    assert {(e.actor, e.action, e.subject, e.detail) for e in lines} == {
        ("ana", "create", "job", "version 1"),
        ("ana", "trigger", "job", run.id.hex()),
    }
    assert [claimed.id for claimed in await fixture.claim()] == [run.id]


async def case_each_version_runs_once_and_an_unchanged_save_does_not(fixture: StoreFixture) -> None:
    saved = await fixture.save("job", overlap=Overlap.ALLOW, run=RUN_ON_SAVE)
    fixture.tick()
    assert not (await fixture.save("job", overlap=Overlap.ALLOW, run=RUN_ON_SAVE)).changed
    assert len(await _runs(fixture, saved.id)) == 1
    second = await fixture.save(
        "job", overlap=Overlap.ALLOW, lane="other", priority=9, description="new", run=RUN_ON_SAVE
    )
    latest, first = await _runs(fixture, saved.id)
    assert (latest.id, latest.job_version, first.job_version) == (_id_of(second, fixture.now_us), 2, 2)
    lanes = {key: number for number, key in (await fixture.store.lanes()).items()}
    assert {run.id for run in await fixture.claim(lanes=(lanes["other"],))} == {latest.id, first.id}
    off = fixture.build_job_row(
        "job", overlap=Overlap.ALLOW, lane="other", priority=9, description="new", state=JobState.DISABLED
    )
    on = fixture.build_job_row(
        "job",
        overlap=Overlap.ALLOW,
        lane="other",
        priority=9,
        description="new",
        run=RUN_ON_SAVE,
        expect_state=off.state,
    )
    await fixture.set_state(saved.id, JobState.DISABLED)
    await fixture.store.apply(SaveJobs(rows=(on,), now_us=fixture.tick()))
    assert len(await _runs(fixture, saved.id)) == 2, "only its state changed"


async def case_a_run_on_save_follows_the_overlap_policy(fixture: StoreFixture) -> None:
    await fixture.save("job", overlap=Overlap.REPLACE, queue_max=1)
    [running] = await fixture.admit_next("job", needs_gate_lock=True)
    hints: list[Hint] = []
    fixture.store.on_hint(hints.append)
    fixture.tick()
    saved = await fixture.save("job", overlap=Overlap.REPLACE, queue_max=1, description="new", run=RUN_ON_SAVE)
    latest, before = await _runs(fixture, saved.id)
    assert (before.id, before.cancel, latest.status) == (running.id, CancelRequest.REPLACED, Status.QUEUED)
    assert any(Hint.CANCEL in hint for hint in hints)


async def case_without_room_for_the_run_nothing_is_saved(fixture: StoreFixture) -> None:
    key = RunOnSave(key_gate_id("default", "k"), 1)
    first = await fixture.save("a", keyed=True, queue_max=0, run=key)
    rows = (
        fixture.build_job_row("b", expect=NEW),
        fixture.build_job_row("c", expect=NEW, keyed=True, queue_max=0, run=key),
    )
    with raises(QueueFull, '"c" cannot run now, because its queue is full'):
        await fixture.store.apply(SaveJobs(rows=rows, now_us=fixture.tick()))
    with raises(QueueFull, "nothing was saved"):
        await fixture.save("a", keyed=True, queue_max=0, description="new", run=key)
    assert (await fixture.job("a")).version == 1
    assert await fixture.store.job_named("default", "b") is None
    [run] = await fixture.claim()
    assert run.job == first.id
    await fixture.settle(run)
    assert (await fixture.store.apply(SaveJobs(rows=rows, now_us=fixture.tick())))[1].created
    assert len(await fixture.claim()) == 1


async def case_jobs_that_run_on_save_are_created_concurrently(fixture: StoreFixture) -> None:
    await fixture.start_node()
    key = RunOnSave(key_gate_id("default", "k"), 1)
    commands = [
        SaveJobs(
            rows=(fixture.build_job_row(f"job-{n}", expect=NEW, run=key if n % 2 else RUN_ON_SAVE),),
            now_us=fixture.now_us + n,
            actor=ANA,
        )
        for n in range(10)
    ]
    conflicting = SaveJobs(
        rows=(fixture.build_job_row("job-3", expect=NEW, run=RUN_ON_SAVE),), now_us=fixture.now_us + 20
    )
    *results, rejected = await asyncio.gather(
        *(fixture.store.apply(command) for command in [*commands, conflicting]), return_exceptions=True
    )
    assert isinstance(rejected, Conflict)
    for command, result in zip(commands, results, strict=True):
        assert not isinstance(result, BaseException)
        [run] = await _runs(fixture, result[0].id)
        assert run.id == _id_of(result[0], command.now_us)
    fixture.tick()
    assert len(await fixture.claim()) == 6, "one with the key, and all without"


async def case_an_idempotent_create_runs_the_job_once(fixture: StoreFixture) -> None:
    await fixture.start_node()
    command = SaveJobs(
        rows=(fixture.build_job_row("job", expect=NEW, run=RUN_ON_SAVE),), now_us=fixture.tick(), idempotency="k"
    )
    [first] = await fixture.store.apply(command)
    [again] = await fixture.store.apply(command)
    assert (again.id, again.created) == (first.id, False)
    assert len(await _runs(fixture, first.id)) == 1


async def case_a_reused_name_has_its_own_run(fixture: StoreFixture) -> None:
    first = await fixture.save("job", run=RUN_ON_SAVE)
    await fixture.store.apply(DeleteJob(job=first.id, now_us=fixture.tick()))
    second = await fixture.save("job", run=RUN_ON_SAVE)
    assert [run.id for run in await _runs(fixture, second.id)] == [_id_of(second, fixture.now_us)]
