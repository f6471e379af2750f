"""Translates a sentence to the fields of a cron expression.

A cron expression is a product of fields, so the times must be one: 9:00 and 17:00 are, 9:00 and 17:30 are not. The
same holds for dates.
"""

from chronos.core.calendar import SECOND_US
from chronos.core.schedule.cron import ALL_DAYS, ALL_HOURS, ALL_MONTHS, ALL_SIXTY, ALL_WEEKDAYS, Cron
from chronos.core.schedule.cron_format import find_step, format_list
from chronos.core.schedule.durations import HOUR_US, MINUTE_US, format_period, format_time_of_day
from chronos.core.schedule.iso8601 import Period
from chronos.core.schedule.words.sentence import Days, Field, Sentence

_ORDER = ("second", "minute", "hour")
_ALL = {"second": ALL_SIXTY, "minute": ALL_SIXTY, "hour": ALL_HOURS}
_DAY_MINUTES = 1440
_JANUARY = 1 << 1
_FIRST = Days(days=1 << 1)
_SUNDAY = 1 << 0
_QUARTERS = 1 << 1 | 1 << 4 | 1 << 7 | 1 << 10

Clock = tuple[int, int, int, bool]  # seconds, minutes, hours, and whether a star begins the minute or the hour


def clock_step(amount: Period | None) -> tuple[str, int] | None:
    """Return the field and the step of an interval that divides a minute, an hour or a day evenly, else None."""
    if amount is None or amount.months or amount.days or not amount.us:
        return None
    for name, unit_us, size in (("hour", HOUR_US, 24), ("minute", MINUTE_US, 60), ("second", SECOND_US, 60)):
        if amount.us % unit_us == 0:
            step = amount.us // unit_us
            return (name, step) if step < size and size % step == 0 else None
    return None


def exclude_days(sentence: Sentence) -> None:
    """Turn "except Sundays" and "except in August" into exclusions, for a rule without fields to restrict."""
    if sentence.excluded_weekdays:
        sentence.exclude.append(f"* * * * {format_list(sentence.excluded_weekdays)}")
    if sentence.excluded_months:
        sentence.exclude.append(f"* * * {format_list(sentence.excluded_months)} *")


def to_cron(sentence: Sentence) -> Cron:
    """Translate a sentence to a ``Cron``. Raises ``Unclear`` if its parts do not fit together."""
    _check_complete(sentence)
    seconds, minutes, hours, wildcard = _clock_fields(sentence)
    if "real" in sentence.positions:
        if not (minutes | hours) & 1:
            raise sentence.error("real", "cannot keep real intervals: neither minute 0 nor hour 0 is among its times")
        wildcard = True
    days, months = _resolve_days(sentence)
    weekdays = sentence.weekdays
    if sentence.calendar_unit == "week" and not weekdays:
        weekdays = _SUNDAY
    has_month_days = days.has_month_days
    has_weekdays = bool(weekdays or days.nth)
    _check_combination(sentence, has_month_days=has_month_days, has_weekdays=has_weekdays)
    if has_month_days or days.nth:
        exclude_days(sentence)
    else:
        weekdays = (weekdays or ALL_WEEKDAYS) & ~sentence.excluded_weekdays
        months &= ~sentence.excluded_months
        if not weekdays or not months:
            raise sentence.error("except", "excludes every day")
    if "both" in sentence.positions and not (days.days >> 1 & 1 or weekdays & 1):
        reason = "requires a day of the month and a weekday at once, which cron supports only for the 1st or Sundays"
        raise sentence.error("both", reason, 'name one of them, and leave out other days with "except"')
    return Cron(
        seconds=seconds,
        minutes=minutes,
        hours=hours,
        days=days.days if has_month_days else ALL_DAYS,
        months=months,
        weekdays=weekdays if has_weekdays or not has_month_days else ALL_WEEKDAYS,
        last=days.last,
        nearest=days.nearest,
        nearest_last=days.nearest_last,
        nth=days.nth,
        either="either" in sentence.positions,
        wildcard=wildcard,
        years=sentence.years,
    )


