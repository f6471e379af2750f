"""The store on each engine: hot commands compared with bare statements; creation of jobs, due gates, pages, history.

``BENCH_JOBS`` sets the number of stored jobs (1,000,000), ``BENCH_EXECUTIONS`` the executions in history for the last
rows (200,000; 10,000,000 for the full measurement). Rates are per second; due and pages are milliseconds.
"""

import asyncio
import os
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

import uvloop

from bench import Goal, Row
from bench.bare import Bare
from bench.bare_postgres import BarePostgres
from bench.bare_sqlite import BareSqlite
from bench.servers import postgres_server
from chronos.assembly import make_store
from chronos.core.admission_policy import GateSpec
from chronos.core.config import DEFAULTS, NOTHING_SET, Overlap, Settings, merge
from chronos.core.execution import Status
from chronos.core.ids import scheduled_execution_id
from chronos.core.job import JobSpec, ScheduleSpec, Target, Task
from chronos.core.reasons import ReasonCode
from chronos.core.settings.levels import NO_LEVELS, Levels
from chronos.store.commands import (
    Admit,
    AdmitRow,
    Admitted,
    Claim,
    Claimed,
    Command,
    JobRow,
    RegisterNode,
    SaveJobs,
    SetDefaults,
    Settle,
    SettleRow,
)
from chronos.store.contract import JobFilter, Store
from chronos.tuning import shorten_switch_interval, tune_garbage_collector

R = TypeVar("R")
JOBS = int(os.environ.get("BENCH_JOBS", "1000000"))
EXECUTIONS = int(os.environ.get("BENCH_EXECUTIONS", "200000"))
FEW_JOBS = 10_000
DUE = 1_000
BULK = 2_000
AT_ONCE = 4  # clients that create jobs
ROUNDS = {1: 1_000, 100: 100, 1_000: 20}  # batch size: how often
T0 = 1_800_000_000_000_000
SECOND = 1_000_000
_GATE = GateSpec(overlap=Overlap.SKIP)
_ALL_DEFAULTS = merge(DEFAULTS, Settings(priority=6))


@dataclass
class Subject:
    """A store under test: its jobs, their cursors, and the next job in turn."""

    store: Store
    node: int = 0
    jobs: list[bytes] = field(default_factory=list)
    cursor: list[int] = field(default_factory=list)
    turn: int = 0
    levels: int = NO_LEVELS

    async def create(self, upto: int) -> float:
        """Save jobs until there are ``upto``. Returns jobs per second."""
        first, took_s = len(self.jobs), 0.0
        starts = range(first, upto, BULK)
        for n in range(0, len(starts), AT_ONCE):
            commands = [
                SaveJobs(rows=tuple(_job(i) for i in range(at, min(at + BULK, upto))), now_us=T0 + at)
                for at in starts[n : n + AT_ONCE]
            ]
            started = time.perf_counter()  # building them is not counted
            for saved in await asyncio.gather(*(self.store.apply(command) for command in commands)):
                self.jobs += [job.id for job in saved]
            took_s += time.perf_counter() - started
        self.cursor += [T0 + i for i in range(first, upto)]
        return (upto - first) / took_s

    def next_jobs(self, size: int) -> list[bytes]:
        """The next jobs in turn, for the bare statements."""
        return [self.jobs[(self.turn + 1 + n) % len(self.jobs)] for n in range(size)]

    def next_rows(self, size: int, *, claim: bool) -> tuple[AdmitRow, ...]:
        """The next instants of the jobs in turn. Their ids are hashes, so they are spread over the tables."""
        rows = []
        for _ in range(size):
            self.turn = (self.turn + 1) % len(self.jobs)
            job, at = self.jobs[self.turn], self.cursor[self.turn]
            self.cursor[self.turn] = at + 3600 * SECOND
            rows.append(
                AdmitRow(job, 1, at, at + 3600 * SECOND, scheduled_execution_id(job, at), at, claim, levels=self.levels)
            )
        return tuple(rows)

    async def admit(self, size: int, *, claim: bool = True) -> tuple[list[Admitted], float]:
        """The admitted executions, and the seconds that the store took."""
        rows = self.next_rows(size, claim=claim)
        command = Admit(rows=rows, node=self.node, now_us=T0, request=os.urandom(16))
        admitted, took_s = await self._apply(command)
        assert len(admitted) == size, f"{len(admitted)} of {size} were admitted"
        return admitted, took_s

    async def claim(self, size: int, lanes: tuple[int, ...]) -> tuple[list[Claimed], float]:
        """The claimed executions, and the seconds that the store took."""
        command = Claim(lanes=lanes, limit=size, node=self.node, now_us=T0, request=os.urandom(16))
        claimed, took_s = await self._apply(command)
        assert len(claimed) == size, f"{len(claimed)} of {size} were claimed"
        return claimed, took_s

    async def settle(self, runs: list[Admitted] | list[Claimed]) -> float:
        """The seconds that the store took to settle runs."""
        rows = tuple(SettleRow(r.id, r.job, r.token, Status.SUCCEEDED, ReasonCode.SUCCEEDED, None, T0) for r in runs)
        settled, took_s = await self._apply(Settle(rows=rows, node=self.node, now_us=T0))
        assert len(settled.settled) == len(runs)
        return took_s

    async def _apply(self, command: Command[R]) -> tuple[R, float]:
        """Apply a command. Building it is not measured, as with the bare statements."""
        began = time.perf_counter()
        answer = await self.store.apply(command)
        return answer, time.perf_counter() - began


