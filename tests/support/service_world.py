"""A store in memory, a clock that a test sets, and the service on them."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from datetime import UTC, datetime
from typing import Any

from chronos.assembly import make_service, make_store
from chronos.core.calendar import SECOND_US, to_us
from chronos.core.execution import Status
from chronos.core.ids import scheduled_execution_id
from chronos.core.job import Job
from chronos.core.node import Actor
from chronos.core.reasons import ReasonCode
from chronos.core.schedule_change import resolve_instants
from chronos.errors import Invalid
from chronos.service.job_state import StateChange
from chronos.service.save_jobs import SavedJob
from chronos.service.serializers import Check
from chronos.store.commands import SYSTEM, Admit, AdmitRow, Admitted, Claim, Claimed, RegisterNode, Settle, SettleRow

START_US = to_us(datetime(2027, 1, 1, tzinfo=UTC))
HOUR_US = 3600 * SECOND_US


def check_http(options: Mapping[str, Any]) -> None:
    """Check the options of a webhook, with messages like the real ones."""
    if "url" not in options:
        raise Invalid("http.url is missing")
    for name in options:
        if name not in ("url", "method", "headers", "json", "body", "timeout"):
            raise Invalid(f'http has no option "{name}"')


def anything(options: Mapping[str, Any]) -> None:
    """Accept any options."""


CHECKS: dict[str, Check] = {"http": check_http, "command": anything, "python": anything, "wait": anything}


class SetClock:
    """A clock that a test sets."""

    def __init__(self, now_us: int = START_US) -> None:
        self.us = now_us

    def now_us(self) -> int:
        return self.us

    def outside(self) -> AbstractContextManager[None]:
        return nullcontext()


class World:
    """The store, the clock and the service, with shortcuts for tests."""

    def __init__(self, *, max_pending: int = 100_000) -> None:
        self.clock = SetClock()
        self.store = make_store("sqlite://")
        self.service = service = make_service(
            self.store,
            self.clock,
            checks=CHECKS,
            max_pending=max_pending,
            new_request=self.request,
        )
        self.jobs, self.saver, self.states = service.jobs, service.job_saver, service.job_states
        self.runs, self.backfills, self.why = service.runs, service.backfills, service.why
        self.node = 0
        self._asked = 0

    def request(self) -> bytes:
        self._asked += 1
        return self._asked.to_bytes(16)

    def tick(self, us: int = SECOND_US) -> int:
        self.clock.us += us
        return self.clock.us

    async def save(self, name: str = "job", **fields: Any) -> SavedJob:
        """Save one job, with a command unless ``fields`` has a target."""
        options = {key: fields.pop(key) for key in ("create_only", "expect", "dry_run", "actor") if key in fields}
        [saved] = await self.saver.save([self.jobs.read(shape(name, **fields))], **options)
        return saved

    async def switch(self, change: str, name: str, *, reason: str = "", actor: Actor = SYSTEM) -> Job:
        """Pause, resume, enable or disable a job."""
        return await self.states.change(await self.jobs.get(name), StateChange(change), reason=reason, actor=actor)

    async def admit(self, name: str = "job") -> Admitted:
        """Admit the next instant of a job on this node."""
        if not self.node:
            register = RegisterNode(name="node-a", incarnation=self.request(), now_us=self.clock.us, slots=8)
            self.node = await self.store.apply(register)
        job = await self.jobs.get(name)
        assert job.next_us is not None
        self.clock.us = max(self.clock.us, job.next_us)
        row = admit_row(job)
        command = Admit(rows=(row,), node=self.node, now_us=self.clock.us, request=self.request())
        [admitted] = await self.store.apply(command)
        return admitted

    async def claim(self) -> list[Claimed]:
        """Claim the ready executions."""
        if not self.node:
            register = RegisterNode(name="node-a", incarnation=self.request(), now_us=self.clock.us, slots=8)
            self.node = await self.store.apply(register)
        lanes = tuple(await self.store.lanes())
        command = Claim(lanes=lanes, limit=100, node=self.node, now_us=self.clock.us, request=self.request())
        return await self.store.apply(command)

    async def settle(self, run: Admitted | Claimed, status: Status = Status.SUCCEEDED, **options: Any) -> None:
        """Settle an execution."""
        code = ReasonCode.SUCCEEDED if status is Status.SUCCEEDED else ReasonCode.TASK_FAILED
        row = SettleRow(run.id, run.job, run.token, status, code, None, self.clock.us, **options)
        await self.store.apply(Settle(rows=(row,), node=self.node, now_us=self.clock.us))


def shape(name: str = "job", **fields: Any) -> dict[str, Any]:
    """A job shape, with a command unless ``fields`` has a target."""
    job = {"name": name, "schedule": "0 * * * *", **fields}
    if not {"tasks", "http", "webhook", "python", "command", "job_type"} & job.keys():
        job["command"] = {"argv": ["true"]}
    return job


def admit_row(job: Job) -> AdmitRow:
    """The row that admits the instant at a job's cursor."""
    instants = resolve_instants(job.spec, job.name)
    assert instants is not None
    assert job.next_us is not None
    next_us = instants.next_us(job.next_us)
    execution = scheduled_execution_id(job.id, job.next_us)
    return AdmitRow(job.id, job.version, job.next_us, next_us, execution, job.next_us, claim=True)


def in_world(case: Callable[[World], Awaitable[None]], **options: Any) -> None:
    """Run a test case on a new store."""

    async def main() -> None:
        world = World(**options)
        await world.store.open()
        try:
            await case(world)
        finally:
            await world.store.close()

    asyncio.run(main())
