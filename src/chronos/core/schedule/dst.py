"""The effect of clock changes on a schedule: runs that move, are skipped, or whose time happens twice.

A change of offset either skips wall readings (a gap) or repeats them (a fold)::

    gap    01:58 01:59 | 03:00 03:01        fold   01:58 01:59 | 01:00 01:01
                  02:00..02:59 do not exist          01:00..01:59 happen twice

This module does not implement a daylight-saving policy. It computes the readings a schedule names, and the schedule
itself answers whether and when they run. A change produces at most one oddity, however often the schedule runs. It
produces none if the schedule runs around the clock and keeps its interval through the change, as ``*/15 * * * *`` does.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import StrEnum

from chronos.core.calendar import DAY_S, SECOND_US, to_year_month_day
from chronos.core.schedule.cron import ALL_HOURS, Cron, CronRule
from chronos.core.schedule.iso8601 import PeriodRule
from chronos.core.schedule.once import DelayRule, OnceRule
from chronos.core.schedule.schedule import Schedule
from chronos.core.schedule.timezones import Zone, get_zone
from chronos.core.schedule.union import UnionRule

_MAX_READINGS = 10_000  # examined per change
_MAX_LISTED_READINGS = 3  # more readings are written as a range
_FAR_S = 3 * 3600  # the longest change compared in full; a move across the date line is longer

_NextWall = Callable[[int], int | None]


class OddityKind(StrEnum):
    """The effect of a clock change on the runs."""

    MOVED = "moved"  # the reading does not exist; the run has another one
    SKIPPED = "skipped"  # the reading does not exist; the run does not happen
    ONCE = "once"  # the reading happens twice; the run is the first
    TWICE = "twice"  # the reading happens twice; there are two runs


@dataclass(frozen=True, slots=True, kw_only=True)
class Oddity:
    """The effect of one clock change on a schedule.

    * ``at_us``: the first affected run, or the change itself if nothing runs.
    * ``wall``: the first affected reading, in seconds since 1970 on the zone's clock; ``count``: how many.
    * ``message``: one sentence.
    """

    kind: OddityKind
    at_us: int
    wall: int
    count: int
    message: str


@dataclass(frozen=True, slots=True)
class _ClockChange:
    """One change of offset; ``low`` up to, not including, ``high`` are the wall readings skipped or repeated."""

    zone: Zone
    at: int
    before: int
    after: int

    @property
    def is_gap(self) -> bool:
        return self.after > self.before

    @property
    def low(self) -> int:
        return self.at + min(self.before, self.after)

    @property
    def high(self) -> int:
        return self.at + max(self.before, self.after)

    @property
    def length(self) -> int:
        return self.high - self.low


def find_oddities(schedule: Schedule, begin_us: int, end_us: int) -> list[Oddity]:
    """Return the oddities of the changes from ``begin_us`` to ``end_us``, in order; at most one per change and member.

    Includes a repeated hour that has not ended at ``begin_us``. An interval without a start has no oddities.
    """
    if isinstance(schedule.rule, UnionRule):
        found = [oddity for member in schedule.members for oddity in find_oddities(member, begin_us, end_us)]
        return sorted(found, key=lambda oddity: oddity.at_us)
    next_wall = _find_next_wall(schedule)
    if next_wall is None:
        return []
    begin, end = begin_us // SECOND_US, end_us // SECOND_US
    result = []
    for at, before, after in schedule.zone.transitions(begin - 2 * DAY_S, end):
        change = _ClockChange(schedule.zone, at, before, after)
        if at > begin or (not change.is_gap and at + change.length > begin):
            walls = _walls_in(next_wall, change)
            oddity = (_gap_oddity if change.is_gap else _fold_oddity)(schedule, change, walls) if walls else None
            if oddity is not None:
                result.append(oddity)
    return result


def _find_next_wall(schedule: Schedule) -> _NextWall | None:
    """Return a function that finds the first reading named by the schedule, at or after another reading.

    None for exact intervals and instants, which no clock change affects. A period with an exact part (``P1DT12H``)
    counts as an exact interval: its time of day differs from run to run anyway.
    """
    rule = schedule.rule
    if isinstance(rule, CronRule):
        return rule.cron.next_wall
    utc = get_zone("UTC")
    on_wall: PeriodRule | DelayRule | OnceRule
    if isinstance(rule, OnceRule):
        if rule.wall is None:
            return None
        on_wall = OnceRule(rule.wall * SECOND_US)
    elif isinstance(rule, PeriodRule | DelayRule) and rule.start_us is not None:
        exact_us = rule.period.us if isinstance(rule, PeriodRule) else rule.delay.us
        if exact_us:
            return None
        on_wall = replace(rule, zone=utc, start_us=_wall_us(schedule.zone, rule.start_us))
    else:
        return None

    def next_wall(wall: int) -> int | None:
        next_us = on_wall.next_us(wall * SECOND_US - 1)
        return None if next_us is None else next_us // SECOND_US

    return next_wall


def _wall_us(zone: Zone, us: int) -> int:
    return us + zone.offset_at(us // SECOND_US) * SECOND_US


def _walls_in(next_wall: _NextWall, change: _ClockChange) -> list[int]:
    walls: list[int] = []
    wall = next_wall(change.low)
    while wall is not None and wall < change.high and len(walls) < _MAX_READINGS:
        walls.append(wall)
        wall = next_wall(wall + 1)
    return walls


def _gap_oddity(schedule: Schedule, change: _ClockChange, walls: list[int]) -> Oddity | None:
    rule = schedule.rule
    if not isinstance(rule, CronRule):
        return _moved_oddity(schedule, change, walls, walls[0] - change.before)
    if rule.nominal_wall(change.at * SECOND_US) < change.high:
        if walls[0] == change.low and _is_pace_kept(rule.cron, change):
            return None
        runs_after_gap = rule.cron.matches_wall(change.high)
        merged = f", one run with that of {_format_clock(change.high)}" if runs_after_gap else ""
        return _moved_oddity(schedule, change, walls, change.at, merged)
    walls = [wall for wall in walls if not _is_excluded(schedule, wall, change.at)]
    if not walls or _is_pace_kept(rule.cron, change):
        return None
    return _build_oddity(
        OddityKind.SKIPPED, change.at * SECOND_US, change, walls, f"will be skipped{_why_skipped(rule)}"
    )


def _why_skipped(rule: CronRule) -> str:
    if rule.literal:
        return ""
    if rule.cron.wildcard:
        return ', because a schedule whose minute or hour begins with "*" does not run skipped times later'
    return ", because times skipped by so large a change do not run later"


def _moved_oddity(
    schedule: Schedule, change: _ClockChange, walls: list[int], run_at: int, merged: str = ""
) -> Oddity | None:
    at_us = _find_run(schedule, run_at)
    if at_us is None:
        return None
    wall = run_at + change.after
    other_date = "" if wall // DAY_S == walls[0] // DAY_S else f" on {_format_date(wall)}"
    run = "run at" if len(walls) == 1 else "run once, at"
    verdict = f"will {run} {_format_clock(wall, change.after)}{other_date}{merged}"
    return _build_oddity(OddityKind.MOVED, at_us, change, walls, verdict)


def _fold_oddity(schedule: Schedule, change: _ClockChange, walls: list[int]) -> Oddity | None:
    walls = [wall for wall in walls if _find_run(schedule, wall - change.before) is not None]
    at_us = _find_run(schedule, walls[0] - change.before) if walls else None
    if at_us is None:
        return None
    first, second = _format_clock(walls[0], change.before), _format_clock(walls[0], change.after)
    at = "at" if len(walls) == 1 else "from"
    if _find_run(schedule, walls[0] - change.after) is None:
        return _build_oddity(OddityKind.ONCE, at_us, change, walls, f"will run once, the first time, {at} {first}")
    if isinstance(schedule.rule, CronRule) and _is_pace_kept(schedule.rule.cron, change):
        return None
    verdict = f"will run twice, {at} {first} and again {at} {second}"
    return _build_oddity(OddityKind.TWICE, at_us, change, walls, verdict)


def _build_oddity(kind: OddityKind, at_us: int, change: _ClockChange, walls: list[int], verdict: str) -> Oddity:
    """Write "02:30 Europe/Paris does not exist on 2027-03-28; it will run at 03:00 +02:00"."""
    is_single = len(walls) == 1
    if change.is_gap:
        problem = "does not exist" if is_single else "do not exist"
    else:
        problem = "happens twice" if is_single else "happen twice"
    pronoun = "it" if is_single else "they"
    message = f"{_format_walls(walls, change.zone.name)} {problem} on {_format_date(walls[0])}; {pronoun} {verdict}"
    return Oddity(kind=kind, at_us=at_us, wall=walls[0], count=len(walls), message=message)


def _is_pace_kept(cron: Cron, change: _ClockChange) -> bool:
    """Whether the schedule runs around the clock and the change does not alter its intervals.

    Compares the readings after the change with the readings that an unchanged clock would have had.
    """
    if cron.hours != ALL_HOURS:
        return False
    old_from, new_from = change.at + change.before, change.at + change.after
    far = 2 * min(change.length, _FAR_S)
    passed = 0
    for _ in range(_MAX_READINGS):
        old, new = cron.next_wall(old_from + passed), cron.next_wall(new_from + passed)
        old_in = far if old is None else min(old - old_from, far)
        new_in = far if new is None else min(new - new_from, far)
        if old_in != new_in:
            return False
        if old_in == far:
            return True
        passed = old_in + 1
    return True


def _is_excluded(schedule: Schedule, wall: int, at: int) -> bool:
    """Whether the window or the exclusions leave out a reading that does not exist."""
    us = at * SECOND_US
    if schedule.start_us is not None and us < schedule.start_us:
        return True
    if schedule.end_us is not None and us > schedule.end_us:
        return True
    return schedule.exclude.resume_wall(wall) is not None


def _find_run(schedule: Schedule, instant: int) -> int | None:
    """Return the run within a second; None if the exclusions or the window leave it out."""
    run_us = schedule.next_us(instant * SECOND_US - 1)
    return run_us if run_us is not None and run_us // SECOND_US == instant else None


def _format_walls(walls: list[int], zone: str) -> str:
    clocks = [_format_clock(wall) for wall in walls[:_MAX_LISTED_READINGS]]
    if len(walls) == 1:
        return f"{clocks[0]} {zone}"
    if len(walls) <= _MAX_LISTED_READINGS:
        return f"{', '.join(clocks[:-1])} and {clocks[-1]} {zone}"
    count = f"{len(walls):,}" if len(walls) < _MAX_READINGS else f"{_MAX_READINGS:,} or more"
    return f"{clocks[0]} to {_format_clock(walls[-1])} {zone} ({count} runs)"


def _format_date(wall: int) -> str:
    year, month, day = to_year_month_day(wall // DAY_S)
    return f"{year:04}-{month:02}-{day:02}"


def _format_clock(wall: int, offset: int | None = None) -> str:
    """``02:30``, ``02:30:15``, and with an offset ``03:00 +02:00``."""
    hours, rest = divmod(wall % DAY_S, 3600)
    minutes, seconds = divmod(rest, 60)
    text = f"{hours:02}:{minutes:02}" + (f":{seconds:02}" if seconds else "")
    if offset is None:
        return text
    hours, rest = divmod(abs(offset), 3600)
    return f"{text} {'-' if offset < 0 else '+'}{hours:02}:{rest // 60:02}"
