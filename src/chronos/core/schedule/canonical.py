"""The canonical expression of a schedule: the reading of names, macros, ``H`` and plain words."""

from chronos.core.schedule.cron import CronRule
from chronos.core.schedule.cron_format import format_cron
from chronos.core.schedule.once import DelayRule
from chronos.core.schedule.schedule import Schedule
from chronos.core.schedule.words import read_words
from chronos.errors import InvalidSchedule


def to_canonical(expression: str, schedule: Schedule) -> str | None:
    """Return the canonical expression; None if the text already is canonical, or has no other expression."""
    if isinstance(schedule.rule, CronRule):
        text = format_cron(schedule.rule.cron)
    elif isinstance(schedule.rule, DelayRule):
        return None
    else:
        try:
            text = read_words(expression).expression
        except InvalidSchedule:
            return None
    return None if expression.endswith(text) else text
