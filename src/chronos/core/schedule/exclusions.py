"""Exclusions: dates, date ranges and cron expressions at which a schedule does not run.

Exclusions have one normal form. Dates are sorted, adjacent dates are one range, and expressions that differ in a
single field are one expression. The search jumps from an excluded reading to the end of the exclusion, so a thousand
exclusions cost little more than one, and an excluded year little more than an hour.
"""

import re
from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from operator import attrgetter
from typing import Any

from chronos.core.calendar import DAY_S, FIRST_DAY, LAST_DAY, day_number, month_length, to_year_month_day, weekday
from chronos.core.schedule.cron import (
    ALL_DAYS,
    ALL_HOURS,
    ALL_MONTHS,
    ALL_SIXTY,
    ALL_WEEKDAYS,
    SEARCH_YEARS,
    Cron,
    low_bit,
)
from chronos.core.schedule.cron_parser import parse_cron
from chronos.errors import InvalidSchedule

_DATE = r"(\d{4})-(\d\d)-(\d\d)"
_DATES = re.compile(rf"{_DATE}(?:(?:/|\.\.){_DATE})?", re.ASCII)
_MASKS = ("seconds", "minutes", "hours", "days", "months", "weekdays", "last", "nearest", "nearest_last", "nth")
_COLUMNS = (*_MASKS, "either", "wildcard")
_first_day = attrgetter("first_day")
_EVERY_SECOND = Cron(
    seconds=ALL_SIXTY, minutes=ALL_SIXTY, hours=ALL_HOURS, days=ALL_DAYS, months=ALL_MONTHS, weekdays=ALL_WEEKDAYS
)


