"""Jobs: saving, versions, deletion, pause and resume."""

from chronos.core.config import Overlap
from chronos.core.execution import CancelRequest, Cause, Span, Status
from chronos.core.ids import job_id, span_id
from chronos.core.job import JobState
from chronos.core.node import Actor
from chronos.core.reasons import Reason, ReasonCode
from chronos.errors import Conflict, Invalid, NotFound
from chronos.store.commands import NEW, DeleteJob, SaveJobs, SetJobState
from chronos.testing.conformance.fixture import SECOND_US, T0_US, StoreFixture, raises


async def case_a_saved_job_is_found_by_name_and_id(fixture: StoreFixture) -> None:
    saved = await fixture.save("report", tags={"team": "billing"}, description="monthly")
    assert saved.created
    assert saved.version == 1
    assert saved.id == job_id("default", "report", 1)
    job = await fixture.job("report")
    assert (job.id, job.state, job.next_us, job.version) == (saved.id, JobState.ACTIVE, T0_US + SECOND_US, 1)
    assert job.spec == fixture.build_job_row("report", tags={"team": "billing"}, description="monthly").spec
    assert await fixture.store.jobs_by_id([saved.id, bytes(16)]) == {saved.id: job}
    assert await fixture.store.job_named("other", "report") is None
    assert await fixture.store.job_named("default", "Report") is None


async def case_saving_the_same_again_changes_nothing(fixture: StoreFixture) -> None:
    first = await fixture.save("report")
    fixture.tick()
    again = await fixture.save("report")
    assert (again.id, again.version, again.created, again.changed) == (first.id, 1, False, False)
    assert len(await fixture.store.versions(first.id, limit=10)) == 1


async def case_each_change_creates_a_version(fixture: StoreFixture) -> None:
    first = await fixture.save("report", description="one")
    second = await fixture.save("report", description="two", expect=1)
    assert (second.id, second.version, second.changed) == (first.id, 2, True)
    versions = await fixture.store.versions(first.id, limit=10)
    assert [(v.version, v.spec.description) for v in versions] == [(2, "two"), (1, "one")]
    assert await fixture.store.versions(first.id, limit=10, before=2) == versions[1:]


async def case_a_stale_change_is_rejected_and_changes_nothing(fixture: StoreFixture) -> None:
    await fixture.save("report", description="one")
    await fixture.save("report", description="two")
    with raises(Conflict, "you have version 1, the current one is 2"):
        await fixture.save("report", description="three", expect=1)
    with raises(Conflict, "exists already"):
        await fixture.save("report", description="three", expect=NEW)
    with raises(Conflict, "no longer exists"):
        await fixture.save("other", expect=3)
    assert (await fixture.job("report")).spec.description == "two"


async def case_saving_a_set_of_jobs_is_atomic(fixture: StoreFixture) -> None:
    await fixture.save("b", description="old")
    rows = (
        fixture.build_job_row("a"),
        fixture.build_job_row("b", description="new", expect=7),
        fixture.build_job_row("c"),
    )
    with raises(Conflict, '"b"'):
        await fixture.store.apply(SaveJobs(rows=rows, now_us=fixture.now_us))
    assert await fixture.store.job_named("default", "a") is None
    with raises(Invalid, "twice"):
        await fixture.store.apply(
            SaveJobs(rows=(fixture.build_job_row("a"), fixture.build_job_row("a")), now_us=fixture.now_us)
        )
    saved = await fixture.store.apply(
        SaveJobs(
            rows=(fixture.build_job_row("a"), fixture.build_job_row("b", description="new")), now_us=fixture.now_us
        )
    )
    assert [(s.version, s.created) for s in saved] == [(1, True), (2, False)]


async def case_a_deleted_job_never_comes_back(fixture: StoreFixture) -> None:
    first = await fixture.save("report", overlap=Overlap.QUEUE)
    running = await fixture.admit_one("report")
    queued = await fixture.admit_one("report")
    await fixture.store.apply(DeleteJob(job=first.id, now_us=fixture.tick()))
    assert await fixture.store.job_named("default", "report") is None
    assert await fixture.store.due(fixture.now_us + 100 * SECOND_US, 10) == []
    ended = await fixture.execution(queued.id)
    assert ended.status is Status.CANCELED
    assert ended.reason is not None
    assert ended.reason.code is ReasonCode.JOB_DELETED
    assert (await fixture.execution(running.id)).cancel is CancelRequest.DELETED
    assert (await fixture.settle(running, status=Status.CANCELED)).settled == [running.id]
    again = await fixture.save("report")
    assert again.created
    assert again.id == job_id("default", "report", 2) != first.id
    assert (await fixture.store.job_named("default", "report")) is not None
    with raises(NotFound):
        await fixture.store.apply(DeleteJob(job=first.id, now_us=fixture.now_us))


