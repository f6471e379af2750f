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
from chronos.testing.conformance.fixture import SECOND, StoreFixture, ended_attempt, raises


async def case_the_best_ranked_go_first(w: StoreFixture) -> None:
    await w.save("low", overlap=Overlap.ALLOW, priority=1)
    await w.save("high", overlap=Overlap.ALLOW, priority=10)
    low = (await w.admit_next("low", claim=False))[0]
    high = (await w.admit_next("high", claim=False))[0]
    later = (await w.admit_next("high", claim=False))[0]
    assert [c.id for c in await w.claim(2)] == [high.id, later.id]
    assert [c.id for c in await w.claim()] == [low.id]


async def case_waiting_outweighs_priority_in_the_end(w: StoreFixture) -> None:
    await w.save("low", overlap=Overlap.ALLOW, priority=5)
    await w.save("high", overlap=Overlap.ALLOW, priority=6, next_us=w.now + 62 * SECOND)
    low = (await w.admit_next("low", claim=False))[0]
    high = (await w.admit_next("high", claim=False))[0]
    assert [c.id for c in await w.claim()] == [low.id, high.id]


async def case_a_claim_takes_only_its_lanes(w: StoreFixture) -> None:
    await w.save("gpu", lane="gpu")
    await w.save("cpu", lane="cpu")
    gpu, cpu = await w.admit_next("gpu", claim=False), await w.admit_next("cpu", claim=False)
    lanes = {key: number for number, key in (await w.store.lanes()).items()}
    assert [c.id for c in await w.claim(lanes=(lanes["cpu"],))] == [cpu[0].id]
    assert await w.claim(lanes=()) == []
    assert [c.id for c in await w.claim(lanes=(lanes["gpu"], lanes["cpu"]))] == [gpu[0].id]


async def case_the_best_of_all_lanes_go_first(w: StoreFixture) -> None:
    names = [f"lane-{i:02}" for i in range(20)]
    for i, name in enumerate(names):
        await w.save(name, lane=name, priority=1 + (i * 7) % 10)
    ready = {name: (await w.admit_next(name, claim=False))[0].id for name in names}
    ranked = sorted(names, key=lambda name: (-(1 + (names.index(name) * 7) % 10), ready[name]))
    lanes = {key: number for number, key in (await w.store.lanes()).items()}
    best = [name for name in ranked if name in names[:5]]
    few = await w.claim(2, lanes=tuple(lanes[name] for name in names[:5]))
    assert [run.id for run in few] == [ready[name] for name in best[:2]]
    rest = [name for name in ranked if name not in best[:2]]
    assert [run.id for run in await w.claim(3)] == [ready[name] for name in rest[:3]]


async def case_claims_are_disjoint(w: StoreFixture) -> None:
    await w.save(overlap=Overlap.ALLOW)
    ready = {(await w.admit_one(claim=False)).id for _ in range(20)}
    lanes = tuple(await w.store.lanes())
    claims = await asyncio.gather(
        *(w.store.apply(Claim(lanes=lanes, limit=3, node=w.node, now_us=w.now, request=w.request())) for _ in range(8))
    )
    taken = [c.id for claim in claims for c in claim]
    assert len(taken) == len(set(taken))
    assert set(taken) <= ready
    assert len(taken) == 20 or len(await w.claim()) + len(taken) == 20


async def case_a_stale_token_changes_nothing(w: StoreFixture) -> None:
    await w.save()
    run = await w.admit_one()
    stale = run._replace(token=run.token - 1)
    assert (await w.settle(stale)).settled == []
    assert await w.store.apply(Advance(rows=(AdvanceRow(run.id, stale.token, "{}"),))) == []
    assert await w.store.apply(Suspend(rows=(SuspendRow(run.id, stale.token, None, (), 2, 0),), now_us=w.now)) == []
    assert await w.store.apply(Release(rows=(ReleaseRow(run.id, stale.token),), now_us=w.now)) == []
    assert await w.status(run.id) is Status.RUNNING
    assert (await w.settle(run)).settled == [run.id]
    assert (await w.execution(run.id)).token == run.token


async def case_settling_twice_is_a_success_only_with_the_same_outcome(w: StoreFixture) -> None:
    await w.save()
    run = await w.admit_one()
    assert (await w.settle(run)).settled == [run.id]
    assert (await w.settle(run)).settled == [run.id]
    assert (await w.settle(run, status=Status.FAILED)).settled == []
    assert await w.status(run.id) is Status.SUCCEEDED


async def case_a_stale_row_does_not_affect_the_other_rows(w: StoreFixture) -> None:
    await w.save("a")
    await w.save("b")
    a, b = await w.admit_next("a", "b")
    mixed = await w.settle(a._replace(token=5), b)
    assert mixed.settled == [b.id]
    assert await w.status(a.id) is Status.RUNNING


