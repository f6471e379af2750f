"""OneOffRuns: runs work that has no job of its own, once per request.

The history and the gate of a run belong to a job, so equal work shares one. It has no schedule, its runs may overlap,
and its name contains a hash of its definition. It is done from the start, so that retention removes it after the last
of its runs.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

import msgspec
from msgspec.structs import replace

from chronos.clock import Clock
from chronos.core.config import Overlap
from chronos.core.job import ONE_OFF_TAG, Job, JobState
from chronos.core.node import Actor
from chronos.errors import NotFound
from chronos.service.executions import ExecutionService
from chronos.service.jobs import JobService
from chronos.service.run_requests import to_stored_payload, to_stored_reason
from chronos.service.save_jobs import JobSaver
from chronos.service.serializers import Draft, id_text
from chronos.service.serializers.schedule import MANUAL
from chronos.service.start_times import choose_start_times
from chronos.store.commands import SYSTEM, Triggered

#: The settings of a job that make sense for a single run.
SETTINGS = frozenset(
    ("queue", "priority", "placement", "concurrency", "delivery", "execution_timeout", "task_timeout", "timeout")
) | {"timeout_secs", "retry", "retry_policy", "max_retries"}
_NAME_DIGITS = 16  # of the hash, in hex
_DESCRIPTION = "Runs work that has no job of its own; retention removes it after its last run."
_MAX_RACES = 5  # lost against retention or a user who deletes the job


@dataclass(frozen=True, slots=True, kw_only=True)
class OneOffRun:
    """A requested run, and the job that has its history."""

    job: Job
    triggered: Triggered


class OneOffRuns:
    """Runs work without a job of its own."""

    def __init__(self, clock: Clock, jobs: JobService, saver: JobSaver, runs: ExecutionService) -> None:
        self._clock, self._jobs, self._saver, self._runs = clock, jobs, saver, runs

    def read(self, work: Mapping[str, Any], *, namespace: str) -> Draft:
        """Return the job of some work: one target, and ``SETTINGS``. Raises ``InvalidJob``."""
        shape = {
            "name": ONE_OFF_TAG,
            "schedule": MANUAL,
            "overlap": Overlap.ALLOW.value,
            "description": _DESCRIPTION,
            **work,
        }
        draft = self._jobs.read(shape, namespace=namespace)
        kind = draft.spec.tasks[0].target.kind
        digest = sha256(msgspec.json.encode(draft.spec, order="sorted")).hexdigest()[:_NAME_DIGITS]
        return replace(
            draft,
            name=f"{ONE_OFF_TAG}-{kind}-{digest}",
            spec=replace(draft.spec, tags={ONE_OFF_TAG: kind}),
            state=JobState.DONE,
            manual=False,
        )

    async def run(
        self,
        draft: Draft,
        payload: Any = None,
        *,
        at_us: int | None = None,
        delay: str | None = None,
        expires: str | None = None,
        reason: str | None = None,
        to_idempotency: Callable[[Job], str | None] = lambda job: None,
        actor: Actor = SYSTEM,
    ) -> OneOffRun:
        """Run the work of a draft once. The other arguments are those of ``ExecutionService.trigger``.

        ``to_idempotency`` returns the idempotency key for the job that the run gets. Raises ``Invalid`` before
        anything is written, ``QueueFull``.
        """
        self.check(payload, at_us=at_us, delay=delay, expires=expires, reason=reason)
        for race in range(_MAX_RACES):
            [saved] = await self._saver.save([draft], actor=actor)
            try:
                job = saved.job or await self._jobs.get(id_text(saved.job_id))
                triggered = await self._runs.trigger(
                    job,
                    payload,
                    at_us=at_us,
                    delay=delay,
                    expires=expires,
                    reason=reason,
                    idempotency=to_idempotency(job),
                    actor=actor,
                )
            except NotFound:  # the job was deleted meanwhile
                if race == _MAX_RACES - 1:
                    raise
                continue
            return OneOffRun(job=job, triggered=triggered)
        raise AssertionError("the last race is won or raised")

    def check(
        self,
        payload: Any,
        *,
        at_us: int | None = None,
        delay: str | None = None,
        expires: str | None = None,
        reason: str | None = None,
    ) -> None:
        """Raise ``Invalid`` for arguments that ``run`` would reject."""
        to_stored_payload(payload)
        to_stored_reason(reason)
        choose_start_times(self._clock.now_us(), at_us=at_us, delay=delay, expires=expires)
