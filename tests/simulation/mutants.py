"""Chronos with one safeguard removed, to test that the checker notices."""

import asyncio
import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest
from msgspec import structs

from chronos.core.config import UNLIMITED, Overlap, UpdatePolicy
from chronos.core.execution import Cause, Status
from chronos.core.execution_detail import read_detail, write_detail
from chronos.core.job import JobState
from chronos.core.node import HeartbeatWatch, Node
from chronos.core.schedule.occurrences import Instants, walk
from chronos.core.schedule_change import Takeover, plan_takeover
from chronos.core.settings.gate_profile import resolve_gate
from chronos.engine import heartbeat, node_clock
from chronos.engine.maintenance import reaper
from chronos.errors import StoreUnavailable
from chronos.service import backfill, save_plan
from chronos.store.commands import (
    AckOutbox,
    Admit,
    Backfill,
    CancelExecution,
    Command,
    DeleteJob,
    Recover,
    RunRow,
    SaveJobs,
    SetJobState,
    Settle,
    TakeOutbox,
    Trigger,
)
from chronos.store.contract import Store
from tests.simulation.machines import this_machine

Patch = Callable[[pytest.MonkeyPatch], None]


class Mutant:
    """A store that passes everything on. Each mutant breaks one thing."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def apply(self, command: Command[Any]) -> Any:
        return await self._store.apply(command)


class NoUniqueConstraint(Mutant):
    """The loser of the race for an instant creates an execution too, with another id."""

    async def apply(self, command: Command[Any]) -> Any:
        answer = await self._store.apply(command)
        if isinstance(command, Admit):
            admitted = {row.id for row in answer}
            for row in command.rows:
                if row.id not in admitted:
                    twin = row.id[:6] + bytes(byte ^ 0xFF for byte in row.id[6:])
                    run = RunRow(twin, Cause.BACKFILL, row.expect_us, row.ready_us)
                    await self._store.apply(Trigger(job=row.job, run=run, now_us=command.now_us))
        return answer


class CursorMovedFirst(Mutant):
    """Moving the cursor and creating the execution are two transactions, and sometimes only the first one happens."""

    def __init__(self, store: Store) -> None:
        super().__init__(store)
        self._admissions = 0

    async def apply(self, command: Command[Any]) -> Any:
        if isinstance(command, Admit):
            self._admissions += 1
            if self._admissions % 20 == 0:
                for row in command.rows:
                    moved = Recover(
                        job=row.job,
                        version=row.version,
                        expect_us=row.expect_us,
                        next_us=row.next_us,
                        runs=(),
                        spans=(),
                        now_us=command.now_us,
                    )
                    await self._store.apply(moved)
                raise StoreUnavailable("crashed between two transactions")
        return await self._store.apply(command)


class NoFencing(Mutant):
    """Outcomes are accepted from any node."""

    async def apply(self, command: Command[Any]) -> Any:
        if isinstance(command, Settle):
            rows = []
            for row in command.rows:
                view = await self._store.execution(row.id)
                running = view is not None and view.execution.status is Status.RUNNING
                rows.append(row._replace(token=view.execution.token) if view is not None and running else row)
            return await self._store.apply(replace(command, rows=tuple(rows)))
        return await self._store.apply(command)


class NoOverlapCheck(Mutant):
    """Every gate is open."""

    async def apply(self, command: Command[Any]) -> Any:
        if isinstance(command, SaveJobs):
            rows = tuple(
                structs.replace(
                    row, gate=structs.replace(resolve_gate(row.gate), overlap=Overlap.ALLOW, limit=UNLIMITED)
                )
                for row in command.rows
            )
            return await self._store.apply(replace(command, rows=rows))
        return await self._store.apply(command)


class IgnoresActions(Mutant):
    """Pauses, deletions and cancellations are acknowledged and not applied."""

    async def apply(self, command: Command[Any]) -> Any:
        match command:
            case SetJobState(state=JobState.PAUSED) | DeleteJob():
                return None
            case CancelExecution():
                return Status.RUNNING
            case _:
                return await self._store.apply(command)


class NoKeys(Mutant):
    """Idempotency keys are ignored."""

    async def apply(self, command: Command[Any]) -> Any:
        if isinstance(command, Trigger | Backfill):
            return await self._store.apply(replace(command, idempotency=None))
        return await self._store.apply(command)


class RepeatsSucceededTasks(Mutant):
    """A replay from the failed tasks starts at the first task."""

    async def apply(self, command: Command[Any]) -> Any:
        if isinstance(command, Trigger):
            detail = write_detail(structs.replace(read_detail(command.run.detail), carried=None))
            return await self._store.apply(replace(command, run=command.run._replace(detail=detail)))
        return await self._store.apply(command)


class NoDeadLetters(Mutant):
    """Executions that failed for good leave no dead letter."""

    async def apply(self, command: Command[Any]) -> Any:
        if isinstance(command, Settle):
            rows = tuple(row._replace(dead_letter=False) for row in command.rows)
            return await self._store.apply(replace(command, rows=rows))
        return await self._store.apply(command)


class DropsOutboxItems(Mutant):
    """Outbox items are acknowledged before they are handled, and sometimes never handled."""

    def __init__(self, store: Store) -> None:
        super().__init__(store)
        self._taken = 0

    async def apply(self, command: Command[Any]) -> Any:
        answer = await self._store.apply(command)
        if isinstance(command, TakeOutbox) and answer:
            self._taken += 1
            if self._taken % 3 == 0:
                await self._store.apply(AckOutbox(ids=tuple(item.id for item in answer)))
                return []
        return answer


def no_patch(_: pytest.MonkeyPatch) -> None:
    """Leave Chronos as it is."""


def no_reaper(patch: pytest.MonkeyPatch) -> None:
    """Executions of dead nodes are not taken over."""

    async def nothing(*_: Any) -> None: ...

    patch.setattr(reaper.Reaper, "_reap", nothing)
    patch.setattr(reaper.Reaper, "_reap_overdue", nothing)


def wall_clock(patch: pytest.MonkeyPatch) -> None:
    """Missing heartbeats are measured by the wall clock, and jumps of it go unnoticed."""

    def read_wall_clock() -> float:
        machine = this_machine()
        assert machine is not None
        return machine.clock.now_us() / 1e6

    loop = SimpleNamespace(time=read_wall_clock)
    for module in (heartbeat, node_clock):
        patch.setattr(module, "JUMP_US", 1 << 62)
    patch.setattr(reaper, "asyncio", SimpleNamespace(get_running_loop=lambda: loop, sleep=asyncio.sleep))


def time_before_the_read(patch: pytest.MonkeyPatch) -> None:
    """A heartbeat counts from the request, however long the answer took."""
    observe = HeartbeatWatch.observe

    def observe_from_request(
        self: HeartbeatWatch, nodes: Sequence[Node], *, requested_s: float, responded_s: float
    ) -> list[Node]:
        self._max_response_gap_s = math.inf
        return observe(self, nodes, requested_s=requested_s, responded_s=requested_s)

    patch.setattr(HeartbeatWatch, "observe", observe_from_request)


def immediate_updates(patch: pytest.MonkeyPatch) -> None:
    """A new schedule takes over at once, whatever its policy."""

    def plan_immediate(_: UpdatePolicy, **arguments: Any) -> Takeover:
        return plan_takeover(UpdatePolicy.IMMEDIATE, **arguments)

    patch.setattr(save_plan, "plan_takeover", plan_immediate)


def short_backfills(patch: pytest.MonkeyPatch) -> None:
    """The last instant of a backfill is left out."""

    def walk_without_last(instants: Instants, first_us: int | None, until_us: int) -> list[int]:
        return list(walk(instants, first_us, until_us))[:-1]

    patch.setattr(backfill, "walk", walk_without_last)


def as_store(mutant: Mutant) -> Store:
    return cast(Store, mutant)
