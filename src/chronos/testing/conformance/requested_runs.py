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
from chronos.testing.conformance.fixture import SECOND_US, T0_US, StoreFixture, raises


async def case_a_trigger_runs_now_and_leaves_the_cursor_alone(fixture: StoreFixture) -> None:
    saved = await fixture.save()
    triggered = await fixture.trigger(saved.id, detail='{"payload":{"x":1}}')
    assert (triggered.status, triggered.created) == (Status.READY, True)
    execution = await fixture.execution(triggered.id)
    assert (execution.cause, execution.detail) == (Cause.MANUAL, {"payload": {"x": 1}})
    assert (await fixture.job()).next_us == T0_US + SECOND_US


async def case_an_idempotency_key_triggers_once(fixture: StoreFixture) -> None:
    saved = await fixture.save(overlap=Overlap.ALLOW)
    first = await fixture.trigger(saved.id, idempotency="order-17")
    fixture.tick()
    again = await fixture.trigger(saved.id, idempotency="order-17")
    assert (again.id, again.created) == (first.id, False)
    [claimed] = await fixture.claim()
    await fixture.settle(claimed)
    ended = await fixture.trigger(saved.id, idempotency="order-17")
    assert (ended.id, ended.status) == (first.id, Status.SUCCEEDED)
    assert (await fixture.trigger(saved.id, idempotency="order-18")).id != first.id


async def case_a_known_idempotency_key_needs_no_room(fixture: StoreFixture) -> None:
    saved = await fixture.save()
    first = await fixture.trigger(saved.id, idempotency="order-17")
    fixture.tick()
    assert await fixture.trigger(saved.id, idempotency="order-17", room=False) == first._replace(created=False)
    for key in ("order-18", None):
        with raises(QueueFull):
            await fixture.trigger(saved.id, idempotency=key, room=False)
    assert (await fixture.store.counts()).open == {Status.READY: 1}


async def case_a_trigger_is_never_skipped(fixture: StoreFixture) -> None:
    saved = await fixture.save(overlap=Overlap.SKIP, queue_max=2)
    running = await fixture.admit_one()
    triggered = [await fixture.trigger(saved.id) for _ in range(2)]
    assert [run.status for run in triggered] == [Status.QUEUED, Status.QUEUED]
    with raises(QueueFull, '"job"'):
        await fixture.trigger(saved.id)
    assert (await fixture.settle(running)).woken == 1
    assert await fixture.status(triggered[0].id) is Status.READY
    assert (await fixture.trigger(saved.id)).status is Status.QUEUED


async def case_a_backfill_admits_as_many_as_fit(fixture: StoreFixture) -> None:
    saved = await fixture.save(overlap=Overlap.SKIP, queue_max=2)
    past_us = [T0_US - SECOND_US * ago for ago in (5, 4, 3, 2)]
    first = await fixture.backfill(saved.id, *past_us)
    assert first.statuses == [Status.READY, Status.QUEUED, Status.QUEUED]
    assert [(await fixture.execution(id_)).scheduled_us for id_ in first.ids] == past_us[:3]
    assert (await fixture.backfill(saved.id, past_us[3])) == Backfilled([], [])
    assert (await fixture.job()).next_us == T0_US + SECOND_US
    for index, id_ in enumerate(first.ids):
        [claimed] = await fixture.claim()
        assert claimed.id == id_, f"run {index} is not the next one"
        await fixture.settle(claimed)
    assert len((await fixture.backfill(saved.id, past_us[3])).ids) == 1
    [entry, before, *_] = (await fixture.store.audit(namespace=None, limit=10)).items
    assert (entry.action, before.action, entry.subject) == ("backfill", "backfill", "job")
    assert (before.detail, entry.detail) == (
        "3 of 2027-01-15T07:59:55Z to 2027-01-15T07:59:57Z",
        "1 of 2027-01-15T07:59:58Z to 2027-01-15T07:59:58Z",
    )


