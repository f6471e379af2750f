"""Random concurrent commands of several nodes on one PostgreSQL: invariants hold in every order."""

import asyncio
import random
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from chronos.core.config import Overlap
from chronos.core.execution import AttemptStatus, Cause, Status
from chronos.core.ids import key_gate_id, requested_execution_id, scheduled_execution_id
from chronos.core.job import JobState
from chronos.core.reasons import ReasonCode
from chronos.errors import Conflict, NotFound, QueueFull
from chronos.store.commands import (
    Admit,
    AdmitRow,
    CancelExecution,
    Claim,
    DeleteJob,
    EndedAttempt,
    Reap,
    ReapRow,
    RegisterNode,
    Release,
    ReleaseRow,
    RunRow,
    SaveJobs,
    SetJobState,
    Settle,
    SettleRow,
    Suspend,
    SuspendRow,
    Trigger,
    Wake,
)
from chronos.store.contract import ExecutionFilter, Store
from chronos.store.sql.postgres.store import PostgresStore
from chronos.testing.conformance import StoreFixture
from tests.support.race_process import SECOND, T0

NODES = 3
STEPS = 60
NAMES = ("a", "b", "c", "d")
KEYS = (None, key_gate_id("default", "k"), key_gate_id("default", "m"))
KEYED: tuple[dict[str, Any], ...] = (
    *({}, {}, {"keyed": True}),
    *({"keyed": True, "key": key, "key_limit": limit} for key in ("k", "m") for limit in (1, 2)),
)


class Nodes:
    """All claims of all nodes. Each claim is given out once."""

    def __init__(self) -> None:
        self.tokens: set[tuple[bytes, int]] = set()
        self.admitted: set[bytes] = set()

    def add_claim(self, execution: bytes, token: int) -> None:
        assert (execution, token) not in self.tokens, "the same claim was given out twice"
        self.tokens.add((execution, token))


