"""G8: executions start on time in a healthy system."""

import pytest

from tests.support.engine_world import World, in_world


@in_world
async def test_g8_timely(world: World) -> None:
    works = [world.work(f"w{n}") for n in range(20)]
    for _ in range(3):
        await world.node()
    for work in works:
        await world.job(work.name, schedule="@every 10s")
    await world.reach(41)
    assert all(work.starts == pytest.approx([10, 20, 30, 40], abs=0.01) for work in works)
    number = world.nodes[0].number
    await world.nodes[0].crash()
    await world.reach(91)
    for work in works:
        late = [start - at for start, at in zip(work.starts[4:], (50, 60, 70, 80, 90), strict=True)]
        assert all(0 <= seconds <= 5 for seconds in late)
        assert late[-1] == pytest.approx(0, abs=0.01), "its share belongs to others now"
    assert number not in {run.node for work in works for run in (await world.runs(work.name))[4:]}
