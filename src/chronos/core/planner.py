"""What to do about a job's schedule now: wait, admit what is due, or deal with what was missed.

The cursor of a job is its oldest instant that is not on record. A gap is what lies between it and now, and is judged
whole by its oldest instant::

    cursor ······················ now          age of the cursor > recovery.after?
      │                            │
      ├── no:  every instant is late, and runs ────────────────────────────► Due
      └── yes: [ not run: one ``missed`` span ][ runs, flagged recovered ] ► Gap
               the strategy says where the one ends and the other begins

A span always comes before the runs of its gap, so that runs which do not fit a queue can be left for later with the
cursor on the first of them. Ids follow from the instants: planning the same gap twice is harmless.

All work is bounded (``Bounds``). What does not fit one plan is left for the next: ``wake_us`` then is in the past.
"""

from dataclasses import dataclass, replace
from typing import assert_never

from msgspec import Struct, structs

from chronos.core.calendar import from_us as instant
from chronos.core.config import EffectiveSettings, RecoveryStrategy
from chronos.core.execution import Span, Status
from chronos.core.ids import scheduled_execution_id, span_id
from chronos.core.job import JobState
from chronos.core.reasons import Reason, ReasonCode
from chronos.core.schedule.durations import format_duration
from chronos.core.schedule.iso8601 import PeriodRule
from chronos.core.schedule.occurrences import Instants, count_instants, last_us, nth_last_instant_us, nth_us, walk
from chronos.core.schedule.once import DelayRule, OnceRule
from chronos.core.schedule.schedule import Schedule

MAX_PREVIEW = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """How much one plan may hold and cost."""

    runs: int = 500
    steps: int = 20_000  # instants walked where they cannot be counted: some 100 ms
    portions: int = 50  # a gap that would take more walks than that is recorded whole, counted as "at least"
    searched: int = 1_000  # ``max_count`` counts up to here where instants cannot be counted and are many


BOUNDS = Bounds()


