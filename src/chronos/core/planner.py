"""The planner decides what a job's schedule needs now: wait, admit due instants, or handle missed ones.

The cursor of a job is its oldest instant that is not recorded. The instants from the cursor to now are treated alike,
by the age of the oldest::

    cursor ······················ now          age of the cursor > recovery.after?
      │                            │
      ├── no:  every instant is late, and runs ────────────────────────────► DuePlan
      └── yes: [ not run: one ``missed`` span ][ runs, flagged recovered ] ► Gap
               the recovery strategy decides where the span ends and the runs begin

The span of a gap always comes before its runs. So runs that do not fit into the queue can wait, with the cursor on the
first of them. Ids are computed from the instants, so planning the same gap twice is harmless.

All work is bounded (``Bounds``). A plan that reaches a bound has a ``wake_us`` in the past: the caller plans again.
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
from chronos.core.schedule.schedule import Rule, Schedule

MAX_PREVIEW = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """Limits on the size and cost of one plan."""

    runs: int = 500
    steps: int = 20_000  # instants to walk if they cannot be counted: about 100 ms
    portions: int = 50  # a gap that needs more walks is recorded as one span with an "at least" count
    searched: int = 1_000  # cap of ``max_count`` if instants are many and cannot be counted


BOUNDS = Bounds()


class CoveredSpan(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The missed instants that one compressed execution covers. Its task receives them."""

    from_us: int
    to_us: int
    count: int
    exact: bool = True  # False: at least ``count``


class Firing(Struct, frozen=True, kw_only=True):
    """One instant to admit, and the cursor after it."""

    id: bytes
    scheduled_us: int
    due_us: int
    next_us: int | None  # None: it is the last instant
    covers: CoveredSpan | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NothingDue:
    """Nothing is due before ``wake_us``; None: nothing will be due."""

    wake_us: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class DuePlan:
    """Instants that are on time or late, to be admitted one by one, oldest first."""

    firings: tuple[Firing, ...]
    wake_us: int | None  # when the next instant is due; if that has passed, plan again


@dataclass(frozen=True, slots=True, kw_only=True)
class Gap:
    """Missed instants, recorded in one transaction: spans, then recovered executions, and the cursor."""

    expect_us: int
    spans: tuple[Span, ...]
    firings: tuple[Firing, ...]
    next_us: int | None
    wake_us: int | None  # when the instant at ``next_us`` is due; if that has passed, plan again


Plan = NothingDue | DuePlan | Gap


