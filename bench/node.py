"""Chronos as a user's program runs it: a backlog of one job, and an app that works through it.

It uses only the public SDK, so that the same benchmark can measure other versions.
"""

import asyncio
import gc
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from chronos import Chronos, Context, Invalid, Job, JobHandle, RunInfo

SLOTS = 1_000  # as many as pgqueuer uses
_FIRST = datetime(2020, 1, 1, tzinfo=UTC)  # instant of a backlog; the others follow hour by hour
_KEPT = 10_000_000  # executions per job that retention keeps, so that history is complete
#: What each job of a backlog says beside its work: its instants are asked for by a backfill.
OPTIONS: dict[str, Any] = {"cron": "0 * * * *", "overlap": "allow", "retention": {"max_count": _KEPT}}
PAYLOAD = {"order": 4711, "customer": "ada@example.com", "items": [1, 2, 3]}

Calls = list[None]  # one item per call of a function


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """The work of a backlog. If ``counted``, its functions add to the calls; in a graph only the last one does."""

    declare: Callable[[Chronos, Calls], JobHandle]
    counted: bool = True
    slots: int = SLOTS


def prepare_interpreter() -> None:
    """Set up this process like ``app.run()`` and ``chronos server`` do. Rivals run in the same process."""
    sys.setswitchinterval(0.0002)
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 20)


def fill(url: str, work: Work, count: int) -> str:
    """Put ``count`` executions of one job into a store. Returns the id of the last one."""
    app = _app(url, work.slots)
    try:
        runs = work.declare(app, []).backfill(_FIRST, _FIRST + timedelta(hours=count - 1))
        assert len(runs) == count, f"{len(runs)} of {count} executions are in the backlog"
        return runs[-1].id
    finally:
        app.stop()


async def drain(url: str, work: Work, count: int, last: str) -> float:
    """Executions per second of a backlog, from the start of the node until the last one is settled in the store.

    Opening the store is not counted, because the rivals connect before their time starts.
    """
    calls: Calls = []
    app = _app(url, work.slots)
    job = work.declare(app, calls)
    gc.collect()
    await app.astart()
    begin = time.perf_counter()
    try:
        if work.counted:
            while len(calls) < count:  # noqa: ASYNC110 - polled, so that the engine is not watched
                await asyncio.sleep(0.002)
        else:
            run = app.get_run(last)
            while not (await run.ainfo()).is_over:  # noqa: ASYNC110
                await asyncio.sleep(0.05)
        while await job.ais_running():  # noqa: ASYNC110
            await asyncio.sleep(0.005)
        passed_s = time.perf_counter() - begin
        await _check(job, count)
    finally:
        await app.astop()
    return count / passed_s


async def _check(job: JobHandle, count: int) -> None:
    """Raise ``RuntimeError`` unless every execution succeeded. One more is an hour that passed meanwhile."""
    found = await job.aexecutions(limit=count)
    good = sum(isinstance(one, RunInfo) and one.succeeded for one in found)
    if good < count:
        raise RuntimeError(f"{good} of {count} executions of {job.name} succeeded")


def _app(url: str, slots: int) -> Chronos:
    return Chronos(url, slots=slots, allow_private=True)


# --- the work; all functions are called "work", so that they share one backlog


def _function(app: Chronos, function: Callable[..., Any]) -> Job[..., Any]:
    return app.job(name="work", payload=PAYLOAD, **OPTIONS)(function)


def _full(app: Chronos, calls: Calls) -> JobHandle:
    async def work(ctx: Context, order: int, customer: str, items: list[int]) -> dict[str, Any]:
        calls.append(None)
        return {"order": order, "to": customer, "items": len(items), "id": ctx.execution_id}

    return _function(app, work)


def _sync(app: Chronos, calls: Calls) -> JobHandle:
    def work(ctx: Context, order: int, customer: str, items: list[int]) -> dict[str, Any]:
        calls.append(None)
        return {"order": order, "to": customer, "items": len(items), "id": ctx.execution_id}

    return _function(app, work)


def _asks_nothing(app: Chronos, calls: Calls) -> JobHandle:
    """A function without parameters, with a result as large as the full one."""

    async def work() -> dict[str, Any]:
        calls.append(None)
        return {"order": 4711, "to": "ada@example.com", "items": 3, "id": "01a1ed5c-4245-8a52-adc9-c7b034c22a0c"}

    return _function(app, work)


def _noop(app: Chronos, calls: Calls) -> JobHandle:
    async def work() -> None:
        calls.append(None)

    return _function(app, work)


def _graph(app: Chronos, calls: Calls) -> JobHandle:
    """Each task takes the context and a payload and returns a result. The second and third need the previous one."""
    group = app.group("graph", **OPTIONS)

    @group.task(payload=PAYLOAD)
    async def extract(ctx: Context, order: int, customer: str, items: list[int]) -> dict[str, Any]:
        return {"order": order, "to": customer, "items": len(items), "id": ctx.execution_id}

    @group.task(payload=PAYLOAD, needs=extract)
    async def transform(ctx: Context, order: int, customer: str, items: list[int]) -> dict[str, Any]:
        return {"order": order, "to": customer, "items": len(items), "id": ctx.execution_id}

    @group.task(payload=PAYLOAD, needs=transform)
    async def load(ctx: Context, order: int, customer: str, items: list[int]) -> dict[str, Any]:
        calls.append(None)
        return {"order": order, "to": customer, "items": len(items), "id": ctx.execution_id}

    return group


FULL, SYNC, ASKS_NOTHING, NOOP = (Work(declare=each) for each in (_full, _sync, _asks_nothing, _noop))
GRAPH = Work(declare=_graph)


def webhook(target: str, at_once: int) -> Work:
    """Requests to a target."""
    return Work(
        declare=lambda app, _: app.webhook("hook", target, method="POST", **OPTIONS), counted=False, slots=at_once
    )


def command(argv: list[str], at_once: int) -> Work:
    """Runs of a command."""
    return Work(declare=lambda app, _: app.command("command", argv, **OPTIONS), counted=False, slots=at_once)


async def lateness_ms(url: str, due: list[datetime]) -> list[float] | None:
    """How late the function of each job was called, sorted; one job per instant.

    Returns None if the first instant passed before all jobs were saved and the node ran.
    """
    late_ms: list[float] = []
    app = _app(url, SLOTS)

    @app.job(name="note")
    async def note(due_us: int) -> None:
        late_ms.append(time.time_ns() / 1e6 - due_us / 1e3)

    for number, at in enumerate(due):
        app.python(f"due-{number}", "note", at=at, payload={"due_us": round(at.timestamp() * 1e6)})
    gc.collect()
    try:
        await app.astart()
    except Invalid:  # an instant that is long past is refused
        return None
    is_ready = datetime.now(UTC) < due[0]
    while is_ready and len(late_ms) < len(due):  # noqa: ASYNC110
        await asyncio.sleep(0.01)
    await app.astop()
    return sorted(late_ms) if is_ready else None


async def idle_share(url: str, jobs: int, seconds: float) -> float:
    """The share of a core that a node uses while this many jobs wait."""
    app = _app(url, 100)

    @app.job(name="note")
    async def note() -> None: ...

    far = datetime.now(UTC) + timedelta(hours=1)
    for number in range(jobs):
        app.python(f"idle-{number}", "note", at=far + timedelta(microseconds=number))
    await app.astart()
    await asyncio.sleep(2)
    begin_s = time.process_time()
    await asyncio.sleep(seconds)
    used_s = time.process_time() - begin_s
    await app.astop()
    return used_s / seconds
