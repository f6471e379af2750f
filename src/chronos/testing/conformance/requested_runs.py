"""Requests: triggers, backfills, recovery, cancellation, signals."""

from dataclasses import replace

from chronos.core.config import Overlap
from chronos.core.execution import CancelRequest, Cause, Execution, Span, Status
from chronos.core.ids import scheduled_execution_id, span_id
from chronos.core.job import JobState
from chronos.core.reasons import Reason, ReasonCode
from chronos.errors import Conflict, NotFound, QueueFull
from chronos.store.commands import (
    Backfilled,
    CancelExecution,
    DeleteJob,
    Recover,
    RunRow,
    Signal,
    Suspend,
    SuspendRow,
)
from chronos.store.contract import ExecutionFilter
from chronos.testing.conformance.fixture import SECOND, T0, StoreFixture, raises


async def case_a_trigger_runs_now_and_leaves_the_cursor_alone(w: StoreFixture) -> None:
    saved = await w.save()
    triggered = await w.trigger(saved.id, detail='{"payload":{"x":1}}')
    assert (triggered.status, triggered.created) == (Status.READY, True)
    execution = await w.execution(triggered.id)
    assert (execution.cause, execution.detail) == (Cause.MANUAL, {"payload": {"x": 1}})
    assert (await w.job()).next_us == T0 + SECOND


async def case_an_idempotency_key_triggers_once(w: StoreFixture) -> None:
    saved = await w.save(overlap=Overlap.ALLOW)
    first = await w.trigger(saved.id, idempotency="order-17")
    w.tick()
    again = await w.trigger(saved.id, idempotency="order-17")
    assert (again.id, again.created) == (first.id, False)
    [claimed] = await w.claim()
    await w.settle(claimed)
    ended = await w.trigger(saved.id, idempotency="order-17")
    assert (ended.id, ended.status) == (first.id, Status.SUCCEEDED)
    assert (await w.trigger(saved.id, idempotency="order-18")).id != first.id


async def case_a_known_idempotency_key_needs_no_room(w: StoreFixture) -> None:
    saved = await w.save()
    first = await w.trigger(saved.id, idempotency="order-17")
    w.tick()
    assert await w.trigger(saved.id, idempotency="order-17", room=False) == first._replace(created=False)
    for key in ("order-18", None):
        with raises(QueueFull):
            await w.trigger(saved.id, idempotency=key, room=False)
    assert (await w.store.counts()).open == {Status.READY: 1}


async def case_a_trigger_is_never_skipped(w: StoreFixture) -> None:
    saved = await w.save(overlap=Overlap.SKIP, queue_max=2)
    running = await w.admit_one()
    triggered = [await w.trigger(saved.id) for _ in range(2)]
    assert [run.status for run in triggered] == [Status.QUEUED, Status.QUEUED]
    with raises(QueueFull, '"job"'):
        await w.trigger(saved.id)
    assert (await w.settle(running)).woken == 1
    assert await w.status(triggered[0].id) is Status.READY
    assert (await w.trigger(saved.id)).status is Status.QUEUED


async def case_a_backfill_admits_as_many_as_fit(w: StoreFixture) -> None:
    saved = await w.save(overlap=Overlap.SKIP, queue_max=2)
    past_us = [T0 - SECOND * ago for ago in (5, 4, 3, 2)]
    first = await w.backfill(saved.id, *past_us)
    assert first.statuses == [Status.READY, Status.QUEUED, Status.QUEUED]
    assert [(await w.execution(id_)).scheduled_us for id_ in first.ids] == past_us[:3]
    assert (await w.backfill(saved.id, past_us[3])) == Backfilled([], [])
    assert (await w.job()).next_us == T0 + SECOND
    for index, id_ in enumerate(first.ids):
        [claimed] = await w.claim()
        assert claimed.id == id_, f"run {index} is not the next one"
        await w.settle(claimed)
    assert len((await w.backfill(saved.id, past_us[3])).ids) == 1
    [entry, before, *_] = (await w.store.audit(namespace=None, limit=10)).items
    assert (entry.action, before.action, entry.subject) == ("backfill", "backfill", "job")
    assert (before.detail, entry.detail) == (
        "3 of 2027-01-15T07:59:55Z to 2027-01-15T07:59:57Z",
        "1 of 2027-01-15T07:59:58Z to 2027-01-15T07:59:58Z",
    )


