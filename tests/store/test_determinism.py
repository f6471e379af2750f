"""Determinism: recorded commands, applied to an empty store, give the same rows."""

import asyncio
import random
from collections.abc import Awaitable, Callable
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from chronos.core.config import Overlap
from chronos.core.execution import Cause, Status
from chronos.core.ids import key_gate_id, requested_execution_id, scheduled_execution_id
from chronos.core.job import JobState
from chronos.core.reasons import ReasonCode
from chronos.errors import ChronosError
from chronos.store.commands import (
    Admit,
    AdmitRow,
    Claim,
    Command,
    DeleteJob,
    FollowUp,
    RunRow,
    SaveJobs,
    SetJobState,
    Settle,
    SettleRow,
    Suspend,
    SuspendRow,
    Trigger,
    Trim,
    Wake,
)
from chronos.store.sql.sqlite.store import SqliteStore
from chronos.testing.conformance.fixture import SECOND_US, StoreFixture
from tests.store.test_state_machine import run_machine
from tests.support.command_recorder import digest

KEYS = [key_gate_id("default", "k1"), key_gate_id("default", "k2")]


async def replay(commands: list[Command[Any]], path: Path) -> None:
    """Apply recorded commands, one after the other."""
    store = SqliteStore(path)
    await store.open()
    for command in commands:
        await store.apply(command)
    await store.close()


def test_replaying_random_commands_gives_the_same_rows(tmp_path: Path) -> None:
    recorded: list[list[Command[Any]]] = []

    def record() -> list[SqliteStore]:
        recorded.append([])
        return [SqliteStore(tmp_path / f"{len(recorded)}.db", journal=recorded[-1].append)]

    run_machine(record, examples=15, steps=40)
    longest = max(recorded, key=len)
    assert len(longest) > 20
    asyncio.run(replay(longest, tmp_path / "again.db"))
    assert digest(tmp_path / "again.db") == digest(tmp_path / f"{1 + recorded.index(longest)}.db")


class ConcurrentClients:
    """Clients that send random commands concurrently, so that these share transactions and are merged."""

    def __init__(self, store: SqliteStore, seed: int) -> None:
        self.store, self.dice = store, random.Random(seed)
        self.world = StoreFixture(store)
        self.numbers = count()
        self.jobs: list[bytes] = []
        self.runs: list[tuple[bytes, bytes, int]] = []

    async def act(self) -> None:
        """Send a random command, which may be rejected."""
        often = (self.admit, self.settle)
        seldom = (self.save, self.save_many, self.switch, self.trigger, self.claim, self.suspend, self.clean)
        send: Callable[[int], Awaitable[None]] = self.dice.choice((*often, *often, *seldom))
        with suppress(ChronosError):
            await send(self.world.tick(self.dice.randrange(3_000)))

    async def save(self, now_us: int) -> None:
        row = self.world.build_job_row(
            f"j{self.dice.randrange(12)}",
            overlap=self.dice.choice(list(Overlap)),
            keyed=self.dice.random() < 0.2,
            priority=self.dice.randint(1, 10),
            description=str(self.dice.randrange(5)),
            next_us=now_us,
        )
        [saved] = await self.store.apply(SaveJobs(rows=(row,), now_us=now_us))
        self.jobs.append(saved.id)

    async def save_many(self, now_us: int) -> None:
        names = [f"many-{next(self.numbers)}" for _ in range(self.dice.choice([1, 3, 120]))]
        rows = tuple(self.world.build_job_row(name, next_us=now_us + SECOND_US, tags={"a": "b"}) for name in names)
        self.jobs += [saved.id for saved in await self.store.apply(SaveJobs(rows=rows, now_us=now_us))]

    async def switch(self, now_us: int) -> None:
        job, state = self.dice.choice(self.jobs), self.dice.choice([*JobState])
        if state is JobState.DONE:
            await self.store.apply(DeleteJob(job=job, now_us=now_us))
        else:
            await self.store.apply(SetJobState(job=job, state=state, now_us=now_us, next_us=now_us))

    async def admit(self, now_us: int) -> None:
        due = await self.store.due(now_us + 2 * SECOND_US, 60)
        rows = tuple(
            AdmitRow(
                *(gate.job, gate.version, gate.next_us, gate.next_us + SECOND_US),
                scheduled_execution_id(gate.job, gate.next_us),
                *(gate.next_us, self.dice.random() < 0.6, gate.needs_gate_lock),
                *((self.dice.choice(KEYS), 1) if gate.needs_gate_lock else (None, 0)),
            )
            for gate in self.dice.sample(due, min(20, len(due)))
        )
        request = self.dice.randbytes(16)
        for row in await self.store.apply(Admit(rows=rows, node=self.world.node, now_us=now_us, request=request)):
            if row.status is Status.RUNNING:
                self.runs.append((row.id, row.job, row.token))

    async def trigger(self, now_us: int) -> None:
        job, request = self.dice.choice(self.jobs), self.dice.randbytes(4)
        execution = requested_execution_id(job, Cause.MANUAL, now_us, request)
        run = RunRow(execution, Cause.MANUAL, now_us, now_us, None, self.dice.choice([None, *KEYS]), 1)
        key = self.dice.choice([None, None, f"key-{self.dice.randrange(9)}"])
        await self.store.apply(Trigger(job=job, run=run, now_us=now_us, idempotency=key))

    async def claim(self, now_us: int) -> None:
        command = Claim(lanes=(1, 2), limit=5, node=self.world.node, now_us=now_us, request=self.dice.randbytes(16))
        self.runs += [(row.id, row.job, row.token) for row in await self.store.apply(command)]

    async def settle(self, now_us: int) -> None:
        leaving = {self.runs.pop(self.dice.randrange(len(self.runs))) for _ in range(min(4, len(self.runs)))}
        status = self.dice.choice([Status.SUCCEEDED, Status.FAILED])
        rows = tuple(
            SettleRow(
                *(id_, job, token, status, ReasonCode.TASK_FAILED, None, now_us),
                follow=(FollowUp("hook", id_.hex(), "{}"),) if self.dice.random() < 0.2 else (),
                dead_letter=status is Status.FAILED,
            )
            for id_, job, token in sorted(leaving)
        )
        settled = await self.store.apply(
            Settle(rows=rows, node=self.world.node, now_us=now_us, take=2, take_lanes=(1, 2))
        )
        self.runs += [(row.id, row.job, row.token) for row in settled.started_successors]

    async def suspend(self, now_us: int) -> None:
        if self.runs:
            id_, _, token = self.runs.pop()
            await self.store.apply(Suspend(rows=(SuspendRow(id_, token, now_us + 1, (), 2, 0),), now_us=now_us))

    async def clean(self, now_us: int) -> None:
        await self.store.apply(Wake(now_us=now_us, limit=9))
        await self.store.apply(Trim(now_us=now_us, limit=5))


@pytest.mark.parametrize("seed", range(3))
def test_replaying_concurrent_clients_gives_the_same_rows(tmp_path: Path, seed: int) -> None:
    journal: list[Command[Any]] = []

    async def case() -> None:
        store = SqliteStore(tmp_path / "crowd.db", journal=journal.append)
        await store.open()
        clients = ConcurrentClients(store, seed)
        await clients.world.start_node()
        await clients.save_many(clients.world.now_us)
        for _ in range(12):
            await asyncio.gather(*(clients.act() for _ in range(30)))
        assert await store.verify() == []
        await store.close()

    asyncio.run(case())
    assert len(journal) > 150
    asyncio.run(replay(journal, tmp_path / "again.db"))
    assert digest(tmp_path / "again.db") == digest(tmp_path / "crowd.db")
