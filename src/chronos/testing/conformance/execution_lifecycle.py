"""The life of an execution: claim, run, suspend, settle, and its follow-ups."""

import asyncio

from chronos.core.config import Overlap
from chronos.core.execution import AttemptStatus, Status
from chronos.core.reasons import ReasonCode
from chronos.errors import Invalid
from chronos.store.commands import (
    AckOutbox,
    Advance,
    AdvanceRow,
    AdvanceWith,
    CancelExecution,
    Claim,
    DropDeadLetters,
    FollowUp,
    Release,
    ReleaseRow,
    Settle,
    SettleRow,
    SettleWith,
    Suspend,
    SuspendRow,
    TakeOutbox,
)
from chronos.testing.conformance.fixture import SECOND_US, StoreFixture, ended_attempt, raises


async def case_the_best_ranked_go_first(fixture: StoreFixture) -> None:
    await fixture.save("low", overlap=Overlap.ALLOW, priority=1)
    await fixture.save("high", overlap=Overlap.ALLOW, priority=10)
    low = (await fixture.admit_next("low", claim=False))[0]
    high = (await fixture.admit_next("high", claim=False))[0]
    later = (await fixture.admit_next("high", claim=False))[0]
    assert [c.id for c in await fixture.claim(2)] == [high.id, later.id]
    assert [c.id for c in await fixture.claim()] == [low.id]


async def case_waiting_outweighs_priority_in_the_end(fixture: StoreFixture) -> None:
    await fixture.save("low", overlap=Overlap.ALLOW, priority=5)
    await fixture.save("high", overlap=Overlap.ALLOW, priority=6, next_us=fixture.now_us + 62 * SECOND_US)
    low = (await fixture.admit_next("low", claim=False))[0]
    high = (await fixture.admit_next("high", claim=False))[0]
    assert [c.id for c in await fixture.claim()] == [low.id, high.id]


async def case_a_claim_takes_only_its_lanes(fixture: StoreFixture) -> None:
    await fixture.save("gpu", lane="gpu")
    await fixture.save("cpu", lane="cpu")
    gpu, cpu = await fixture.admit_next("gpu", claim=False), await fixture.admit_next("cpu", claim=False)
    lanes = {key: number for number, key in (await fixture.store.lanes()).items()}
    assert [c.id for c in await fixture.claim(lanes=(lanes["cpu"],))] == [cpu[0].id]
    assert await fixture.claim(lanes=()) == []
    assert [c.id for c in await fixture.claim(lanes=(lanes["gpu"], lanes["cpu"]))] == [gpu[0].id]


async def case_the_best_of_all_lanes_go_first(fixture: StoreFixture) -> None:
    names = [f"lane-{i:02}" for i in range(20)]
    for i, name in enumerate(names):
        await fixture.save(name, lane=name, priority=1 + (i * 7) % 10)
    ready = {name: (await fixture.admit_next(name, claim=False))[0].id for name in names}
    ranked = sorted(names, key=lambda name: (-(1 + (names.index(name) * 7) % 10), ready[name]))
    lanes = {key: number for number, key in (await fixture.store.lanes()).items()}
    best = [name for name in ranked if name in names[:5]]
    few = await fixture.claim(2, lanes=tuple(lanes[name] for name in names[:5]))
    assert [run.id for run in few] == [ready[name] for name in best[:2]]
    rest = [name for name in ranked if name not in best[:2]]
    assert [run.id for run in await fixture.claim(3)] == [ready[name] for name in rest[:3]]


async def case_claims_are_disjoint(fixture: StoreFixture) -> None:
    await fixture.save(overlap=Overlap.ALLOW)
    ready = {(await fixture.admit_one(claim=False)).id for _ in range(20)}
    lanes = tuple(await fixture.store.lanes())
    claims = await asyncio.gather(
        *(
            fixture.store.apply(
                Claim(lanes=lanes, limit=3, node=fixture.node, now_us=fixture.now_us, request=fixture.new_request_id())
            )
            for _ in range(8)
        )
    )
    taken = [c.id for claim in claims for c in claim]
    assert len(taken) == len(set(taken))
    assert set(taken) <= ready
    assert len(taken) == 20 or len(await fixture.claim()) + len(taken) == 20


