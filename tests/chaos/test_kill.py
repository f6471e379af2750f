"""kill -9 of a node: in the middle of two hundred running commands, and at any moment."""

import asyncio
import random
from functools import partial
from pathlib import Path

import pytest

from chronos.core.execution import AttemptStatus
from tests.chaos.history import Kind
from tests.support.chaos_nodes import HEARTBEAT_S, REAPER_S, Bed, Node, on_bed

JOBS = 220
AT_ONCE = 200
EVERY_S = 20.0
LONG_S = 40.0  # of a first try: most of them are killed, whatever else the machine is busy with
TIMEOUT_S = 3.0  # of heartbeats: two hundred processes that start together keep a small machine busy
BUSY_S = 4.0
ROUNDS = 15
pytestmark = pytest.mark.chaos


async def save_many(bed: Bed) -> None:
    """Jobs spread over their interval, whose first tries outlast it."""
    for number in range(JOBS):
        long_s = LONG_S + number % 10
        overlap = "allow" if number % 10 == 0 else "skip"
        in_s = 12 + EVERY_S * number / JOBS
        name = f"job-{number}"
        await bed.save(name, every_s=EVERY_S, first_s=long_s, again_s=1 + number % 3, in_s=in_s, overlap=overlap)
    await bed.save("asked", every_s=None, first_s=LONG_S, overlap="queue")


async def took_over_s(bed: Bed, killed: set[bytes], from_us: int) -> float:
    """From a time until the last of the tries that were killed was declared lost."""
    lost = [[one for one in await bed.attempts(id_) if one.status is AttemptStatus.LOST] for id_ in killed]
    assert all(lost), "every try that was killed is on record as lost"
    return max(attempts[-1].finished_us or 0 for attempts in lost) / 1e6 - from_us / 1e6


def wall_us(bed: Bed, at_s: float) -> int:
    """Monotonic time as the runs' wall time."""
    run = bed.runs()[-1]
    return run.start_us + round((at_s - run.start_s) * 1e6)


def has_run(bed: Bed, times: int) -> bool:
    return len(bed.runs()) >= times


def has_reaped(node: Node) -> bool:
    return bool(node.log("NodeLost"))


def test_one_node_on_sqlite(tmp_path: Path) -> None:
    async def case(bed: Bed) -> None:
        await bed.start(slots=JOBS, heartbeat_timeout_s=TIMEOUT_S)
        await save_many(bed)
        for number in range(2):
            await bed.trigger("asked", f"before-{number}")
            await bed.until(lambda: len(bed.running()) >= AT_ONCE, "two hundred run")
            killed = await bed.kill()
            wanted = len(bed.runs()) + AT_ONCE
            node = await bed.start(slots=JOBS, heartbeat_timeout_s=TIMEOUT_S)
            began_s = node.log("ready")[0]["at_s"]
            await bed.until(partial(has_run, bed, wanted), "they are tried again")
            taken_s = await took_over_s(bed, killed, wall_us(bed, began_s))
            assert taken_s < TIMEOUT_S + 2 * REAPER_S + BUSY_S
        assert await bed.judge(least={Kind.KILL: 2}, least_hit=2 * AT_ONCE) == []

    on_bed(tmp_path, f"sqlite:///{tmp_path}/chronos.db", case)


def test_two_nodes_on_postgresql(tmp_path: Path, postgres_url: str) -> None:
    async def case(bed: Bed) -> None:
        for name in ("a", "b"):
            await bed.start(name, slots=JOBS, heartbeat_timeout_s=TIMEOUT_S)
        await save_many(bed)
        for number, name in enumerate(("a", "b")):
            await bed.trigger("asked", f"before-{number}")
            await bed.until(lambda: len(bed.running()) >= AT_ONCE, "two hundred run")
            killed = await bed.kill(name)
            assert killed
            assert bed.running(), "the other node goes on"
            await bed.until(partial(has_reaped, bed.nodes["b" if name == "a" else "a"]), "its work is taken over")
            taken_s = await took_over_s(bed, killed, wall_us(bed, bed.faults[-1].from_s))
            assert taken_s < TIMEOUT_S + HEARTBEAT_S + 2 * REAPER_S + BUSY_S
            await bed.start(name, slots=JOBS, heartbeat_timeout_s=TIMEOUT_S)
        assert await bed.judge(least={Kind.KILL: 2}, least_hit=2 * AT_ONCE) == []

    on_bed(tmp_path, postgres_url, case)


@pytest.mark.parametrize("engine", ["sqlite", "postgres"])
def test_at_any_moment_again_and_again(tmp_path: Path, engine: str, request: pytest.FixtureRequest) -> None:
    """Short work all the time, so that kills fall before, into and after every command to the store."""
    dice = random.Random(engine)

    async def case(bed: Bed) -> None:
        await bed.start()
        for number in range(10):
            overlap = ("skip", "allow", "queue")[number % 3]
            await bed.save(f"job-{number}", every_s=1, first_s=0.2 + number / 20, in_s=2 + number / 10, overlap=overlap)
        await bed.until(lambda: bool(bed.runs()), "something runs")
        for _ in range(ROUNDS):
            await asyncio.sleep(dice.uniform(0.1, 3.0))
            await bed.kill()
            await bed.start()
        assert await bed.judge(least={Kind.KILL: ROUNDS}, least_hit=ROUNDS) == []

    url = f"sqlite:///{tmp_path}/chronos.db" if engine == "sqlite" else request.getfixturevalue("postgres_url")
    on_bed(tmp_path, url, case)
