"""BulkActions: applies one action to many jobs.

Jobs are processed in batches of 500, so urgent work waits for one batch at most. Each job succeeds or fails on its own;
a job that changed after it was selected fails with Conflict.
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from chronos.clock import Clock
from chronos.core.job import Job
from chronos.core.node import Actor
from chronos.errors import ChronosError, Conflict, NotFound
from chronos.service.executions import ExecutionService
from chronos.service.job_state import JobStates, StateChange
from chronos.service.run_requests import PlainPayload, to_stored_payload
from chronos.store.commands import DeleteRow, SaveJobs
from chronos.store.contract import Store

MAX_JOBS = 5_000  # per request
_JOBS_PER_BATCH = 500
_DELETES_PER_COMMAND = 20  # each deleted job still gets its own line in the audit log


class Action(StrEnum):
    """An action on many jobs."""

    PAUSE = "pause"
    RESUME = "resume"
    ENABLE = "enable"
    DISABLE = "disable"
    TRIGGER = "trigger"
    DELETE = "delete"


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionResult:
    """The result of an action for one job."""

    job: Job
    changed: bool = True  # False: the job was already in that state
    execution: bytes | None = None
    error: ChronosError | None = None


class BulkActions:
    """Applies one action to many jobs."""

    def __init__(self, store: Store, clock: Clock, runs: ExecutionService, states: JobStates) -> None:
        self._store, self._clock, self._runs, self._states = store, clock, runs, states

    async def act(
        self,
        action: Action,
        jobs: Sequence[Job],
        *,
        actor: Actor,
        reason: str | None = None,
        payload: Any = None,
        key: Callable[[Job], str | None] = lambda _: None,
        dry_run: bool = False,
    ) -> list[ActionResult]:
        """Apply an action to each job; returns the results in the same order. A dry run returns what would happen.

        Raises ``Invalid`` for an invalid payload.
        """
        plain_payload = PlainPayload(to_stored_payload(payload))

        async def act_on(job: Job) -> ActionResult:
            try:
                if action is not Action.TRIGGER:
                    change = StateChange(action.value)
                    changed = await self._states.change(job, change, reason=reason or "", actor=actor, dry_run=dry_run)
                    return ActionResult(job=job, changed=changed is not job)
                if dry_run:
                    return ActionResult(job=job)
                triggered = await self._runs.trigger(
                    job, plain_payload, reason=reason, idempotency=key(job), actor=actor
                )
                return ActionResult(job=job, changed=triggered.created, execution=triggered.id)
            except ChronosError as error:
                return ActionResult(job=job, error=error)

        results: list[ActionResult] = []
        for start in range(0, len(jobs), _JOBS_PER_BATCH):
            batch = jobs[start : start + _JOBS_PER_BATCH]
            if action is Action.DELETE:
                groups = [
                    batch[first : first + _DELETES_PER_COMMAND] for first in range(0, len(batch), _DELETES_PER_COMMAND)
                ]
                results += (
                    await self._delete(groups, actor) if not dry_run else [ActionResult(job=job) for job in batch]
                )
                continue
            if action is Action.TRIGGER and not dry_run:
                await self._runs.backpressure.refresh()
            results += await asyncio.gather(*map(act_on, batch))
        return results

    async def _delete(self, groups: Sequence[Sequence[Job]], actor: Actor) -> list[ActionResult]:
        results_by_group = await asyncio.gather(*(self._delete_group(group, actor) for group in groups))
        return [result for results in results_by_group for result in results]

    async def _delete_group(self, jobs: Sequence[Job], actor: Actor) -> list[ActionResult]:
        """Delete the jobs in one command, or each in its own command if one of them has changed."""
        delete = tuple(DeleteRow(job.id, job.version) for job in jobs)
        try:
            await self._store.apply(SaveJobs(rows=(), delete=delete, now_us=self._clock.now_us(), actor=actor))
        except ChronosError as error:
            if len(jobs) > 1 and isinstance(error, Conflict | NotFound):
                return await self._delete([[job] for job in jobs], actor)
            return [ActionResult(job=job, error=error) for job in jobs]
        return [ActionResult(job=job) for job in jobs]
