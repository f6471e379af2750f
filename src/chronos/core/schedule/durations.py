"""Formats durations and times of day: in words, for people (``5m 58s``), as ISO 8601 and as Go durations."""

from typing import TYPE_CHECKING

from chronos.core.calendar import DAY_S, SECOND_US

if TYPE_CHECKING:
    from chronos.core.schedule.iso8601 import Period
    from chronos.core.schedule.once import Delay

MINUTE_US = 60 * SECOND_US
HOUR_US = 60 * MINUTE_US
DAY_US = DAY_S * SECOND_US

_LARGEST = 999_999_999  # per unit of ISO 8601 text
_CLOCK_UNITS = (
    (HOUR_US, "hour"),
    (MINUTE_US, "minute"),
    (SECOND_US, "second"),
    (1_000, "millisecond"),
    (1, "microsecond"),
)
_SHORT_UNITS = ((DAY_US, "d"), (HOUR_US, "h"), (MINUTE_US, "m"), (SECOND_US, "s"), (1_000, "ms"), (1, "us"))


def format_duration(us: int, *, exact: bool = False) -> str:
    """``412ms``, ``2.1s``, ``48s``, ``5m 58s``, ``2h 10m``, ``23d 4h``: for people, in the units that the API accepts.

    At most two units, rounded down. ``exact`` writes every unit, for a limit that a user has set.
    """
    if not exact and 0 < us < 1_000:
        return "<1ms"
    if not exact and SECOND_US <= us < 10 * SECOND_US:
        seconds, tenths = divmod(us // 100_000, 10)
        return f"{seconds}.{tenths}s" if tenths else f"{seconds}s"
    counts = []
    remaining = us
    for unit_us, _ in _SHORT_UNITS:
        count, remaining = divmod(remaining, unit_us)
        counts.append(count)
    largest = next((i for i, count in enumerate(counts) if count), 0)
    last = len(counts) if exact else min(largest + 2, 4 if us >= SECOND_US else 5)
    parts = [f"{counts[i]}{_SHORT_UNITS[i][1]}" for i in range(largest, last) if counts[i]]
    return " ".join(parts) or "0s"


def format_period(amount: "Period") -> str:
    """``1 year 2 months``, ``2 weeks``, ``90 seconds``: in words that the parser reads back, largest unit first."""
    return _format_amount(amount.months, amount.days, amount.us)


def _format_amount(months: int, days: int, us: int) -> str:
    is_weeks = days > 7 and days % 7 == 0 and not months and not us
    years, rest_months = _split(months, 12)
    parts = [(years, "year"), (rest_months, "month"), (days // 7, "week") if is_weeks else (days, "day")]
    rest = us
    short = rest < 120 * SECOND_US and rest % SECOND_US == 0
    for unit_us, name in _CLOCK_UNITS[2 if short else 0 :]:
        count, rest = _split(rest, unit_us)
        parts.append((count, name))
    return " ".join(f"{count} {name}{'s' * (count != 1)}" for count, name in parts if count) or "0 seconds"


def format_delay(delay: "Delay") -> str:
    """``in 2 hours``, ``tomorrow at 12:00``, ``in 3 days at 08:00``."""
    if delay.second_of_day is None:
        return f"in {_format_amount(0, delay.days, delay.us)}"
    day = ("today", "tomorrow")[delay.days] if delay.days < 2 else f"in {delay.days} days"
    return f"{day} at {format_time_of_day(delay.second_of_day)}"


def format_time_of_day(second_of_day: int) -> str:
    """``09:00``, ``09:00:30``."""
    minutes, second = divmod(second_of_day, 60)
    return f"{minutes // 60:02d}:{minutes % 60:02d}" + (f":{second:02d}" if second else "")


def iso_period(amount: "Period") -> str:
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