async def case_a_repeated_backfill_adds_only_missing_instants(fixture: StoreFixture) -> None:
    saved = await fixture.save(overlap=Overlap.ALLOW)
    past_us = [T0_US - SECOND_US * ago for ago in (5, 4, 3, 2)]
    first = await fixture.backfill(saved.id, *past_us[:2], idempotency="may")
    fixture.tick()
    for claimed in await fixture.claim():
        await fixture.settle(claimed)
    again = await fixture.backfill(saved.id, *past_us, idempotency="may")
    assert again.ids[:2] == first.ids
    assert (len(set(again.ids)), again.statuses) == (4, [Status.READY, Status.READY])
    fixture.tick()
    assert await fixture.backfill(saved.id, *past_us, idempotency="may") == Backfilled(again.ids, [])
    assert len((await fixture.backfill(saved.id, *past_us)).statuses) == 4


async def case_a_backfill_creates_as_many_as_there_is_room_for(fixture: StoreFixture) -> None:
    saved = await fixture.save(overlap=Overlap.ALLOW)
    past_us = [T0_US - SECOND_US * ago for ago in (5, 4, 3, 2, 1)]
    first = await fixture.backfill(saved.id, *past_us, idempotency="may", room=2)
    assert (len(first.ids), len(first.statuses)) == (2, 2)
    fixture.tick()
    assert await fixture.backfill(saved.id, *past_us, idempotency="may", room=0) == Backfilled(first.ids, [])
    more = await fixture.backfill(saved.id, *past_us, idempotency="may", room=1)
    assert (more.ids[:2], len(more.ids), len(more.statuses)) == (first.ids, 3, 1)
    assert await fixture.backfill(saved.id, *past_us, room=0) == Backfilled([], [])
    assert (await fixture.store.counts()).open == {Status.READY: 3}


async def case_a_backfill_of_an_unknown_job_is_not_found(fixture: StoreFixture) -> None:
    with raises(NotFound, "no longer exists"):
        await fixture.backfill(bytes(16), T0_US)


async def case_a_blocked_key_does_not_block_later_executions(fixture: StoreFixture) -> None:
    saved = await fixture.save(overlap=Overlap.QUEUE)
    other = await fixture.save("other", overlap=Overlap.ALLOW)
    running = await fixture.admit_one()
    holder = await fixture.trigger(other.id, key="tenant")
    blocked = await fixture.trigger(saved.id, key="tenant")
    fixture.tick()
    free = await fixture.trigger(saved.id)
    assert [run.status for run in (holder, blocked, free)] == [Status.READY, Status.QUEUED, Status.QUEUED]
    await fixture.settle(running)
    assert [await fixture.status(run.id) for run in (blocked, free)] == [Status.QUEUED, Status.READY]


async def case_a_trigger_of_an_unknown_job_is_not_found(fixture: StoreFixture) -> None:
    await fixture.start_node()
    with raises(NotFound):
        await fixture.trigger(bytes(16))


def _runs(job: bytes, *seconds: int) -> tuple[RunRow, ...]:
    return tuple(
        RunRow(
            scheduled_execution_id(job, T0_US + s * SECOND_US),
            Cause.RECOVERY,
            T0_US + s * SECOND_US,
            T0_US + s * SECOND_US,
        )
        for s in seconds
    )


def _build_missed_span(job: bytes, first: int, last: int, now_us: int) -> Span:
    return Span(
        id=span_id(job, T0_US + first * SECOND_US, int(Status.MISSED)),
        job=job,
        status=Status.MISSED,
        from_us=T0_US + first * SECOND_US,
        to_us=T0_US + last * SECOND_US,
        count=last - first + 1,
        reason=Reason.of(ReasonCode.OUTSIDE_RECOVERY),
        recorded_us=now_us,
    )