def _check_complete(sentence: Sentence) -> None:
    """Reject a sentence that is only part of a schedule, or more than a cron expression."""
    for part, name in (("count", "a number of times"), ("anchor", "a first occurrence")):
        if part in sentence.positions:
            hint = 'as in "every 6 hours, 5 times"'
            raise sentence.error(part, f"has {name}, which only an interval without times or days can have", hint)
    days = any(part in sentence.positions for part in ("days", "weekdays"))
    clock = any(part in sentence.positions for part in ("times", "second", "minute", "hour"))
    if sentence.amount is not None or days or (clock and ("months" in sentence.positions or not sentence.times)):
        return
    if sentence.times:
        time = format_time_of_day(sentence.times[0])
        hint = f'say "every day at {time}" or "today at {time}"'
        raise sentence.error("times", "has a time but no days", hint)
    if "window" in sentence.positions:
        raise sentence.error("window", "has hours but no interval", 'as in "every hour from 9am to 5pm"')
    if "months" in sentence.positions:
        raise sentence.error("months", "has a month but no days", 'as in "on the 1st of January"')
    raise sentence.error("", "does not say when it runs")


# --- seconds, minutes, hours ---------------------------------------------------------------------------------------


def _clock_fields(sentence: Sentence) -> Clock:
    step = None if sentence.calendar_unit else clock_step(sentence.amount)
    if sentence.amount is not None and step is None and not sentence.calendar_unit:
        interval = format_period(sentence.amount)
        reason = f"cannot run by the clock: {interval} do not divide a minute, an hour or a day evenly"
        raise sentence.error("amount", reason)
    if sentence.window is not None:
        return _window_fields(sentence, sentence.window, step)
    if sentence.times:
        if step is not None or sentence.fields:
            hint = 'say "at minute 15 of every hour" for a minute of each hour'
            raise sentence.error("times", "has both a time of day and an interval within the day", hint)
        return _time_fields(sentence)
    fields = dict(sentence.fields)
    if step is not None:
        name, every = step
        if name in fields:
            raise sentence.error(name, f"gives its {name}s twice")
        fields[name] = Field(_steps(_ALL[name], every), True)
    return _fill_fields(sentence, fields)


def _fill_fields(sentence: Sentence, fields: dict[str, Field]) -> Clock:
    """Fill the fields that the sentence leaves out: 0 in finer fields, all values in coarser ones."""
    if not fields:
        return 1, 1, 1, False
    finest = next(i for i, name in enumerate(_ORDER) if name in fields)
    coarsest = max(i for i, name in enumerate(_ORDER) if name in fields)
    filled = []
    for i, name in enumerate(_ORDER):
        if finest < i < coarsest and name not in fields:
            raise sentence.error("second", f"does not say of which {name}s", f'as in "of {name} 0"')
        filled.append(fields.get(name, Field(_ALL[name], True) if i > finest else Field(1, False)))
    second, minute, hour = filled
    return second.mask, minute.mask, hour.mask, minute.starred or hour.starred


def _time_fields(sentence: Sentence) -> Clock:
    times = sorted(set(sentence.times))
    seconds, minutes, hours = (_mask(values) for values in _columns(times))
    if len(times) != seconds.bit_count() * minutes.bit_count() * hours.bit_count():
        listed = ", ".join(format_time_of_day(time) for time in times[:-1]) + f" and {format_time_of_day(times[-1])}"
        reason = f"has the times {listed}, which do not fit in one cron expression"
        raise sentence.error("times", reason, "use one schedule for each minute of the hour")
    return seconds, minutes, hours, False