def run() -> list[Row]:
    """All engines, one after the other, in a process set up like a server, on uvloop."""
    tune_garbage_collector()
    shorten_switch_interval()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        rows = uvloop.run(_engine("sqlite", f"sqlite:///{folder}/chronos.db", BareSqlite(folder / "bare.db")))
        with postgres_server(folder) as url:
            rows += uvloop.run(_engine("postgresql", url, BarePostgres(url)))
    return rows


async def _engine(name: str, url: str, bare: Bare) -> list[Row]:
    store = make_store(url)
    await store.open()
    subject = Subject(store)
    subject.node = await store.apply(RegisterNode(name="bench", incarnation=os.urandom(16), now_us=T0))
    await subject.create(FEW_JOBS)
    due_few = await _due_ms(subject)
    rate = await subject.create(JOBS)
    rows = [
        Row(
            case=f"{name}: create {JOBS:,} jobs, {BULK:,} at a time by {AT_ONCE} clients",
            unit="/s",
            ours=rate,
            higher_is_better=True,
        ),
        Row(
            case=f"{name}: {DUE:,} due of {JOBS:,} jobs",
            unit="ms",
            ours=await _due_ms(subject),
            others={f"of {FEW_JOBS:,}": due_few},
        ),
    ]
    await bare.open(subject.jobs)
    rows += await _hot(name, subject, bare)
    rows.append(await _levels(name, subject))
    await bare.close()
    rows += await _pages(name, subject)
    rows += await _history(name, subject)
    await store.close()
    return rows


async def _hot(name: str, subject: Subject, bare: Bare) -> list[Row]:
    rows = []
    lanes = tuple(await subject.store.lanes())
    for size, rounds in ROUNDS.items():
        took = {"admit + claim": 0.0, "claim": 0.0, "settle": 0.0}
        floor = dict.fromkeys(took, 0.0)
        for _ in range(rounds):
            admitted, took_s = await subject.admit(size)
            took["admit + claim"] += took_s
            took["settle"] += await subject.settle(admitted)
            await subject.admit(size, claim=False)
            claimed, took_s = await subject.claim(size, lanes)
            took["claim"] += took_s
            await subject.settle(claimed)

            jobs = subject.next_jobs(size)
            batch, ready = ([(job, os.urandom(16)) for job in jobs] for _ in range(2))
            began = time.perf_counter()
            await bare.admit(batch, 0)
            between = time.perf_counter()
            await bare.settle(batch)
            floor["admit + claim"] += between - began
            floor["settle"] += time.perf_counter() - between
            await bare.admit(ready, 1, claim=False)
            began = time.perf_counter()
            await bare.claim(size)
            floor["claim"] += time.perf_counter() - began
            await bare.settle(ready)
        rows += [
            Row(
                case=f"{name}: {what}, batches of {size:,}",
                unit="/s",
                ours=size * rounds / took[what],
                others={"bare": size * rounds / floor[what]},
                higher_is_better=True,
            )
            for what in took
        ]
    return rows


async def _levels(name: str, subject: Subject) -> Row:
    """Admission under the server's defaults, compared with none."""
    size, rounds = 100, ROUNDS[100]
    rates = []
    for settings in (NOTHING_SET, _ALL_DEFAULTS):
        number = await subject.store.apply(SetDefaults(settings=settings, now_us=T0))
        subject.levels = Levels(number, 0).pack()
        took_s = 0.0
        for _ in range(rounds):
            admitted, admit_s = await subject.admit(size)
            took_s += admit_s
            await subject.settle(admitted)
        rates.append(size * rounds / took_s)
    return Row(
        case=f"{name}: admit + claim under defaults, batches of {size}",
        unit="/s",
        ours=rates[1],
        others={"without": rates[0]},
        higher_is_better=True,
        goal=Goal(must=0.95, against="without"),
    )


async def _due_ms(subject: Subject) -> float:
    best = float("inf")
    for _ in range(20):
        began = time.perf_counter()
        found = await subject.store.due(T0 + DUE - 1, 2 * DUE)
        best = min(best, time.perf_counter() - began)
        assert len(found) == DUE
    return best * 1000


async def _pages(name: str, subject: Subject) -> list[Row]:
    """The first page of 100 jobs, and one from the middle."""
    times = []
    for cursor in (None, f"default\0job-{JOBS // 2:07}".encode()):
        best = float("inf")
        for _ in range(20):
            began = time.perf_counter()
            page = await subject.store.list_jobs(JobFilter(namespace="default"), limit=100, cursor=cursor)
            best = min(best, time.perf_counter() - began)
            assert len(page.items) == 100
        times.append(best * 1000)
    return [Row(case=f"{name}: page {JOBS // 200:,} of jobs", unit="ms", ours=times[1], others={"page 1": times[0]})]


async def _history(name: str, subject: Subject) -> list[Row]:
    """Admit and settle while history grows: the rate at the end compared with that at the start."""
    size = 500

    async def rate(count: int) -> float:
        began = time.perf_counter()
        for _ in range(count // size):
            admitted, _ = await subject.admit(size)
            await subject.settle(admitted)
        return count / (time.perf_counter() - began)

    before = await rate(10_000)
    await rate(EXECUTIONS)
    after = await rate(10_000)
    return [
        Row(
            case=f"{name}: admit + settle after {EXECUTIONS:,} executions",
            unit="/s",
            ours=after,
            others={"at first": before},
            higher_is_better=True,
        )
    ]


def _job(i: int) -> JobRow:
    spec = JobSpec(
        schedule=ScheduleSpec(text="@hourly"),
        tasks=(Task(name="task", target=Target(kind="python", options={"name": "work"})),),
    )
    return JobRow(namespace="default", name=f"job-{i:07}", spec=spec, gate=_GATE, next_us=T0 + i)
