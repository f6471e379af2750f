"""Describes a ``Cron`` in words, day first: "Weekdays at 09:00", "Every 15 minutes on Mondays in June".

Every phrase belongs to the grammar that ``words`` reads, and is used only where it reads back to the same ``Cron``.
Where no short phrase fits, a systematic one does: "at minutes 3, 7 and 20 to 27 of hours 2 to 6".
"""

from dataclasses import dataclass

from chronos.core.schedule.cron import ALL_DAYS, ALL_HOURS, ALL_MONTHS, ALL_SIXTY, ALL_WEEKDAYS, FIRST_YEAR, Cron
from chronos.core.schedule.cron_format import find_step, group_consecutive, list_set_bits
from chronos.core.schedule.durations import format_time_of_day

_MAX_LISTED_TIMES = 6
_MAX_ORDINALS = 6  # longer lists of days are written as numbers
_MIN_SPAN_HOURS = 4  # fewer hours are listed; more are "every hour from … to …"
_MONDAY_TO_FRIDAY = 0b0111110
_WEEKEND = 0b1000001
_NTH = ("first", "second", "third", "fourth", "fifth", "last")
WEEKDAYS = ("", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_MONTHS = (
    *("", "January", "February", "March", "April", "May", "June"),
    *("July", "August", "September", "October", "November", "December"),
)


@dataclass(frozen=True, slots=True)
class _ClockPhrase:
    """The time of day in words; ``starred`` if its reading keeps real intervals through clock changes."""

    text: str
    starred: bool = False
    is_interval: bool = False  # only "every 15 minutes", without hours or minutes
    is_times: bool = False  # times of day, which follow the days: "Mondays at 07:00"


def describe_cron(cron: Cron, *, by_the_clock: bool = False) -> str:
    """Return the description.

    ``by_the_clock`` adds these words to an interval that would otherwise be counted from the schedule's start.
    """
    clock = _interval(cron) or _span(cron) or _times(cron) or _hourly(cron) or _fields(cron)
    if clock.is_times:
        days = _leading_days(cron)
        if_clause = _has_month_days(cron) and _has_weekdays(cron) and not cron.either
        text = f"{days}{',' * if_clause} {clock.text}"
    else:
        days = _days(cron)
        separator = " " if days.startswith("on ") else ", " if days else ""
        text = f"{clock.text}{separator}{days}"
    if cron.months != ALL_MONTHS and not _days_name_months(cron):
        text += f" in {_list(cron.months, _MONTHS)}"
    if cron.years:
        spans = group_consecutive([FIRST_YEAR + bit for bit in list_set_bits(cron.years)])
        listed = join([str(a) if a == b else f"{a} to {b}" for a, b in spans])
        text += f", in {'the years ' * (cron.years.bit_count() > 1)}{listed}"
    if by_the_clock and text == clock.text and clock.is_interval:
        text += " by the clock"
    if cron.wildcard and not clock.starred:
        text += ", at real intervals"
    return text


def join(items: list[str], last: str = "and") -> str:
    """``a``, ``a and b``, ``a, b and c``."""
    return items[0] if len(items) == 1 else f"{', '.join(items[:-1])} {last} {items[-1]}"


# --- the time of day -----------------------------------------------------------------------------------------------


def _interval(cron: Cron) -> _ClockPhrase | None:
    """every 15 minutes · every hour · every 30 seconds"""
    all_hours = cron.hours == ALL_HOURS
    step, unit = None, ""
    if cron.wildcard and all_hours and cron.minutes == ALL_SIXTY and cron.seconds != 1:
        step, unit = _even_step(cron.seconds, 60), "second"
    elif cron.wildcard and all_hours and cron.seconds == 1 and cron.minutes != 1:
        step, unit = _even_step(cron.minutes, 60), "minute"
    elif cron.wildcard and cron.minutes == cron.seconds == 1:
        step, unit = _even_step(cron.hours, 24), "hour"
    return None if step is None else _ClockPhrase(_every(step, unit), starred=True, is_interval=True)


def _span(cron: Cron) -> _ClockPhrase | None:
    """every 15 minutes from 09:00 to 16:45 · every hour from 09:30 to 17:30"""
    hours = list_set_bits(cron.hours)
    if cron.seconds != 1 or (cron.hours == ALL_HOURS and cron.wildcard):
        return None
    step = _even_step(cron.minutes, 60)
    if cron.wildcard and step is not None and hours == list(range(hours[0], hours[-1] + 1)):
        last = hours[-1] * 60 + 60 - step
        return _ClockPhrase(f"{_every(step, 'minute')} {_from_to(hours[0] * 60, last)}", starred=True)
    minutes = list_set_bits(cron.minutes)
    if cron.wildcard or len(minutes) != 1 or len(hours) < _MIN_SPAN_HOURS:
        return None
    stride = hours[1] - hours[0]
    if 24 % stride or hours != list(range(hours[0], hours[-1] + 1, stride)):
        return None
    ends = _from_to(hours[0] * 60 + minutes[0], hours[-1] * 60 + minutes[0])
    return _ClockPhrase(f"{_every(stride, 'hour')} {ends}")


def _times(cron: Cron) -> _ClockPhrase | None:
    """at 09:00, 12:00 and 17:00"""
    count = cron.seconds.bit_count() * cron.minutes.bit_count() * cron.hours.bit_count()
    stepped = _even_step(cron.minutes, 60) or _even_step(cron.hours, 24)
    if count > _MAX_LISTED_TIMES or (cron.wildcard and stepped):
        return None
    times = [
        format_time_of_day(hour * 3600 + minute * 60 + second)
        for hour in list_set_bits(cron.hours)
        for minute in list_set_bits(cron.minutes)
        for second in list_set_bits(cron.seconds)
    ]
    return _ClockPhrase(f"at {join(times)}", is_times=True)


def _hourly(cron: Cron) -> _ClockPhrase | None:
    """every hour at minute 5 · every 3 hours at minute 15 · every 5 minutes at second 30"""
    minute_step = _even_step(cron.minutes, 60)
    hour_step = _even_step(cron.hours, 24)
    if not cron.wildcard:
        return None
    if cron.seconds == 1 and hour_step and not minute_step:
        return _ClockPhrase(f"{_every(hour_step, 'hour')} at {_numbers('minute', cron.minutes)}", starred=True)
    if hour_step == 1 and minute_step and not _even_step(cron.seconds, 60):
        return _ClockPhrase(f"{_every(minute_step, 'minute')} at {_numbers('second', cron.seconds)}", starred=True)
    return None


def _fields(cron: Cron) -> _ClockPhrase:
    """at second 30 of minutes 5 to 9 of every 2nd hour"""
    minute_step = _even_step(cron.minutes, 60) if cron.wildcard else None
    hour_step = _even_step(cron.hours, 24) if cron.wildcard else None
    parts = []
    if cron.seconds != 1:
        second_step = _even_step(cron.seconds, 60)
        parts.append(_every(second_step, "second") if second_step else f"at {_numbers('second', cron.seconds)}")
        parts.append(_every_nth(minute_step, "minute") if minute_step else _numbers("minute", cron.minutes))
    else:
        parts.append(_every(minute_step, "minute") if minute_step else f"at {_numbers('minute', cron.minutes)}")
    if not (hour_step == 1 and minute_step == 1):
        parts.append(_every_nth(hour_step, "hour") if hour_step else _numbers("hour", cron.hours))
    return _ClockPhrase(" of ".join(parts), starred=bool(minute_step or hour_step))


def _even_step(mask: int, size: int) -> int | None:
    """Return n if the mask is every nth value and n divides the field evenly; only then is "every n" true."""
    step = find_step(mask, 0, size - 1)
    return step if step is not None and size % step == 0 else None


def _every(step: int, unit: str) -> str:
    return f"every {unit}" if step == 1 else f"every {step} {unit}s"


def _every_nth(step: int, unit: str) -> str:
    return f"every {unit}" if step == 1 else f"every {_ordinal(step)} {unit}"


def _from_to(first_minute: int, last_minute: int) -> str:
    return f"from {format_time_of_day(first_minute * 60)} to {format_time_of_day(last_minute * 60)}"


def _numbers(unit: str, mask: int) -> str:
    listed = join([str(a) if a == b else f"{a} to {b}" for a, b in group_consecutive(list_set_bits(mask))])
    return f"{unit}{'s' * (mask.bit_count() > 1)} {listed}"


# --- the days ------------------------------------------------------------------------------------------------------


def _leading_days(cron: Cron) -> str:
    """daily · weekdays · Mondays · monthly on the 1st · yearly on 25 December; before times of day"""
    days = _days(cron)
    if not days:
        return "daily"
    if _days_name_months(cron):
        if cron.months == ALL_MONTHS:
            return f"monthly {days.removesuffix(' of the month')}"
        return f"yearly {days}" if cron.months.bit_count() == 1 else days
    return days.removeprefix("on ") if _has_plain_weekdays_only(cron) else days


def _days(cron: Cron) -> str:
    """on Mondays · Mon to Thu · on the 1st of the month · on the 1st of the month or on Mondays; "" for every day"""
    month_days = _format_month_days(cron)
    if cron.either:
        return f"on {month_days} of the month or {_format_weekdays(cron)}"
    if _has_month_days(cron) and _has_weekdays(cron):
        return f"on {month_days} of the month if it is {_format_condition(cron)}"
    months = "the month" if cron.months == ALL_MONTHS else _list(cron.months, _MONTHS)
    if _has_month_days(cron):
        is_date = cron.days.bit_count() == 1 and not (cron.last or cron.nearest or cron.nearest_last)
        if cron.months.bit_count() == 1 and is_date:
            return f"on {list_set_bits(cron.days)[0]} {months}"
        return f"on {month_days} of {months}"
    if _days_name_months(cron):
        return f"on {_format_nth_weekdays(cron)} of {months}"
    return _format_weekdays(cron) if _has_weekdays(cron) else ""


def _has_month_days(cron: Cron) -> bool:
    return bool(cron.days != ALL_DAYS or cron.last or cron.nearest or cron.nearest_last)


def _has_weekdays(cron: Cron) -> bool:
    return bool(cron.weekdays != ALL_WEEKDAYS or cron.nth)


def _has_plain_weekdays_only(cron: Cron) -> bool:
    return not (_has_month_days(cron) or cron.either)


def _days_name_months(cron: Cron) -> bool:
    """Whether the months follow the days directly: "on the 1st of January"."""
    if cron.either:
        return False
    if _has_month_days(cron):
        return not _has_weekdays(cron)
    return bool(cron.nth and not cron.weekdays)


def _format_month_days(cron: Cron) -> str:
    """the 1st, 15th and last day · days 1, 5 and 9 · the weekday nearest to the 15th and the last weekday

    Ordinals come last: before "the last weekday" they would be read as weekdays too.
    """
    before_last = [f"{_ordinal(back)} day before the last day" for back in list_set_bits(cron.nearest_last)]
    items = [f"the weekday nearest to the {_ordinal(day)}" for day in list_set_bits(cron.nearest) if day > 1]
    items += [f"the weekday nearest to the {day}" for day in before_last]
    items += ["the first weekday"] * (cron.nearest >> 1 & 1) + ["the last weekday"] * (cron.nearest & 1)
    items += [f"the {_ordinal(back)} day before the last day" for back in list_set_bits(cron.last) if back]
    spans = group_consecutive(list_set_bits(cron.days))
    if len(spans) > _MAX_ORDINALS:
        numbers = [str(a) if a == b else f"{a} to {b}" for a, b in spans]
        items += [f"days {numbers[0]}", *numbers[1:]]
        return join(items + ["the last day"] * (cron.last & 1))
    ordinals = [_ordinal(a) if a == b else f"{_ordinal(a)} to {_ordinal(b)}" for a, b in spans]
    ordinals += ["last day"] * (cron.last & 1)
    if items:
        return join([*items, *(f"the {ordinal}" for ordinal in ordinals)])
    return f"the {join(ordinals)}"


def _format_weekdays(cron: Cron) -> str:
    """on weekdays · on Mondays and Thursdays · Mon to Thu · on Mondays and the second Friday of the month"""
    items: list[str] = []
    is_ranged = False
    if cron.weekdays == _MONDAY_TO_FRIDAY:
        items = ["weekdays"]
    elif cron.weekdays == _WEEKEND:
        items = ["weekends"]
    elif names := _weekday_names(cron):
        is_ranged = any(" to " in name for name in names)
        items = [_shorten_range(name) for name in names] if is_ranged else [f"{name}s" for name in names]
    if cron.nth:
        items.append(f"{_format_nth_weekdays(cron)} of the month")
    return join(items) if is_ranged else f"on {join(items)}"


def _shorten_range(name: str) -> str:
    """``Mon to Thu``, ``Fri``."""
    return " to ".join(part[:3] for part in name.split(" to "))


def _format_condition(cron: Cron) -> str:
    nth = [f"the {_NTH[bit // 7]} {WEEKDAYS[bit % 7 or 7]}" for bit in list_set_bits(cron.nth)]
    text = join([*_weekday_names(cron), *nth], "or")
    return f"{text} of the month" if nth else text


def _weekday_names(cron: Cron) -> list[str]:
    return _name_runs(sum(1 << (day or 7) for day in list_set_bits(cron.weekdays)), WEEKDAYS)


def _format_nth_weekdays(cron: Cron) -> str:
    """the first and third Monday · the second Monday and the last Friday"""
    pairs = [divmod(bit, 7) for bit in list_set_bits(cron.nth)]
    if len({weekday for _, weekday in pairs}) == 1:
        return f"the {join([_NTH[nth] for nth, _ in pairs])} {WEEKDAYS[pairs[0][1] or 7]}"
    return join([f"the {_NTH[nth]} {WEEKDAYS[weekday or 7]}" for nth, weekday in pairs])


def _list(mask: int, names: tuple[str, ...]) -> str:
    return join(_name_runs(mask, names))


def _name_runs(mask: int, names: tuple[str, ...]) -> list[str]:
    return [names[a] if a == b else f"{names[a]} to {names[b]}" for a, b in group_consecutive(list_set_bits(mask))]


def _ordinal(number: int) -> str:
    suffix = "th" if number // 10 == 1 else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{suffix}"