async def case_delete_checks_the_expected_version(fixture: StoreFixture) -> None:
    saved = await fixture.save("report")
    with raises(Conflict, "you have version 4, the current one is 1"):
        await fixture.store.apply(DeleteJob(job=saved.id, now_us=fixture.now_us, expect=4))
    await fixture.store.apply(DeleteJob(job=saved.id, now_us=fixture.now_us, expect=1))


async def case_a_new_version_applies_to_executions_that_have_not_started(fixture: StoreFixture) -> None:
    saved = await fixture.save("job", overlap=Overlap.QUEUE, lane="old")
    running = await fixture.admit_one()
    queued = await fixture.admit_one()
    await fixture.save(
        "job", overlap=Overlap.QUEUE, lane="new", description="changed", next_us=fixture.now_us + SECOND_US
    )
    assert (await fixture.execution(running.id)).job_version == 1
    assert (await fixture.execution(queued.id)).job_version == 2
    await fixture.settle(running)
    lanes = {key: number for number, key in (await fixture.store.lanes()).items()}
    assert await fixture.claim(lanes=(lanes["old"],)) == []
    [claimed] = await fixture.claim(lanes=(lanes["new"],))
    assert (claimed.id, claimed.job, claimed.version) == (queued.id, saved.id, 2)


async def case_a_larger_limit_wakes_queued_executions(fixture: StoreFixture) -> None:
    await fixture.save("job", overlap=Overlap.ALLOW, limit=1)
    await fixture.admit_one()
    queued = [await fixture.admit_one() for _ in range(3)]
    assert [run.status for run in queued] == [Status.QUEUED] * 3
    await fixture.save("job", overlap=Overlap.ALLOW, limit=3, description="wider", next_us=fixture.now_us + SECOND_US)
    statuses = [await fixture.status(run.id) for run in queued]
    assert statuses == [Status.READY, Status.READY, Status.QUEUED]


async def case_a_smaller_limit_requeues_executions_that_have_not_started(fixture: StoreFixture) -> None:
    await fixture.save("job", overlap=Overlap.ALLOW)
    running = await fixture.admit_one()
    ready = [await fixture.admit_one(claim=False) for _ in range(2)]
    await fixture.save("job", overlap=Overlap.SKIP, description="one at a time", next_us=fixture.now_us + SECOND_US)
    assert [await fixture.status(run.id) for run in (running, *ready)] == [Status.RUNNING, Status.QUEUED, Status.QUEUED]
    assert await fixture.claim() == []
    await fixture.settle(running)
    [first] = await fixture.claim()
    assert first.id == ready[0].id
    assert await fixture.claim() == []
    await fixture.settle(first)
    assert [run.id for run in await fixture.claim()] == [ready[1].id]


async def case_changing_overlap_to_allow_wakes_queued_executions(fixture: StoreFixture) -> None:
    await fixture.save("job", overlap=Overlap.QUEUE)
    runs = [await fixture.admit_one() for _ in range(3)]
    await fixture.save("job", overlap=Overlap.ALLOW, description="all at once", next_us=fixture.now_us + SECOND_US)
    assert {run.id for run in await fixture.claim()} == {run.id for run in runs[1:]}


async def case_priority_changes_the_rank_of_ready_executions(fixture: StoreFixture) -> None:
    await fixture.save("low", overlap=Overlap.ALLOW, priority=5)
    await fixture.save("high", overlap=Overlap.ALLOW, priority=5)
    [low] = await fixture.admit_next("low", claim=False)
    [high] = await fixture.admit_next("high", claim=False)
    await fixture.save(
        "high", overlap=Overlap.ALLOW, priority=6, description="urgent", next_us=fixture.now_us + SECOND_US
    )
    assert [c.id for c in await fixture.claim()] == [high.id, low.id]