@dataclass(frozen=True, slots=True)
class DateRange:
    """Whole days in the schedule's zone, both ends included."""

    first_day: int
    last_day: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Exclusions:
    """The exclusions of a schedule: dates, and every reading that one of the expressions matches."""

    dates: tuple[DateRange, ...] = ()
    crons: tuple[Cron, ...] = ()
    _day_crons: tuple[Cron, ...] = field(init=False, repr=False, compare=False)
    _time_crons: tuple[Cron, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_day_crons", tuple(cron for cron in self.crons if _covers(cron, _EVERY_SECOND)))
        object.__setattr__(self, "_time_crons", tuple(cron for cron in self.crons if not _covers(cron, _EVERY_SECOND)))

    def __bool__(self) -> bool:
        return bool(self.dates or self.crons)

    def resume_wall(self, wall: int) -> int | None:
        """Return the wall second at which the search continues; None if ``wall`` is not excluded."""
        day = wall // DAY_S
        free_day = max(self._after_dates(day), _first_free_day(self._day_crons, day))
        if free_day > day:
            return free_day * DAY_S
        return max((cron.stretch_end(wall) for cron in self._time_crons if cron.matches_wall(wall)), default=None)

    def simplify_for(self, cron: Cron) -> "Exclusions":
        """Return equivalent exclusions for ``cron``: one that covers all its times of day covers whole days."""
        return replace(
            self,
            crons=tuple(
                _cover_whole_day(exclusion) if _covers(exclusion, cron) else exclusion for exclusion in self.crons
            ),
        )

    def _after_dates(self, day: int) -> int:
        at = bisect_right(self.dates, day, key=_first_day)
        return self.dates[at - 1].last_day + 1 if at and day <= self.dates[at - 1].last_day else day


NO_EXCLUSIONS = Exclusions()


def parse_exclusions(texts: Iterable[str], *, key: str = "") -> Exclusions:
    """Parse texts: ``2026-12-25``, ``2026-12-24/2027-01-02``, or five or six cron fields (``H`` hashes ``key``).

    Raises ``InvalidSchedule``.
    """
    dates: list[DateRange] = []
    crons: list[Cron] = []
    for text in texts:
        if match := _DATES.fullmatch(text):
            dates.append(_parse_dates(text, [int(group) for group in match.groups() if group]))
        else:
            crons.append(_parse_cron_exclusion(text, key))
    return Exclusions(dates=_merge_dates(dates), crons=_join_crons(crons))


def _parse_dates(text: str, numbers: list[int]) -> DateRange:
    try:
        first = day_number(*numbers[:3])
        last = day_number(*numbers[3:]) if numbers[3:] else first
    except ValueError:
        raise InvalidSchedule(
            text,
            "is not a valid date",
            subject="exclusion",
            position=0,
            length=len(text),
            hint="write it like 2026-12-25",
        ) from None
    if last < first:
        raise InvalidSchedule(text, "ends before it starts", subject="exclusion", position=0)
    return DateRange(first, last)


def _parse_cron_exclusion(text: str, key: str) -> Cron:
    """Parse a cron expression; five fields exclude whole minutes."""
    fields = text.split()
    try:
        if len(fields) == 7:
            raise InvalidSchedule(
                text, "has a year", subject="cron expression", hint="exclude its dates, as in 2027-01-01/2027-12-31"
            )
        cron = parse_cron(text.strip(), dialect="auto", key=key)
    except InvalidSchedule as error:
        raise error.named(f"exclusion: {error.subject}") from None
    return cron if len(fields) == 6 else replace(cron, seconds=ALL_SIXTY)


def _merge_dates(dates: list[DateRange]) -> tuple[DateRange, ...]:
    """Sort the ranges and join those that overlap or touch."""
    merged: list[DateRange] = []
    for span in sorted(dates, key=_first_day):
        if merged and span.first_day <= merged[-1].last_day + 1:
            merged[-1] = DateRange(merged[-1].first_day, max(merged[-1].last_day, span.last_day))
        else:
            merged.append(span)
    return tuple(merged)


def _join_crons(crons: list[Cron]) -> tuple[Cron, ...]:
    """Join expressions that differ in a single field, whose allowed values are then united."""
    rows = [attrgetter(*_COLUMNS)(cron) for cron in crons]
    before = len(rows) + 1
    while 1 < len(rows) < before:
        before = len(rows)
        for column in range(len(_MASKS)):
            masks: dict[tuple[Any, ...], int] = {}
            for row in rows:
                others = (*row[:column], *row[column + 1 :])
                masks[others] = masks.get(others, 0) | row[column]
            rows = [(*others[:column], mask, *others[column:]) for others, mask in masks.items()]
    return tuple(Cron(**dict(zip(_COLUMNS, row, strict=True))) for row in rows)


def _first_free_day(crons: tuple[Cron, ...], day: int) -> int:
    """Return the first day from ``day`` on that no expression matches, or a day past the last date."""
    if not crons or day < FIRST_DAY:
        return day
    for months_passed in range(12 * SEARCH_YEARS):
        if day > LAST_DAY or (months_passed == 12 and _cover_every_day(crons)):
            return LAST_DAY + 1
        year, month, day_of_month = to_year_month_day(day)
        excluded = _excluded_days(crons, year, month, weekday(day - day_of_month + 1))
        in_a_row = low_bit(~(excluded >> day_of_month))
        day += in_a_row
        if day_of_month + in_a_row <= month_length(year, month):
            break
    return day


def _cover_every_day(crons: tuple[Cron, ...]) -> bool:
    """Whether the expressions together match all days of every kind of month."""
    return all(
        _excluded_days(crons, year, month, first) == (2 << month_length(year, month)) - 2
        for month in range(1, 13)
        for year in (2000, 2001)
        for first in range(7)
    )


def _excluded_days(crons: tuple[Cron, ...], year: int, month: int, first: int) -> int:
    days = 0
    for cron in crons:
        if cron.months >> month & 1:
            days |= cron.month_days(year, month, first)
    return days


def _covers(exclusion: Cron, cron: Cron) -> bool:
    """Whether the exclusion matches every time of day of ``cron``."""
    return not (cron.seconds & ~exclusion.seconds or cron.minutes & ~exclusion.minutes or cron.hours & ~exclusion.hours)


def _cover_whole_day(cron: Cron) -> Cron:
    return replace(cron, seconds=ALL_SIXTY, minutes=ALL_SIXTY, hours=ALL_HOURS)
