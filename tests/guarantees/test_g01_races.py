"""Real races: processes (PostgreSQL) or threads (SQLite) admit the same instants and use the same gates."""

import asyncio
import subprocess
import sys
import threading
from collections import Counter
from pathlib import Path

from chronos.assembly import make_store
from chronos.core.config import Overlap
from chronos.core.execution import AttemptStatus, Execution, Status
from chronos.core.reasons import ReasonCode
from chronos.store.commands import NEW, EndedAttempt, Reap, ReapRow, SaveJobs
from chronos.store.contract import ExecutionFilter, Store
from chronos.testing.conformance import StoreFixture
from tests.support.race_process import SECOND, T0, race

ROOT = Path(__file__).parents[2]
INSTANTS = 1_000


class Process:
    """A racer in its own process, whose lines are read as they come."""

    def __init__(self, url: str, seed: int, mode: str) -> None:
        self._child = subprocess.Popen(
            [sys.executable, "-m", "tests.support.race_process", url, str(seed), mode],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
        )
        assert self._child.stdin is not None
        assert self._child.stdout is not None
        self._in, self._out = self._child.stdin, self._child.stdout
        assert self._out.readline() == "ready\n"
        self.started: list[str] = []

    def start(self, *, kill_after: int = 0) -> None:
        """Start racing. The process kills itself after ``kill_after`` started executions (0: never)."""
        self._in.write(f"{kill_after}\n")
        self._in.flush()
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        self.started += [line.strip() for line in self._out]

    def join(self) -> int:
        """Wait for its end. Returns the exit code."""
        self._reader.join()
        self._in.close()
        self._out.close()
        return self._child.wait()


