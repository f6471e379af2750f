"""A whole node: executions per second from end to end, lateness, webhooks, commands, graphs, and the cost of waiting.

``BENCH_RUNS`` sets the executions per rate (20,000); slower rivals and work get a part of them. Rates are per second
and durable, with full history. Each is measured three times, in turn with its rivals, and the medians are shown. "bare"
is the least code that does the same work: for functions the statements of admit, claim and settle in batches of 1,000
with an empty coroutine, for webhooks aiohttp's client, for commands asyncio's processes. ``docs/benchmarks.md``
explains the rows.
"""

import asyncio
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import uvloop

from bench import Goal, Row
from bench.bare import Bare
from bench.bare_postgres import BarePostgres
from bench.bare_sqlite import BareSqlite
from bench.node import (
    ASKS_NOTHING,
    FULL,
    GRAPH,
    NOOP,
    SYNC,
    Work,
    command,
    drain,
    fill,
    idle_share,
    lateness_ms,
    prepare_interpreter,
    webhook,
)
from bench.rivals import (
    bare_commands,
    bare_requests,
    huey_command_rate,
    huey_graph_rate,
    huey_rate,
    pgqueuer_rate,
)
from bench.servers import postgres_server
from bench.stores import PostgresStores, SqliteStores, Stores
from bench.target import target_server

RUNS = int(os.environ.get("BENCH_RUNS", "20000"))
HUEY = RUNS // 10
WEBHOOKS = RUNS // 4
GRAPHS = RUNS // 20
COMMANDS = RUNS // 50
DUE_AT_ONCE = RUNS // 2
TURNS = 3  # the median counts
REQUESTS_AT_ONCE = 100
COMMANDS_AT_ONCE = 20
ARGV = ["echo", "done"]
IDLE_JOBS = 10_000
IDLE_S = 5.0
LATENESS = ((50, 100_000), (1_000, 1_000), (10_000, 100))  # jobs, microseconds between two
P99_GOALS = {50: Goal(must=10), 1_000: Goal(must=100), 10_000: Goal(must=1_000, aim=50)}

Measure = Callable[[], float]


def run() -> list[Row]:
    """All rows, SQLite first."""
    prepare_interpreter()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        files = SqliteStores(folder)
        with postgres_server(folder) as url:
            databases = PostgresStores(url)
            return [
                *_on_sqlite(files, folder),
                *_on_postgres(databases),
                _webhooks(files),
                _commands(files),
                _graphs(files),
                *_lateness(files),
                *_lateness(databases),
                _idle(files),
            ]


def _on_sqlite(files: SqliteStores, folder: Path) -> list[Row]:
    """Functions compared with huey, whose functions are sync; its figure is used for both of ours."""

    def bare() -> float:
        path = folder / "bare.db"
        path.unlink(missing_ok=True)
        return asyncio.run(_bare(BareSqlite(path)))

    return _functions(files, {"huey": lambda: huey_rate(HUEY), "bare": bare}, Goal(must=4, aim=8, against="huey"))


