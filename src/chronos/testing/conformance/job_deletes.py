"""Deleting jobs: together with saving others, and trimming the history of deleted jobs."""

from chronos.core.config import Overlap
from chronos.core.execution import AttemptStatus, CancelRequest, Status
from chronos.core.ids import job_id
from chronos.core.job import JobState, UpstreamJob
from chronos.errors import Conflict, Invalid, NotFound
from chronos.store.commands import DeleteJob, DeleteRow, OutputRow, SaveJobs, Trim, WriteOutput
from chronos.store.contract import ExecutionFilter, JobFilter
from chronos.testing.conformance.fixture import SECOND_US, StoreFixture, ended_attempt, raises

DAY = 86_400 * SECOND_US


async def case_jobs_are_saved_and_deleted_in_one_command(fixture: StoreFixture) -> None:
    await fixture.save("changed", description="old")
    gone = await fixture.save("gone", overlap=Overlap.QUEUE, tags={"team": "a"})
    running, queued = await fixture.admit_one("gone"), await fixture.admit_one("gone")
    rows = (fixture.build_job_row("changed", description="new"), fixture.build_job_row("new"))
    saved = await fixture.store.apply(SaveJobs(rows=rows, now_us=fixture.tick(), delete=(DeleteRow(gone.id, 1),)))
    assert [(s.version, s.created) for s in saved] == [(2, False), (1, True)]
    assert await fixture.store.job_named("default", "gone") is None
    assert (await fixture.store.list_jobs(JobFilter(tag=("team", None)), limit=9)).items == []
    assert await fixture.status(queued.id) is Status.CANCELED
    assert (await fixture.execution(running.id)).cancel is CancelRequest.DELETED
    assert (await fixture.settle(running, status=Status.CANCELED)).settled == [running.id]
    assert (await fixture.store.counts()).jobs == {JobState.ACTIVE: 2}
    assert [v.version for v in await fixture.store.versions(gone.id, limit=9)] == [1]
    actions = [
        (e.action, e.subject)
        for e in (await fixture.store.audit(namespace=None, limit=99)).items
        if e.at_us >= fixture.now_us - 1
    ]
    assert sorted(actions) == [("create", "new"), ("delete", "gone"), ("update", "changed")]
    assert (await fixture.save("gone")).id == job_id("default", "gone", 2)


async def case_saving_and_deleting_is_atomic(fixture: StoreFixture) -> None:
    one, other = await fixture.save("one"), await fixture.save("other")
    new = (fixture.build_job_row("new"),)
    await fixture.save("other", description="changed meanwhile")
    with raises(Conflict, '"other" changed since you read it: you have version 1, the current one is 2'):
        delete = (DeleteRow(one.id, 1), DeleteRow(other.id, 1))
        await fixture.store.apply(SaveJobs(rows=new, now_us=fixture.now_us, delete=delete))
    with raises(NotFound, "no longer exists"):
        await fixture.store.apply(
            SaveJobs(rows=new, now_us=fixture.now_us, delete=(DeleteRow(one.id), DeleteRow(bytes(16))))
        )
    with raises(Conflict, "exists already"):
        await fixture.store.apply(
            SaveJobs(
                rows=(fixture.build_job_row("other", expect=0),), now_us=fixture.now_us, delete=(DeleteRow(one.id),)
            )
        )
    with raises(Invalid, "twice"):
        await fixture.store.apply(
            SaveJobs(rows=new, now_us=fixture.now_us, delete=(DeleteRow(one.id), DeleteRow(one.id, 1)))
        )
    with raises(Invalid, "both saved and deleted"):
        await fixture.store.apply(
            SaveJobs(rows=(fixture.build_job_row("one"),), now_us=fixture.now_us, delete=(DeleteRow(one.id),))
        )
    assert sorted(job.name for job in (await fixture.store.list_jobs(JobFilter(), limit=9)).items) == ["one", "other"]
    assert (
        await fixture.store.apply(
            SaveJobs(rows=(), now_us=fixture.now_us, delete=(DeleteRow(one.id), DeleteRow(other.id)))
        )
        == []
    )
    assert (await fixture.store.list_jobs(JobFilter(), limit=9)).items == []
    assert await fixture.store.apply(SaveJobs(rows=(), now_us=fixture.now_us)) == []


async def case_many_jobs_are_deleted_at_once(fixture: StoreFixture) -> None:
    await fixture.start_node()
    rows = tuple(fixture.build_job_row(f"job-{i:03}") for i in range(100))
    saved = await fixture.store.apply(SaveJobs(rows=rows, now_us=fixture.now_us))
    delete = tuple(DeleteRow(job.id, 1) for job in saved[10:])
    await fixture.store.apply(SaveJobs(rows=(), now_us=fixture.tick(), delete=delete))
    assert len((await fixture.store.list_jobs(JobFilter(), limit=99)).items) == 10
    [line] = [line for line in (await fixture.store.audit(namespace=None, limit=99)).items if line.action == "delete"]
    assert line.subject.endswith(" and 89 more")
    assert sorted(line.detail.split(", ")) == [f"job-{i:03}" for i in range(10, 100)]