async def case_history_contains_the_whole_outcome(w: StoreFixture) -> None:
    saved = await w.save()
    run = await w.admit_one()
    w.tick()
    row = SettleRow(
        run.id, saved.id, run.token, Status.FAILED, ReasonCode.EXECUTION_TIMEOUT, "too slow", w.now, '{"error":"boom"}'
    )
    await w.store.apply(Settle(rows=(row,), node=w.node, now_us=w.now))
    execution = await w.execution(run.id)
    assert execution.reason is not None
    assert (execution.reason.code, execution.reason.message) == (ReasonCode.EXECUTION_TIMEOUT, "too slow")
    assert (execution.finished_us, execution.detail) == (w.now, {"error": "boom"})
    assert (execution.node, execution.attempt) == (w.node, 1)


async def case_a_retry_waits_and_counts_as_an_attempt(w: StoreFixture) -> None:
    await w.save(overlap=Overlap.SKIP)
    run = await w.admit_one()
    wake = w.now + 10 * SECOND
    row = SuspendRow(run.id, run.token, wake, (), 2, 500, None, (ended_attempt(run, 1),))
    assert await w.store.apply(Suspend(rows=(row,), now_us=w.now)) == [run.id]
    asleep = await w.execution(run.id)
    assert (asleep.status, asleep.node, asleep.wake_us, asleep.attempt) == (Status.WAITING, None, wake, 2)
    assert await w.store.next_wake_us() == wake
    assert (await w.admit_one()).status is Status.SKIPPED
    assert await w.claim() == []
    assert await w.wake() == 0
    w.now = wake
    assert await w.wake() == 1
    assert await w.store.next_wake_us() is None
    [claimed] = await w.claim()
    assert (claimed.id, claimed.attempt, claimed.worked_us) == (run.id, 2, 500)
    assert claimed.token > run.token
    assert claimed.started_us < w.now
    await w.settle(claimed)
    view = await w.store.execution(run.id)
    assert view is not None
    assert [(a.number, a.status, a.error) for a in view.attempts] == [(1, AttemptStatus.FAILED, "boom")]
    assert view.execution.attempt == 2


async def case_waking_is_bounded_and_earliest_first(w: StoreFixture) -> None:
    await w.save(overlap=Overlap.ALLOW)
    runs = [await w.admit_one() for _ in range(4)]
    at = w.now + SECOND
    rows = tuple(SuspendRow(r.id, r.token, at - i, (), 2, 0) for i, r in enumerate(runs))
    await w.store.apply(Suspend(rows=rows, now_us=w.now))
    w.now = at
    assert await w.wake(2) == 2
    assert [await w.status(r.id) for r in runs] == [Status.WAITING, Status.WAITING, Status.READY, Status.READY]


async def case_tasks_advance_within_a_running_execution(w: StoreFixture) -> None:
    await w.save()
    run = await w.admit_one()
    done = ended_attempt(run, 1, AttemptStatus.SUCCEEDED, task="extract")
    row = AdvanceRow(run.id, run.token, '{"tasks":[{"name":"extract"}]}', (done,))
    assert await w.store.apply(Advance(rows=(row,))) == [run.id]
    assert await w.store.apply(Advance(rows=(row,))) == [run.id]
    view = await w.store.execution(run.id)
    assert view is not None
    assert view.execution.detail == {"tasks": [{"name": "extract"}]}
    assert [(a.task, a.status) for a in view.attempts] == [("extract", AttemptStatus.SUCCEEDED)]


async def case_released_work_is_ready_again_with_its_attempt_unspent(w: StoreFixture) -> None:
    await w.save()
    run = await w.admit_one()
    assert await w.store.apply(Release(rows=(ReleaseRow(run.id, run.token, 300),), now_us=w.tick())) == [run.id]
    [claimed] = await w.claim()
    assert (claimed.id, claimed.attempt, claimed.worked_us) == (run.id, 1, 300)
    assert (await w.settle(run)).settled == []
    assert (await w.settle(claimed)).settled == [run.id]


async def case_a_canceled_execution_does_not_start_again(w: StoreFixture) -> None:
    await w.save(overlap=Overlap.ALLOW)
    suspended, released, running = [await w.admit_one() for _ in range(3)]
    for run in (suspended, released):
        await w.store.apply(CancelExecution(execution=run.id, now_us=w.tick(), message="enough"))
    row = SuspendRow(suspended.id, suspended.token, w.now, (), 2, 0)
    assert await w.store.apply(Suspend(rows=(row,), now_us=w.tick())) == []
    assert await w.store.apply(Release(rows=(ReleaseRow(released.id, released.token),), now_us=w.tick())) == []
    for run in (suspended, released):
        execution = await w.execution(run.id)
        assert execution.reason is not None
        assert (execution.status, execution.reason.code) == (Status.CANCELED, ReasonCode.CANCELED)
        assert execution.reason.message == "enough"
    assert await w.status(running.id) is Status.RUNNING
    assert await w.wake() == 0
    assert await w.claim() == []


