"""G10: a long outage never floods the system."""

from typing import Any

import pytest

from chronos.core.execution import Cause, Status
from tests.support.engine_world import World, in_world


@pytest.mark.parametrize(
    ("recovery", "ran", "left"),
    [
        ("last", 1, 3),
        ("skip", 0, 3),
        ({"strategy": "bounded", "max_count": 50}, 50, 3),
        ({"strategy": "bounded", "max_count": 1000, "max_age": "1m"}, 60, 3),
        ("compressed", 1, 3),
    ],
)
@in_world
async def test_g10_bounded_catch_up(world: World, recovery: Any, ran: int, left: int) -> None:
    """A year without a node, a job for each second of it: a few runs, and one record for the rest."""
    year = 365 * 86_400
    work, other = world.work("work"), world.work("other")
    await world.job("work", schedule="@every 1s", recovery=recovery, overlap="allow")
    await world.job("other", schedule="@every 1h", recovery="last")
    await world.advance(year + 0.5)
    await world.node()
    await world.advance(left)
    [span] = await world.spans("work")
    recovered = [run for run in await world.runs("work") if run.cause is Cause.RECOVERY]
    assert abs(len(recovered) - ran) <= 1
    assert span.count + len(recovered) == year
    assert span.status is Status.MISSED
    assert len(work.starts) == len(recovered) + left
    assert len(other.starts) == 1
