"""A world in a box: machines with real engines, one real store, faulty wires, clocks that are set, and a seed.

For some simulated days everything goes wrong that may; then all faults heal, time passes, and the checker is given the
store's records and what the work itself wrote down.
"""

import asyncio
import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from random import Random
from typing import cast

from chronos.core.execution import Execution, Span
from chronos.store.commands import SaveJobs
from chronos.store.contract import ExecutionFilter, Store
from chronos.testing.clock import VirtualClock
from tests.simulation.history import Disturbance, Fault, History
from tests.simulation.machines import MachineLoop
from tests.simulation.nodes import Node
from tests.simulation.operator import Person
from tests.simulation.scenario import DAY_S, Evidence, Scenario
from tests.simulation.store_link import DoubtingStore, Wire
from tests.simulation.work_journal import Notes

_PAGE = 1_000
_MANY_OBJECTS = 100_000  # between collections of garbage, of which a world makes little


class World:
    """Runs one scenario. ``wrap`` may put something between the wire and the store: a mutant."""

    def __init__(
        self, loop: MachineLoop, scenario: Scenario, *, wrap: Callable[[Store], Store] = lambda store: store
    ) -> None:
        self.loop, self.scenario, self._wrap = loop, scenario, wrap
        self._random = Random(scenario.seed)
        self.history = History()
        self.true_clock = VirtualClock(loop, start=scenario.start)
        self._shared_clock = VirtualClock(loop, start=scenario.start)
        self._nodes: dict[str, Node] = {}
        self._end_s = scenario.days * DAY_S
        self.wire: Wire
        self.evidence: Evidence
        self.broken: list[BaseException] = []

    async def run(self) -> None:
        """Until its end; then there is ``evidence``. (A task's result is written out by whoever ends it.)"""
        store = DoubtingStore()
        await store.open()
        self.wire = Wire(self._wrap(store), store.doubts, self._random, Notes(self.history, self.highest_us))
        begin_us = self.true_clock.now_us()
        rows = tuple(job.row(begin_us) for job in self.scenario.jobs)
        await self.wire.transmit(SaveJobs(rows=rows, now_us=begin_us))
        for number in range(self.scenario.machines):
            node = self._nodes[f"m{number}"] = Node(self, f"m{number}")
            await node.boot()
        self.wire.odds = self.scenario.odds
        async with asyncio.TaskGroup() as troubles:
            for fault, a_day in self.scenario.faults.items():
                troubles.create_task(self._trouble(fault, a_day))
            if self.scenario.deeds:
                troubles.create_task(Person(self, self._end_s).live())
        await asyncio.sleep(self._end_s - self.loop.time())  # where there is no trouble but the wires
        self.wire.odds = self.scenario.odds.calm
        healed_s = self.loop.time()
        await asyncio.sleep(self.scenario.healing_days * DAY_S)
        for node in self._nodes.values():
            await node.stop()
        self.evidence = await self._collect(store, begin_us, healed_s)
        await store.close()

    # --- what goes wrong

    async def _trouble(self, fault: Fault, a_day: float) -> None:
        dice = Random(f"{self.scenario.seed}-{fault.value}")
        while a_day:
            await asyncio.sleep(min(dice.expovariate(a_day / DAY_S), self._end_s - self.loop.time()))
            if self.loop.time() >= self._end_s:
                return
            await self._strike(fault, dice)

    async def _strike(self, fault: Fault, dice: Random) -> None:
        """One fault, from its beginning to its end."""
        node = self._nodes[dice.choice(sorted(self._nodes))]
        options = self.scenario.options
        long_s = 1.5 * options.heartbeat_timeout_s
        lasts_s = dice.choice((options.heartbeat_s / 60, options.heartbeat_s, long_s)) * dice.uniform(0.5, 1.5)
        from_s = self.loop.time()
        whom = node.name
        match fault:
            case Fault.CRASH if not node.busy:
                await node.crash(lasts_s)
            case Fault.FREEZE if not node.busy:
                await node.freeze(lasts_s)
            case Fault.CUT if not node.busy:
                await node.cut(lasts_s)
            case Fault.STALL if not node.busy:
                await node.stall(lasts_s)
            case Fault.OUTAGE:
                whom, self.wire.out = "", True
                await asyncio.sleep(lasts_s)
                self.wire.out = False
            case Fault.JUMP if self.scenario.one_clock:
                whom = ""
                self.history.jumps.append((from_s, self._shared_clock.now_us()))
                self._shared_clock.jump(dice.choice((-1, 1)) * lasts_s)
            case Fault.JUMP:  # it is put right again, as a time server would
                by_s = dice.choice((-1, 1)) * lasts_s
                node.clock.jump(by_s)
                await asyncio.sleep(lasts_s)
                node.clock.jump(-by_s)
            case _:
                return
        self.history.faults[fault] += 1
        self.history.disturbances.append(Disturbance(fault=fault, machine=whom, from_s=from_s, to_s=self.loop.time()))

    async def _collect(self, store: Store, begin_us: int, healed_s: float) -> Evidence:
        records: list[Execution] = []
        spans: list[Span] = []
        cursor: bytes | None = None
        while True:
            page = await store.list_executions(ExecutionFilter(), limit=_PAGE, cursor=cursor)
            records += [item for item in page.items if isinstance(item, Execution)]
            spans += [item for item in page.items if isinstance(item, Span)]
            cursor = page.cursor
            if cursor is None:
                break
        letters = await store.list_dead_letters(namespace=None, limit=_PAGE)
        assert letters.cursor is None
        return Evidence(
            scenario=self.scenario,
            history=self.history,
            records=records,
            spans=spans,
            begin_us=begin_us,
            end_us=self.clock_that_counts().now_us(),
            healed_s=healed_s,
            end_s=self.loop.time(),
            unsound=await store.verify(),
            next_due_us=await store.next_due_us(),
            letters=[letter.execution for letter in letters.items],
            broken=self.broken,
        )

    # --- time

    def clock_that_counts(self) -> VirtualClock:
        """The clock that instants are measured by."""
        return self._shared_clock if self.scenario.one_clock else self.true_clock

    def highest_us(self) -> int:
        """The latest time that it has shown: it may have been set back since."""
        return max([self.clock_that_counts().now_us(), *(shown_us for _, shown_us in self.history.jumps)])

    def new_clock(self) -> VirtualClock:
        """The clock of a new machine; one of its own is kept by a time server, and a little off."""
        if self.scenario.one_clock:
            return self._shared_clock
        off = timedelta(seconds=self._random.uniform(-0.4, 0.4))
        return VirtualClock(self.loop, start=self.scenario.start + off)


def simulate(scenario: Scenario, *, wrap: Callable[[Store], Store] = lambda store: store) -> Evidence:
    """Run a scenario from its seed to its end."""
    with _little_garbage(), asyncio.Runner(loop_factory=MachineLoop) as runner:
        loop = cast(MachineLoop, runner.get_loop())
        world = World(loop, scenario, wrap=wrap)
        runner.run(world.run())
    return world.evidence


@contextmanager
def _little_garbage() -> Iterator[None]:
    before = gc.get_threshold()
    gc.set_threshold(_MANY_OBJECTS, *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)
