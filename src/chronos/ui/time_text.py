"""Times, durations and countdowns for people, in the zone of the viewer. Text and chart axes use the same functions."""

from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta

from chronos.core.calendar import DAY_S, SECOND_US, rfc3339
from chronos.core.schedule.durations import format_duration
from chronos.core.schedule.timezones import Zone

MINUTE_US = 60 * SECOND_US
HOUR_US = 60 * MINUTE_US
DAY_US = DAY_S * SECOND_US

WEEKDAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_NEAR_DAYS = 6  # a weekday alone names a day this near
_ONE_UNIT = ((DAY_US, "d"), (HOUR_US, "h"), (MINUTE_US, "m"), (SECOND_US, "s"))


@dataclass(frozen=True, slots=True)
class Times:
    """Writes instants in one zone, seen from ``now_us``."""

    zone: Zone
    now_us: int

    def wall(self, us: int) -> datetime:
        """Return the wall reading of an instant. Its tzinfo has no meaning."""
        seconds, micro = divmod(us, SECOND_US)
        at_s = seconds + self.zone.offset_at(seconds)
        return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=at_s, microseconds=micro)

    def day_of(self, us: int) -> date:
        """Return the calendar day of an instant."""
        return self.wall(us).date()

    # --- instants

    def clock(self, us: int) -> str:
        """``02:00``, ``tomorrow 02:00``, ``Thu 02:00``, ``28 Mar 02:00``: as short as it is clear."""
        wall = self.wall(us)
        days = (wall.date() - self.day_of(self.now_us)).days
        time = _format_time(wall)
        if days == 0:
            return time
        if days == 1:
            return f"tomorrow {time}"
        if days == -1:
            return f"yesterday {time}"
        return f"{WEEKDAYS[wall.weekday()] if abs(days) <= _NEAR_DAYS else self.short_date(us)} {time}"

    def day_clock(self, us: int) -> str:
        """``Mon 16 Nov, 02:00``: one scheduled time, as a title or in a list."""
        return f"{self.date(us)}, {_format_time(self.wall(us))}"

    def date(self, us: int) -> str:
        """``Mon 16 Nov``, with the year if it is another year."""
        wall = self.wall(us)
        return f"{WEEKDAYS[wall.weekday()]} {self.short_date(us)}"

    def short_date(self, us: int) -> str:
        """``16 Nov``, with the year if it is another year."""
        wall = self.wall(us)
        year = "" if wall.year == self.wall(self.now_us).year else f" {wall.year}"
        return f"{wall.day} {MONTHS[wall.month - 1]}{year}"

    def time(self, us: int) -> str:
        """``02:00``, ``02:00:05``: the time of day."""
        return _format_time(self.wall(us))

    def minute(self, us: int) -> str:
        """``02:00``: the time of day without seconds, for axes."""
        return f"{self.wall(us):%H:%M}"

    def second(self, us: int) -> str:
        """``02:00:05``: the time of day with seconds."""
        return f"{self.wall(us):%H:%M:%S}"

    def precise(self, us: int) -> str:
        """``02:00:00.001``: the time of day in milliseconds."""
        wall = self.wall(us)
        return f"{wall:%H:%M:%S}.{wall.microsecond // 1_000:03d}"

    def title(self, us: int) -> str:
        """``Mon 16 Nov 2026 02:00:00 +01:00 · 01:00:00 UTC``: everything, for a tooltip."""
        wall = self.wall(us)
        day = f"{WEEKDAYS[wall.weekday()]} {wall.day} {MONTHS[wall.month - 1]} {wall.year}"
        utc = f"{datetime.fromtimestamp(us // SECOND_US, UTC):%H:%M:%S}"
        return f"{day} {wall:%H:%M:%S} {self.offset(us)} · {utc} UTC"

    def utc_clock(self, us: int) -> str:
        """``01:00 UTC``."""
        return f"{_format_time(datetime.fromtimestamp(us // SECOND_US, UTC))} UTC"

    def offset(self, us: int) -> str:
        """``+01:00``: the offset of the zone at an instant."""
        minutes = self.zone.offset_at(us // SECOND_US) // 60
        return f"{'-' if minutes < 0 else '+'}{abs(minutes) // 60:02d}:{abs(minutes) % 60:02d}"

    def zone_name(self) -> str:
        """``Europe/Paris (UTC+1)``."""
        minutes = self.zone.offset_at(self.now_us // SECOND_US) // 60
        hours, rest = divmod(abs(minutes), 60)
        offset = "" if not minutes else f"{'−' if minutes < 0 else '+'}{hours}{f':{rest:02d}' if rest else ''}"
        return f"{self.zone.name} (UTC{offset})" if self.zone.name != "UTC" else "UTC"

    def second_of_day(self) -> int:
        """Return the seconds since midnight, now."""
        wall = self.wall(self.now_us)
        return wall.hour * 3_600 + wall.minute * 60 + wall.second

    # --- distances

    def until(self, us: int) -> str:
        """``in 42s``, ``in 5h``: one unit, for lists. ``now`` for an instant that has come."""
        return f"in {_format_one_unit(us - self.now_us)}" if us > self.now_us else "now"

    def until_long(self, us: int) -> str:
        """``in 5h 17m``: two units, for facts."""
        return f"in {format_duration(_whole_seconds(us - self.now_us))}" if us > self.now_us else "now"

    def ago(self, us: int) -> str:
        """``3s ago``, ``2d ago``."""
        return f"{_format_one_unit(max(0, self.now_us - us))} ago"

    @staticmethod
    def rfc3339(us: int) -> str:
        """Return the instant for programs: the ``datetime`` of a ``<time>``."""
        return rfc3339(us)


def _format_time(wall: datetime) -> str:
    return f"{wall:%H:%M:%S}" if wall.second else f"{wall:%H:%M}"


def _format_one_unit(us: int) -> str:
    for unit_us, name in _ONE_UNIT:
        if us >= unit_us:
            return f"{us // unit_us}{name}"
    return "0s"


def _whole_seconds(us: int) -> int:
    """Round down to a second, and to a minute from an hour on: a countdown needs no more."""
    unit = MINUTE_US if us >= HOUR_US else SECOND_US
    return us // unit * unit
