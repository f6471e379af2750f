"""A ``Cron`` in words: when in the day, then on which days, then in which months.

The phrases are of the grammar that ``words`` reads, each only where its reading is the very same ``Cron``. Where no
handy one fits, a systematic one always does: "at minutes 3, 7 and 20 to 27 of hours 2 to 6".
"""

from dataclasses import dataclass

from chronos.core.schedule.cron import ALL_DAYS, ALL_HOURS, ALL_MONTHS, ALL_SIXTY, ALL_WEEKDAYS, Cron
from chronos.core.schedule.cron_format import find_step, group_consecutive, list_set_bits
from chronos.core.schedule.durations import format_time_of_day

_MAX_LISTED_TIMES = 6  # listed one by one
_MOST_ORDINALS = 6  # beyond that, days are numbered
_SHORTEST_SPAN = 4  # hours in a row that are "every hour from … to …" rather than listed
_NTH = ("first", "second", "third", "fourth", "fifth", "last")
_WEEKDAYS = ("", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_MONTHS = (
    *("", "January", "February", "March", "April", "May", "June"),
    *("July", "August", "September", "October", "November", "December"),
)


@dataclass(frozen=True, slots=True)
class _Phrase:
    """A time of the day in words; ``starred`` when its reading keeps real intervals through clock changes."""

    text: str
    starred: bool = False
    interval: bool = False  # nothing but "every so many units"
    times: bool = False  # times of a day, which sound better with the days named


def describe_cron(cron: Cron, *, by_the_clock: bool = False) -> str:
    """The words. ``by_the_clock``: say so of an interval, which would else count from the schedule's start."""
    clock = _interval(cron) or _span(cron) or _times(cron) or _describe_by_fields(cron)
    parts = [f"{clock.text} by the clock" if by_the_clock and clock.interval else clock.text]
    days = _days(cron)
    if days:
        parts.append(days)
    elif clock.times:
        parts.append("every day")
    if cron.months != ALL_MONTHS and not _days_name_months(cron):
        parts.append(f"in {_list(cron.months, _MONTHS)}")
    if cron.wildcard and not clock.starred:
        parts.append("at real intervals")
    return ", ".join(parts)


def join(items: list[str], last: str = "and") -> str:
    """``a``, ``a and b``, ``a, b and c``."""
    return items[0] if len(items) == 1 else f"{', '.join(items[:-1])} {last} {items[-1]}"


# --- when in the day -----------------------------------------------------------------------------------------------


def _interval(cron: Cron) -> _Phrase | None:
    """every 15 minutes · every hour · every 30 seconds"""
    all_hours = cron.hours == ALL_HOURS
    steps: tuple[int | None, str] = (None, "")
    if cron.wildcard and all_hours and cron.minutes == ALL_SIXTY and cron.seconds != 1:
        steps = _even_step(cron.seconds, 60), "second"
    elif cron.wildcard and all_hours and cron.seconds == 1 and cron.minutes != 1:
        steps = _even_step(cron.minutes, 60), "minute"
    elif cron.wildcard and cron.minutes == cron.seconds == 1:
        steps = _even_step(cron.hours, 24), "hour"
    step, unit = steps
    return None if step is None else _Phrase(_every(step, unit), starred=True, interval=True)


def _span(cron: Cron) -> _Phrase | None:
    """every 15 minutes from 09:00 to 16:45 · every hour from 09:30 to 17:30"""
    hours = list_set_bits(cron.hours)
    if cron.seconds != 1 or (cron.hours == ALL_HOURS and cron.wildcard):
        return None
    step = _even_step(cron.minutes, 60)
    if cron.wildcard and step is not None and hours == list(range(hours[0], hours[-1] + 1)):
        last = hours[-1] * 60 + 60 - step
        return _Phrase(f"{_every(step, 'minute')} {_from_to(hours[0] * 60, last)}", starred=True)
    minutes = list_set_bits(cron.minutes)
    if cron.wildcard or len(minutes) != 1 or len(hours) < _SHORTEST_SPAN:
        return None
    stride = hours[1] - hours[0]
    if 24 % stride or hours != list(range(hours[0], hours[-1] + 1, stride)):
        return None
    ends = _from_to(hours[0] * 60 + minutes[0], hours[-1] * 60 + minutes[0])
    return _Phrase(f"{_every(stride, 'hour')} {ends}")


def _times(cron: Cron) -> _Phrase | None:
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
    return _Phrase(f"at {join(times)}", times=True)


def _describe_by_fields(cron: Cron) -> _Phrase:
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
    return _Phrase(" of ".join(parts), starred=bool(minute_step or hour_step))


def _even_step(mask: int, size: int) -> int | None:
    """n when the mask is every nth value and n divides the field evenly; only then is "every n" the truth."""
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


# --- on which days -------------------------------------------------------------------------------------------------


def _days(cron: Cron) -> str:
    """on the 1st of every month · Monday to Friday · on the 1st of the month or every Monday; "" for every day"""
    of_month = cron.days != ALL_DAYS or cron.last or cron.nearest
    of_week = cron.weekdays != ALL_WEEKDAYS or cron.nth
    if cron.either:
        return f"on {join(_month_days(cron))} of the month or {_week_days(cron)}"
    if of_month and of_week:
        return f"on {join(_month_days(cron))} of the month if it is {_condition(cron)}"
    months = "every month" if cron.months == ALL_MONTHS else _list(cron.months, _MONTHS)
    if of_month:
        return f"on {join(_month_days(cron))} of {months}"
    if _days_name_months(cron):
        return f"on {join(_nth_weekdays(cron))} of {months}"
    return _week_days(cron) if of_week else ""


def _days_name_months(cron: Cron) -> bool:
    """Whether the days are so simple that the months follow them: "on the 1st of January"."""
    of_month = cron.days != ALL_DAYS or cron.last or cron.nearest
    of_week = cron.weekdays != ALL_WEEKDAYS or cron.nth
    return not cron.either and bool((of_month and not of_week) or (not of_month and cron.nth and not cron.weekdays))


def _month_days(cron: Cron) -> list[str]:
    """Days of the month. Ordinals come late: before "the last weekday" they would be read as weekdays too."""
    items = [f"the weekday nearest to the {_ordinal(day)}" for day in list_set_bits(cron.nearest) if day > 1]
    items += ["the first weekday"] * (cron.nearest >> 1 & 1) + ["the last weekday"] * (cron.nearest & 1)
    items += [f"the {_ordinal(back)} day before the last day" for back in list_set_bits(cron.last) if back]
    spans = group_consecutive(list_set_bits(cron.days))
    if len(spans) <= _MOST_ORDINALS:
        items += [f"the {_ordinal(a)}" if a == b else f"the {_ordinal(a)} to {_ordinal(b)}" for a, b in spans]
    else:
        numbers = [str(a) if a == b else f"{a} to {b}" for a, b in spans]
        items += [f"days {numbers[0]}", *numbers[1:]]
    return items + ["the last day"] * (cron.last & 1)


def _week_days(cron: Cron) -> str:
    """every Monday and Thursday · Monday to Friday · every Monday and the second Friday of the month"""
    nth = _nth_weekdays(cron)
    names = _weekday_names(cron)
    text = join([*names, *nth])
    if names and not any(" to " in name for name in names):
        text = f"every {text}"
    return f"{text} of the month" if nth else text


def _condition(cron: Cron) -> str:
    nth = _nth_weekdays(cron)
    text = join([*_weekday_names(cron), *nth], "or")
    return f"{text} of the month" if nth else text


def _weekday_names(cron: Cron) -> list[str]:
    return _items(sum(1 << (day or 7) for day in list_set_bits(cron.weekdays)), _WEEKDAYS)


def _nth_weekdays(cron: Cron) -> list[str]:
    return [f"the {_NTH[bit // 7]} {_WEEKDAYS[bit % 7 or 7]}" for bit in list_set_bits(cron.nth)]


def _list(mask: int, names: tuple[str, ...]) -> str:
    return join(_items(mask, names))


def _items(mask: int, names: tuple[str, ...]) -> list[str]:
    return [names[a] if a == b else f"{names[a]} to {names[b]}" for a, b in group_consecutive(list_set_bits(mask))]


def _ordinal(number: int) -> str:
    suffix = "th" if number // 10 == 1 else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{suffix}"
