"""kill -9 during group commits: acknowledged writes survive, on every engine."""

import asyncio
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from chronos.assembly import make_store
from chronos.store.contract import JobFilter
from tests.support.databases import Server

ROUNDS = 4
SAVER = """
import asyncio, sys
from chronos.assembly import make_store
from chronos.errors import Unavailable
from chronos.testing.conformance import StoreFixture

async def main() -> None:
    store = make_store(sys.argv[1])
    await store.open()
    world = StoreFixture(store)
    await world.start_node()

    async def save(i: int) -> None:
        name = f"{sys.argv[2]}-{i}"
        try:
            await world.save(name)
        except Unavailable:
            return
        sys.stdout.write(name + "\\n")
        sys.stdout.flush()

    for first in range(0, 1_000_000, 50):
        await asyncio.gather(*(save(first + i) for i in range(50)))

asyncio.run(main())
"""


def save_until_killed(url: str, number: int, upto: int, interrupt: Callable[[], None] | None = None) -> set[str]:
    """The names of the jobs whose save was acknowledged to a process. After ``upto`` of them the process is killed."""
    acknowledged: set[str] = set()
    child = subprocess.Popen([sys.executable, "-c", SAVER, url, str(number)], stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    with child.stdout as lines:
        for line in lines:
            acknowledged.add(line.strip())
            if len(acknowledged) == upto:
                if interrupt is not None:
                    interrupt()
                child.kill()
        child.wait()
    return acknowledged


async def list_saved(url: str) -> set[str]:
    store = make_store(url)
    await store.open()
    names: set[str] = set()
    cursor = None
    while True:
        page = await store.list_jobs(JobFilter(), limit=1000, cursor=cursor)
        names.update(job.name for job in page.items)
        cursor = page.cursor
        if cursor is None:
            break
    assert await store.verify() == []
    await store.close()
    return names


@pytest.mark.parametrize("engine", ["sqlite", "postgres"])
def test_acknowledged_jobs_survive_kill_9(engine: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    url = f"sqlite:///{tmp_path}/chronos.db" if engine == "sqlite" else request.getfixturevalue("prepared_url")
    acknowledged: set[str] = set()
    for number in range(ROUNDS):
        acknowledged |= save_until_killed(url, number, 150 + 250 * number)
    assert len(acknowledged) > 2_000
    assert acknowledged <= asyncio.run(list_saved(url))


def test_acknowledged_jobs_survive_a_crash_of_the_database_server(own_server: Server) -> None:
    acknowledged: set[str] = set()
    for number in range(2):
        acknowledged |= save_until_killed(own_server.url, number, 400, own_server.stop)
        own_server.start()
    assert len(acknowledged) >= 800
    assert acknowledged <= asyncio.run(list_saved(own_server.url))
