"""The two shortest of the tests with real processes, so that every run of the suite has some."""

import asyncio
from pathlib import Path

import pytest

from chronos.core.execution import AttemptStatus, Status
from tests.chaos.history import Kind
from tests.support.chaos_nodes import Bed, on_bed

SILENCE_S = 60.0  # of a node that lives, and must not be taken for dead
pytestmark = pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="looks for processes in /proc")


def test_a_node_that_is_killed_loses_nothing(tmp_path: Path) -> None:
    async def case(bed: Bed) -> None:
        await bed.start(heartbeat_timeout_s=SILENCE_S)
        for number in range(4):
            await bed.save(f"job-{number}", every_s=60, first_s=60, again_s=0.1, in_s=0.2)
        await bed.until(lambda: len(bed.running()) == 4, "all of them run")
        await bed.kill()
        await bed.start(heartbeat_timeout_s=2)
        await bed.until(lambda: len(bed.runs()) >= 8, "each is tried again")
        assert await bed.judge(least={Kind.KILL: 1}, least_hit=4) == []

    on_bed(tmp_path, f"sqlite:///{tmp_path}/chronos.db", case)


def test_a_node_that_is_stopped_gives_back_what_does_not_end_in_time(tmp_path: Path) -> None:
    async def case(bed: Bed) -> None:
        await bed.start(grace_s=4, heartbeat_timeout_s=SILENCE_S)
        for name, first_s in (("slow", 60), ("quick", None)):
            await bed.save(name, every_s=None, first_s=first_s, again_s=0.1)
        slow = await bed.trigger("slow", "slow")
        await bed.until(lambda: len(bed.runs()) == 1, "the slow one runs")
        quick = await bed.trigger("quick", "quick")
        await bed.until(lambda: len(bed.runs()) == 2, "both run")
        stopping = asyncio.create_task(bed.stop())
        await asyncio.sleep(0)  # it is told
        bed.open_gate()
        assert await stopping == 0
        assert bed.running() == []
        records = {record.id: record for record in (await bed.records())[0]}
        assert records[quick].status is Status.SUCCEEDED
        assert (records[slow].status, records[slow].attempt) == (Status.READY, 1)
        await bed.start(heartbeat_timeout_s=SILENCE_S)
        assert await bed.judge(least={Kind.TERM: 1}, least_hit=2) == []
        assert [(attempt.number, attempt.status) for attempt in await bed.attempts(slow)] == [
            (1, AttemptStatus.SUCCEEDED)
        ]

    on_bed(tmp_path, f"sqlite:///{tmp_path}/chronos.db", case)
