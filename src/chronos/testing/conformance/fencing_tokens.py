"""Fencing tokens grow with every start of a job, in whatever order its executions were created."""

from collections.abc import Sequence

from chronos.core.config import Overlap
from chronos.core.execution import AttemptStatus, Status
from chronos.core.fencing_token import hook_token, start_token
from chronos.core.job import JobState
from chronos.core.reasons import ReasonCode
from chronos.store.commands import CancelExecution, Claimed, Reap, ReapRow, Release, ReleaseRow, Suspend, SuspendRow
from chronos.testing.conformance.fixture import SECOND_US, Run, StoreFixture, ended_attempt

_CLAIMS = 40  # more than fit into one turn


def _assert_growing(runs: Sequence[Run]) -> None:
    tokens = [run.token for run in runs]
    assert tokens == sorted(set(tokens)), tokens


async def _claim_one(fixture: StoreFixture) -> Claimed:
    [claimed] = await fixture.claim()
    return claimed


async def _claim_next_attempt(fixture: StoreFixture, run: Run) -> Claimed:
    """Suspend an execution, wake it and claim its next attempt."""
    row = SuspendRow(run.id, run.token, fixture.now_us, (), 2, 0, None, (ended_attempt(run, 1),))
    assert await fixture.store.apply(Suspend(rows=(row,), now_us=fixture.now_us)) == [run.id]
    assert await fixture.wake() == 1
    return await _claim_one(fixture)


async def case_tokens_grow_when_a_trigger_starts_before_queued_instants(fixture: StoreFixture) -> None:
    """A queue is ordered by instant: the trigger was admitted last, but its earlier instant starts first."""
    job = (await fixture.save(overlap=Overlap.QUEUE)).id
    started: list[Run] = [await fixture.admit_one()]
    late = [await fixture.admit_one() for _ in range(2)]
    triggered = await fixture.trigger(job, scheduled_us=fixture.now_us - 100 * SECOND_US)
    assert {run.status for run in late} == {triggered.status} == {Status.QUEUED}
    for _ in range(3):
        await fixture.settle(started[-1])
        started.append(await _claim_one(fixture))
    assert [run.id for run in started[1:]] == [triggered.id, *(run.id for run in late)]
    _assert_growing(started)
    for run in started[1:-1]:
        assert (await fixture.execution(run.id)).token == run.token


async def case_tokens_grow_when_settle_hands_over_the_next_execution(fixture: StoreFixture) -> None:
    job = (await fixture.save(overlap=Overlap.QUEUE)).id
    started: list[Run] = [await fixture.admit_one()]
    await fixture.admit_one()
    await fixture.trigger(job, scheduled_us=fixture.now_us - 100 * SECOND_US)
    lanes = tuple(await fixture.store.lanes())
    for _ in range(2):
        [taken] = (await fixture.settle(started[-1], take=1, take_lanes=lanes)).started_successors
        started.append(taken)
    _assert_growing(started)


async def case_tokens_grow_with_every_claim(fixture: StoreFixture) -> None:
    """There are more retries, releases and deaths than fit into one turn; the next execution is still higher."""
    job = (await fixture.save(overlap=Overlap.QUEUE)).id
    started: list[Run] = [await fixture.admit_one()]
    queued = await fixture.trigger(job)
    for _ in range(_CLAIMS):
        started.append(await _claim_next_attempt(fixture, started[-1]))
        row = ReleaseRow(started[-1].id, started[-1].token)
        await fixture.store.apply(Release(rows=(row,), now_us=fixture.now_us))
        started.append(await _claim_one(fixture))
    lost = ended_attempt(started[-1], 3, AttemptStatus.LOST)
    dead = ReapRow(started[-1].id, job, started[-1].token, Status.READY, ReasonCode.WORKER_LOST, 4, (lost,))
    assert await fixture.store.apply(Reap(node=fixture.node, beat=0, rows=(dead,), now_us=fixture.now_us)) == [
        started[-1].id
    ]
    await fixture.start_node("other")
    started.append(await _claim_one(fixture))
    await fixture.settle(started[-1])
    started.append(await _claim_one(fixture))
    assert started[-1].id == queued.id
    await fixture.settle(started[-1])
    started.append(await fixture.admit_one())
    _assert_growing(started)


