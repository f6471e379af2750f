"""Exclusions: dates, date ranges and cron expressions that a schedule passes over."""

import re
from dataclasses import dataclass, replace

from chronos.core.calendar import DAY_S, day_number
from chronos.core.cron import Cron
from chronos.core.cron_text import parse_cron
from chronos.errors import InvalidSchedule

_DATE = r"(\d{4})-(\d\d)-(\d\d)"
_DATES = re.compile(rf"{_DATE}(?:(?:/|\.\.){_DATE})?", re.ASCII)
_EVERY_SECOND = (1 << 60) - 1
_EVERY_MINUTE = (1 << 60) - 1
_EVERY_HOUR = (1 << 24) - 1


@dataclass(frozen=True, slots=True)
class Dates:
    """Whole days of the schedule's zone, both ends included."""

    first_day: int
    last_day: int

    def resume_wall(self, wall: int) -> int | None:
        """The wall second at which an excluded reading may be tried again; None: it is not excluded."""
        if self.first_day <= wall // DAY_S <= self.last_day:
            return (self.last_day + 1) * DAY_S
        return None


@dataclass(frozen=True, slots=True)
class Matching:
    """Every reading a cron expression matches; five fields exclude whole minutes."""

    cron: Cron

    def resume_wall(self, wall: int) -> int | None:
        """As for ``Dates``; the block passed over is the largest the expression surely covers."""
        cron = self.cron
        if not cron.matches_wall(wall):
            return None
        block = 1
        if cron.seconds == _EVERY_SECOND:
            block = 60
            if cron.minutes == _EVERY_MINUTE:
                block = DAY_S if cron.hours == _EVERY_HOUR else 3600
        return (wall // block + 1) * block


Exclusion = Dates | Matching


def parse_exclusion(text: str, *, key: str = "") -> Exclusion:
    """``2026-12-25``, ``2026-12-24/2027-01-02`` or a cron expression of five or six fields (``H`` hashes ``key``)."""
    match = _DATES.fullmatch(text)
    if match is None:
        return _parse_matching(text, key)
    numbers = [int(group) for group in match.groups() if group]
    try:
        first = day_number(*numbers[:3])
        last = day_number(*numbers[3:]) if numbers[3:] else first
    except ValueError:
        raise InvalidSchedule(text, "is no date of the calendar", subject="exclusion", position=0) from None
    if last < first:
        raise InvalidSchedule(text, "ends before it starts", subject="exclusion", position=0)
    return Dates(first, last)


def _parse_matching(text: str, key: str) -> Matching:
    with_seconds = len(text.split()) == 6
    try:
        cron = parse_cron(text, dialect="seconds" if with_seconds else "standard", key=key)
    except InvalidSchedule as error:
        raise error.named(f"exclusion: {error.subject}") from None
    return Matching(cron if with_seconds else replace(cron, seconds=_EVERY_SECOND))
