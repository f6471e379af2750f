"""Describes a schedule in words that ``parse_schedule`` reads back to an equal schedule; the inverse of ``words``.

Every schedule has a description: "Weekdays at 09:00, Europe/Paris". These do not read back:

* descriptions longer than the 256 characters of an expression: long lists in several fields, or many exclusions
* a date that never comes, which only the ``posix`` dialect accepts

The ``key`` of a jitter is not part of the description.
"""

from datetime import date
from typing import TYPE_CHECKING, assert_never

from chronos.core.calendar import EPOCH_ORDINAL, rfc3339
from chronos.core.schedule.cron import ALL_SIXTY, Cron, CronRule
from chronos.core.schedule.cron_format import format_cron, format_fields
from chronos.core.schedule.describe_cron import WEEKDAYS, describe_cron, join
from chronos.core.schedule.durations import format_delay, format_period, format_time_of_day
from chronos.core.schedule.exclusions import DateRange
from chronos.core.schedule.interval import EveryRule
from chronos.core.schedule.iso8601 import Period, PeriodRule
from chronos.core.schedule.once import DelayRule, OnceRule
from chronos.core.schedule.plugins import CustomRule
from chronos.core.schedule.random_interval import RandomRule
from chronos.core.schedule.union import UnionRule, join_expressions
from chronos.core.schedule.words.cron_fields import clock_step

if TYPE_CHECKING:
    from chronos.core.schedule.schedule import Schedule

_READABLE_LENGTH = 256  # the parser's limit


def describe(schedule: "Schedule") -> str:
    """Return the description: a capital first, the zone last."""
    words = join_expressions(_describe(member) for member in schedule.members)
    return words[0].upper() + words[1:]


def _describe(schedule: "Schedule") -> str:
    """Describe a schedule that is not a union."""
    window = [*_describe_window(schedule), schedule.zone.name]
    words = ", ".join([_describe_rule(schedule), *window])
    if len(words) > _READABLE_LENGTH and isinstance(schedule.rule, CronRule):
        quoted = f'cron expression "{format_cron(schedule.rule.cron)}"'
        shorter = ", ".join([quoted, *_describe_policy(schedule), *window])
        words = shorter if len(shorter) <= _READABLE_LENGTH else words
    return words


def _describe_rule(schedule: "Schedule") -> str:
    rule = schedule.rule
    match rule:
        case CronRule():
            anchored = schedule.start_us is not None
            return ", ".join([describe_cron(rule.cron, by_the_clock=anchored), *_describe_policy(schedule)])
        case EveryRule():
            amount = Period(us=rule.period_us)
            is_clear = rule.start_us is not None or clock_step(amount) is None
            return _every(amount) if is_clear else f"{_every(amount)} from the start"
        case RandomRule():
            return _describe_random(rule)
        case PeriodRule():
            return ", ".join(_describe_period(rule, schedule.start_us))
        case OnceRule():
            return f"once at {rfc3339(rule.at_us)}"
        case DelayRule():
            return format_delay(rule.delay)
        case CustomRule():
            return f'schedule "{rule.text}"'
        case UnionRule():
            raise AssertionError("a member of a union is not a union")
        case _:
            assert_never(rule)


def _every(amount: Period) -> str:
    """``every 2 weeks``; ``every month`` rather than every 1 month."""
    words = format_period(amount)
    return f"every {words.removeprefix('1 ') if words.count(' ') == 1 else words}"


def _describe_random(rule: RandomRule) -> str:
    """``every 5 to 10 minutes``, ``every 90 seconds to 1 hour``."""
    shortest, longest = (format_period(Period(us=us)) for us in (rule.shortest_us, rule.longest_us))
    if shortest.count(" ") == longest.count(" ") == 1:
        (count, unit), (_, longest_unit) = shortest.split(), longest.split()
        if unit.rstrip("s") == longest_unit.rstrip("s"):
            return f"every {count} to {longest}"
    return f"every {shortest} to {longest}"


def _describe_policy(schedule: "Schedule") -> list[str]:
    is_literal = isinstance(schedule.rule, CronRule) and schedule.rule.literal
    return ["taking clock changes literally"] if is_literal else []


def _describe_period(rule: PeriodRule, start_us: int | None) -> list[str]:
    """Add a few words where "every day" or "every 6 hours" alone would be read as a cron expression."""
    amount = rule.period
    words = _every(amount)
    if rule.weekday is not None:
        words += f" on {WEEKDAYS[rule.weekday or 7]}"
    if rule.second_of_day is not None:
        words += f" at {format_time_of_day(rule.second_of_day)}"
    anchor = [f"counted from {rfc3339(rule.start_us)}"] if rule.start_us not in (None, start_us) else []
    count = [f"{rule.count} times"] if rule.count is not None else []
    is_exact = not amount.months and not amount.days
    is_single = amount in (Period(days=1), Period(months=1), Period(months=12))
    if is_exact and not count and not anchor:
        words += " by the calendar"
    elif is_single and rule.start_us is None and not count:
        words += " from the start"
    return [words, *count, *anchor]


def _describe_window(schedule: "Schedule") -> list[str]:
    parts = []
    if schedule.start_us is not None:
        parts.append(f"from {rfc3339(schedule.start_us)}")
    if schedule.end_us is not None:
        parts.append(f"until {rfc3339(schedule.end_us)}")
    if schedule.jitter_us:
        parts.append(f"with jitter up to {format_period(Period(us=schedule.jitter_us))}")
    if schedule.exclude:
        excluded = [*map(_format_dates, schedule.exclude.dates), *map(_format_cron, schedule.exclude.crons)]
        parts.append(f"except {join(excluded)}")
    return parts


def _format_dates(dates: DateRange) -> str:
    first, last = (date.fromordinal(n + EPOCH_ORDINAL) for n in (dates.first_day, dates.last_day))
    return f"{first}" if first == last else f"{first} to {last}"


def _format_cron(cron: Cron) -> str:
    fields = format_fields(cron)
    return f'"{" ".join(fields[1:] if cron.seconds == ALL_SIXTY else fields)}"'
