"""JobDaysView: the runs of a job per day of its schedule's zone, and the planned ones, for a calendar."""

from dataclasses import dataclass
from datetime import date

from chronos.clock import Clock
from chronos.core.calendar import DAY_S, EPOCH_ORDINAL, SECOND_US
from chronos.core.job import Job, JobState, Unreadable, find_zone
from chronos.core.schedule.occurrences import Instants, walk
from chronos.core.schedule.timezones import Zone, get_zone
from chronos.core.schedule_change import resolve_instants
from chronos.errors import Invalid
from chronos.store.contract import Store
from chronos.store.day_counts import DayCount, to_day

MAX_DAYS = 400
_MAX_PLANNED = 10_000  # instants that are walked through to count them
_RATE_DAYS = 30


@dataclass(frozen=True, slots=True, kw_only=True)
class DayRow:
    """One day of a job."""

    day: date
    counts: DayCount
    planned: int | None  # scheduled times still to come; None: too many to count
    clock_changes: bool  # the clock of the zone changes on this day


@dataclass(frozen=True, slots=True, kw_only=True)
class JobDaysAnswer:
    """Consecutive days, oldest first. If they are not ``complete``, older days have too few runs."""

    zone: str
    today: date
    days: tuple[DayRow, ...]
    complete: bool
    success_rate: float | None  # of the last 30 days, from 0 to 1; None: no run has ended


class JobDaysView:
    """Reads the days of jobs."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store, self._clock = store, clock

    async def get(self, job: Job, *, back: int = 280, ahead: int = 84) -> JobDaysAnswer:
        """Return ``back`` days up to today, and ``ahead`` days after it. Raises ``Invalid`` for more than 400 days."""
        if not 1 <= back <= MAX_DAYS or not 0 <= ahead <= MAX_DAYS:
            raise Invalid(f"give 1 to {MAX_DAYS} days back and 0 to {MAX_DAYS} days ahead")
        now_us = self._clock.now_us()
        zone = get_zone(find_zone(job) or "UTC")
        today = to_day(now_us, zone)
        first = today - back + 1
        from_us = _day_start_us(min(first, today - _RATE_DAYS), zone)
        found = await self._store.job_days(job.id, zone.name, from_us, now_us + DAY_S * SECOND_US)
        planned = _count_planned(job, zone, today, today + ahead, now_us)
        rows = tuple(
            DayRow(
                day=date.fromordinal(day + EPOCH_ORDINAL),
                counts=found.days.get(day, DayCount()),
                planned=planned.get(day, 0) if planned is not None else (0 if day < today else None),
                clock_changes=bool(zone.transitions(*_seconds_of_day(day, zone))),
            )
            for day in range(first, today + ahead + 1)
        )
        recent = [found.days.get(day, DayCount()) for day in range(today - _RATE_DAYS + 1, today + 1)]
        return JobDaysAnswer(
            zone=zone.name,
            today=date.fromordinal(today + EPOCH_ORDINAL),
            days=rows,
            complete=found.complete,
            success_rate=to_success_rate(recent),
        )


def to_success_rate(days: list[DayCount]) -> float | None:
    """Return the share of runs that succeeded among those that succeeded or failed; None without any."""
    good = sum(day.succeeded + day.completed_with_errors for day in days)
    bad = sum(day.failed + day.stale for day in days)
    return good / (good + bad) if good + bad else None


def _count_planned(job: Job, zone: Zone, first: int, last: int, now_us: int) -> dict[int, int] | None:
    """Count the scheduled times to come by day; None if they are too many."""
    if job.state is not JobState.ACTIVE or job.next_us is None or isinstance(job.spec, Unreadable):
        return {}
    instants: Instants | None = resolve_instants(job.spec, job.name)
    if instants is None:
        return {}
    counts: dict[int, int] = {}
    for steps, at_us in enumerate(walk(instants, max(job.next_us, now_us), _day_start_us(last + 1, zone) - 1)):
        if steps == _MAX_PLANNED:
            return _count_by_formula(instants, zone, first, last, now_us)
        day = to_day(at_us, zone)
        counts[day] = counts.get(day, 0) + 1
    return counts


def _count_by_formula(instants: Instants, zone: Zone, first: int, last: int, now_us: int) -> dict[int, int] | None:
    """Count frequent scheduled times without a walk; None if their rule cannot be counted."""
    counts: dict[int, int] = {}
    for day in range(first, last + 1):
        after_us = max(_day_start_us(day, zone) - 1, now_us)
        count = instants.count_us(after_us, _day_start_us(day + 1, zone) - 1)
        if count is None:
            return None
        counts[day] = count
    return counts


def _day_start_us(day: int, zone: Zone) -> int:
    return zone.to_utc(day * DAY_S) * SECOND_US


def _seconds_of_day(day: int, zone: Zone) -> tuple[int, int]:
    return zone.to_utc(day * DAY_S) - 1, zone.to_utc((day + 1) * DAY_S) - 1
