"""SIGTERM of a node with fifty running commands."""

import asyncio
import time
from pathlib import Path

import pytest

from chronos.core.execution import AttemptStatus, Status
from tests.chaos.history import Kind
from tests.support.chaos_nodes import Cluster, run_on_cluster

HALF = 25
SLOW_S, GRACE_S, LONG_TIMEOUT_S = 120.0, 8.0, 60.0
pytestmark = pytest.mark.chaos


@pytest.mark.parametrize("engine", ["sqlite", "postgres"])
def test_a_stopped_node_finishes_quick_runs_and_releases_slow_ones(
    tmp_path: Path, engine: str, request: pytest.FixtureRequest
) -> None:
    async def case(cluster: Cluster) -> None:
        await cluster.start(grace_s=GRACE_S, heartbeat_timeout_s=LONG_TIMEOUT_S)
        await cluster.save_job("slow", every_s=None, first_s=SLOW_S, again_s=1, overlap="allow")
        await cluster.save_job("quick", every_s=None, first_s=None, overlap="allow")
        await cluster.save_job("later", every_s=5, first_s=0.2, in_s=3_600)
        slow = {await cluster.trigger("slow", f"slow-{number}") for number in range(HALF)}
        await cluster.wait_until(lambda: len(cluster.running()) == HALF, "the slow half runs")
        quick = {await cluster.trigger("quick", f"quick-{number}") for number in range(HALF)}
        await cluster.wait_until(lambda: len(cluster.runs()) == 2 * HALF, "all jobs run")
        started_s = time.monotonic()
        stopping = asyncio.create_task(cluster.stop())
        await asyncio.sleep(0)  # the signal is sent
        cluster.open_gate()
        assert await stopping == 0
        assert time.monotonic() - started_s < SLOW_S / 2
        assert cluster.running() == []
        records = {record.id: record for record in (await cluster.records())[0]}
        assert {records[id_].status for id_ in quick} == {Status.SUCCEEDED}
        assert {(records[id_].status, records[id_].attempt) for id_ in slow} == {(Status.READY, 1)}
        assert await cluster.store.verify() == []
        await cluster.start(heartbeat_timeout_s=LONG_TIMEOUT_S)
        await cluster.wait_until(lambda: len(cluster.runs()) == 3 * HALF, "the released runs start again")
        assert await cluster.check(min_faults={Kind.TERM: 1}, min_in_flight=2 * HALF) == []
        attempts = [[(attempt.number, attempt.status) for attempt in await cluster.attempts(id_)] for id_ in slow]
        assert attempts == [[(1, AttemptStatus.SUCCEEDED)]] * HALF
        assert len(cluster.runs()) == 3 * HALF

    url = f"sqlite:///{tmp_path}/chronos.db" if engine == "sqlite" else request.getfixturevalue("postgres_url")
    run_on_cluster(tmp_path, url, case)
