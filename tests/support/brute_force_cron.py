"""A second implementation of cron: checks every minute with ``zoneinfo``. It is slow, simple and independent."""

import calendar
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from functools import cache, lru_cache
from importlib.resources import files
from zoneinfo import ZoneInfo

MINUTE = timedelta(minutes=1)
SMALL_JUMP = timedelta(hours=3)

Matcher = Callable[[datetime], bool]


@cache
def zone(name: str) -> ZoneInfo:
    """A time zone from the database that Chronos uses, read by the standard library."""
    with files("tzdata").joinpath("zoneinfo", *name.split("/")).open("rb") as file:
        return ZoneInfo.from_file(file, key=name)


def matcher(expression: str) -> Matcher:
    """Make a function that matches local minutes with five fields (numbers, L, L-n, nW, LW, d#n, dL)."""
    minute, hour, day, month, weekday = expression.split()
    free_day, free_weekday = day[0] in "*?", weekday[0] in "*?"

    def by_day(wall: datetime) -> bool:
        return any(_day_item(item, wall) for item in day.split(","))

    def by_weekday(wall: datetime) -> bool:
        return any(_weekday_item(item, wall) for item in weekday.split(","))

    def matches(wall: datetime) -> bool:
        if not (_plain(minute, wall.minute, 59) and _plain(hour, wall.hour, 23) and _plain(month, wall.month, 12, 1)):
            return False
        if free_day or free_weekday:
            return by_day(wall) and by_weekday(wall)
        return by_day(wall) or by_weekday(wall)

    return matches


def is_wildcard(expression: str) -> bool:
    minute, hour = expression.split()[:2]
    return minute[0] == "*" or hour[0] == "*"


def walk(expression: str, zone_name: str, begin: datetime, end: datetime, *, literal: bool) -> Iterator[datetime]:
    """Every instant with begin < t <= end, as a cron daemon that wakes each minute would run it."""
    matches = matcher(expression)
    info = zone(zone_name)
    literal = literal or is_wildcard(expression)
    instant = begin.astimezone(UTC).replace(second=0, microsecond=0) - 2 * SMALL_JUMP
    expected: datetime | None = None  # the wall minute that would follow the last one without a change of offset
    caught_up: datetime | None = None  # after a small step back: the wall minute from which fixed jobs run again
    while instant <= end:
        wall = instant.astimezone(info).replace(tzinfo=None)
        fires = matches(wall)
        if not literal and expected is not None and wall != expected:
            if expected < wall < expected + SMALL_JUMP:
                fires = fires or any(matches(expected + n * MINUTE) for n in range((wall - expected) // MINUTE))
            elif expected - SMALL_JUMP < wall < expected:
                caught_up = expected
        if caught_up is not None and wall < caught_up:
            fires = False
        if fires and instant > begin:
            yield instant
        expected = wall + MINUTE
        instant += MINUTE


@lru_cache(10_000)
def _plain(text: str, value: int, high: int, low: int = 0) -> bool:
    return any(_item(item, value, high, low) for item in text.split(","))


def _item(item: str, value: int, high: int, low: int) -> bool:
    base, _, step = item.partition("/")
    if base in "*?":
        first, last = low, high
    elif "-" in base:
        first, last = (int(part) for part in base.split("-"))
    else:
        first, last = int(base), high if step else int(base)
    return value in range(first, last + 1, int(step or 1))


def _day_item(item: str, wall: datetime) -> bool:
    length = calendar.monthrange(wall.year, wall.month)[1]
    if item == "LW":
        return wall.day == max(d for d in range(1, length + 1) if _working(wall, d))
    if item.startswith("L"):
        return wall.day == length - int(item[2:] or 0)
    if item.endswith("W"):
        wanted = int(item[:-1])
        working = [d for d in range(1, length + 1) if _working(wall, d)]
        return wanted <= length and wall.day == min(working, key=lambda d: (abs(d - wanted), d))
    return _item(item, wall.day, 31, 1)


def _working(wall: datetime, day: int) -> bool:
    return wall.replace(day=day).isoweekday() <= 5


def _weekday_item(item: str, wall: datetime) -> bool:
    weekday = wall.isoweekday() % 7
    length = calendar.monthrange(wall.year, wall.month)[1]
    if "#" in item:
        wanted, nth = item.split("#")
        return weekday == int(wanted) % 7 and (wall.day - 1) // 7 + 1 == int(nth)
    if item.endswith("L"):
        return weekday == int(item[:-1]) % 7 and wall.day + 7 > length
    return _item(item, weekday, 6, 0) or (
        weekday == 0 and _item(item, 7, 7, 1) and item[0] not in "*?" and "/" not in item
    )
