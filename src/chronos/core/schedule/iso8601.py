"""ISO 8601 repeating intervals: ``R5/2026-01-31T09:00:00Z/P1M``, ``R/start/end``, and bare periods (``P3W``).

Occurrence n is start + n · period, not the previous occurrence plus a period. Months and years are added first,
clamped to the end of the month; then weeks and days on the zone's wall clock; then hours, minutes and seconds as exact
time.
"""

import re
from dataclasses import dataclass
from datetime import datetime, timedelta
from fractions import Fraction

from chronos.core.calendar import (
    DAY_S,
    FIRST_DAY,
    FIRST_US,
    LAST_DAY,
    LAST_US,
    SECOND_US,
    day_number,
    month_length,
    to_us,
    to_year_month_day,
)
from chronos.core.schedule.interval import count_steps
from chronos.core.schedule.timezones import Zone
from chronos.errors import InvalidSchedule

_MONTH_US = 2_629_746 * SECOND_US  # the Gregorian mean, so that estimates do not drift
_EPOCH_WEEKDAY = 4  # day 0 is a Thursday; 0 is Sunday
_NUMBER = r"(\d{1,9})"
_LAST_NUMBER = r"(\d{1,9}(?:[.,]\d{1,9})?)"
_PERIOD = re.compile(
    rf"P(?:{_NUMBER}W|(?:{_NUMBER}Y)?(?:{_NUMBER}M)?(?:{_NUMBER}D)?"
    rf"(T(?:{_LAST_NUMBER}H)?(?:{_LAST_NUMBER}M)?(?:{_LAST_NUMBER}S)?)?)",
    re.ASCII,
)
_INSTANT = re.compile(r"\d{4}-\d\d-\d\d(?:[Tt ]\d\d:\d\d(?::\d\d(?:[.,]\d{1,9})?)?(?:[Zz]|[+-]\d\d:\d\d)?)?", re.ASCII)
_LENIENT = re.compile(r"T24|[+-]\d\d:[6-9]\d$", re.ASCII)  # accepted by fromisoformat of some Python versions
_REPEAT = re.compile(r"R(\d{1,9})?", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class Period:
    """A calendar duration: calendar months and days, and exact time in microseconds."""

    months: int = 0
    days: int = 0
    us: int = 0

    def mean_us(self) -> int:
        """Return the mean length."""
        return self.months * _MONTH_US + self.days * DAY_S * SECOND_US + self.us


@dataclass(frozen=True, slots=True)
class PeriodRule:
    """The instants first + n · period for n = 0, 1, …; ``count`` in all, or without end.

    The first is the start, or the first ``second_of_day`` of the zone's clock at or after the start; with a
    ``weekday``, the first on that day of the week.
    """

    period: Period
    zone: Zone
    start_us: int | None = None
    count: int | None = None
    second_of_day: int | None = None
    weekday: int | None = None  # 0 is Sunday; only with ``second_of_day``

    def next_us(self, after_us: int) -> int | None:
        """Return the first occurrence strictly after ``after_us``; without a start, it is counted from there."""
        after_us = min(after_us, LAST_US)  # nothing occurs later, and the estimate would be far off
        start_us = after_us if self.start_us is None else self.start_us
        n = max(0, (after_us - start_us) // self.period.mean_us())
        while n > 0 and _is_after(self._occurrence(start_us, n), after_us):
            n -= 1
        while (occurrence_us := self._occurrence(start_us, n)) is not None and occurrence_us <= after_us:
            n += 1
        if self.count is None or (self.start_us is None and self.count):
            return occurrence_us
        return occurrence_us if n < self.count else None

    def count_us(self, after_us: int, until_us: int) -> int | None:
        """Count the occurrences with after < t <= until; None if that requires walking through them."""
        if self.start_us is None or self.period.months or self.period.days:
            return None
        return count_steps(self.start_us, self.period.us, after_us, until_us, self.count)

    def _occurrence(self, start_us: int, n: int) -> int | None:
        """Return first + n · period, or None past the end of the calendar."""
        if n == 0 and self.second_of_day is None:
            return start_us
        exact_us = n * self.period.us
        months, days = n * self.period.months, n * self.period.days
        if months or days or self.second_of_day is not None:
            second, micro = divmod(start_us, SECOND_US)
            day, second_of_day = divmod(second + self.zone.offset_at(second), DAY_S)
            if self.second_of_day is not None:
                second_of_day, micro = self.second_of_day, 0
                days_apart = 1
                if self.weekday is not None:
                    days_apart = 7
                    day += (self.weekday - day - _EPOCH_WEEKDAY) % 7
                if self.zone.to_utc(day * DAY_S + second_of_day) * SECOND_US < start_us:
                    day += days_apart
            if day > LAST_DAY:
                return None
            if months:
                # West of UTC, the calendar's first hours are on the last day of the year before it.
                year, month, dom = to_year_month_day(day) if day >= FIRST_DAY else (0, 12, 31)
                years, month0 = divmod(month - 1 + months, 12)
                year, month = year + years, month0 + 1
                if year > 9999:
                    return None
                day = day_number(year, month, min(dom, month_length(year, month)))
            day += days
            if day > LAST_DAY:
                return None
            start_us = self.zone.to_utc(day * DAY_S + second_of_day) * SECOND_US + micro
        occurrence_us = start_us + exact_us
        return occurrence_us if occurrence_us <= LAST_US else None


def _is_after(occurrence_us: int | None, after_us: int) -> bool:
    return occurrence_us is None or occurrence_us > after_us


def parse_period(text: str, *, expression: str | None = None, at: int = 0) -> Period:
    """Parse ``P1Y2M10DT2H30M``, ``P3W`` or ``PT1.5H``: upper case, in order, a fraction only in the last time part.

    Rounds to microseconds, but never to zero. Raises ``InvalidSchedule``.
    """
    source = text if expression is None else expression
    match = _PERIOD.fullmatch(text)
    groups = match.groups() if match else ()
    time_part = groups[4] if groups else None
    if match is None or not any(groups) or time_part == "T":
        raise InvalidSchedule(
            source,
            f'has the period "{text[:64]}", which cannot be read',
            subject="ISO 8601 interval",
            position=at,
            length=len(text),
            hint='write it like "P1M", "P3W", "P1DT12H" or "PT1.5H": capitals, largest unit first',
        )
    weeks, years, months, days, _, *clock = groups
    if any(part and ("." in part or "," in part) and any(clock[i + 1 :]) for i, part in enumerate(clock)):
        raise InvalidSchedule(
            source,
            "has a fraction before its last unit",
            subject="ISO 8601 interval",
            position=at,
            length=len(text),
        )
    exact_us = sum(
        Fraction(part.replace(",", ".")) * scale * SECOND_US
        for part, scale in zip(clock, (3600, 60, 1), strict=True)
        if part
    )
    return Period(
        months=int(years or 0) * 12 + int(months or 0),
        days=int(weeks or 0) * 7 + int(days or 0),
        us=max(1, int(exact_us + Fraction(1, 2))) if exact_us else 0,
    )


def is_instant(text: str) -> bool:
    """Whether a text has the shape of a date and time, valid or not."""
    return _INSTANT.fullmatch(text.strip()) is not None


def parse_instant(text: str, zone: Zone) -> int | None:
    """Return the microseconds of an RFC 3339 instant, or None if the text is not one.

    Without an offset, the text is a wall time of the zone. A blank may stand for the ``T``: ``2030-01-01 18:33``.
    """
    moment = _parse_datetime(text)
    if moment is None:
        return None
    if moment.tzinfo is not None:
        return _in_calendar(to_us(moment))
    return _in_calendar(zone.to_utc(_wall_s(moment)) * SECOND_US + moment.microsecond)


def parse_wall(text: str) -> int | None:
    """Return the wall second of an instant without an offset; None for any other text."""
    moment = _parse_datetime(text)
    return None if moment is None or moment.tzinfo is not None else _wall_s(moment)


def _parse_datetime(text: str) -> datetime | None:
    if not is_instant(text):
        return None
    text = text.strip().replace(",", ".").upper()
    if _LENIENT.search(text):
        return None
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        return None


def _wall_s(moment: datetime) -> int:
    return (moment - datetime(1970, 1, 1)) // timedelta(seconds=1)  # noqa: DTZ001 - a wall reading has no zone


def _in_calendar(us: int) -> int | None:
    return us if FIRST_US <= us <= LAST_US else None


def parse_interval(text: str, *, zone: Zone, start_us: int | None = None) -> PeriodRule:
    """Parse a repeating interval or a bare period. ``start_us`` is the start if the text has none.

    Raises ``InvalidSchedule``.
    """
    parts = text.split("/")

    def fault(reason: str, part: str = "", hint: str | None = None) -> InvalidSchedule:
        at = text.find(part) if part else None
        return InvalidSchedule(
            text,
            reason,
            subject="ISO 8601 interval",
            position=at,
            length=len(part) or 1,
            hint=hint or 'write it like "R/2026-01-31T09:00:00Z/P1M", "R5/PT6H" or "P3W"',
        )

    count: int | None = None
    if text.startswith("P"):
        if len(parts) != 1:
            raise fault("starts with a period", hint='put "R/" and a start before it')
    else:
        repeat = _REPEAT.fullmatch(parts[0])
        if repeat is None:
            raise fault(f'starts with "{parts[0][:64]}", expected R or R and a count', parts[0])
        if len(parts) not in (2, 3):
            raise fault(f"has {len(parts)} part{'s' * (len(parts) != 1)}, expected 2 or 3")
        count = int(repeat.group(1)) if repeat.group(1) else None
    period_at = len(text) - len(parts[-1])
    instants_us = [None if any(map(str.isspace, part)) else parse_instant(part, zone) for part in parts]
    if len(parts) == 3:
        start_us = instants_us[1]
        if start_us is None:
            raise fault(f'has the start "{parts[1][:64]}", which is not a date and time', parts[1])
    if len(parts) == 3 and start_us is not None and (end_us := instants_us[2]) is not None:
        period = Period(us=end_us - start_us)
        if period.us <= 0:
            raise fault("ends before it starts", parts[2])
    else:
        period = parse_period(parts[-1], expression=text, at=period_at)
    if period.mean_us() <= 0:
        raise fault("has a period of zero, which never advances", parts[-1])
    return PeriodRule(period, zone, start_us, count)
