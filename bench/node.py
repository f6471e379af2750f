"""One node of ours to measure: a store, an engine, and functions that do nothing but note that they ran."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from chronos.assembly import Reach, make_engine, make_runners, make_service, make_store
from chronos.clock import SystemClock
from chronos.core.calendar import from_us
from chronos.core.execution import Cause
from chronos.core.ids import asked_execution_id
from chronos.engine.engine import Engine
from chronos.engine.options import Options
from chronos.engine.runners.functions import Functions
from chronos.service.jobs import Jobs
from chronos.service.writing import JobSaver
from chronos.store.commands import Recover, RunRow
from chronos.store.contract import Store

FAR_US = 3_600_000_000


@dataclass
class Bench:
    """A node that is not started yet."""

    store: Store
    engine: Engine
    jobs: Jobs
    saver: JobSaver
    clock: SystemClock
    starts_us: list[int] = field(default_factory=list)

    async def save(self, jobs: list[dict[str, Any]]) -> list[bytes]:
        """Save jobs; gives their ids."""
        found: list[bytes] = []
        for begin in range(0, len(jobs), 2_000):
            drafts = [self.jobs.read(job) for job in jobs[begin : begin + 2_000]]
            found += [saved.job_id for saved in await self.saver.save(drafts)]
        return found

    async def queue(self, job: dict[str, Any], count: int) -> None:
        """One job with so many executions ready."""
        [id_] = await self.save([{**job, "overlap": "allow", "schedule": _at(self.clock.now_us() + FAR_US)}])
        [saved] = (await self.store.jobs_by_id([id_])).values()
        cursor_us, now_us = saved.next_us or 0, self.clock.now_us()
        for begin in range(0, count, 500):
            runs = tuple(
                RunRow(asked_execution_id(id_, Cause.BACKFILL, now_us, b"%d" % n), Cause.BACKFILL, now_us + n, now_us)
                for n in range(begin, min(begin + 500, count))
            )
            command = Recover(
                job=id_,
                version=saved.version,
                expect_us=cursor_us,
                next_us=cursor_us + 1,
                runs=runs,
                spans=(),
                now_us=now_us,
            )
            await self.store.apply(command)
            cursor_us += 1

    async def until_settled(self, ended: int) -> None:
        """Until so many have started here, and none is open any more."""
        while len(self.starts_us) < ended or self.engine.busy or await self.open():  # noqa: ASYNC110 - polled on purpose
            await asyncio.sleep(0.005)

    async def open(self) -> int:
        """How many executions have not ended."""
        return sum((await self.store.counts()).open.values())


@asynccontextmanager
async def bench_node(url: str, *, slots: int = 1_000) -> AsyncIterator[Bench]:
    """A node with the function ``noop``."""
    clock, functions = SystemClock(), Functions()
    reach = Reach(allow_private=True)
    store = make_store(url)
    await store.open()
    runners = make_runners(functions, clock=clock, slots=slots, http=reach)
    checks = {kind: runner.check for kind, runner in runners.items()}
    service = make_service(store, clock, checks=checks)
    options = Options(slots=slots)
    engine = make_engine(store, clock=clock, options=options, functions=functions, runners=runners)
    bench = Bench(store, engine, service.jobs, service.job_saver, clock)

    async def noop() -> None:
        bench.starts_us.append(time.time_ns() // 1_000)

    functions.register("noop", noop)
    try:
        yield bench
    finally:
        await engine.stop(grace_s=1)
        for runner in runners.values():
            await runner.close()
        await store.close()


def python_job(name: str, at_us: int | None = None, **more: Any) -> dict[str, Any]:
    """A job that runs ``noop`` once, at a time."""
    schedule = {} if at_us is None else {"schedule": _at(at_us)}
    return {"name": name, "python": {"name": "noop"}, **schedule, **more}


def _at(at_us: int) -> str:
    return from_us(at_us).isoformat()
