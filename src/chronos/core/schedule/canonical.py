"""The canonical expression of a schedule: the reading of names, macros, ``H`` and plain words."""

from chronos.core.schedule.cron import CronRule
from chronos.core.schedule.cron_format import format_cron
from chronos.core.schedule.iso8601 import PeriodRule
from chronos.core.schedule.once import DelayRule
from chronos.core.schedule.schedule import Schedule
from chronos.core.schedule.union import UnionRule, join_expressions
from chronos.core.schedule.words import read_words
from chronos.errors import InvalidSchedule


def to_canonical(schedule: Schedule) -> str | None:
    """Return the canonical expression; None if the text already is canonical, or has no other expression."""
    rule, expression = schedule.rule, schedule.text
    if isinstance(rule, UnionRule):
        members = [to_canonical(member) for member in rule.members]
        readings = [text or member.text for text, member in zip(members, rule.members, strict=True)]
        return join_expressions(readings) if any(members) else None
    if isinstance(rule, CronRule):
        text = format_cron(rule.cron)
    elif isinstance(rule, DelayRule) or (isinstance(rule, PeriodRule) and rule.second_of_day is not None):
        return None
    else:
        try:
            text = read_words(expression).expression
        except InvalidSchedule:
            return None
    return None if f" {expression}".endswith(f" {text}") else text
