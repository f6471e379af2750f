"""A node that stands still for longer than its heartbeat timeout, and then goes on as if nothing had happened."""

from pathlib import Path

import pytest

from chronos.clock import SystemClock
from chronos.core.execution import AttemptStatus, Execution, Status
from chronos.core.reasons import ReasonCode
from chronos.store.commands import Settle, SettleRow
from tests.chaos.checker import Verdict
from tests.chaos.history import Kind
from tests.support.chaos_nodes import Bed, on_bed

JOBS = 16
pytestmark = pytest.mark.chaos


async def settled_late(bed: Bed, lost: list[Execution]) -> list[bytes]:
    """Send the outcomes that a frozen node still had under way; gives those that were accepted."""
    now_us = SystemClock().now_us()
    rows = [SettleRow(run.id, run.job, run.token, Status.FAILED, ReasonCode.TASK_FAILED, None, now_us) for run in lost]
    return (await bed.store.apply(Settle(rows=tuple(rows), node=lost[0].node or 0, now_us=now_us))).settled


async def lost_of(bed: Bed, held: list[Execution]) -> list[Execution]:
    """Those of some executions that were taken from their node."""
    return [run for run in held if AttemptStatus.LOST in {one.status for one in await bed.attempts(run.id)}]


@pytest.mark.parametrize("whole", [False, True], ids=["the node alone", "with all that it started"])
def test_its_work_is_taken_over_and_its_late_outcomes_are_refused(
    tmp_path: Path, postgres_url: str, whole: bool
) -> None:
    async def case(bed: Bed) -> None:
        for name in ("a", "b"):
            await bed.start(name)
        for number in range(JOBS):
            await bed.save(f"job-{number}", every_s=4, first_s=5, again_s=1, in_s=2 + number / 4)
        for name in ("a", "b", "a"):
            await bed.until(lambda: len(bed.running()) >= JOBS // 2, "enough of them run")
            before = {node.number for node in await bed.store.nodes() if node.name == name}
            held = await bed.store.held_by(max(before))

            async def is_taken_over(held: list[Execution] = held) -> bool:
                ended = {run.execution for run in bed.runs() if run.end_s is not None}
                late = {run.id for run in await lost_of(bed, held)}
                return bool(late if whole else late & ended)

            await bed.freeze(name, is_taken_over, "its work is taken over", whole=whole)
            lost = await lost_of(bed, held)
            assert await settled_late(bed, lost) == []

            async def works_again(name: str = name, before: set[int] = before) -> bool:
                anew = {node.number for node in await bed.store.nodes() if node.name == name} - before
                records, _ = await bed.records()
                return any(record.node in anew and record.status is Status.SUCCEEDED for record in records)

            await bed.until(works_again, "it is there anew, and works")
        findings = await bed.judge(least={Kind.FREEZE: 3}, least_hit=JOBS)
        assert [finding for finding in findings if finding.verdict is not Verdict.ZOMBIE] == []
        tokens = {record.id: record.token for record in (await bed.records())[0]}
        in_vain = [run for run in bed.runs() if run.end_s is not None and run.token != tokens[run.execution]]
        assert in_vain or whole, "some came to their end too late"
        told = [line["error"] for node in bed.nodes.values() for line in node.log("ProblemReported")]
        assert any("killed" in error or "too late" in error for error in told), told

    on_bed(tmp_path, postgres_url, case)
