"""An operator who uses the scheduler while everything goes wrong.

The operator triggers, backfills, replays, cancels, pauses, updates, deletes and creates, and handles dead letters.
Requests go through the real service and the same faulty link. A request without an answer is sent again, although it
may have been applied. Paused jobs are resumed and deleted ones created again in the end.
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
from tests.simulation.history import Action, Backfill, Replay
from tests.simulation.jobs import SimJob
from tests.simulation.machines import Machine
from tests.simulation.scenario import DAY_S
from tests.simulation.store_link import FaultyStore

if TYPE_CHECKING:
    from tests.simulation.world import World

_ATTEMPTS = 5
_ACTION_WEIGHTS = {
    Action.TRIGGER: 3,
    Action.CANCEL: 3,
    Action.PAUSE: 2,
    Action.SAVE: 3,
    Action.DELETE: 1,
    Action.BACKFILL: 1,
    Action.REPLAY: 2,
    Action.DEAD_LETTER: 1,
}
_FROM_FAILED = 0.7  # of replays, if something failed
_MAX_BACKFILL_US = 30 * HOUR_US


class Operator:
    """Acts until ``end_s``, and a little longer to resume and create jobs again."""

    def __init__(self, world: "World", end_s: float) -> None:
        self._world, self._loop, self._end_s = world, world.loop, end_s
        self._actions, self._history = world.scenario.actions, world.history
        self._rng = Random(f"{world.scenario.seed}-person")
        clock = world.reference_clock()
        self._store = cast(Store, FaultyStore(world.link, Machine(world.loop, "operator", clock)))
        service = make_service(self._store, clock, checks={}, new_request=lambda: self._rng.randbytes(16))
        self._jobs, self._saver, self._states = service.jobs, service.job_saver, service.job_states
        self._runs, self._backfills = service.runs, service.backfills
        self._saved_jobs = {job.name: job for job in world.scenario.jobs}  # how each job was last saved
        self._busy: set[str] = set()  # jobs that are paused or deleted for a while
        self._upstream_jobs = {after.job for job in world.scenario.jobs for after in job.after}
        self._keys_used = 0

    async def run(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            while True:
                await asyncio.sleep(min(self._rng.expovariate(self._actions / DAY_S), self._end_s - self._loop.time()))
                if self._loop.time() >= self._end_s:
                    return
                [action] = self._rng.choices(list(_ACTION_WEIGHTS), list(_ACTION_WEIGHTS.values()))
                job = self._saved_jobs[self._rng.choice(self._choose_jobs(action))]
                if job.name not in self._busy:
                    tasks.create_task(self._run_action(action, job))

    def _choose_jobs(self, action: Action) -> list[str]:
        """The jobs that an action may choose from: for replays and dead letters, those that fail."""
        failing = [name for name, job in self._saved_jobs.items() if job.failing]
        return sorted(failing if failing and action in (Action.REPLAY, Action.DEAD_LETTER) else self._saved_jobs)

    async def _run_action(self, action: Action, job: SimJob) -> None:
        self._busy.add(job.name)
        await self._perform(action, job)
        self._busy.discard(job.name)

    async def _perform(self, action: Action, job: SimJob) -> None:
        name = job.name
        match action:
            case Action.TRIGGER:
                key = self._new_key()
                await self._repeat(Action.TRIGGER, lambda: self._runs.trigger(name, idempotency=key))
            case Action.BACKFILL:
                await self._backfill(name)
            case Action.REPLAY:
                await self._replay(name)
            case Action.DEAD_LETTER:
                await self._handle_dead_letters(name)
            case Action.CANCEL:
                await self._cancel(name)
            case Action.SAVE:
                await self._save(job)
            case Action.PAUSE:
                await self._repeat(Action.PAUSE, lambda: self._change(name, StateChange.PAUSE))
                await self._pause()
                await self._repeat(Action.RESUME, lambda: self._change(name, StateChange.RESUME), attempts=None)
            case _ if name in self._upstream_jobs:
                pass  # dependent jobs could not be created while it is deleted
            case _:
                draft = Draft(name=name, spec=job.spec())
                await self._repeat(Action.DELETE, lambda: self._jobs.delete(name))
                await self._pause()
                await self._repeat(Action.SAVE, lambda: self._saver.save([draft]), attempts=None)

    async def _cancel(self, name: str) -> None:
        """Cancel an open execution of a job."""

        async def request() -> None:
            job = await self._jobs.get(name)
            page = await self._store.list_executions(ExecutionFilter(job=job.id), limit=20)
            opened = [item.id for item in page.items if not item.status.final]
            if opened:
                await self._runs.cancel(opened[0])

        await self._repeat(Action.CANCEL, request)

    async def _backfill(self, name: str) -> None:
        """Backfill some hours of the past."""
        key, clock = self._new_key(), self._world.reference_clock()
        to_us = clock.now_us() - round(self._rng.uniform(0, HOUR_US))
        from_us = to_us - round(self._rng.uniform(0, _MAX_BACKFILL_US))

        async def request() -> None:
            job = await self._jobs.get(name)
            done = await self._backfills.run(name, from_us, to_us, idempotency=key)
            self._history.backfills.append(
                Backfill(name=name, job=job.id, from_us=from_us, to_us=to_us, at_s=self._loop.time(), ids=done.ids)
            )

        await self._repeat(Action.BACKFILL, request)

    async def _replay(self, name: str) -> None:
        """Replay a recent execution, often from its failed tasks."""
        key, rng = self._new_key(), self._rng.random()
        chosen: list[Replay] = []

        async def request() -> None:
            if not chosen:
                chosen.append(await self._choose(name, rng))
            [replay] = chosen
            replayed = await self._runs.replay(replay.first, from_failed=replay.from_failed, idempotency=key)
            self._history.replays[replayed.id] = replay

        await self._repeat(Action.REPLAY, request)

    async def _choose(self, name: str, rng: float) -> Replay:
        job = await self._jobs.get(name)
        page = await self._store.list_executions(ExecutionFilter(job=job.id), limit=20)
        ended = [item for item in page.items if isinstance(item, Execution) and item.status.final]
        failed = [item for item in ended if item.status is Status.FAILED]
        if not ended:
            raise Invalid("no execution has ended yet")
        from_failed = bool(failed) and rng < _FROM_FAILED
        return Replay(first=(failed if from_failed else ended)[0].id, from_failed=from_failed)

    async def _handle_dead_letters(self, name: str) -> None:
        """Replay or drop each dead letter of a job."""

        async def request() -> None:
            job = await self._jobs.get(name)
            page = await self._runs.dead_letters(limit=20)
            for letter in page.items:
                if letter.job == job.id and letter.execution[-1] % 2:
                    await self._runs.drop_dead_letters([letter.execution])
                elif letter.job == job.id:
                    replayed = await self._runs.replay_dead_letter(letter.execution, from_failed=True)
                    self._history.replays[replayed.id] = Replay(first=letter.execution, from_failed=True)

        await self._repeat(Action.DEAD_LETTER, request)

    def _new_key(self) -> str:
        self._keys_used += 1
        return f"asked-{self._keys_used}"

    async def _save(self, job: SimJob) -> None:
        original = next(each for each in self._world.scenario.jobs if each.name == job.name)
        changed = original.changed(self._rng.randrange(4), self._rng.randrange(20))
        self._saved_jobs[job.name] = changed
        draft = Draft(name=job.name, spec=changed.spec())
        await self._repeat(Action.SAVE, lambda: self._saver.save([draft]), attempts=None)

    async def _pause(self) -> None:
        heartbeat_s = self._world.scenario.options.heartbeat_s
        lasts_s = self._rng.choice((0.1, 4, 12)) * self._rng.uniform(0.5, 1.5) * heartbeat_s
        await asyncio.sleep(min(lasts_s, max(0.0, self._end_s - self._loop.time())))

    async def _change(self, name: str, change: StateChange) -> None:
        await self._states.change(await self._jobs.get(name), change)

    async def _repeat(
        self, action: Action, request: Callable[[], Awaitable[object]], *, attempts: int | None = _ATTEMPTS
    ) -> None:
        """Send a request until there is an answer, at most ``attempts`` times. A refusal is an answer."""
        while attempts is None or attempts > 0:
            attempts = None if attempts is None else attempts - 1
            try:
                await request()
            except StoreUnavailable:
                await asyncio.sleep(self._rng.uniform(0, 5))
                continue
            except ChronosError:
                return
            self._history.actions[action] += 1
            return