async def case_a_repeated_backfill_adds_only_missing_instants(w: StoreFixture) -> None:
    saved = await w.save(overlap=Overlap.ALLOW)
    past_us = [T0 - SECOND * ago for ago in (5, 4, 3, 2)]
    first = await w.backfill(saved.id, *past_us[:2], idempotency="may")
    w.tick()
    for claimed in await w.claim():
        await w.settle(claimed)
    again = await w.backfill(saved.id, *past_us, idempotency="may")
    assert again.ids[:2] == first.ids
    assert (len(set(again.ids)), again.statuses) == (4, [Status.READY, Status.READY])
    w.tick()
    assert await w.backfill(saved.id, *past_us, idempotency="may") == Backfilled(again.ids, [])
    assert len((await w.backfill(saved.id, *past_us)).statuses) == 4


async def case_a_backfill_creates_as_many_as_there_is_room_for(w: StoreFixture) -> None:
    saved = await w.save(overlap=Overlap.ALLOW)
    past_us = [T0 - SECOND * ago for ago in (5, 4, 3, 2, 1)]
    first = await w.backfill(saved.id, *past_us, idempotency="may", room=2)
    assert (len(first.ids), len(first.statuses)) == (2, 2)
    w.tick()
    assert await w.backfill(saved.id, *past_us, idempotency="may", room=0) == Backfilled(first.ids, [])
    more = await w.backfill(saved.id, *past_us, idempotency="may", room=1)
    assert (more.ids[:2], len(more.ids), len(more.statuses)) == (first.ids, 3, 1)
    assert await w.backfill(saved.id, *past_us, room=0) == Backfilled([], [])
    assert (await w.store.counts()).open == {Status.READY: 3}


async def case_a_backfill_of_an_unknown_job_is_not_found(w: StoreFixture) -> None:
    with raises(NotFound, "no longer exists"):
        await w.backfill(bytes(16), T0)


async def case_a_blocked_key_does_not_block_later_executions(w: StoreFixture) -> None:
    saved = await w.save(overlap=Overlap.QUEUE)
    other = await w.save("other", overlap=Overlap.ALLOW)
    running = await w.admit_one()
    holder = await w.trigger(other.id, key="tenant")
    blocked = await w.trigger(saved.id, key="tenant")
    w.tick()
    free = await w.trigger(saved.id)
    assert [run.status for run in (holder, blocked, free)] == [Status.READY, Status.QUEUED, Status.QUEUED]
    await w.settle(running)
    assert [await w.status(run.id) for run in (blocked, free)] == [Status.QUEUED, Status.READY]


async def case_a_trigger_of_an_unknown_job_is_not_found(w: StoreFixture) -> None:
    await w.start_node()
    with raises(NotFound):
        await w.trigger(bytes(16))


def _runs(job: bytes, *seconds: int) -> tuple[RunRow, ...]:
    return tuple(
        RunRow(scheduled_execution_id(job, T0 + s * SECOND), Cause.RECOVERY, T0 + s * SECOND, T0 + s * SECOND)
        for s in seconds
    )


def _build_missed_span(job: bytes, first: int, last: int, now_us: int) -> Span:
    return Span(
        id=span_id(job, T0 + first * SECOND, int(Status.MISSED)),
        job=job,
        status=Status.MISSED,
        from_us=T0 + first * SECOND,
        to_us=T0 + last * SECOND,
        count=last - first + 1,
        reason=Reason.of(ReasonCode.OUTSIDE_RECOVERY),
        recorded_us=now_us,
    )


