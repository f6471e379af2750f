"""Somebody who uses the scheduler while everything goes wrong: triggers, backfills, replays, cancels, pauses, updates,
deletes, creates, and looks after the dead letters.

What is asked for goes through the real service and over the same faulty wires. Who gets no answer asks again, and does
not know whether it was done before; what was put out of order (a pause, a deletion) is put right again in the end.
"""

import asyncio
from collections.abc import Awaitable, Callable
from random import Random
from typing import TYPE_CHECKING, cast

from chronos.assembly import make_service
from chronos.core.config import HOUR_US
from chronos.core.execution import Execution, Status
from chronos.errors import ChronosError, Invalid, StoreUnavailable
from chronos.service.job_state import StateChange
from chronos.service.serializers import Draft
from chronos.store.contract import ExecutionFilter, Store
from tests.simulation.history import Backfill, Deed, Replay
from tests.simulation.jobs import SimJob
from tests.simulation.machines import Machine
from tests.simulation.scenario import DAY_S
from tests.simulation.store_link import FaultyStore

if TYPE_CHECKING:
    from tests.simulation.world import World

_TRIES = 5
_DEEDS = {
    Deed.TRIGGER: 3,
    Deed.CANCEL: 3,
    Deed.PAUSE: 2,
    Deed.SAVE: 3,
    Deed.DELETE: 1,
    Deed.BACKFILL: 1,
    Deed.REPLAY: 2,
    Deed.LETTER: 1,
}
_FROM_FAILED = 0.7  # of what is replayed, if something failed
_BACKFILLED_US = 30 * HOUR_US  # at most