class Node:
    """Sends random commands, and remembers the executions it holds."""

    def __init__(self, store: Store, seed: int, all_nodes: Nodes) -> None:
        self._store, self._all, self._random = store, all_nodes, random.Random(seed)
        self._held: list[tuple[bytes, bytes, int]] = []
        self._number = 0

    async def work(self) -> None:
        await self._register()
        steps = (
            *(self._admit, self._admit, self._claim, self._claim, self._settle, self._settle, self._settle),
            *(self._sleep, self._release, self._wake, self._trigger, self._cancel, self._pause, self._save),
            *(self._delete, self._die),
        )
        for _ in range(STEPS):
            with suppress(Conflict, NotFound, QueueFull):
                await self._random.choice(steps)()

    async def _register(self) -> None:
        incarnation = self._random.randbytes(16)
        self._number = await self._store.apply(RegisterNode(name="n", incarnation=incarnation, now_us=T0))

    def _keep(self, runs: list[tuple[bytes, bytes, int]]) -> None:
        for execution, _, token in runs:
            self._all.add_claim(execution, token)
        self._held += runs

    def _take(self) -> list[tuple[bytes, bytes, int]]:
        self._random.shuffle(self._held)
        taken, self._held = self._held[:3], self._held[3:]
        return taken

    async def _admit(self) -> None:
        due = await self._store.due(T0 + 10_000 * SECOND, 10)
        rows = tuple(
            AdmitRow(
                *(d.job, d.version, d.next_us, d.next_us + SECOND, scheduled_execution_id(d.job, d.next_us), d.next_us),
                *(
                    self._random.random() < 0.5,
                    d.needs_gate_lock,
                    self._random.choice(KEYS) if d.needs_gate_lock else None,
                    1,
                ),
            )
            for d in due
            if self._random.random() < 0.7
        )
        if not rows:
            return
        admitted = await self._store.apply(
            Admit(rows=rows, node=self._number, now_us=T0, request=self._random.randbytes(16))
        )
        for row in admitted:
            assert row.id not in self._all.admitted, "an instant was admitted twice"
            self._all.admitted.add(row.id)
        self._keep([(row.id, row.job, row.token) for row in admitted if row.status is Status.RUNNING])

    async def _claim(self) -> None:
        claimed = await self._store.apply(
            Claim(lanes=(1, 2), limit=3, node=self._number, now_us=T0, request=self._random.randbytes(16))
        )
        self._keep([(run.id, run.job, run.token) for run in claimed])

    async def _settle(self) -> None:
        rows = tuple(SettleRow(*run, Status.SUCCEEDED, ReasonCode.SUCCEEDED, None, T0) for run in self._take())
        settled = await self._store.apply(Settle(rows=rows, node=self._number, now_us=T0, take=2, take_lanes=(1, 2)))
        self._keep([(run.id, run.job, run.token) for run in settled.started_successors])

    async def _sleep(self) -> None:
        rows = tuple(SuspendRow(run[0], run[2], T0, (), 2, 0) for run in self._take())
        await self._store.apply(Suspend(rows=rows, now_us=T0))

    async def _release(self) -> None:
        rows = tuple(ReleaseRow(run[0], run[2]) for run in self._take())
        await self._store.apply(Release(rows=rows, now_us=T0))

    async def _wake(self) -> None:
        await self._store.apply(Wake(now_us=T0, limit=5))

    async def _job(self) -> bytes | None:
        job = await self._store.job_named("default", self._random.choice(NAMES))
        return None if job is None else job.id

    async def _trigger(self) -> None:
        if job := await self._job():
            cause = self._random.choice((Cause.MANUAL, Cause.REPLAY, Cause.DEPENDENCY))
            execution = requested_execution_id(job, cause, T0, self._random.randbytes(16))
            run = RunRow(execution, cause, T0, T0, None, self._random.choice(KEYS), 1)
            await self._store.apply(Trigger(job=job, run=run, now_us=T0))

    async def _cancel(self) -> None:
        page = await self._store.list_executions(ExecutionFilter(), limit=20)
        if page.items:
            item = self._random.choice(page.items)
            await self._store.apply(CancelExecution(execution=item.id, now_us=T0))

    async def _pause(self) -> None:
        if job := await self._job():
            state = self._random.choice((JobState.PAUSED, JobState.ACTIVE, JobState.ACTIVE))
            await self._store.apply(SetJobState(job=job, state=state, now_us=T0, keep_cursor=True))

    async def _save(self) -> None:
        overlap = self._random.choice(tuple(Overlap))
        limit = self._random.choice((0, 1, 2)) if overlap is Overlap.ALLOW else 1
        row = StoreFixture(self._store).build_job_row(
            self._random.choice(NAMES),
            overlap=overlap,
            limit=limit,
            **self._random.choice(KEYED),
            queue_max=self._random.choice((1, 3)),
            lane=self._random.choice("xy"),
            description=str(self._random.randrange(5)),
            next_us=T0 + self._random.randrange(5_000) * SECOND,
        )
        await self._store.apply(SaveJobs(rows=(row,), now_us=T0))

    async def _delete(self) -> None:
        if self._random.random() < 0.3 and (job := await self._job()):
            await self._store.apply(DeleteJob(job=job, now_us=T0))

    async def _die(self) -> None:
        """Reap this node, as another node would, and register again."""
        if self._random.random() < 0.7:
            return
        rows = tuple(
            ReapRow(
                *(
                    run.id,
                    run.job,
                    run.token,
                    self._random.choice((Status.READY, Status.STALE)),
                    ReasonCode.WORKER_LOST,
                    2,
                ),
                (EndedAttempt(run.id, "task", run.token, AttemptStatus.LOST, T0, T0, self._number),),
            )
            for run in await self._store.running_on(self._number)
        )
        await self._store.apply(Reap(node=self._number, beat=0, rows=rows, now_us=T0))
        self._held = []
        await self._register()


async def together(url: str, seeds: list[int]) -> None:
    stores = [PostgresStore(url) for _ in seeds]
    await asyncio.gather(*(store.open() for store in stores))
    all_nodes = Nodes()
    nodes = [Node(store, seed, all_nodes) for store, seed in zip(stores, seeds, strict=True)]
    world = StoreFixture(stores[0])
    await stores[0].apply(
        SaveJobs(
            rows=tuple(world.build_job_row(name, lane=lane) for name, lane in zip(NAMES, "xyxy", strict=True)),
            now_us=T0,
        )
    )
    for _ in range(2):
        await asyncio.gather(*(node.work() for node in nodes))
        unsound = await stores[0].verify()
        assert unsound == [], unsound
    page = await stores[0].list_executions(ExecutionFilter(), limit=5_000)
    lost = all_nodes.admitted - {item.id for item in page.items}
    assert not lost, "an admitted instant has no record"
    await asyncio.gather(*(store.close() for store in stores))


def test_invariants_hold_among_racing_nodes(make_prepared: Callable[[], str]) -> None:
    @settings(max_examples=6, deadline=None, phases=(Phase.generate,))
    @given(st.lists(st.integers(0, 2**32), min_size=NODES, max_size=NODES, unique=True))
    def check(seeds: list[int]) -> None:
        asyncio.run(together(make_prepared(), seeds))

    check()