async def case_a_whole_gap_is_recovered_atomically(w: StoreFixture) -> None:
    for name, overlap in (("skipping", Overlap.SKIP), ("replacing", Overlap.REPLACE)):
        saved = await w.save(name, overlap=overlap, queue_max=0 if overlap is Overlap.REPLACE else 1)
        running = await w.trigger(saved.id)
        w.now = T0 + 10 * SECOND
        command = Recover(
            job=saved.id,
            version=1,
            expect_us=T0 + SECOND,
            next_us=T0 + 11 * SECOND,
            runs=_runs(saved.id, 9, 10),
            spans=(_build_missed_span(saved.id, 1, 8, w.now),),
            now_us=w.now,
            all_or_nothing=True,
        )
        assert await w.store.apply(command) == []
        page = await w.store.list_executions(ExecutionFilter(job=saved.id), limit=10)
        assert [item.id for item in page.items] == [running.id]
        assert (await w.job(name)).next_us == T0 + SECOND
        await w.settle(*await w.claim())
        recovered = await w.store.apply(command)
        assert len(recovered) == 2
        assert (await w.job(name)).next_us == T0 + 11 * SECOND
        for _ in range(2):
            await w.settle(*await w.claim())


async def case_a_gap_is_recovered_in_one_step(w: StoreFixture) -> None:
    saved = await w.save(overlap=Overlap.SKIP)
    w.now = T0 + 10 * SECOND
    span = _build_missed_span(saved.id, 1, 8, w.now)
    command = Recover(
        job=saved.id,
        version=1,
        expect_us=T0 + SECOND,
        next_us=T0 + 11 * SECOND,
        runs=_runs(saved.id, 9, 10),
        spans=(span,),
        now_us=w.now,
    )
    admitted = await w.store.apply(command)
    assert [a.status for a in admitted] == [Status.READY, Status.QUEUED]
    assert await w.store.apply(command) == []
    page = await w.store.list_executions(ExecutionFilter(job=saved.id), limit=10)
    assert [type(item) for item in page.items] == [Execution, Execution, Span]
    assert page.items[2] == span
    assert (await w.execution(admitted[0].id)).recovered
    assert (await w.job()).next_us == T0 + 11 * SECOND


async def case_late_instants_are_not_skipped_for_overlap(w: StoreFixture) -> None:
    saved = await w.save(overlap=Overlap.SKIP)
    w.now = T0 + 3 * SECOND
    command = Recover(
        job=saved.id,
        version=1,
        expect_us=T0 + SECOND,
        next_us=T0 + 4 * SECOND,
        runs=tuple(run._replace(cause=Cause.SCHEDULE) for run in _runs(saved.id, 1, 2, 3)),
        spans=(),
        now_us=w.now,
    )
    admitted = await w.store.apply(command)
    assert [a.status for a in admitted] == [Status.READY, Status.QUEUED, Status.QUEUED]
    assert not (await w.execution(admitted[1].id)).recovered


async def case_recovery_admits_as_the_queue_empties(w: StoreFixture) -> None:
    saved = await w.save(overlap=Overlap.QUEUE, queue_max=2)
    w.now = T0 + 10 * SECOND
    runs = _runs(saved.id, 1, 2, 3, 4, 5)
    gap = Recover(
        job=saved.id,
        version=1,
        expect_us=T0 + SECOND,
        next_us=T0 + 6 * SECOND,
        runs=runs,
        spans=(),
        now_us=w.now,
    )
    admitted = await w.store.apply(gap)
    assert [a.status for a in admitted] == [Status.READY, Status.QUEUED, Status.QUEUED]
    assert (await w.job()).next_us == T0 + 4 * SECOND
    [claimed] = await w.claim()
    await w.settle(claimed)
    more = await w.store.apply(replace(gap, expect_us=T0 + 4 * SECOND, runs=runs[3:]))
    assert [a.id for a in more] == [runs[3].id]
    assert (await w.job()).next_us == T0 + 5 * SECOND


