"""What the text of a schedule was understood as: names, macros, ``H`` and plain words in the dialect below them."""

from chronos.core.cron import CronRule
from chronos.core.cron_format import format_cron
from chronos.core.once import LaterRule
from chronos.core.schedule import Schedule
from chronos.core.words import read_words
from chronos.errors import InvalidSchedule


def understood_as(expression: str, schedule: Schedule) -> str | None:
    """The expression that a text stands for; None where the text says just that, or nothing but itself can say it."""
    if isinstance(schedule.rule, CronRule):
        text = format_cron(schedule.rule.cron)
    elif isinstance(schedule.rule, LaterRule):
        return None
    else:
        try:
            text = read_words(expression).expression
        except InvalidSchedule:
            return None
    return None if expression.endswith(text) else text
