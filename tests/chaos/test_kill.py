"""kill -9 of a node: during two hundred running commands, and at random moments."""

import asyncio
import random
from functools import partial
from pathlib import Path

import pytest

from chronos.core.execution import AttemptStatus
from tests.chaos.history import Kind
from tests.support.chaos_nodes import HEARTBEAT_S, REAPER_S, Cluster, Node, run_on_cluster

JOBS = 220
AT_ONCE = 200
EVERY_S = 20.0
LONG_S = 40.0  # of a first attempt: most are killed, even on a busy machine
TIMEOUT_S = 3.0  # of heartbeats: starting two hundred processes keeps a small machine busy
BUSY_S = 4.0
ROUNDS = 15
pytestmark = pytest.mark.chaos


async def save_many(cluster: Cluster) -> None:
    """Save jobs that are spread over their interval and whose first attempts take longer than it."""
    for number in range(JOBS):
        long_s = LONG_S + number % 10
        overlap = "allow" if number % 10 == 0 else "skip"
        in_s = 12 + EVERY_S * number / JOBS
        name = f"job-{number}"
        await cluster.save_job(
            name, every_s=EVERY_S, first_s=long_s, again_s=1 + number % 3, in_s=in_s, overlap=overlap
        )
    await cluster.save_job("triggered", every_s=None, first_s=LONG_S, overlap="queue")


async def measure_takeover_s(cluster: Cluster, killed: set[bytes], from_us: int) -> float:
    """The seconds until the last killed attempt was declared lost."""
    lost = [
        [attempt for attempt in await cluster.attempts(id_) if attempt.status is AttemptStatus.LOST] for id_ in killed
    ]
    assert all(lost), "every killed attempt is recorded as lost"
    return max(attempts[-1].finished_us or 0 for attempts in lost) / 1e6 - from_us / 1e6


def to_wall_us(cluster: Cluster, at_s: float) -> int:
    """Convert monotonic time to the wall time of runs."""
    run = cluster.runs()[-1]
    return run.start_us + round((at_s - run.start_s) * 1e6)


def has_run(cluster: Cluster, times: int) -> bool:
    return len(cluster.runs()) >= times


def has_reaped(node: Node) -> bool:
    return bool(node.log("NodeLost"))


def test_a_killed_node_on_sqlite_loses_nothing(tmp_path: Path) -> None:
    async def case(cluster: Cluster) -> None:
        await cluster.start(slots=JOBS, heartbeat_timeout_s=TIMEOUT_S)
        await save_many(cluster)
        for number in range(2):
            await cluster.trigger("triggered", f"before-{number}")
            await cluster.wait_until(lambda: len(cluster.running()) >= AT_ONCE, "two hundred run")
            killed = await cluster.kill()
            expected_runs = len(cluster.runs()) + AT_ONCE
            node = await cluster.start(slots=JOBS, heartbeat_timeout_s=TIMEOUT_S)
            started_s = node.log("ready")[0]["at_s"]
            await cluster.wait_until(partial(has_run, cluster, expected_runs), "the jobs run again")
            taken_s = await measure_takeover_s(cluster, killed, to_wall_us(cluster, started_s))
            assert taken_s < TIMEOUT_S + 2 * REAPER_S + BUSY_S
        assert await cluster.check(min_faults={Kind.KILL: 2}, min_in_flight=2 * AT_ONCE) == []

    run_on_cluster(tmp_path, f"sqlite:///{tmp_path}/chronos.db", case)


def test_a_killed_node_on_postgresql_is_taken_over(tmp_path: Path, postgres_url: str) -> None:
    async def case(cluster: Cluster) -> None:
        for name in ("a", "b"):
            await cluster.start(name, slots=JOBS, heartbeat_timeout_s=TIMEOUT_S)
        await save_many(cluster)
        for number, name in enumerate(("a", "b")):
            await cluster.trigger("triggered", f"before-{number}")
            await cluster.wait_until(lambda: len(cluster.running()) >= AT_ONCE, "two hundred run")
            killed = await cluster.kill(name)
            assert killed
            assert cluster.running(), "the other node continues"
            await cluster.wait_until(
                partial(has_reaped, cluster.nodes["b" if name == "a" else "a"]), "its work is taken over"
            )
            taken_s = await measure_takeover_s(cluster, killed, to_wall_us(cluster, cluster.faults[-1].from_s))
            assert taken_s < TIMEOUT_S + HEARTBEAT_S + 2 * REAPER_S + BUSY_S
            await cluster.start(name, slots=JOBS, heartbeat_timeout_s=TIMEOUT_S)
        assert await cluster.check(min_faults={Kind.KILL: 2}, min_in_flight=2 * AT_ONCE) == []

    run_on_cluster(tmp_path, postgres_url, case)


@pytest.mark.parametrize("engine", ["sqlite", "postgres"])
def test_kills_at_random_moments_lose_nothing(tmp_path: Path, engine: str, request: pytest.FixtureRequest) -> None:
    """Work is short and constant, so that kills come before, during and after every command to the store."""
    rng = random.Random(engine)

    async def case(cluster: Cluster) -> None:
        await cluster.start()
        for number in range(10):
            overlap = ("skip", "allow", "queue")[number % 3]
            await cluster.save_job(
                f"job-{number}", every_s=1, first_s=0.2 + number / 20, in_s=2 + number / 10, overlap=overlap
            )
        await cluster.wait_until(lambda: bool(cluster.runs()), "something runs")
        for _ in range(ROUNDS):
            await asyncio.sleep(rng.uniform(0.1, 3.0))
            await cluster.kill()
            await cluster.start()
        assert await cluster.check(min_faults={Kind.KILL: ROUNDS}, min_in_flight=ROUNDS) == []

    url = f"sqlite:///{tmp_path}/chronos.db" if engine == "sqlite" else request.getfixturevalue("postgres_url")
    run_on_cluster(tmp_path, url, case)