async def case_a_one_time_job_that_was_recovered_is_done(w: StoreFixture) -> None:
    saved = await w.save()
    [admitted] = await w.store.apply(
        Recover(
            job=saved.id,
            version=1,
            expect_us=T0 + SECOND,
            next_us=None,
            runs=_runs(saved.id, 1),
            spans=(),
            now_us=w.now,
        )
    )
    assert admitted.status is Status.READY
    assert (await w.job()).state is JobState.DONE


async def case_canceling_an_execution_that_has_not_started_ends_it(w: StoreFixture) -> None:
    await w.save(overlap=Overlap.QUEUE)
    running, queued, next_one = [await w.admit_one() for _ in range(3)]
    assert (
        await w.store.apply(CancelExecution(execution=queued.id, now_us=w.tick(), message="by ana")) is Status.CANCELED
    )
    ended = await w.execution(queued.id)
    assert ended.reason == Reason(ReasonCode.CANCELED, "by ana")
    assert await w.store.apply(CancelExecution(execution=queued.id, now_us=w.tick())) is Status.CANCELED
    await w.settle(running)
    [claimed] = await w.claim()
    assert claimed.id == next_one.id


async def case_canceling_a_ready_execution_wakes_the_next(w: StoreFixture) -> None:
    await w.save(overlap=Overlap.QUEUE)
    ready, queued = [await w.admit_one(claim=False) for _ in range(2)]
    await w.store.apply(CancelExecution(execution=ready.id, now_us=w.tick()))
    assert await w.status(queued.id) is Status.READY


async def case_canceling_a_running_execution_requests_a_stop(w: StoreFixture) -> None:
    await w.save()
    running = await w.admit_one()
    assert await w.store.apply(CancelExecution(execution=running.id, now_us=w.tick())) is Status.RUNNING
    assert (await w.execution(running.id)).cancel is CancelRequest.REQUESTED
    await w.settle(running)
    with raises(Conflict, "succeeded"):
        await w.store.apply(CancelExecution(execution=running.id, now_us=w.tick()))
    with raises(NotFound):
        await w.store.apply(CancelExecution(execution=bytes(16), now_us=w.tick()))


async def case_a_signal_ends_a_wait(w: StoreFixture) -> None:
    await w.save()
    run = await w.admit_one()
    row = SuspendRow(run.id, run.token, None, ("refused", "approved"), 1, 0, '{"tasks":[]}')
    assert await w.store.apply(Suspend(rows=(row,), now_us=w.now)) == [run.id]
    assert not await w.store.apply(Signal(execution=run.id, name="other", payload="1", now_us=w.tick()))
    assert await w.claim() == []
    assert await w.store.apply(Signal(execution=run.id, name="approved", payload='{"by":"ana"}', now_us=w.tick()))
    assert not await w.store.apply(Signal(execution=run.id, name="approved", payload="2", now_us=w.tick()))
    [claimed] = await w.claim()
    assert claimed.detail is not None
    execution = await w.execution(run.id)
    assert execution.detail == {"signals": {"approved": {"by": "ana"}}, "tasks": []}
    with raises(NotFound):
        await w.store.apply(Signal(execution=bytes(16), name="approved", payload="1", now_us=w.tick()))


async def case_enqueue_creates_all_runs_or_none(w: StoreFixture) -> None:
    saved = await w.save(overlap=Overlap.ALLOW, limit=2, queue_max=2)
    created = await w.enqueue(saved.id, 3)
    assert [(run.status, run.created) for run in created] == [
        (Status.READY, True),
        (Status.READY, True),
        (Status.QUEUED, True),
    ]
    with raises(QueueFull, "2 runs"):
        await w.enqueue(saved.id, 2)
    assert (await w.store.counts()).open == {Status.READY: 2, Status.QUEUED: 1}
    with raises(NotFound, "no longer exists"):
        await w.enqueue(bytes(16), 1)
    [entry, *_] = (await w.store.audit(namespace=None, limit=1)).items
    assert (entry.action, entry.subject) == ("enqueue", "job")


