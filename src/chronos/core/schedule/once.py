"""Rules that fire one time: at an instant, or a while after the schedule's start."""

from dataclasses import dataclass, field

from chronos.core.calendar import DAY_S, LAST_US, SECOND_US
from chronos.core.schedule.timezones import Zone


@dataclass(frozen=True, slots=True)
class OnceRule:
    """One instant; ``wall`` is the second of the zone's own clock, for one that was written without an offset."""

    at_us: int
    wall: int | None = field(default=None, compare=False)

    def next_us(self, after_us: int) -> int | None:
        """The instant, as long as it is still to come."""
        return self.at_us if self.at_us > after_us else None

    def count_us(self, after_us: int, until_us: int) -> int:
        """One or none."""
        return int(after_us < self.at_us <= until_us)


@dataclass(frozen=True, slots=True, kw_only=True)
class Delay:
    """How long to wait: ``days`` on the wall clock, then ``us``; or until a time of the day so reached."""

    days: int = 0
    us: int = 0
    second_of_day: int | None = None


@dataclass(frozen=True, slots=True)
class DelayRule:
    """Once, that long after the start. Without a start each answer is counted from the instant asked."""

    later: Delay
    zone: Zone
    start_us: int | None = None

    def next_us(self, after_us: int) -> int | None:
        """The instant, as long as it is still to come."""
        found = self._from(after_us if self.start_us is None else self.start_us)
        return found if after_us < found <= LAST_US else None

    def count_us(self, after_us: int, until_us: int) -> int | None:
        """One or none; None without a start."""
        if self.start_us is None:
            return None
        found = self.next_us(after_us)
        return int(found is not None and found <= until_us)

    def _from(self, start_us: int) -> int:
        later = self.later
        if later.second_of_day is None and not later.days:
            return start_us + later.us
        second, micro = divmod(start_us, SECOND_US)
        day, of_day = divmod(second + self.zone.offset_at(second), DAY_S)
        if later.second_of_day is not None:
            of_day, micro = later.second_of_day, 0
        return self.zone.to_utc((day + later.days) * DAY_S + of_day) * SECOND_US + micro + later.us
