"""Somebody who uses the scheduler while everything goes wrong: triggers, cancels, pauses, updates, deletes, creates.

What is asked for goes through the real service and over the same faulty wires. Who gets no answer asks again, and does
not know whether it was done before; what was put out of order (a pause, a deletion) is put right again in the end.
"""

import asyncio
from collections.abc import Awaitable, Callable
from random import Random
from typing import TYPE_CHECKING, cast

from chronos.core.config import NOTHING_SET
from chronos.errors import ChronosError, StoreUnavailable
from chronos.service.jobs import Jobs
from chronos.service.runs import Runs
from chronos.service.shapes import Draft
from chronos.store.contract import ExecutionFilter, Store
from tests.simulation.history import Deed
from tests.simulation.jobs import SimJob
from tests.simulation.machines import Machine
from tests.simulation.scenario import DAY_S
from tests.simulation.wire import FaultyStore

if TYPE_CHECKING:
    from tests.simulation.world import World

_TRIES = 5
_DEEDS = {Deed.TRIGGER: 3, Deed.CANCEL: 3, Deed.PAUSE: 2, Deed.SAVE: 2, Deed.DELETE: 1}


class Person:
    """Lives until ``end_s``, and a little longer if something has to be put right."""

    def __init__(self, world: "World", end_s: float) -> None:
        self._world, self._loop, self._end_s = world, world.loop, end_s
        self._deeds, self._history = world.scenario.deeds, world.history
        self._dice = Random(f"{world.scenario.seed}-person")
        clock = world.clock_that_counts()
        self._store = cast(Store, FaultyStore(world.wire, Machine(world.loop, "person", clock)))
        self._jobs = Jobs(self._store, clock, defaults=NOTHING_SET, checks={})
        self._runs = Runs(self._store, clock, self._jobs, new_request=lambda: self._dice.randbytes(16))
        self._said = {job.name: job for job in world.scenario.jobs}  # how each job was last saved
        self._busy: set[str] = set()  # jobs that something is being done to: paused, or gone, for a while
        self._asked = 0

    async def live(self) -> None:
        async with asyncio.TaskGroup() as errands:
            while True:
                await asyncio.sleep(min(self._dice.expovariate(self._deeds / DAY_S), self._end_s - self._loop.time()))
                if self._loop.time() >= self._end_s:
                    return
                [deed] = self._dice.choices(list(_DEEDS), list(_DEEDS.values()))
                job = self._said[self._dice.choice(sorted(self._said))]
                if job.name not in self._busy:
                    errands.create_task(self._do(deed, job))

    async def _do(self, deed: Deed, job: SimJob) -> None:
        self._busy.add(job.name)
        await self._deal(deed, job)
        self._busy.discard(job.name)

    async def _deal(self, deed: Deed, job: SimJob) -> None:
        name = job.name
        match deed:
            case Deed.TRIGGER:
                self._asked += 1
                key = f"asked-{self._asked}"
                await self._try(Deed.TRIGGER, lambda: self._runs.trigger(name, idempotency=key))
            case Deed.CANCEL:
                await self._cancel(name)
            case Deed.SAVE:
                await self._save(job)
            case Deed.PAUSE:
                await self._try(Deed.PAUSE, lambda: self._jobs.pause(name))
                await self._a_while()
                await self._try(Deed.RESUME, lambda: self._jobs.resume(name), tries=None)
            case _:
                draft = Draft(name=name, spec=job.spec())
                await self._try(Deed.DELETE, lambda: self._jobs.delete(name))
                await self._a_while()
                await self._try(Deed.SAVE, lambda: self._jobs.save([draft]), tries=None)

    async def _cancel(self, name: str) -> None:
        """Something of a job that is not over."""

        async def one() -> None:
            job = await self._jobs.get(name)
            page = await self._store.list_executions(ExecutionFilter(job=job.id), limit=20)
            opened = [item.id for item in page.items if not item.status.final]
            if opened:
                await self._runs.cancel(opened[0])

        await self._try(Deed.CANCEL, one)

    async def _save(self, job: SimJob) -> None:
        original = next(one for one in self._world.scenario.jobs if one.name == job.name)
        changed = original.changed(self._dice.randrange(4))
        self._said[job.name] = changed
        draft = Draft(name=job.name, spec=changed.spec())
        await self._try(Deed.SAVE, lambda: self._jobs.save([draft]), tries=None)

    async def _a_while(self) -> None:
        heartbeat_s = self._world.scenario.options.heartbeat_s
        lasts_s = self._dice.choice((0.1, 4, 12)) * self._dice.uniform(0.5, 1.5) * heartbeat_s
        await asyncio.sleep(min(lasts_s, max(0.0, self._end_s - self._loop.time())))

    async def _try(self, deed: Deed, ask: Callable[[], Awaitable[object]], *, tries: int | None = _TRIES) -> None:
        """Ask until there is an answer, or that often; a refusal is an answer."""
        while tries is None or tries > 0:
            tries = None if tries is None else tries - 1
            try:
                await ask()
            except StoreUnavailable:
                await asyncio.sleep(self._dice.uniform(0, 5))
                continue
            except ChronosError:
                return
            self._history.deeds[deed] += 1
            return