async def case_an_idempotency_key_enqueues_once(w: StoreFixture) -> None:
    saved = await w.save(overlap=Overlap.ALLOW)
    first = await w.enqueue(saved.id, 2, idempotency="mails")
    w.tick()
    again = await w.enqueue(saved.id, 2, idempotency="mails")
    assert again == [run._replace(created=False) for run in first]
    assert (await w.store.counts()).open == {Status.READY: 2}


async def case_a_delayed_run_waits_until_its_time(w: StoreFixture) -> None:
    saved = await w.save(overlap=Overlap.SKIP)
    delayed = await w.trigger(saved.id, wake_us=T0 + 10 * SECOND)
    assert (delayed.status, await w.store.next_wake_us()) == (Status.WAITING, T0 + 10 * SECOND)
    await w.settle(await w.admit_one())  # the gate is free for the schedule meanwhile
    assert await w.wake() == 0
    w.now = T0 + 10 * SECOND
    assert await w.wake() == 1
    assert (await w.status(delayed.id), await w.store.next_wake_us()) == (Status.READY, None)
    [claimed] = await w.claim()
    await w.settle(claimed)
    assert await w.status(delayed.id) is Status.SUCCEEDED


async def case_delayed_runs_that_are_due_respect_the_limit(w: StoreFixture) -> None:
    saved = await w.save(overlap=Overlap.SKIP)
    running = await w.admit_one()
    delayed = [run.id for run in await w.enqueue(saved.id, 2, wake_us=w.now + SECOND)]
    w.tick()
    assert await w.wake() == 2
    assert [await w.status(id_) for id_ in delayed] == [Status.QUEUED, Status.QUEUED]
    assert (await w.settle(running)).woken == 1
    assert {await w.status(id_) for id_ in delayed} == {Status.READY, Status.QUEUED}


async def case_delayed_runs_that_are_due_respect_their_key(w: StoreFixture) -> None:
    saved = await w.save(overlap=Overlap.ALLOW)
    holder = await w.trigger(saved.id, key="tenant")
    delayed = await w.trigger(saved.id, key="tenant", wake_us=w.now + SECOND, scheduled_us=w.now + SECOND)
    w.tick()
    assert await w.wake() == 1
    assert await w.status(delayed.id) is Status.QUEUED
    [claimed] = await w.claim()
    assert claimed.id == holder.id
    await w.settle(claimed)
    assert await w.status(delayed.id) is Status.READY


async def case_a_delayed_run_can_be_canceled_and_ends_with_its_job(w: StoreFixture) -> None:
    saved = await w.save(overlap=Overlap.REPLACE)
    first, second = [run.id for run in await w.enqueue(saved.id, 2, wake_us=w.now + SECOND)]
    await w.settle(*(await w.admit_next("job", careful=True)))  # an instant does not replace delayed runs
    await w.store.apply(CancelExecution(execution=first, now_us=w.tick(1)))
    assert (await w.status(first), await w.status(second)) == (Status.CANCELED, Status.WAITING)
    await w.store.apply(DeleteJob(job=saved.id, now_us=w.tick(1)))
    ended = await w.execution(second)
    assert ended.reason is not None
    assert (ended.status, ended.reason.code) == (Status.CANCELED, ReasonCode.JOB_DELETED)


async def case_a_delayed_run_of_a_paused_job_starts(w: StoreFixture) -> None:
    saved = await w.save()
    delayed = await w.trigger(saved.id, wake_us=w.now + SECOND)
    await w.set_state(saved.id, JobState.PAUSED)
    w.tick()
    assert await w.wake() == 1
    assert await w.status(delayed.id) is Status.READY
