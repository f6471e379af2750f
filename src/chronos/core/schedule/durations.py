"""Amounts of time and times of the day: in words, as an ISO 8601 period, as a Go duration."""

from chronos.core.calendar import SECOND_US
from chronos.core.schedule.iso8601 import Period
from chronos.core.schedule.once import Delay

MINUTE_US = 60 * SECOND_US
HOUR_US = 60 * MINUTE_US

_LARGEST = 999_999_999  # what ISO 8601 text may hold in one unit
_CLOCK_UNITS = (
    (HOUR_US, "hour"),
    (MINUTE_US, "minute"),
    (SECOND_US, "second"),
    (1_000, "millisecond"),
    (1, "microsecond"),
)


def format_period(amount: Period) -> str:
    """``1 year 2 months``, ``2 weeks``, ``90 seconds``: largest unit first, no unit that is zero."""
    years, months = _split(amount.months, 12)
    parts = [(years, "year"), (months, "month")]
    if amount.days > 7 and amount.days % 7 == 0 and not amount.months and not amount.us:
        parts.append((amount.days // 7, "week"))
    else:
        parts.append((amount.days, "day"))
    rest = amount.us
    short = rest < 120 * SECOND_US and rest % SECOND_US == 0
    for unit_us, name in _CLOCK_UNITS[2 if short else 0 :]:
        count, rest = _split(rest, unit_us)
        parts.append((count, name))
    return " ".join(f"{count} {name}{'s' * (count != 1)}" for count, name in parts if count) or "0 seconds"


def format_delay(delay: Delay) -> str:
    """``in 2 hours``, ``tomorrow at 12:00``, ``in 3 days at 08:00``."""
    if delay.second_of_day is None:
        return f"in {format_period(Period(days=delay.days, us=delay.us))}"
    day = ("today", "tomorrow")[delay.days] if delay.days < 2 else f"in {delay.days} days"
    return f"{day} at {format_time_of_day(delay.second_of_day)}"


def format_time_of_day(second_of_day: int) -> str:
    """``09:00``, with seconds only where there are any."""
    minutes, second = divmod(second_of_day, 60)
    return f"{minutes // 60:02d}:{minutes % 60:02d}" + (f":{second:02d}" if second else "")


def iso_period(amount: Period) -> str:
    """``P1Y2M``, ``P2W``, ``P1DT12H``."""
    if amount.days and amount.days % 7 == 0 and not amount.months and not amount.us:
        return f"P{amount.days // 7}W"
    years, months = _split(amount.months, 12)
    hours, rest = _split(amount.us, HOUR_US)
    minutes, rest = _split(rest, MINUTE_US)
    date = [(str(years), "Y"), (str(months), "M"), (str(amount.days), "D")]
    clock = [(str(hours), "H"), (str(minutes), "M"), (_seconds(rest), "S")]
    date_text, clock_text = (
        "".join(count + letter for count, letter in parts if count != "0") for parts in (date, clock)
    )
    return f"P{date_text}T{clock_text}" if clock_text else f"P{date_text}"


def go_duration(us: int) -> str:
    """``1h30m``, ``45m``, ``1.5s``."""
    hours, rest = divmod(us, HOUR_US)
    minutes, rest = divmod(rest, MINUTE_US)
    parts = [(str(hours), "h"), (str(minutes), "m"), (_seconds(rest), "s")]
    return "".join(count + unit for count, unit in parts if count != "0") or "0s"


def _split(total: int, unit: int) -> tuple[int, int]:
    count = min(total // unit, _LARGEST) if unit > 1 else total
    return count, total - count * unit


def _seconds(us: int) -> str:
    whole, micro = divmod(us, SECOND_US)
    return f"{whole}.{micro:06d}".rstrip("0") if micro else str(whole)
