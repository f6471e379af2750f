"""The two shortest tests with real processes, which every run of the suite includes."""

import asyncio
from pathlib import Path

import pytest

from chronos.core.execution import AttemptStatus, Status
from tests.chaos.history import Kind
from tests.support.chaos_nodes import Cluster, run_on_cluster

LONG_TIMEOUT_S = 60.0  # so that a busy node is not taken for dead
pytestmark = pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="needs /proc to find processes")


def test_a_killed_node_loses_nothing(tmp_path: Path) -> None:
    async def case(cluster: Cluster) -> None:
        await cluster.start(heartbeat_timeout_s=LONG_TIMEOUT_S)
        for number in range(4):
            await cluster.save_job(f"job-{number}", every_s=60, first_s=60, again_s=0.1, in_s=0.2)
        await cluster.wait_until(lambda: len(cluster.running()) == 4, "all jobs run")
        await cluster.kill()
        await cluster.start(heartbeat_timeout_s=2)
        await cluster.wait_until(lambda: len(cluster.runs()) >= 8, "each job runs again")
        assert await cluster.check(min_faults={Kind.KILL: 1}, min_in_flight=4) == []

    run_on_cluster(tmp_path, f"sqlite:///{tmp_path}/chronos.db", case)


def test_a_stopped_node_releases_work_that_does_not_end_in_time(tmp_path: Path) -> None:
    async def case(cluster: Cluster) -> None:
        await cluster.start(grace_s=4, heartbeat_timeout_s=LONG_TIMEOUT_S)
        for name, first_s in (("slow", 60), ("quick", None)):
            await cluster.save_job(name, every_s=None, first_s=first_s, again_s=0.1)
        slow = await cluster.trigger("slow", "slow")
        await cluster.wait_until(lambda: len(cluster.runs()) == 1, "the slow job runs")
        quick = await cluster.trigger("quick", "quick")
        await cluster.wait_until(lambda: len(cluster.runs()) == 2, "both run")
        stopping = asyncio.create_task(cluster.stop())
        await asyncio.sleep(0)  # the signal is sent
        cluster.open_gate()
        assert await stopping == 0
        assert cluster.running() == []
        records = {record.id: record for record in (await cluster.records())[0]}
        assert records[quick].status is Status.SUCCEEDED
        assert (records[slow].status, records[slow].attempt) == (Status.READY, 1)
        await cluster.start(heartbeat_timeout_s=LONG_TIMEOUT_S)
        assert await cluster.check(min_faults={Kind.TERM: 1}, min_in_flight=2) == []
        assert [(attempt.number, attempt.status) for attempt in await cluster.attempts(slow)] == [
            (1, AttemptStatus.SUCCEEDED)
        ]

    run_on_cluster(tmp_path, f"sqlite:///{tmp_path}/chronos.db", case)
