"""Schedule changes: which upcoming runs change, and when the new schedule takes over.

::

    old   │   │   │   │   │          diff over a window: added, cancelled, kept
    new     │     │     │     │
          now  ▲     until           takeover: the old one is in force until ``until_us`` (included), then the new one

A dry run shows ``diff(old, takeover.instants, …)``: the upcoming runs as they will be.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import assert_never

from chronos.core.config import UpdatePolicy
from chronos.core.job import Job, JobSpec, JobState, OutgoingSchedule, ScheduleSpec, Unreadable, ensure_readable
from chronos.core.planner import activate_schedule
from chronos.core.schedule.occurrences import Instants, last_us, walk
from chronos.core.schedule.schedule import Schedule
from chronos.errors import Invalid, MissingSchedule, UnknownSchedule

MAX_LISTED = 100
MAX_COMPARED = 10_000  # instants of both schedules
MAX_WINDOW_COUNT = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ComingRuns:
    """The first few of many instants, and their number."""

    first_us: tuple[int, ...] = ()
    count: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleDiff:
    """How the runs of a window change. They were compared until ``until_us``."""

    added: ComingRuns
    cancelled: ComingRuns
    kept: ComingRuns
    until_us: int
    whole: bool  # False: there were too many runs to compare the whole window


@dataclass(frozen=True, slots=True, kw_only=True)
class Handover:
    """An old schedule until a given time, then a new one: the instants of a job during an update."""

    old: Instants
    new: Schedule | None
    until_us: int  # the end of the old schedule, included
    first_us: int | None  # the first instant of the new schedule; None: it has none

    @property
    def jitter_us(self) -> int:
        return max(self.old.jitter_us, 0 if self.new is None else self.new.jitter_us)

    def next_us(self, after_us: int) -> int | None:
        """Return the first instant after ``after_us``."""
        if after_us < self.until_us:
            next_us = self.old.next_us(after_us)
            if next_us is not None and next_us <= self.until_us:
                return next_us
        if self.new is None or self.first_us is None or after_us < self.first_us:
            return self.first_us
        return self.new.next_us(after_us)

    def count_us(self, after_us: int, until_us: int) -> int | None:
        """Count the instants t with after < t <= until; None if only a walk can count them."""
        old_count = self.old.count_us(after_us, min(until_us, self.until_us)) if after_us < self.until_us else 0
        if old_count is None or self.new is None or self.first_us is None or until_us < self.first_us:
            return old_count
        new_count = self.new.count_us(max(after_us, self.first_us - 1), until_us)
        return None if new_count is None else old_count + new_count

    def due_us(self, scheduled_us: int) -> int:
        """Return when an instant is due, by the schedule that it belongs to."""
        if self.new is None or self.first_us is None or scheduled_us < self.first_us:
            return self.old.due_us(scheduled_us)
        return self.new.due_us(scheduled_us)


@dataclass(frozen=True, slots=True, kw_only=True)
class ComingInstants:
    """The instants of a job from its cursor on. The cursor counts even if the schedule does not contain it.

    After a graceful update, for example, it is the last instant of the old schedule.
    """

    instants: Instants
    cursor_us: int

    @property
    def jitter_us(self) -> int:
        return self.instants.jitter_us

    def next_us(self, after_us: int) -> int | None:
        """Return the first instant after ``after_us``."""
        return self.cursor_us if after_us < self.cursor_us else self.instants.next_us(after_us)

    def count_us(self, after_us: int, until_us: int) -> int | None:
        """Count the instants t with after < t <= until; None if only a walk can count them."""
        if after_us >= self.cursor_us:
            return self.instants.count_us(after_us, until_us)
        if until_us < self.cursor_us:
            return 0
        count = self.instants.count_us(self.cursor_us, until_us)
        return None if count is None else count + 1

    def due_us(self, scheduled_us: int) -> int:
        """Return when the run of an instant is due."""
        return self.instants.due_us(scheduled_us)


@dataclass(frozen=True, slots=True, kw_only=True)
class Takeover:
    """The plan for replacing a schedule."""

    schedule: Schedule | None  # the new schedule, anchored, as it must be stored
    next_us: int | None  # the cursor to store with it
    until_us: int | None  # the end of the old schedule; None: it ends at once
    instants: Instants | None  # all instants from now on; None: the job has no schedule
    needs_old: bool  # the old schedule must be stored until ``until_us`` has passed, because the cursor is not enough


def diff(
    old: Instants | None,
    new: Instants | None,
    after_us: int,
    until_us: int,
    *,
    listed: int = MAX_LISTED,
    compared: int = MAX_COMPARED,
) -> ScheduleDiff:
    """Compare the instants t with after < t <= until: only in the new schedule, only in the old one, or in both."""
    first_us: dict[str, list[int]] = {"added": [], "cancelled": [], "kept": []}
    counts = dict.fromkeys(first_us, 0)
    reached_us, whole = until_us, True
    for index, (at_us, change) in enumerate(_merge_instants(old, new, after_us, until_us)):
        if index == compared:
            reached_us, whole = at_us - 1, False
            break
        counts[change] += 1
        if counts[change] <= listed:
            first_us[change].append(at_us)
    runs = {change: ComingRuns(first_us=tuple(first_us[change]), count=counts[change]) for change in first_us}
    return ScheduleDiff(until_us=reached_us, whole=whole, **runs)


def plan_takeover(
    policy: UpdatePolicy,
    *,
    old: Instants | None,
    new: Schedule | None,
    next_us: int | None,
    now_us: int,
    done_us: int | None = None,
    count: int | None = None,
    duration_us: int | None = None,
) -> Takeover:
    """Plan when a new schedule replaces the old one, whose cursor is ``next_us`` and latest record ``done_us``.

    * ``immediate``: now.
    * ``graceful``: after the old schedule's next instant.
    * ``windowed``: after ``count`` instants or after ``duration_us``, whichever comes first; without both, as
      ``graceful``.

    Under every policy, instants that are due and not recorded yet belong to the old schedule, so an update loses none.
    """
    until_us = None
    if old is not None and next_us is not None:
        until_us = _until_us(policy, old, next_us, now_us, count, duration_us)
    if old is None or next_us is None or until_us is None:
        return _activate_new(new, now_us, done_us)
    if next_us > until_us:  # the window contains no instant of the old schedule
        activated, cursor_us = _activate_new(new, until_us, done_us), None
    else:
        last_old_us = last_us(old, next_us, until_us)
        activated = _activate_new(new, until_us, last_old_us if done_us is None else max(last_old_us, done_us))
        cursor_us = next_us
    handover = Handover(old=old, new=activated.schedule, until_us=until_us, first_us=activated.next_us)
    return Takeover(
        schedule=activated.schedule,
        next_us=activated.next_us if cursor_us is None else cursor_us,
        until_us=until_us,
        instants=handover,
        needs_old=cursor_us is not None and not _is_known_from_cursor(handover, cursor_us),
    )


def _is_known_from_cursor(handover: Handover, cursor_us: int) -> bool:
    """Return whether the cursor is the old schedule's last instant and the new schedule continues directly after it."""
    next_old_us = handover.old.next_us(cursor_us)
    next_new_us = None if handover.new is None else handover.new.next_us(cursor_us)
    return (next_old_us is None or next_old_us > handover.until_us) and next_new_us == handover.first_us


