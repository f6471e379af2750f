"""Others doing the same in the same run: pgqueuer on PostgreSQL, huey on SQLite with every commit on disk."""

import asyncio
import sqlite3
import threading
import time
from pathlib import Path

import asyncpg
from huey import SqliteHuey
from pgqueuer.db import AsyncpgDriver
from pgqueuer.qm import QueueManager
from pgqueuer.queries import Queries
from pgqueuer.types import QueueExecutionMode


async def pgqueuer_rate(url: str, count: int) -> float:
    """Executions a second of jobs that do nothing, enqueued before."""
    connection = await asyncpg.connect(url)
    try:
        queries = Queries(AsyncpgDriver(connection))
        await queries.install()
        await queries.enqueue(["noop"] * count, [None] * count, [0] * count)
        manager = QueueManager(queries)

        @manager.entrypoint("noop")  # type: ignore[untyped-decorator, unused-ignore]
        async def noop(_: object) -> None: ...

        begin = time.perf_counter()
        await manager.run(batch_size=1_000, mode=QueueExecutionMode.drain, max_concurrent_tasks=2_000)
        return count / (time.perf_counter() - begin)
    finally:
        await connection.close()


def huey_rate(folder: Path, count: int) -> float:
    """Executions a second with four workers, each commit on disk."""
    huey = SqliteHuey(filename=str(folder / "huey.db"), fsync=True)
    left = [count]
    lock, done = threading.Lock(), threading.Event()

    @huey.task()  # type: ignore[untyped-decorator, unused-ignore]
    def noop() -> None:
        with lock:
            left[0] -= 1
            if not left[0]:
                done.set()

    for _ in range(count):
        noop()
    consumer = huey.create_consumer(workers=4, initial_delay=0.001, max_delay=0.001, check_worker_health=False)
    begin = time.perf_counter()
    consumer.start()
    done.wait(120)
    rate = (count - left[0]) / (time.perf_counter() - begin)
    consumer.stop(graceful=False)
    sqlite3.connect(folder / "huey.db").close()
    return rate


def run_pgqueuer(url: str, count: int) -> float:
    """``pgqueuer_rate`` in a loop of its own."""
    return asyncio.run(pgqueuer_rate(url, count))
