"""A state machine of the whole engine: random events happen to jobs and nodes, and the records are checked after each.

The machine knows little: when each job started and how often it runs, which jobs were deleted, and the last status of
each execution. Everything else is checked in the records: G1, G2, G5 and G13, and the consistency of the store.
"""

import asyncio
from collections import Counter
from collections.abc import Coroutine
from contextlib import suppress
from dataclasses import dataclass
from itertools import count
from typing import Any, TypeVar

from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from chronos.core.execution import Cause, Execution, Span, Status
from chronos.core.job import Job, JobState
from chronos.errors import Conflict, QueueFull
from chronos.store.commands import Admit, Claim, Command, Recover, Release, Settle, Suspend
from chronos.testing.loop import VirtualLoop
from tests.support.engine_world import SECOND_US, NodeOfWorld, World

T = TypeVar("T")
NAMES = st.sampled_from(["a", "b", "c"])
WORKS = ("quick", "slow", "long", "flaky", "stubborn", "sleeper", "fenced")
HOOKED = ("flaky", "fenced")  # works whose jobs have hooks
MAX_NODES = 3


@dataclass(slots=True)
class Known:
    """What the test knows about a job."""

    id: bytes
    first_us: int
    every_us: int
    exclusive: bool


class EngineMachine(RuleBasedStateMachine):
    """Random events in virtual time."""

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner(loop_factory=VirtualLoop)
        self.jobs: dict[str, Known] = {}
        self.deleted: set[bytes] = set()
        self.ended: dict[bytes, Status] = {}
        self.starts_when_deleted: dict[bytes, set[bytes]] = {}
        self.shared: set[str] = set()  # jobs that ever allowed overlap
        self.tokens: dict[str, list[tuple[str, int]]] = {}  # by job: what started, in order, and its token
        self.hooks: dict[tuple[str, str], set[int]] = {}  # by job and execution: tokens of ``on_complete``
        self.world = self.run(self._begin())

    async def _begin(self) -> World:
        world = World()
        await world.open()
        world.work("quick")
        world.work("slow", takes=7)
        world.work("long", takes=45)
        world.work("flaky", *[RuntimeError("x")] * 500)
        world.work("stubborn", takes=20, stubborn=True)
        world.functions.register("sleeper", self._sleeper)
        world.functions.register("fenced", self._fenced)
        world.functions.register("greet", self._greet)
        world.functions.register("hook", self._hook)
        await world.node(grace_s=5)
        return world

    def run(self, scene: Coroutine[Any, Any, T]) -> T:
        return self.runner.run(scene)

    def teardown(self) -> None:
        try:
            self.run(self.world.close())
        finally:
            self.runner.close()

    # --- jobs

    @initialize(every_s=st.sampled_from([3, 10]), overlap=st.sampled_from(["skip", "queue", "replace"]))
    def begin(self, every_s: int, overlap: str) -> None:
        """Create a fenced job, so that something always happens."""
        self.save(name="a", does="fenced", every_s=every_s, overlap=overlap, recovery="all", delivery="at_least_once")

    @rule(
        name=NAMES,
        does=st.sampled_from(WORKS),
        every_s=st.sampled_from([3, 10, 25]),
        overlap=st.sampled_from(["skip", "queue", "replace", "allow"]),
        recovery=st.sampled_from(["last", "all", "skip", "compressed", "bounded"]),
        delivery=st.sampled_from(["at_least_once", "at_most_once"]),
    )
    def save(self, name: str, does: str, every_s: int, overlap: str, recovery: str, delivery: str) -> None:
        """Create a job, or change everything except its schedule."""
        known = self.jobs.get(name)
        if known is not None:
            every_s = known.every_us // SECOND_US
        says: dict[str, Any] = {"overlap": overlap, "recovery": recovery, "delivery": delivery, "queue_max": 20}
        if does == "flaky":
            says["retry"] = {"max_attempts": 3, "initial_interval": "4s", "jitter": 0}
        if does in HOOKED:
            says |= {"on_start": {"python": {"name": "greet"}}, "on_complete": {"python": {"name": "hook"}}}
        if overlap == "allow":
            self.shared.add(name)
        saved = self.run(self.world.job(name, does=does, schedule=f"@every {every_s}s", **says))
        if known is None:
            assert saved.job_id not in self.deleted, "a deleted job came back"
            assert saved.next_us is not None
            known = self.jobs[name] = Known(saved.job_id, saved.next_us, every_s * SECOND_US, exclusive=True)
        running = self._running(known)
        known.exclusive = overlap != "allow" and running <= 1

    @precondition(lambda self: self.jobs)
    @rule(data=st.data(), reason=st.sampled_from(["", "moving"]))
    def pause(self, data: st.DataObject, reason: str) -> None:
        self.run(self.world.switch("pause", self._one(data), reason=reason))

    @precondition(lambda self: self.jobs)
    @rule(data=st.data())
    def resume(self, data: st.DataObject) -> None:
        self.run(self.world.switch("resume", self._one(data)))

    @precondition(lambda self: self.jobs)
    @rule(data=st.data())
    def delete(self, data: st.DataObject) -> None:
        name = self._one(data)
        known = self.jobs.pop(name)
        self.run(self.world.jobs.delete(name))
        self.tokens.pop(name, None)  # the next job of this name is a new one
        self.hooks = {key: tokens for key, tokens in self.hooks.items() if key[0] != name}
        self.deleted.add(known.id)
        self._complete(known, self.run(self.world.records_of(known.id)), self.world.clock.now_us() + 1)
        self.starts_when_deleted[known.id] = {run.id for run in self._runs(known.id) if run.started_us is not None}

    @precondition(lambda self: self.jobs)
    @rule(data=st.data(), key=st.sampled_from([None, "k1", "k2"]), ago_s=st.sampled_from([None, 5, 500]))
    def trigger(self, data: st.DataObject, key: str | None, ago_s: int | None) -> None:
        """Trigger a job for now, or for a past instant, which starts before the queued ones."""
        name = self._one(data)
        at_us = None if ago_s is None else self.world.clock.now_us() - ago_s * SECOND_US
        with suppress(QueueFull):
            idempotency = None if key is None else f"{name}-{key}"
            self.run(self.world.executions.trigger(name, at_us=at_us, idempotency=idempotency))

    @precondition(lambda self: self.jobs)
    @rule(data=st.data())
    def cancel(self, data: st.DataObject) -> None:
        open_runs = [run for run in self._runs(self.jobs[self._one(data)].id) if not run.status.final]
        if open_runs:
            with suppress(Conflict):
                self.run(self.world.executions.cancel(data.draw(st.sampled_from(open_runs)).id))

    # --- time and nodes

    @rule(seconds=st.sampled_from([0.01, 1, 4, 11, 34, 70]))
    def advance(self, seconds: float) -> None:
        self.run(self.world.advance(seconds))

    @precondition(lambda self: len(self._alive()) < MAX_NODES)
    @rule(slots=st.sampled_from([1, 2, 100]))
    def start_node(self, slots: int) -> None:
        self.run(self.world.node(slots=slots, grace_s=5))

    @precondition(lambda self: self._alive())
    @rule(data=st.data())
    def crash(self, data: st.DataObject) -> None:
        self.run(data.draw(st.sampled_from(self._alive())).crash())

    @rule(seconds=st.sampled_from([5, 40, 100]))
    def outage(self, seconds: float) -> None:
        """Crash every node at once; after a while one starts again."""
        for node in self._alive():
            self.run(node.crash())
        self.run(self.world.advance(seconds))
        self.run(self.world.node(grace_s=5))
        self.run(self.world.advance(1))

    @precondition(lambda self: self._alive())
    @rule(data=st.data(), grace_s=st.sampled_from([0.0, 3.0]))
    def stop(self, data: st.DataObject, grace_s: float) -> None:
        node = data.draw(st.sampled_from(self._alive()))
        node.link.thaw()
        node.link.cut = False
        self.run(node.stop(grace_s))

    @precondition(lambda self: self._alive())
    @rule(data=st.data())
    def freeze(self, data: st.DataObject) -> None:
        data.draw(st.sampled_from(self._alive())).link.freeze()

    @precondition(lambda self: self._alive())
    @rule(data=st.data())
    def thaw(self, data: st.DataObject) -> None:
        data.draw(st.sampled_from(self._alive())).link.thaw()

    @precondition(lambda self: self._alive())
    @rule(data=st.data(), cut=st.booleans())
    def cut(self, data: st.DataObject, cut: bool) -> None:
        data.draw(st.sampled_from(self._alive())).link.cut = cut

    @precondition(lambda self: self._alive())
    @rule(data=st.data(), command=st.sampled_from([Admit, Claim, Recover, Release, Settle, Suspend, None]))
    def lose_answers(self, data: st.DataObject, command: type[Command[Any]] | None) -> None:
        """From now on lose half of the answers to some commands; None: lose none."""
        counter = count()
        data.draw(st.sampled_from(self._alive())).link.loses = lambda sent: (
            command is not None and isinstance(sent, command) and next(counter) % 2 == 0
        )

    # --- invariants

    @invariant()
    def accounts_are_right(self) -> None:
        assert self.run(self.world.store.verify()) == []

    @invariant()
    def no_node_broke_down(self) -> None:
        for node in self._alive():
            if node.watch.done():
                node.watch.result()
                raise AssertionError("a node ended by itself")

    @invariant()
    def records_are_sound(self) -> None:
        for known in self.jobs.values():
            job, records = self.run(self._together(known.id))
            self._unique(records)
            assert job.state in (JobState.ACTIVE, JobState.PAUSED)
            assert job.next_us is not None
            self._complete(known, records, job.next_us)
            if known.exclusive:
                assert self._running(known) <= 1, "G5: two executions of an exclusive job run"
            self._final_stays(records)

    @invariant()
    def tokens_grow(self) -> None:
        for name, started in self.tokens.items():
            if name not in self.shared:
                tokens = [token for _, token in started]
                assert tokens == sorted(set(tokens)), f"the tokens of {name} went back: {tokens}"
        for (name, execution), hooked in self.hooks.items():
            own = [token for one, token in self.tokens.get(name, ()) if one == execution]
            later = [token for one, token in self.tokens.get(name, ()) if one != execution and own and token > own[-1]]
            assert all(token > max(own, default=0) for token in hooked), "a hook's token is not above its attempts'"
            assert name in self.shared or all(token < min(later, default=token + 1) for token in hooked)

    @invariant()
    def deleted_jobs_stay_deleted(self) -> None:
        for job, started in self.starts_when_deleted.items():
            now = {run.id for run in self._runs(job) if run.started_us is not None}
            assert now == started, "G13: something of a deleted job started"

    async def _together(self, id_: bytes) -> tuple[Job, list[Execution | Span]]:
        """A consistent snapshot of a job and its records, while nodes work."""
        while True:
            [job] = (await self.world.store.jobs_by_id([id_])).values()
            records = await self.world.records_of(id_)
            [after] = (await self.world.store.jobs_by_id([id_])).values()
            if job.next_us == after.next_us:
                return job, records

    def _unique(self, records: list[Execution | Span]) -> None:
        scheduled = Counter(
            record.scheduled_us
            for record in records
            if isinstance(record, Execution) and record.cause in (Cause.SCHEDULE, Cause.RECOVERY)
        )
        assert all(count == 1 for count in scheduled.values()), "G1: an instant has two executions"

    def _complete(self, known: Known, records: list[Execution | Span], until_us: int) -> None:
        """Every instant before the cursor, or before the deletion of the job, is recorded once."""
        found: list[int] = []
        for record in records:
            if isinstance(record, Span):
                instants = range(record.from_us, record.to_us + 1, known.every_us)
                assert len(instants) == record.count
                found += instants
            elif record.cause in (Cause.SCHEDULE, Cause.RECOVERY):
                found.append(record.scheduled_us)
        assert sorted(found) == list(range(known.first_us, until_us, known.every_us)), "G2: not every instant once"

    def _final_stays(self, records: list[Execution | Span]) -> None:
        for record in records:
            before = self.ended.get(record.id)
            assert before is None or before is record.status, "an outcome was overwritten"
            if record.status.final:
                self.ended[record.id] = record.status

    # --- helpers

    def _one(self, data: st.DataObject) -> str:
        return data.draw(st.sampled_from(sorted(self.jobs)))

    def _alive(self) -> list[NodeOfWorld]:
        return [node for node in self.world.nodes if node.alive]

    def _runs(self, job: bytes) -> list[Execution]:
        return [record for record in self.run(self.world.records_of(job)) if isinstance(record, Execution)]

    def _running(self, known: Known) -> int:
        return sum(run.status is Status.RUNNING for run in self._runs(known.id))

    # --- functions that know their token

    def _started(self, ctx: Any) -> None:
        self.tokens.setdefault(ctx.job, []).append((ctx.execution_id, ctx.token))

    async def _sleeper(self, ctx: Any) -> None:
        self._started(ctx)
        await ctx.sleep(12)
        await asyncio.sleep(2)

    async def _fenced(self, ctx: Any) -> None:
        self._started(ctx)
        await asyncio.sleep(4)
        if ctx.attempt == 1:
            raise RuntimeError("x")

    async def _greet(self, ctx: Any) -> None:
        self._started(ctx)

    async def _hook(self, ctx: Any) -> None:
        self.hooks.setdefault((ctx.job, ctx.execution_id), set()).add(ctx.token)


def run_machine(*, examples: int, steps: int) -> None:
    """Run the machine without shrinking, which would take longer than reading the steps."""
    run_state_machine_as_test(
        EngineMachine,
        settings=settings(
            max_examples=examples,
            stateful_step_count=steps,
            phases=(Phase.generate,),
            deadline=None,
            report_multiple_bugs=False,
        ),
    )
