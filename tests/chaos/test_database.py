"""A database that loses answers, and one that is restarted, under nodes that work."""

import asyncio
import time
from collections import Counter
from pathlib import Path

import pytest

from tests.chaos.history import Kind
from tests.chaos.node import REQUEST
from tests.support.chaos_nodes import GRACE_S, TIMEOUT_S, Bed, on_bed
from tests.support.databases import Server
from tests.support.tcp_proxy import proxied

ROUNDS = 10
HEALS_S = 60.0
pytestmark = pytest.mark.chaos


def test_what_was_claimed_by_a_lost_answer_runs_once(tmp_path: Path, postgres_url: str) -> None:
    async def case(bed: Bed) -> None:
        async with proxied(postgres_url) as proxy:
            await bed.start(url=proxy.url)
            await bed.save("often", every_s=1, first_s=0.2)
            await bed.save("asked", every_s=None, first_s=1, overlap="allow")

            asked, cuts = bytes(16), 0

            def starts(data: bytes) -> bool:
                return REQUEST in data  # a claim or an admission

            def ends(data: bytes) -> bool:
                return asked in data

            def runs() -> bool:
                return asked in {run.execution for run in bed.runs()}

            def lost() -> bool:
                return proxy.cuts > cuts

            for _ in range(ROUNDS):
                for arm, sent in ((proxy.cut_after, starts), (proxy.cut_before, starts), (proxy.cut_after, ends)):
                    async with bed.wrong(Kind.CUT):
                        cuts = proxy.cuts
                        if sent is starts:
                            arm(sent)
                        asked = await bed.trigger("asked", f"ask-{cuts}")
                        await bed.until(runs, "what was asked runs")
                        if sent is ends:
                            arm(sent)
                        await bed.until(lost, "an answer is lost")
            assert await bed.judge(least={Kind.CUT: 3 * ROUNDS}, least_hit=0) == []
            assert set(Counter(run.execution for run in bed.runs()).values()) == {1}

    on_bed(tmp_path, postgres_url, case)


def test_a_database_that_is_restarted(tmp_path: Path, own_server: Server) -> None:
    async def case(bed: Bed) -> None:
        for name in ("a", "b"):
            await bed.start(name)
        for number in range(16):
            await bed.save(f"job-{number}", every_s=3, first_s=2, in_s=2 + number / 6)
        for mode, away_s in (("immediate", 0.0), ("immediate", TIMEOUT_S + 2), ("fast", 0.0)):
            await bed.until(lambda: len(bed.running()) >= 5, "enough of them run")
            async with bed.wrong(Kind.OUTAGE):
                await asyncio.to_thread(own_server.stop, mode)
                await asyncio.sleep(away_s)
                await asyncio.to_thread(own_server.start)
            healed_s = time.monotonic()
            names = {f"job-{number}" for number in range(16)}

            def all_again(healed_s: float = healed_s, names: set[str] = names) -> bool:
                return {run.job for run in bed.runs() if run.start_s > healed_s} == names

            await bed.until(all_again, "the whole schedule runs again", HEALS_S)
        assert all(node.process.poll() is None for node in bed.nodes.values())
        assert await bed.judge(least={Kind.OUTAGE: 3}, least_hit=15) == []

    on_bed(tmp_path, own_server.url, case)


def test_a_node_that_is_stopped_while_its_database_is_away(tmp_path: Path, own_server: Server) -> None:
    """It cannot say goodbye, and goes all the same; what it held is found by others as after a crash."""

    async def case(bed: Bed) -> None:
        await bed.start()
        for number in range(8):
            await bed.save(f"job-{number}", every_s=60, first_s=1.5 if number % 2 else 30, in_s=1)
        await bed.until(lambda: len(bed.running()) == 8, "all of them run")
        async with bed.wrong(Kind.OUTAGE):
            await asyncio.to_thread(own_server.stop)
            await bed.stop(within_s=GRACE_S + 30)
            await asyncio.to_thread(own_server.start)
        await bed.start()
        assert await bed.judge(least={Kind.OUTAGE: 1, Kind.TERM: 1}, least_hit=8) == []

    on_bed(tmp_path, own_server.url, case)