def run_threads(url: str, mode: str, count: int) -> list[list[str]]:
    """Race in threads, each with its own event loop and its own store on the same file."""
    started: list[list[str]] = [[] for _ in range(count)]
    barrier = threading.Barrier(count)
    errors: list[BaseException] = []

    def ready() -> None:
        barrier.wait()

    def run_racer(i: int) -> None:
        try:
            asyncio.run(race(url, i, mode, ready=ready, report=started[i].append))
        except BaseException as error:
            errors.append(error)
            raise

    threads = [threading.Thread(target=run_racer, args=(i,)) for i in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    return started


async def list_executions(store: Store) -> list[Execution]:
    executions: list[Execution] = []
    cursor = None
    while True:
        page = await store.list_executions(ExecutionFilter(), limit=1_000, cursor=cursor)
        executions += [item for item in page.items if isinstance(item, Execution)]
        cursor = page.cursor
        if cursor is None:
            return executions


async def prepare(url: str, rows: dict[str, dict[str, object]]) -> None:
    store = make_store(url)
    await store.open()
    world = StoreFixture(store)
    await world.start_node("starter")
    await store.apply(
        SaveJobs(rows=tuple(world.build_job_row(name, **options) for name, options in rows.items()), now_us=T0)
    )
    await store.close()


def make_many_jobs() -> dict[str, dict[str, object]]:
    return {f"job-{i:04}": {"overlap": Overlap.ALLOW, "next_us": T0 + SECOND} for i in range(INSTANTS)}


def make_contended_jobs() -> dict[str, dict[str, object]]:
    kinds: dict[str, dict[str, object]] = {
        "skip": {"overlap": Overlap.SKIP},
        "queue": {"overlap": Overlap.QUEUE, "queue_max": 5},
        "limit": {"overlap": Overlap.ALLOW, "limit": 2, "queue_max": 5},
        "allow": {"overlap": Overlap.ALLOW},
        "replace": {"overlap": Overlap.REPLACE},
    }
    return {f"{kind}-{i}": options for kind, options in kinds.items() for i in range(2)}


async def check_started_once(url: str, started: list[str], *, killed: int = 0) -> None:
    store = make_store(url)
    await store.open()
    executions = await list_executions(store)
    assert len({e.id for e in executions}) == len(executions) == INSTANTS
    times = Counter(started)
    assert max(times.values()) == 1, "an execution was claimed twice"
    if killed == 0:
        assert len(started) == INSTANTS
        assert {e.status for e in executions} == {Status.RUNNING}
    assert await store.verify() == []
    # Other nodes take over the executions of killed racers, so nothing is lost.
    for node in await store.nodes():
        held = await store.running_on(node.number)
        rows = tuple(
            ReapRow(
                *(e.id, e.job, e.token, Status.READY, ReasonCode.WORKER_LOST, 2),
                (EndedAttempt(e.id, "task", 1, AttemptStatus.LOST, T0, T0, node.number),),
            )
            for e in held
        )
        reaped = await store.apply(Reap(node=node.number, beat=node.beat, rows=rows, now_us=T0))
        assert reaped is not None
        assert len(reaped) == len(held)
    counts = await store.counts()
    assert counts.open == {Status.READY: INSTANTS}
    assert await store.verify() == []
    await store.close()


async def check_all_settled(url: str) -> None:
    store = make_store(url)
    await store.open()
    assert await store.verify() == []
    counts = await store.counts()
    assert counts.open == {}, "executions are left over: a lost wake-up"
    executions = await list_executions(store)
    by_job = Counter(e.job for e in executions)
    assert set(by_job.values()) == {40}, "an instant has no record, or several"
    assert len({(e.job, e.scheduled_us) for e in executions}) == len(executions)
    statuses = Counter(e.status for e in executions)
    assert statuses[Status.SUCCEEDED] > 100
    await store.close()


def test_the_same_creation_sent_to_several_servers_creates_one_job(prepared_url: str, tmp_path: Path) -> None:
    """A client without an answer repeats the request at another server while the first still works on it."""

    async def check(url: str) -> None:
        stores = [make_store(url) for _ in range(4)]
        for store in stores:
            await store.open()
        row = StoreFixture(stores[0]).build_job_row
        for n in range(10):
            command = SaveJobs(rows=(row(f"job-{n}", expect=NEW),), now_us=T0 + n, idempotency=f"k{n}")
            answers = await asyncio.gather(*(store.apply(command) for store in stores))
            assert len({saved.id for [saved] in answers}) == 1
            assert sum(saved.created for [saved] in answers) == 1
        for store in stores:
            await store.close()

    for url in (prepared_url, f"sqlite:///{tmp_path}/chronos.db"):
        asyncio.run(check(url))


def test_processes_admit_each_instant_once(prepared_url: str) -> None:
    asyncio.run(prepare(prepared_url, make_many_jobs()))
    racers = [Process(prepared_url, seed, "start") for seed in range(8)]
    for racer in racers:
        racer.start()
    assert [racer.join() for racer in racers] == [0] * 8
    started = [line for racer in racers for line in racer.started]
    asyncio.run(check_started_once(prepared_url, started))


def test_processes_admit_each_instant_once_although_some_are_killed(prepared_url: str) -> None:
    asyncio.run(prepare(prepared_url, make_many_jobs()))
    racers = [Process(prepared_url, seed, "start") for seed in range(8)]
    for i, racer in enumerate(racers):
        racer.start(kill_after=15 if i < 3 else 0)
    codes = [racer.join() for racer in racers]
    assert codes[3:] == [0] * 5
    assert any(code == -9 for code in codes[:3])
    started = [line for racer in racers for line in racer.started]
    asyncio.run(check_started_once(prepared_url, started, killed=3))


def test_threads_admit_each_instant_once(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/chronos.db"
    asyncio.run(prepare(url, make_many_jobs()))
    started = run_threads(url, "start", 8)
    asyncio.run(check_started_once(url, [line for each in started for line in each]))


def test_processes_settle_everything_on_contended_gates(prepared_url: str) -> None:
    asyncio.run(prepare(prepared_url, make_contended_jobs()))
    racers = [Process(prepared_url, seed, "churn") for seed in range(4)]
    for racer in racers:
        racer.start()
    assert [racer.join() for racer in racers] == [0] * 4
    asyncio.run(check_all_settled(prepared_url))


def test_threads_settle_everything_on_contended_gates(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/chronos.db"
    asyncio.run(prepare(url, make_contended_jobs()))
    run_threads(url, "churn", 4)
    asyncio.run(check_all_settled(url))
