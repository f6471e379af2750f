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


async def _take_ended_from_outbox(w: StoreFixture) -> list[tuple[str, Status]]:
    """Remove the ended executions from the outbox. Returns their ids and statuses."""
    items = await w.store.outbox(limit=100)
    bodies = [json.loads(item.body) for item in items if item.kind == "ended"]
    for item, body in zip(items, bodies, strict=True):
        assert (item.target, item.execution.hex()) == ("", body["execution"])
        assert set(body) == {"execution", "job", "status"}
    await w.store.apply(AckOutbox(ids=tuple(item.id for item in items)))
    return [(body["execution"], Status(body["status"])) for body in bodies]


async def case_followers_are_found_by_the_name_of_their_upstream_job(w: StoreFixture) -> None:
    after = (UpstreamJob(job="up"), UpstreamJob(job="other", on=UpstreamCondition.COMPLETION))
    one = await w.save("one", after=after)
    two = await w.save("two", after=(UpstreamJob(job="up", on=UpstreamCondition.FAILURE),))
    await w.save("elsewhere", namespace="else", after=UPSTREAM)
    assert set(await w.store.followers("default", "up")) == {
        (one.id, UpstreamCondition.SUCCESS),
        (two.id, UpstreamCondition.FAILURE),
    }
    assert await w.store.followers("default", "other") == [(one.id, UpstreamCondition.COMPLETION)]
    assert await w.store.followers("default", "one") == []
    await w.save("one", after=(UpstreamJob(job="up", on=UpstreamCondition.COMPLETION),))
    assert set(await w.store.followers("default", "up")) == {
        (one.id, UpstreamCondition.COMPLETION),
        (two.id, UpstreamCondition.FAILURE),
    }
    assert await w.store.followers("default", "other") == []
    await w.store.apply(DeleteJob(job=two.id, now_us=w.tick()))
    assert await w.store.followers("default", "up") == [(one.id, UpstreamCondition.COMPLETION)]


async def case_similar_follow_ups_are_all_kept(w: StoreFixture) -> None:
    await w.save("job")
    alerts = tuple(FollowUp("alert", "chat", f'{{"n":{n}}}') for n in range(3))
    settled = await w.settle(await w.admit_one("job"), follow=alerts)
    items = await w.store.outbox(limit=9)
    assert settled.outbox_items == len(items) == 3
    assert {item.body for item in items} == {alert.body for alert in alerts}


async def case_the_end_of_an_upstream_job_is_in_the_outbox(w: StoreFixture) -> None:
    await w.save("up", overlap=Overlap.ALLOW)
    await w.save("alone", overlap=Overlap.ALLOW)
    await w.save("down", after=UPSTREAM)
    up, alone = await w.admit_one("up"), await w.admit_one("alone")
    settled = await w.settle(alone)
    assert settled.outbox_items == 0
    settled = await w.settle(up)
    assert (settled.settled, settled.outbox_items) == ([up.id], 1)
    assert await _take_ended_from_outbox(w) == [(up.id.hex(), Status.SUCCEEDED)]
    assert (await w.settle(up)).outbox_items == 0
    assert await _take_ended_from_outbox(w) == [], "a repeated settle adds nothing to the outbox"
    many = [await w.admit_one("up") for _ in range(3)] + [await w.admit_one("alone") for _ in range(9)]
    assert (await w.settle(*many, status=Status.FAILED, follow=(FollowUp("hook", "x", "{}"),))).outbox_items == 15
    ends = [item for item in await w.store.outbox(limit=100) if item.kind == "ended"]
    assert {item.execution for item in ends} == {run.id for run in many[:3]}


async def case_upstream_and_downstream_jobs_are_saved_in_any_order(w: StoreFixture) -> None:
    follower = await w.save("down", after=UPSTREAM)
    upstream = await w.save("up", overlap=Overlap.ALLOW)
    await w.settle(await w.admit_one("up"))
    assert len(await _take_ended_from_outbox(w)) == 1
    await w.store.apply(DeleteJob(job=upstream.id, now_us=w.tick()))
    await w.save("up", overlap=Overlap.ALLOW)
    await w.settle(await w.admit_one("up"))
    assert len(await _take_ended_from_outbox(w)) == 1, "a new job with the same name is followed, too"
    await w.save("down", after=())
    await w.settle(await w.admit_one("up"))
    assert await _take_ended_from_outbox(w) == []
    await w.save("down", after=UPSTREAM)
    await w.settle(await w.admit_one("up"))
    assert len(await _take_ended_from_outbox(w)) == 1
    await w.save("also", after=UPSTREAM)
    await w.store.apply(DeleteJob(job=follower.id, now_us=w.tick()))
    await w.settle(await w.admit_one("up"))
    assert len(await _take_ended_from_outbox(w)) == 1, "the other follower remains"
    also = await w.job("also")
    await w.store.apply(DeleteJob(job=also.id, now_us=w.tick()))
    await w.settle(await w.admit_one("up"))
    assert await _take_ended_from_outbox(w) == []


async def case_upstream_and_downstream_jobs_are_saved_together(w: StoreFixture) -> None:
    await w.start_node()
    rows = (w.row("down", after=UPSTREAM), w.row("up", overlap=Overlap.ALLOW))
    await w.store.apply(SaveJobs(rows=rows, now_us=w.now))
    await w.settle(await w.admit_one("up"))
    assert len(await _take_ended_from_outbox(w)) == 1
    for i in range(4):
        name = f"up-{i}"
        await asyncio.gather(
            *(w.save(f"down-{i}-{k}", after=(UpstreamJob(job=name),)) for k in range(3)),
            w.save(name, overlap=Overlap.ALLOW),
        )
        await w.settle(await w.admit_one(name))
        assert len(await _take_ended_from_outbox(w)) == 1


