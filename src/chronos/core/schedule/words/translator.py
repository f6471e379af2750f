"""Translates a sentence to a cron expression, ``@every``, an ISO 8601 interval or an instant.

The translation does not guess or round. A sentence without an exact translation is rejected, with a suggestion. The
docstring of ``words`` lists the choices made here.
"""

from dataclasses import dataclass

from chronos.core.calendar import DAY_S, SECOND_US
from chronos.core.schedule.cron_format import format_cron
from chronos.core.schedule.cron_parser import parse_cron
from chronos.core.schedule.durations import format_delay, format_period, go_duration, iso_period
from chronos.core.schedule.iso8601 import Period
from chronos.core.schedule.once import Delay
from chronos.core.schedule.plugins import is_custom
from chronos.core.schedule.words.cron_fields import clock_step, exclude_days, to_cron
from chronos.core.schedule.words.sentence import RESTRICTIONS, Sentence

_MIDNIGHT = 0  # the second of the day
_FURTHEST_DAYS = 109_575  # 300 years, slightly more than the longest Go duration
_INTERVAL_HINT = "only an interval that divides an hour or a day evenly can keep to times and days"
_PERIOD_HINT = 'give a first date, as in "every 2 weeks from 2027-01-04 at 9am"'
_RANDOM_HINT = 'write the shorter one first, as in "every 5 to 10 minutes"'


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """The translation of a text. Parts not in the text are empty or None.

    ``expression`` is a cron expression, ``@every …``, an ISO 8601 interval or an instant. For a relative time
    (``delay`` is set) it is the text to display.
    """

    expression: str = ""
    second_of_day: int | None = None  # of the first occurrence: "every 2 days at 10:30"
    weekday: int | None = None  # of the first occurrence: "every 2 weeks on Monday"
    delay: Delay | None = None
    timezone: str | None = None
    start: str | None = None
    end: str | None = None
    jitter: str | None = None
    exclude: tuple[str, ...] = ()
    literal: bool = False


def translate_sentence(sentence: Sentence) -> Reading:
    """Translate a sentence. Raises ``Unclear`` if its parts do not fit together."""
    if sentence.open_days:
        sentence.day_groups.append((sentence.open_days, None))
    delay, start, second_of_day, weekday = None, sentence.start, None, None
    if sentence.delay is not None:
        delay = _delay(sentence)
        expression = format_delay(delay)
    elif sentence.date:
        expression = _once(sentence)
    elif "once" in sentence.positions:
        raise sentence.error("once", 'says "once" without a date', 'as in "once at 2027-01-01T09:00:00Z"')
    elif "cron" in sentence.positions:
        expression = _quoted_cron(sentence)
    elif sentence.amount is not None and _is_interval(sentence):
        if (start_of_day := _start_of_day_at(sentence)) is not None:
            start = start_of_day
        else:
            weekday = _weekday_of_weeks(sentence)
            second_of_day = _MIDNIGHT if weekday is not None else None
            if sentence.times:
                second_of_day = sentence.times[0]
        expression = _interval(sentence, sentence.amount)
    else:
        expression = format_cron(to_cron(sentence))
    return Reading(
        expression=expression,
        second_of_day=second_of_day,
        weekday=weekday,
        delay=delay,
        timezone=sentence.zone,
        start=start or None,
        end=sentence.end or None,
        jitter=go_duration(sentence.jitter_us) if sentence.jitter_us else None,
        exclude=tuple(sentence.exclude),
        literal=sentence.literal,
    )


# --- one time only -------------------------------------------------------------------------------------------------


def _delay(sentence: Sentence) -> Delay:
    amount = sentence.delay or Period()
    sentence.check_only("delay", "a delay", besides=("times", "once"))
    if amount.months:
        raise sentence.error("delay", "has a delay of months or years, whose length varies", "use days, or a date")
    if amount.days + amount.us // (DAY_S * SECOND_US) > _FURTHEST_DAYS:
        raise sentence.error("delay", "has a delay of more than 300 years")
    if len(sentence.times) > 1 or (sentence.times and amount.us):
        raise sentence.error("times", "has a time that does not fit its delay", 'as in "in 3 days at 8am"')
    if sentence.needs_time and not sentence.times:
        raise sentence.error("delay", "needs a time", 'as in "tomorrow at noon"')
    return Delay(days=amount.days, us=amount.us, second_of_day=sentence.times[0] if sentence.times else None)


def _once(sentence: Sentence) -> str:
    sentence.check_only("date", "a single date", besides=("times", "once"))
    if not sentence.times:
        return sentence.date
    if len(sentence.times) > 1 or "T" in sentence.date:
        raise sentence.error("times", "has more than one time for its date", "use one schedule for each")
    return _join_date_and_time(sentence.date, sentence.times[0])


