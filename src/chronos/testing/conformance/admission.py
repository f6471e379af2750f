"""Admission of scheduled instants: races, the cursor, overlapping runs, limits and queues."""

import asyncio

from chronos.core.admission_policy import AdmissionVerdict, admit
from chronos.core.config import Overlap
from chronos.core.execution import CancelRequest, Cause, Status
from chronos.core.ids import key_gate_id, scheduled_execution_id
from chronos.core.job import JobState
from chronos.core.reasons import ReasonCode
from chronos.store.commands import Admit
from chronos.testing.conformance.fixture import SECOND_US, T0_US, StoreFixture, admit_row


async def case_an_instant_is_admitted_once(fixture: StoreFixture) -> None:
    saved = await fixture.save()
    job = await fixture.job()
    row = admit_row(job, T0_US + SECOND_US, T0_US + 2 * SECOND_US)
    first = await fixture.store.apply(
        Admit(rows=(row,), node=fixture.node, now_us=fixture.now_us, request=fixture.new_request_id())
    )
    assert [(a.id, a.job, a.status) for a in first] == [
        (scheduled_execution_id(saved.id, T0_US + SECOND_US), saved.id, Status.RUNNING)
    ]
    again = await fixture.store.apply(
        Admit(rows=(row,), node=fixture.node, now_us=fixture.now_us, request=fixture.new_request_id())
    )
    assert again == []
    execution = await fixture.execution(first[0].id)
    assert (execution.cause, execution.scheduled_us, execution.job_version) == (Cause.SCHEDULE, T0_US + SECOND_US, 1)
    assert (execution.node, execution.started_us, execution.attempt) == (fixture.node, fixture.now_us, 1)
    assert execution.token == first[0].token
    assert (await fixture.job()).next_us == T0_US + 2 * SECOND_US


async def case_the_cursor_moves_only_from_the_expected_instant(fixture: StoreFixture) -> None:
    await fixture.save()
    job = await fixture.job()
    late = admit_row(job, T0_US + 5 * SECOND_US, T0_US + 6 * SECOND_US)
    assert (
        await fixture.store.apply(
            Admit(rows=(late,), node=fixture.node, now_us=fixture.now_us, request=fixture.new_request_id())
        )
        == []
    )
    await fixture.save(description="changed", next_us=T0_US + SECOND_US)
    stale = admit_row(job, T0_US + SECOND_US, T0_US + 2 * SECOND_US)
    assert (
        await fixture.store.apply(
            Admit(rows=(stale,), node=fixture.node, now_us=fixture.now_us, request=fixture.new_request_id())
        )
        == []
    )
    assert (await fixture.job()).next_us == T0_US + SECOND_US


async def case_a_recorded_instant_is_not_admitted_again(fixture: StoreFixture) -> None:
    for name, overlap in (("plain", Overlap.SKIP), ("replacing", Overlap.REPLACE)):
        needs_gate_lock = overlap is Overlap.REPLACE
        await fixture.save(name, overlap=overlap)
        [first] = await fixture.admit_next(name, needs_gate_lock=needs_gate_lock)
        await fixture.settle(first)
        moved_back = await fixture.save(
            name, overlap=overlap, description="the clock went back", next_us=T0_US + SECOND_US
        )
        assert await fixture.admit_next(name, needs_gate_lock=needs_gate_lock) == []
        job = await fixture.job(name)
        assert (job.id, job.next_us, job.state) == (moved_back.id, T0_US + 2 * SECOND_US, JobState.ACTIVE)
        [second] = await fixture.admit_next(name, needs_gate_lock=needs_gate_lock)
        assert (await fixture.execution(second.id)).scheduled_us == T0_US + 2 * SECOND_US


async def case_an_instant_without_a_slot_is_ready(fixture: StoreFixture) -> None:
    await fixture.save()
    [ready] = await fixture.admit_next("job", claim=False)
    assert ready.status is Status.READY
    execution = await fixture.execution(ready.id)
    assert (execution.node, execution.started_us) == (None, None)
    [claimed] = await fixture.claim()
    assert (claimed.id, claimed.attempt, claimed.scheduled_us) == (ready.id, 1, T0_US + SECOND_US)
    assert claimed.token > ready.token


async def case_many_instants_are_admitted_in_one_command(fixture: StoreFixture) -> None:
    for i in range(30):
        await fixture.save(f"job-{i:02}")
    admitted = await fixture.admit_next(*(f"job-{i:02}" for i in range(30)))
    assert len({a.id for a in admitted}) == 30
    assert {a.status for a in admitted} == {Status.RUNNING}
    settled = await fixture.settle(*admitted)
    assert set(settled.settled) == {a.id for a in admitted}