async def case_upstream_and_downstream_jobs_are_deleted_in_any_order(fixture: StoreFixture) -> None:
    up = await fixture.save("up")
    down = await fixture.save("down", after=(UpstreamJob(job="up"),))
    await fixture.store.apply(
        SaveJobs(
            rows=(fixture.build_job_row("else", after=(UpstreamJob(job="up"),)),),
            now_us=fixture.now_us,
            delete=(DeleteRow(down.id),),
        )
    )
    assert [job for job, _ in await fixture.store.followers("default", "up")] == [job_id("default", "else", 1)]
    assert (await fixture.settle(await fixture.admit_one("up"))).outbox_items == 1
    other = await fixture.job("else")
    await fixture.store.apply(SaveJobs(rows=(), now_us=fixture.now_us, delete=(DeleteRow(other.id),)))
    assert (await fixture.settle(await fixture.admit_one("up"))).outbox_items == 0
    new = fixture.build_job_row("new", after=(UpstreamJob(job="up"),))
    await fixture.store.apply(SaveJobs(rows=(new,), now_us=fixture.now_us, delete=(DeleteRow(up.id),)))
    assert await fixture.store.verify() == []
    await fixture.save("up")
    assert (await fixture.settle(await fixture.admit_one("up"))).outbox_items == 1


async def case_a_job_that_stays_paused_or_disabled_keeps_its_note(fixture: StoreFixture) -> None:
    saved = await fixture.save("job")
    await fixture.set_state(saved.id, JobState.PAUSED, note="holiday")
    paused_us = fixture.now_us
    fixture.tick()
    await fixture.save("job", description="new", state=JobState.PAUSED)
    job = await fixture.job()
    assert (job.state, job.note, job.paused_us, job.version) == (JobState.PAUSED, "holiday", paused_us, 2)
    await fixture.save("job", description="newer")
    job = await fixture.job()
    assert (job.state, job.note, job.paused_us) == (JobState.ACTIVE, "", None)
    await fixture.save("job", description="newest", state=JobState.PAUSED)
    assert (await fixture.job()).paused_us == fixture.now_us
    await fixture.set_state(saved.id, JobState.DISABLED, note="too loud")
    await fixture.save("job", description="last", state=JobState.DISABLED)
    job = await fixture.job()
    assert (job.state, job.note, job.paused_us) == (JobState.DISABLED, "too loud", None)


async def case_history_of_deleted_jobs_is_trimmed_by_age(fixture: StoreFixture) -> None:
    saved = await fixture.save("gone", overlap=Overlap.ALLOW)
    other = await fixture.save("other", overlap=Overlap.ALLOW)
    runs = [await fixture.admit_one("gone") for _ in range(5)]
    await fixture.store.apply(WriteOutput(rows=(OutputRow(runs[0].id, "task", 1, 0, "text"),)))
    await fixture.settle(*runs[:4], attempts=())
    attempt = ended_attempt(runs[4], 1, AttemptStatus.SUCCEEDED)
    await fixture.settle(await fixture.admit_one("other"))
    await fixture.store.apply(DeleteJob(job=saved.id, now_us=fixture.tick(1)))
    assert await fixture.store.apply(Trim(now_us=fixture.tick(), limit=100, keep_deleted_us=2 * DAY)) == 0
    await fixture.settle(runs[4], attempts=(attempt,))
    fixture.tick(DAY)
    assert await fixture.store.apply(Trim(now_us=fixture.now_us, limit=100, keep_deleted_us=2 * DAY)) == 0
    fixture.tick(2 * DAY)
    assert await fixture.store.apply(Trim(now_us=fixture.now_us, limit=2, keep_deleted_us=2 * DAY)) == 2
    assert await fixture.store.apply(Trim(now_us=fixture.now_us, limit=100, keep_deleted_us=2 * DAY)) == 3
    assert (await fixture.store.list_executions(ExecutionFilter(job=saved.id), limit=9)).items == []
    assert await fixture.store.output(runs[0].id) == []
    assert await fixture.store.execution(runs[4].id) is None
    assert len((await fixture.store.list_executions(ExecutionFilter(job=other.id), limit=9)).items) == 1


async def case_each_incarnation_of_a_name_keeps_its_own_executions(fixture: StoreFixture) -> None:
    old = await fixture.save("again", overlap=Overlap.ALLOW)
    before, still_running = await fixture.admit_one("again"), await fixture.admit_one("again")
    await fixture.settle(before)
    await fixture.store.apply(DeleteJob(job=old.id, now_us=fixture.tick(1)))
    new = await fixture.save("again", overlap=Overlap.ALLOW, next_us=fixture.now_us + SECOND_US)
    run = await fixture.admit_one("again")
    await fixture.settle(run)
    await fixture.settle(still_running)
    for job, own in ((old.id, [still_running.id, before.id]), (new.id, [run.id])):
        listed = (await fixture.store.list_executions(ExecutionFilter(job=job), limit=9)).items
        assert [execution.id for execution in listed] == own
        assert (await fixture.store.latest([job]))[job].id == own[0]


async def case_every_incarnation_of_a_name_is_trimmed(fixture: StoreFixture) -> None:
    for _ in range(3):
        saved = await fixture.save("again", overlap=Overlap.ALLOW, next_us=fixture.now_us + SECOND_US)
        await fixture.settle(await fixture.admit_one("again"))
        await fixture.store.apply(DeleteJob(job=saved.id, now_us=fixture.tick(1)))
    await fixture.save("again", overlap=Overlap.ALLOW, next_us=fixture.now_us + SECOND_US)
    await fixture.settle(await fixture.admit_one("again"))
    fixture.tick(3 * DAY)
    assert await fixture.store.apply(Trim(now_us=fixture.now_us, limit=100, keep_deleted_us=2 * DAY)) == 3
    assert len((await fixture.store.list_executions(ExecutionFilter(), limit=9)).items) == 1