async def case_every_kind_of_end_is_in_the_outbox(w: StoreFixture) -> None:
    saved = await w.save("up", overlap=Overlap.ALLOW, limit=4)
    await w.save("down", after=UPSTREAM)
    lost, released, retried, ready, queued = [await w.admit_one("up", claim=i < 3) for i in range(5)]
    await w.store.apply(CancelExecution(execution=queued.id, now_us=w.tick()))
    await w.store.apply(CancelExecution(execution=ready.id, now_us=w.tick()))
    assert set(await _take_ended_from_outbox(w)) == {
        (ready.id.hex(), Status.CANCELED),
        (queued.id.hex(), Status.CANCELED),
    }
    await w.store.apply(CancelExecution(execution=released.id, now_us=w.tick()))
    row = ReleaseRow(released.id, released.token, 7, '{"result":1}', (ended_attempt(released, 1),))
    assert await w.store.apply(Release(rows=(row,), now_us=w.tick())) == []
    view = await w.store.execution(released.id)
    assert view is not None
    assert (view.execution.detail, len(view.attempts)) == ({"result": 1}, 1)
    assert await _take_ended_from_outbox(w) == [(released.id.hex(), Status.CANCELED)]
    rows = (
        ReapRow(lost.id, lost.job, lost.token, Status.STALE, ReasonCode.WORKER_LOST, 1, (), message="gone"),
        ReapRow(
            *(retried.id, retried.job, retried.token, Status.READY, ReasonCode.WORKER_LOST, 2),
            (ended_attempt(retried, 1, AttemptStatus.LOST, "a"), ended_attempt(retried, 1, AttemptStatus.LOST, "b")),
        ),
    )
    reaped = await w.store.apply(Reap(node=w.node, beat=0, rows=rows, now_us=w.tick()))
    assert reaped is not None
    assert set(reaped) == {lost.id, retried.id}
    reason = (await w.execution(lost.id)).reason
    assert reason is not None
    assert reason.message == "gone"
    view = await w.store.execution(retried.id)
    assert view is not None
    assert [attempt.task for attempt in view.attempts] == ["a", "b"]
    assert await _take_ended_from_outbox(w) == [(lost.id.hex(), Status.STALE)]
    await w.store.apply(DeleteJob(job=saved.id, now_us=w.tick()))
    assert await _take_ended_from_outbox(w) == [(retried.id.hex(), Status.CANCELED)]


async def case_the_outbox_has_replaced_but_not_skipped_executions(w: StoreFixture) -> None:
    await w.save("up", overlap=Overlap.SKIP)
    await w.save("down", after=UPSTREAM)
    first = await w.admit_one("up")
    assert (await w.admit_one("up")).status is Status.SKIPPED
    assert await _take_ended_from_outbox(w) == []
    await w.settle(first)
    await w.save("up", overlap=Overlap.REPLACE, description="changed", next_us=w.now)
    assert len(await _take_ended_from_outbox(w)) == 1
    [waiting] = await w.admit_next("up", needs_gate_lock=True, claim=False)
    await w.admit_next("up", needs_gate_lock=True, claim=False)
    assert await _take_ended_from_outbox(w) == [(waiting.id.hex(), Status.CANCELED)]


async def case_a_skip_is_recorded_once_and_is_in_the_outbox(w: StoreFixture) -> None:
    up = await w.save("up")
    middle = await w.save("middle", after=UPSTREAM)
    await w.save("down", after=(UpstreamJob(job="middle"),))
    execution = requested_execution_id(middle.id, Cause.DEPENDENCY, w.now, b"1")
    skip = RecordSkip(
        id=execution,
        job=middle.id,
        cause=Cause.DEPENDENCY,
        scheduled_us=w.now,
        code=ReasonCode.UPSTREAM_FAILED,
        message='"up" failed.',
        now_us=w.tick(),
    )
    assert await w.store.apply(skip)
    assert not await w.store.apply(skip)
    skipped = await w.execution(execution)
    assert skipped.reason is not None
    assert (skipped.status, skipped.cause, skipped.job_version) == (Status.SKIPPED, Cause.DEPENDENCY, 1)
    assert (skipped.reason.code, skipped.reason.message) == (ReasonCode.UPSTREAM_FAILED, '"up" failed.')
    assert await _take_ended_from_outbox(w) == [(execution.hex(), Status.SKIPPED)]
    await w.store.apply(DeleteJob(job=up.id, now_us=w.tick()))
    gone = RecordSkip(
        id=requested_execution_id(up.id, Cause.DEPENDENCY, w.now, b"2"),
        job=up.id,
        cause=Cause.DEPENDENCY,
        scheduled_us=w.now,
        code=ReasonCode.UPSTREAM_FAILED,
        message=None,
        now_us=w.now,
    )
    assert not await w.store.apply(gone)


async def case_outbox_items_go_to_nodes_that_have_their_target(w: StoreFixture) -> None:
    await w.save()
    follow = (FollowUp("hook", "", "{}"), FollowUp("call", "mine", "{}"), FollowUp("call", "yours", "{}"))
    await w.settle(await w.admit_one(), follow=follow)
    other = await w.start_node("other")

    async def take(node: int, *targets: str, limit: int = 10) -> set[str]:
        taken = await w.store.apply(TakeOutbox(node=node, limit=limit, targets=targets))
        return {item.target for item in taken}

    assert await take(other, "yours", limit=1) <= {"", "yours"}
    assert await take(other, "yours") == {"", "yours"}
    assert await take(1) == set()
    assert await take(1, "mine", "yours") == {"mine"}
    everything = await w.store.apply(TakeOutbox(node=other, limit=10))
    assert len(everything) == 2
