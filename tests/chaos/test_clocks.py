"""The clock of a running node is set."""

import asyncio
from pathlib import Path

import pytest

from chronos.core.execution import Status
from tests.chaos.history import Kind
from tests.support.chaos_nodes import Cluster, run_on_cluster
from tests.support.verdicts import Verdict

HOUR_S = 3_600.0
pytestmark = pytest.mark.chaos


def test_the_other_node_keeps_the_schedule_while_one_clock_is_wrong(tmp_path: Path, postgres_url: str) -> None:
    async def case(cluster: Cluster) -> None:
        for name in ("a", "b"):
            await cluster.start(name)
        for number in range(10):
            await cluster.save_job(f"job-{number}", every_s=2, first_s=0.5, in_s=1 + number / 5, overlap="allow")
        await cluster.wait_until(lambda: len(cluster.runs()) >= 20, "the jobs run")
        for ahead_s in (HOUR_S, -HOUR_S):
            cluster.set_clock("a", ahead_s)
            await cluster.wait_until(lambda: bool(cluster.nodes["a"].log("ClockJumped")), "the jump is noticed")
            before = len(cluster.runs())
            await asyncio.sleep(6)
            assert len(cluster.runs()) >= before + 20, "the other node keeps the schedule"
            cluster.set_clock("a", 0)
            number = max(node.number for node in await cluster.store.nodes() if node.name == "a")
            known = {record.id for record in (await cluster.records())[0] if record.node == number}

            async def works_again(number: int = number, known: set[bytes] = known) -> bool:
                records, _ = await cluster.records()
                return any(record.node == number and record.id not in known for record in records)

            await cluster.wait_until(works_again, "the node works again, with its old number")
        assert await cluster.check(min_faults={Kind.JUMP: 4}, min_in_flight=0) == []

    run_on_cluster(tmp_path, postgres_url, case)


def test_a_single_node_survives_a_clock_set_forward_and_back(tmp_path: Path) -> None:
    """Forward makes a gap, which the recovery of the job handles. Back repeats nothing."""

    async def case(cluster: Cluster) -> None:
        node = await cluster.start()
        for number in range(6):
            await cluster.save_job(f"job-{number}", every_s=2, first_s=0.3, in_s=1 + number / 3, recovery="last")
        await cluster.wait_until(lambda: len(cluster.runs()) >= 12, "the jobs run")
        cluster.set_clock("a", HOUR_S)
        await cluster.wait_until(lambda: len(node.log("GapFound")) == 6, "the gap is found")
        before = len(cluster.runs())
        await cluster.wait_until(lambda: len(cluster.runs()) >= before + 12, "the jobs continue")
        cluster.set_clock("a", 0)
        await asyncio.sleep(1)
        before = len(cluster.runs())
        await asyncio.sleep(4)
        assert len(cluster.runs()) == before, "nothing runs again"
        findings = await cluster.check(min_faults={Kind.JUMP: 2}, min_in_flight=0)
        assert [
            finding for finding in findings if finding.verdict is not Verdict.EARLY
        ] == []  # early by the machine's clock
        records, spans = await cluster.records()
        assert {record.status for record in records} <= {Status.SUCCEEDED, Status.SKIPPED}
        assert sum(span.count for span in spans) >= 6 * (HOUR_S / 2 - 10)

    run_on_cluster(tmp_path, f"sqlite:///{tmp_path}/chronos.db", case)