def _join_date_and_time(date: str, second: int) -> str:
    return f"{date}T{second // 3600:02d}:{second // 60 % 60:02d}:{second % 60:02d}"


def _quoted_cron(sentence: Sentence) -> str:
    """Return the canonical form of a quoted cron expression, or a custom schedule. ``H`` would need the job's name."""
    sentence.check_only("cron", "a cron expression")
    text = sentence.cron
    if is_custom(text):
        return text
    if not text.isascii() or "H" in text:
        raise sentence.error("cron", "has a quoted cron expression that cannot be read", "write it without the words")
    return format_cron(parse_cron(text, dialect="auto"))


# --- intervals -----------------------------------------------------------------------------------------------------


def _is_interval(sentence: Sentence) -> bool:
    """Whether the amount is counted from a start, rather than translated to fields of a cron expression."""
    if sentence.longest is not None:
        sentence.check_only("amount", "a random interval")
        return True
    anchored = bool(sentence.start or sentence.anchor or sentence.count is not None)
    restricted = any(part in sentence.positions for part in RESTRICTIONS)
    if sentence.interval_kind:
        sentence.check_only("amount", "an interval")
        return True
    if sentence.by_clock:
        return False
    if sentence.calendar_unit or clock_step(sentence.amount) is not None:
        return anchored and not restricted
    if restricted and not _has_time_of_day(sentence):
        part = next(part for part in RESTRICTIONS if part in sentence.positions)
        hint = _INTERVAL_HINT if sentence.amount and sentence.amount.us else _PERIOD_HINT
        raise sentence.error(
            part,
            f"has a part that cannot be combined with an interval of {format_period(sentence.amount or Period())}",
            hint,
        )
    return True


def _start_of_day_at(sentence: Sentence) -> str | None:
    """Return the start of "every 2 weeks from 2027-01-04 at 9am", whose time belongs to the start."""
    if not sentence.times or not sentence.start or "T" in sentence.start or sentence.weekdays:
        return None
    return _join_date_and_time(sentence.start, sentence.times[0])


def _has_time_of_day(sentence: Sentence) -> bool:
    """Whether the sentence is "every 2 days at 10:30" or "every 2 weeks on Monday": a period of whole days or months,
    and one time or weekday.
    """
    amount = sentence.amount
    known = ("times",) if _weekday_of_weeks(sentence) is None else ("times", "weekdays")
    others = [part for part in (*RESTRICTIONS, "anchor") if part in sentence.positions and part not in known]
    is_calendar = amount is not None and (amount.months or amount.days) and not amount.us
    return bool(is_calendar and not sentence.calendar_unit and not others and len(sentence.times) <= 1)


def _weekday_of_weeks(sentence: Sentence) -> int | None:
    """Return the one weekday of a period of several whole weeks, or None."""
    amount = sentence.amount or Period()
    is_weeks = amount.days > 7 and amount.days % 7 == 0 and not amount.months and not amount.us
    return sentence.weekdays.bit_length() - 1 if is_weeks and sentence.weekdays.bit_count() == 1 else None


def _interval(sentence: Sentence, amount: Period) -> str:
    if amount == Period():
        raise sentence.error("amount", "has an interval of zero")
    exclude_days(sentence)
    if sentence.longest is not None:
        return _random_interval(sentence, amount, sentence.longest)
    is_plain = not (amount.months or amount.days or sentence.interval_kind == "calendar" or sentence.anchor)
    if is_plain and sentence.count is None:
        return f"@every {go_duration(amount.us)}"
    repeat = "R" if sentence.count is None else f"R{sentence.count}"
    if sentence.anchor:
        return f"{repeat}/{sentence.anchor}/{iso_period(amount)}"
    return iso_period(amount) if sentence.count is None else f"{repeat}/{iso_period(amount)}"


def _random_interval(sentence: Sentence, shortest: Period, longest: Period) -> str:
    """Return ``@every 5m to 10m``. Days and weeks count as 24 hours each."""
    if sentence.by_clock or sentence.interval_kind == "calendar":
        raise sentence.error("amount", "has a random interval, which follows neither the clock nor the calendar")
    if shortest.months or longest.months:
        raise sentence.error("amount", "has a random interval of months or years, whose length varies", "use days")
    ends_us = [amount.days * DAY_S * SECOND_US + amount.us for amount in (shortest, longest)]
    if not ends_us[0] < ends_us[1]:
        raise sentence.error("amount", "has a random interval that is not longer at its end", _RANDOM_HINT)
    return f"@every {go_duration(ends_us[0])} to {go_duration(ends_us[1])}"
