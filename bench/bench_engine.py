"""A whole node: executions a second from end to end, lateness, webhooks, and what it costs when nothing is due.

``BENCH_RUNS`` says how many executions a rate is measured over (20,000). Rates are per second and durable, with full
history; the bare statements are admit, claim and settle in batches of 1,000 with a coroutine that does nothing.
"""

import asyncio
import os
import resource
import statistics
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import aiohttp
import uvloop

from bench import Row
from bench.bare import Bare
from bench.bare_postgres import BarePostgres
from bench.bare_sqlite import BareSqlite
from bench.node import FAR_US, bench_node, python_job
from bench.rivals import huey_rate, run_pgqueuer
from bench.servers import postgres_server
from bench.target import target_server
from chronos.interpreter import settle_memory, share_quickly

RUNS = int(os.environ.get("BENCH_RUNS", "20000"))
WEBHOOKS = RUNS // 4
TURNS = 3  # of which the median counts
AT_ONCE = 100
IDLE_JOBS = 10_000
IDLE_S = 5.0


def run() -> list[Row]:
    """All rows, SQLite first."""
    share_quickly()  # as in any process of ours; whoever is compared has the same
    settle_memory()
    rows: list[Row] = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with postgres_server(folder) as postgres:
            bare = asyncio.run(_bare(BareSqlite(folder / "bare.db")))
            rivals = {"huey": huey_rate(folder, RUNS // 4), "bare": bare}
            rows += _engine("SQLite", [_file(folder, f"one-{turn}") for turn in range(TURNS)], rivals)
            bare = asyncio.run(_bare(BarePostgres(postgres)))
            rivals = {"pgqueuer": run_pgqueuer(postgres, RUNS), "bare": bare}
            rows += _engine("PostgreSQL", [postgres] * TURNS, rivals)
        rows.append(_webhooks(folder))
        rows.append(asyncio.run(_idle(_file(folder, "four"))))
    return rows


def _engine(engine: str, urls: list[str], rivals: dict[str, float]) -> list[Row]:
    """The backlog first, in a store that holds nothing else yet."""
    backlog = statistics.median(asyncio.run(_one_job(url)) for url in urls)
    due = asyncio.run(_many_due(urls[0]))
    return [
        _rate(f"{engine}: one job, many executions", backlog, rivals),
        _rate(f"{engine}: many jobs due at once", due, {"bare": rivals["bare"]}),
        *asyncio.run(_lateness(engine, urls[0])),
    ]


def _file(folder: Path, name: str) -> str:
    return f"sqlite:///{folder / name}.db"


def _rate(case: str, ours: float, others: dict[str, float]) -> Row:
    return Row(case=case, unit="/s", ours=ours, others=others, higher_is_better=True)


async def _many_due(url: str) -> float:
    """Many jobs due at the same instant: from it until the last is settled."""
    async with bench_node(url) as node:
        due_us = node.clock.now_us() + 2_000_000 + 400 * RUNS  # saving them takes a while
        await node.save([python_job(f"due-{n}", due_us) for n in range(RUNS)])
        await node.engine.start()
        await asyncio.sleep(max(0, due_us - node.clock.now_us()) / 1e6)
        begin = time.perf_counter()
        await node.until_settled(RUNS)
        return RUNS / (time.perf_counter() - begin)


async def _bare(bare: Bare) -> float:
    jobs = [n.to_bytes(16) for n in range(RUNS)]
    batches = [[(job, os.urandom(16)) for job in jobs[i : i + 1_000]] for i in range(0, RUNS, 1_000)]
    await bare.open(jobs)

    async def noop() -> None: ...

    begin = time.perf_counter()
    for batch in batches:
        await bare.admit(batch, 0)
        for _ in batch:
            await noop()
        await bare.settle(batch)
    rate = RUNS / (time.perf_counter() - begin)
    await bare.close()
    return rate


async def _one_job(url: str) -> float:
    """A backlog of one job: from the start of the node until the last is settled."""
    async with bench_node(url) as node:
        await node.queue(python_job("hot"), RUNS)
        begin = time.perf_counter()
        await node.engine.start()
        await node.until_settled(RUNS)
        return RUNS / (time.perf_counter() - begin)


async def _lateness(engine: str, url: str) -> list[Row]:
    """From the instant to the first line of the task, with nothing else to do and with many at once."""
    rows = []
    for count, spread_us in ((50, 100_000), (1_000, 1_000), (10_000, 100)):
        async with bench_node(url) as node:
            first_us = node.clock.now_us() + 2_500_000 + count * 400  # saving them takes a while
            due_us = [first_us + n * spread_us for n in range(count)]
            await node.save([python_job(f"late-{count}-{n}", at_us) for n, at_us in enumerate(due_us)])
            await node.engine.start()
            await node.until_settled(count)
            late_ms = sorted((start - due) / 1e3 for start, due in zip(sorted(node.starts_us), due_us, strict=True))
        case = "one every 100 ms" if count == 50 else f"{count:,} within a second"
        rows.append(Row(case=f"{engine}: lateness p99, {case}", unit="ms", ours=late_ms[int(count * 0.99) - 1]))
        rows.append(Row(case=f"{engine}: lateness p50, {case}", unit="ms", ours=statistics.median(late_ms)))
    return rows


def _webhooks(folder: Path) -> Row:
    """Requests to a server in another process, beside the bare client at the same concurrency: medians, in turns.

    The bare client is aiohttp's session. Both run on uvloop, as ``chronos server`` does.
    """
    bare, ours = [], []
    with target_server() as target:
        for turn in range(TURNS):
            bare.append(uvloop.run(_bare_requests(target)))
            ours.append(uvloop.run(_our_requests(target, _file(folder, f"webhooks-{turn}"))))
    return _rate("webhooks, with their records", statistics.median(ours), {"bare client": statistics.median(bare)})


async def _our_requests(target: str, url: str) -> float:
    async with bench_node(url, slots=AT_ONCE) as node:
        await node.queue({"name": "hook", "http": {"url": target, "method": "POST"}}, WEBHOOKS)
        begin = time.perf_counter()
        await node.engine.start()
        while await node.open():  # noqa: ASYNC110 - polled on purpose
            await asyncio.sleep(0.05)
        return WEBHOOKS / (time.perf_counter() - begin)


async def _bare_requests(target: str) -> float:
    left = iter(range(WEBHOOKS))

    async def worker(session: aiohttp.ClientSession) -> None:
        for _ in left:
            async with session.post(target) as response:
                await response.read()

    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=AT_ONCE)) as session:
        begin = time.perf_counter()
        await asyncio.gather(*(worker(session) for _ in range(AT_ONCE)))
        return WEBHOOKS / (time.perf_counter() - begin)


async def _idle(url: str) -> Row:
    """The share of a core that waiting costs."""
    async with bench_node(url, slots=100) as node:
        await node.save([python_job(f"idle-{n}", node.clock.now_us() + FAR_US + n) for n in range(IDLE_JOBS)])
        await node.engine.start()
        await asyncio.sleep(2)
        with _cpu_s() as used:
            await asyncio.sleep(IDLE_S)
    return Row(case=f"idle with {IDLE_JOBS:,} jobs waiting", unit="% of a core", ours=100 * used[0] / IDLE_S)


@contextmanager
def _cpu_s() -> Iterator[list[float]]:
    before = resource.getrusage(resource.RUSAGE_SELF)
    used = [0.0]
    yield used
    after = resource.getrusage(resource.RUSAGE_SELF)
    used[0] = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