async def case_tokens_grow_after_an_often_claimed_execution_is_canceled(fixture: StoreFixture) -> None:
    for name, overlap in (("queue", Overlap.QUEUE), ("replace", Overlap.REPLACE)):
        job = (await fixture.save(name, overlap=overlap)).id
        started: list[Run] = [*await fixture.admit_next(name, needs_gate_lock=overlap is Overlap.REPLACE)]
        for _ in range(_CLAIMS):
            started.append(await _claim_next_attempt(fixture, started[-1]))
        last = started[-1]
        row = SuspendRow(last.id, last.token, fixture.now_us + SECOND_US, (), 2, 0)
        await fixture.store.apply(Suspend(rows=(row,), now_us=fixture.now_us))
        await fixture.trigger(job)
        if overlap is Overlap.QUEUE:
            assert (
                await fixture.store.apply(CancelExecution(execution=last.id, now_us=fixture.now_us)) is Status.CANCELED
            )
        assert await fixture.status(last.id) is Status.CANCELED
        started.append(await _claim_one(fixture))
        _assert_growing(started)
        await fixture.settle(started[-1])


async def case_tokens_grow_when_a_ready_execution_is_held(fixture: StoreFixture) -> None:
    """A pause queues a ready execution again; a trigger during the pause starts before it."""
    job = (await fixture.save(overlap=Overlap.QUEUE)).id
    ready = await fixture.admit_one(claim=False)
    await fixture.set_state(job, JobState.PAUSED)
    triggered = await fixture.trigger(job)
    first = await _claim_one(fixture)
    assert first.id == triggered.id
    await fixture.settle(first)
    await fixture.set_state(job, JobState.ACTIVE)
    second = await _claim_one(fixture)
    assert second.id == ready.id
    _assert_growing([first, second])


async def case_tokens_grow_when_the_limit_shrinks(fixture: StoreFixture) -> None:
    """An execution that was claimed often is ready again, then queued."""
    await fixture.save(overlap=Overlap.ALLOW, limit=2)
    runs = [await fixture.admit_one(), await fixture.admit_one()]
    often: Run = runs[1]
    for _ in range(_CLAIMS):
        often = await _claim_next_attempt(fixture, often)
    await fixture.store.apply(Release(rows=(ReleaseRow(often.id, often.token),), now_us=fixture.now_us))
    await fixture.save(overlap=Overlap.QUEUE, next_us=fixture.now_us + SECOND_US, description="one at a time")
    assert await fixture.status(often.id) is Status.QUEUED
    await fixture.settle(runs[0])
    again = await _claim_one(fixture)
    assert again.id == often.id
    await fixture.settle(again)
    _assert_growing([runs[0], often, again, await fixture.admit_one()])


async def case_starts_and_hooks_of_a_claim_stay_below_the_next_one(fixture: StoreFixture) -> None:
    job = (await fixture.save(overlap=Overlap.QUEUE)).id
    first = await fixture.admit_one()
    await fixture.trigger(job)
    again = await _claim_next_attempt(fixture, first)
    await fixture.settle(again)
    after = await _claim_one(fixture)
    tokens = [
        *(start_token(first.token, starts) for starts in (0, 1, 4_094, 9_999)),
        *(start_token(again.token, starts) for starts in (0, 1, 4_094, 9_999)),
        hook_token(again.token),
        *(start_token(after.token, starts) for starts in (0, 1)),
    ]
    assert tokens == sorted(tokens)
    assert hook_token(first.token) < again.token


async def case_tokens_of_overlapping_executions_grow_within_each(fixture: StoreFixture) -> None:
    await fixture.save(overlap=Overlap.ALLOW, limit=1)
    first = await fixture.admit_one()
    second = await fixture.admit_one()
    again = await _claim_next_attempt(fixture, first)
    assert again.token > first.token
    await fixture.settle(again)
    claimed = await _claim_one(fixture)
    assert claimed.id == second.id
    assert claimed.token > second.token
