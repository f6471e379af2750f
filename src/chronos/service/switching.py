"""Switching a job: pause and resume, disable and enable. Each is written against what it was decided for: the version
and the state that the job was in. Who does what somebody else has just done changes nothing.
"""

from dataclasses import replace
from typing import Any

from chronos.clock import Clock
from chronos.core.inforce import instants_of
from chronos.core.job import Job, JobState
from chronos.core.node import Actor
from chronos.core.planner import resume
from chronos.errors import Conflict, Invalid, NotFound
from chronos.service.saving import restart_us
from chronos.service.shapes import has_run_at_once
from chronos.store.commands import Command, SetJobState
from chronos.store.contract import Store

MAX_NOTE = 1_000


class Unwritten:
    """Where the changes of a dry run go, instead of to the store."""

    async def apply(self, command: Command[Any]) -> Any:
        """Nowhere; it is answered as if it had been done."""
        return True


class Switch:
    """Changes the state of jobs; answers the job as it is then."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store, self._clock = store, clock

    async def pause(self, job: Job, *, reason: str, actor: Actor) -> Job:
        """Hold what is ready and queued, and let instants pass. Pausing again changes the reason only."""
        if len(reason) > MAX_NOTE:
            raise Invalid(f"the reason has {len(reason)} characters, allowed {MAX_NOTE}")
        if job.state is JobState.PAUSED and job.note == reason:
            return job
        self._refuse(job, "pause", JobState.DISABLED, JobState.DONE)
        return await self._set(job, JobState.PAUSED, actor=actor, note=reason, keep_cursor=True)

    async def resume(self, job: Job, *, actor: Actor) -> Job:
        """Go on; what passed meanwhile is recorded as one skipped span."""
        if job.state is JobState.ACTIVE:
            return job
        self._refuse(job, "resume", JobState.DISABLED, JobState.DONE)
        now_us = self._clock.now_us()
        instants = instants_of(job.spec, job.name)
        if instants is None:
            return await self._set(job, JobState.ACTIVE, actor=actor)
        went_on = resume(job=job.id, instants=instants, next_us=job.next_us, now_us=now_us)
        state = JobState.DONE if went_on.next_us is None else JobState.ACTIVE
        command = SetJobState(
            job=job.id,
            state=state,
            now_us=now_us,
            next_us=went_on.next_us,
            spans=went_on.spans,
            expect=job.version,
            was=job.state,
            actor=actor,
        )
        went = replace(job, state=state, next_us=went_on.next_us, updated_us=now_us, paused_us=None, note="")
        return await self._send(command, went)

    async def disable(self, job: Job, *, reason: str, actor: Actor) -> Job:
        """No instants at all, until it is enabled. A job that was to run once, and did, stays done."""
        if (job.state is JobState.DISABLED and job.note == reason) or has_run_at_once(job):
            return job
        return await self._set(job, JobState.DISABLED, actor=actor, note=reason)

    async def enable(self, job: Job, *, actor: Actor) -> Job:
        """From now on. A job that is paused stays so; one whose only instant passed, or that ran once, is done."""
        if job.state in (JobState.ACTIVE, JobState.PAUSED) or has_run_at_once(job):
            return job
        next_us = restart_us(job.spec, job.name, self._clock.now_us())
        state = JobState.DONE if job.spec.schedule is not None and next_us is None else JobState.ACTIVE
        return await self._set(job, state, actor=actor, next_us=next_us)

    async def _set(
        self,
        job: Job,
        state: JobState,
        *,
        actor: Actor,
        next_us: int | None = None,
        note: str = "",
        keep_cursor: bool = False,
    ) -> Job:
        now_us = self._clock.now_us()
        command = SetJobState(
            job=job.id,
            state=state,
            now_us=now_us,
            next_us=next_us,
            keep_cursor=keep_cursor,
            note=note,
            expect=job.version,
            was=job.state,
            actor=actor,
        )
        switched = replace(
            job,
            state=state,
            next_us=job.next_us if keep_cursor else next_us,
            updated_us=now_us,
            paused_us=now_us if state is JobState.PAUSED else None,
            note=note,
        )
        return await self._send(command, switched)

    async def _send(self, command: SetJobState, switched: Job) -> Job:
        """The job as it then is: ``switched``, or what somebody else who was faster has made of it."""
        if await self._store.apply(command):
            return switched
        there = (await self._store.jobs_by_id([command.job])).get(command.job)
        if there is None:
            raise NotFound(f'the job "{switched.name}" does not exist any more')
        return there

    def _refuse(self, job: Job, verb: str, *states: JobState) -> None:
        if job.state in states:
            hint = "enable it first" if job.state is JobState.DISABLED else "it has no instants to come"
            raise Conflict(f'cannot {verb} "{job.name}", which is {job.state.name.lower()}; {hint}')
