"""A world in a box: machines with real engines, one real store, faulty wires, clocks that are set, and a seed.

For some simulated days everything goes wrong that may; then all faults heal, time passes, and the checker is given the
store's records and what the work itself wrote down.
"""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any, cast

from chronos.core.execution import Cause, Execution, Span
from chronos.core.ids import asked_execution_id
from chronos.core.outcome import Canceled, Failed, Outcome, Succeeded
from chronos.engine.engine import Engine
from chronos.engine.options import Options
from chronos.engine.runners.contract import Call
from chronos.engine.runners.functions import Functions
from chronos.errors import StoreUnavailable
from chronos.store.commands import RunRow, SaveJobs, Trigger
from chronos.store.contract import ExecutionFilter, Store
from chronos.testing.clock import VirtualClock
from tests.simulation.history import Disturbance, Fate, Fault, History, Run
from tests.simulation.jobs import KIND, SimJob, all_jobs
from tests.simulation.machines import Machine, MachineLoop
from tests.simulation.wire import CALM, DoubtingStore, FaultyStore, Odds, Wire

DAY_S = 86_400.0
OPTIONS = Options(  # a thousand times slower than the usual, so that idling takes no time
    slots=50,
    lookahead_s=4 * 3_600,
    tick_s=2 * 3_600,
    reaper_s=1_800,
    heartbeat_s=3_600,
    heartbeat_timeout_s=3 * 3_600,
    grace_s=60,
)
SETTLES_S = OPTIONS.heartbeat_timeout_s + 2 * OPTIONS.reaper_s + OPTIONS.tick_s  # by then all is taken over


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """What is to happen, but for the dice."""

    seed: int
    days: float = 10
    machines: int = 3
    one_clock: bool = False  # all share one clock, which is set now and then; else each has its own, and the store one
    start: datetime = datetime(2027, 3, 20, tzinfo=UTC)  # eight days before the clocks change in Paris
    jobs: tuple[SimJob, ...] = field(default_factory=lambda: tuple(all_jobs()))
    odds: Odds = field(default_factory=Odds)
    faults: Mapping[Fault, float] = field(  # a day
        default_factory=lambda: {
            Fault.CRASH: 1.0,
            Fault.FREEZE: 0.7,
            Fault.CUT: 0.7,
            Fault.OUTAGE: 0.2,
            Fault.JUMP: 0.5,
        }
    )
    healing_days: float = 1.5  # more than it takes to settle, twice


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """What the checker is given."""

    scenario: Scenario
    history: History
    records: list[Execution]
    spans: list[Span]
    names: dict[bytes, str]  # of jobs
    begin_us: int
    end_us: int  # by the clock that counts
    healed_s: float
    end_s: float
    unsound: list[str]  # what the store's own checks found
    next_due_us: int | None
    broken: list[BaseException]  # what ended an engine that nobody stopped