async def case_a_whole_gap_is_recovered_atomically(fixture: StoreFixture) -> None:
    for name, overlap in (("skipping", Overlap.SKIP), ("replacing", Overlap.REPLACE)):
        saved = await fixture.save(name, overlap=overlap, queue_max=0 if overlap is Overlap.REPLACE else 1)
        running = await fixture.trigger(saved.id)
        fixture.now_us = T0_US + 10 * SECOND_US
        command = Recover(
            job=saved.id,
            version=1,
            expect_us=T0_US + SECOND_US,
            next_us=T0_US + 11 * SECOND_US,
            runs=_runs(saved.id, 9, 10),
            spans=(_build_missed_span(saved.id, 1, 8, fixture.now_us),),
            now_us=fixture.now_us,
            all_or_nothing=True,
        )
        assert await fixture.store.apply(command) == []
        page = await fixture.store.list_executions(ExecutionFilter(job=saved.id), limit=10)
        assert [item.id for item in page.items] == [running.id]
        assert (await fixture.job(name)).next_us == T0_US + SECOND_US
        await fixture.settle(*await fixture.claim())
        recovered = await fixture.store.apply(command)
        assert len(recovered) == 2
        assert (await fixture.job(name)).next_us == T0_US + 11 * SECOND_US
        for _ in range(2):
            await fixture.settle(*await fixture.claim())


async def case_a_gap_is_recovered_in_one_step(fixture: StoreFixture) -> None:
    saved = await fixture.save(overlap=Overlap.SKIP)
    fixture.now_us = T0_US + 10 * SECOND_US
    span = _build_missed_span(saved.id, 1, 8, fixture.now_us)
    command = Recover(
        job=saved.id,
        version=1,
        expect_us=T0_US + SECOND_US,
        next_us=T0_US + 11 * SECOND_US,
        runs=_runs(saved.id, 9, 10),
        spans=(span,),
        now_us=fixture.now_us,
    )
    admitted = await fixture.store.apply(command)
    assert [a.status for a in admitted] == [Status.READY, Status.QUEUED]
    assert await fixture.store.apply(command) == []
    page = await fixture.store.list_executions(ExecutionFilter(job=saved.id), limit=10)
    assert [type(item) for item in page.items] == [Execution, Execution, Span]
    assert page.items[2] == span
    assert (await fixture.execution(admitted[0].id)).recovered
    assert (await fixture.job()).next_us == T0_US + 11 * SECOND_US


async def case_late_instants_are_not_skipped_for_overlap(fixture: StoreFixture) -> None:
    saved = await fixture.save(overlap=Overlap.SKIP)
    fixture.now_us = T0_US + 3 * SECOND_US
    command = Recover(
        job=saved.id,
        version=1,
        expect_us=T0_US + SECOND_US,
        next_us=T0_US + 4 * SECOND_US,
        runs=tuple(run._replace(cause=Cause.SCHEDULE) for run in _runs(saved.id, 1, 2, 3)),
        spans=(),
        now_us=fixture.now_us,
    )
    admitted = await fixture.store.apply(command)
    assert [a.status for a in admitted] == [Status.READY, Status.QUEUED, Status.QUEUED]
    assert not (await fixture.execution(admitted[1].id)).recovered


async def case_recovery_admits_as_the_queue_empties(fixture: StoreFixture) -> None:
    saved = await fixture.save(overlap=Overlap.QUEUE, queue_max=2)
    fixture.now_us = T0_US + 10 * SECOND_US
    runs = _runs(saved.id, 1, 2, 3, 4, 5)
    gap = Recover(
        job=saved.id,
        version=1,
        expect_us=T0_US + SECOND_US,
        next_us=T0_US + 6 * SECOND_US,
        runs=runs,
        spans=(),
        now_us=fixture.now_us,
    )
    admitted = await fixture.store.apply(gap)
    assert [a.status for a in admitted] == [Status.READY, Status.QUEUED, Status.QUEUED]
    assert (await fixture.job()).next_us == T0_US + 4 * SECOND_US
    [claimed] = await fixture.claim()
    await fixture.settle(claimed)
    more = await fixture.store.apply(replace(gap, expect_us=T0_US + 4 * SECOND_US, runs=runs[3:]))
    assert [a.id for a in more] == [runs[3].id]
    assert (await fixture.job()).next_us == T0_US + 5 * SECOND_US


