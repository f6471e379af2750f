"""The API of one server process on a SQLite file: creation, lists, searches, start-up time and memory with many jobs.

``BENCH_JOBS`` sets the number of jobs at the end (1,000,000; at least 10,000). Each request is durable before it is
answered. The baselines are the same server and a bare one of the same HTTP library, with nothing to do. Bulk creation
of the last jobs is compared with that of the first.
"""

import asyncio
import os
import statistics
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench import Goal, Row
from bench.api_client import Caller, rate, request, times_ms
from bench.api_servers import Served, bare_server, chronos_server

JOBS = int(os.environ.get("BENCH_JOBS", "1000000"))
HELLOS = 10_000
CREATES = 5_000
CLIENTS = 50
FEW = 10_000
PART = max(1, min(100_000, (JOBS - FEW) // 2))  # jobs: bulk creation of the last part is compared with the first
BULK = 5_000
SENDERS = 8  # clients that create jobs in bulk; while one batch is written, others are read and answered
LOOKS = 300
_ROUND = 60  # requests built before they are sent; the server idles at the end of each round
PAGE = 100
V1 = "/api/v1"


def run() -> list[Row]:
    """All rows. The store grows from one row to the next."""
    rows: list[Row] = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with bare_server(folder) as bare, chronos_server(folder) as ours:
            rows += asyncio.run(_creates(ours, bare))
            rows += _bulk_rows(f"up to {FEW:,}", asyncio.run(_grow(ours, CREATES, FEW)))
        with chronos_server(folder) as ours:
            few = asyncio.run(_held(ours, FEW))
            rows += _flat_rows(ours)
        with chronos_server(folder) as ours:
            many = asyncio.run(_held(ours, JOBS))
            rows += [*few, *many, *asyncio.run(_lists(ours))]
    return rows


def _job(number: int) -> dict[str, Any]:
    """A job that is due once a year, so that nothing runs meanwhile."""
    schedule = f"{number % 60} {number // 60 % 24} 29 2 *"
    return {"name": f"job-{number:07}", "schedule": schedule, "command": {"argv": ["true"]}, "tags": {"team": "a"}}


def _rate(case: str, ours: float, others: dict[str, float] | None = None, goal: Goal | None = None) -> Row:
    return Row(case=case, unit="/s", ours=ours, others=others or {}, higher_is_better=True, goal=goal)


async def _creates(ours: Served, bare: Served) -> list[Row]:
    """Requests per second, and the processor time of each."""
    hello = request("GET", "/healthz")
    await rate(ours.url, [hello] * 500, clients=CLIENTS, status=200)  # warm both up
    theirs = await rate(bare.url, [hello] * HELLOS, clients=CLIENTS, status=200)
    used_s = ours.cpu_s
    hellos = await rate(ours.url, [hello] * HELLOS, clients=CLIENTS, status=200)
    hello_us = (ours.cpu_s - used_s) / HELLOS * 1e6
    creates = [request("POST", f"{V1}/jobs", _job(number)) for number in range(CREATES)]
    used_s = ours.cpu_s
    created = await rate(ours.url, creates, clients=CLIENTS, status=201)
    create_us = (ours.cpu_s - used_s) / CREATES * 1e6
    return [
        _rate(f"GET /healthz, {CLIENTS} clients", hellos, {"bare aiohttp": theirs}),
        _rate(
            f"POST /jobs, {CLIENTS} clients",
            created,
            {"bare aiohttp": theirs, "/healthz": hellos},
            Goal(must=2_000),
        ),
        Row(case="POST /jobs, processor time", unit="µs", ours=create_us, others={"/healthz": hello_us}),
    ]


@dataclass(frozen=True, slots=True)
class Growth:
    """Jobs created in bulk: their number, the duration, and the processor time of the server."""

    jobs: int
    took_s: float
    cpu_s: float

    def __add__(self, other: "Growth") -> "Growth":
        return Growth(self.jobs + other.jobs, self.took_s + other.took_s, self.cpu_s + other.cpu_s)

    @property
    def rate(self) -> float:
        """Jobs per second."""
        return self.jobs / self.took_s

    @property
    def cpu_us(self) -> float:
        """Processor time per job."""
        return self.cpu_s / self.jobs * 1e6


def _flat_rows(ours: Served) -> list[Row]:
    """The whole growth, and its last part compared with its first."""
    first = asyncio.run(_grow(ours, FEW, FEW + PART))
    middle = asyncio.run(_grow(ours, FEW + PART, JOBS - PART))
    last = asyncio.run(_grow(ours, JOBS - PART, JOBS))
    name = f"first {PART:,}"
    return [
        *_bulk_rows(f"up to {JOBS:,}", first + middle + last, Goal(must=15_000)),
        *_bulk_rows(f"the last {PART:,} of {JOBS:,}", last, Goal(must=0.8, against=name), beside={name: first}),
    ]


def _bulk_rows(
    which: str, growth: Growth, goal: Goal | None = None, beside: Mapping[str, Growth] | None = None
) -> list[Row]:
    """Jobs per second, and the processor time of each."""
    case = f"POST /jobs/bulk, {BULK:,} a request by {SENDERS} clients, {which}"
    others = beside or {}
    used_us = {name: other.cpu_us for name, other in others.items()}
    return [
        _rate(case, growth.rate, {name: other.rate for name, other in others.items()}, goal),
        Row(case=f"{case}, processor time", unit="µs a job", ours=growth.cpu_us, others=used_us),
    ]


async def _grow(ours: Served, begin: int, end: int) -> Growth:
    """Create jobs in bulk, from one number to another."""
    callers, took_s, used_s = [Caller(ours.url) for _ in range(SENDERS)], 0.0, ours.cpu_s
    for first in range(begin, end, _ROUND * BULK):
        requests = [_bulk(at, min(at + BULK, end)) for at in range(first, min(first + _ROUND * BULK, end), BULK)]
        begin_s = time.perf_counter()  # building them is not counted
        left = iter(requests)
        await asyncio.gather(*(_send(caller, left) for caller in callers))
        took_s += time.perf_counter() - begin_s
    for caller in callers:
        await caller.close()
    return Growth(end - begin, took_s, ours.cpu_s - used_s)


def _bulk(begin: int, end: int) -> bytes:
    return request("POST", f"{V1}/jobs/bulk", {"jobs": [_job(number) for number in range(begin, end)]})


async def _send(caller: Caller, requests: Iterator[bytes]) -> None:
    for one in requests:
        status, body = await caller.call(one)
        if status != 200 or b'"failed":0' not in body[:200]:
            raise RuntimeError(f"{status} {body[:500]!r}")


async def _held(ours: Served, count: int) -> list[Row]:
    """The cost of a server with this many jobs right after its start."""
    caller = Caller(ours.url)
    status = await caller.ask("GET", f"{V1}/status")
    await caller.close()
    if status["jobs_persisted"] != count:
        raise RuntimeError(f"{status['jobs_persisted']} jobs instead of {count}")
    await asyncio.sleep(2)
    return [
        Row(case=f"start-up with {count:,} jobs", unit="s", ours=ours.start_s),
        Row(case=f"memory with {count:,} jobs", unit="MB", ours=ours.memory_mb("VmRSS")),
        Row(case=f"memory with {count:,} jobs, without pages of the file", unit="MB", ours=ours.memory_mb("RssAnon")),
    ]


async def _lists(ours: Served) -> list[Row]:
    """Pages near the start and far behind it, and searches."""
    caller = Caller(ours.url)
    pages = max(2, min(1_000, JOBS // PAGE))
    cursor = await _cursor(caller, (pages - 1) * PAGE)
    await caller.close()
    last = f"job-{JOBS - 1:07}"
    cases = {
        f"first page of {PAGE}": (f"{V1}/jobs?limit={PAGE}", LOOKS),
        f"page {pages:,} of {PAGE}": (f"{V1}/jobs?limit={PAGE}&cursor={cursor}", LOOKS),
        "search for a part of a name that one has": (f"{V1}/jobs?limit={PAGE}&q={last[4:]}", 5),
        "search without a match": (f"{V1}/jobs?limit={PAGE}&q=nothing", 5),
        "search for what all have": (f"{V1}/jobs?limit={PAGE}&q=job-", LOOKS),
        "by a name's beginning": (f"{V1}/jobs?limit={PAGE}&prefix={last}", LOOKS),
        "one job by name": (f"{V1}/jobs/{last}", LOOKS),
        "status": (f"{V1}/status", 20),
    }
    rows = []
    for case, (path, count) in cases.items():
        found = await times_ms(ours.url, path, count)
        rows.append(Row(case=f"{case}, among {JOBS:,}, p50", unit="ms", ours=statistics.median(found)))
        rows.append(Row(case=f"{case}, among {JOBS:,}, p99", unit="ms", ours=found[int(len(found) * 0.99) - 1]))
    return rows


async def _cursor(caller: Caller, behind: int) -> str:
    """The cursor after this many jobs."""
    cursor = ""
    for count in _steps(behind):
        said = f"&cursor={cursor}" if cursor else ""
        cursor = (await caller.ask("GET", f"{V1}/jobs?limit={count}{said}"))["next_cursor"]
    return cursor


def _steps(total: int) -> Iterator[int]:
    while total > 0:
        yield min(1_000, total)
        total -= 1_000
