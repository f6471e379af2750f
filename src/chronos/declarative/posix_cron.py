"""POSIX cron expressions of the declarative scheduler: five strict fields, in the host's time zone."""

import re
from functools import lru_cache
from itertools import pairwise

from chronos.core.calendar import from_us
from chronos.core.config import MINUTE_US
from chronos.core.job import ScheduleSpec
from chronos.core.schedule.cron import Cron
from chronos.core.schedule.cron_parser import parse_cron
from chronos.core.schedule.parser import MAX_LENGTH
from chronos.core.schedule.schedule import Schedule
from chronos.declarative.errors import CronCalculationError, FieldParseError, InvalidCronExpressionError
from chronos.errors import InvalidSchedule

FIELDS = ("minute", "hour", "day", "month", "weekday")
WHOLE_EXPRESSION = "expression"  # the field of an error where no single field is at fault
MAX_EXPRESSION = 4_096
_CACHE_SIZE = 4_096  # many tasks have the same expression
_ALL_MONTHS = (1 << 13) - 2
_FIELD = re.compile(r"[^ \t]+")


@lru_cache(maxsize=_CACHE_SIZE)
def parse_cron_expression(expression: str) -> Cron:
    """Parse an expression.

    Raises ``InvalidCronExpressionError``, caused by a ``FieldParseError`` where a single field is invalid.
    """
    if len(expression) > MAX_EXPRESSION:
        raise InvalidCronExpressionError(
            expression[:80] + "…", WHOLE_EXPRESSION, f"has {len(expression)} characters, allowed {MAX_EXPRESSION}"
        )
    try:
        return parse_cron(expression, dialect="posix")
    except InvalidSchedule as error:
        if error.field is None:
            raise InvalidCronExpressionError(expression, WHOLE_EXPRESSION, error.reason).caused_by(error) from error
        value = _FIELD.findall(expression)[FIELDS.index(error.field)]
        cause = FieldParseError(error.field, value, error.reason).caused_by(error)
        raise InvalidCronExpressionError(expression, error.field, error.reason).caused_by(cause) from cause


def to_schedule_spec(expression: str, cron: Cron, zone: str) -> ScheduleSpec:
    """The expression as a schedule of the engine, with literal clock changes, in the host's zone.

    An expression longer than the engine accepts, which is one with long lists, is rewritten with ranges.
    """
    text = expression if len(expression) <= MAX_LENGTH else _write_short(cron)
    return ScheduleSpec(text=text, timezone=zone, dialect="posix", dst="literal")


@lru_cache(maxsize=_CACHE_SIZE)
def parse_schedule_spec(spec: ScheduleSpec) -> Schedule:
    """Parse a schedule, once for all tasks with the same expression."""
    return spec.parse("")


def find_first_occurrence_us(schedule: Schedule, now_us: int, expression: str) -> int:
    """The current minute if the expression matches it, otherwise the next match.

    Raises ``CronCalculationError`` where the expression never matches.
    """
    first_us = schedule.next_us(now_us - MINUTE_US)
    if first_us is None:
        cause = InvalidSchedule(expression, "never matches: no such date exists", subject="the expression")
        raise CronCalculationError(expression, from_us(now_us).isoformat(), cause)
    return first_us


def is_rare(cron: Cron) -> bool:
    """Whether there may be years between two occurrences."""
    return cron.months != _ALL_MONTHS


def _write_short(cron: Cron) -> str:
    fields = (
        _write_field(cron.minutes, 0, 59),
        _write_field(cron.hours, 0, 23),
        _write_field(cron.days, 1, 31),
        _write_field(cron.months, 1, 12),
        _write_field(cron.weekdays, 0, 6),
    )
    if cron.either:  # both day fields are lists, even if they list every day
        fields = (*fields[:2], fields[2].replace("*", "1-31"), fields[3], fields[4].replace("*", "0-6"))
    return " ".join(fields)


def _write_field(mask: int, low: int, high: int) -> str:
    """A field with the fewest ranges."""
    values = [value for value in range(low, high + 1) if mask >> value & 1]
    if len(values) == high - low + 1:
        return "*"
    breaks = [i for i, (a, b) in enumerate(pairwise(values), 1) if b != a + 1]
    runs = [values[i:j] for i, j in pairwise([0, *breaks, len(values)])]
    return ",".join(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs)
