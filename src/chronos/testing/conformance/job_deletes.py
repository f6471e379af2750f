"""Deleting jobs: together with saving others, and trimming the history of deleted jobs."""

from chronos.core.config import Overlap
from chronos.core.execution import AttemptStatus, CancelRequest, Status
from chronos.core.ids import job_id
from chronos.core.job import JobState, UpstreamJob
from chronos.errors import Conflict, Invalid, NotFound
from chronos.store.commands import DeleteJob, DeleteRow, OutputRow, SaveJobs, Trim, WriteOutput
from chronos.store.contract import ExecutionFilter, JobFilter
from chronos.testing.conformance.fixture import SECOND, StoreFixture, ended_attempt, raises

DAY = 86_400 * SECOND


async def case_jobs_are_saved_and_deleted_in_one_command(w: StoreFixture) -> None:
    await w.save("changed", description="old")
    gone = await w.save("gone", overlap=Overlap.QUEUE, tags={"team": "a"})
    running, queued = await w.admit_one("gone"), await w.admit_one("gone")
    rows = (w.row("changed", description="new"), w.row("new"))
    saved = await w.store.apply(SaveJobs(rows=rows, now_us=w.tick(), delete=(DeleteRow(gone.id, 1),)))
    assert [(s.version, s.created) for s in saved] == [(2, False), (1, True)]
    assert await w.store.job_named("default", "gone") is None
    assert (await w.store.list_jobs(JobFilter(tag=("team", None)), limit=9)).items == []
    assert await w.status(queued.id) is Status.CANCELED
    assert (await w.execution(running.id)).cancel is CancelRequest.DELETED
    assert (await w.settle(running, status=Status.CANCELED)).settled == [running.id]
    assert (await w.store.counts()).jobs == {JobState.ACTIVE: 2}
    assert [v.version for v in await w.store.versions(gone.id, limit=9)] == [1]
    actions = [
        (e.action, e.subject) for e in (await w.store.audit(namespace=None, limit=99)).items if e.at_us >= w.now - 1
    ]
    assert sorted(actions) == [("create", "new"), ("delete", "gone"), ("update", "changed")]
    assert (await w.save("gone")).id == job_id("default", "gone", 2)


async def case_saving_and_deleting_is_atomic(w: StoreFixture) -> None:
    one, other = await w.save("one"), await w.save("other")
    new = (w.row("new"),)
    await w.save("other", description="changed meanwhile")
    with raises(Conflict, '"other" changed since you read it: you have version 1, the current one is 2'):
        delete = (DeleteRow(one.id, 1), DeleteRow(other.id, 1))
        await w.store.apply(SaveJobs(rows=new, now_us=w.now, delete=delete))
    with raises(NotFound, "no longer exists"):
        await w.store.apply(SaveJobs(rows=new, now_us=w.now, delete=(DeleteRow(one.id), DeleteRow(bytes(16)))))
    with raises(Conflict, "exists already"):
        await w.store.apply(SaveJobs(rows=(w.row("other", expect=0),), now_us=w.now, delete=(DeleteRow(one.id),)))
    with raises(Invalid, "twice"):
        await w.store.apply(SaveJobs(rows=new, now_us=w.now, delete=(DeleteRow(one.id), DeleteRow(one.id, 1))))
    with raises(Invalid, "both saved and deleted"):
        await w.store.apply(SaveJobs(rows=(w.row("one"),), now_us=w.now, delete=(DeleteRow(one.id),)))
    assert sorted(job.name for job in (await w.store.list_jobs(JobFilter(), limit=9)).items) == ["one", "other"]
    assert await w.store.apply(SaveJobs(rows=(), now_us=w.now, delete=(DeleteRow(one.id), DeleteRow(other.id)))) == []
    assert (await w.store.list_jobs(JobFilter(), limit=9)).items == []
    assert await w.store.apply(SaveJobs(rows=(), now_us=w.now)) == []


async def case_many_jobs_are_deleted_at_once(w: StoreFixture) -> None:
    await w.start_node()
    rows = tuple(w.row(f"job-{i:03}") for i in range(100))
    saved = await w.store.apply(SaveJobs(rows=rows, now_us=w.now))
    delete = tuple(DeleteRow(job.id, 1) for job in saved[10:])
    await w.store.apply(SaveJobs(rows=(), now_us=w.tick(), delete=delete))
    assert len((await w.store.list_jobs(JobFilter(), limit=99)).items) == 10
    [line] = [line for line in (await w.store.audit(namespace=None, limit=99)).items if line.action == "delete"]
    assert line.subject.endswith(" and 89 more")
    assert sorted(line.detail.split(", ")) == [f"job-{i:03}" for i in range(10, 100)]