async def case_a_stale_token_changes_nothing(fixture: StoreFixture) -> None:
    await fixture.save()
    run = await fixture.admit_one()
    stale = run._replace(token=run.token - 1)
    assert (await fixture.settle(stale)).settled == []
    assert await fixture.store.apply(Advance(rows=(AdvanceRow(run.id, stale.token, "{}"),))) == []
    assert (
        await fixture.store.apply(
            Suspend(rows=(SuspendRow(run.id, stale.token, None, (), 2, 0),), now_us=fixture.now_us)
        )
        == []
    )
    assert await fixture.store.apply(Release(rows=(ReleaseRow(run.id, stale.token),), now_us=fixture.now_us)) == []
    assert await fixture.status(run.id) is Status.RUNNING
    assert (await fixture.settle(run)).settled == [run.id]
    assert (await fixture.execution(run.id)).token == run.token


async def case_settling_twice_is_a_success_only_with_the_same_outcome(fixture: StoreFixture) -> None:
    await fixture.save()
    run = await fixture.admit_one()
    assert (await fixture.settle(run)).settled == [run.id]
    assert (await fixture.settle(run)).settled == [run.id]
    assert (await fixture.settle(run, status=Status.FAILED)).settled == []
    assert await fixture.status(run.id) is Status.SUCCEEDED


async def case_a_stale_row_does_not_affect_the_other_rows(fixture: StoreFixture) -> None:
    await fixture.save("a")
    await fixture.save("b")
    a, b = await fixture.admit_next("a", "b")
    mixed = await fixture.settle(a._replace(token=5), b)
    assert mixed.settled == [b.id]
    assert await fixture.status(a.id) is Status.RUNNING


async def case_history_contains_the_whole_outcome(fixture: StoreFixture) -> None:
    saved = await fixture.save()
    run = await fixture.admit_one()
    fixture.tick()
    row = SettleRow(
        run.id,
        saved.id,
        run.token,
        Status.FAILED,
        ReasonCode.EXECUTION_TIMEOUT,
        "too slow",
        fixture.now_us,
        '{"error":"boom"}',
    )
    await fixture.store.apply(Settle(rows=(row,), node=fixture.node, now_us=fixture.now_us))
    execution = await fixture.execution(run.id)
    assert execution.reason is not None
    assert (execution.reason.code, execution.reason.message) == (ReasonCode.EXECUTION_TIMEOUT, "too slow")
    assert (execution.finished_us, execution.detail) == (fixture.now_us, {"error": "boom"})
    assert (execution.node, execution.attempt) == (fixture.node, 1)


async def case_a_retry_waits_and_counts_as_an_attempt(fixture: StoreFixture) -> None:
    await fixture.save(overlap=Overlap.SKIP)
    run = await fixture.admit_one()
    wake = fixture.now_us + 10 * SECOND_US
    row = SuspendRow(run.id, run.token, wake, (), 2, 500, None, (ended_attempt(run, 1),))
    assert await fixture.store.apply(Suspend(rows=(row,), now_us=fixture.now_us)) == [run.id]
    asleep = await fixture.execution(run.id)
    assert (asleep.status, asleep.node, asleep.wake_us, asleep.attempt) == (Status.WAITING, None, wake, 2)
    assert await fixture.store.next_wake_us() == wake
    assert (await fixture.admit_one()).status is Status.SKIPPED
    assert await fixture.claim() == []
    assert await fixture.wake() == 0
    fixture.now_us = wake
    assert await fixture.wake() == 1
    assert await fixture.store.next_wake_us() is None
    [claimed] = await fixture.claim()
    assert (claimed.id, claimed.attempt, claimed.worked_us) == (run.id, 2, 500)
    assert claimed.token > run.token
    assert claimed.started_us < fixture.now_us
    await fixture.settle(claimed)
    view = await fixture.store.execution(run.id)
    assert view is not None
    assert [(a.number, a.status, a.error) for a in view.attempts] == [(1, AttemptStatus.FAILED, "boom")]
    assert view.execution.attempt == 2


async def case_waking_is_bounded_and_earliest_first(fixture: StoreFixture) -> None:
    await fixture.save(overlap=Overlap.ALLOW)
    runs = [await fixture.admit_one() for _ in range(4)]
    at = fixture.now_us + SECOND_US
    rows = tuple(SuspendRow(r.id, r.token, at - i, (), 2, 0) for i, r in enumerate(runs))
    await fixture.store.apply(Suspend(rows=rows, now_us=fixture.now_us))
    fixture.now_us = at
    assert await fixture.wake(2) == 2
    assert [await fixture.status(r.id) for r in runs] == [Status.WAITING, Status.WAITING, Status.READY, Status.READY]