@dataclass(frozen=True, slots=True, kw_only=True)
class Activation:
    """A schedule that comes into force: anchored, as it must be stored, and its first cursor."""

    schedule: Schedule
    next_us: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Resumption:
    """A resumed job: the instants that it skipped, and its cursor."""

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
    """Plan the instants from the cursor to now.

    The cursor counts as an instant even if the schedule does not contain it: after a graceful update it is the last
    instant of the old schedule. If the clock went back, nothing is due.
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
    """Plan the instants from a due cursor to now as late, not missed."""
    end_us = _last_passed_us(instants, next_us, now_us, bounds.runs)
    firings = _firings(job, instants, next_us, end_us, bounds.runs)
    return DuePlan(firings=firings, wake_us=_due_us(instants, firings[-1].next_us))


def build_firing(job: bytes, instants: Instants, scheduled_us: int) -> Firing:
    """Build the firing of one instant."""
    return Firing(
        id=scheduled_execution_id(job, scheduled_us),
        scheduled_us=scheduled_us,
        due_us=instants.due_us(scheduled_us),
        next_us=instants.next_us(scheduled_us),
    )


def activate_schedule(schedule: Schedule, now_us: int, *, done_us: int | None = None, late_us: int = 0) -> Activation:
    """Compute the first cursor of a schedule that is saved or enabled.

    * The cursor is after now, and after ``done_us``, the latest recorded instant.
    * A missing start becomes now. If occurrences are counted (``R5/PT6H``), the start is the first one and due at
      once; otherwise only four would be left.
    * A one-time instant still runs if it passed less than ``late_us`` ago.
    """
    anchored = schedule.anchor(now_us)
    after_us = now_us
    rules = [member.rule for member in anchored.members]
    if all(isinstance(rule, OnceRule | DelayRule) for rule in rules):
        after_us = now_us - 1 - late_us
    elif anchored is not schedule and any(_is_counted(rule) for rule in rules):
        after_us = now_us - 1
    if done_us is not None:
        after_us = max(after_us, done_us)
    return Activation(schedule=anchored, next_us=anchored.next_us(after_us))


def _is_counted(rule: Rule) -> bool:
    return isinstance(rule, PeriodRule) and rule.count is not None


def resume_job(
    *, job: bytes, instants: Instants, next_us: int | None, now_us: int, bounds: Bounds = BOUNDS
) -> Resumption:
    """Compute the instants that a paused job skipped until now, as one span, and the first cursor after now.

    The span is recorded in one change of the job. If counting its instants takes too many steps, it says "at least".
    """
    if next_us is None or next_us > now_us:
        return Resumption(spans=(), next_us=next_us)
    span = to_skipped_span(job, instants, next_us, now_us, ReasonCode.PAUSED, bounds)
    return Resumption(spans=(span,), next_us=instants.next_us(span.to_us))


def to_skipped_span(
    job: bytes, instants: Instants | None, next_us: int, now_us: int, code: ReasonCode, bounds: Bounds = BOUNDS
) -> Span:
    """Build the skipped span from a due cursor to now. Without ``instants`` only the first one is known."""
    count, end_us, exact = 1, next_us, False
    if instants is not None:
        counted = count_instants(instants, next_us, now_us, bounds.steps)
        count, exact = counted.count, counted.exact
        end_us = counted.last_us if exact else last_us(instants, next_us, now_us)
    sentence = Reason.of(code).message.removesuffix(".")
    times = "1 scheduled time" if count == 1 else f"{count} scheduled times"
    message = None if exact else f"{sentence}; at least {times} passed."
    return _span(job, Status.SKIPPED, next_us, end_us, count, Reason.of(code, message), now_us)


def preview(schedule: Schedule, now_us: int, count: int) -> tuple[int, ...]:
    """Return the next instants, as if the schedule came into force now; at most ``MAX_PREVIEW``."""
    activation = activate_schedule(schedule, now_us)
    instants_us: list[int] = []
    at_us = activation.next_us
    while at_us is not None and len(instants_us) < min(count, MAX_PREVIEW):
        instants_us.append(at_us)
        at_us = activation.schedule.next_us(at_us)
    return tuple(instants_us)


# --- missed instants -----------------------------------------------------------------------------------------------


def _plan_gap(
    job: bytes, instants: Instants, effective: EffectiveSettings, first_us: int, now_us: int, bounds: Bounds
) -> Gap:
    """Plan a gap whose oldest instant, ``first_us``, is too old to be only late."""
    end_us = _last_passed_us(instants, first_us, now_us, bounds.steps)
    from_us = _first_run_us(instants, effective, first_us, end_us, now_us, bounds)
    compressed = effective.recovery is RecoveryStrategy.COMPRESSED
    spans: tuple[Span, ...] = ()
    covers: CoveredSpan | None = CoveredSpan(from_us=first_us, to_us=end_us, count=1) if compressed else None
    cursor_us: int | None = first_us
    if from_us != first_us:
        span_end_us = end_us if from_us is None else last_us(instants, first_us, from_us - 1)
        counted = count_instants(instants, first_us, span_end_us, bounds.steps)
        in_portions = (counted.last_us - first_us) * bounds.portions >= span_end_us - first_us
        if not counted.exact and in_portions and not compressed:
            span_end_us, from_us, counted = counted.last_us, None, replace(counted, exact=True)
        reason = _explain_missed(effective, end_us, None if counted.exact else counted.count)
        spans = (_span(job, Status.MISSED, first_us, span_end_us, counted.count, reason, now_us),)
        if compressed:
            covers = CoveredSpan(from_us=first_us, to_us=end_us, count=counted.count + 1, exact=counted.exact)
        cursor_us = instants.next_us(span_end_us)
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
    """Return the first instant of a gap that the recovery strategy runs; None if it runs nothing."""
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
    """Return the first of the last ``max_count`` instants that are not older than ``max_age``."""
    max_count = effective.recovery_max_count
    oldest_us = now_us - effective.recovery_max_age_us
    begin_us = first_us if first_us >= oldest_us else instants.next_us(max(first_us, oldest_us - 1))
    if max_count <= 0 or begin_us is None or begin_us > end_us:
        return None
    counted = count_instants(instants, begin_us, end_us, bounds.steps)
    if not counted.exact:
        return nth_last_instant_us(instants, begin_us, end_us, min(max_count, bounds.searched, bounds.steps))
    return begin_us if counted.count <= max_count else nth_us(instants, begin_us, counted.count - max_count, end_us)


def _last_passed_us(instants: Instants, first_us: int, now_us: int, steps: int) -> int:
    """Return the last instant of the unbroken series of due instants that starts at ``first_us``.

    Jitter can make a later instant due before an earlier one. The later one waits, because there is only one cursor.
    """
    certain_us = now_us - instants.jitter_us  # everything before is due, whatever its jitter
    end_us = last_us(instants, first_us, certain_us) if certain_us > first_us else first_us
    if not instants.jitter_us:
        return end_us
    for _ in range(steps):
        following_us = instants.next_us(end_us)
        if following_us is None or instants.due_us(following_us) > now_us:
            break
        end_us = following_us
    return end_us


def _firings(job: bytes, instants: Instants, first_us: int, end_us: int, max_count: int) -> tuple[Firing, ...]:
    firings: list[Firing] = []
    for scheduled_us in walk(instants, first_us, end_us):
        firings.append(build_firing(job, instants, scheduled_us))
        if len(firings) == max_count:
            break
    return tuple(firings)


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


def _explain_missed(effective: EffectiveSettings, end_us: int, at_least: int | None) -> Reason:
    """Build the sentence that tells a person why instants did not run."""
    missed = "No node ran it in time" if at_least is None else f"No node ran these, at least {at_least}, in time"
    match effective.recovery:
        case RecoveryStrategy.COMPRESSED:
            covering = f"{instant(end_us):%Y-%m-%d %H:%M:%S} UTC"
            return Reason.of(ReasonCode.MISSED, f"{missed}; the run of {covering} covers all missed ones.")
        case RecoveryStrategy.LAST:
            rule = "runs only the last missed run"
        case RecoveryStrategy.BOUNDED:
            age = format_duration(effective.recovery_max_age_us, exact=True)
            count = effective.recovery_max_count
            rule = f"runs at most {count} missed run{'' if count == 1 else 's'}, none older than {age}"
        case RecoveryStrategy.SKIP | RecoveryStrategy.ALL:
            rule = "does not run missed runs"
        case _:
            assert_never(effective.recovery)
    return Reason.of(ReasonCode.OUTSIDE_RECOVERY, f"{missed}, and the job's recovery {rule}.")
