"""A node that is cut off from the database takes nothing from the others, and they take over its work.

Three nodes with a heartbeat timeout of 3 s share a PostgreSQL server. One of them connects through a proxy.
``CHRONOS_TRIALS=50`` sets the number of faults in a row, ``CHRONOS_SEED`` their choice.
"""

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import pytest

from chronos.core.execution import AttemptStatus
from tests.chaos.history import Kind
from tests.support.chaos_nodes import Cluster, run_on_cluster
from tests.support.tcp_proxy import Proxy, proxied

TIMEOUT_S, HEARTBEAT_S, SCAN_S = 3.0, 1.0, 1.0
OPTIONS: dict[str, Any] = {"heartbeat_timeout_s": TIMEOUT_S, "heartbeat_s": HEARTBEAT_S, "reaper_s": SCAN_S}
TRIALS = int(os.environ.get("CHRONOS_TRIALS", "1"))
SEED = int(os.environ.get("CHRONOS_SEED", "1"))
HEALTHY, CUT_OFF = ("one", "two"), "cut-off"
AFTER_S = TIMEOUT_S + SCAN_S  # long enough for a node to act on a wrong belief
TAKEN_S = TIMEOUT_S + 2 * SCAN_S + 1.0  # the others have taken over by then, unless the machine is busy
LONG_S = TAKEN_S + 0.5
FAULTS = ("late", "cut", "hung", "delayed")
pytestmark = pytest.mark.chaos


@asynccontextmanager
async def disturb_proxy(proxy: Proxy, fault: str, rng: Random) -> AsyncIterator[None]:
    """While entered, the database answers late, is unreachable, hangs or is slow."""
    match fault:
        case "late":
            proxy.hold("down")
        case "cut":
            await proxy.stop()
        case "hung":
            proxy.hold("up", "down")
        case _:
            proxy.delay_s = rng.choice((0.3, 0.7, 2.0))
    yield
    proxy.resume()
    proxy.delay_s = 0.0
    if fault == "cut":
        await proxy.start()


async def read_node_numbers(cluster: Cluster) -> dict[str, int]:
    """The current number of each node, by name."""
    return {node.name: node.number for node in await cluster.store.nodes() if node.stopped_us is None}


def find_declared_dead(cluster: Cluster) -> set[int]:
    return {line["node"] for node in cluster.nodes.values() for line in node.log("NodeLost")}


class Trial:
    """One run on each node, and one fault."""

    def __init__(self, cluster: Cluster, number: int, takes_s: float | None) -> None:
        self._cluster, self._number, self._takes_s = cluster, number, takes_s
        self._runs: dict[str, bytes] = {}

    async def start(self) -> None:
        """Start one run on each node, and wait until each runs on its node."""
        before = {node.number: node.beat for node in await self._cluster.store.nodes()}

        async def all_beat() -> bool:
            nodes = [node for node in await self._cluster.store.nodes() if node.stopped_us is None]
            return {node.name for node in nodes if node.beat > before.get(node.number, 0)} == {*HEALTHY, CUT_OFF}

        await self._cluster.wait_until(all_beat, "all nodes send heartbeats", 30.0)
        for name in (*HEALTHY, CUT_OFF):
            job = f"{name}-{self._number}"
            placement = {"labels": {"at": name}, "fallback": "1s"} if name == CUT_OFF else {"labels": {"at": name}}
            await self._cluster.save_job(job, every_s=None, first_s=self._takes_s, placement=placement)
            self._runs[name] = await self._cluster.trigger(job, job)
        await self._cluster.wait_until(self._is_placed, "each node runs its job", 30.0)

    async def _is_placed(self) -> bool:
        known = await read_node_numbers(self._cluster)
        views = {name: await self._cluster.store.execution(id_) for name, id_ in self._runs.items()}
        if not all(view and view.execution.node == known.get(name) for name, view in views.items()):
            return False
        return len([run for run in self._cluster.running() if run.execution in self._runs.values()]) == len(self._runs)

    async def is_lost(self, name: str) -> bool:
        """Whether the run of a node was taken over."""
        return AttemptStatus.LOST in {attempt.status for attempt in await self._cluster.attempts(self._runs[name])}

    async def end(self) -> None:
        """Wait until all runs of the trial have ended."""
        await self._cluster.wait_until(self._has_ended, "the runs end", 60.0)

    async def _has_ended(self) -> bool:
        views = [await self._cluster.store.execution(id_) for id_ in self._runs.values()]
        return all(view is not None and view.execution.status.final for view in views)


async def run_trial(cluster: Cluster, proxy: Proxy, number: int, rng: Random) -> bool:
    """Cause one fault. Returns whether the others took over from the node that was cut off."""
    fault = FAULTS[number % len(FAULTS)]
    lasts_s = LONG_S if number == 0 else rng.choice((1.5, 4.0, 8.0)) * rng.uniform(0.8, 1.2)
    description = f"trial {number}: {fault} for {lasts_s:.1f} s"
    trial = Trial(cluster, number, lasts_s + AFTER_S)
    await trial.start()
    before = await read_node_numbers(cluster)
    async with cluster.disturbed(Kind.CUT), disturb_proxy(proxy, fault, rng):
        await asyncio.sleep(lasts_s)
        if fault != "delayed" and lasts_s > TAKEN_S:  # a busy machine takes longer
            await cluster.wait_until(partial(trial.is_lost, CUT_OFF), f"{description}: its work is taken over", 60.0)
        is_lost = await trial.is_lost(CUT_OFF)
    assert not is_lost or lasts_s > TIMEOUT_S, f"{description}: taken over too early"
    await trial.end()
    after = await read_node_numbers(cluster)
    assert [after[name] for name in HEALTHY] == [before[name] for name in HEALTHY], description
    assert not find_declared_dead(cluster) & {before[name] for name in HEALTHY}, description
    assert [name for name in HEALTHY if await trial.is_lost(name)] == [], description
    return is_lost


def test_a_node_that_is_cut_off_takes_nothing_from_healthy_ones(tmp_path: Path, postgres_url: str) -> None:
    async def case(cluster: Cluster) -> None:
        rng = Random(SEED)
        async with proxied(postgres_url) as proxy:
            urls = {CUT_OFF: proxy.url}
            names = (*HEALTHY, CUT_OFF)
            await asyncio.gather(
                *(cluster.start(name, url=urls.get(name), labels={"at": name}, **OPTIONS) for name in names)
            )
            taken = [await run_trial(cluster, proxy, number, rng) for number in range(TRIALS)]
            sys.stderr.write(f"\n{TRIALS} faults, {sum(taken)} takeovers from the node that was cut off\n")
            trial = Trial(cluster, TRIALS, None)
            await trial.start()
            assert len(await cluster.kill(HEALTHY[0])) == 1
            await cluster.wait_until(
                partial(trial.is_lost, HEALTHY[0]), "the work of the dead node is taken over", 60.0
            )
            cluster.open_gate()
            await cluster.start(HEALTHY[0], labels={"at": HEALTHY[0]}, **OPTIONS)
            assert await cluster.check(min_faults={Kind.CUT: TRIALS, Kind.KILL: 1}, min_in_flight=3 * TRIALS) == []

    run_on_cluster(tmp_path, postgres_url, case)
