"""A node that is frozen for longer than its heartbeat timeout, and then continues."""

from pathlib import Path

import pytest

from chronos.clock import SystemClock
from chronos.core.execution import AttemptStatus, Execution, Status
from chronos.core.reasons import ReasonCode
from chronos.store.commands import Settle, SettleRow
from tests.chaos.history import Kind
from tests.support.chaos_nodes import Cluster, run_on_cluster
from tests.support.verdicts import Verdict

JOBS = 16
pytestmark = pytest.mark.chaos


async def settle_late(cluster: Cluster, lost: list[Execution]) -> list[bytes]:
    """Send the outcomes that a frozen node had not sent yet. Returns the executions whose outcome was accepted."""
    now_us = SystemClock().now_us()
    rows = [SettleRow(run.id, run.job, run.token, Status.FAILED, ReasonCode.TASK_FAILED, None, now_us) for run in lost]
    return (await cluster.store.apply(Settle(rows=tuple(rows), node=lost[0].node or 0, now_us=now_us))).settled


async def find_lost(cluster: Cluster, held: list[Execution]) -> list[Execution]:
    """The executions that were taken over from their node."""
    return [run for run in held if AttemptStatus.LOST in {attempt.status for attempt in await cluster.attempts(run.id)}]


@pytest.mark.parametrize("with_children", [False, True], ids=["node alone", "with its commands"])
def test_work_of_a_frozen_node_is_taken_over_and_its_late_outcomes_are_refused(
    tmp_path: Path, postgres_url: str, with_children: bool
) -> None:
    async def case(cluster: Cluster) -> None:
        for name in ("a", "b"):
            await cluster.start(name)
        for number in range(JOBS):
            await cluster.save_job(f"job-{number}", every_s=4, first_s=5, again_s=1, in_s=2 + number / 4)
        for name in ("a", "b", "a"):
            await cluster.wait_until(lambda: len(cluster.running()) >= JOBS // 2, "enough jobs run")
            before = {node.number for node in await cluster.store.nodes() if node.name == name}
            held = await cluster.store.running_on(max(before))

            async def is_taken_over(held: list[Execution] = held) -> bool:
                ended = {run.execution for run in cluster.runs() if run.end_s is not None}
                late = {run.id for run in await find_lost(cluster, held)}
                return bool(late if with_children else late & ended)

            await cluster.freeze(name, is_taken_over, "its work is taken over", with_children=with_children)
            lost = await find_lost(cluster, held)
            assert await settle_late(cluster, lost) == []

            async def works_again(name: str = name, before: set[int] = before) -> bool:
                new_numbers = {node.number for node in await cluster.store.nodes() if node.name == name} - before
                records, _ = await cluster.records()
                return any(record.node in new_numbers and record.status is Status.SUCCEEDED for record in records)

            await cluster.wait_until(works_again, "the node works with a new number")
        findings = await cluster.check(min_faults={Kind.FREEZE: 3}, min_in_flight=JOBS)
        assert [finding for finding in findings if finding.verdict is not Verdict.ZOMBIE] == []
        tokens = {record.id: record.token for record in (await cluster.records())[0]}
        in_vain = [run for run in cluster.runs() if run.end_s is not None and run.token != tokens[run.execution]]
        assert in_vain or with_children, "some runs finished too late"
        reported = [line["error"] for node in cluster.nodes.values() for line in node.log("ProblemReported")]
        assert any(error.startswith("killed ") or "too late" in error for error in reported), reported

    run_on_cluster(tmp_path, postgres_url, case)
