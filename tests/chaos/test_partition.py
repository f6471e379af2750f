"""A node that is cut off from the database takes nothing from the others, and they take over what it held.

Three nodes with a heartbeat timeout of 3 s share a PostgreSQL server; a proxy stands before one of them.
``CHRONOS_TRIALS=50`` gives the number of faults in a row, and ``CHRONOS_SEED`` their choice.
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
from tests.support.chaos_nodes import Bed, on_bed
from tests.support.tcp_proxy import Proxy, proxied

TIMEOUT_S, HEARTBEAT_S, SCAN_S = 3.0, 1.0, 1.0
OPTIONS: dict[str, Any] = {"heartbeat_timeout_s": TIMEOUT_S, "heartbeat_s": HEARTBEAT_S, "reaper_s": SCAN_S}
TRIALS = int(os.environ.get("CHRONOS_TRIALS", "1"))
SEED = int(os.environ.get("CHRONOS_SEED", "1"))
HEALTHY, CUT_OFF = ("one", "two"), "cut-off"
AFTER_S = TIMEOUT_S + SCAN_S  # long enough for a node to act on what it believes
TAKEN_S = TIMEOUT_S + 2 * SCAN_S + 1.0  # by when the others have taken over, unless the machine is busy
LONG_S = TAKEN_S + 0.5
FAULTS = ("late", "cut", "hung", "delayed")
pytestmark = pytest.mark.chaos


@asynccontextmanager
async def wrong(proxy: Proxy, fault: str, dice: Random) -> AsyncIterator[None]:
    """While entered, the database answers late, is away, hangs or is slow."""
    match fault:
        case "late":
            proxy.hold("down")
        case "cut":
            await proxy.stop()
        case "hung":
            proxy.hold("up", "down")
        case _:
            proxy.delay_s = dice.choice((0.3, 0.7, 2.0))
    yield
    proxy.resume()
    proxy.delay_s = 0.0
    if fault == "cut":
        await proxy.start()


async def numbers(bed: Bed) -> dict[str, int]:
    """The number that each node has now, by name."""
    return {node.name: node.number for node in await bed.store.nodes() if node.stopped_us is None}


def declared_dead(bed: Bed) -> set[int]:
    return {line["node"] for node in bed.nodes.values() for line in node.log("NodeLost")}


class Trial:
    """One run on each node, and one fault."""

    def __init__(self, bed: Bed, number: int, takes_s: float | None) -> None:
        self._bed, self._number, self._takes_s = bed, number, takes_s
        self._runs: dict[str, bytes] = {}

    async def begin(self) -> None:
        """Start one run on each node, and wait until each is where it belongs."""
        before = {node.number: node.beat for node in await self._bed.store.nodes()}

        async def is_back() -> bool:
            nodes = [node for node in await self._bed.store.nodes() if node.stopped_us is None]
            return {node.name for node in nodes if node.beat > before.get(node.number, 0)} == {*HEALTHY, CUT_OFF}

        await self._bed.until(is_back, "all nodes beat", 30.0)
        for name in (*HEALTHY, CUT_OFF):
            job = f"{name}-{self._number}"
            placement = {"labels": {"at": name}, "fallback": "1s"} if name == CUT_OFF else {"labels": {"at": name}}
            await self._bed.save(job, every_s=None, first_s=self._takes_s, placement=placement)
            self._runs[name] = await self._bed.trigger(job, job)
        await self._bed.until(self._is_placed, "each node runs what is meant for it", 30.0)

    async def _is_placed(self) -> bool:
        known = await numbers(self._bed)
        views = {name: await self._bed.store.execution(id_) for name, id_ in self._runs.items()}
        if not all(view and view.execution.node == known.get(name) for name, view in views.items()):
            return False
        return len([run for run in self._bed.running() if run.execution in self._runs.values()]) == len(self._runs)

    async def is_lost(self, name: str) -> bool:
        """Whether its run was taken over from a node."""
        return AttemptStatus.LOST in {one.status for one in await self._bed.attempts(self._runs[name])}

    async def end(self) -> None:
        """Wait until all of its runs have ended."""
        await self._bed.until(self._has_ended, "the runs end", 60.0)

    async def _has_ended(self) -> bool:
        views = [await self._bed.store.execution(id_) for id_ in self._runs.values()]
        return all(view is not None and view.execution.status.final for view in views)


async def suffer(bed: Bed, proxy: Proxy, number: int, dice: Random) -> bool:
    """Go through one fault; returns whether the others took over from the node that was cut off."""
    fault = FAULTS[number % len(FAULTS)]
    lasts_s = LONG_S if number == 0 else dice.choice((1.5, 4.0, 8.0)) * dice.uniform(0.8, 1.2)
    told = f"trial {number}: {fault} for {lasts_s:.1f} s"
    trial = Trial(bed, number, lasts_s + AFTER_S)
    await trial.begin()
    before = await numbers(bed)
    async with bed.wrong(Kind.CUT), wrong(proxy, fault, dice):
        await asyncio.sleep(lasts_s)
        if fault != "delayed" and lasts_s > TAKEN_S:  # on a machine that is too busy to watch, it takes longer
            await bed.until(partial(trial.is_lost, CUT_OFF), f"{told}: its work is taken over", 60.0)
        is_lost = await trial.is_lost(CUT_OFF)
    assert not is_lost or lasts_s > TIMEOUT_S, f"{told}: taken over too early"
    await trial.end()
    after = await numbers(bed)
    assert [after[name] for name in HEALTHY] == [before[name] for name in HEALTHY], told
    assert not declared_dead(bed) & {before[name] for name in HEALTHY}, told
    assert [name for name in HEALTHY if await trial.is_lost(name)] == [], told
    return is_lost


def test_a_node_that_is_cut_off_takes_nothing_from_healthy_ones(tmp_path: Path, postgres_url: str) -> None:
    async def case(bed: Bed) -> None:
        dice = Random(SEED)
        async with proxied(postgres_url) as proxy:
            urls = {CUT_OFF: proxy.url}
            names = (*HEALTHY, CUT_OFF)
            await asyncio.gather(
                *(bed.start(name, url=urls.get(name), labels={"at": name}, **OPTIONS) for name in names)
            )
            taken = [await suffer(bed, proxy, number, dice) for number in range(TRIALS)]
            sys.stderr.write(f"\n{TRIALS} faults, {sum(taken)} takeovers from the node that was cut off\n")
            trial = Trial(bed, TRIALS, None)
            await trial.begin()
            assert len(await bed.kill(HEALTHY[0])) == 1
            await bed.until(partial(trial.is_lost, HEALTHY[0]), "the work of the dead node is taken over", 60.0)
            bed.open_gate()
            await bed.start(HEALTHY[0], labels={"at": HEALTHY[0]}, **OPTIONS)
            assert await bed.judge(least={Kind.CUT: TRIALS, Kind.KILL: 1}, least_hit=3 * TRIALS) == []

    on_bed(tmp_path, postgres_url, case)