def _columns(times: list[int]) -> tuple[list[int], list[int], list[int]]:
    return [t % 60 for t in times], [t // 60 % 60 for t in times], [t // 3600 for t in times]


def _window_fields(sentence: Sentence, window: tuple[int, int, bool], step: tuple[str, int] | None) -> Clock:
    """Translate "every 15 minutes between 9am and 5pm", counted from the beginning of the window."""
    if step is None:
        raise sentence.error("window", "has hours but no interval", 'as in "every hour from 9am to 5pm"')
    if sentence.times or sentence.fields:
        raise sentence.error("window", "has both hours and a time")
    name, every = step
    first, last, inclusive = window[0] // 60, window[1] // 60, window[2]
    if window[0] % 60 or window[1] % 60 or first == last:
        raise sentence.error("window", "has hours that do not begin and end at two different whole minutes")
    if (
        last < first
        and (inclusive or last > 0)
        and any(w in sentence.positions for w in ("days", "weekdays", "months"))
    ):
        raise sentence.error("window", "has hours that go past midnight, into a day that it does not name")
    last += _DAY_MINUTES if last < first else 0
    stride = {"second": 1, "minute": every, "hour": every * 60}[name]
    product = _product(range(first, last + inclusive, stride))
    if product is None:
        hint = ""
        if inclusive and _product(range(first, last, stride)) is not None:
            interval = format_period(sentence.amount or Period())
            ends = f"{format_time_of_day(window[0])} and {format_time_of_day(window[1])}"
            hint = f'nearest reading: "every {interval} between {ends}", without the last'
        raise sentence.error("window", "has hours whose times do not fit in one cron expression", hint)
    minutes, hours = product
    starred = name != "hour" and find_step(minutes, 0, 59) == stride
    return _steps(ALL_SIXTY, every) if name == "second" else 1, minutes, hours, starred


def _product(minutes_of_day: range) -> tuple[int, int] | None:
    """Return the masks of minutes and hours if these minutes of the day are their product, else None."""
    minutes, hours = _mask([m % 60 for m in minutes_of_day]), _mask([m // 60 % 24 for m in minutes_of_day])
    return (minutes, hours) if len(minutes_of_day) == minutes.bit_count() * hours.bit_count() else None


def _steps(mask: int, step: int) -> int:
    return _mask(list(range(0, mask.bit_length(), step)))


def _mask(values: list[int]) -> int:
    mask = 0
    for value in values:
        mask |= 1 << value
    return mask


# --- days and months -----------------------------------------------------------------------------------------------


def _resolve_days(sentence: Sentence) -> tuple[Days, int]:
    """Return the days of the month, and the months; the calendar unit gives the defaults."""
    days, months = _merge_groups(sentence)
    has_days = bool(days)
    if sentence.calendar_unit == "quarter":
        if months:
            raise sentence.error("amount", "gives its months twice")
        months = _QUARTERS
    if sentence.calendar_unit == "day" and days.has_month_days:
        raise sentence.error("days", "names days of the month, but it runs every day")
    if sentence.calendar_unit == "week" and has_days:
        raise sentence.error("amount", "names days of the month, but it runs every week")
    if sentence.calendar_unit in ("month", "quarter", "year"):
        if sentence.weekdays and not has_days:
            raise sentence.error("weekdays", "does not say which one of the month", 'as in "the first Monday"')
        if sentence.calendar_unit == "year" and bool(months) != has_days:
            raise sentence.error("amount", "does not say which day of the year", 'as in "on the 1st of March"')
        if not has_days:
            return _FIRST, months or (_JANUARY if sentence.calendar_unit == "year" else ALL_MONTHS)
    return days, months or ALL_MONTHS


def _merge_groups(sentence: Sentence) -> tuple[Days, int]:
    """Join all day groups; 0 months means all. Rejects dates that are not a product of days and months."""
    groups = sentence.day_groups
    merged = Days()
    months = sentence.months
    for days, group_months in groups:
        merged |= days
        months |= group_months or 0
    named_months = [group_months for _, group_months in groups if group_months is not None]
    if not named_months:
        return merged, months
    if sentence.months or sentence.weekdays:
        part = "months" if sentence.months else "weekdays"
        raise sentence.error(part, "does not say which days belong to its months", 'put ", in January" at the end')
    if len(named_months) < len(groups) or (len(set(named_months)) > 1 and len({days for days, _ in groups}) > 1):
        hint = "use one schedule for each"
        raise sentence.error("days", "has dates that do not fit in one cron expression", hint)
    return merged, months


def _check_combination(sentence: Sentence, *, has_month_days: bool, has_weekdays: bool) -> None:
    either, both = "either" in sentence.positions, "both" in sentence.positions
    if has_month_days and has_weekdays and either == both:
        hint = 'say "or" when one of them is enough, "if it is Monday" when both must hold'
        raise sentence.error("weekdays", "names days of the month and of the week", hint)
    if not (has_month_days and has_weekdays):
        if either:
            raise sentence.error("either", 'has "or" between days of the same kind', 'say "and"')
        if both:
            raise sentence.error("both", 'has "if" without a day of the month before it')