async def case_pausing_holds_executions_and_resuming_releases_them(fixture: StoreFixture) -> None:
    saved = await fixture.save("job", overlap=Overlap.QUEUE)
    running = await fixture.admit_one()
    queued = await fixture.admit_one()
    await fixture.set_state(saved.id, JobState.PAUSED, note="maintenance")
    job = await fixture.job()
    assert (job.state, job.note) == (JobState.PAUSED, "maintenance")
    assert await fixture.store.due(fixture.now_us + 100 * SECOND_US, 10) == []
    assert await fixture.admit_next("job") == []
    await fixture.settle(running)
    assert await fixture.status(queued.id) is Status.QUEUED
    assert await fixture.claim() == []
    skipped = Span(
        id=span_id(saved.id, T0_US + 3 * SECOND_US, int(Status.SKIPPED)),
        job=saved.id,
        status=Status.SKIPPED,
        from_us=T0_US + 3 * SECOND_US,
        to_us=T0_US + 9 * SECOND_US,
        count=7,
        reason=Reason.of(ReasonCode.PAUSED, "paused by ana"),
        recorded_us=fixture.now_us,
    )
    await fixture.set_state(
        saved.id, JobState.ACTIVE, next_us=T0_US + 10 * SECOND_US, keep_cursor=False, spans=(skipped,)
    )
    [claimed] = await fixture.claim()
    assert claimed.id == queued.id
    assert (await fixture.job()).next_us == T0_US + 10 * SECOND_US
    assert (await fixture.store.counts()).jobs == {JobState.ACTIVE: 1}


async def case_a_pause_holds_a_ready_execution_but_not_a_trigger(fixture: StoreFixture) -> None:
    saved = await fixture.save("job", overlap=Overlap.ALLOW)
    [ready] = await fixture.admit_next("job", claim=False)
    triggered = await fixture.trigger(saved.id)
    await fixture.set_state(saved.id, JobState.PAUSED)
    assert [c.id for c in await fixture.claim()] == [triggered.id]
    later = await fixture.trigger(saved.id)
    assert [c.id for c in await fixture.claim()] == [later.id]
    await fixture.set_state(saved.id, JobState.ACTIVE)
    assert [c.id for c in await fixture.claim()] == [ready.id]


async def case_a_disabled_job_has_no_instants(fixture: StoreFixture) -> None:
    saved = await fixture.save("job")
    await fixture.set_state(saved.id, JobState.DISABLED)
    assert await fixture.store.due(fixture.now_us + 100 * SECOND_US, 10) == []
    assert await fixture.store.next_due_us() is None
    await fixture.set_state(saved.id, JobState.ACTIVE, next_us=T0_US + 5 * SECOND_US, keep_cursor=False)
    assert [d.job for d in await fixture.store.due(T0_US + 5 * SECOND_US, 10)] == [saved.id]


async def case_setting_a_state_checks_the_version_and_the_job(fixture: StoreFixture) -> None:
    saved = await fixture.save("job")
    with raises(Conflict, "you have version 9"):
        await fixture.set_state(saved.id, JobState.PAUSED, expect=9)
    with raises(NotFound):
        await fixture.store.apply(SetJobState(job=bytes(16), state=JobState.PAUSED, now_us=fixture.now_us))


async def case_every_change_is_audited(fixture: StoreFixture) -> None:
    await fixture.start_node()
    ana = Actor(name="ana", origin="127.0.0.1")
    [saved] = await fixture.store.apply(
        SaveJobs(rows=(fixture.build_job_row("job"),), now_us=fixture.tick(), actor=ana)
    )
    await fixture.store.apply(
        SetJobState(job=saved.id, state=JobState.PAUSED, now_us=fixture.tick(), note="why", actor=ana)
    )
    await fixture.store.apply(DeleteJob(job=saved.id, now_us=fixture.tick(), actor=ana))
    page = await fixture.store.audit(namespace="default", limit=2)
    assert [(e.actor, e.action, e.subject, e.origin) for e in page.items] == [
        ("ana", "delete", "job", "127.0.0.1"),
        ("ana", "pause", "job", "127.0.0.1"),
    ]
    assert page.items[1].detail == "why"
    rest = await fixture.store.audit(namespace="default", limit=2, cursor=page.cursor)
    assert [(e.action, e.detail) for e in rest.items] == [("create", "version 1")]
    assert rest.cursor is None
    assert (await fixture.store.audit(namespace="other", limit=5)).items == []


async def case_only_triggered_runs_are_audited(fixture: StoreFixture) -> None:
    saved = await fixture.save(overlap=Overlap.ALLOW)
    fixture.tick()
    for cause in (Cause.DEPENDENCY, Cause.MANUAL):
        await fixture.trigger(saved.id, cause=cause)
        fixture.tick()
    page = await fixture.store.audit(namespace="default", limit=9)
    assert [entry.action for entry in page.items] == ["trigger", "create"]
