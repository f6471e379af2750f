"""Dependencies: finding the followers of an upstream job, and telling them of its ends through the outbox."""

import asyncio
import json

from chronos.core.config import Overlap
from chronos.core.execution import AttemptStatus, Cause, Status
from chronos.core.ids import requested_execution_id
from chronos.core.job import UpstreamCondition, UpstreamJob
from chronos.core.reasons import ReasonCode
from chronos.store.commands import (
    AckOutbox,
    CancelExecution,
    DeleteJob,
    FollowUp,
    Reap,
    ReapRow,
    RecordSkip,
    Release,
    ReleaseRow,
    SaveJobs,
    TakeOutbox,
)
from chronos.testing.conformance.fixture import StoreFixture, ended_attempt

UPSTREAM = (UpstreamJob(job="up"),)


async def _take_ended_from_outbox(fixture: StoreFixture) -> list[tuple[str, Status]]:
    """Remove the ended executions from the outbox. Returns their ids and statuses."""
    items = await fixture.store.outbox(limit=100)
    bodies = [json.loads(item.body) for item in items if item.kind == "ended"]
    for item, body in zip(items, bodies, strict=True):
        assert (item.target, item.execution.hex()) == ("", body["execution"])
        assert set(body) == {"execution", "job", "status"}
    await fixture.store.apply(AckOutbox(ids=tuple(item.id for item in items)))
    return [(body["execution"], Status(body["status"])) for body in bodies]


async def case_followers_are_found_by_the_name_of_their_upstream_job(fixture: StoreFixture) -> None:
    after = (UpstreamJob(job="up"), UpstreamJob(job="other", on=UpstreamCondition.COMPLETION))
    one = await fixture.save("one", after=after)
    two = await fixture.save("two", after=(UpstreamJob(job="up", on=UpstreamCondition.FAILURE),))
    await fixture.save("elsewhere", namespace="else", after=UPSTREAM)
    assert set(await fixture.store.followers("default", "up")) == {
        (one.id, UpstreamCondition.SUCCESS),
        (two.id, UpstreamCondition.FAILURE),
    }
    assert await fixture.store.followers("default", "other") == [(one.id, UpstreamCondition.COMPLETION)]
    assert await fixture.store.followers("default", "one") == []
    await fixture.save("one", after=(UpstreamJob(job="up", on=UpstreamCondition.COMPLETION),))
    assert set(await fixture.store.followers("default", "up")) == {
        (one.id, UpstreamCondition.COMPLETION),
        (two.id, UpstreamCondition.FAILURE),
    }
    assert await fixture.store.followers("default", "other") == []
    await fixture.store.apply(DeleteJob(job=two.id, now_us=fixture.tick()))
    assert await fixture.store.followers("default", "up") == [(one.id, UpstreamCondition.COMPLETION)]


async def case_similar_follow_ups_are_all_kept(fixture: StoreFixture) -> None:
    await fixture.save("job")
    alerts = tuple(FollowUp("alert", "chat", f'{{"n":{n}}}') for n in range(3))
    settled = await fixture.settle(await fixture.admit_one("job"), follow=alerts)
    items = await fixture.store.outbox(limit=9)
    assert settled.outbox_items == len(items) == 3
    assert {item.body for item in items} == {alert.body for alert in alerts}


async def case_the_end_of_an_upstream_job_is_in_the_outbox(fixture: StoreFixture) -> None:
    await fixture.save("up", overlap=Overlap.ALLOW)
    await fixture.save("alone", overlap=Overlap.ALLOW)
    await fixture.save("down", after=UPSTREAM)
    up, alone = await fixture.admit_one("up"), await fixture.admit_one("alone")
    settled = await fixture.settle(alone)
    assert settled.outbox_items == 0
    settled = await fixture.settle(up)
    assert (settled.settled, settled.outbox_items) == ([up.id], 1)
    assert await _take_ended_from_outbox(fixture) == [(up.id.hex(), Status.SUCCEEDED)]
    assert (await fixture.settle(up)).outbox_items == 0
    assert await _take_ended_from_outbox(fixture) == [], "a repeated settle adds nothing to the outbox"
    many = [await fixture.admit_one("up") for _ in range(3)] + [await fixture.admit_one("alone") for _ in range(9)]
    assert (await fixture.settle(*many, status=Status.FAILED, follow=(FollowUp("hook", "x", "{}"),))).outbox_items == 15
    ends = [item for item in await fixture.store.outbox(limit=100) if item.kind == "ended"]
    assert {item.execution for item in ends} == {run.id for run in many[:3]}