def _until_us(
    policy: UpdatePolicy, old: Instants, next_us: int, now_us: int, count: int | None, duration_us: int | None
) -> int | None:
    """Return the end of the old schedule; None if it ends at once."""
    overdue_us = now_us if next_us <= now_us else None
    match policy:
        case UpdatePolicy.IMMEDIATE:
            return overdue_us
        case UpdatePolicy.GRACEFUL:
            return overdue_us or next_us
        case UpdatePolicy.WINDOWED:
            ends = [] if duration_us is None else [now_us + duration_us]
            if count is not None or not ends:
                ends.append(_counted_us(old, next_us, 1 if count is None else count, now_us))
            return max(min(ends), now_us)
        case _:
            assert_never(policy)


def _counted_us(old: Instants, next_us: int, count: int, now_us: int) -> int:
    """Return the last of the next ``count`` instants, or of all if there are fewer."""
    reached_us = now_us
    coming = walk(old, next_us if next_us > now_us else old.next_us(now_us), now_us + (1 << 62))
    for reached_us in islice(coming, min(max(count, 0), MAX_WINDOW_COUNT)):  # noqa: B007 - only the last one is needed
        pass
    return reached_us


def _activate_new(new: Schedule | None, at_us: int, done_us: int | None) -> Takeover:
    """Plan a schedule that starts at ``at_us`` without an old one before it."""
    if new is None:
        return Takeover(schedule=None, next_us=None, until_us=None, instants=None, needs_old=False)
    activation = activate_schedule(new, at_us, done_us=done_us)
    return Takeover(
        schedule=activation.schedule,
        next_us=activation.next_us,
        until_us=None,
        instants=activation.schedule,
        needs_old=False,
    )