async def case_upstream_and_downstream_jobs_are_deleted_in_any_order(w: StoreFixture) -> None:
    up = await w.save("up")
    down = await w.save("down", after=(UpstreamJob(job="up"),))
    await w.store.apply(
        SaveJobs(rows=(w.row("else", after=(UpstreamJob(job="up"),)),), now_us=w.now, delete=(DeleteRow(down.id),))
    )
    assert [job for job, _ in await w.store.followers("default", "up")] == [job_id("default", "else", 1)]
    assert (await w.settle(await w.admit_one("up"))).outbox_items == 1
    other = await w.job("else")
    await w.store.apply(SaveJobs(rows=(), now_us=w.now, delete=(DeleteRow(other.id),)))
    assert (await w.settle(await w.admit_one("up"))).outbox_items == 0
    new = w.row("new", after=(UpstreamJob(job="up"),))
    await w.store.apply(SaveJobs(rows=(new,), now_us=w.now, delete=(DeleteRow(up.id),)))
    assert await w.store.verify() == []
    await w.save("up")
    assert (await w.settle(await w.admit_one("up"))).outbox_items == 1


async def case_a_job_that_stays_paused_or_disabled_keeps_its_note(w: StoreFixture) -> None:
    saved = await w.save("job")
    await w.set_state(saved.id, JobState.PAUSED, note="holiday")
    paused_us = w.now
    w.tick()
    await w.save("job", description="new", state=JobState.PAUSED)
    job = await w.job()
    assert (job.state, job.note, job.paused_us, job.version) == (JobState.PAUSED, "holiday", paused_us, 2)
    await w.save("job", description="newer")
    job = await w.job()
    assert (job.state, job.note, job.paused_us) == (JobState.ACTIVE, "", None)
    await w.save("job", description="newest", state=JobState.PAUSED)
    assert (await w.job()).paused_us == w.now
    await w.set_state(saved.id, JobState.DISABLED, note="too loud")
    await w.save("job", description="last", state=JobState.DISABLED)
    job = await w.job()
    assert (job.state, job.note, job.paused_us) == (JobState.DISABLED, "too loud", None)


async def case_history_of_deleted_jobs_is_trimmed_by_age(w: StoreFixture) -> None:
    saved = await w.save("gone", overlap=Overlap.ALLOW)
    other = await w.save("other", overlap=Overlap.ALLOW)
    runs = [await w.admit_one("gone") for _ in range(5)]
    await w.store.apply(WriteOutput(rows=(OutputRow(runs[0].id, "task", 1, 0, "text"),)))
    await w.settle(*runs[:4], attempts=())
    attempt = ended_attempt(runs[4], 1, AttemptStatus.SUCCEEDED)
    await w.settle(await w.admit_one("other"))
    await w.store.apply(DeleteJob(job=saved.id, now_us=w.tick(1)))
    assert await w.store.apply(Trim(now_us=w.tick(), limit=100, keep_deleted_us=2 * DAY)) == 0
    await w.settle(runs[4], attempts=(attempt,))
    w.tick(DAY)
    assert await w.store.apply(Trim(now_us=w.now, limit=100, keep_deleted_us=2 * DAY)) == 0
    w.tick(2 * DAY)
    assert await w.store.apply(Trim(now_us=w.now, limit=2, keep_deleted_us=2 * DAY)) == 2
    assert await w.store.apply(Trim(now_us=w.now, limit=100, keep_deleted_us=2 * DAY)) == 3
    assert (await w.store.list_executions(ExecutionFilter(job=saved.id), limit=9)).items == []
    assert await w.store.output(runs[0].id) == []
    assert await w.store.execution(runs[4].id) is None
    assert len((await w.store.list_executions(ExecutionFilter(job=other.id), limit=9)).items) == 1


async def case_each_incarnation_of_a_name_keeps_its_own_executions(w: StoreFixture) -> None:
    old = await w.save("again", overlap=Overlap.ALLOW)
    before, still_running = await w.admit_one("again"), await w.admit_one("again")
    await w.settle(before)
    await w.store.apply(DeleteJob(job=old.id, now_us=w.tick(1)))
    new = await w.save("again", overlap=Overlap.ALLOW, next_us=w.now + SECOND)
    run = await w.admit_one("again")
    await w.settle(run)
    await w.settle(still_running)
    for job, own in ((old.id, [still_running.id, before.id]), (new.id, [run.id])):
        listed = (await w.store.list_executions(ExecutionFilter(job=job), limit=9)).items
        assert [execution.id for execution in listed] == own
        assert (await w.store.latest([job]))[job].id == own[0]


async def case_every_incarnation_of_a_name_is_trimmed(w: StoreFixture) -> None:
    for _ in range(3):
        saved = await w.save("again", overlap=Overlap.ALLOW, next_us=w.now + SECOND)
        await w.settle(await w.admit_one("again"))
        await w.store.apply(DeleteJob(job=saved.id, now_us=w.tick(1)))
    await w.save("again", overlap=Overlap.ALLOW, next_us=w.now + SECOND)
    await w.settle(await w.admit_one("again"))
    w.tick(3 * DAY)
    assert await w.store.apply(Trim(now_us=w.now, limit=100, keep_deleted_us=2 * DAY)) == 3
    assert len((await w.store.list_executions(ExecutionFilter(), limit=9)).items) == 1
