"""Other libraries with the same work in the same run: pgqueuer on PostgreSQL, huey on SQLite with durable commits.

Each of their functions takes its job and a payload, as ours takes ``ctx`` and a payload, and returns the same values.
"""

import asyncio
import gc
import json
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import aiohttp
import asyncpg
from huey import SqliteHuey
from huey.signals import SIGNAL_COMPLETE
from pgqueuer.db import AsyncpgDriver
from pgqueuer.models import Job
from pgqueuer.qm import QueueManager
from pgqueuer.queries import Queries
from pgqueuer.types import QueueExecutionMode

from bench.node import PAYLOAD, SLOTS

_LONGEST_S = 120


async def pgqueuer_rate(url: str, count: int, *, sync: bool = False) -> float:
    """Executions per second of jobs with a payload, enqueued before.

    A finished job is deleted and leaves a line in pgqueuer's log. The result is dropped, because pgqueuer stores none.
    Its functions are async; for a sync one its manual recommends ``asyncio.to_thread``.
    """

    def work(job: Job) -> dict[str, Any]:
        said = json.loads(job.payload or b"null")
        return {"order": said["order"], "to": said["customer"], "items": len(said["items"]), "id": str(job.id)}

    connection = await asyncpg.connect(url)
    try:
        queries = Queries(AsyncpgDriver(connection))
        await queries.install()
        await queries.enqueue(["work"] * count, [json.dumps(PAYLOAD).encode()] * count, [0] * count)
        await connection.execute("analyze")
        manager = QueueManager(queries)

        async def in_loop(job: Job) -> None:
            work(job)

        async def in_thread(job: Job) -> None:
            await asyncio.to_thread(work, job)

        manager.entrypoint("work")(in_thread if sync else in_loop)
        gc.collect()
        begin = time.perf_counter()
        await manager.run(batch_size=SLOTS, mode=QueueExecutionMode.drain, max_concurrent_tasks=2 * SLOTS)
        return count / (time.perf_counter() - begin)
    finally:
        await connection.close()


def huey_rate(count: int) -> float:
    """Executions per second of a function with a payload and a stored result, in four threads.

    A task leaves the queue before it runs, so huey has no record of running tasks. A task ends with its stored result.
    """
    with _huey() as huey:

        @huey.task(context=True)  # type: ignore[untyped-decorator, unused-ignore]
        def work(order: int, customer: str, items: list[int], task: Any) -> dict[str, Any]:
            return _result(order, customer, items, task)

        for _ in range(count):
            work(**PAYLOAD)
        return count / _consume_s(huey, count)


def huey_graph_rate(count: int) -> float:
    """Pipelines of three tasks per second, each task with a payload and a stored result, in four threads.

    A finished task enqueues the next one, with its own result too, which our tasks do not get. It keeps no record of a
    whole pipeline, and a pipeline whose task is lost never continues.
    """
    with _huey() as huey:

        @huey.task(context=True)  # type: ignore[untyped-decorator, unused-ignore]
        def extract(order: int, customer: str, items: list[int], task: Any) -> dict[str, Any]:
            return _result(order, customer, items, task)

        @huey.task(context=True)  # type: ignore[untyped-decorator, unused-ignore]
        def further(order: int, customer: str, items: list[int], to: str, id: str, task: Any) -> dict[str, Any]:
            return _result(order, customer, items, task)

        for _ in range(count):
            huey.enqueue(extract.s(**PAYLOAD).then(further, **PAYLOAD).then(further, **PAYLOAD))
        return count / _consume_s(huey, 3 * count)


def huey_command_rate(argv: list[str], count: int, at_once: int) -> float:
    """Runs of a command per second, its output captured and stored as the result."""
    with _huey() as huey:

        @huey.task()  # type: ignore[untyped-decorator, unused-ignore]
        def work() -> dict[str, Any]:
            done = subprocess.run(argv, capture_output=True, check=False)
            return {"code": done.returncode, "out": done.stdout, "err": done.stderr}

        for _ in range(count):
            work()
        return count / _consume_s(huey, count, workers=at_once)


async def bare_commands(argv: list[str], count: int, at_once: int) -> float:
    """Runs of a command per second by asyncio alone, with the output captured and nothing recorded."""

    async def run_once() -> None:
        process = await asyncio.create_subprocess_exec(
            *argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        await process.communicate()

    return await _rate_of(run_once, count, at_once)


async def bare_requests(target: str, count: int, at_once: int) -> float:
    """Requests per second by aiohttp's client alone, with nothing recorded."""
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=at_once)) as session:

        async def run_once() -> None:
            async with session.post(target) as response:
                await response.read()

        return await _rate_of(run_once, count, at_once)


async def _rate_of(run_once: Callable[[], Any], count: int, at_once: int) -> float:
    left = iter(range(count))

    async def worker() -> None:
        for _ in left:
            await run_once()

    begin = time.perf_counter()
    await asyncio.gather(*(worker() for _ in range(at_once)))
    return count / (time.perf_counter() - begin)


def _result(order: int, customer: str, items: list[int], task: Any) -> dict[str, Any]:
    return {"order": order, "to": customer, "items": len(items), "id": task.id}


@contextmanager
def _huey() -> Iterator[SqliteHuey]:
    with tempfile.TemporaryDirectory() as folder:
        huey = SqliteHuey(filename=str(Path(folder) / "huey.db"), fsync=True)
        yield huey
        huey.storage.close()


def _consume_s(huey: SqliteHuey, count: int, workers: int = 4) -> float:
    """The seconds until the last of ``count`` tasks has stored its result."""
    left = [count]
    lock, done = threading.Lock(), threading.Event()

    @huey.signal(SIGNAL_COMPLETE)  # type: ignore[untyped-decorator, unused-ignore]
    def ended(*_: object) -> None:
        with lock:
            left[0] -= 1
            if not left[0]:
                done.set()

    consumer = huey.create_consumer(workers=workers, initial_delay=0.001, max_delay=0.001, check_worker_health=False)
    gc.collect()
    begin = time.perf_counter()
    consumer.start()
    if not done.wait(_LONGEST_S):
        raise RuntimeError(f"huey has not run {left[0]} of {count} tasks after {_LONGEST_S} s")
    passed_s = time.perf_counter() - begin
    consumer.stop(graceful=True)
    return passed_s
