"""G14: the full schedule runs again after faults heal."""

import pytest

from chronos.core.execution import Status
from tests.support.engine_world import World, in_world
from tests.support.guarantee_checks import list_instants, list_recorded_instants


@pytest.mark.parametrize("fault", ["cut", "frozen", "skewed", "crashed"])
@in_world
async def test_g14_liveness(world: World, fault: str) -> None:
    """No node can work for ten minutes. A minute after that the full schedule runs."""
    works = [world.work(f"w{n}", takes=1) for n in range(5)]
    for _ in range(2):
        await world.node()
    for work in works:
        await world.job(work.name, schedule="@every 10s", recovery="skip")
    await world.reach(45)
    for node in list(world.nodes):
        match fault:
            case "cut":
                node.link.cut = True
            case "frozen":
                node.link.freeze()
            case "skewed":
                node.link.skew_s = -30
            case _:
                await node.crash()
    await world.reach(645)
    for node in list(world.nodes):
        node.link.cut, node.link.skew_s = False, 0
        node.link.thaw()
        if fault == "crashed":
            await world.node()
    await world.reach(705)
    healed_s = world.passed_s
    await world.advance(60)
    for work in works:
        starts = [start for start in work.starts if start >= healed_s]
        assert starts == pytest.approx(list_instants(710, 760, 10), abs=1.1)
    assert await world.count(Status.RUNNING) <= len(works)
    for work in works:
        assert list_recorded_instants(world, await world.records(work.name), 10) == list_instants(10, 760, 10)