async def case_upstream_and_downstream_jobs_are_saved_in_any_order(fixture: StoreFixture) -> None:
    follower = await fixture.save("down", after=UPSTREAM)
    upstream = await fixture.save("up", overlap=Overlap.ALLOW)
    await fixture.settle(await fixture.admit_one("up"))
    assert len(await _take_ended_from_outbox(fixture)) == 1
    await fixture.store.apply(DeleteJob(job=upstream.id, now_us=fixture.tick()))
    await fixture.save("up", overlap=Overlap.ALLOW)
    await fixture.settle(await fixture.admit_one("up"))
    assert len(await _take_ended_from_outbox(fixture)) == 1, "a new job with the same name is followed, too"
    await fixture.save("down", after=())
    await fixture.settle(await fixture.admit_one("up"))
    assert await _take_ended_from_outbox(fixture) == []
    await fixture.save("down", after=UPSTREAM)
    await fixture.settle(await fixture.admit_one("up"))
    assert len(await _take_ended_from_outbox(fixture)) == 1
    await fixture.save("also", after=UPSTREAM)
    await fixture.store.apply(DeleteJob(job=follower.id, now_us=fixture.tick()))
    await fixture.settle(await fixture.admit_one("up"))
    assert len(await _take_ended_from_outbox(fixture)) == 1, "the other follower remains"
    also = await fixture.job("also")
    await fixture.store.apply(DeleteJob(job=also.id, now_us=fixture.tick()))
    await fixture.settle(await fixture.admit_one("up"))
    assert await _take_ended_from_outbox(fixture) == []


async def case_upstream_and_downstream_jobs_are_saved_together(fixture: StoreFixture) -> None:
    await fixture.start_node()
    rows = (fixture.build_job_row("down", after=UPSTREAM), fixture.build_job_row("up", overlap=Overlap.ALLOW))
    await fixture.store.apply(SaveJobs(rows=rows, now_us=fixture.now_us))
    await fixture.settle(await fixture.admit_one("up"))
    assert len(await _take_ended_from_outbox(fixture)) == 1
    for i in range(4):
        name = f"up-{i}"
        await asyncio.gather(
            *(fixture.save(f"down-{i}-{k}", after=(UpstreamJob(job=name),)) for k in range(3)),
            fixture.save(name, overlap=Overlap.ALLOW),
        )
        await fixture.settle(await fixture.admit_one(name))
        assert len(await _take_ended_from_outbox(fixture)) == 1


async def case_ends_other_than_settlements_are_in_the_outbox(fixture: StoreFixture) -> None:
    saved = await fixture.save("up", overlap=Overlap.ALLOW, limit=4)
    await fixture.save("down", after=UPSTREAM)
    lost, released, retried, ready, queued = [await fixture.admit_one("up", claim=i < 3) for i in range(5)]
    await fixture.store.apply(CancelExecution(execution=queued.id, now_us=fixture.tick()))
    await fixture.store.apply(CancelExecution(execution=ready.id, now_us=fixture.tick()))
    assert set(await _take_ended_from_outbox(fixture)) == {
        (ready.id.hex(), Status.CANCELED),
        (queued.id.hex(), Status.CANCELED),
    }
    await fixture.store.apply(CancelExecution(execution=released.id, now_us=fixture.tick()))
    row = ReleaseRow(released.id, released.token, 7, '{"result":1}', (ended_attempt(released, 1),))
    assert await fixture.store.apply(Release(rows=(row,), now_us=fixture.tick())) == []
    view = await fixture.store.execution(released.id)
    assert view is not None
    assert (view.execution.detail, len(view.attempts)) == ({"result": 1}, 1)
    assert await _take_ended_from_outbox(fixture) == [(released.id.hex(), Status.CANCELED)]
    rows = (
        ReapRow(lost.id, lost.job, lost.token, Status.STALE, ReasonCode.WORKER_LOST, 1, (), message="gone"),
        ReapRow(
            *(retried.id, retried.job, retried.token, Status.READY, ReasonCode.WORKER_LOST, 2),
            (ended_attempt(retried, 1, AttemptStatus.LOST, "a"), ended_attempt(retried, 1, AttemptStatus.LOST, "b")),
        ),
    )
    reaped = await fixture.store.apply(Reap(node=fixture.node, beat=0, rows=rows, now_us=fixture.tick()))
    assert reaped is not None
    assert set(reaped) == {lost.id, retried.id}
    reason = (await fixture.execution(lost.id)).reason
    assert reason is not None
    assert reason.message == "gone"
    view = await fixture.store.execution(retried.id)
    assert view is not None
    assert [attempt.task for attempt in view.attempts] == ["a", "b"]
    assert await _take_ended_from_outbox(fixture) == [(lost.id.hex(), Status.STALE)]
    await fixture.store.apply(DeleteJob(job=saved.id, now_us=fixture.tick()))
    assert await _take_ended_from_outbox(fixture) == [(retried.id.hex(), Status.CANCELED)]


