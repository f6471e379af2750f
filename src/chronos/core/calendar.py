"""Time as integers: microseconds since 1970 UTC, day numbers, months. Conversions from and to ``datetime``."""

from datetime import UTC, date, datetime, timedelta
from functools import lru_cache

SECOND_US = 1_000_000
DAY_S = 86_400
EPOCH_ORDINAL = 719_163  # date(1970, 1, 1).toordinal()
LAST_DAY = date.max.toordinal() - EPOCH_ORDINAL
FIRST_DAY = date.min.toordinal() - EPOCH_ORDINAL
LAST_US = (LAST_DAY + 1) * DAY_S * SECOND_US - 1
FIRST_US = FIRST_DAY * DAY_S * SECOND_US

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MONTH_DAYS = (0, 31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)


def to_us(instant: datetime) -> int:
    """Convert an aware datetime to microseconds since 1970."""
    try:
        delta = instant - _EPOCH
    except TypeError:
        raise ValueError(f"{instant!r} needs a time zone; add tzinfo=UTC") from None
    return (delta.days * DAY_S + delta.seconds) * SECOND_US + delta.microseconds


def from_us(us: int) -> datetime:
    """Convert microseconds since 1970 to an aware UTC datetime."""
    seconds, micro = divmod(us, SECOND_US)
    return _EPOCH + timedelta(0, seconds, micro)


def is_leap(year: int) -> bool:
    """Return whether a Gregorian year has a 29 February."""
    return year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)


def month_length(year: int, month: int) -> int:
    """Return the number of days in a month."""
    return 29 if month == 2 and is_leap(year) else _MONTH_DAYS[month]


def day_number(year: int, month: int, day: int) -> int:
    """Return the days since 1970-01-01 of a calendar date."""
    return date(year, month, day).toordinal() - EPOCH_ORDINAL


def to_year_month_day(day: int) -> tuple[int, int, int]:
    """Return year, month and day of a day number."""
    d = date.fromordinal(day + EPOCH_ORDINAL)
    return d.year, d.month, d.day


def weekday(day: int) -> int:
    """Return the weekday of a day number as cron counts: 0 is Sunday, 6 is Saturday."""
    return (day + 4) % 7


def rfc3339(us: int) -> str:
    """Format microseconds as RFC 3339 in UTC, with a fraction only if needed: ``2027-01-01T00:00:00Z``."""
    seconds, micro = divmod(us, SECOND_US)
    return f"{_second_text(seconds)}.{micro:06d}Z" if micro else f"{_second_text(seconds)}Z"


@lru_cache(maxsize=1_024)
def _second_text(seconds: int) -> str:
    """Format a second. Cached, because most times written together lie in the same few seconds."""
    return (_EPOCH + timedelta(0, seconds)).isoformat().removesuffix("+00:00")