async def case_the_end_of_a_schedule_makes_the_job_done(fixture: StoreFixture) -> None:
    await fixture.save("once")
    [admitted] = await fixture.admit_next("once", last=True)
    assert admitted.status is Status.RUNNING
    job = await fixture.job("once")
    assert (job.state, job.next_us) == (JobState.DONE, None)
    assert await fixture.store.due(T0_US + 100 * SECOND_US, 10) == []
    assert (await fixture.store.counts()).jobs == {JobState.DONE: 1}
    await fixture.settle(admitted)


async def case_overlap_skip_allows_one_execution_in_progress(fixture: StoreFixture) -> None:
    await fixture.save(overlap=Overlap.SKIP)
    first = await fixture.admit_one()
    second = await fixture.admit_one()
    assert (second.status, second.code) == (Status.SKIPPED, ReasonCode.OVERLAP)
    skipped = await fixture.execution(second.id)
    assert skipped.reason is not None
    assert (skipped.reason.code, skipped.scheduled_us) == (ReasonCode.OVERLAP, T0_US + 2 * SECOND_US)
    await fixture.settle(first)
    third = await fixture.admit_one()
    assert third.status is Status.RUNNING


async def case_a_ready_execution_counts_as_in_progress(fixture: StoreFixture) -> None:
    await fixture.save(overlap=Overlap.SKIP)
    first = await fixture.admit_one(claim=False)
    assert first.status is Status.READY
    assert (await fixture.admit_one()).status is Status.SKIPPED


async def case_allow_without_a_limit_runs_everything(fixture: StoreFixture) -> None:
    await fixture.save(overlap=Overlap.ALLOW)
    runs = [await fixture.admit_one() for _ in range(5)]
    assert {run.status for run in runs} == {Status.RUNNING}
    assert len({run.token for run in runs}) == 5


async def case_a_limit_queues_the_excess(fixture: StoreFixture) -> None:
    await fixture.save(overlap=Overlap.ALLOW, limit=2, queue_max=2)
    runs = [await fixture.admit_one() for _ in range(5)]
    assert [run.status for run in runs] == [
        *(Status.RUNNING, Status.RUNNING, Status.QUEUED, Status.QUEUED, Status.SKIPPED)
    ]
    full = await fixture.execution(runs[4].id)
    assert full.reason is not None
    assert full.reason.code is ReasonCode.QUEUE_FULL
    assert (await fixture.settle(runs[0])).woken == 1
    assert [await fixture.status(run.id) for run in runs[2:4]] == [Status.READY, Status.QUEUED]


async def case_queue_runs_in_the_order_of_instants(fixture: StoreFixture) -> None:
    await fixture.save(overlap=Overlap.QUEUE)
    runs = [await fixture.admit_one() for _ in range(4)]
    order = [runs[0].id]
    current = await fixture.settle(runs[0])
    assert current.woken == 1
    for _ in range(3):
        [claimed] = await fixture.claim()
        order.append(claimed.id)
        await fixture.settle(claimed)
    assert order == [run.id for run in runs]


async def case_settle_hands_the_next_execution_to_the_same_node(fixture: StoreFixture) -> None:
    await fixture.save(overlap=Overlap.QUEUE)
    first, second, third = [await fixture.admit_one() for _ in range(3)]
    [lane] = await fixture.store.lanes()
    settled = await fixture.settle(first, take=1, take_lanes=(lane,))
    [taken] = settled.started_successors
    assert (taken.id, settled.woken) == (second.id, 0)
    execution = await fixture.execution(second.id)
    assert (execution.status, execution.node, execution.token) == (Status.RUNNING, fixture.node, taken.token)
    elsewhere = await fixture.settle(taken, take=1, take_lanes=(lane + 1,))
    assert (elsewhere.started_successors, elsewhere.woken) == ([], 1)
    assert await fixture.status(third.id) is Status.READY


async def case_replace_cancels_the_running_execution_then_starts(fixture: StoreFixture) -> None:
    await fixture.save(overlap=Overlap.REPLACE)
    [first] = await fixture.admit_next("job", needs_gate_lock=True)
    [second] = await fixture.admit_next("job", needs_gate_lock=True)
    [third] = await fixture.admit_next("job", needs_gate_lock=True)
    assert (first.status, second.status, third.status) == (Status.RUNNING, Status.QUEUED, Status.QUEUED)
    assert (await fixture.execution(first.id)).cancel is CancelRequest.REPLACED
    replaced = await fixture.execution(second.id)
    assert replaced.reason is not None
    assert (replaced.status, replaced.reason.code) == (Status.CANCELED, ReasonCode.REPLACED)
    await fixture.settle(first, status=Status.CANCELED)
    [claimed] = await fixture.claim()
    assert claimed.id == third.id


