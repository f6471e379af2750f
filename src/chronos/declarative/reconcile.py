"""Compares registrations with the stored tasks, and decides what to write.

Pure functions: the scheduler writes what they return. A task that has run before continues after its last attempt, with
the new expression if it changed: one run makes up for all matches since then. A task that never ran is treated as new:
only the current minute counts.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from enum import Enum

from msgspec.structs import replace

from chronos.core.config import MINUTE_US
from chronos.core.execution import Span, Status
from chronos.core.ids import span_id
from chronos.core.job import Job, JobSpec, JobState
from chronos.core.node import Actor
from chronos.core.reasons import Reason, ReasonCode
from chronos.core.schedule.occurrences import count_instants
from chronos.core.schedule.schedule import Schedule
from chronos.declarative.posix_cron import find_first_occurrence_us, parse_schedule_spec
from chronos.declarative.registration import Registration
from chronos.declarative.task_jobs import NAMESPACE, is_task, read_task_state, to_gate_spec, to_job_spec
from chronos.store.commands import NEW, DeleteRow, JobRow, Saved, SaveJobs, SetJobState

ACTOR = Actor(name=NAMESPACE)
UNREGISTERED = "Not registered: kept, and not run."  # persisted as the description of such a task
_MAX_COUNT_STEPS = 20_000
_NEVER_RAN = "The task had never run before, so what it missed is not made up for."


class ResolutionKind(Enum):
    """How a registered task relates to the stored state."""

    NEW = "new"
    PRESERVED = "preserved"
    OVERRIDDEN = "overridden"
    ORPHANED = "orphaned"


@dataclass(frozen=True, slots=True, kw_only=True)
class DesiredTask:
    """A registered task as it should be stored."""

    registration: Registration
    spec: JobSpec
    schedule: Schedule
    first_us: int  # the current minute if it matches, otherwise the next match


@dataclass(frozen=True, slots=True, kw_only=True)
class Resolution:
    """The classification of every task, and the commands to apply."""

    kinds: Mapping[str, ResolutionKind]
    unregistered: tuple[str, ...]
    save: SaveJobs | None
    changes: tuple[SetJobState, ...]


def to_desired_tasks(registrations: Iterable[Registration], zone: str, now_us: int) -> list[DesiredTask]:
    """Turn registrations into desired tasks. Raises ``CronCalculationError``.

    Tasks with the same expression and delay share one job definition, since it does not contain the name.
    """
    known: dict[tuple[str, int], tuple[JobSpec, Schedule, int]] = {}
    desired_tasks: list[DesiredTask] = []
    for registration in registrations:
        key = (registration.expression, registration.retry_delay_us)
        if key not in known:
            spec = to_job_spec(registration, zone)
            assert spec.schedule is not None
            schedule = parse_schedule_spec(spec.schedule)
            known[key] = spec, schedule, find_first_occurrence_us(schedule, now_us, registration.expression)
        spec, schedule, first_us = known[key]
        desired_tasks.append(DesiredTask(registration=registration, spec=spec, schedule=schedule, first_us=first_us))
    return desired_tasks


def needs_last_attempt(desired: DesiredTask, job: Job, now_us: int) -> bool:
    """Whether the decision needs the task's last attempt: its schedule changes, or it may never have run.

    The cursor moves when an occurrence is admitted. So a cursor after the first occurrence since the last change means
    that the task has run.
    """
    if desired.spec.schedule != job.spec.schedule:
        return True
    if job.next_us is None or job.next_us > now_us - MINUTE_US:
        return False
    first_us = desired.schedule.next_us(job.updated_us - MINUTE_US)
    return first_us is None or job.next_us <= first_us


def resolve(
    desired_tasks: Collection[DesiredTask],
    jobs: Mapping[str, Job],
    orphans: Collection[bytes],
    attempts: Mapping[str, int | None],
    now_us: int,
) -> Resolution:
    """Classify every task and decide what to write. Raises ``TaskTryDeserializeError``.

    ``attempts`` has the last attempt of each task for which ``needs_last_attempt`` is true; None: never called.
    """
    kinds: dict[str, ResolutionKind] = {}
    rows: list[JobRow] = []
    changes: list[SetJobState] = []
    for desired in desired_tasks:
        name = desired.registration.name
        job = jobs.get(name)
        same = job is not None and job.spec == desired.spec
        kinds[name] = ResolutionKind.NEW if job is None else _classify(desired, job, orphans, same=same)
        if job is None or not same:
            rows.append(_to_row(desired, job, attempts, now_us))
        elif change := _skip_missed(desired, job, attempts, now_us):
            changes.append(change)
    unregistered = [job for name, job in jobs.items() if name not in kinds and is_task(job)]
    rows += [_to_unregistered_row(job) for job in unregistered if job.state is JobState.ACTIVE]
    return Resolution(
        kinds=kinds,
        unregistered=tuple(job.name for job in unregistered),
        save=SaveJobs(rows=tuple(rows), now_us=now_us, actor=ACTOR) if rows else None,
        changes=tuple(changes),
    )


def undo_changes(changes: Iterable[SetJobState], jobs: Mapping[str, Job], now_us: int) -> list[SetJobState]:
    """The commands that restore the states before these changes."""
    before = {job.id: job for job in jobs.values()}
    return [
        SetJobState(
            job=change.job,
            state=before[change.job].state,
            now_us=now_us,
            next_us=before[change.job].next_us,
            note=before[change.job].note,
            actor=ACTOR,
        )
        for change in changes
    ]


def undo_save(save: SaveJobs, jobs: Mapping[str, Job], saved: Iterable[Saved], now_us: int) -> SaveJobs:
    """The command that undoes a save: it restores definitions and cursors, and deletes new jobs."""
    rows = tuple(
        JobRow(
            namespace=NAMESPACE,
            name=job.name,
            spec=job.spec,
            gate=to_gate_spec(job.spec),
            next_us=job.next_us,
            state=job.state,
        )
        for row in save.rows
        if (job := jobs.get(row.name)) is not None
    )
    new = tuple(DeleteRow(job.id) for job in saved if job.created)
    return SaveJobs(rows=rows, now_us=now_us, actor=ACTOR, delete=new)


def _classify(desired: DesiredTask, job: Job, orphans: Collection[bytes], *, same: bool) -> ResolutionKind:
    """Classify a stored task. With ``same``, its definition is equal, so it need not be read."""
    if not same:
        old, new = read_task_state(job), desired.registration
        same = (old.cron_expression, old.retry_delay_us) == (new.expression, new.retry_delay_us)
    if job.id in orphans:
        return ResolutionKind.ORPHANED
    return ResolutionKind.PRESERVED if same else ResolutionKind.OVERRIDDEN


def _to_row(desired: DesiredTask, job: Job | None, attempts: Mapping[str, int | None], now_us: int) -> JobRow:
    return JobRow(
        namespace=NAMESPACE,
        name=desired.registration.name,
        spec=desired.spec,
        gate=to_gate_spec(desired.spec),
        next_us=desired.first_us if job is None else _find_cursor_us(desired, job, attempts, now_us),
        state=JobState.ACTIVE if job is None or _was_unregistered(job) else job.state,
        expect=NEW if job is None else job.version,
    )


def _find_cursor_us(desired: DesiredTask, job: Job, attempts: Mapping[str, int | None], now_us: int) -> int | None:
    """Where a task with a changed definition continues."""
    if _never_ran(job, attempts, now_us):
        return desired.first_us
    if desired.spec.schedule == job.spec.schedule:
        return job.next_us
    last_us = attempts.get(job.name)
    return desired.first_us if last_us is None else desired.schedule.next_us(last_us)


def _skip_missed(desired: DesiredTask, job: Job, attempts: Mapping[str, int | None], now_us: int) -> SetJobState | None:
    """The command that skips the missed occurrences of an unchanged task that never ran, if it missed any.

    A task that was paused or disabled by hand stays so.
    """
    if job.next_us is None or job.state is not JobState.ACTIVE or not _never_ran(job, attempts, now_us):
        return None
    return SetJobState(
        job=job.id,
        state=JobState.ACTIVE,
        now_us=now_us,
        next_us=desired.first_us,
        spans=(_to_missed_span(desired, job, job.next_us, now_us),),
        actor=ACTOR,
    )


def _never_ran(job: Job, attempts: Mapping[str, int | None], now_us: int) -> bool:
    """Whether occurrences of a task passed, and it was never called."""
    passed = job.next_us is not None and job.next_us <= now_us - MINUTE_US
    return passed and job.name in attempts and attempts[job.name] is None


def _to_missed_span(desired: DesiredTask, job: Job, from_us: int, now_us: int) -> Span:
    missed = count_instants(desired.schedule, from_us, desired.first_us - 1, _MAX_COUNT_STEPS)
    return Span(
        id=span_id(job.id, from_us, int(Status.MISSED)),
        job=job.id,
        status=Status.MISSED,
        from_us=from_us,
        to_us=missed.last_us,
        count=missed.count,
        reason=Reason.of(ReasonCode.OUTSIDE_RECOVERY, _NEVER_RAN),
        recorded_us=now_us,
    )


def _to_unregistered_row(job: Job) -> JobRow:
    """The row that disables a task that is not registered."""
    return JobRow(
        namespace=NAMESPACE,
        name=job.name,
        spec=replace(job.spec, description=UNREGISTERED),
        gate=to_gate_spec(job.spec),
        next_us=job.next_us,
        state=JobState.DISABLED,
        expect=job.version,
    )


def _was_unregistered(job: Job) -> bool:
    return job.state is JobState.DISABLED and job.spec.description == UNREGISTERED
