"""POSIX cron expressions as the declarative scheduler takes them: five strict fields, read in the host's time zone."""

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
WHOLE = "expression"  # where no single field is at fault
MAX_EXPRESSION = 4_096
_KEPT = 4_096  # expressions read once: many tasks have the same
_ALL_MONTHS = (1 << 13) - 2
_FIELD = re.compile(r"[^ \t]+")


@lru_cache(maxsize=_KEPT)
def parse_cron_expression(expression: str) -> Cron:
    """The readings of the clock that an expression matches.

    Raises ``InvalidCronExpressionError``, caused by a ``FieldParseError`` where it is one field that is wrong.
    """
    if len(expression) > MAX_EXPRESSION:
        raise InvalidCronExpressionError(
            expression[:80] + "…", WHOLE, f"has {len(expression)} characters, allowed {MAX_EXPRESSION}"
        )
    try:
        return parse_cron(expression, dialect="posix")
    except InvalidSchedule as error:
        if error.field is None:
            raise InvalidCronExpressionError(expression, WHOLE, error.reason).caused_by(error) from error
        value = _FIELD.findall(expression)[FIELDS.index(error.field)]
        cause = FieldParseError(error.field, value, error.reason).caused_by(error)
        raise InvalidCronExpressionError(expression, error.field, error.reason).caused_by(cause) from cause


def schedule_spec(expression: str, cron: Cron, zone: str) -> ScheduleSpec:
    """The expression as a schedule of the engine: literal about changes of the clock, in the host's zone.

    The engine takes texts up to a bound that only lists written out in full exceed; these are written shorter.
    """
    text = expression if len(expression) <= MAX_LENGTH else _shorter(cron)
    return ScheduleSpec(text=text, timezone=zone, dialect="posix", dst="literal")


@lru_cache(maxsize=_KEPT)
def schedule_of(spec: ScheduleSpec) -> Schedule:
    """The schedule itself; the same for all tasks with the expression."""
    return spec.parse("")


def first_occurrence_us(schedule: Schedule, now_us: int, expression: str) -> int:
    """The current minute, if the expression matches it, else the next one that it does.

    Raises ``CronCalculationError`` where there is none.
    """
    found = schedule.next_us(now_us - MINUTE_US)
    if found is None:
        cause = InvalidSchedule(expression, "never matches: no such date exists", subject="the expression")
        raise CronCalculationError(expression, from_us(now_us).isoformat(), cause)
    return found


def rare(cron: Cron) -> bool:
    """Whether years may lie between two occurrences."""
    return cron.months != _ALL_MONTHS


def _shorter(cron: Cron) -> str:
    free = (
        _fits(cron.minutes, 0, 59),
        _fits(cron.hours, 0, 23),
        _fits(cron.days, 1, 31),
        _fits(cron.months, 1, 12),
        _fits(cron.weekdays, 0, 6),
    )
    if cron.either:  # both day fields are restricted, though perhaps to everything
        free = (*free[:2], free[2].replace("*", "1-31"), free[3], free[4].replace("*", "0-6"))
    return " ".join(free)


def _fits(mask: int, low: int, high: int) -> str:
    """A field as the fewest ranges."""
    values = [value for value in range(low, high + 1) if mask >> value & 1]
    if len(values) == high - low + 1:
        return "*"
    breaks = [i for i, (a, b) in enumerate(pairwise(values), 1) if b != a + 1]
    runs = [values[i:j] for i, j in pairwise([0, *breaks, len(values)])]
    return ",".join(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs)