class World:
    """Runs one scenario. ``wrap`` may put something between the wire and the store: a mutant."""

    def __init__(
        self, loop: MachineLoop, scenario: Scenario, *, wrap: Callable[[Store], Store] = lambda store: store
    ) -> None:
        self._loop, self.scenario, self._wrap = loop, scenario, wrap
        self.random = Random(scenario.seed)
        self.history = History()
        self.true_clock = VirtualClock(loop, start=scenario.start)
        self._nodes: dict[str, _Node] = {}
        self._names: dict[bytes, str] = {}
        self.broken: list[BaseException] = []

    async def run(self) -> Evidence:
        store = DoubtingStore()
        await store.open()
        self.wire = Wire(self._wrap(store), store.doubts, self.random, self.history, CALM)
        begin_us = self.true_clock.now_us()
        rows = tuple(job.row(begin_us) for job in self.scenario.jobs)
        saved = await self.wire.store.apply(SaveJobs(rows=rows, now_us=begin_us))
        self._names = {answer.id: row.name for answer, row in zip(saved, rows, strict=True)}
        for number in range(self.scenario.machines):
            node = self._nodes[f"m{number}"] = _Node(self, f"m{number}")
            await node.boot()
        self.wire.odds = self.scenario.odds
        async with asyncio.TaskGroup() as troubles:
            for fault, a_day in self.scenario.faults.items():
                troubles.create_task(self._trouble(fault, a_day))
            troubles.create_task(self._client())
        self.wire.odds = CALM
        healed_s = self._loop.time()
        await asyncio.sleep(self.scenario.healing_days * DAY_S)
        evidence = await self._collect(store, begin_us, healed_s)
        for node in self._nodes.values():
            await node.stop()
        await store.close()
        return evidence

    # --- what goes wrong

    async def _trouble(self, fault: Fault, a_day: float) -> None:
        dice = Random(f"{self.scenario.seed}-{fault.value}")
        end_s = self.scenario.days * DAY_S
        while a_day:
            await asyncio.sleep(min(dice.expovariate(a_day / DAY_S), end_s - self._loop.time()))
            if self._loop.time() >= end_s:
                return
            await self._strike(fault, dice)

    async def _strike(self, fault: Fault, dice: Random) -> None:
        """One fault, from its beginning to its end."""
        node = self._nodes[dice.choice(sorted(self._nodes))]
        lasts_s = dice.choice((60.0, 3_600.0, OPTIONS.heartbeat_timeout_s * 1.5)) * dice.uniform(0.5, 1.5)
        from_s = self._loop.time()
        whom = node.name
        match fault:
            case Fault.CRASH if not node.busy:
                await node.crash(lasts_s)
            case Fault.FREEZE if not node.busy:
                await node.freeze(lasts_s)
            case Fault.CUT if not node.machine.cut and not node.busy:
                await node.cut(lasts_s)
            case Fault.OUTAGE:
                whom, self.wire.out = "", True
                await asyncio.sleep(lasts_s)
                self.wire.out = False
            case Fault.JUMP:
                by_s = dice.choice((-1, 1)) * lasts_s
                node.clock.jump(by_s)
                if self.scenario.one_clock:
                    whom = ""
                else:  # it is put right again, as a time server would
                    await asyncio.sleep(lasts_s)
                    node.clock.jump(-by_s)
            case _:
                return
        self.history.faults[fault] += 1
        self.history.disturbances.append(Disturbance(fault=fault, machine=whom, from_s=from_s, to_s=self._loop.time()))

    async def _client(self) -> None:
        """Somebody who triggers a job now and then, and asks again when no answer came."""
        machine = Machine(self._loop, "client", self.true_clock)
        store = FaultyStore(self.wire, machine)
        ids = {name: id_ for id_, name in self._names.items()}
        dice = Random(f"{self.scenario.seed}-client")
        asked = 0
        while self._loop.time() < self.scenario.days * DAY_S:
            await asyncio.sleep(dice.expovariate(1 / DAY_S))
            job, asked = ids[self.scenario.jobs[0].name], asked + 1
            now_us, key = self.true_clock.now_us(), f"client-{asked}"
            execution = asked_execution_id(job, Cause.MANUAL, now_us, key.encode())
            command = Trigger(
                job=job, run=RunRow(execution, Cause.MANUAL, now_us, now_us), now_us=now_us, idempotency=key
            )
            for _ in range(5):
                try:
                    await store.apply(command)
                except StoreUnavailable:
                    continue
                break

    async def _collect(self, store: Store, begin_us: int, healed_s: float) -> Evidence:
        records: list[Execution] = []
        spans: list[Span] = []
        cursor: bytes | None = None
        while True:
            page = await store.list_executions(ExecutionFilter(), limit=1_000, cursor=cursor)
            records += [item for item in page.items if isinstance(item, Execution)]
            spans += [item for item in page.items if isinstance(item, Span)]
            cursor = page.cursor
            if cursor is None:
                break
        return Evidence(
            scenario=self.scenario,
            history=self.history,
            records=records,
            spans=spans,
            names=self._names,
            begin_us=begin_us,
            end_us=self.clock_that_counts().now_us(),
            healed_s=healed_s,
            end_s=self._loop.time(),
            unsound=await store.verify(),
            next_due_us=await store.next_due_us(),
            broken=self.broken,
        )

    def clock_that_counts(self) -> VirtualClock:
        """The clock that instants are measured by."""
        return self._nodes["m0"].clock if self.scenario.one_clock else self.true_clock

    def node_clock(self) -> VirtualClock:
        """The clock of a new machine."""
        if self.scenario.one_clock:
            known = [node.clock for node in self._nodes.values()]
            return known[0] if known else VirtualClock(self._loop, start=self.scenario.start)
        off = timedelta(seconds=self.random.uniform(-0.4, 0.4))  # kept so by a time server
        return VirtualClock(self._loop, start=self.scenario.start + off)


