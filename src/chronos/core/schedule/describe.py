"""A schedule in words, which ``parse_schedule`` reads back to an equal one: the inverse of ``words``.

Every schedule has a description. It reads back as long as it is within the 256 characters that an expression may
have (long lists in several fields, or many exclusions, are not), and unless its rule can be said in no text at all
(a date that never comes, which only the ``posix`` dialect lets pass). The ``key`` of a jitter is not said.
"""

from datetime import date
from typing import TYPE_CHECKING, assert_never

from chronos.core.calendar import EPOCH_ORDINAL, rfc3339
from chronos.core.schedule.cron import ALL_SIXTY, Cron, CronRule
from chronos.core.schedule.cron_format import format_cron, format_fields
from chronos.core.schedule.describe_cron import describe_cron, join
from chronos.core.schedule.durations import format_delay, format_period
from chronos.core.schedule.exclusions import DateRange
from chronos.core.schedule.interval import EveryRule
from chronos.core.schedule.iso8601 import Period, PeriodRule
from chronos.core.schedule.once import DelayRule, OnceRule
from chronos.core.schedule.plugins import CustomRule
from chronos.core.schedule.words.cron_fields import clock_step

if TYPE_CHECKING:
    from chronos.core.schedule.schedule import Schedule

_READABLE_LENGTH = 256  # what the parser takes


def describe(schedule: "Schedule") -> str:
    """The schedule in words, its zone last."""
    around = [*_window(schedule), schedule.zone.name]
    words = ", ".join([_rule(schedule), *around])
    if len(words) > _READABLE_LENGTH and isinstance(schedule.rule, CronRule):
        shorter = ", ".join(
            [f'as the cron expression "{format_cron(schedule.rule.cron)}"', *_policy(schedule), *around]
        )
        return shorter if len(shorter) <= _READABLE_LENGTH else words
    return words


def _rule(schedule: "Schedule") -> str:
    rule = schedule.rule
    match rule:
        case CronRule():
            anchored = schedule.start_us is not None
            return ", ".join([describe_cron(rule.cron, by_the_clock=anchored), *_policy(schedule)])
        case EveryRule():
            amount = Period(us=rule.period_us)
            counted = rule.start_us is not None or clock_step(amount) is None
            return _every(amount) if counted else f"at intervals of {format_period(amount)}"
        case PeriodRule():
            return ", ".join(_period(rule, schedule.start_us))
        case OnceRule():
            return f"once at {rfc3339(rule.at_us)}"
        case DelayRule():
            return format_delay(rule.delay)
        case CustomRule():
            return f'as the schedule "{rule.text}"'
        case _:
            assert_never(rule)


def _every(amount: Period) -> str:
    """``every 2 weeks``; ``every month`` rather than every 1 month."""
    words = format_period(amount)
    return f"every {words.removeprefix('1 ') if words.count(' ') == 1 else words}"


def _policy(schedule: "Schedule") -> list[str]:
    literal = isinstance(schedule.rule, CronRule) and schedule.rule.literal
    return ["taking clock changes literally"] if literal else []


def _period(rule: PeriodRule, start_us: int | None) -> list[str]:
    """A period that nothing anchors would be read as "every day" and the like, which is cron: so it says more."""
    amount = rule.period
    anchor = [f"counted from {rfc3339(rule.start_us)}"] if rule.start_us not in (None, start_us) else []
    count = [f"{rule.count} times"] if rule.count is not None else []
    exact = not amount.months and not amount.days
    single = amount in (Period(days=1), Period(months=1), Period(months=12))
    if exact and not count and not anchor:
        words = f"at calendar intervals of {format_period(amount)}"
    elif single and rule.start_us is None and not count:
        words = f"at intervals of {format_period(amount)}"
    else:
        words = _every(amount)
    return [words, *count, *anchor]


def _window(schedule: "Schedule") -> list[str]:
    parts = []
    if schedule.start_us is not None:
        parts.append(f"from {rfc3339(schedule.start_us)}")
    if schedule.end_us is not None:
        parts.append(f"until {rfc3339(schedule.end_us)}")
    if schedule.jitter_us:
        parts.append(f"with jitter up to {format_period(Period(us=schedule.jitter_us))}")
    if schedule.exclude:
        excluded = [*map(_dates, schedule.exclude.dates), *map(_matching, schedule.exclude.crons)]
        parts.append(f"except {join(excluded)}")
    return parts


def _dates(dates: DateRange) -> str:
    first, last = (date.fromordinal(n + EPOCH_ORDINAL) for n in (dates.first_day, dates.last_day))
    return f"{first}" if first == last else f"{first} to {last}"


def _matching(cron: Cron) -> str:
    fields = format_fields(cron)
    return f'"{" ".join(fields[1:] if cron.seconds == ALL_SIXTY else fields)}"'
