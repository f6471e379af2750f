"""The same done to many jobs: each for itself, and a transaction's worth of them at a time.

What is sent together is committed together, and whatever else is urgent waits for no more than one batch. A job that
changed since it was chosen is left alone, and said to have failed: it may not be what was meant any more.
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, assert_never, cast

from chronos.clock import Clock
from chronos.core.job import Job
from chronos.core.node import Actor
from chronos.errors import ChronosError, Conflict, NotFound
from chronos.service.asking import Plain, checked_payload
from chronos.service.runs import Runs
from chronos.service.switching import Switch, Unwritten
from chronos.store.commands import DeleteRow, SaveJobs
from chronos.store.contract import Store

MAX_ACTED = 5_000  # jobs of one request
_AT_ONCE = 500
_IN_ONE = 20  # jobs that one command deletes: each still has a line of its own in the audit log


class Action(StrEnum):
    """What can be done to many jobs."""

    PAUSE = "pause"
    RESUME = "resume"
    ENABLE = "enable"
    DISABLE = "disable"
    TRIGGER = "trigger"
    DELETE = "delete"


@dataclass(frozen=True, slots=True, kw_only=True)
class Acted:
    """What became of it, for one job."""

    job: Job
    changed: bool = True  # False: it was so already
    execution: bytes | None = None
    error: ChronosError | None = None


class Acting:
    """Does one thing to many jobs."""

    def __init__(self, store: Store, clock: Clock, runs: Runs, *, actor: Actor, dry_run: bool = False) -> None:
        self._store = cast(Store, Unwritten()) if dry_run else store
        self._clock, self._runs, self._actor, self._dry_run = clock, runs, actor, dry_run
        self._switch = Switch(self._store, clock)

    async def act(
        self,
        action: Action,
        jobs: Sequence[Job],
        *,
        reason: str | None = None,
        payload: Any = None,
        key: Callable[[Job], str | None] = lambda _: None,
    ) -> list[Acted]:
        """What became of each, in order. Raises ``Invalid`` for a payload that no run could be given."""
        payload = checked_payload(payload)
        acted: list[Acted] = []
        for begin in range(0, len(jobs), _AT_ONCE):
            some = jobs[begin : begin + _AT_ONCE]
            if action is Action.DELETE:
                groups = (some[first : first + _IN_ONE] for first in range(0, len(some), _IN_ONE))
                acted += _flat(await asyncio.gather(*map(self._delete, groups)))
                continue
            if action is Action.TRIGGER and not self._dry_run:
                await self._runs.room.count()
            acted += await asyncio.gather(*(self._one(action, job, reason, payload, key(job)) for job in some))
        return acted

    async def _one(self, action: Action, job: Job, reason: str | None, payload: Any, key: str | None) -> Acted:
        try:
            if action is Action.TRIGGER:
                return await self._trigger(job, reason, payload, key)
            return Acted(job=job, changed=await self._switched(action, job, reason or ""))
        except ChronosError as error:
            return Acted(job=job, error=error)

    async def _trigger(self, job: Job, reason: str | None, payload: Any, key: str | None) -> Acted:
        if self._dry_run:
            return Acted(job=job)
        asked = await self._runs.trigger(job, Plain(payload), reason=reason, idempotency=key, actor=self._actor)
        return Acted(job=job, changed=asked.created, execution=asked.id)

    async def _switched(self, action: Action, job: Job, reason: str) -> bool:
        """Whether it changed anything."""
        switch, actor = self._switch, self._actor
        match action:
            case Action.PAUSE:
                return await switch.pause(job, reason=reason, actor=actor) is not job
            case Action.RESUME:
                return await switch.resume(job, actor=actor) is not job
            case Action.ENABLE:
                return await switch.enable(job, actor=actor) is not job
            case Action.DISABLE:
                return await switch.disable(job, reason=reason, actor=actor) is not job
            case Action.TRIGGER | Action.DELETE:
                raise AssertionError("no switch")
            case _:
                assert_never(action)

    async def _delete(self, jobs: Sequence[Job]) -> list[Acted]:
        """In one command; should one of them not be as it was any more, each in its own."""
        delete = tuple(DeleteRow(job.id, job.version) for job in jobs)
        try:
            await self._store.apply(SaveJobs(rows=(), delete=delete, now_us=self._clock.now_us(), actor=self._actor))
        except ChronosError as error:
            if len(jobs) > 1 and isinstance(error, Conflict | NotFound):
                return _flat(await asyncio.gather(*(self._delete([job]) for job in jobs)))
            return [Acted(job=job, error=error) for job in jobs]
        return [Acted(job=job) for job in jobs]


def _flat(groups: Sequence[list[Acted]]) -> list[Acted]:
    return [one for group in groups for one in group]
