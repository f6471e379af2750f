"""One machine of a world, with the engine on it over all its restarts, and its work."""

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from hashlib import blake2b
from random import Random
from typing import TYPE_CHECKING, Any, cast

from chronos.core.outcome import Canceled, Failed, Outcome, Succeeded
from chronos.engine.engine import Engine
from chronos.errors import StoreUnavailable
from chronos.runners.contract import AttemptCall
from chronos.runners.python.function_registry import FunctionRegistry
from chronos.store.contract import Store
from tests.simulation.history import Run, RunOutcome
from tests.simulation.jobs import KIND
from tests.simulation.machines import Machine
from tests.simulation.store_link import FaultyStore

if TYPE_CHECKING:
    from tests.simulation.world import World


class Node:
    """A machine that can crash, freeze and be cut off, one at a time."""

    def __init__(self, world: "World", name: str) -> None:
        self._world, self.name = world, name
        self.clock = world.new_clock()
        self.busy = False  # a fault is in progress
        self._starts = 0
        self.machine: Machine
        self._engine: Engine
        self._supervisor: asyncio.Task[None]

    async def boot(self) -> None:
        """Start the engine in a context of its own."""
        world, loop = self._world, self._world.loop
        self._starts += 1
        self.machine = Machine(loop, self.name, self.clock)
        store = FaultyStore(world.link, self.machine, None if world.scenario.one_clock else world.true_clock.now_us)
        rng = Random(f"{world.scenario.seed}-{self.name}-{self._starts}")
        self._engine = Engine(
            cast(Store, store),
            clock=self.clock,
            options=replace(world.scenario.options, node_name=self.name),
            runners={KIND: Worker(world, self.machine)},
            functions=FunctionRegistry(),
            new_request=lambda: rng.randbytes(16),
        )
        self._supervisor = loop.create_task(self._supervise(self._engine), context=self.machine.context)

    async def crash(self, lasts_s: float) -> None:
        self.busy = True
        await self.stop()
        await asyncio.sleep(lasts_s)
        await self.boot()
        self.busy = False

    async def freeze(self, lasts_s: float) -> None:
        self.busy = True
        self.machine.freeze()
        await asyncio.sleep(lasts_s)
        self.machine.thaw()
        self.busy = False

    async def cut(self, lasts_s: float) -> None:
        self.busy = self.machine.cut = True
        await asyncio.sleep(lasts_s)
        self.busy = self.machine.cut = False

    async def stall(self, lasts_s: float) -> None:
        """Let commands hang. None fails; all continue at the end."""
        self.busy = True
        self.machine.stall = asyncio.Event()
        await asyncio.sleep(lasts_s)
        self.machine.stall.set()
        self.machine.stall = None
        self.busy = False

    async def stop(self) -> None:
        """End the engine at once, without deregistering."""
        self.machine.dead = True
        await self._engine.crash()
        self._supervisor.cancel()
        await asyncio.wait((self._supervisor,))

    async def _supervise(self, engine: Engine) -> None:
        """Run the engine as a supervisor would: start it again while the store is unreachable."""
        while True:
            try:
                await engine.start()
                await engine.wait_until_stopped()
            except StoreUnavailable:
                await asyncio.sleep(self._world.scenario.options.heartbeat_s / 720)
            except Exception as error:  # noqa: BLE001 - the checker reports it
                self._world.engine_errors.append(error)
                return
            else:
                return


class Worker:
    """The runner of the simulated work: takes virtual time, fails sometimes, and records what it did."""

    def __init__(self, world: "World", machine: Machine) -> None:
        self._world, self._machine = world, machine
        self._jobs = {job.name: job for job in world.scenario.jobs}

    def check(self, options: Mapping[str, Any]) -> None:
        """Accept any options."""

    async def close(self) -> None:
        """No-op: nothing is kept."""

    async def run(self, call: AttemptCall) -> Outcome:
        job = self._jobs[call.job_name]
        first, second = _roll_dice(self._world.scenario.seed, call)
        lasts_s = 0.1 + first * (job.longest_s - 0.1)
        fails = second < job.failing and call.task == job.task_names[-1]
        run = Run(
            job=call.job,
            name=call.job_name,
            execution=call.execution,
            scheduled_us=call.scheduled_us,
            task=call.task,
            number=call.number,
            token=call.token,
            machine=self._machine.name,
            start_s=self._world.loop.time(),
            start_wall_us=self._world.reference_clock().now_us(),
        )
        if not self._machine.dead:
            self._world.history.runs.append(run)
        finished = self._world.loop.create_future()
        finish = partial(_finish, finished)
        timer = self._world.loop.call_later(lasts_s, finish)
        call.stop.on_request(finish)
        try:
            await finished
            run.outcome = RunOutcome.STOPPED if call.stop.requested else RunOutcome.FAILED if fails else RunOutcome.DONE
        finally:
            timer.cancel()
            run.outcome = RunOutcome.KILLED if run.outcome is None else run.outcome
            run.end_s = self._world.loop.time()
        if run.outcome is RunOutcome.STOPPED:
            return Canceled()
        return Failed(error="simulated failure") if fails else Succeeded()


def _finish(finished: asyncio.Future[None]) -> None:
    if not finished.done():
        finished.set_result(None)


def _roll_dice(seed: int, call: AttemptCall) -> tuple[float, float]:
    """Two numbers from 0 to 1 for an attempt, independent of the order of attempts."""
    key = b"%d-%b-%b-%d" % (seed, call.execution, call.task.encode(), call.number)
    digest = blake2b(key, digest_size=16).digest()
    return int.from_bytes(digest[:8]) / 2**64, int.from_bytes(digest[8:]) / 2**64
