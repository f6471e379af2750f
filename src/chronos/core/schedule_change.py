"""A schedule is replaced: what that changes about the coming runs, and from when the new one counts.

::

    old   │   │   │   │   │          diff over a window: added, cancelled, kept
    new     │     │     │     │
          now  ▲     until           takeover: the old one is in force up to and with ``until_us``, the new one after it

``diff(old, takeover.instants, …)`` is what a dry run shows: the runs as they will really be.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import assert_never

from chronos.core.config import UpdatePolicy
from chronos.core.job import JobSpec, OutgoingSchedule, ensure_readable
from chronos.core.planner import activate_schedule
from chronos.core.schedule.occurrences import Instants, last_us, walk
from chronos.core.schedule.schedule import Schedule

MAX_LISTED = 100
MAX_COMPARED = 10_000  # instants of both schedules together
MAX_WINDOW_COUNT = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ComingRuns:
    """The first of some instants, and how many there are."""

    first_us: tuple[int, ...] = ()
    count: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleDiff:
    """How the runs of a window change. ``until_us`` is how far they were compared, when that grew long."""

    added: ComingRuns
    cancelled: ComingRuns
    kept: ComingRuns
    until_us: int
    whole: bool  # False: the window goes on after ``until_us``


@dataclass(frozen=True, slots=True, kw_only=True)
class Handover:
    """One schedule until a moment, then another: what a planner follows while an update comes into force."""

    old: Instants
    new: Schedule | None
    until_us: int  # the old one's instants up to here count
    first_us: int | None  # the first instant of the new one; None: it has none

    @property
    def jitter_us(self) -> int:
        return max(self.old.jitter_us, 0 if self.new is None else self.new.jitter_us)

    def next_us(self, after_us: int) -> int | None:
        """The first instant strictly after ``after_us``."""
        if after_us < self.until_us:
            found = self.old.next_us(after_us)
            if found is not None and found <= self.until_us:
                return found
        if self.new is None or self.first_us is None or after_us < self.first_us:
            return self.first_us
        return self.new.next_us(after_us)

    def count_us(self, after_us: int, until_us: int) -> int | None:
        """How many instants there are with after < t <= until; None where only a walk can tell."""
        before = self.old.count_us(after_us, min(until_us, self.until_us)) if after_us < self.until_us else 0
        if before is None or self.new is None or self.first_us is None or until_us < self.first_us:
            return before
        behind = self.new.count_us(max(after_us, self.first_us - 1), until_us)
        return None if behind is None else before + behind

    def due_us(self, scheduled_us: int) -> int:
        """As the schedule says to which the instant belongs."""
        if self.new is None or self.first_us is None or scheduled_us < self.first_us:
            return self.old.due_us(scheduled_us)
        return self.new.due_us(scheduled_us)


@dataclass(frozen=True, slots=True, kw_only=True)
class Takeover:
    """From when a new schedule counts."""

    schedule: Schedule | None  # the new one with its anchor, to be stored
    next_us: int | None  # the cursor to save with it
    until_us: int | None  # the old one stays in force up to here; None: it does not
    instants: Instants | None  # what happens from now on; None: nothing by itself
    needs_old: (
        bool  # the cursor alone does not tell it all: the old schedule must be kept until ``until_us`` has passed
    )


def diff(
    old: Instants | None,
    new: Instants | None,
    after_us: int,
    until_us: int,
    *,
    listed: int = MAX_LISTED,
    compared: int = MAX_COMPARED,
) -> ScheduleDiff:
    """The instants t with after < t <= until that only the new schedule has, only the old one, and both."""
    found: dict[str, list[int]] = {"added": [], "cancelled": [], "kept": []}
    counts = dict.fromkeys(found, 0)
    reached_us, whole = until_us, True
    for seen, (at_us, what) in enumerate(_merge_instants(old, new, after_us, until_us)):
        if seen == compared:
            reached_us, whole = at_us - 1, False
            break
        counts[what] += 1
        if counts[what] <= listed:
            found[what].append(at_us)
    made = {what: ComingRuns(first_us=tuple(found[what]), count=counts[what]) for what in found}
    return ScheduleDiff(until_us=reached_us, whole=whole, **made)


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
    """Where a new schedule takes over from the old one, whose cursor is ``next_us`` and latest record ``done_us``.

    ``immediate``: now. ``graceful``: after the old one's next instant. ``windowed``: after so many instants of it, or
    after a duration; where both are given, after what comes first; where none is, as ``graceful``. Whatever the
    policy, instants that are due and not yet on record still belong to the old schedule: an update loses none.
    """
    until_us = None
    if old is not None and next_us is not None:
        until_us = _until_us(policy, old, next_us, now_us, count, duration_us)
    if old is None or next_us is None or until_us is None:
        return _activate_new(new, now_us, done_us)
    if next_us > until_us:  # the window holds none of its instants
        begun, cursor_us = _activate_new(new, until_us, done_us), None
    else:
        last_old_us = last_us(old, next_us, until_us)
        begun = _activate_new(new, until_us, last_old_us if done_us is None else max(last_old_us, done_us))
        cursor_us = next_us
    handover = Handover(old=old, new=begun.schedule, until_us=until_us, first_us=begun.next_us)
    return Takeover(
        schedule=begun.schedule,
        next_us=begun.next_us if cursor_us is None else cursor_us,
        until_us=until_us,
        instants=handover,
        needs_old=cursor_us is not None and not _is_known_from_cursor(handover, cursor_us),
    )


def _is_known_from_cursor(handover: Handover, cursor_us: int) -> bool:
    """Whether the cursor is the old schedule's last instant, and the new one follows it as if it were its own."""
    left_us = handover.old.next_us(cursor_us)
    following_us = None if handover.new is None else handover.new.next_us(cursor_us)
    return (left_us is None or left_us > handover.until_us) and following_us == handover.first_us


