"""Cron expressions as bitmasks: the wall-clock seconds that match, and the next instant at which one occurs.

A field is an integer whose set bits are the allowed values, so "the next allowed minute" is a shift and a count of
trailing zeros. The days of a month are one mask too, built from the day, weekday and special fields.

In this module a span is a period of constant offset, a gap is wall time that the clock skips, a fold is wall time that
it repeats, and a wall second is a reading of the local clock.

A time zone is a list of spans. Within a span, wall time and UTC differ by a constant. The daylight-saving policy
matters only at the edge of a span (``CronRule``)::

    literal, or a wildcard expression     every span starts at its own first wall reading:
                                          a gap is skipped, a fold is read twice
    robust, and a fixed time              every span starts where the previous one ended:
                                          times skipped by a gap fire at its end, a fold fires once
"""

from bisect import bisect_right
from dataclasses import dataclass, field
from datetime import date

from chronos.core.calendar import (
    DAY_S,
    EPOCH_ORDINAL,
    FIRST_DAY,
    LAST_DAY,
    LAST_US,
    SECOND_US,
    day_number,
    month_length,
    weekday,
)
from chronos.core.schedule.timezones import Zone, far_cycles_s

SEARCH_YEARS = 400  # the Gregorian calendar repeats after this
ALL_SIXTY = (1 << 60) - 1
ALL_HOURS = (1 << 24) - 1
ALL_DAYS = (1 << 32) - 2
ALL_MONTHS = (1 << 13) - 2
ALL_WEEKDAYS = 0x7F
FIRST_YEAR, LAST_YEAR = 1970, 2099  # of the year field
LAST_NTH = 5  # index of "the last one" among first .. fifth
_DAYS_OF_EVERY_MONTH = (1 << 29) - 2  # the 1st to the 28th
_FIRST_OF_EACH_WEEK = 0x10204081  # bits 0, 7, 14, 21, 28: multiplied by a week's mask, it gives a month's
_SMALL_JUMP_S = 3 * 3600  # cron(8): a larger change corrects the clock, so skipped times do not run later
_MARGIN_S = 2 * DAY_S  # more than any two offsets differ
_FIRST_COUNTED_S = FIRST_DAY * DAY_S + _MARGIN_S
_DAILY, _BY_WEEKDAY, _BY_MONTH = range(3)  # how to find the next day: every day, by its weekday, or month by month


