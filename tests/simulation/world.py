"""A simulated world: machines with real engines, one real store, faulty links, clocks that are set, and a seed.

Everything goes wrong for some simulated days. Then all faults heal, time passes, and the checker gets the store's
records and the history.
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
from tests.simulation.operator import Operator
from tests.simulation.scenario import DAY_S, Evidence, Scenario
from tests.simulation.store_link import ResendAwareStore, StoreLink
from tests.simulation.work_journal import WorkJournal

_PAGE_SIZE = 1_000
_GC_THRESHOLD = 100_000  # a world makes little garbage


class World:
    """Runs one scenario. ``wrap`` may put a mutant between the link and the store."""

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
        self.link: StoreLink
        self.evidence: Evidence
        self.engine_errors: list[BaseException] = []

    async def run(self) -> None:
        """Run to the end, and set ``evidence``. (Returning it would make asyncio format it.)"""
        store = ResendAwareStore()
        await store.open()
        self.link = StoreLink(
            self._wrap(store), store.resent_requests, self._random, WorkJournal(self.history, self.latest_shown_us)
        )
        begin_us = self.true_clock.now_us()
        rows = tuple(job.row(begin_us) for job in self.scenario.jobs)
        await self.link.transmit(SaveJobs(rows=rows, now_us=begin_us))
        for number in range(self.scenario.machines):
            node = self._nodes[f"m{number}"] = Node(self, f"m{number}")
            await node.boot()
        self.link.odds = self.scenario.odds
        async with asyncio.TaskGroup() as tasks:
            for fault, per_day in self.scenario.faults.items():
                tasks.create_task(self._cause_faults(fault, per_day))
            if self.scenario.actions:
                tasks.create_task(Operator(self, self._end_s).run())
        await asyncio.sleep(self._end_s - self.loop.time())  # for scenarios whose only faults are on the link
        self.link.odds = self.scenario.odds.calm
        healed_s = self.loop.time()
        await asyncio.sleep(self.scenario.healing_days * DAY_S)
        for node in self._nodes.values():
            await node.stop()
        self.evidence = await self._collect(store, begin_us, healed_s)
        await store.close()

    # --- faults

    async def _cause_faults(self, fault: Fault, per_day: float) -> None:
        rng = Random(f"{self.scenario.seed}-{fault.value}")
        while per_day:
            await asyncio.sleep(min(rng.expovariate(per_day / DAY_S), self._end_s - self.loop.time()))
            if self.loop.time() >= self._end_s:
                return
            await self._cause_fault(fault, rng)

    async def _cause_fault(self, fault: Fault, rng: Random) -> None:
        """Cause one fault, from its start to its end."""
        node = self._nodes[rng.choice(sorted(self._nodes))]
        options = self.scenario.options
        long_s = 1.5 * options.heartbeat_timeout_s
        lasts_s = rng.choice((options.heartbeat_s / 60, options.heartbeat_s, long_s)) * rng.uniform(0.5, 1.5)
        from_s = self.loop.time()
        machine = node.name
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
                machine, self.link.out = "", True
                await asyncio.sleep(lasts_s)
                self.link.out = False
            case Fault.JUMP if self.scenario.one_clock:
                machine = ""
                self.history.jumps.append((from_s, self._shared_clock.now_us()))
                self._shared_clock.jump(rng.choice((-1, 1)) * lasts_s)
            case Fault.JUMP:  # a time server corrects it later
                by_s = rng.choice((-1, 1)) * lasts_s
                node.clock.jump(by_s)
                await asyncio.sleep(lasts_s)
                node.clock.jump(-by_s)
            case _:
                return
        self.history.faults[fault] += 1
        self.history.disturbances.append(
            Disturbance(fault=fault, machine=machine, from_s=from_s, to_s=self.loop.time())
        )

    async def _collect(self, store: Store, begin_us: int, healed_s: float) -> Evidence:
        records: list[Execution] = []
        spans: list[Span] = []
        cursor: bytes | None = None
        while True:
            page = await store.list_executions(ExecutionFilter(), limit=_PAGE_SIZE, cursor=cursor)
            records += [item for item in page.items if isinstance(item, Execution)]
            spans += [item for item in page.items if isinstance(item, Span)]
            cursor = page.cursor
            if cursor is None:
                break
        dead_letters = await store.list_dead_letters(namespace=None, limit=_PAGE_SIZE)
        assert dead_letters.cursor is None
        return Evidence(
            scenario=self.scenario,
            history=self.history,
            records=records,
            spans=spans,
            begin_us=begin_us,
            end_us=self.reference_clock().now_us(),
            healed_s=healed_s,
            end_s=self.loop.time(),
            inconsistencies=await store.verify(),
            next_due_us=await store.next_due_us(),
            dead_letters=[letter.execution for letter in dead_letters.items],
            engine_errors=self.engine_errors,
        )

    # --- time

    def reference_clock(self) -> VirtualClock:
        """The clock that instants are measured by."""
        return self._shared_clock if self.scenario.one_clock else self.true_clock

    def latest_shown_us(self) -> int:
        """The latest time that the reference clock has shown. It may have been set back since."""
        return max([self.reference_clock().now_us(), *(shown_us for _, shown_us in self.history.jumps)])

    def new_clock(self) -> VirtualClock:
        """The clock of a new machine. Its own clock follows a time server, with a small offset."""
        if self.scenario.one_clock:
            return self._shared_clock
        off = timedelta(seconds=self._random.uniform(-0.4, 0.4))
        return VirtualClock(self.loop, start=self.scenario.start + off)


def simulate(scenario: Scenario, *, wrap: Callable[[Store], Store] = lambda store: store) -> Evidence:
    """Run a scenario from its seed to its end."""
    with _rare_garbage_collection(), asyncio.Runner(loop_factory=MachineLoop) as runner:
        loop = cast(MachineLoop, runner.get_loop())
        world = World(loop, scenario, wrap=wrap)
        runner.run(world.run())
    return world.evidence


@contextmanager
def _rare_garbage_collection() -> Iterator[None]:
    before = gc.get_threshold()
    gc.set_threshold(_GC_THRESHOLD, *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)
