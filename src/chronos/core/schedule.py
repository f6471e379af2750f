"""A schedule: a rule, the window it is in force, what it leaves out. A pure value with one essential method."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime
from hashlib import blake2b

from chronos.core.calendar import SECOND_US, from_us, to_us
from chronos.core.cron import CronRule
from chronos.core.describe import describe
from chronos.core.every import EveryRule
from chronos.core.exclude import Exclusion
from chronos.core.iso8601 import PeriodRule
from chronos.core.once import LaterRule, OnceRule
from chronos.core.zones import Zone

_MAX_PASSED_OVER = 10_000  # candidates an answer may pass over before the schedule counts as ended

Rule = CronRule | EveryRule | PeriodRule | OnceRule | LaterRule


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """When something is due. Immutable, hashable; equal when every answer is.

    Its own methods take and give aware datetimes; those ending in ``_us`` whole microseconds since 1970 UTC.
    """

    rule: Rule
    zone: Zone
    start_us: int | None = None
    end_us: int | None = None
    jitter_us: int = 0
    exclude: tuple[Exclusion, ...] = ()
    key: str = ""
    text: str = field(default="", compare=False)
    _plain: bool = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_plain", self.start_us is None and self.end_us is None and not self.exclude)

    def next_after(self, instant: datetime) -> datetime | None:
        """The first instant strictly after ``instant``, in UTC; None when there is none."""
        found = (self.rule if self._plain else self).next_us(to_us(instant))
        return None if found is None else from_us(found)

    def between(self, a: datetime, b: datetime) -> Iterator[datetime]:
        """Every instant t with a < t <= b, in order."""
        last_us = to_us(b)
        found = self.next_us(to_us(a))
        while found is not None and found <= last_us:
            yield from_us(found)
            found = self.next_us(found)

    def describe(self) -> str:
        """The schedule in words, which ``parse_schedule`` reads back."""
        return describe(self)

    def next_us(self, after_us: int) -> int | None:
        """``next_after`` in microseconds."""
        if self._plain:
            return self.rule.next_us(after_us)
        if self.start_us is not None and after_us < self.start_us:
            after_us = self.start_us - 1
        for _ in range(_MAX_PASSED_OVER):
            found = self.rule.next_us(after_us)
            if found is None or (self.end_us is not None and found > self.end_us):
                return None
            resume_us = self._resume_us(found)
            if resume_us is None:
                return found
            after_us = max(found, resume_us - 1)
        return None

    def due_us(self, scheduled_us: int) -> int:
        """When the run of an instant is due: the instant plus its jitter, the same on every node."""
        if not self.jitter_us:
            return scheduled_us
        digest = blake2b(f"{self.key}\0{scheduled_us}".encode("utf-8", "surrogatepass"), digest_size=8).digest()
        return scheduled_us + int.from_bytes(digest) % (self.jitter_us + 1)

    @property
    def anchored(self) -> bool:
        """Whether its instants are fixed, rather than counted from the instant asked."""
        return isinstance(self.rule, CronRule | OnceRule) or self.rule.start_us is not None

    def anchor(self, start_us: int) -> "Schedule":
        """The same schedule counted from ``start_us``, unless it is anchored already."""
        if isinstance(self.rule, CronRule | OnceRule) or self.rule.start_us is not None:
            return self
        return replace(self, rule=replace(self.rule, start_us=start_us), start_us=start_us)

    def _resume_us(self, found_us: int) -> int | None:
        if not self.exclude:
            return None
        second = found_us // SECOND_US
        wall = second + self.zone.offset_at(second)
        for exclusion in self.exclude:
            resume = exclusion.resume_wall(wall)
            if resume is not None:
                return self.zone.to_utc(resume) * SECOND_US
        return None
