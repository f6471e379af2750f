"""What a sentence means: from what was said to a cron expression, ``@every``, an ISO 8601 interval or an instant.

Nothing is guessed and nothing is rounded: what none of these can say exactly is refused, with what to say instead.
The choices made here are listed in ``words``.
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

_FURTHEST_DAYS = 109_575  # 300 years, a little more than the longest Go duration
_INTERVAL_HINT = "only an interval that divides an hour or a day evenly can keep to times and days"
_PERIOD_HINT = 'give a first date, as in "every 2 weeks from 2027-01-04 at 9am"'


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """What a text says, in the terms of the other dialects. What it leaves unsaid is None or empty.

    ``expression`` is a cron expression, ``@every …``, an ISO 8601 interval or an instant; for a relative time
    (``later`` is set) it is the text to show back.
    """

    expression: str = ""
    later: Delay | None = None
    timezone: str | None = None
    start: str | None = None
    end: str | None = None
    jitter: str | None = None
    exclude: tuple[str, ...] = ()
    literal: bool = False


def translate_sentence(said: Sentence) -> Reading:
    """The reading of a whole sentence. Raises ``Unclear`` where its parts do not go together."""
    if said.open_days:
        said.day_groups.append((said.open_days, None))
    later, start = None, said.start
    if said.later is not None:
        later = _later(said)
        expression = format_delay(later)
    elif said.date:
        expression = _once(said)
    elif "once" in said.where:
        raise said.refusal("once", 'says "once" without a date', 'as in "once at 2027-01-01T09:00:00Z"')
    elif "cron" in said.where:
        expression = _quoted_cron(said)
    elif said.amount is not None and _is_interval(said):
        start = _start_of_day_at(said) or start
        expression = _interval(said, said.amount)
    else:
        expression = format_cron(to_cron(said))
    return Reading(
        expression=expression,
        later=later,
        timezone=said.zone,
        start=start or None,
        end=said.end or None,
        jitter=go_duration(said.jitter_us) if said.jitter_us else None,
        exclude=tuple(said.exclude),
        literal=said.literal,
    )


# --- one time only -------------------------------------------------------------------------------------------------


def _later(said: Sentence) -> Delay:
    amount = said.later or Period()
    said.check_only("later", "a delay", besides=("times", "once"))
    if amount.months:
        raise said.refusal("later", "waits for months or years, which are not of one length", "give days, or a date")
    if amount.days + amount.us // (DAY_S * SECOND_US) > _FURTHEST_DAYS:
        raise said.refusal("later", "waits for more than 300 years")
    if len(said.times) > 1 or (said.times and amount.us):
        raise said.refusal("times", "has a time that does not fit its delay", 'as in "in 3 days at 8am"')
    if said.needs_time and not said.times:
        raise said.refusal("later", "needs a time", 'as in "tomorrow at noon"')
    return Delay(days=amount.days, us=amount.us, second_of_day=said.times[0] if said.times else None)


def _once(said: Sentence) -> str:
    said.check_only("date", "a single date", besides=("times", "once"))
    if not said.times:
        return said.date
    if len(said.times) > 1 or "T" in said.date:
        raise said.refusal("times", "has more than one time for its date", "use one schedule for each")
    return _at_time(said.date, said.times[0])


def _at_time(date: str, second: int) -> str:
    return f"{date}T{second // 3600:02d}:{second // 60 % 60:02d}:{second % 60:02d}"


def _quoted_cron(said: Sentence) -> str:
    """Spelt anew, so that it can only be a cron expression; ``H`` would need the job's name. Or a package's own."""
    said.check_only("cron", "a cron expression")
    text = said.cron
    if is_custom(text):
        return text
    if not text.isascii() or "H" in text:
        raise said.refusal("cron", "has a quoted cron expression that cannot be read", "write it without the words")
    return format_cron(parse_cron(text, dialect="seconds" if len(text.split()) == 6 else "standard"))


# --- intervals -----------------------------------------------------------------------------------------------------


def _is_interval(said: Sentence) -> bool:
    """Whether the amount is counted from a start, rather than being fields of a cron expression."""
    anchored = bool(said.start or said.anchor or said.count is not None)
    restricted = any(what in said.where for what in RESTRICTIONS)
    if said.counting:
        said.check_only("amount", "an interval")
        return True
    if said.by_clock:
        return False
    if said.frame or clock_step(said.amount) is not None:
        return anchored and not restricted
    if restricted and _start_of_day_at(said) is None:
        what = next(what for what in RESTRICTIONS if what in said.where)
        hint = _INTERVAL_HINT if said.amount and said.amount.us else _PERIOD_HINT
        raise said.refusal(what, f"cannot be said of an interval of {format_period(said.amount or Period())}", hint)
    return True


def _start_of_day_at(said: Sentence) -> str | None:
    """every 2 weeks from 2027-01-04 at 9am: the time belongs to the start."""
    others = [what for what in RESTRICTIONS if what in said.where and what != "times"]
    calendar = said.amount is not None and (said.amount.months or said.amount.days) and not said.frame
    if not calendar or others or len(said.times) != 1 or not said.start or "T" in said.start:
        return None
    return _at_time(said.start, said.times[0])


def _interval(said: Sentence, amount: Period) -> str:
    if amount == Period():
        raise said.refusal("amount", "repeats after no time at all")
    exclude_days(said)
    plain = not (amount.months or amount.days or said.counting == "calendar" or said.anchor)
    if plain and said.count is None:
        return f"@every {go_duration(amount.us)}"
    repeat = "R" if said.count is None else f"R{said.count}"
    if said.anchor:
        return f"{repeat}/{said.anchor}/{iso_period(amount)}"
    return iso_period(amount) if said.count is None else f"{repeat}/{iso_period(amount)}"