async def case_tasks_advance_within_a_running_execution(fixture: StoreFixture) -> None:
    await fixture.save()
    run = await fixture.admit_one()
    done = ended_attempt(run, 1, AttemptStatus.SUCCEEDED, task="extract")
    row = AdvanceRow(run.id, run.token, '{"tasks":[{"name":"extract"}]}', (done,))
    assert await fixture.store.apply(Advance(rows=(row,))) == [run.id]
    assert await fixture.store.apply(Advance(rows=(row,))) == [run.id]
    view = await fixture.store.execution(run.id)
    assert view is not None
    assert view.execution.detail == {"tasks": [{"name": "extract"}]}
    assert [(a.task, a.status) for a in view.attempts] == [("extract", AttemptStatus.SUCCEEDED)]


async def case_released_work_is_ready_again_with_its_attempt_unspent(fixture: StoreFixture) -> None:
    await fixture.save()
    run = await fixture.admit_one()
    assert await fixture.store.apply(Release(rows=(ReleaseRow(run.id, run.token, 300),), now_us=fixture.tick())) == [
        run.id
    ]
    [claimed] = await fixture.claim()
    assert (claimed.id, claimed.attempt, claimed.worked_us) == (run.id, 1, 300)
    assert (await fixture.settle(run)).settled == []
    assert (await fixture.settle(claimed)).settled == [run.id]


async def case_a_canceled_execution_does_not_start_again(fixture: StoreFixture) -> None:
    await fixture.save(overlap=Overlap.ALLOW)
    suspended, released, running = [await fixture.admit_one() for _ in range(3)]
    for run in (suspended, released):
        await fixture.store.apply(CancelExecution(execution=run.id, now_us=fixture.tick(), message="enough"))
    row = SuspendRow(suspended.id, suspended.token, fixture.now_us, (), 2, 0)
    assert await fixture.store.apply(Suspend(rows=(row,), now_us=fixture.tick())) == []
    assert (
        await fixture.store.apply(Release(rows=(ReleaseRow(released.id, released.token),), now_us=fixture.tick())) == []
    )
    for run in (suspended, released):
        execution = await fixture.execution(run.id)
        assert execution.reason is not None
        assert (execution.status, execution.reason.code) == (Status.CANCELED, ReasonCode.CANCELED)
        assert execution.reason.message == "enough"
    assert await fixture.status(running.id) is Status.RUNNING
    assert await fixture.wake() == 0
    assert await fixture.claim() == []


async def case_follow_ups_are_in_the_outbox(fixture: StoreFixture) -> None:
    await fixture.save()
    run = await fixture.admit_one()
    follow = (FollowUp("hook", "on_complete", "{}"), FollowUp("job", "next", '{"a":1}'))
    await fixture.settle(run, follow=follow)
    seen = await fixture.store.outbox(limit=10)
    assert {(item.kind, item.target, item.body) for item in seen} == set(follow)
    assert await fixture.store.outbox(limit=10, after=seen[0].id) == seen[1:]
    other = await fixture.start_node("other")
    taken = await fixture.store.apply(TakeOutbox(node=other, limit=10))
    assert taken == seen
    assert await fixture.store.apply(TakeOutbox(node=1, limit=10)) == []
    assert await fixture.store.apply(TakeOutbox(node=other, limit=10)) == seen
    await fixture.store.apply(AckOutbox(ids=(seen[0].id,)))
    assert await fixture.store.outbox(limit=10) == seen[1:]


async def case_dead_letters_are_listed_until_dropped(fixture: StoreFixture) -> None:
    await fixture.save(overlap=Overlap.ALLOW)
    runs = [await fixture.admit_one() for _ in range(3)]
    await fixture.settle(*runs, status=Status.FAILED, dead_letter=True)
    page = await fixture.store.list_dead_letters(namespace="default", limit=2)
    assert [letter.execution for letter in page.items] == [runs[2].id, runs[1].id]
    assert page.items[0].reason.code is ReasonCode.TASK_FAILED
    rest = await fixture.store.list_dead_letters(namespace="default", limit=2, cursor=page.cursor)
    assert [letter.execution for letter in rest.items] == [runs[0].id]
    assert (await fixture.store.list_dead_letters(namespace="other", limit=5)).items == []
    drop = DropDeadLetters(executions=(runs[0].id, runs[1].id, bytes(16)), now_us=fixture.tick())
    assert await fixture.store.apply(drop) == 2
    left = await fixture.store.list_dead_letters(namespace=None, limit=5)
    assert [letter.execution for letter in left.items] == [runs[2].id]