async def case_replace_cancels_an_execution_that_has_not_started(fixture: StoreFixture) -> None:
    await fixture.save(overlap=Overlap.REPLACE)
    [first] = await fixture.admit_next("job", needs_gate_lock=True, claim=False)
    [second] = await fixture.admit_next("job", needs_gate_lock=True, claim=False)
    assert await fixture.status(first.id) is Status.CANCELED
    assert second.status is Status.READY


async def case_the_hot_statement_skips_gates_that_need_a_lock(fixture: StoreFixture) -> None:
    await fixture.save("replacing", overlap=Overlap.REPLACE)
    await fixture.save("keyed", overlap=Overlap.ALLOW, keyed=True)
    assert await fixture.admit_next("replacing") == []
    assert await fixture.admit_next("keyed") == []
    due = await fixture.store.due(fixture.now_us + SECOND_US, 10)
    assert [d.needs_gate_lock for d in due] == [True, True]


async def case_keys_share_a_limit_across_jobs(fixture: StoreFixture) -> None:
    key = key_gate_id("default", "tenant-1")
    for name in ("a", "b"):
        await fixture.save(name, overlap=Overlap.ALLOW, keyed=True)
    runs = []
    for name in ("a", "b", "a"):
        job = await fixture.job(name)
        assert job.next_us is not None
        row = admit_row(job, job.next_us, job.next_us + SECOND_US, needs_gate_lock=True)._replace(key=key, key_limit=1)
        [run] = await fixture.store.apply(
            Admit(rows=(row,), node=fixture.node, now_us=fixture.tick(), request=fixture.new_request_id())
        )
        runs.append(run)
    assert [run.status for run in runs] == [Status.RUNNING, Status.QUEUED, Status.QUEUED]
    await fixture.settle(runs[0])
    started = [run.id for run in await fixture.claim()]
    if not started:  # an execution of another job may become ready only with the next wake
        await fixture.wake()
        started = [run.id for run in await fixture.claim()]
    assert len(started) == 1
    assert started[0] in {runs[1].id, runs[2].id}


async def case_the_admission_statement_decides_like_the_policy(fixture: StoreFixture) -> None:
    settings = [
        (overlap, limit, queue_max)
        for overlap in (Overlap.SKIP, Overlap.QUEUE, Overlap.ALLOW)
        for limit in ((0, 1, 2) if overlap is Overlap.ALLOW else (1,))
        for queue_max in (0, 1, 2)
    ]
    expected = {
        AdmissionVerdict.RUN: Status.RUNNING,
        AdmissionVerdict.QUEUE: Status.QUEUED,
        AdmissionVerdict.SKIP_OVERLAP: Status.SKIPPED,
        AdmissionVerdict.SKIP_FULL: Status.SKIPPED,
    }
    codes = {
        AdmissionVerdict.SKIP_OVERLAP: ReasonCode.OVERLAP,
        AdmissionVerdict.SKIP_FULL: ReasonCode.QUEUE_FULL,
    }
    names = []
    for i, (overlap, limit, queue_max) in enumerate(settings):
        names.append(f"job-{i}")
        await fixture.save(names[-1], overlap=overlap, limit=limit, queue_max=queue_max)
    counts = {name: [0, 0] for name in names}
    for _ in range(5):
        admitted = {run.job: run for run in await fixture.admit_next(*names)}
        for name, (overlap, limit, queue_max) in zip(names, settings, strict=True):
            active, queued = counts[name]
            verdict = admit(
                overlap=overlap, limit=limit, queue_max=queue_max, active=active, queued=queued, requested=False
            )
            run = admitted[(await fixture.job(name)).id]
            assert run.status is expected[verdict], (name, overlap, limit, queue_max, active, queued)
            assert run.code is codes.get(verdict), (name, overlap, limit, queue_max, active, queued)
            counts[name][0] += verdict is AdmissionVerdict.RUN
            counts[name][1] += verdict is AdmissionVerdict.QUEUE


async def case_racing_admissions_have_one_winner(fixture: StoreFixture) -> None:
    for i in range(10):
        await fixture.save(f"job-{i}", overlap=Overlap.ALLOW)
    jobs = [await fixture.job(f"job-{i}") for i in range(10)]
    rows = tuple(admit_row(job, T0_US + SECOND_US, T0_US + 2 * SECOND_US) for job in jobs)
    results = await asyncio.gather(
        *(
            fixture.store.apply(
                Admit(rows=rows, node=fixture.node, now_us=fixture.now_us, request=fixture.new_request_id())
            )
            for _ in range(8)
        )
    )
    admitted = [run.id for result in results for run in result]
    assert sorted(admitted) == sorted(row.id for row in rows)