@dataclass(frozen=True, slots=True, kw_only=True)
class Cron:
    """The wall-clock readings that an expression matches. Two spellings of the same fields are equal (``mon``, ``1``).

    * ``weekdays``: bit 0 is Sunday.
    * ``last``: bit k is "k days before the month's last day".
    * ``nearest``: bit d is "the weekday nearest to day d", bit 0 "the month's last weekday".
    * ``nearest_last``: bit k is "the weekday nearest to k days before the month's last day".
    * ``nth``: bit 7·i + w is "weekday w for the (i+1)th time in the month"; i = 5 is the last time.
    * ``either``: both day fields are restricted, so a day matches if one of them does.
    * ``wildcard``: the minute or the hour begins with a star.
    * ``years``: bit 0 is 1970; 0 means every year.
    """

    seconds: int
    minutes: int
    hours: int
    days: int
    months: int
    weekdays: int
    last: int = 0
    nearest: int = 0
    nearest_last: int = 0
    nth: int = 0
    either: bool = False
    wildcard: bool = False
    years: int = 0
    _first_s: int = field(init=False, repr=False, compare=False)
    _last_s: int = field(init=False, repr=False, compare=False)
    _first_in_hour: int = field(init=False, repr=False, compare=False)
    _first_in_minute: int = field(init=False, repr=False, compare=False)
    _shape: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        in_minute = low_bit(self.seconds)
        in_hour = low_bit(self.minutes) * 60 + in_minute
        object.__setattr__(self, "_first_in_minute", in_minute)
        object.__setattr__(self, "_first_in_hour", in_hour)
        object.__setattr__(self, "_first_s", low_bit(self.hours) * 3600 + in_hour)
        last_h, last_m, last_s = (mask.bit_length() - 1 for mask in (self.hours, self.minutes, self.seconds))
        object.__setattr__(self, "_last_s", last_h * 3600 + last_m * 60 + last_s)
        special = self.last or self.nearest or self.nearest_last or self.nth or self.either or self.years
        plain = not special and self.months == ALL_MONTHS and self.days == ALL_DAYS
        shape = _BY_MONTH if not plain else _BY_WEEKDAY if self.weekdays != ALL_WEEKDAYS else _DAILY
        object.__setattr__(self, "_shape", shape)

    def next_wall(self, wall: int) -> int | None:
        """Return the first matching wall second at or after ``wall``, at most 400 years away."""
        day, second = divmod(wall, DAY_S)
        if second > self._last_s:
            day, second = day + 1, 0
        if self._shape != _DAILY:
            next_day = self._next_day(day)
            if next_day != day:
                return next_day * DAY_S + self._first_s if next_day <= LAST_DAY else None
        elif day > LAST_DAY:
            return None
        # The day matches and its last reading is not over, so one of the three searches below succeeds.
        hour = second // 3600
        hours_left = self.hours >> hour
        if hours_left & 1:
            in_hour = second - hour * 3600
            minute = in_hour // 60
            minutes_left = self.minutes >> minute
            if minutes_left & 1 and (seconds_left := self.seconds >> (in_hour - minute * 60)):
                return day * DAY_S + second + (seconds_left & -seconds_left).bit_length() - 1
            minutes_left >>= 1
            if minutes_left:
                minute += (minutes_left & -minutes_left).bit_length()
                return day * DAY_S + hour * 3600 + minute * 60 + self._first_in_minute
        hours_left >>= 1
        return day * DAY_S + (hour + (hours_left & -hours_left).bit_length()) * 3600 + self._first_in_hour

    def matches_wall(self, wall: int) -> bool:
        """Return whether the expression matches this wall second."""
        return self.next_wall(wall) == wall

    def count_walls(self, begin: int, end: int) -> int:
        """Count the matching wall seconds from ``begin`` up to, not including, ``end``."""
        if begin >= end:
            return 0
        (day, second), (last_day, last_second) = divmod(begin, DAY_S), divmod(end, DAY_S)
        count = self._count_days(day, last_day) * self._count_in_day(DAY_S)
        if self._next_day(day) == day:
            count -= self._count_in_day(second)
        if self._next_day(last_day) == last_day:
            count += self._count_in_day(last_second)
        return count

    def stretch_end(self, wall: int) -> int:
        """Return a second after ``wall`` up to which every second matches, judged by one field of the clock.

        ``wall`` itself must match.
        """
        if self.seconds != ALL_SIXTY:
            mask, unit, size = self.seconds, 1, 60
        elif self.minutes != ALL_SIXTY:
            mask, unit, size = self.minutes, 60, 60
        else:
            mask, unit, size = self.hours, 3600, 24
        at = wall // unit
        return (at + low_bit(~(mask >> at % size))) * unit

    def month_days(self, year: int, month: int, first_weekday: int) -> int:
        """Return the matching days of a month as a mask: bit 1 is the 1st. ``first_weekday``: of the 1st."""
        length = month_length(year, month)
        days, weekdays = self.days, self.weekdays
        has_special_days = self.last or self.nearest or self.nearest_last
        if weekdays == ALL_WEEKDAYS and not (self.either or has_special_days):
            return days & ((2 << length) - 1)
        by_week = (((weekdays | weekdays << 7) >> first_weekday) & ALL_WEEKDAYS) * _FIRST_OF_EACH_WEEK << 1
        if has_special_days:
            days |= self._special_days(first_weekday, length)
        if self.nth:
            by_week |= self._nth_days(first_weekday, length)
        return (days | by_week if self.either else days & by_week) & ((2 << length) - 1)

    def never_matches(self) -> bool:
        """Return whether no date matches in any year, or in any of its own years."""
        if self.days & _DAYS_OF_EVERY_MONTH and self.weekdays == ALL_WEEKDAYS:
            return False
        if self.years:
            return not any(
                self.months >> month & 1 and self.month_days(year, month, weekday(day_number(year, month, 1)))
                for year in (FIRST_YEAR + bit for bit in _bits(self.years))
                for month in range(1, 13)
            )
        return not any(
            self.months >> month & 1 and self.month_days(year, month, first_weekday)
            for month in range(1, 13)
            for year in (2000, 2001)
            for first_weekday in range(7)
        )

    def _next_day(self, day: int) -> int:
        """Return the first matching day number at or after ``day``, or a number past the last date."""
        if self._shape == _BY_WEEKDAY:
            rest = (self.weekdays | self.weekdays << 7) >> weekday(day)
            return day + (rest & -rest).bit_length() - 1
        if day > LAST_DAY:
            return day
        day = max(day, FIRST_DAY)
        start = date.fromordinal(day + EPOCH_ORDINAL)
        year, month, first_day = start.year, start.month, day - start.day + 1
        months = self.months
        last_year = min(year + SEARCH_YEARS, date.max.year)
        skip = start.day
        if self.years:
            last_year = LAST_YEAR
            next_year = self._next_year(year)
            if next_year > last_year:
                return LAST_DAY + 1
            if next_year > year:
                year, month, skip = next_year, low_bit(months), 1
                first_day = date(year, month, 1).toordinal() - EPOCH_ORDINAL
        while True:
            if months >> month & 1:
                rest = self.month_days(year, month, weekday(first_day)) >> skip
                if rest:
                    return first_day + skip + (rest & -rest).bit_length() - 2
            skip = 1
            rest = months >> (month + 1)
            if rest:
                month += (rest & -rest).bit_length()
            else:
                month = low_bit(months)
                year = self._next_year(year + 1)
                if year > last_year:
                    return LAST_DAY + 1
            first_day = date(year, month, 1).toordinal() - EPOCH_ORDINAL

    def _next_year(self, year: int) -> int:
        """Return the first allowed year from ``year`` on, or a year past the last one."""
        if not self.years:
            return year
        year = max(year, FIRST_YEAR)
        rest = self.years >> (year - FIRST_YEAR)
        return year + low_bit(rest) if rest else LAST_YEAR + 1

    def _count_in_day(self, second: int) -> int:
        """Count the readings of a matching day before its ``second``."""
        hour, in_hour = divmod(second, 3600)
        minute, in_minute = divmod(in_hour, 60)
        count = (self.hours & (1 << hour) - 1).bit_count() * self.minutes.bit_count() * self.seconds.bit_count()
        if self.hours >> hour & 1:
            count += (self.minutes & (1 << minute) - 1).bit_count() * self.seconds.bit_count()
            if self.minutes >> minute & 1:
                count += (self.seconds & (1 << in_minute) - 1).bit_count()
        return count

    def _count_days(self, begin: int, end: int) -> int:
        """Count the matching days from ``begin`` up to, not including, ``end``, month by month."""
        if self._shape == _DAILY:
            return end - begin
        count = 0
        while begin < end:
            day = date.fromordinal(begin + EPOCH_ORDINAL)
            first_day = begin - day.day + 1
            following = first_day + month_length(day.year, day.month)
            if self.months >> day.month & 1 and self._next_year(day.year) == day.year:
                days = self.month_days(day.year, day.month, weekday(first_day)) >> day.day
                count += (days & (1 << min(end, following) - begin) - 1).bit_count()
            begin = following
        return count

    def _special_days(self, first_weekday: int, length: int) -> int:
        days = 0
        for back in _bits(self.last):
            if back < length:
                days |= 1 << (length - back)
        for target in _bits(self.nearest):
            if target <= length:
                days |= 1 << _nearest_weekday(target or length, first_weekday, length, inward=target == 0)
        for back in _bits(self.nearest_last):
            if back < length:
                days |= 1 << _nearest_weekday(length - back, first_weekday, length, inward=False)
        return days

    def _nth_days(self, first_weekday: int, length: int) -> int:
        days = 0
        for bit in _bits(self.nth):
            nth, weekday = divmod(bit, 7)
            day = 1 + (weekday - first_weekday) % 7
            if nth == LAST_NTH:
                day += (length - day) // 7 * 7
            else:
                day += 7 * nth
            if day <= length:
                days |= 1 << day
        return days


