"""Formats a ``Cron`` as cron text in one canonical spelling; the inverse of ``cron_parser``.

A star at the beginning of a field has a meaning. In the minute or the hour it distinguishes an interval from fixed
times, in the two day fields "both" from "either". So a star is written exactly where the ``Cron`` has one, and
``0-59`` is not ``*``.
"""

from chronos.core.schedule.cron import ALL_DAYS, ALL_MONTHS, ALL_WEEKDAYS, FIRST_YEAR, LAST_NTH, Cron

_SHORTEST_RUN = 3  # 1,2 but 1-3
_SHORTEST_STEPS = 5  # 9,12,15,18 but 0-20/5


def format_cron(cron: Cron) -> str:
    """Return five fields if the only second is 0, else six; seven with years."""
    fields = format_fields(cron)
    if cron.years:
        return " ".join([*fields, ",".join(_format_items(cron.years, FIRST_YEAR))])
    return " ".join(fields[1:] if cron.seconds == 1 else fields)


def format_fields(cron: Cron) -> list[str]:
    """Return the six fields without the year, seconds first."""
    seconds = format_step(cron.seconds, 0, 59) or format_list(cron.seconds)
    month = "*" if cron.months == ALL_MONTHS else format_list(cron.months)
    day, weekday = _format_days(cron)
    return [seconds, *_format_clock(cron), day, month, weekday]


def find_step(mask: int, low: int, high: int) -> int | None:
    """Return n if the mask is every nth value from ``low`` to the end of the field (1 for all values), else None."""
    rest = mask >> (low + 1)
    if not mask >> low & 1 or not rest:
        return None
    step = (rest & -rest).bit_length()
    return step if mask == sum(1 << value for value in range(low, high + 1, step)) else None


def format_step(mask: int, low: int, high: int) -> str | None:
    """Return ``*`` or ``*/n`` if that is the whole field, else None."""
    step = find_step(mask, low, high)
    return None if step is None else "*" if step == 1 else f"*/{step}"


def list_set_bits(mask: int) -> list[int]:
    """Return the values whose bits are set, in order."""
    return [value for value in range(mask.bit_length()) if mask >> value & 1]


def group_consecutive(numbers: list[int]) -> list[tuple[int, int]]:
    """Return the first and last of each run of consecutive numbers; only three or more are a run."""
    runs: list[tuple[int, int]] = []
    for number in numbers:
        if runs and runs[-1][1] == number - 1:
            runs[-1] = (runs[-1][0], number)
        else:
            runs.append((number, number))
    result: list[tuple[int, int]] = []
    for first, last in runs:
        result += [(first, last)] if last - first + 1 >= _SHORTEST_RUN else [(n, n) for n in range(first, last + 1)]
    return result


def _format_clock(cron: Cron) -> tuple[str, str]:
    """Return the minute and the hour; one of them begins with a star if and only if the cron is a wildcard."""
    minute, hour = format_list(cron.minutes), format_list(cron.hours)
    if not cron.wildcard:
        return minute, hour
    minute_steps, hour_steps = format_step(cron.minutes, 0, 59), format_step(cron.hours, 0, 23)
    if minute_steps or hour_steps:
        return minute_steps or minute, hour_steps or hour
    return (
        (_format_starred(cron.minutes, 0, 59), hour)
        if cron.minutes & 1
        else (minute, _format_starred(cron.hours, 0, 23))
    )


def _format_days(cron: Cron) -> tuple[str, str]:
    """Return the day and the weekday; neither begins with a star if and only if ``either`` is set."""
    any_day = cron.days == ALL_DAYS and not (cron.last or cron.nearest or cron.nearest_last)
    any_weekday = cron.weekdays == ALL_WEEKDAYS and not cron.nth
    special_days = [f"L-{back}" if back else "L" for back in list_set_bits(cron.last)]
    special_days += [f"{day}W" if day else "LW" for day in list_set_bits(cron.nearest)]
    special_days += [f"L-{back}W" for back in list_set_bits(cron.nearest_last)]
    special_weekdays = [_format_nth(*divmod(bit, 7)) for bit in list_set_bits(cron.nth)]
    day = _join(format_list(cron.days), special_days)
    weekday = _join(format_list(cron.weekdays), special_weekdays)
    if cron.either:
        return day, weekday
    if any_day or any_weekday:
        return "*" if any_day else day, "*" if any_weekday else weekday
    if cron.days >> 1 & 1:
        return _join(_format_starred(cron.days, 1, 31), special_days), weekday
    return day, _join(_format_starred(cron.weekdays, 0, 6), special_weekdays)


def _format_nth(nth: int, weekday: int) -> str:
    return f"{weekday}L" if nth == LAST_NTH else f"{weekday}#{nth + 1}"


def _join(plain: str, special: list[str]) -> str:
    return ",".join([plain, *special] if plain else special)


def _format_starred(mask: int, low: int, high: int) -> str:
    """Return a list that begins with a star without being a step: ``*/60`` matches 0 only."""
    return format_step(mask, low, high) or _join(f"*/{high - low + 1}", _format_items(mask & ~(1 << low)))


def format_list(mask: int) -> str:
    """Return a field without a star: ``1-5``, ``9,17``."""
    return ",".join(_format_items(mask))


def _format_items(mask: int, first: int = 0) -> list[str]:
    """Return values, runs and long steps; greedy, lowest first. ``first`` is the value of bit 0."""
    items: list[str] = []
    remaining = mask
    while remaining:
        low = (remaining & -remaining).bit_length() - 1
        length, step = _run_length(mask, low, 1), 1
        if length < _SHORTEST_RUN:
            steps = range(2, mask.bit_length() // 4 + 1)
            length, step = max(((_run_length(mask, low, step), -step) for step in steps), default=(1, -1))
            length, step = (length, -step) if length >= _SHORTEST_STEPS else (1, 1)
        high = low + step * (length - 1)
        end = f"-{first + high}" + (f"/{step}" if step > 1 else "") if length > 1 else ""
        items.append(f"{first + low}{end}")
        for value in range(low, high + 1, step):
            remaining &= ~(1 << value)
    return items


def _run_length(mask: int, low: int, step: int) -> int:
    """Count the values low, low + step, … that the mask has without a break."""
    length = 1
    while mask >> (low + step * length) & 1:
        length += 1
    return length
