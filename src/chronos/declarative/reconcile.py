"""Registrations brought together with what is stored: new, preserved, overridden and orphaned tasks, and what to write.

Pure: it decides, the scheduler writes. A task that has run before goes on after its last attempt, under the new
expression if that is another one: whatever matched since was missed, and is made up for by one run. A task that has
never run is as on its first day: only the current minute counts.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from enum import Enum

from msgspec.structs import replace as changed

from chronos.core.config import MINUTE_US
from chronos.core.execution import Span, Status
from chronos.core.ids import span_id
from chronos.core.job import Job, JobSpec, JobState
from chronos.core.node import Actor
from chronos.core.reasons import Reason, ReasonCode
from chronos.core.schedule.occurrences import count_instants
from chronos.core.schedule.schedule import Schedule
from chronos.declarative.posix_cron import first_occurrence_us, schedule_of
from chronos.declarative.registration import Registration
from chronos.declarative.task_jobs import NAMESPACE, gate_of, is_task, job_spec, persisted
from chronos.store.commands import NEW, DeleteRow, JobRow, Saved, SaveJobs, SetJobState

ACTOR = Actor(name=NAMESPACE)
UNREGISTERED = "Not registered: kept, and not run."  # the description of such a task
_STEPS = 20_000
_NEVER_RAN = "The task had never run before, so what it missed is not made up for."


class ResolutionKind(Enum):
    """What a registered task is to the stored state."""

    NEW = "new"
    PRESERVED = "preserved"
    OVERRIDDEN = "overridden"
    ORPHANED = "orphaned"


@dataclass(frozen=True, slots=True, kw_only=True)
class DesiredTask:
    """A registration made ready to be stored."""

    registration: Registration
    spec: JobSpec
    schedule: Schedule
    first_us: int  # the current minute, if it matches, or the next that does


@dataclass(frozen=True, slots=True, kw_only=True)
class Resolution:
    """What is to be written, and what each task is."""

    kinds: Mapping[str, ResolutionKind]
    unregistered: tuple[str, ...]
    save: SaveJobs | None
    changes: tuple[SetJobState, ...]


def wanted(registrations: Iterable[Registration], zone: str, now_us: int) -> list[DesiredTask]:
    """What registrations ask for. Raises ``CronCalculationError``.

    A job does not say its name itself, so tasks of one expression and one delay have the same, worked out once.
    """
    known: dict[tuple[str, int], tuple[JobSpec, Schedule, int]] = {}
    wants: list[DesiredTask] = []
    for registration in registrations:
        key = (registration.expression, registration.retry_delay_us)
        if key not in known:
            spec = job_spec(registration, zone)
            assert spec.schedule is not None
            schedule = schedule_of(spec.schedule)
            known[key] = spec, schedule, first_occurrence_us(schedule, now_us, registration.expression)
        spec, schedule, first_us = known[key]
        wants.append(DesiredTask(registration=registration, spec=spec, schedule=schedule, first_us=first_us))
    return wants


def in_question(want: DesiredTask, job: Job, now_us: int) -> bool:
    """Whether it depends on the task's records where it stands: its schedule changes, or it may never have run.

    A cursor moves when an occurrence is admitted, so one behind the first after the last change has been.
    """
    if want.spec.schedule != job.spec.schedule:
        return True
    if job.next_us is None or job.next_us > now_us - MINUTE_US:
        return False
    first_us = want.schedule.next_us(job.updated_us - MINUTE_US)
    return first_us is None or job.next_us <= first_us


def resolve(
    wants: Collection[DesiredTask],
    jobs: Mapping[str, Job],
    orphans: Collection[bytes],
    attempts: Mapping[str, int | None],
    now_us: int,
) -> Resolution:
    """Decide about every task. Raises ``TaskTryDeserializeError``.

    ``attempts`` says of those whose records were in question when they were last called; None: never.
    """
    kinds: dict[str, ResolutionKind] = {}
    rows: list[JobRow] = []
    changes: list[SetJobState] = []
    for want in wants:
        name = want.registration.name
        job = jobs.get(name)
        same = job is not None and job.spec == want.spec
        kinds[name] = ResolutionKind.NEW if job is None else _kind(want, job, orphans, same=same)
        if job is None or not same:
            rows.append(_row(want, job, attempts, now_us))
        elif change := _change(want, job, attempts, now_us):
            changes.append(change)
    left = [job for name, job in jobs.items() if name not in kinds and is_task(job)]
    rows += [_left_alone(job) for job in left if job.state is JobState.ACTIVE]
    return Resolution(
        kinds=kinds,
        unregistered=tuple(job.name for job in left),
        save=SaveJobs(rows=tuple(rows), now_us=now_us, actor=ACTOR) if rows else None,
        changes=tuple(changes),
    )


def undo_changes(changes: Iterable[SetJobState], jobs: Mapping[str, Job], now_us: int) -> list[SetJobState]:
    """What sets jobs back to how they were before these changes."""
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
    """What takes a save back: old definitions and cursors, and nothing of what is new."""
    rows = tuple(
        JobRow(
            namespace=NAMESPACE,
            name=job.name,
            spec=job.spec,
            gate=gate_of(job.spec),
            next_us=job.next_us,
            state=job.state,
        )
        for row in save.rows
        if (job := jobs.get(row.name)) is not None
    )
    new = tuple(DeleteRow(one.id) for one in saved if one.created)
    return SaveJobs(rows=rows, now_us=now_us, actor=ACTOR, delete=new)


def _kind(want: DesiredTask, job: Job, orphans: Collection[bytes], *, same: bool) -> ResolutionKind:
    """``same``: what is stored says the same to the letter, so there is no need to read it."""
    if not same:
        old, new = persisted(job), want.registration
        same = (old.cron_expression, old.retry_delay_us) == (new.expression, new.retry_delay_us)
    if job.id in orphans:
        return ResolutionKind.ORPHANED
    return ResolutionKind.PRESERVED if same else ResolutionKind.OVERRIDDEN


def _row(want: DesiredTask, job: Job | None, attempts: Mapping[str, int | None], now_us: int) -> JobRow:
    return JobRow(
        namespace=NAMESPACE,
        name=want.registration.name,
        spec=want.spec,
        gate=gate_of(want.spec),
        next_us=want.first_us if job is None else _cursor_us(want, job, attempts, now_us),
        state=JobState.ACTIVE if job is None or _was_left_alone(job) else job.state,
        expect=NEW if job is None else job.version,
    )


def _cursor_us(want: DesiredTask, job: Job, attempts: Mapping[str, int | None], now_us: int) -> int | None:
    """Where a task goes on whose definition changes."""
    if _never_ran(job, attempts, now_us):
        return want.first_us
    if want.spec.schedule == job.spec.schedule:
        return job.next_us
    last_us = attempts.get(job.name)
    return want.first_us if last_us is None else want.schedule.next_us(last_us)


def _change(want: DesiredTask, job: Job, attempts: Mapping[str, int | None], now_us: int) -> SetJobState | None:
    """What a task needs whose definition is as it was: nothing, or to let go of what it missed before its first run.

    What somebody paused or disabled by hand stays so.
    """
    if job.next_us is None or job.state is not JobState.ACTIVE or not _never_ran(job, attempts, now_us):
        return None
    return SetJobState(
        job=job.id,
        state=JobState.ACTIVE,
        now_us=now_us,
        next_us=want.first_us,
        spans=(_not_made_up(want, job, job.next_us, now_us),),
        actor=ACTOR,
    )


def _never_ran(job: Job, attempts: Mapping[str, int | None], now_us: int) -> bool:
    """Whether occurrences passed of a task that was never called."""
    passed = job.next_us is not None and job.next_us <= now_us - MINUTE_US
    return passed and job.name in attempts and attempts[job.name] is None


def _not_made_up(want: DesiredTask, job: Job, from_us: int, now_us: int) -> Span:
    found = count_instants(want.schedule, from_us, want.first_us - 1, _STEPS)
    return Span(
        id=span_id(job.id, from_us, int(Status.MISSED)),
        job=job.id,
        status=Status.MISSED,
        from_us=from_us,
        to_us=found.last_us,
        count=found.count,
        reason=Reason.of(ReasonCode.OUTSIDE_RECOVERY, _NEVER_RAN),
        recorded_us=now_us,
    )


def _left_alone(job: Job) -> JobRow:
    """A task that is not registered is kept, and not run."""
    return JobRow(
        namespace=NAMESPACE,
        name=job.name,
        spec=changed(job.spec, description=UNREGISTERED),
        gate=gate_of(job.spec),
        next_us=job.next_us,
        state=JobState.DISABLED,
        expect=job.version,
    )


def _was_left_alone(job: Job) -> bool:
    return job.state is JobState.DISABLED and job.spec.description == UNREGISTERED