async def case_a_one_time_job_that_was_recovered_is_done(fixture: StoreFixture) -> None:
    saved = await fixture.save()
    [admitted] = await fixture.store.apply(
        Recover(
            job=saved.id,
            version=1,
            expect_us=T0_US + SECOND_US,
            next_us=None,
            runs=_runs(saved.id, 1),
            spans=(),
            now_us=fixture.now_us,
        )
    )
    assert admitted.status is Status.READY
    assert (await fixture.job()).state is JobState.DONE


async def case_canceling_an_execution_that_has_not_started_ends_it(fixture: StoreFixture) -> None:
    await fixture.save(overlap=Overlap.QUEUE)
    running, queued, next_one = [await fixture.admit_one() for _ in range(3)]
    assert (
        await fixture.store.apply(CancelExecution(execution=queued.id, now_us=fixture.tick(), message="by ana"))
        is Status.CANCELED
    )
    ended = await fixture.execution(queued.id)
    assert ended.reason == Reason(ReasonCode.CANCELED, "by ana")
    assert await fixture.store.apply(CancelExecution(execution=queued.id, now_us=fixture.tick())) is Status.CANCELED
    await fixture.settle(running)
    [claimed] = await fixture.claim()
    assert claimed.id == next_one.id


async def case_canceling_a_ready_execution_wakes_the_next(fixture: StoreFixture) -> None:
    await fixture.save(overlap=Overlap.QUEUE)
    ready, queued = [await fixture.admit_one(claim=False) for _ in range(2)]
    await fixture.store.apply(CancelExecution(execution=ready.id, now_us=fixture.tick()))
    assert await fixture.status(queued.id) is Status.READY


async def case_canceling_a_running_execution_requests_a_stop(fixture: StoreFixture) -> None:
    await fixture.save()
    running = await fixture.admit_one()
    assert await fixture.store.apply(CancelExecution(execution=running.id, now_us=fixture.tick())) is Status.RUNNING
    assert (await fixture.execution(running.id)).cancel is CancelRequest.REQUESTED
    await fixture.settle(running)
    with raises(Conflict, "succeeded"):
        await fixture.store.apply(CancelExecution(execution=running.id, now_us=fixture.tick()))
    with raises(NotFound):
        await fixture.store.apply(CancelExecution(execution=bytes(16), now_us=fixture.tick()))


async def case_a_signal_ends_a_wait(fixture: StoreFixture) -> None:
    await fixture.save()
    run = await fixture.admit_one()
    row = SuspendRow(run.id, run.token, None, ("refused", "approved"), 1, 0, '{"tasks":[]}')
    assert await fixture.store.apply(Suspend(rows=(row,), now_us=fixture.now_us)) == [run.id]
    assert not await fixture.store.apply(Signal(execution=run.id, name="other", payload="1", now_us=fixture.tick()))
    assert await fixture.claim() == []
    assert await fixture.store.apply(
        Signal(execution=run.id, name="approved", payload='{"by":"ana"}', now_us=fixture.tick())
    )
    assert not await fixture.store.apply(Signal(execution=run.id, name="approved", payload="2", now_us=fixture.tick()))
    [claimed] = await fixture.claim()
    assert claimed.detail is not None
    execution = await fixture.execution(run.id)
    assert execution.detail == {"signals": {"approved": {"by": "ana"}}, "tasks": []}
    with raises(NotFound):
        await fixture.store.apply(Signal(execution=bytes(16), name="approved", payload="1", now_us=fixture.tick()))


async def case_enqueue_creates_all_runs_or_none(fixture: StoreFixture) -> None:
    saved = await fixture.save(overlap=Overlap.ALLOW, limit=2, queue_max=2)
    created = await fixture.enqueue(saved.id, 3)
    assert [(run.status, run.created) for run in created] == [
        (Status.READY, True),
        (Status.READY, True),
        (Status.QUEUED, True),
    ]
    with raises(QueueFull, "2 runs"):
        await fixture.enqueue(saved.id, 2)
    assert (await fixture.store.counts()).open == {Status.READY: 2, Status.QUEUED: 1}
    with raises(NotFound, "no longer exists"):
        await fixture.enqueue(bytes(16), 1)
    [entry, *_] = (await fixture.store.audit(namespace=None, limit=1)).items
    assert (entry.action, entry.subject) == ("enqueue", "job")


