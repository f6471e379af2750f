"""Fencing tokens grow with every start of a job, in whatever order its executions were created."""

from collections.abc import Sequence

from chronos.core.config import Overlap
from chronos.core.execution import AttemptStatus, Status
from chronos.core.fencing_token import hook_token, start_token
from chronos.core.job import JobState
from chronos.core.reasons import ReasonCode
from chronos.store.commands import CancelExecution, Claimed, Reap, ReapRow, Release, ReleaseRow, Suspend, SuspendRow
from chronos.testing.conformance.fixture import SECOND, Run, StoreFixture, ended_attempt

_CLAIMS = 40  # more than fit into one turn


def _assert_growing(runs: Sequence[Run]) -> None:
    tokens = [run.token for run in runs]
    assert tokens == sorted(set(tokens)), tokens


async def _claim_one(w: StoreFixture) -> Claimed:
    [claimed] = await w.claim()
    return claimed


async def _claim_next_attempt(w: StoreFixture, run: Run) -> Claimed:
    """Suspend an execution, wake it and claim its next attempt."""
    row = SuspendRow(run.id, run.token, w.now, (), 2, 0, None, (ended_attempt(run, 1),))
    assert await w.store.apply(Suspend(rows=(row,), now_us=w.now)) == [run.id]
    assert await w.wake() == 1
    return await _claim_one(w)


async def case_tokens_grow_when_a_trigger_starts_before_queued_instants(w: StoreFixture) -> None:
    """A queue is ordered by instant: the trigger was admitted last, but its earlier instant starts first."""
    job = (await w.save(overlap=Overlap.QUEUE)).id
    started: list[Run] = [await w.admit_one()]
    late = [await w.admit_one() for _ in range(2)]
    triggered = await w.trigger(job, scheduled_us=w.now - 100 * SECOND)
    assert {run.status for run in late} == {triggered.status} == {Status.QUEUED}
    for _ in range(3):
        await w.settle(started[-1])
        started.append(await _claim_one(w))
    assert [run.id for run in started[1:]] == [triggered.id, *(run.id for run in late)]
    _assert_growing(started)
    for run in started[1:-1]:
        assert (await w.execution(run.id)).token == run.token


async def case_tokens_grow_when_settle_hands_over_the_next_execution(w: StoreFixture) -> None:
    job = (await w.save(overlap=Overlap.QUEUE)).id
    started: list[Run] = [await w.admit_one()]
    await w.admit_one()
    await w.trigger(job, scheduled_us=w.now - 100 * SECOND)
    lanes = tuple(await w.store.lanes())
    for _ in range(2):
        [taken] = (await w.settle(started[-1], take=1, take_lanes=lanes)).taken
        started.append(taken)
    _assert_growing(started)


async def case_tokens_grow_with_every_claim(w: StoreFixture) -> None:
    """There are more retries, releases and deaths than fit into one turn; the next execution is still higher."""
    job = (await w.save(overlap=Overlap.QUEUE)).id
    started: list[Run] = [await w.admit_one()]
    queued = await w.trigger(job)
    for _ in range(_CLAIMS):
        started.append(await _claim_next_attempt(w, started[-1]))
        row = ReleaseRow(started[-1].id, started[-1].token)
        await w.store.apply(Release(rows=(row,), now_us=w.now))
        started.append(await _claim_one(w))
    lost = ended_attempt(started[-1], 3, AttemptStatus.LOST)
    dead = ReapRow(started[-1].id, job, started[-1].token, Status.READY, ReasonCode.WORKER_LOST, 4, (lost,))
    assert await w.store.apply(Reap(node=w.node, beat=0, rows=(dead,), now_us=w.now)) == [started[-1].id]
    await w.start_node("other")
    started.append(await _claim_one(w))
    await w.settle(started[-1])
    started.append(await _claim_one(w))
    assert started[-1].id == queued.id
    await w.settle(started[-1])
    started.append(await w.admit_one())
    _assert_growing(started)


async def case_tokens_grow_after_an_often_claimed_execution_is_canceled(w: StoreFixture) -> None:
    for name, overlap in (("queue", Overlap.QUEUE), ("replace", Overlap.REPLACE)):
        job = (await w.save(name, overlap=overlap)).id
        started: list[Run] = [*await w.admit_next(name, needs_gate_lock=overlap is Overlap.REPLACE)]
        for _ in range(_CLAIMS):
            started.append(await _claim_next_attempt(w, started[-1]))
        last = started[-1]
        row = SuspendRow(last.id, last.token, w.now + SECOND, (), 2, 0)
        await w.store.apply(Suspend(rows=(row,), now_us=w.now))
        await w.trigger(job)
        if overlap is Overlap.QUEUE:
            assert await w.store.apply(CancelExecution(execution=last.id, now_us=w.now)) is Status.CANCELED
        assert await w.status(last.id) is Status.CANCELED
        started.append(await _claim_one(w))
        _assert_growing(started)
        await w.settle(started[-1])


async def case_tokens_grow_when_a_ready_execution_is_held(w: StoreFixture) -> None:
    """A pause queues a ready execution again; a trigger during the pause starts before it."""
    job = (await w.save(overlap=Overlap.QUEUE)).id
    ready = await w.admit_one(claim=False)
    await w.set_state(job, JobState.PAUSED)
    triggered = await w.trigger(job)
    first = await _claim_one(w)
    assert first.id == triggered.id
    await w.settle(first)
    await w.set_state(job, JobState.ACTIVE)
    second = await _claim_one(w)
    assert second.id == ready.id
    _assert_growing([first, second])


async def case_tokens_grow_when_the_limit_shrinks(w: StoreFixture) -> None:
    """An execution that was claimed often is ready again, then queued."""
    await w.save(overlap=Overlap.ALLOW, limit=2)
    runs = [await w.admit_one(), await w.admit_one()]
    often: Run = runs[1]
    for _ in range(_CLAIMS):
        often = await _claim_next_attempt(w, often)
    await w.store.apply(Release(rows=(ReleaseRow(often.id, often.token),), now_us=w.now))
    await w.save(overlap=Overlap.QUEUE, next_us=w.now + SECOND, description="one at a time")
    assert await w.status(often.id) is Status.QUEUED
    await w.settle(runs[0])
    again = await _claim_one(w)
    assert again.id == often.id
    await w.settle(again)
    _assert_growing([runs[0], often, again, await w.admit_one()])


async def case_starts_and_hooks_of_a_claim_stay_below_the_next_one(w: StoreFixture) -> None:
    job = (await w.save(overlap=Overlap.QUEUE)).id
    first = await w.admit_one()
    await w.trigger(job)
    again = await _claim_next_attempt(w, first)
    await w.settle(again)
    after = await _claim_one(w)
    tokens = [
        *(start_token(first.token, starts) for starts in (0, 1, 4_094, 9_999)),
        *(start_token(again.token, starts) for starts in (0, 1, 4_094, 9_999)),
        hook_token(again.token),
        *(start_token(after.token, starts) for starts in (0, 1)),
    ]
    assert tokens == sorted(tokens)
    assert hook_token(first.token) < again.token


async def case_tokens_of_overlapping_executions_grow_within_each(w: StoreFixture) -> None:
    await w.save(overlap=Overlap.ALLOW, limit=1)
    first = await w.admit_one()
    second = await w.admit_one()
    again = await _claim_next_attempt(w, first)
    assert again.token > first.token
    await w.settle(again)
    claimed = await _claim_one(w)
    assert claimed.id == second.id
    assert claimed.token > second.token
