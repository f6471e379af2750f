"""Rules that fire once: at an instant, or some time after the schedule's start."""

from dataclasses import dataclass, field

from chronos.core.calendar import DAY_S, LAST_US, SECOND_US
from chronos.core.schedule.timezones import Zone


@dataclass(frozen=True, slots=True)
class OnceRule:
    """One instant; ``wall`` is its second on the zone's clock if it was written without an offset."""

    at_us: int
    wall: int | None = field(default=None, compare=False)

    def next_us(self, after_us: int) -> int | None:
        """Return the instant if it is after ``after_us``, else None."""
        return self.at_us if self.at_us > after_us else None

    def count_us(self, after_us: int, until_us: int) -> int:
        """Return 1 or 0."""
        return int(after_us < self.at_us <= until_us)


@dataclass(frozen=True, slots=True, kw_only=True)
class Delay:
    """A delay: ``days`` on the wall clock, then ``us`` of exact time; or a time of day on the day reached."""

    days: int = 0
    us: int = 0
    second_of_day: int | None = None


@dataclass(frozen=True, slots=True)
class DelayRule:
    """One instant, ``delay`` after the start; without a start, after the instant passed to ``next_us``."""

    delay: Delay
    zone: Zone
    start_us: int | None = None

    def next_us(self, after_us: int) -> int | None:
        """Return the instant if it is after ``after_us``, else None."""
        at_us = self._delayed_from(after_us if self.start_us is None else self.start_us)
        return at_us if after_us < at_us <= LAST_US else None

    def count_us(self, after_us: int, until_us: int) -> int | None:
        """Return 1 or 0; None without a start."""
        if self.start_us is None:
            return None
        at_us = self.next_us(after_us)
        return int(at_us is not None and at_us <= until_us)

    def _delayed_from(self, start_us: int) -> int:
        delay = self.delay
        if delay.second_of_day is None and not delay.days:
            return start_us + delay.us
        second, micro = divmod(start_us, SECOND_US)
        day, second_of_day = divmod(second + self.zone.offset_at(second), DAY_S)
        if delay.second_of_day is not None:
            second_of_day, micro = delay.second_of_day, 0
        return self.zone.to_utc((day + delay.days) * DAY_S + second_of_day) * SECOND_US + micro + delay.us