def _on_postgres(databases: PostgresStores) -> list[Row]:
    """Functions compared with pgqueuer."""

    def bare() -> float:
        with databases.empty() as url:
            return asyncio.run(_bare(BarePostgres(url)))

    def pgqueuer(count: int, *, sync: bool) -> float:
        with databases.empty() as url:
            return asyncio.run(pgqueuer_rate(url, count, sync=sync))

    rivals: dict[str, Measure] = {
        "pgqueuer": lambda: pgqueuer(RUNS, sync=False),
        "pgqueuer, sync": lambda: pgqueuer(RUNS // 4, sync=True),
        "bare": bare,
    }
    return _functions(databases, rivals, Goal(must=0.7, aim=1, against="pgqueuer"))


def _functions(stores: Stores, rivals: dict[str, Measure], goal: Goal) -> list[Row]:
    """One backlog of one job for all kinds of functions. ``goal`` names the rival that counts."""
    kind, rival = stores.kind, str(goal.against)
    with _backlog(stores, FULL, RUNS) as measure:
        works = {"full": FULL, "sync": SYNC, "nothing": ASKS_NOTHING, "noop": NOOP}
        figures = _medians({**{name: partial(measure, work) for name, work in works.items()}, **rivals})
    return [
        _rate(
            f"{kind}: async function with ctx, payload and result",
            figures["full"],
            {name: figures[name] for name in (rival, "bare")},
            goal,
        ),
        _rate(
            f"{kind}: sync function with ctx, payload and result",
            figures["sync"],
            {rival: figures.get(f"{rival}, sync", figures[rival]), "async": figures["full"]},
            Goal(must=0.5, against="async"),
        ),
        Row(
            case=f"{kind}: asking for ctx and a payload, over asking for nothing",
            unit="× the cost",
            ours=figures["nothing"] / figures["full"],
            goal=Goal(must=1.4),
        ),
        _rate(
            f"{kind}: async function that takes nothing and returns nothing", figures["noop"], {"bare": figures["bare"]}
        ),
    ]


def _webhooks(files: SqliteStores) -> Row:
    """Requests to a server in another process. Both clients run on uvloop, as ``chronos server`` does."""
    with target_server() as target:
        work = webhook(target, REQUESTS_AT_ONCE)
        with _backlog(files, work, WEBHOOKS, uvloop.run) as measure:
            figures = _medians(
                {
                    "ours": lambda: measure(work),
                    "bare": lambda: uvloop.run(bare_requests(target, WEBHOOKS, REQUESTS_AT_ONCE)),
                }
            )
    return _rate("webhook with its full record", figures.pop("ours"), figures, Goal(must=0.5, against="bare"))


def _commands(files: SqliteStores) -> Row:
    """A command that prints a line, several at once."""
    work = command(ARGV, COMMANDS_AT_ONCE)
    with _backlog(files, work, COMMANDS, uvloop.run) as measure:
        figures = _medians(
            {
                "ours": lambda: measure(work),
                "huey": lambda: huey_command_rate(ARGV, COMMANDS, COMMANDS_AT_ONCE),
                "bare": lambda: uvloop.run(bare_commands(ARGV, COMMANDS, COMMANDS_AT_ONCE)),
            }
        )
    return _rate("command with its output", figures.pop("ours"), figures)


def _graphs(files: SqliteStores) -> Row:
    """A graph of three tasks; each needs the previous one."""
    with _backlog(files, GRAPH, GRAPHS) as measure:
        figures = _medians({"ours": lambda: measure(GRAPH), "huey": lambda: huey_graph_rate(GRAPHS // 2)})
    return _rate("graph of three async functions", figures.pop("ours"), figures)


@contextmanager
def _backlog(
    stores: Stores, work: Work, count: int, run: Callable[[Coroutine[Any, Any, float]], float] = asyncio.run
) -> Iterator[Callable[[Work], float]]:
    """A store with ``count`` executions. Yields a function that measures work on a copy of it, on its own loop."""
    with stores.empty() as filled:
        last = fill(filled, work, count)

        def measure(work: Work) -> float:
            with stores.copy(filled) as url:
                return run(drain(url, work, count, last))

        yield measure


def _lateness(stores: Stores) -> list[Row]:
    """From the instant to the first line of the function, on an idle node and with many jobs at once."""
    kind = stores.kind
    _late_ms(stores, 1, 0)  # imports everything that is imported on first use
    rows = []
    for count, apart_us in LATENESS:
        figures = [_late_ms(stores, count, apart_us) for _ in range(TURNS)]
        case = "one every 100 ms" if count == 50 else f"{count:,} within a second"
        for name, place, goal in (
            ("p50", count // 2, None),
            ("p99", int(count * 0.99) - 1, P99_GOALS[count]),
            ("of the last", count - 1, Goal(must=1_000) if count == 10_000 else None),
        ):
            late_ms = statistics.median(each[place] for each in figures)
            rows.append(Row(case=f"{kind}: lateness {name}, {case}", unit="ms", ours=late_ms, goal=goal))
    rate = DUE_AT_ONCE / _late_ms(stores, DUE_AT_ONCE, 0)[-1] * 1e3
    return [*rows, _rate(f"{kind}: starts of {DUE_AT_ONCE:,} jobs due at one instant", rate, {})]


def _late_ms(stores: Stores, count: int, apart_us: int) -> list[float]:
    """How late each job started. The first instant moves further away until all jobs are saved before it."""
    for margin in (1, 4, 16, 64):
        first = datetime.now(UTC) + margin * timedelta(seconds=1.5, microseconds=250 * count)
        due = [first + timedelta(microseconds=number * apart_us) for number in range(count)]
        with stores.empty() as url:
            if figures := asyncio.run(lateness_ms(url, due)):
                return figures
    raise RuntimeError(f"saving {count:,} jobs takes too long on this machine")


def _idle(files: SqliteStores) -> Row:
    """The share of a core that an idle node uses."""
    with files.empty() as url:
        share = asyncio.run(idle_share(url, IDLE_JOBS, IDLE_S))
    return Row(case=f"idle with {IDLE_JOBS:,} jobs waiting", unit="% of a core", ours=100 * share, goal=Goal(must=1))


def _medians(measures: dict[str, Measure]) -> dict[str, float]:
    """The median of several measurements, taken in turns, so that all share the noise of the machine."""
    figures: dict[str, list[float]] = {name: [] for name in measures}
    for _ in range(TURNS):
        for name, measure in measures.items():
            figures[name].append(measure())
    return {name: statistics.median(values) for name, values in figures.items()}


def _rate(case: str, ours: float, others: dict[str, float], goal: Goal | None = None) -> Row:
    return Row(case=case, unit="/s", ours=ours, others=others, higher_is_better=True, goal=goal)


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