async def case_follow_ups_are_in_the_outbox(w: StoreFixture) -> None:
    await w.save()
    run = await w.admit_one()
    follow = (FollowUp("hook", "on_complete", "{}"), FollowUp("job", "next", '{"a":1}'))
    await w.settle(run, follow=follow)
    seen = await w.store.outbox(limit=10)
    assert {(item.kind, item.target, item.body) for item in seen} == set(follow)
    assert await w.store.outbox(limit=10, after=seen[0].id) == seen[1:]
    other = await w.start_node("other")
    taken = await w.store.apply(TakeOutbox(node=other, limit=10))
    assert taken == seen
    assert await w.store.apply(TakeOutbox(node=1, limit=10)) == []
    assert await w.store.apply(TakeOutbox(node=other, limit=10)) == seen
    await w.store.apply(AckOutbox(ids=(seen[0].id,)))
    assert await w.store.outbox(limit=10) == seen[1:]


async def case_dead_letters_are_listed_until_dropped(w: StoreFixture) -> None:
    await w.save(overlap=Overlap.ALLOW)
    runs = [await w.admit_one() for _ in range(3)]
    await w.settle(*runs, status=Status.FAILED, dead_letter=True)
    page = await w.store.list_dead_letters(namespace="default", limit=2)
    assert [letter.execution for letter in page.items] == [runs[2].id, runs[1].id]
    assert page.items[0].reason.code is ReasonCode.TASK_FAILED
    rest = await w.store.list_dead_letters(namespace="default", limit=2, cursor=page.cursor)
    assert [letter.execution for letter in rest.items] == [runs[0].id]
    assert (await w.store.list_dead_letters(namespace="other", limit=5)).items == []
    drop = DropDeadLetters(executions=(runs[0].id, runs[1].id, bytes(16)), now_us=w.tick())
    assert await w.store.apply(drop) == 2
    left = await w.store.list_dead_letters(namespace=None, limit=5)
    assert [letter.execution for letter in left.items] == [runs[2].id]
    assert await w.status(runs[0].id) is Status.FAILED


async def case_user_statements_commit_with_a_settlement(w: StoreFixture) -> None:
    await w.save(overlap=Overlap.QUEUE)
    run, behind = await w.admit_one(), await w.admit_one()
    row = SettleRow(run.id, run.job, run.token, Status.SUCCEEDED, ReasonCode.SUCCEEDED, None, w.tick())

    def settle(*statements: tuple[str, tuple[object, ...]], row: SettleRow = row) -> SettleWith:
        return SettleWith(row=row, statements=statements, node=w.node, now_us=w.now)

    fails = ("insert into there_is_no_such_table values (1)", ())
    with raises(Invalid, "there_is_no_such_table"):
        await w.store.apply(settle(("select 1", ()), fails))
    assert [await w.status(execution.id) for execution in (run, behind)] == [Status.RUNNING, Status.QUEUED]
    for sql in ("commit", "", "-- a comment\n rollback", "drop table gate", "begin"):
        with raises(Invalid):
            await w.store.apply(settle((sql, ())))
    with raises(Invalid):
        await w.store.apply(settle(("select 1", (1, 2, 3))))
    assert (await w.store.apply(settle(fails, row=row._replace(token=row.token - 1)))).settled == []
    assert await w.status(run.id) is Status.RUNNING
    settled = await w.store.apply(settle(("select 1", ()), ("with x as (select 1) select * from x", ())))
    assert (settled.settled, settled.woken) == ([run.id], 1)
    assert (await w.store.apply(settle(fails))).settled == [run.id], "it was already settled, so no statement runs"
    assert (await w.store.apply(settle(fails, row=row._replace(status=Status.FAILED)))).settled == []
    assert [await w.status(execution.id) for execution in (run, behind)] == [Status.SUCCEEDED, Status.READY]


async def case_user_statements_commit_with_a_task(w: StoreFixture) -> None:
    await w.save()
    run = await w.admit_one()
    done = ended_attempt(run, 1, AttemptStatus.SUCCEEDED, task="extract")
    row = AdvanceRow(run.id, run.token, '{"tasks":[{"name":"extract"}]}', (done,))

    def advance(*statements: tuple[str, tuple[object, ...]], row: AdvanceRow = row) -> AdvanceWith:
        return AdvanceWith(row=row, statements=statements)

    fails = ("insert into there_is_no_such_table values (1)", ())
    with raises(Invalid, "there_is_no_such_table"):
        await w.store.apply(advance(("select 1", ()), fails))
    with raises(Invalid):
        await w.store.apply(advance(("commit", ())))
    view = await w.store.execution(run.id)
    assert view is not None
    assert (view.execution.detail, list(view.attempts)) == (None, []), "nothing was written"
    assert not await w.store.apply(advance(fails, row=row._replace(token=row.token - 1)))
    assert await w.store.apply(advance(("select 1", ())))
    assert await w.store.apply(advance(fails)), "it was already recorded, so no statement runs"
    view = await w.store.execution(run.id)
    assert view is not None
    assert view.execution.detail == {"tasks": [{"name": "extract"}]}
    assert [(a.task, a.status) for a in view.attempts] == [("extract", AttemptStatus.SUCCEEDED)]
    assert not await w.store.apply(advance(fails, row=row._replace(token=row.token - 1)))