@dataclass(frozen=True, slots=True)
class CronRule:
    """The rule of a schedule that is a cron expression, in a time zone and under a daylight-saving policy."""

    cron: Cron
    zone: Zone
    literal: bool = False

    def next_us(self, after_us: int) -> int | None:
        """Return the first matching instant strictly after ``after_us``."""
        instant = after_us // SECOND_US + 1
        starts, offsets, horizon = self.zone.table
        if instant >= horizon:
            if far_s := far_cycles_s(instant):
                return self._next_in_far_future(after_us, far_s)
            starts, offsets, horizon = self.zone.table_until(instant)
        i = bisect_right(starts, instant) - 1
        offset = offsets[i]
        low = instant + offset
        if instant - starts[i] < _SMALL_JUMP_S:
            low = self._first_wall(instant, starts[i], offsets[i - 1], offset)
        wall = self.cron.next_wall(low)
        if wall is None:
            return None
        if wall - offset >= horizon:
            starts, offsets, horizon = self.zone.table_until(wall - offset + _MARGIN_S)
        next_s: int | None = wall - offset
        if wall - offset >= starts[i + 1]:
            next_s = self._next_in_later_span(i, instant, low, wall, starts, offsets)
        elif wall - offset < instant:
            next_s = instant  # skipped by the gap before this span, so it runs right after the gap
        return next_s * SECOND_US if next_s is not None and next_s <= LAST_US // SECOND_US else None

    def count_us(self, after_us: int, until_us: int) -> int | None:
        """Count the instants with after < t <= until; None at the far ends of the calendar."""
        instant, end = after_us // SECOND_US + 1, until_us // SECOND_US + 1
        if instant < _FIRST_COUNTED_S or far_cycles_s(end):
            return None
        starts, offsets, _ = self.zone.table_until(end + _MARGIN_S)
        count = 0
        i = bisect_right(starts, instant) - 1
        while instant < end:
            until, offset = min(end, starts[i + 1]), offsets[i]
            first, wall = self._first_wall(instant, starts[i], offsets[i - 1], offset), instant + offset
            if first < wall:  # everything the gap skipped is one run, at the span's first second
                count += self.cron.count_walls(first, wall + 1) > 0
                first = wall + 1
            count += self.cron.count_walls(first, until + offset)
            instant = until
            i += 1
        return count

    def _next_in_far_future(self, after_us: int, far_s: int) -> int | None:
        """Search whole 400-year cycles earlier, because the calendar repeats after them."""
        if self.cron.years:
            return None
        near_us = self.next_us(after_us - far_s * SECOND_US)
        return None if near_us is None or near_us + far_s * SECOND_US > LAST_US else near_us + far_s * SECOND_US

    def nominal_wall(self, us: int) -> int:
        """Return the nominal wall second of a run: inside the gap for a run that a gap moved, else its own reading."""
        far_s = far_cycles_s(us // SECOND_US)
        instant = us // SECOND_US - far_s
        starts, offsets, _ = self.zone.table_until(instant)
        i = bisect_right(starts, instant) - 1
        wall = instant + offsets[i]
        if instant == starts[i]:
            low = self._first_wall(instant, instant, offsets[i - 1], offsets[i])
            skipped = self.cron.next_wall(low)
            if skipped is not None and low <= skipped < wall:
                return skipped + far_s
        return wall + far_s

    def _first_wall(self, instant: int, start: int, before: int, offset: int) -> int:
        """Return the wall second from which a span counts, for a search that begins at ``instant`` within it."""
        if self.literal or self.cron.wildcard or abs(offset - before) >= _SMALL_JUMP_S:
            return instant + offset
        if instant == start:
            return start + before
        return max(instant + offset, start + before) if offset < before else instant + offset

    def _next_in_later_span(
        self, i: int, instant: int, low: int, wall: int, starts: list[int], offsets: list[int]
    ) -> int | None:
        """Find the instant of ``wall``, which lies past span ``i``; nothing matches from ``low`` to ``wall``."""
        while True:
            i += 1
            if (
                starts[i] > instant + _MARGIN_S
            ):  # no span this late can go back before ``low``: jump to the span of ``wall``
                i = max(i, bisect_right(starts, wall - _MARGIN_S) - 1)
            start, offset = starts[i], offsets[i]
            first = self._first_wall(start, start, offsets[i - 1], offset)
            if first > wall or first < low:
                next_wall = self.cron.next_wall(first)
                if next_wall is None:
                    return None
                wall, low = next_wall, first
                if wall > self.zone.table[2]:
                    starts, offsets, _ = self.zone.table_until(wall + _MARGIN_S)
            if wall - offset < starts[i + 1]:
                return max(wall - offset, start)


def low_bit(mask: int) -> int:
    """Return the index of the lowest set bit."""
    return (mask & -mask).bit_length() - 1


def _bits(mask: int) -> list[int]:
    return [i for i in range(mask.bit_length()) if mask >> i & 1]


def _nearest_weekday(day: int, first_weekday: int, length: int, *, inward: bool) -> int:
    """Return the day from Monday to Friday nearest to ``day`` within the month; ``inward``: never a later day."""
    weekday = (first_weekday + day - 1) % 7
    if weekday == 6:
        return day - 1 if day > 1 else day + 2
    if weekday == 0:
        return day + 1 if day < length and not inward else day - 2
    return day