class Person:
    """Lives until ``end_s``, and a little longer if something has to be put right."""

    def __init__(self, world: "World", end_s: float) -> None:
        self._world, self._loop, self._end_s = world, world.loop, end_s
        self._deeds, self._history = world.scenario.deeds, world.history
        self._dice = Random(f"{world.scenario.seed}-person")
        clock = world.clock_that_counts()
        self._store = cast(Store, FaultyStore(world.wire, Machine(world.loop, "person", clock)))
        service = make_service(self._store, clock, checks={}, new_request=lambda: self._dice.randbytes(16))
        self._jobs, self._saver, self._states = service.jobs, service.job_saver, service.job_states
        self._runs, self._backfills = service.runs, service.backfills
        self._said = {job.name: job for job in world.scenario.jobs}  # how each job was last saved
        self._busy: set[str] = set()  # jobs that something is being done to: paused, or gone, for a while
        self._followed = {after.job for job in world.scenario.jobs for after in job.after}
        self._asked = 0

    async def live(self) -> None:
        async with asyncio.TaskGroup() as errands:
            while True:
                await asyncio.sleep(min(self._dice.expovariate(self._deeds / DAY_S), self._end_s - self._loop.time()))
                if self._loop.time() >= self._end_s:
                    return
                [deed] = self._dice.choices(list(_DEEDS), list(_DEEDS.values()))
                job = self._said[self._dice.choice(self._about(deed))]
                if job.name not in self._busy:
                    errands.create_task(self._do(deed, job))

    def _about(self, deed: Deed) -> list[str]:
        """The jobs that somebody may mean: those to be looked after are the ones that fail."""
        failing = [name for name, job in self._said.items() if job.failing]
        return sorted(failing if failing and deed in (Deed.REPLAY, Deed.LETTER) else self._said)

    async def _do(self, deed: Deed, job: SimJob) -> None:
        self._busy.add(job.name)
        await self._deal(deed, job)
        self._busy.discard(job.name)

    async def _deal(self, deed: Deed, job: SimJob) -> None:
        name = job.name
        match deed:
            case Deed.TRIGGER:
                key = self._new_key()
                await self._try(Deed.TRIGGER, lambda: self._runs.trigger(name, idempotency=key))
            case Deed.BACKFILL:
                await self._backfill(name)
            case Deed.REPLAY:
                await self._replay(name)
            case Deed.LETTER:
                await self._deal_with_letters(name)
            case Deed.CANCEL:
                await self._cancel(name)
            case Deed.SAVE:
                await self._save(job)
            case Deed.PAUSE:
                await self._try(Deed.PAUSE, lambda: self._change(name, StateChange.PAUSE))
                await self._a_while()
                await self._try(Deed.RESUME, lambda: self._change(name, StateChange.RESUME), tries=None)
            case _ if name in self._followed:
                pass  # those that follow it could not be created anew while it is gone
            case _:
                draft = Draft(name=name, spec=job.spec())
                await self._try(Deed.DELETE, lambda: self._jobs.delete(name))
                await self._a_while()
                await self._try(Deed.SAVE, lambda: self._saver.save([draft]), tries=None)

    async def _cancel(self, name: str) -> None:
        """Something of a job that is not over."""

        async def one() -> None:
            job = await self._jobs.get(name)
            page = await self._store.list_executions(ExecutionFilter(job=job.id), limit=20)
            opened = [item.id for item in page.items if not item.status.final]
            if opened:
                await self._runs.cancel(opened[0])

        await self._try(Deed.CANCEL, one)

    async def _backfill(self, name: str) -> None:
        """Some hours of the past, once more."""
        key, clock = self._new_key(), self._world.clock_that_counts()
        to_us = clock.now_us() - round(self._dice.uniform(0, HOUR_US))
        from_us = to_us - round(self._dice.uniform(0, _BACKFILLED_US))

        async def one() -> None:
            job = await self._jobs.get(name)
            done = await self._backfills.run(name, from_us, to_us, idempotency=key)
            self._history.backfills.append(
                Backfill(name=name, job=job.id, from_us=from_us, to_us=to_us, at_s=self._loop.time(), ids=done.ids)
            )

        await self._try(Deed.BACKFILL, one)

    async def _replay(self, name: str) -> None:
        """One of the last that are over: one that failed from where it failed, as often as not."""
        key, dice = self._new_key(), self._dice.random()
        chosen: list[Replay] = []

        async def one() -> None:
            if not chosen:
                chosen.append(await self._choose(name, dice))
            [replay] = chosen
            asked = await self._runs.replay(replay.first, from_failed=replay.from_failed, idempotency=key)
            self._history.replays[asked.id] = replay

        await self._try(Deed.REPLAY, one)

    async def _choose(self, name: str, dice: float) -> Replay:
        job = await self._jobs.get(name)
        page = await self._store.list_executions(ExecutionFilter(job=job.id), limit=20)
        over = [item for item in page.items if isinstance(item, Execution) and item.status.final]
        failed = [item for item in over if item.status is Status.FAILED]
        if not over:
            raise Invalid("nothing is over yet")
        from_failed = bool(failed) and dice < _FROM_FAILED
        return Replay(first=(failed if from_failed else over)[0].id, from_failed=from_failed)

    async def _deal_with_letters(self, name: str) -> None:
        """Those of a job: each is run again, or dropped."""

        async def some() -> None:
            job = await self._jobs.get(name)
            page = await self._runs.dead_letters(limit=20)
            for letter in page.items:
                if letter.job == job.id and letter.execution[-1] % 2:
                    await self._runs.drop_dead_letters([letter.execution])
                elif letter.job == job.id:
                    asked = await self._runs.replay_dead_letter(letter.execution, from_failed=True)
                    self._history.replays[asked.id] = Replay(first=letter.execution, from_failed=True)

        await self._try(Deed.LETTER, some)

    def _new_key(self) -> str:
        self._asked += 1
        return f"asked-{self._asked}"

    async def _save(self, job: SimJob) -> None:
        original = next(one for one in self._world.scenario.jobs if one.name == job.name)
        changed = original.changed(self._dice.randrange(4), self._dice.randrange(20))
        self._said[job.name] = changed
        draft = Draft(name=job.name, spec=changed.spec())
        await self._try(Deed.SAVE, lambda: self._saver.save([draft]), tries=None)

    async def _a_while(self) -> None:
        heartbeat_s = self._world.scenario.options.heartbeat_s
        lasts_s = self._dice.choice((0.1, 4, 12)) * self._dice.uniform(0.5, 1.5) * heartbeat_s
        await asyncio.sleep(min(lasts_s, max(0.0, self._end_s - self._loop.time())))

    async def _change(self, name: str, change: StateChange) -> None:
        await self._states.change(await self._jobs.get(name), change)

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