async def case_the_outbox_has_replaced_but_not_skipped_executions(fixture: StoreFixture) -> None:
    await fixture.save("up", overlap=Overlap.SKIP)
    await fixture.save("down", after=UPSTREAM)
    first = await fixture.admit_one("up")
    assert (await fixture.admit_one("up")).status is Status.SKIPPED
    assert await _take_ended_from_outbox(fixture) == []
    await fixture.settle(first)
    await fixture.save("up", overlap=Overlap.REPLACE, description="changed", next_us=fixture.now_us)
    assert len(await _take_ended_from_outbox(fixture)) == 1
    [waiting] = await fixture.admit_next("up", needs_gate_lock=True, claim=False)
    await fixture.admit_next("up", needs_gate_lock=True, claim=False)
    assert await _take_ended_from_outbox(fixture) == [(waiting.id.hex(), Status.CANCELED)]


async def case_a_skip_is_recorded_once_and_is_in_the_outbox(fixture: StoreFixture) -> None:
    up = await fixture.save("up")
    middle = await fixture.save("middle", after=UPSTREAM)
    await fixture.save("down", after=(UpstreamJob(job="middle"),))
    execution = requested_execution_id(middle.id, Cause.DEPENDENCY, fixture.now_us, b"1")
    skip = RecordSkip(
        id=execution,
        job=middle.id,
        cause=Cause.DEPENDENCY,
        scheduled_us=fixture.now_us,
        code=ReasonCode.UPSTREAM_FAILED,
        message='"up" failed.',
        now_us=fixture.tick(),
    )
    assert await fixture.store.apply(skip)
    assert not await fixture.store.apply(skip)
    skipped = await fixture.execution(execution)
    assert skipped.reason is not None
    assert (skipped.status, skipped.cause, skipped.job_version) == (Status.SKIPPED, Cause.DEPENDENCY, 1)
    assert (skipped.reason.code, skipped.reason.message) == (ReasonCode.UPSTREAM_FAILED, '"up" failed.')
    assert await _take_ended_from_outbox(fixture) == [(execution.hex(), Status.SKIPPED)]
    await fixture.store.apply(DeleteJob(job=up.id, now_us=fixture.tick()))
    gone = RecordSkip(
        id=requested_execution_id(up.id, Cause.DEPENDENCY, fixture.now_us, b"2"),
        job=up.id,
        cause=Cause.DEPENDENCY,
        scheduled_us=fixture.now_us,
        code=ReasonCode.UPSTREAM_FAILED,
        message=None,
        now_us=fixture.now_us,
    )
    assert not await fixture.store.apply(gone)


async def case_outbox_items_go_to_nodes_that_have_their_target(fixture: StoreFixture) -> None:
    await fixture.save()
    follow = (FollowUp("hook", "", "{}"), FollowUp("call", "mine", "{}"), FollowUp("call", "yours", "{}"))
    await fixture.settle(await fixture.admit_one(), follow=follow)
    other = await fixture.start_node("other")

    async def take(node: int, *targets: str, limit: int = 10) -> set[str]:
        taken = await fixture.store.apply(TakeOutbox(node=node, limit=limit, targets=targets))
        return {item.target for item in taken}

    assert await take(other, "yours", limit=1) <= {"", "yours"}
    assert await take(other, "yours") == {"", "yours"}
    assert await take(1) == set()
    assert await take(1, "mine", "yours") == {"mine"}
    everything = await fixture.store.apply(TakeOutbox(node=other, limit=10))
    assert len(everything) == 2