def _merge_instants(
    old: Instants | None, new: Instants | None, after_us: int, until_us: int
) -> Iterator[tuple[int, str]]:
    """Yield the instants of both schedules in order, each with its change: kept, cancelled or added."""
    old_us = None if old is None else old.next_us(after_us)
    new_us = None if new is None else new.next_us(after_us)
    while old_us is not None or new_us is not None:
        at_us = old_us if new_us is None or (old_us is not None and old_us <= new_us) else new_us
        if at_us is None or at_us > until_us:
            return
        yield at_us, "kept" if old_us == new_us else "cancelled" if old_us == at_us else "added"
        if old is not None and old_us == at_us:
            old_us = old.next_us(at_us)
        if new is not None and new_us == at_us:
            new_us = new.next_us(at_us)


def resolve_instants(spec: JobSpec, name: str) -> Instants | None:
    """Return the instants of a job with this name; None if it has no schedule.

    Raises ``MissingSchedule`` if a custom schedule is not registered in this process, and ``Invalid``.
    """
    ensure_readable(spec)
    schedule = None if spec.schedule is None else parse_stored(spec.schedule, name)
    return schedule if spec.outgoing is None else _build_handover(spec.outgoing, schedule, name)


def start_at_cursor(instants: Instants | None, cursor_us: int | None) -> Instants | None:
    """Return the coming instants of a job whose cursor is ``cursor_us``; None if nothing comes."""
    if instants is None or cursor_us is None:
        return None
    return ComingInstants(instants=instants, cursor_us=cursor_us)


def find_next_run_us(job: Job, now_us: int) -> int | None:
    """Return the next instant of a job; for a paused job, the one that would run if it were resumed now.

    None if nothing comes, or if this process cannot tell.
    """
    if isinstance(job.spec, Unreadable) or job.state not in (JobState.ACTIVE, JobState.PAUSED):
        return None
    if job.state is JobState.ACTIVE or job.next_us is None or job.next_us > now_us:
        return job.next_us
    try:
        instants = resolve_instants(job.spec, job.name)
    except Invalid:
        return None
    return None if instants is None else instants.next_us(now_us)


def parse_stored(schedule: ScheduleSpec, name: str) -> Schedule:
    """Parse the schedule of a stored job with this name. Raises as ``resolve_instants`` does."""
    try:
        return schedule.parse(name)
    except UnknownSchedule as error:
        raise MissingSchedule(error.name) from None


def find_missing_schedule(spec: JobSpec, name: str) -> str | None:
    """Return the sentence of ``MissingSchedule`` if a custom schedule of a job is not registered in this process."""
    if spec.schedule is None or (
        spec.outgoing is None and ("@" not in spec.schedule.text or spec.schedule.is_name_independent)
    ):
        return None
    try:
        resolve_instants(spec, name)
    except MissingSchedule as error:
        return str(error)
    except Invalid:
        return None
    return None


def drop_passed_schedules(outgoing: OutgoingSchedule | None, next_us: int | None) -> OutgoingSchedule | None:
    """Drop the replaced schedules that ended before the cursor ``next_us``."""
    if outgoing is None or next_us is None or next_us > outgoing.until_us:
        return None
    return OutgoingSchedule(
        schedule=outgoing.schedule,
        until_us=outgoing.until_us,
        first_us=outgoing.first_us,
        before=drop_passed_schedules(outgoing.before, next_us),
    )


def _build_handover(outgoing: OutgoingSchedule, new: Schedule | None, name: str) -> Handover:
    schedule = parse_stored(outgoing.schedule, name)
    old = schedule if outgoing.before is None else _build_handover(outgoing.before, schedule, name)
    return Handover(old=old, new=new, until_us=outgoing.until_us, first_us=outgoing.first_us)
