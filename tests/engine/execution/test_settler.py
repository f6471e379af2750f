"""The settler: which outcomes it holds, and which of two outcomes of one execution is sent."""

from chronos.core.execution import Status
from chronos.core.reasons import ReasonCode
from chronos.store.commands import SettleRow
from tests.support.engine_world import World, in_world


@in_world
async def test_of_two_outcomes_of_one_execution_the_later_claim_wins(world: World) -> None:
    """This node claimed the execution again while its first outcome was still to be settled."""
    world.work("work", takes=1_000)
    await world.job("work", schedule="now")
    node = await world.node()
    await world.advance(1)
    [run] = await world.runs("work")
    context = node.engine._context
    entry = node.engine._catalog.newest(run.job)
    assert entry is not None
    now_us = world.clock.now_us()
    node.link.freeze()
    assert not context.settler.holds(run.id)
    for token, status in ((run.token, Status.SUCCEEDED), (run.token - 1, Status.FAILED)):
        code = ReasonCode.SUCCEEDED if status is Status.SUCCEEDED else ReasonCode.TASK_FAILED
        context.settler.add(SettleRow(run.id, run.job, token, status, code, None, now_us), entry)
        assert context.settler.holds(run.id)
    node.link.thaw()
    await context.settler.drain()
    assert not context.settler.holds(run.id)
    [run] = await world.runs("work")
    assert run.status is Status.SUCCEEDED
