"""Hints: a write announces the work that it leaves for other nodes, and nothing else."""

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
    """Collects the hints of a store until they are taken."""

    def __init__(self, w: StoreFixture) -> None:
        self._hint = Hint(0)
        w.store.on_hint(self._receive)

    def _receive(self, hint: Hint) -> None:
        self._hint |= hint

    def take(self) -> Hint:
        hint, self._hint = self._hint, Hint(0)
        return hint


async def case_work_of_the_node_itself_gives_no_hint(w: StoreFixture) -> None:
    await w.save(overlap=Overlap.QUEUE)
    hints = _ReceivedHints(w)
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
    assert hints.take() == Hint(0)


async def case_saving_or_resuming_a_job_gives_a_hint(w: StoreFixture) -> None:
    hints = _ReceivedHints(w)
    saved = await w.save()
    assert hints.take() == Hint.JOBS
    await w.save()
    assert hints.take() == Hint(0), "nothing was changed"
    await w.save(description="changed")
    assert Hint.JOBS in hints.take()
    await w.set_state(saved.id, JobState.PAUSED)
    assert Hint.JOBS | Hint.READY in hints.take(), "held executions may have freed a key"
    await w.set_state(saved.id, JobState.ACTIVE)
    assert Hint.JOBS | Hint.READY in hints.take()
    await w.store.apply(DeleteJob(job=saved.id, now_us=w.tick()))
    assert Hint.CANCEL in hints.take()


async def case_ready_work_gives_a_hint(w: StoreFixture) -> None:
    saved = await w.save(overlap=Overlap.QUEUE)
    hints = _ReceivedHints(w)
    await w.admit_one(claim=False)
    assert hints.take() == Hint.READY
    [run] = await w.claim()
    assert hints.take() == Hint(0)
    await w.trigger(saved.id)
    await w.settle(run)
    assert Hint.READY in hints.take(), "the queued execution became ready"
    [run] = await w.claim()
    await w.store.apply(Release(rows=(ReleaseRow(run.id, run.token),), now_us=w.tick()))
    assert hints.take() == Hint.READY
    [run] = await w.claim()
    row = SuspendRow(run.id, run.token, w.now + SECOND, ("go",), 2, 0)
    await w.store.apply(Suspend(rows=(row,), now_us=w.now))
    assert hints.take() == Hint(0)
    await w.store.apply(Signal(execution=run.id, name="go", payload="1", now_us=w.now))
    assert hints.take() == Hint.READY
    [run] = await w.claim()
    await w.store.apply(Suspend(rows=(row._replace(token=run.token),), now_us=w.now))
    w.tick(2 * SECOND)
    assert await w.wake() == 1
    assert hints.take() == Hint.READY


async def case_a_cancel_request_gives_a_hint(w: StoreFixture) -> None:
    await w.save(overlap=Overlap.REPLACE)
    hints = _ReceivedHints(w)
    [run] = await w.admit_next("job", needs_gate_lock=True)
    assert hints.take() == Hint(0)
    await w.admit_next("job", needs_gate_lock=True)
    assert Hint.CANCEL in hints.take(), "the first execution should stop"
    await w.save("other")
    hints.take()
    run = await w.admit_one("other")
    assert await w.store.apply(CancelExecution(execution=run.id, now_us=w.tick())) is Status.RUNNING
    assert hints.take() == Hint.CANCEL


async def case_outbox_items_give_a_hint(w: StoreFixture) -> None:
    await w.save("up", overlap=Overlap.ALLOW)
    await w.save("alone", overlap=Overlap.ALLOW)
    await w.save("down", after=(UpstreamJob(job="up"),))
    hints = _ReceivedHints(w)
    await w.settle(await w.admit_one("alone"))
    assert hints.take() == Hint(0)
    await w.settle(await w.admit_one("alone"), follow=(FollowUp("hook", "x", "{}"),))
    assert hints.take() == Hint.OUTBOX
    await w.settle(await w.admit_one("up"))
    assert hints.take() == Hint.OUTBOX
