"""Time zones as tables of whole seconds, read only from the ``tzdata`` package.

The standard library's ``zoneinfo`` prefers the operating system's files, so two machines may disagree. It also hides
its transitions, which the search for the next instant needs. So this module reads the compiled files (RFC 9636)::

    starts   [-inf, t1, t2, ...]   UTC second at which each offset takes effect
    offsets  [  o0, o1, o2, ...]   seconds east of UTC from then on
"""

import re
from bisect import bisect_right
from difflib import get_close_matches
from functools import cache
from importlib.resources import files
from struct import unpack_from
from typing import Final

from chronos.core.calendar import DAY_S, day_number, is_leap, month_length, weekday

FOREVER: Final = 1 << 62
_KNOWN_UNTIL_YEAR: Final = 2060  # recurring rules are expanded this far at first, and further on demand
_EXTEND_YEARS: Final = 60
_RULE_PERIOD_S: Final = 367 * DAY_S  # a recurring rule takes effect at least once within it
_FAR_S: Final = day_number(2500, 1, 1) * DAY_S  # long after the last listed transition of any zone
_CYCLE_S: Final = 146_097 * DAY_S
_HEADER = 44


def far_cycles_s(instant: int) -> int:
    """Return the seconds of whole 400-year cycles to subtract from an instant in the far future, else 0.

    The calendar and the rule of every zone repeat after 400 years, so tables need not go further.
    """
    return 0 if instant < _FAR_S else ((instant - _FAR_S) // _CYCLE_S + 1) * _CYCLE_S


class Zone:
    """One time zone. Callers see it as immutable; its table only grows at the far end."""

    __slots__ = ("_rule", "_rule_from", "name", "table")

    def __init__(self, name: str, starts: list[int], offsets: list[int], rule: "_Rule | None", rule_from: int) -> None:
        self.name = name
        self._rule = rule
        self._rule_from = rule_from  # the last listed transition, even one that changes only the abbreviation
        #: (starts, offsets, horizon): complete for instants before ``horizon``. Starts end in FOREVER.
        self.table: tuple[list[int], list[int], int] = ([-FOREVER, *starts, FOREVER], offsets, FOREVER)
        if rule is not None:
            self.table = ([-FOREVER, *starts, FOREVER], offsets, starts[-1] if starts else -FOREVER)
            self._extend_to_year(_KNOWN_UNTIL_YEAR)

    def table_until(self, instant: int) -> tuple[list[int], list[int], int]:
        """Return the table, complete at least until ``instant`` (UTC or wall seconds, with a margin)."""
        if instant >= self.table[2]:
            self._extend_to_year(1970 + instant // 31_556_952 + _EXTEND_YEARS)
        return self.table

    def offset_at(self, instant: int) -> int:
        """Return the seconds east of UTC at a UTC second."""
        instant -= far_cycles_s(instant)
        starts, offsets, _ = self.table_until(instant)
        return offsets[bisect_right(starts, instant) - 1]

    def span_at(self, instant: int) -> tuple[int, int]:
        """Return the offset at a UTC second, and the second at which it changes."""
        far_s = far_cycles_s(instant)
        instant -= far_s
        starts, offsets, _ = self.table_until(instant + _RULE_PERIOD_S)
        i = bisect_right(starts, instant)
        return offsets[i - 1], starts[i] + far_s

    def to_utc(self, wall: int) -> int:
        """Return the UTC second of a wall reading; in a gap by the offset before it, in a fold the first time."""
        far_s = far_cycles_s(wall)
        wall -= far_s
        starts, offsets, _ = self.table_until(wall)
        # Offsets are under 26 h, so the right span starts no earlier than the span two days before.
        i = bisect_right(starts, wall - 2 * DAY_S) - 1
        while wall - offsets[i] >= starts[i + 1]:
            if wall - offsets[i + 1] < starts[i + 1]:  # the reading is in the gap before the next span
                break
            i += 1
        return wall - offsets[i] + far_s

    def transitions(self, begin: int, end: int) -> list[tuple[int, int, int]]:
        """Return (instant, offset before, offset after) of every change with begin < instant <= end."""
        far_s = far_cycles_s(begin)
        begin, end = begin - far_s, end - far_s
        starts, offsets, _ = self.table_until(end)
        lo, hi = bisect_right(starts, begin), bisect_right(starts, end)
        return [(starts[i] + far_s, offsets[i - 1], offsets[i]) for i in range(lo, hi)]

    def _extend_to_year(self, year: int) -> None:
        rule = self._rule
        if rule is None:
            return
        starts, offsets = self.table[0][:-1], self.table[1][:]
        first = 1970 if len(starts) == 1 else 1970 + starts[-1] // 31_556_952 - 1
        for y in range(first, year + 1):
            for at, offset in rule.transitions(y):
                if at > max(starts[-1], self._rule_from) and offset != offsets[-1]:
                    starts.append(at)
                    offsets.append(offset)
        self.table = ([*starts, FOREVER], offsets, day_number(min(year, 9999), 1, 1) * DAY_S)

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return get_zone, (self.name,)

    def __repr__(self) -> str:
        return f"Zone({self.name!r})"


class _Rule:
    """The POSIX rule at the end of a zone file, for the years after its last listed transition."""

    __slots__ = ("_changes", "_dst", "_std")

    _OFFSET = r"([+-]?\d+(?::\d+){0,2})"
    _PATTERN = re.compile(
        rf"(?:<[^>]+>|[A-Za-z]+){_OFFSET}(?:<[^>]+>|[A-Za-z]+){_OFFSET}?,([^,/]+)(?:/{_OFFSET})?,([^,/]+)(?:/{_OFFSET})?"
    )

    def __init__(self, std: int, dst: int, changes: tuple[tuple[str, int], tuple[str, int]]) -> None:
        self._std = std
        self._dst = dst
        self._changes = changes

    @classmethod
    def parse(cls, text: str) -> "_Rule | None":
        """Parse the rule; None if the zone keeps its offset forever."""
        match = cls._PATTERN.fullmatch(text)
        if match is None:
            return None
        std, dst, begin, begin_at, end, end_at = match.groups()
        std_s = -_hms(std)
        dst_s = -_hms(dst) if dst else std_s + 3600
        return cls(std_s, dst_s, ((begin, _hms(begin_at or "2")), (end, _hms(end_at or "2"))))

    def transitions(self, year: int) -> list[tuple[int, int]]:
        """Return (UTC second, offset from then on) of a year, in order."""
        if not 1 <= year <= 9999:
            return []
        (begin, begin_s), (end, end_s) = self._changes
        return sorted(
            [
                (_rule_day(begin, year) * DAY_S + begin_s - self._std, self._dst),
                (_rule_day(end, year) * DAY_S + end_s - self._dst, self._std),
            ]
        )


def _hms(text: str) -> int:
    sign = -1 if text.startswith("-") else 1
    hours, minutes, seconds = ([int(part) for part in text.lstrip("+-").split(":")] + [0, 0])[:3]
    return sign * (hours * 3600 + minutes * 60 + seconds)


def _rule_day(text: str, year: int) -> int:
    """Return the day number of ``M3.2.0`` (month, week, weekday), ``J60`` (1-365, no leap day) or ``59`` (0-365)."""
    if text[0] == "M":
        month, week, day_of_week = (int(part) for part in text[1:].split("."))
        first = day_number(year, month, 1)
        day = 1 + (day_of_week - weekday(first)) % 7 + 7 * (week - 1)
        return first + (day if day <= month_length(year, month) else day - 7) - 1
    new_year = day_number(year, 1, 1)
    if text[0] == "J":
        n = int(text[1:])
        return new_year + n - 1 + (1 if n >= 60 and is_leap(year) else 0)
    return new_year + int(text)


def _decode(name: str, data: bytes) -> Zone:
    def counts(at: int) -> tuple[int, ...]:
        return unpack_from(">6l", data, at + 20)

    isut, isstd, leap, times, types, chars = counts(0)
    second = _HEADER + times * 5 + types * 6 + chars + leap * 8 + isstd + isut  # after the 32-bit block
    isut, isstd, leap, times, types, chars = counts(second)
    at = second + _HEADER
    instants = unpack_from(f">{times}q", data, at)
    indexes = unpack_from(f">{times}B", data, at + times * 8)
    at += times * 9
    offset_of = [unpack_from(">l", data, at + i * 6)[0] for i in range(types)]
    at += types * 6 + chars + leap * 12 + isstd + isut
    footer = data[at:].decode("ascii").strip("\n")

    starts: list[int] = []
    offsets = [offset_of[0]]
    for instant, index in zip(instants, indexes, strict=True):
        if offset_of[index] != offsets[-1]:  # ignore a change of the abbreviation only
            starts.append(instant)
            offsets.append(offset_of[index])
    return Zone(name, starts, offsets, _Rule.parse(footer), instants[-1] if instants else -FOREVER)


@cache
def zone_names() -> frozenset[str]:
    """Return the names of all zones in the database, links included."""
    return frozenset(files("tzdata").joinpath("zones").read_text("ascii").split())


_ZONES: dict[str, Zone] = {}


def get_zone(name: str) -> Zone:
    """Return the zone of an IANA name, spelt exactly. Raises LookupError with a suggestion.

    There is one object per name, also with concurrent callers: schedules compare their zones by identity.
    """
    zone = _ZONES.get(name)
    if zone is None:
        if name not in zone_names():
            raise LookupError(f"unknown time zone {name!r}{_suggestion(name)}")
        resource = files("tzdata").joinpath("zoneinfo", *name.split("/"))
        zone = _ZONES.setdefault(name, _decode(name, resource.read_bytes()))
    return zone


def _suggestion(name: str) -> str:
    key = name[:64].replace(" ", "_").lower()
    by_lower = {known.lower(): known for known in zone_names()}
    cities = {known.lower().rsplit("/", 1)[-1]: known for known in sorted(zone_names(), reverse=True)}
    for table in (by_lower, cities):
        if close := get_close_matches(key, table, n=1, cutoff=0.75):
            return f"; did you mean {table[close[0]]!r}?"
    return "; use an IANA name such as 'Europe/Paris' or 'UTC'"
