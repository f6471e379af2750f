"""A small world for tests of the whole engine: virtual time, a store in memory, nodes that come and go.

::

    @in_world
    async def test_a_job_runs(world: World) -> None:
        work = world.work("hello", takes=2)
        await world.node()
        await world.job("hello", schedule="@every 10s")
        await world.advance(25)
        assert work.starts == [10, 20]
        assert await world.story("hello") == ["10 succeeded", "20 succeeded"]

Seconds count from the start of the world, 2027-01-01T00:00:00Z. At the end of a test the store must be consistent, and
no node may have failed.
"""

import asyncio
import functools
import inspect
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Concatenate, ParamSpec, cast

from chronos.assembly import make_service, make_store
from chronos.core.calendar import to_us
from chronos.core.config import NOTHING_SET, Settings
from chronos.core.events import Event
from chronos.core.execution import Attempt, Execution, Span, Status
from chronos.core.job import Job
from chronos.engine.engine import Engine
from chronos.engine.options import EngineOptions
from chronos.errors import StoreUnavailable
from chronos.runners.contract import Runner
from chronos.runners.python.function_registry import FunctionRegistry
from chronos.runners.python.runner import PythonRunner
from chronos.runners.wait import WaitRunner
from chronos.service.job_state import StateChange
from chronos.service.save_jobs import SavedJob
from chronos.store.commands import Command, SetDefaults
from chronos.store.contract import ExecutionFilter, Store
from chronos.testing.clock import START, VirtualClock
from chronos.testing.loop import VirtualLoop, run

P = ParamSpec("P")
SECOND_US = 1_000_000
START_US = to_us(START)
_PAGE = 1_000


@dataclass(slots=True)
class Work:
    """A function of a test: when it was called, and what each call does."""

    name: str
    takes_s: float = 0.0
    script: list[float | Exception | Callable[[], Any]] = field(default_factory=list)
    starts: list[float] = field(default_factory=list)
    ends: list[float] = field(default_factory=list)  # of calls that were not cancelled
    cut: list[float] = field(default_factory=list)  # when calls were cancelled
    fails: bool = False  # at the end of its duration
    stubborn: bool = False  # ignores cancellation
    running: int = 0
    most: int = 0  # the most calls at once
    payloads: list[Any] = field(default_factory=list)


class Link:
    """A node's connection to the store. A test may freeze or cut it, lose answers, or skew its clock."""

    def __init__(self, store: Store, clock: VirtualClock) -> None:
        self._store, self._clock = store, clock
        self._thawed = asyncio.Event()
        self._thawed.set()
        self.cut = False
        self.refuses: Callable[[Command[Any]], bool] = lambda _: False  # commands that do not arrive
        self.loses: Callable[[Command[Any]], bool] = lambda _: False  # commands whose answer is lost
        self.skew_s: float | None = None

    def freeze(self) -> None:
        """Let calls hang from now on, without an error."""
        self._thawed.clear()

    def thaw(self) -> None:
        """Let the hanging calls continue."""
        self._thawed.set()

    def on_hint(self, callback: Callable[[Any], None]) -> None:
        self._store.on_hint(lambda hint: callback(hint) if self._thawed.is_set() and not self.cut else None)

    async def clock_us(self) -> int | None:
        await self._pass()
        return None if self.skew_s is None else self._clock.now_us() + round(self.skew_s * 1e6)

    async def apply(self, command: Command[Any]) -> Any:
        await self._pass()
        if self.refuses(command):
            raise StoreUnavailable("it did not arrive")
        answer = await self._store.apply(command)
        if self.loses(command):
            raise StoreUnavailable("the answer was lost")
        await self._pass()
        return answer

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._store, name)

        async def ask(*args: Any, **kwargs: Any) -> Any:
            await self._pass()
            answer = await method(*args, **kwargs)
            await self._pass()
            return answer

        return ask

    async def _pass(self) -> None:
        await self._thawed.wait()
        if self.cut:
            raise StoreUnavailable("the link is cut")


@dataclass(slots=True)
class NodeOfWorld:
    """One engine and its link to the store."""

    engine: Engine
    link: Link
    clock: VirtualClock
    watch: asyncio.Task[None]
    events: list[Event]
    alive: bool = True

    @property
    def number(self) -> int:
        return self.engine.node.number

    async def crash(self) -> None:
        """End the node like a power cut."""
        self.alive = False
        await self.engine.crash()

    async def stop(self, grace_s: float | None = None) -> None:
        """Stop the node like SIGTERM."""
        self.alive = False
        await self.engine.stop(grace_s)