async def case_an_idempotency_key_enqueues_once(fixture: StoreFixture) -> None:
    saved = await fixture.save(overlap=Overlap.ALLOW)
    first = await fixture.enqueue(saved.id, 2, idempotency="mails")
    fixture.tick()
    again = await fixture.enqueue(saved.id, 2, idempotency="mails")
    assert again == [run._replace(created=False) for run in first]
    assert (await fixture.store.counts()).open == {Status.READY: 2}


async def case_a_delayed_run_waits_until_its_time(fixture: StoreFixture) -> None:
    saved = await fixture.save(overlap=Overlap.SKIP)
    delayed = await fixture.trigger(saved.id, wake_us=T0_US + 10 * SECOND_US)
    assert (delayed.status, await fixture.store.next_wake_us()) == (Status.WAITING, T0_US + 10 * SECOND_US)
    await fixture.settle(await fixture.admit_one())  # the gate is free for the schedule meanwhile
    assert await fixture.wake() == 0
    fixture.now_us = T0_US + 10 * SECOND_US
    assert await fixture.wake() == 1
    assert (await fixture.status(delayed.id), await fixture.store.next_wake_us()) == (Status.READY, None)
    [claimed] = await fixture.claim()
    await fixture.settle(claimed)
    assert await fixture.status(delayed.id) is Status.SUCCEEDED


async def case_delayed_runs_that_are_due_respect_the_limit(fixture: StoreFixture) -> None:
    saved = await fixture.save(overlap=Overlap.SKIP)
    running = await fixture.admit_one()
    delayed = [run.id for run in await fixture.enqueue(saved.id, 2, wake_us=fixture.now_us + SECOND_US)]
    fixture.tick()
    assert await fixture.wake() == 2
    assert [await fixture.status(id_) for id_ in delayed] == [Status.QUEUED, Status.QUEUED]
    assert (await fixture.settle(running)).woken == 1
    assert {await fixture.status(id_) for id_ in delayed} == {Status.READY, Status.QUEUED}


async def case_delayed_runs_that_are_due_respect_their_key(fixture: StoreFixture) -> None:
    saved = await fixture.save(overlap=Overlap.ALLOW)
    holder = await fixture.trigger(saved.id, key="tenant")
    delayed = await fixture.trigger(
        saved.id, key="tenant", wake_us=fixture.now_us + SECOND_US, scheduled_us=fixture.now_us + SECOND_US
    )
    fixture.tick()
    assert await fixture.wake() == 1
    assert await fixture.status(delayed.id) is Status.QUEUED
    [claimed] = await fixture.claim()
    assert claimed.id == holder.id
    await fixture.settle(claimed)
    assert await fixture.status(delayed.id) is Status.READY


async def case_a_delayed_run_can_be_canceled_and_ends_with_its_job(fixture: StoreFixture) -> None:
    saved = await fixture.save(overlap=Overlap.REPLACE)
    first, second = [run.id for run in await fixture.enqueue(saved.id, 2, wake_us=fixture.now_us + SECOND_US)]
    await fixture.settle(
        *(await fixture.admit_next("job", needs_gate_lock=True))
    )  # an instant does not replace delayed runs
    await fixture.store.apply(CancelExecution(execution=first, now_us=fixture.tick(1)))
    assert (await fixture.status(first), await fixture.status(second)) == (Status.CANCELED, Status.WAITING)
    await fixture.store.apply(DeleteJob(job=saved.id, now_us=fixture.tick(1)))
    ended = await fixture.execution(second)
    assert ended.reason is not None
    assert (ended.status, ended.reason.code) == (Status.CANCELED, ReasonCode.JOB_DELETED)


async def case_a_delayed_run_of_a_paused_job_starts(fixture: StoreFixture) -> None:
    saved = await fixture.save()
    delayed = await fixture.trigger(saved.id, wake_us=fixture.now_us + SECOND_US)
    await fixture.set_state(saved.id, JobState.PAUSED)
    fixture.tick()
    assert await fixture.wake() == 1
    assert await fixture.status(delayed.id) is Status.READY
