"""A database that loses answers, and one that is restarted, while nodes work."""

import asyncio
import time
from collections import Counter
from pathlib import Path

import pytest

from tests.chaos.history import Kind
from tests.chaos.node import REQUEST
from tests.support.chaos_nodes import GRACE_S, TIMEOUT_S, Cluster, run_on_cluster
from tests.support.databases import Server
from tests.support.tcp_proxy import proxied

ROUNDS = 10
HEALS_S = 60.0
pytestmark = pytest.mark.chaos


def test_a_run_claimed_by_a_lost_answer_runs_once(tmp_path: Path, postgres_url: str) -> None:
    async def case(cluster: Cluster) -> None:
        async with proxied(postgres_url) as proxy:
            await cluster.start(url=proxy.url)
            await cluster.save_job("often", every_s=1, first_s=0.2)
            await cluster.save_job("triggered", every_s=None, first_s=1, overlap="allow")

            execution, cuts = bytes(16), 0

            def is_start(data: bytes) -> bool:
                return REQUEST in data  # a claim or an admission

            def is_end(data: bytes) -> bool:
                return execution in data

            def has_started() -> bool:
                return execution in {run.execution for run in cluster.runs()}

            def was_cut() -> bool:
                return proxy.cuts > cuts

            for _ in range(ROUNDS):
                for arm, matches in (
                    (proxy.cut_after, is_start),
                    (proxy.cut_before, is_start),
                    (proxy.cut_after, is_end),
                ):
                    async with cluster.disturbed(Kind.CUT):
                        cuts = proxy.cuts
                        if matches is is_start:
                            arm(matches)
                        execution = await cluster.trigger("triggered", f"ask-{cuts}")
                        await cluster.wait_until(has_started, "the triggered run starts")
                        if matches is is_end:
                            arm(matches)
                        await cluster.wait_until(was_cut, "an answer is lost")
            assert await cluster.check(min_faults={Kind.CUT: 3 * ROUNDS}, min_in_flight=0) == []
            assert set(Counter(run.execution for run in cluster.runs()).values()) == {1}

    run_on_cluster(tmp_path, postgres_url, case)


def test_nodes_survive_a_restart_of_the_database(tmp_path: Path, own_server: Server) -> None:
    async def case(cluster: Cluster) -> None:
        for name in ("a", "b"):
            await cluster.start(name)
        for number in range(16):
            await cluster.save_job(f"job-{number}", every_s=3, first_s=2, in_s=2 + number / 6)
        for mode, away_s in (("immediate", 0.0), ("immediate", TIMEOUT_S + 2), ("fast", 0.0)):
            await cluster.wait_until(lambda: len(cluster.running()) >= 5, "enough jobs run")
            async with cluster.disturbed(Kind.OUTAGE):
                await asyncio.to_thread(own_server.stop, mode)
                await asyncio.sleep(away_s)
                await asyncio.to_thread(own_server.start)
            healed_s = time.monotonic()
            names = {f"job-{number}" for number in range(16)}

            def all_run_again(healed_s: float = healed_s, names: set[str] = names) -> bool:
                return {run.job for run in cluster.runs() if run.start_s > healed_s} == names

            await cluster.wait_until(all_run_again, "the whole schedule runs again", HEALS_S)
        assert all(node.process.poll() is None for node in cluster.nodes.values())
        assert await cluster.check(min_faults={Kind.OUTAGE: 3}, min_in_flight=15) == []

    run_on_cluster(tmp_path, own_server.url, case)


def test_a_node_stops_while_its_database_is_unreachable(tmp_path: Path, own_server: Server) -> None:
    """It cannot deregister, but stops in time. Its executions are taken over as after a crash."""

    async def case(cluster: Cluster) -> None:
        await cluster.start()
        for number in range(8):
            await cluster.save_job(f"job-{number}", every_s=60, first_s=1.5 if number % 2 else 30, in_s=1)
        await cluster.wait_until(lambda: len(cluster.running()) == 8, "all jobs run")
        async with cluster.disturbed(Kind.OUTAGE):
            await asyncio.to_thread(own_server.stop)
            await cluster.stop(within_s=GRACE_S + 30)
            await asyncio.to_thread(own_server.start)
        await cluster.start()
        assert await cluster.check(min_faults={Kind.OUTAGE: 1, Kind.TERM: 1}, min_in_flight=8) == []

    run_on_cluster(tmp_path, own_server.url, case)