async def case_dead_letters_are_counted_up_to_a_limit(fixture: StoreFixture) -> None:
    await fixture.save(overlap=Overlap.ALLOW)
    runs = [await fixture.admit_one() for _ in range(3)]
    assert await fixture.store.count_dead_letters(10) == 0
    await fixture.settle(*runs, status=Status.FAILED, dead_letter=True)
    assert [await fixture.store.count_dead_letters(limit) for limit in (2, 3, 10)] == [2, 3, 3]
    await fixture.store.apply(DropDeadLetters(executions=(runs[0].id,), now_us=fixture.tick()))
    assert await fixture.store.count_dead_letters(10) == 2
    assert await fixture.status(runs[0].id) is Status.FAILED


async def case_user_statements_commit_with_a_settlement(fixture: StoreFixture) -> None:
    await fixture.save(overlap=Overlap.QUEUE)
    run, behind = await fixture.admit_one(), await fixture.admit_one()
    row = SettleRow(run.id, run.job, run.token, Status.SUCCEEDED, ReasonCode.SUCCEEDED, None, fixture.tick())

    def settle(*statements: tuple[str, tuple[object, ...]], row: SettleRow = row) -> SettleWith:
        return SettleWith(row=row, statements=statements, node=fixture.node, now_us=fixture.now_us)

    fails = ("insert into there_is_no_such_table values (1)", ())
    with raises(Invalid, "there_is_no_such_table"):
        await fixture.store.apply(settle(("select 1", ()), fails))
    assert [await fixture.status(execution.id) for execution in (run, behind)] == [Status.RUNNING, Status.QUEUED]
    for sql in ("commit", "", "-- a comment\n rollback", "drop table gate", "begin"):
        with raises(Invalid):
            await fixture.store.apply(settle((sql, ())))
    with raises(Invalid):
        await fixture.store.apply(settle(("select 1", (1, 2, 3))))
    assert (await fixture.store.apply(settle(fails, row=row._replace(token=row.token - 1)))).settled == []
    assert await fixture.status(run.id) is Status.RUNNING
    settled = await fixture.store.apply(settle(("select 1", ()), ("with x as (select 1) select * from x", ())))
    assert (settled.settled, settled.woken) == ([run.id], 1)
    assert (await fixture.store.apply(settle(fails))).settled == [run.id], (
        "it was already settled, so no statement runs"
    )
    assert (await fixture.store.apply(settle(fails, row=row._replace(status=Status.FAILED)))).settled == []
    assert [await fixture.status(execution.id) for execution in (run, behind)] == [Status.SUCCEEDED, Status.READY]


async def case_user_statements_commit_with_a_task(fixture: StoreFixture) -> None:
    await fixture.save()
    run = await fixture.admit_one()
    done = ended_attempt(run, 1, AttemptStatus.SUCCEEDED, task="extract")
    row = AdvanceRow(run.id, run.token, '{"tasks":[{"name":"extract"}]}', (done,))

    def advance(*statements: tuple[str, tuple[object, ...]], row: AdvanceRow = row) -> AdvanceWith:
        return AdvanceWith(row=row, statements=statements)

    fails = ("insert into there_is_no_such_table values (1)", ())
    with raises(Invalid, "there_is_no_such_table"):
        await fixture.store.apply(advance(("select 1", ()), fails))
    with raises(Invalid):
        await fixture.store.apply(advance(("commit", ())))
    view = await fixture.store.execution(run.id)
    assert view is not None
    assert (view.execution.detail, list(view.attempts)) == (None, []), "nothing was written"
    assert not await fixture.store.apply(advance(fails, row=row._replace(token=row.token - 1)))
    assert await fixture.store.apply(advance(("select 1", ())))
    assert await fixture.store.apply(advance(fails)), "it was already recorded, so no statement runs"
    view = await fixture.store.execution(run.id)
    assert view is not None
    assert view.execution.detail == {"tasks": [{"name": "extract"}]}
    assert [(a.task, a.status) for a in view.attempts] == [("extract", AttemptStatus.SUCCEEDED)]
    assert not await fixture.store.apply(advance(fails, row=row._replace(token=row.token - 1)))
