"""Pauses, resumes, disables and enables jobs.

Each change is a compare-and-set on the version and state that it was decided from. Repeating a change that someone else
has just made is a no-op.
"""

from dataclasses import replace
from enum import StrEnum
from functools import partial
from typing import assert_never

from chronos.clock import Clock
from chronos.core.job import Job, JobState
from chronos.core.node import Actor
from chronos.core.planner import resume_job
from chronos.core.schedule_change import resolve_instants
from chronos.errors import Conflict, Invalid, NotFound
from chronos.service.save_plan import restart_us
from chronos.service.serializers import is_done_after_one_run
from chronos.store.commands import SYSTEM, SetJobState
from chronos.store.contract import Store

MAX_NOTE = 1_000


class StateChange(StrEnum):
    """A change of a job's state."""

    PAUSE = "pause"
    RESUME = "resume"
    ENABLE = "enable"
    DISABLE = "disable"


class JobStates:
    """Changes the state of jobs."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store, self._clock = store, clock

    async def change(
        self, job: Job, change: StateChange, *, reason: str = "", actor: Actor = SYSTEM, dry_run: bool = False
    ) -> Job:
        """Change the state of a job. ``reason`` applies to pause and disable. A dry run stops after the plan.

        - Returns the job after the change, or as a faster client left it.
        - Returns the same object if there is nothing to change.
        - Raises ``Conflict``, ``Invalid``, ``NotFound``.
        """
        command = plan(job, change, reason=reason, actor=actor, now_us=self._clock.now_us())
        if command is None:
            return job
        if dry_run or await self._store.apply(command):
            return _apply_change(job, command)
        current = (await self._store.jobs_by_id([job.id])).get(job.id)
        if current is None:
            raise NotFound(f'the job "{job.name}" was deleted')
        return current


def plan(job: Job, change: StateChange, *, reason: str, actor: Actor, now_us: int) -> SetJobState | None:
    """Return the command for a state change, or None if there is nothing to change."""
    command = partial(SetJobState, job=job.id, now_us=now_us, expect=job.version, expect_state=job.state, actor=actor)
    match change:
        case StateChange.PAUSE:  # holds ready and queued executions; instants pass without running
            if len(reason) > MAX_NOTE:
                raise Invalid(f"the reason has {len(reason)} characters, allowed {MAX_NOTE}")
            if job.state is JobState.PAUSED and job.note == reason:
                return None
            _require_switchable(job, "pause")
            return command(state=JobState.PAUSED, note=reason, keep_cursor=True)
        case StateChange.RESUME:  # records the instants that passed as one skipped span
            if job.state is JobState.ACTIVE:
                return None
            _require_switchable(job, "resume")
            instants = resolve_instants(job.spec, job.name)
            if instants is None:
                return command(state=JobState.ACTIVE)
            resumed = resume_job(job=job.id, instants=instants, next_us=job.next_us, now_us=now_us)
            state = JobState.DONE if resumed.next_us is None else JobState.ACTIVE
            return command(state=state, next_us=resumed.next_us, spans=resumed.spans)
        case StateChange.DISABLE:  # removes the next instant; a job that ran once stays done
            if (job.state is JobState.DISABLED and job.note == reason) or is_done_after_one_run(job):
                return None
            return command(state=JobState.DISABLED, note=reason)
        case StateChange.ENABLE:  # counts from now; a paused job stays paused, one whose only instant passed is done
            if job.state in (JobState.ACTIVE, JobState.PAUSED) or is_done_after_one_run(job):
                return None
            next_us = restart_us(job.spec, job.name, now_us)
            state = JobState.DONE if job.spec.schedule is not None and next_us is None else JobState.ACTIVE
            return command(state=state, next_us=next_us)
        case _:
            assert_never(change)


def _apply_change(job: Job, command: SetJobState) -> Job:
    """Return the job as it is after the command."""
    return replace(
        job,
        state=command.state,
        next_us=job.next_us if command.keep_cursor else command.next_us,
        updated_us=command.now_us,
        paused_us=command.now_us if command.state is JobState.PAUSED else None,
        note=command.note,
    )


def _require_switchable(job: Job, verb: str) -> None:
    if job.state in (JobState.DISABLED, JobState.DONE):
        hint = "enable it first" if job.state is JobState.DISABLED else "it has no more scheduled times"
        raise Conflict(f'cannot {verb} "{job.name}", which is {job.state.name.lower()}; {hint}')