class CoveredSpan(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The missed instants that one compressed run stands for; given to its task, and stored with it."""

    from_us: int
    to_us: int
    count: int
    exact: bool = True  # False: at least so many


class Firing(Struct, frozen=True, kw_only=True):
    """One instant to admit, and where the cursor goes with it."""

    id: bytes
    scheduled_us: int
    due_us: int
    next_us: int | None  # None: the schedule ends with it
    covers: CoveredSpan | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NothingDue:
    """Nothing is due. ``wake_us`` is when something will be; None: never by itself."""

    wake_us: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class DuePlan:
    """Instants in time or merely late, to be admitted one after the other, oldest first."""

    firings: tuple[Firing, ...]
    wake_us: int | None  # when the instant after them is due; not after now: plan again


@dataclass(frozen=True, slots=True, kw_only=True)
class Gap:
    """Missed instants, dealt with in one transaction: spans, recovered runs after them, the cursor."""

    expect_us: int
    spans: tuple[Span, ...]
    firings: tuple[Firing, ...]
    next_us: int | None
    wake_us: int | None  # when the instant at ``next_us`` is due; not after now: plan again


Plan = NothingDue | DuePlan | Gap


@dataclass(frozen=True, slots=True, kw_only=True)
class Activation:
    """A schedule that comes into force: with its anchor, which is to be stored, and the first cursor."""

    schedule: Schedule
    next_us: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Resumption:
    """A paused job goes on: what it left out, and where it stands."""

    spans: tuple[Span, ...]
    next_us: int | None


def plan(
    *,
    job: bytes,
    state: JobState,
    instants: Instants,
    effective: EffectiveSettings,
    next_us: int | None,
    now_us: int,
    bounds: Bounds = BOUNDS,
) -> Plan:
    """What to do about the instants from the cursor to now; the cursor itself is one, whatever the schedule says.

    (After a graceful update it is the last instant of the old schedule.) A clock that went back finds nothing due.
    """
    if state is not JobState.ACTIVE or next_us is None:
        return NothingDue(wake_us=None)
    due_us = instants.due_us(next_us)
    if due_us > now_us:
        return NothingDue(wake_us=due_us)
    if now_us - due_us > effective.recovery_after_us:
        return _plan_gap(job, instants, effective, next_us, now_us, bounds)
    return plan_late(job, instants, next_us, now_us, bounds)


def plan_late(job: bytes, instants: Instants, next_us: int, now_us: int, bounds: Bounds = BOUNDS) -> DuePlan:
    """The instants from the cursor, which is due, to now: none of them was missed."""
    end_us = _last_passed_us(instants, next_us, now_us, bounds.runs)
    firings = _firings(job, instants, next_us, end_us, bounds.runs)
    return DuePlan(firings=firings, wake_us=_due_us(instants, firings[-1].next_us))


def build_firing(job: bytes, instants: Instants, scheduled_us: int) -> Firing:
    """The run of one instant, as look-ahead prepares it."""
    return Firing(
        id=scheduled_execution_id(job, scheduled_us),
        scheduled_us=scheduled_us,
        due_us=instants.due_us(scheduled_us),
        next_us=instants.next_us(scheduled_us),
    )


def activate_schedule(schedule: Schedule, now_us: int, *, done_us: int | None = None, late_us: int = 0) -> Activation:
    """The first cursor of a schedule that is saved or enabled: after now, and after ``done_us``, the latest on record.

    A missing start becomes now. Where occurrences are counted (``R5/PT6H``) the start is the first of them and due at
    once, as else there would be four. A one-time instant may have passed by ``late_us``, and still runs.
    """
    anchored = schedule.anchor(now_us)
    after_us = now_us
    match anchored.rule:
        case OnceRule() | DelayRule():
            after_us = now_us - 1 - late_us
        case PeriodRule(count=count) if count is not None and anchored is not schedule:
            after_us = now_us - 1
    if done_us is not None:
        after_us = max(after_us, done_us)
    return Activation(schedule=anchored, next_us=anchored.next_us(after_us))


def resume_job(
    *, job: bytes, instants: Instants, next_us: int | None, now_us: int, bounds: Bounds = BOUNDS
) -> Resumption:
    """What a job that was paused left out until now, as one skipped span, and the first cursor after now.

    All of it is one change of the job, so where only a walk can count and it grows long, the span says "at least".
    """
    if next_us is None or next_us > now_us:
        return Resumption(spans=(), next_us=next_us)
    span = to_skipped_span(job, instants, next_us, now_us, ReasonCode.PAUSED, bounds)
    return Resumption(spans=(span,), next_us=instants.next_us(span.to_us))


def to_skipped_span(
    job: bytes, instants: Instants | None, next_us: int, now_us: int, code: ReasonCode, bounds: Bounds = BOUNDS
) -> Span:
    """The instants from a cursor that has come until now, as one skipped span. None: only the first is known."""
    count, end_us, exact = 1, next_us, False
    if instants is not None:
        found = count_instants(instants, next_us, now_us, bounds.steps)
        count, exact = found.count, found.exact
        end_us = found.last_us if exact else last_us(instants, next_us, now_us)
    sentence = Reason.of(code).message.removesuffix(".")
    message = None if exact else f"{sentence}; at least {count} instants passed meanwhile."
    return _span(job, Status.SKIPPED, next_us, end_us, count, Reason.of(code, message), now_us)


def preview(schedule: Schedule, now_us: int, count: int) -> tuple[int, ...]:
    """The next instants, as if the schedule came into force now; at most ``MAX_PREVIEW``."""
    begun = activate_schedule(schedule, now_us)
    found: list[int] = []
    at_us = begun.next_us
    while at_us is not None and len(found) < min(count, MAX_PREVIEW):
        found.append(at_us)
        at_us = begun.schedule.next_us(at_us)
    return tuple(found)


# --- missed instants -----------------------------------------------------------------------------------------------


def _plan_gap(
    job: bytes, instants: Instants, effective: EffectiveSettings, first_us: int, now_us: int, bounds: Bounds
) -> Gap:
    """A gap whose oldest instant, ``first_us``, is too old to be merely late."""
    end_us = _last_passed_us(instants, first_us, now_us, bounds.steps)
    from_us = _first_run_us(instants, effective, first_us, end_us, now_us, bounds)
    compressed = effective.recovery is RecoveryStrategy.COMPRESSED
    spans: tuple[Span, ...] = ()
    covers: CoveredSpan | None = CoveredSpan(from_us=first_us, to_us=end_us, count=1) if compressed else None
    cursor_us: int | None = first_us
    if from_us != first_us:
        left_us = end_us if from_us is None else last_us(instants, first_us, from_us - 1)
        found = count_instants(instants, first_us, left_us, bounds.steps)
        in_portions = (found.last_us - first_us) * bounds.portions >= left_us - first_us
        if not found.exact and in_portions and not compressed:
            left_us, from_us, found = found.last_us, None, replace(found, exact=True)
        reason = _why_missed(effective, end_us, None if found.exact else found.count)
        spans = (_span(job, Status.MISSED, first_us, left_us, found.count, reason, now_us),)
        if compressed:
            covers = CoveredSpan(from_us=first_us, to_us=end_us, count=found.count + 1, exact=found.exact)
        cursor_us = instants.next_us(left_us)
    firings: tuple[Firing, ...] = ()
    if from_us is not None:
        firings = _firings(job, instants, from_us, end_us, bounds.runs)
        if covers is not None:
            firings = (structs.replace(firings[0], covers=covers),)
        cursor_us = firings[-1].next_us
    return Gap(
        expect_us=first_us,
        spans=spans,
        firings=firings,
        next_us=cursor_us,
        wake_us=_due_us(instants, cursor_us),
    )


def _first_run_us(
    instants: Instants, effective: EffectiveSettings, first_us: int, end_us: int, now_us: int, bounds: Bounds
) -> int | None:
    """From which instant of a gap on the strategy runs; what lies before is not run. None: nothing is."""
    match effective.recovery:
        case RecoveryStrategy.ALL:
            return first_us
        case RecoveryStrategy.SKIP:
            return None
        case RecoveryStrategy.LAST | RecoveryStrategy.COMPRESSED:
            return end_us
        case RecoveryStrategy.BOUNDED:
            return _bounded_from_us(instants, effective, first_us, end_us, now_us, bounds)
        case _:
            assert_never(effective.recovery)


def _bounded_from_us(
    instants: Instants, effective: EffectiveSettings, first_us: int, end_us: int, now_us: int, bounds: Bounds
) -> int | None:
    """The first of the last ``max_count`` instants, as far as they are not older than ``max_age``."""
    most = effective.recovery_max_count
    oldest_us = now_us - effective.recovery_max_age_us
    begin_us = first_us if first_us >= oldest_us else instants.next_us(max(first_us, oldest_us - 1))
    if most <= 0 or begin_us is None or begin_us > end_us:
        return None
    found = count_instants(instants, begin_us, end_us, bounds.steps)
    if not found.exact:
        return nth_last_instant_us(instants, begin_us, end_us, min(most, bounds.searched, bounds.steps))
    return begin_us if found.count <= most else nth_us(instants, begin_us, found.count - most, end_us)


def _last_passed_us(instants: Instants, first_us: int, now_us: int, steps: int) -> int:
    """The last instant of the unbroken run from ``first_us``, which is due, of instants that are due.

    Jitter may make a later instant due before an earlier one; it waits for its turn, as there is one cursor.
    """
    surely_us = now_us - instants.jitter_us
    end_us = last_us(instants, first_us, surely_us) if surely_us > first_us else first_us
    if not instants.jitter_us:
        return end_us
    for _ in range(steps):
        following_us = instants.next_us(end_us)
        if following_us is None or instants.due_us(following_us) > now_us:
            break
        end_us = following_us
    return end_us


def _firings(job: bytes, instants: Instants, first_us: int, end_us: int, most: int) -> tuple[Firing, ...]:
    found: list[Firing] = []
    for scheduled_us in walk(instants, first_us, end_us):
        found.append(build_firing(job, instants, scheduled_us))
        if len(found) == most:
            break
    return tuple(found)


def _due_us(instants: Instants, scheduled_us: int | None) -> int | None:
    return None if scheduled_us is None else instants.due_us(scheduled_us)


def _span(job: bytes, status: Status, from_us: int, to_us: int, count: int, reason: Reason, now_us: int) -> Span:
    return Span(
        id=span_id(job, from_us, int(status)),
        job=job,
        status=status,
        from_us=from_us,
        to_us=to_us,
        count=count,
        reason=reason,
        recorded_us=now_us,
    )


def _why_missed(effective: EffectiveSettings, end_us: int, at_least: int | None) -> Reason:
    """The sentence that a person reads when asking why instants did not run."""
    nobody = "No node ran it in time" if at_least is None else f"No node ran these, at least {at_least}, in time"
    match effective.recovery:
        case RecoveryStrategy.COMPRESSED:
            stands = f"{instant(end_us):%Y-%m-%dT%H:%M:%SZ}"
            return Reason.of(ReasonCode.MISSED, f"{nobody}; one run, of {stands}, stands for all that were missed.")
        case RecoveryStrategy.LAST:
            does = "runs only the last instant that was missed"
        case RecoveryStrategy.BOUNDED:
            age = format_duration(effective.recovery_max_age_us, exact=True)
            does = f"runs at most {effective.recovery_max_count} missed instants, none older than {age}"
        case RecoveryStrategy.SKIP | RecoveryStrategy.ALL:
            does = "does not run what was missed"
        case _:
            assert_never(effective.recovery)
    return Reason.of(ReasonCode.OUTSIDE_RECOVERY, f"{nobody}, and the job's recovery {does}.")
