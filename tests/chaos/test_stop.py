"""SIGTERM in the middle of fifty running commands."""

import asyncio
import time
from pathlib import Path

import pytest

from chronos.core.execution import AttemptStatus, Status
from tests.chaos.history import Kind
from tests.support.chaos_nodes import Bed, on_bed

HALF = 25
SLOW_S, GRACE_S, SILENCE_S = 120.0, 8.0, 60.0
pytestmark = pytest.mark.chaos


@pytest.mark.parametrize("engine", ["sqlite", "postgres"])
def test_half_of_them_finish_and_half_are_given_back(
    tmp_path: Path, engine: str, request: pytest.FixtureRequest
) -> None:
    async def case(bed: Bed) -> None:
        await bed.start(grace_s=GRACE_S, heartbeat_timeout_s=SILENCE_S)
        await bed.save("slow", every_s=None, first_s=SLOW_S, again_s=1, overlap="allow")
        await bed.save("quick", every_s=None, first_s=None, overlap="allow")
        await bed.save("later", every_s=5, first_s=0.2, in_s=3_600)
        slow = {await bed.trigger("slow", f"slow-{number}") for number in range(HALF)}
        await bed.until(lambda: len(bed.running()) == HALF, "the slow half runs")
        quick = {await bed.trigger("quick", f"quick-{number}") for number in range(HALF)}
        await bed.until(lambda: len(bed.runs()) == 2 * HALF, "all of them run")
        began_s = time.monotonic()
        stopping = asyncio.create_task(bed.stop())
        await asyncio.sleep(0)  # it is told
        bed.open_gate()
        assert await stopping == 0
        assert time.monotonic() - began_s < SLOW_S / 2
        assert bed.running() == []
        records = {record.id: record for record in (await bed.records())[0]}
        assert {records[id_].status for id_ in quick} == {Status.SUCCEEDED}
        assert {(records[id_].status, records[id_].attempt) for id_ in slow} == {(Status.READY, 1)}
        assert await bed.store.verify() == []
        await bed.start(heartbeat_timeout_s=SILENCE_S)
        await bed.until(lambda: len(bed.runs()) == 3 * HALF, "the others go on")
        assert await bed.judge(least={Kind.TERM: 1}, least_hit=2 * HALF) == []
        tries = [[(one.number, one.status) for one in await bed.attempts(id_)] for id_ in slow]
        assert tries == [[(1, AttemptStatus.SUCCEEDED)]] * HALF
        assert len(bed.runs()) == 3 * HALF

    url = f"sqlite:///{tmp_path}/chronos.db" if engine == "sqlite" else request.getfixturevalue("postgres_url")
    on_bed(tmp_path, url, case)
