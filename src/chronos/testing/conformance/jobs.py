"""Jobs: saving, versions, deletion, pause and resume."""

from chronos.core.config import Overlap
from chronos.core.execution import CancelRequest, Cause, Span, Status
from chronos.core.ids import job_id, span_id
from chronos.core.job import JobState
from chronos.core.node import Actor
from chronos.core.reasons import Reason, ReasonCode
from chronos.errors import Conflict, Invalid, NotFound
from chronos.store.commands import NEW, DeleteJob, SaveJobs, SetJobState
from chronos.testing.conformance.fixture import SECOND, T0, StoreFixture, raises


async def case_a_saved_job_is_found_by_name_and_id(w: StoreFixture) -> None:
    saved = await w.save("report", tags={"team": "billing"}, description="monthly")
    assert saved.created
    assert saved.version == 1
    assert saved.id == job_id("default", "report", 1)
    job = await w.job("report")
    assert (job.id, job.state, job.next_us, job.version) == (saved.id, JobState.ACTIVE, T0 + SECOND, 1)
    assert job.spec == w.row("report", tags={"team": "billing"}, description="monthly").spec
    assert await w.store.jobs_by_id([saved.id, bytes(16)]) == {saved.id: job}
    assert await w.store.job_named("other", "report") is None
    assert await w.store.job_named("default", "Report") is None


async def case_saving_the_same_again_changes_nothing(w: StoreFixture) -> None:
    first = await w.save("report")
    w.tick()
    again = await w.save("report")
    assert (again.id, again.version, again.created, again.changed) == (first.id, 1, False, False)
    assert len(await w.store.versions(first.id, limit=10)) == 1


async def case_each_change_creates_a_version(w: StoreFixture) -> None:
    first = await w.save("report", description="one")
    second = await w.save("report", description="two", expect=1)
    assert (second.id, second.version, second.changed) == (first.id, 2, True)
    versions = await w.store.versions(first.id, limit=10)
    assert [(v.version, v.spec.description) for v in versions] == [(2, "two"), (1, "one")]
    assert await w.store.versions(first.id, limit=10, before=2) == versions[1:]


async def case_a_stale_change_is_rejected_and_changes_nothing(w: StoreFixture) -> None:
    await w.save("report", description="one")
    await w.save("report", description="two")
    with raises(Conflict, "you have version 1, the current one is 2"):
        await w.save("report", description="three", expect=1)
    with raises(Conflict, "exists already"):
        await w.save("report", description="three", expect=NEW)
    with raises(Conflict, "no longer exists"):
        await w.save("other", expect=3)
    assert (await w.job("report")).spec.description == "two"


async def case_saving_a_set_of_jobs_is_atomic(w: StoreFixture) -> None:
    await w.save("b", description="old")
    rows = (w.row("a"), w.row("b", description="new", expect=7), w.row("c"))
    with raises(Conflict, '"b"'):
        await w.store.apply(SaveJobs(rows=rows, now_us=w.now))
    assert await w.store.job_named("default", "a") is None
    with raises(Invalid, "twice"):
        await w.store.apply(SaveJobs(rows=(w.row("a"), w.row("a")), now_us=w.now))
    saved = await w.store.apply(SaveJobs(rows=(w.row("a"), w.row("b", description="new")), now_us=w.now))
    assert [(s.version, s.created) for s in saved] == [(1, True), (2, False)]


async def case_a_deleted_job_never_comes_back(w: StoreFixture) -> None:
    first = await w.save("report", overlap=Overlap.QUEUE)
    running = await w.admit_one("report")
    queued = await w.admit_one("report")
    await w.store.apply(DeleteJob(job=first.id, now_us=w.tick()))
    assert await w.store.job_named("default", "report") is None
    assert await w.store.due(w.now + 100 * SECOND, 10) == []
    ended = await w.execution(queued.id)
    assert ended.status is Status.CANCELED
    assert ended.reason is not None
    assert ended.reason.code is ReasonCode.JOB_DELETED
    assert (await w.execution(running.id)).cancel is CancelRequest.DELETED
    assert (await w.settle(running, status=Status.CANCELED)).settled == [running.id]
    again = await w.save("report")
    assert again.created
    assert again.id == job_id("default", "report", 2) != first.id
    assert (await w.store.job_named("default", "report")) is not None
    with raises(NotFound):
        await w.store.apply(DeleteJob(job=first.id, now_us=w.now))


