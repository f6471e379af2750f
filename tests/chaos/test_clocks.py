"""Somebody sets a node's clock while it works."""

import asyncio
from pathlib import Path

import pytest

from chronos.core.execution import Status
from tests.chaos.checker import Verdict
from tests.chaos.history import Kind
from tests.support.chaos_nodes import Bed, on_bed

HOUR_S = 3_600.0
pytestmark = pytest.mark.chaos


def test_one_of_two_clocks_is_set_and_the_other_node_keeps_the_schedule(tmp_path: Path, postgres_url: str) -> None:
    async def case(bed: Bed) -> None:
        for name in ("a", "b"):
            await bed.start(name)
        for number in range(10):
            await bed.save(f"job-{number}", every_s=2, first_s=0.5, in_s=1 + number / 5, overlap="allow")
        await bed.until(lambda: len(bed.runs()) >= 20, "they run")
        for ahead_s in (HOUR_S, -HOUR_S):
            bed.set_clock("a", ahead_s)
            await bed.until(lambda: bool(bed.nodes["a"].log("ClockJumped")), "it is noticed")
            before = len(bed.runs())
            await asyncio.sleep(6)
            assert len(bed.runs()) >= before + 20, "the other node keeps the schedule"
            bed.set_clock("a", 0)
            number = max(node.number for node in await bed.store.nodes() if node.name == "a")
            known = {record.id for record in (await bed.records())[0] if record.node == number}

            async def works_again(number: int = number, known: set[bytes] = known) -> bool:
                records, _ = await bed.records()
                return any(one.node == number and one.id not in known for one in records)

            await bed.until(works_again, "it works again, under its old number")
        assert await bed.judge(least={Kind.JUMP: 4}, least_hit=0) == []

    on_bed(tmp_path, postgres_url, case)


def test_an_only_clock_goes_forth_and_back(tmp_path: Path) -> None:
    """Forth is a gap, dealt with as the job's recovery says; back, nothing runs again."""

    async def case(bed: Bed) -> None:
        node = await bed.start()
        for number in range(6):
            await bed.save(f"job-{number}", every_s=2, first_s=0.3, in_s=1 + number / 3, recovery="last")
        await bed.until(lambda: len(bed.runs()) >= 12, "they run")
        bed.set_clock("a", HOUR_S)
        await bed.until(lambda: len(node.log("GapFound")) == 6, "the gap is found")
        before = len(bed.runs())
        await bed.until(lambda: len(bed.runs()) >= before + 12, "they run on")
        bed.set_clock("a", 0)
        await asyncio.sleep(1)
        before = len(bed.runs())
        await asyncio.sleep(4)
        assert len(bed.runs()) == before, "what ran does not run again"
        findings = await bed.judge(least={Kind.JUMP: 2}, least_hit=0)
        assert [one for one in findings if one.verdict is not Verdict.EARLY] == []  # by a clock that was right
        records, spans = await bed.records()
        assert {record.status for record in records} <= {Status.SUCCEEDED, Status.SKIPPED}
        assert sum(span.count for span in spans) >= 6 * (HOUR_S / 2 - 10)

    on_bed(tmp_path, f"sqlite:///{tmp_path}/chronos.db", case)
