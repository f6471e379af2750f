"""G2: every instant has a record or is covered by a recorded span."""

import pytest

from tests.support.engine_world import World, in_world
from tests.support.guarantee_checks import list_instants, list_recorded_instants


@pytest.mark.parametrize("recovery", ["last", "all", "skip", "compressed"])
@in_world
async def test_g2_no_silent_miss(world: World, recovery: str) -> None:
    """Crashes, gaps, a pause, an update, a lost connection: every instant is recorded once, with a reason."""
    world.work("work", takes=3)
    await world.job("work", schedule="@every 5s", recovery=recovery)
    one, two = await world.node(), await world.node()
    await world.reach(22)
    await one.crash()
    await world.reach(37)
    await two.crash()
    await world.reach(142)  # no node runs
    three = await world.node()
    await world.reach(161)
    await world.switch("pause", "work")
    await world.reach(183)
    await world.switch("resume", "work")
    three.link.cut = True
    await world.reach(241)
    three.link.cut = False
    await world.reach(260)
    await world.job("work", schedule="@every 5s", recovery=recovery, priority=7)
    await world.reach(302)
    records = await world.records("work")
    assert list_recorded_instants(world, records, 5) == list_instants(5, 300, 5)
    ended = [record for record in records if record.status.final]
    assert all(record.reason is not None and record.reason.message for record in ended)
