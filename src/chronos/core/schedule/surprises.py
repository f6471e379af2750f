"""Surprises: expressions that are valid here, but mean something else than their author may think.

A surprise does not reject a schedule. Clients get it as a warning when they explain, preview or save the schedule.
"""

import re
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache

from chronos.core.calendar import rfc3339
from chronos.core.schedule.cron import FIRST_YEAR, CronRule
from chronos.core.schedule.cron_format import group_consecutive, list_set_bits
from chronos.core.schedule.cron_parser import find_single_value_steps, parse_cron
from chronos.core.schedule.parser import is_cron, split_zone
from chronos.core.schedule.schedule import Schedule
from chronos.errors import InvalidSchedule

_CRON_DIALECTS = ("auto", "standard", "seconds", "quartz")
_WEEKDAYS = ("Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat")
_EVERY_UNITS = {"second": "s", "minute": "m", "hour": "h"}
_PERIODS = {"day": "D", "month": "M"}
_WEEKDAY_NUMBER = re.compile(r"(?:^|[,-])\d")


class SurpriseKind(StrEnum):
    """The kind of a surprise, as clients see it."""

    QUARTZ_WEEKDAYS = "quartz_weekdays"  # numbers that Quartz counts from 1 for Sunday
    STEP_BEYOND_FIELD = "step_beyond_field"  # a step that leaves a single value
    DAY_AND_WEEKDAY = "day_and_weekday"  # both must match, where other schedulers need one
    ENDED = "ended"  # nothing runs, because the end has passed


@dataclass(frozen=True, slots=True, kw_only=True)
class Surprise:
    """One surprise; ``message`` says what the text means here, then what to write."""

    kind: SurpriseKind
    message: str


def find_surprises(schedule: Schedule, dialect: str, now_us: int) -> list[Surprise]:
    """Return the surprises of a schedule that was written in a dialect, expression by expression."""
    found: list[Surprise] = []
    for member in schedule.members:
        if isinstance(member.rule, CronRule) and dialect in _CRON_DIALECTS:
            found += _find_in_text(member.text, dialect)
        found += _find_end(member, now_us)
    return found


def _find_end(schedule: Schedule, now_us: int) -> list[Surprise]:
    if schedule.end_us is not None and schedule.end_us < now_us:
        message = f"its end, {rfc3339(schedule.end_us)}, is in the past, so it does not run"
        return [Surprise(kind=SurpriseKind.ENDED, message=message)]
    rule = schedule.rule
    if isinstance(rule, CronRule) and rule.cron.years and schedule.next_us(now_us) is None:
        last_year = FIRST_YEAR + rule.cron.years.bit_length() - 1
        message = f"its last run is in the past: it has no year after {last_year}"
        return [Surprise(kind=SurpriseKind.ENDED, message=message)]
    return []


@lru_cache(maxsize=4_096)
def _find_in_text(expression: str, dialect: str) -> tuple[Surprise, ...]:
    """Return the surprises of a valid cron expression."""
    text, _ = split_zone(expression, dialect)
    if text.startswith("@") or not is_cron(text):
        return ()
    fields = text.split()
    second_at = len(fields) > 5
    day, weekday = fields[2 + second_at], fields[4 + second_at]
    found = [
        Surprise(kind=SurpriseKind.STEP_BEYOND_FIELD, message=_explain_step(name, item, step, value))
        for name, item, step, value in find_single_value_steps(text, dialect)
    ]
    if dialect == "auto" and day == "?" and _WEEKDAY_NUMBER.search(weekday):
        found += _compare_with_quartz(fields, weekday)
    is_step_beside = (day.startswith("*/") and weekday[0] not in "*?") or (
        weekday.startswith("*/") and day[0] not in "*?"
    )
    if is_step_beside:
        message = (
            f'day "{day}" and weekday "{weekday}" must both match here; '
            "Go and Kubernetes run when either matches, for which give two expressions in a list"
        )
        found.append(Surprise(kind=SurpriseKind.DAY_AND_WEEKDAY, message=message))
    return tuple(found)


def _explain_step(name: str, item: str, step: int, value: int) -> str:
    hint = ""
    if name in _EVERY_UNITS:
        hint = f'; for an interval, write "@every {step}{_EVERY_UNITS[name]}"'
    elif name in _PERIODS:
        hint = f'; for an interval, write "P{step}{_PERIODS[name]}"'
    return f'{name} "{item}" has a step beyond its range, so it is only {value}{hint}'


def _compare_with_quartz(fields: list[str], weekday: str) -> list[Surprise]:
    """Return a surprise if Quartz reads other weekdays."""
    with_seconds = fields if len(fields) > 5 else ["0", *fields]
    try:
        there = parse_cron(" ".join(with_seconds), dialect="quartz")
    except InvalidSchedule:
        return []
    here = parse_cron(" ".join(fields), dialect="auto")
    if (here.weekdays, here.nth) == (there.weekdays, there.nth):
        return []
    meaning = (
        f"means {_list_weekdays(here.weekdays)} here and {_list_weekdays(there.weekdays)} in Quartz"
        if here.weekdays
        else "is a day later here than in Quartz"
    )
    message = f'weekday "{weekday}" {meaning}; write names, as in MON-FRI, or use the dialect quartz'
    return [Surprise(kind=SurpriseKind.QUARTZ_WEEKDAYS, message=message)]


def _list_weekdays(mask: int) -> str:
    runs = group_consecutive(list_set_bits(mask))
    return ", ".join(_WEEKDAYS[a] if a == b else f"{_WEEKDAYS[a]} to {_WEEKDAYS[b]}" for a, b in runs)