async def case_delete_checks_the_expected_version(w: StoreFixture) -> None:
    saved = await w.save("report")
    with raises(Conflict, "you have version 4, the current one is 1"):
        await w.store.apply(DeleteJob(job=saved.id, now_us=w.now, expect=4))
    await w.store.apply(DeleteJob(job=saved.id, now_us=w.now, expect=1))


async def case_a_new_version_applies_to_executions_that_have_not_started(w: StoreFixture) -> None:
    saved = await w.save("job", overlap=Overlap.QUEUE, lane="old")
    running = await w.admit_one()
    queued = await w.admit_one()
    await w.save("job", overlap=Overlap.QUEUE, lane="new", description="changed", next_us=w.now + SECOND)
    assert (await w.execution(running.id)).job_version == 1
    assert (await w.execution(queued.id)).job_version == 2
    await w.settle(running)
    lanes = {key: number for number, key in (await w.store.lanes()).items()}
    assert await w.claim(lanes=(lanes["old"],)) == []
    [claimed] = await w.claim(lanes=(lanes["new"],))
    assert (claimed.id, claimed.job, claimed.version) == (queued.id, saved.id, 2)


async def case_a_larger_limit_wakes_queued_executions(w: StoreFixture) -> None:
    await w.save("job", overlap=Overlap.ALLOW, limit=1)
    await w.admit_one()
    queued = [await w.admit_one() for _ in range(3)]
    assert [run.status for run in queued] == [Status.QUEUED] * 3
    await w.save("job", overlap=Overlap.ALLOW, limit=3, description="wider", next_us=w.now + SECOND)
    statuses = [await w.status(run.id) for run in queued]
    assert statuses == [Status.READY, Status.READY, Status.QUEUED]


async def case_a_smaller_limit_requeues_executions_that_have_not_started(w: StoreFixture) -> None:
    await w.save("job", overlap=Overlap.ALLOW)
    running = await w.admit_one()
    ready = [await w.admit_one(claim=False) for _ in range(2)]
    await w.save("job", overlap=Overlap.SKIP, description="one at a time", next_us=w.now + SECOND)
    assert [await w.status(run.id) for run in (running, *ready)] == [Status.RUNNING, Status.QUEUED, Status.QUEUED]
    assert await w.claim() == []
    await w.settle(running)
    [first] = await w.claim()
    assert first.id == ready[0].id
    assert await w.claim() == []
    await w.settle(first)
    assert [run.id for run in await w.claim()] == [ready[1].id]


async def case_changing_overlap_to_allow_wakes_queued_executions(w: StoreFixture) -> None:
    await w.save("job", overlap=Overlap.QUEUE)
    runs = [await w.admit_one() for _ in range(3)]
    await w.save("job", overlap=Overlap.ALLOW, description="all at once", next_us=w.now + SECOND)
    assert {run.id for run in await w.claim()} == {run.id for run in runs[1:]}


async def case_priority_changes_the_rank_of_ready_executions(w: StoreFixture) -> None:
    await w.save("low", overlap=Overlap.ALLOW, priority=5)
    await w.save("high", overlap=Overlap.ALLOW, priority=5)
    [low] = await w.admit_next("low", claim=False)
    [high] = await w.admit_next("high", claim=False)
    await w.save("high", overlap=Overlap.ALLOW, priority=6, description="urgent", next_us=w.now + SECOND)
    assert [c.id for c in await w.claim()] == [high.id, low.id]


