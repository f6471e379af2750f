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
from chronos.testing.conformance.fixture import SECOND_US, StoreFixture


class _ReceivedHints:
    """Collects the hints of a store until they are taken."""

    def __init__(self, fixture: StoreFixture) -> None:
        self._hint = Hint(0)
        fixture.store.on_hint(self._receive)

    def _receive(self, hint: Hint) -> None:
        self._hint |= hint

    def take(self) -> Hint:
        hint, self._hint = self._hint, Hint(0)
        return hint


async def case_work_of_the_node_itself_gives_no_hint(fixture: StoreFixture) -> None:
    await fixture.save(overlap=Overlap.QUEUE)
    hints = _ReceivedHints(fixture)
    await fixture.start_node("another")
    run = await fixture.admit_one()
    behind = await fixture.admit_one()
    await fixture.store.apply(Advance(rows=(AdvanceRow(run.id, run.token, "{}"),)))
    await fixture.store.apply(Beat(node=fixture.node, beat=1, now_us=fixture.tick()))
    await fixture.claim()
    await fixture.wake()
    [lane] = await fixture.store.lanes()
    settled = await fixture.settle(run, take=1, take_lanes=(lane,))
    assert settled.started_successors[0].id == behind.id
    await fixture.settle(settled.started_successors[0])
    assert hints.take() == Hint(0)


async def case_saving_or_resuming_a_job_gives_a_hint(fixture: StoreFixture) -> None:
    hints = _ReceivedHints(fixture)
    saved = await fixture.save()
    assert hints.take() == Hint.JOBS
    await fixture.save()
    assert hints.take() == Hint(0), "nothing was changed"
    await fixture.save(description="changed")
    assert Hint.JOBS in hints.take()
    await fixture.set_state(saved.id, JobState.PAUSED)
    assert Hint.JOBS | Hint.READY in hints.take(), "held executions may have freed a key"
    await fixture.set_state(saved.id, JobState.ACTIVE)
    assert Hint.JOBS | Hint.READY in hints.take()
    await fixture.store.apply(DeleteJob(job=saved.id, now_us=fixture.tick()))
    assert Hint.CANCEL in hints.take()


async def case_ready_work_gives_a_hint(fixture: StoreFixture) -> None:
    saved = await fixture.save(overlap=Overlap.QUEUE)
    hints = _ReceivedHints(fixture)
    await fixture.admit_one(claim=False)
    assert hints.take() == Hint.READY
    [run] = await fixture.claim()
    assert hints.take() == Hint(0)
    await fixture.trigger(saved.id)
    await fixture.settle(run)
    assert Hint.READY in hints.take(), "the queued execution became ready"
    [run] = await fixture.claim()
    await fixture.store.apply(Release(rows=(ReleaseRow(run.id, run.token),), now_us=fixture.tick()))
    assert hints.take() == Hint.READY
    [run] = await fixture.claim()
    row = SuspendRow(run.id, run.token, fixture.now_us + SECOND_US, ("go",), 2, 0)
    await fixture.store.apply(Suspend(rows=(row,), now_us=fixture.now_us))
    assert hints.take() == Hint(0)
    await fixture.store.apply(Signal(execution=run.id, name="go", payload="1", now_us=fixture.now_us))
    assert hints.take() == Hint.READY
    [run] = await fixture.claim()
    await fixture.store.apply(Suspend(rows=(row._replace(token=run.token),), now_us=fixture.now_us))
    fixture.tick(2 * SECOND_US)
    assert await fixture.wake() == 1
    assert hints.take() == Hint.READY


async def case_a_cancel_request_gives_a_hint(fixture: StoreFixture) -> None:
    await fixture.save(overlap=Overlap.REPLACE)
    hints = _ReceivedHints(fixture)
    [run] = await fixture.admit_next("job", needs_gate_lock=True)
    assert hints.take() == Hint(0)
    await fixture.admit_next("job", needs_gate_lock=True)
    assert Hint.CANCEL in hints.take(), "the first execution should stop"
    await fixture.save("other")
    hints.take()
    run = await fixture.admit_one("other")
    assert await fixture.store.apply(CancelExecution(execution=run.id, now_us=fixture.tick())) is Status.RUNNING
    assert hints.take() == Hint.CANCEL


async def case_outbox_items_give_a_hint(fixture: StoreFixture) -> None:
    await fixture.save("up", overlap=Overlap.ALLOW)
    await fixture.save("alone", overlap=Overlap.ALLOW)
    await fixture.save("down", after=(UpstreamJob(job="up"),))
    hints = _ReceivedHints(fixture)
    await fixture.settle(await fixture.admit_one("alone"))
    assert hints.take() == Hint(0)
    await fixture.settle(await fixture.admit_one("alone"), follow=(FollowUp("hook", "x", "{}"),))
    assert hints.take() == Hint.OUTBOX
    await fixture.settle(await fixture.admit_one("up"))
    assert hints.take() == Hint.OUTBOX