def _until_us(
    policy: UpdatePolicy, old: Instants, next_us: int, now_us: int, count: int | None, duration_us: int | None
) -> int | None:
    """Up to when the old schedule stays in force; None: it does not."""
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
    """The last of the next ``count`` instants, or of as many as there are."""
    reached_us = now_us
    coming = walk(old, next_us if next_us > now_us else old.next_us(now_us), now_us + (1 << 62))
    for reached_us in islice(coming, min(max(count, 0), MAX_WINDOW_COUNT)):  # noqa: B007 - the last one is wanted
        pass
    return reached_us


def _activate_new(new: Schedule | None, at_us: int, done_us: int | None) -> Takeover:
    """A schedule that counts from ``at_us``, with nothing before it."""
    if new is None:
        return Takeover(schedule=None, next_us=None, until_us=None, instants=None, needs_old=False)
    begun = activate_schedule(new, at_us, done_us=done_us)
    return Takeover(
        schedule=begun.schedule, next_us=begun.next_us, until_us=None, instants=begun.schedule, needs_old=False
    )


def _merge_instants(
    old: Instants | None, new: Instants | None, after_us: int, until_us: int
) -> Iterator[tuple[int, str]]:
    """The instants of both in order, each with what becomes of it."""
    a = None if old is None else old.next_us(after_us)
    b = None if new is None else new.next_us(after_us)
    while a is not None or b is not None:
        at_us = a if b is None or (a is not None and a <= b) else b
        if at_us is None or at_us > until_us:
            return
        yield at_us, "kept" if a == b else "cancelled" if a == at_us else "added"
        if old is not None and a == at_us:
            a = old.next_us(at_us)
        if new is not None and b == at_us:
            b = new.next_us(at_us)


def resolve_instants(spec: JobSpec, name: str) -> Instants | None:
    """What a planner follows for a job of this name; None: nothing by itself. Raises ``Invalid``."""
    ensure_readable(spec)
    schedule = None if spec.schedule is None else spec.schedule.parse(name)
    return schedule if spec.outgoing is None else _build_handover(spec.outgoing, schedule, name)


def drop_passed_schedules(outgoing: OutgoingSchedule | None, next_us: int | None) -> OutgoingSchedule | None:
    """What is left of replaced schedules for a job whose cursor is ``next_us``."""
    if outgoing is None or next_us is None or next_us > outgoing.until_us:
        return None
    return OutgoingSchedule(
        schedule=outgoing.schedule,
        until_us=outgoing.until_us,
        first_us=outgoing.first_us,
        before=drop_passed_schedules(outgoing.before, next_us),
    )


def _build_handover(outgoing: OutgoingSchedule, new: Schedule | None, name: str) -> Handover:
    schedule = outgoing.schedule.parse(name)
    old = schedule if outgoing.before is None else _build_handover(outgoing.before, schedule, name)
    return Handover(old=old, new=new, until_us=outgoing.until_us, first_us=outgoing.first_us)