class World:
    """Virtual time, a store, nodes and jobs. The module docstring has an example."""

    def __init__(self, url: str = "sqlite://", *, defaults: Settings = NOTHING_SET) -> None:
        self.clock = VirtualClock()
        self.store = make_store(url)
        self.functions = FunctionRegistry()
        self.nodes: list[NodeOfWorld] = []
        self._defaults = defaults
        self._requests = 0
        runners: dict[str, Runner] = {
            "python": PythonRunner(self.functions, threads=1, processes=1, clock=self.clock, inline=True),
            "wait": WaitRunner(),
        }
        self._runners = runners
        checks = {kind: runner.check for kind, runner in runners.items()}
        service = make_service(self.store, self.clock, checks=checks, new_request=self._new_request)
        self.jobs, self.saver, self.states = service.jobs, service.job_saver, service.job_states
        self.executions, self.backfills = service.runs, service.backfills

    async def open(self) -> None:
        await self.store.open()
        if self._defaults != NOTHING_SET:
            await self.store.apply(SetDefaults(settings=self._defaults, now_us=self.clock.now_us()))

    async def close(self) -> None:
        """Stop everything. Asserts that the store is consistent and that no node failed."""
        for node in self.nodes:
            node.link.thaw()
            if node.watch.done() and node.alive:
                node.watch.result()
            await node.crash()
            node.watch.cancel()
        await asyncio.gather(*(node.watch for node in self.nodes), return_exceptions=True)
        for runner in self._runners.values():
            await runner.close()
        inconsistencies = await self.store.verify()
        await self.store.close()
        assert inconsistencies == []

    # --- time

    @property
    def now_s(self) -> float:
        """The wall clock, in seconds since the start."""
        return self.second(self.clock.now_us())

    @property
    def passed_s(self) -> float:
        """The time that really passed, in seconds, whatever the wall clock shows."""
        return round(asyncio.get_running_loop().time(), 6)

    async def advance(self, seconds: float) -> None:
        """Let time pass."""
        await asyncio.sleep(seconds)

    def jump(self, seconds: float) -> None:
        """Set every clock; no time passes."""
        for clock in (self.clock, *(node.clock for node in self.nodes)):
            clock.jump(seconds)

    @staticmethod
    def stand_still(seconds: float) -> None:
        """Let time pass without running anything, not even due timers."""
        loop = cast(VirtualLoop, asyncio.get_running_loop())
        loop.now_us += round(seconds * 1e6)
        loop._now_s = loop.now_us / 1e6

    async def reach(self, second: float) -> None:
        """Let time pass until a second, and let everything due then happen."""
        await asyncio.sleep(max(0.0, second - self.now_s) + 0.001)

    @staticmethod
    def second(at_us: int) -> float:
        return round((at_us - START_US) / SECOND_US, 3)

    @staticmethod
    def us(second: float) -> int:
        return START_US + round(second * SECOND_US)

    # --- functions

    def work(
        self,
        name: str,
        *script: float | Exception | Callable[[], Any],
        takes: float = 0.0,
        fails: bool = False,
        stubborn: bool = False,
        hears: bool = False,
    ) -> Work:
        """Register a function that takes ``takes`` seconds.

        ``script`` says what each call does: a duration, an error to raise, or a function to call. ``hears`` makes it
        accept any payload.
        """
        work = Work(name, takes_s=takes, script=list(script), fails=fails, stubborn=stubborn)

        async def call() -> Any:
            return await self._call(work, {})

        async def call_with_payload(**payload: Any) -> Any:
            return await self._call(work, payload)

        self.functions.register(name, call_with_payload if hears else call)
        return work

    async def _call(self, work: Work, payload: dict[str, Any]) -> Any:
        does = work.script[len(work.starts)] if len(work.starts) < len(work.script) else work.takes_s
        work.starts.append(self.passed_s)
        work.payloads.append(payload)
        work.running += 1
        work.most = max(work.most, work.running)
        try:
            if isinstance(does, Exception):
                raise does
            if callable(does):
                return does()
            until_s = asyncio.get_running_loop().time() + does
            while asyncio.get_running_loop().time() < until_s:
                try:
                    await asyncio.sleep(until_s - asyncio.get_running_loop().time())
                except asyncio.CancelledError:
                    work.cut.append(self.passed_s)
                    if not work.stubborn:
                        raise
            work.ends.append(self.passed_s)
            if work.fails and len(work.starts) > len(work.script):
                raise RuntimeError(f"{work.name} always fails")
            return None
        finally:
            work.running -= 1

    # --- nodes

    async def node(self, name: str = "", **options: Any) -> NodeOfWorld:
        """Start a node."""
        clock = VirtualClock()
        clock.jump((self.clock.now_us() - clock.now_us()) / SECOND_US)
        link = Link(self.store, clock)
        engine = Engine(
            cast(Store, link),
            clock=clock,
            options=EngineOptions(node_name=name or f"node-{len(self.nodes)}", **options),
            runners=self._runners,
            functions=self.functions,
            new_request=self._new_request,
        )
        events: list[Event] = []
        engine.on_event(events.append)
        await engine.start()
        node = NodeOfWorld(engine, link, clock, asyncio.create_task(engine.wait_until_stopped()), events)
        self.nodes.append(node)
        return node

    # --- jobs

    async def job(self, name: str, **fields: Any) -> SavedJob:
        """Create or replace a job, in the REST shape. Without a target it calls the function of its name."""
        if not {"tasks", "python", "wait"} & fields.keys():
            fields["python"] = {"name": fields.pop("does", name)}
        [saved] = await self.saver.save([self.jobs.read({"name": name, **fields})])
        return saved

    async def switch(self, change: str, name: str, *, reason: str = "") -> Job:
        """Pause, resume, enable or disable a job."""
        return await self.states.change(await self.jobs.get(name), StateChange(change), reason=reason)

    async def get(self, name: str) -> Job:
        return await self.jobs.get(name)

    # --- records

    async def records(self, name: str) -> list[Execution | Span]:
        """All executions and spans of a job, oldest first; also those of a deleted job."""
        job = await self.store.job_named("default", name)
        return await self.records_of(None if job is None else job.id)

    async def records_of(self, job: bytes | None) -> list[Execution | Span]:
        found: list[Execution | Span] = []
        cursor: bytes | None = None
        while True:
            page = await self.store.list_executions(ExecutionFilter(job=job), limit=_PAGE, cursor=cursor)
            found += page.items
            cursor = page.cursor
            if cursor is None:
                return found[::-1]

    async def runs(self, name: str) -> list[Execution]:
        return [record for record in await self.records(name) if isinstance(record, Execution)]

    async def spans(self, name: str) -> list[Span]:
        return [record for record in await self.records(name) if isinstance(record, Span)]

    async def last(self, name: str) -> Execution:
        return (await self.runs(name))[-1]

    async def story(self, name: str) -> list[str]:
        """The records as short text: ``10 succeeded``, ``20-50 missed 4``."""
        return [self._describe(record) for record in await self.records(name)]

    def _describe(self, record: Execution | Span) -> str:
        if isinstance(record, Span):
            first, last = (round(self.second(at_us), 1) for at_us in (record.from_us, record.to_us))
            return f"{first:g}-{last:g} {record.status.name.lower()} {record.count}"
        return f"{round(self.second(record.scheduled_us), 1):g} {record.status.name.lower()}"

    async def attempts(self, execution: Execution) -> list[Attempt]:
        view = await self.store.execution(execution.id)
        assert view is not None
        return view.attempts

    async def tasks(self, execution: Execution) -> dict[str, str]:
        """The status of each task, by name."""
        report = (execution.detail or {}).get("report")
        assert report is not None, execution
        return {task["name"]: task["status"] for task in report["tasks"]}

    async def count(self, status: Status) -> int:
        return (await self.store.counts()).open.get(status, 0)

    def _new_request(self) -> bytes:
        self._requests += 1
        return self._requests.to_bytes(16)


def in_world(test: Callable[Concatenate[World, P], Awaitable[None]]) -> Callable[P, None]:
    """Run a test in its own world."""

    @functools.wraps(test)
    def play(*args: P.args, **kwargs: P.kwargs) -> None:
        async def main() -> None:
            world = World()
            await world.open()
            try:
                await test(world, *args, **kwargs)
            finally:
                await world.close()

        run(main())

    signature = inspect.signature(test)
    parameters = list(signature.parameters.values())[1:]
    play.__signature__ = signature.replace(parameters=parameters, return_annotation=None)  # type: ignore[attr-defined]
    del play.__wrapped__
    return play


def statuses(runs: Sequence[Execution]) -> list[str]:
    """The statuses of executions, as text."""
    return [run.status.name.lower() for run in runs]
