"""Hints: what is left for others is told, and what is not is not."""

from chronos.core.config import Overlap
from chronos.core.execution import Status
from chronos.core.job import JobState, UpstreamJob
from chronos.store.commands import (
    Advance,
    AdvanceRow,
    Beat,
    CancelExecution,
    DeleteJob,
    FollowUp,
    Release,
    ReleaseRow,
    Signal,
    Suspend,
    SuspendRow,
)
from chronos.store.contract import Hint
from chronos.testing.conformance.fixture import SECOND, StoreFixture


class _ReceivedHints:
    """What was hinted at since it was asked last."""

    def __init__(self, w: StoreFixture) -> None:
        self._hint = Hint(0)
        w.store.on_hint(self._hear)

    def _hear(self, hint: Hint) -> None:
        self._hint |= hint

    def __call__(self) -> Hint:
        hint, self._hint = self._hint, Hint(0)
        return hint


async def case_own_work_is_no_news(w: StoreFixture) -> None:
    await w.save(overlap=Overlap.QUEUE)
    heard = _ReceivedHints(w)
    await w.start_node("another")
    run = await w.admit_one()
    behind = await w.admit_one()
    await w.store.apply(Advance(rows=(AdvanceRow(run.id, run.token, "{}"),)))
    await w.store.apply(Beat(node=w.node, beat=1, now_us=w.tick()))
    await w.claim()
    await w.wake()
    [lane] = await w.store.lanes()
    settled = await w.settle(run, take=1, take_lanes=(lane,))
    assert settled.taken[0].id == behind.id
    await w.settle(settled.taken[0])
    assert heard() == Hint(0)


async def case_jobs_that_are_saved_or_resumed_are_news(w: StoreFixture) -> None:
    heard = _ReceivedHints(w)
    saved = await w.save()
    assert heard() == Hint.JOBS
    await w.save()
    assert heard() == Hint(0), "the same spec was there already"
    await w.save(description="changed")
    assert Hint.JOBS in heard()
    await w.set_state(saved.id, JobState.PAUSED)
    assert Hint.JOBS | Hint.READY in heard(), "what is held may have made room"
    await w.set_state(saved.id, JobState.ACTIVE)
    assert Hint.JOBS | Hint.READY in heard()
    await w.store.apply(DeleteJob(job=saved.id, now_us=w.tick()))
    assert Hint.CANCEL in heard()


async def case_what_is_left_ready_is_news(w: StoreFixture) -> None:
    saved = await w.save(overlap=Overlap.QUEUE)
    heard = _ReceivedHints(w)
    await w.admit_one(claim=False)
    assert heard() == Hint.READY
    [run] = await w.claim()
    assert heard() == Hint(0)
    await w.trigger(saved.id)
    await w.settle(run)
    assert Hint.READY in heard(), "the one behind it became ready"
    [run] = await w.claim()
    await w.store.apply(Release(rows=(ReleaseRow(run.id, run.token),), now_us=w.tick()))
    assert heard() == Hint.READY
    [run] = await w.claim()
    row = SuspendRow(run.id, run.token, w.now + SECOND, ("go",), 2, 0)
    await w.store.apply(Suspend(rows=(row,), now_us=w.now))
    assert heard() == Hint(0)
    await w.store.apply(Signal(execution=run.id, name="go", payload="1", now_us=w.now))
    assert heard() == Hint.READY
    [run] = await w.claim()
    await w.store.apply(Suspend(rows=(row._replace(token=run.token),), now_us=w.now))
    w.tick(2 * SECOND)
    assert await w.wake() == 1
    assert heard() == Hint.READY


async def case_a_request_to_stop_is_news(w: StoreFixture) -> None:
    await w.save(overlap=Overlap.REPLACE)
    heard = _ReceivedHints(w)
    [run] = await w.admit_next("job", careful=True)
    assert heard() == Hint(0)
    await w.admit_next("job", careful=True)
    assert Hint.CANCEL in heard(), "the first one is asked to make room"
    await w.save("other")
    heard()
    run = await w.admit_one("other")
    assert await w.store.apply(CancelExecution(execution=run.id, now_us=w.tick())) is Status.RUNNING
    assert heard() == Hint.CANCEL


async def case_what_must_follow_is_news(w: StoreFixture) -> None:
    await w.save("up", overlap=Overlap.ALLOW)
    await w.save("alone", overlap=Overlap.ALLOW)
    await w.save("down", after=(UpstreamJob(job="up"),))
    heard = _ReceivedHints(w)
    await w.settle(await w.admit_one("alone"))
    assert heard() == Hint(0)
    await w.settle(await w.admit_one("alone"), follow=(FollowUp("hook", "x", "{}"),))
    assert heard() == Hint.OUTBOX
    await w.settle(await w.admit_one("up"))
    assert heard() == Hint.OUTBOX