async def case_pausing_holds_executions_and_resuming_releases_them(w: StoreFixture) -> None:
    saved = await w.save("job", overlap=Overlap.QUEUE)
    running = await w.admit_one()
    queued = await w.admit_one()
    await w.set_state(saved.id, JobState.PAUSED, note="maintenance")
    job = await w.job()
    assert (job.state, job.note) == (JobState.PAUSED, "maintenance")
    assert await w.store.due(w.now + 100 * SECOND, 10) == []
    assert await w.admit_next("job") == []
    await w.settle(running)
    assert await w.status(queued.id) is Status.QUEUED
    assert await w.claim() == []
    skipped = Span(
        id=span_id(saved.id, T0 + 3 * SECOND, int(Status.SKIPPED)),
        job=saved.id,
        status=Status.SKIPPED,
        from_us=T0 + 3 * SECOND,
        to_us=T0 + 9 * SECOND,
        count=7,
        reason=Reason.of(ReasonCode.PAUSED, "paused by ana"),
        recorded_us=w.now,
    )
    await w.set_state(saved.id, JobState.ACTIVE, next_us=T0 + 10 * SECOND, keep_cursor=False, spans=(skipped,))
    [claimed] = await w.claim()
    assert claimed.id == queued.id
    assert (await w.job()).next_us == T0 + 10 * SECOND
    assert (await w.store.counts()).jobs == {JobState.ACTIVE: 1}


async def case_a_pause_holds_a_ready_execution_but_not_a_trigger(w: StoreFixture) -> None:
    saved = await w.save("job", overlap=Overlap.ALLOW)
    [ready] = await w.admit_next("job", claim=False)
    triggered = await w.trigger(saved.id)
    await w.set_state(saved.id, JobState.PAUSED)
    assert [c.id for c in await w.claim()] == [triggered.id]
    later = await w.trigger(saved.id)
    assert [c.id for c in await w.claim()] == [later.id]
    await w.set_state(saved.id, JobState.ACTIVE)
    assert [c.id for c in await w.claim()] == [ready.id]


async def case_a_disabled_job_has_no_instants(w: StoreFixture) -> None:
    saved = await w.save("job")
    await w.set_state(saved.id, JobState.DISABLED)
    assert await w.store.due(w.now + 100 * SECOND, 10) == []
    assert await w.store.next_due_us() is None
    await w.set_state(saved.id, JobState.ACTIVE, next_us=T0 + 5 * SECOND, keep_cursor=False)
    assert [d.job for d in await w.store.due(T0 + 5 * SECOND, 10)] == [saved.id]


async def case_setting_a_state_checks_the_version_and_the_job(w: StoreFixture) -> None:
    saved = await w.save("job")
    with raises(Conflict, "you have version 9"):
        await w.set_state(saved.id, JobState.PAUSED, expect=9)
    with raises(NotFound):
        await w.store.apply(SetJobState(job=bytes(16), state=JobState.PAUSED, now_us=w.now))


async def case_every_change_is_audited(w: StoreFixture) -> None:
    await w.start_node()
    ana = Actor(name="ana", origin="127.0.0.1")
    [saved] = await w.store.apply(SaveJobs(rows=(w.row("job"),), now_us=w.tick(), actor=ana))
    await w.store.apply(SetJobState(job=saved.id, state=JobState.PAUSED, now_us=w.tick(), note="why", actor=ana))
    await w.store.apply(DeleteJob(job=saved.id, now_us=w.tick(), actor=ana))
    page = await w.store.audit(namespace="default", limit=2)
    assert [(e.actor, e.action, e.subject, e.origin) for e in page.items] == [
        ("ana", "delete", "job", "127.0.0.1"),
        ("ana", "pause", "job", "127.0.0.1"),
    ]
    assert page.items[1].detail == "why"
    rest = await w.store.audit(namespace="default", limit=2, cursor=page.cursor)
    assert [(e.action, e.detail) for e in rest.items] == [("create", "version 1")]
    assert rest.cursor is None
    assert (await w.store.audit(namespace="other", limit=5)).items == []


async def case_only_triggered_runs_are_audited(w: StoreFixture) -> None:
    saved = await w.save(overlap=Overlap.ALLOW)
    w.tick()
    for cause in (Cause.DEPENDENCY, Cause.MANUAL):
        await w.trigger(saved.id, cause=cause)
        w.tick()
    page = await w.store.audit(namespace="default", limit=9)
    assert [entry.action for entry in page.items] == ["trigger", "create"]
