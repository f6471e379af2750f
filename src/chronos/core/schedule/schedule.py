"""A schedule: a rule, the window in which it applies, and exclusions. A pure value with one essential method."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime
from hashlib import blake2b

from chronos.core.calendar import DAY_S, FIRST_US, LAST_DAY, LAST_US, SECOND_US, from_us, to_us
from chronos.core.schedule.cron import CronRule
from chronos.core.schedule.describe import describe
from chronos.core.schedule.exclusions import NO_EXCLUSIONS, Exclusions
from chronos.core.schedule.interval import EveryRule
from chronos.core.schedule.iso8601 import PeriodRule
from chronos.core.schedule.once import DelayRule, OnceRule
from chronos.core.schedule.plugins import CustomRule
from chronos.core.schedule.random_interval import RandomRule
from chronos.core.schedule.timezones import Zone
from chronos.core.schedule.union import UnionRule

_MAX_EXCLUDED_STRETCHES = 10_000  # per search; after that many, the schedule counts as ended

_NEAR_S = 2 * DAY_S  # longer than any fold
_CALENDAR_END_S = (LAST_DAY + 1) * DAY_S

Rule = CronRule | EveryRule | RandomRule | PeriodRule | OnceRule | DelayRule | CustomRule | UnionRule
_Fixed = CronRule | OnceRule | CustomRule  # rules that need no anchor


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """A schedule. Immutable and hashable; schedules with the same rule, zone, window and exclusions are equal.

    A union has no window and no exclusions of its own: its members have them.

    Public methods take and return aware datetimes. Methods whose name ends in ``_us`` use microseconds since 1970 UTC.
    """

    rule: Rule
    zone: Zone
    start_us: int | None = None
    end_us: int | None = None
    jitter_us: int = 0
    exclude: Exclusions = NO_EXCLUSIONS
    key: str = ""
    text: str = field(default="", compare=False)
    _plain: bool = field(init=False, repr=False, compare=False)
    _excluded: Exclusions = field(init=False, repr=False, compare=False)  # simplified for the search

    def __post_init__(self) -> None:
        excluded = self.exclude or NO_EXCLUSIONS
        object.__setattr__(self, "_plain", excluded is NO_EXCLUSIONS and self.start_us is None and self.end_us is None)
        if excluded is not NO_EXCLUSIONS and isinstance(self.rule, CronRule):
            excluded = excluded.simplify_for(self.rule.cron)
        object.__setattr__(self, "_excluded", excluded)

    def next_after(self, instant: datetime) -> datetime | None:
        """Return the first instant strictly after ``instant``, in UTC; None if no instant follows."""
        after_us = to_us(instant)
        if not FIRST_US <= after_us <= LAST_US:
            after_us = _within_calendar(after_us)
        next_us = (self.rule if self._plain else self).next_us(after_us)
        return None if next_us is None else from_us(next_us)

    def between(self, a: datetime, b: datetime) -> Iterator[datetime]:
        """Yield every instant t with a < t <= b, in order."""
        last_us = to_us(b)
        next_us = self.next_us(_within_calendar(to_us(a)))
        while next_us is not None and next_us <= last_us:
            yield from_us(next_us)
            next_us = self.next_us(next_us)

    def describe(self) -> str:
        """Return the schedule in words that ``parse_schedule`` reads back: "Weekdays at 09:00, Europe/Paris"."""
        return describe(self)

    def next_us(self, after_us: int) -> int | None:
        """Return ``next_after`` in microseconds."""
        if self._plain:
            return self.rule.next_us(after_us)
        if self.start_us is not None and after_us < self.start_us:
            after_us = self.start_us - 1
        rule, original_us = self.rule, after_us
        for _ in range(_MAX_EXCLUDED_STRETCHES):
            candidate_us = rule.next_us(after_us)
            if candidate_us is None or (self.end_us is not None and candidate_us > self.end_us):
                return None
            resume_us = self._resume_us(candidate_us)
            if resume_us is None:
                return candidate_us
            if resume_us > LAST_US:
                return None
            after_us = max(candidate_us, resume_us - 1)
            rule = self.anchor(original_us).rule  # an interval without a start is counted from the caller's instant
        return None

    def count_us(self, after_us: int, until_us: int) -> int | None:
        """Count the instants with after < t <= until; None if that requires a walk."""
        if self._excluded:
            return None
        if self.start_us is not None:
            after_us = max(after_us, self.start_us - 1)
        if self.end_us is not None:
            until_us = min(until_us, self.end_us)
        return self.rule.count_us(after_us, until_us) if after_us < until_us else 0

    def due_us(self, scheduled_us: int) -> int:
        """Return when the run of an instant is due: the instant plus its jitter, which is the same on every node."""
        if not self.jitter_us:
            return scheduled_us
        if isinstance(self.rule, UnionRule):
            return self.rule.due_us(scheduled_us)
        digest = blake2b(f"{self.key}\0{scheduled_us}".encode("utf-8", "surrogatepass"), digest_size=8).digest()
        return scheduled_us + int.from_bytes(digest) % (self.jitter_us + 1)

    @property
    def anchored(self) -> bool:
        """Whether the instants are fixed, rather than counted from the instant passed to ``next_after``."""
        if isinstance(self.rule, UnionRule):
            return self.rule.anchored
        return isinstance(self.rule, _Fixed) or self.rule.start_us is not None

    @property
    def anchor_us(self) -> int | None:
        """The start from which the instants are counted; of a union, the one that ``anchor`` gave to it."""
        return self.rule.anchor_us if isinstance(self.rule, UnionRule) else self.start_us

    @property
    def members(self) -> "tuple[Schedule, ...]":
        """The schedules of a union; the schedule itself if it is not a union."""
        return self.rule.members if isinstance(self.rule, UnionRule) else (self,)

    def anchor(self, start_us: int) -> "Schedule":
        """Return the schedule counted from ``start_us``, or the schedule itself if it is anchored."""
        if self.anchored:
            return self
        if isinstance(self.rule, UnionRule):
            return replace(self, rule=self.rule.anchor(start_us))
        assert not isinstance(self.rule, _Fixed)
        return replace(self, rule=replace(self.rule, start_us=start_us), start_us=start_us)

    def _resume_us(self, run_us: int) -> int | None:
        """Return when the search continues if ``run_us`` is excluded, else None."""
        if not self._excluded:
            return None
        second = run_us // SECOND_US
        offset, until = self.zone.span_at(second)
        resume = self._excluded.resume_wall(self._nominal_wall(run_us, offset))
        if resume is None:
            return None
        if until - second < _NEAR_S:  # a clock set back may show readings before the exclusion
            return min(resume - offset, until) * SECOND_US
        return (self.zone.to_utc(resume) if resume < _CALENDAR_END_S else resume) * SECOND_US

    def _nominal_wall(self, run_us: int, offset: int) -> int:
        """Return the nominal wall second of a run: the skipped reading for a run that a gap moved."""
        wall = run_us // SECOND_US + offset
        if isinstance(self.rule, CronRule) and not self.rule.cron.matches_wall(wall):
            return self.rule.nominal_wall(run_us)
        return wall


def _within_calendar(us: int) -> int:
    """Clamp an instant to the calendar: some datetimes with an offset lie outside the years of UTC."""
    return min(max(us, FIRST_US - 1), LAST_US)