class _Node:
    """One machine and the engine that runs on it, over all its restarts."""

    def __init__(self, world: World, name: str) -> None:
        self.world, self.name = world, name
        self.clock = world.node_clock()
        self.busy = False  # with a fault
        self._starts = 0
        self.machine: Machine
        self.engine: Engine
        self._life: asyncio.Task[None]

    async def boot(self) -> None:
        """Start the engine, in a context of its own."""
        world, loop = self.world, self.world._loop
        self._starts += 1
        self.machine = Machine(loop, self.name, self.clock)
        store = FaultyStore(world.wire, self.machine, None if world.scenario.one_clock else world.true_clock.now_us)
        dice = Random(f"{world.scenario.seed}-{self.name}-{self._starts}")
        self.engine = Engine(
            cast(Store, store),
            clock=self.clock,
            options=_named(self.name),
            runners={KIND: Worker(world, self.machine, self.clock)},
            functions=Functions(),
            new_request=lambda: dice.randbytes(16),
        )
        self._life = loop.create_task(self._live(self.engine), context=self.machine.context)

    async def crash(self, lasts_s: float) -> None:
        self.busy = True
        await self._die()
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

    async def stop(self) -> None:
        await self._die()

    async def _die(self) -> None:
        self.machine.dead = True
        await self.engine.crash()
        self._life.cancel()
        await asyncio.wait((self._life,))

    async def _live(self, engine: Engine) -> None:
        """As a supervisor would: an engine that cannot start yet is started again."""
        while True:
            try:
                await engine.start()
                await engine.failed()
            except StoreUnavailable:
                await asyncio.sleep(5)
            except Exception as error:  # noqa: BLE001 - it is what the test is to show
                self.world.broken.append(error)
                return
            else:
                return


class Worker:
    """The work: takes some virtual time, fails now and then, and writes down what it did."""

    def __init__(self, world: World, machine: Machine, clock: VirtualClock) -> None:
        self._world, self._machine, self._clock = world, machine, clock
        self._jobs = {job.name: job for job in world.scenario.jobs}

    def check(self, options: Mapping[str, Any]) -> None:
        """Anything goes."""

    async def close(self) -> None:
        """Nothing is kept."""

    async def run(self, call: Call) -> Outcome:
        job = self._jobs[call.job_name]
        dice = Random(f"{self._world.scenario.seed}-{call.execution.hex()}-{call.number}")
        lasts_s, fails = dice.uniform(0.1, job.longest_s), dice.random() < job.failing
        loop = asyncio.get_running_loop()
        run = Run(
            job=call.job_name,
            execution=call.execution,
            scheduled_us=call.scheduled_us,
            number=call.number,
            token=call.token,
            machine=self._machine.name,
            start_s=loop.time(),
            start_wall_us=self._world.clock_that_counts().now_us(),
        )
        if not self._machine.dead:
            self._world.history.runs.append(run)
        asked = asyncio.create_task(call.stop.wait())
        try:
            await asyncio.wait([asked], timeout=lasts_s)
            run.fate = Fate.STOPPED if asked.done() else Fate.FAILED if fails else Fate.DONE
        finally:
            asked.cancel()
            run.fate = Fate.KILLED if run.fate is None else run.fate
            run.end_s = loop.time()
        if run.fate is Fate.STOPPED:
            return Canceled()
        return Failed(error="the dice said so") if fails else Succeeded()


def _named(name: str) -> Options:
    fields = {field: getattr(OPTIONS, field) for field in OPTIONS.__dataclass_fields__}
    return Options(**{**fields, "node_name": name})


def simulate(scenario: Scenario, *, wrap: Callable[[Store], Store] = lambda store: store) -> Evidence:
    """Run a scenario from its seed to its end."""
    with asyncio.Runner(loop_factory=MachineLoop) as runner:
        loop = cast(MachineLoop, runner.get_loop())
        return runner.run(World(loop, scenario, wrap=wrap).run())
