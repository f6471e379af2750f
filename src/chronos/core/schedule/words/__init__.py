"""Schedules in plain words, translated deterministically and offline to the other dialects.

Clauses in any order, with optional commas and "and" (``grammar`` has them all)::

    every 15 minutes · every other day · hourly · daily · weekly · monthly · yearly · weekdays · Mondays
    at 9am and 17:00 · every hour at minute 5 · every 15 minutes between 9am and 5pm
    on the 1st and 15th · on the last day of the month · on the first Monday of January · on 25 December
    in 2 hours · tomorrow at noon · in 3 days at 8am · once at 2027-01-01T00:00:00Z
    every 5 to 10 minutes · every 2 days at 10:30 · every 3 weeks on Monday · in 2027 · in the years 2027 to 2030
    in New York · Europe/Paris · from 2027-01-01 · until 2027-12-31 · 5 times · except Sundays
    with jitter up to 30 seconds

The meaning of ambiguous words:

* "every 15 minutes", "every 2 hours": an interval that divides the minute, hour or day evenly follows the clock
  (``*/15 * * * *``). Other intervals are counted from the start (``@every 45m``). So is every interval with a start
  ("every 15 minutes from 2027-01-01T00:05:00Z", "every 15 minutes from the start"), unless "by the clock" follows it.
* "every 2 weeks", "every 3 months": calendar periods from the start (``P2W``). "every day from the start" is ``P1D``,
  "every 2 hours from the start" ``@every 2h``, "every 2 hours by the calendar" ``PT2H``. "at intervals of 2 hours" and
  "at calendar intervals of 2 hours" mean the same.
* "every 2 days at 10:30" begins at the first 10:30 at or after the start, "every 3 weeks on Monday" at the first
  Monday. "every 5 to 10 minutes" is a random interval (``@every 5m to 10m``).
* "daily", "weekly", "monthly", "quarterly", "yearly" are cron's macros: midnight, Sunday, the 1st, 1 January, unless
  the sentence says otherwise. Days without a time mean midnight.
* "from 9am to 5pm" includes 5pm. "between 9am and 5pm" does not, so that it is whole hours.
* "until 2027-12-31" includes that day. "weekday" is Monday to Friday. "8" as a time is 08:00.
* A city means the zone that tzdata names after it.

Text without an exact translation is rejected. Text that is not understood is rejected with the nearest reading.

Every other dialect belongs in the package above.
"""

from collections.abc import Iterator

from chronos.core.schedule.words.grammar import read_clauses
from chronos.core.schedule.words.sentence import Unclear
from chronos.core.schedule.words.tokenizer import TokenKind, WordToken, is_known, respell, tokenise
from chronos.core.schedule.words.translator import Reading, translate_sentence
from chronos.errors import InvalidSchedule

__all__ = ["Reading", "read_words"]

_EXAMPLES = (
    'try "every weekday at 9am in New York", "every 15 minutes", "on the last day of the month at noon", "in 2 hours"'
)
_PAST_WORDS = frozenset({"ago", "previous", "yesterday"})
_MAX_RESPELT_WORDS = 4
_MAX_DROPPED_WORDS = 12


def read_words(text: str) -> Reading:
    """Translate a text in words. Raises ``InvalidSchedule`` at the first word that is not understood."""
    tokens = tokenise(text)
    if not tokens:
        raise InvalidSchedule(text, "is empty", hint=_EXAMPLES)
    try:
        return _read(tokens)
    except Unclear as unclear:
        raise _to_invalid_schedule(text, tokens, unclear) from None


def _read(tokens: list[WordToken]) -> Reading:
    return translate_sentence(read_clauses(tokens))


def _to_invalid_schedule(text: str, tokens: list[WordToken], unclear: Unclear) -> InvalidSchedule:
    hint = unclear.hint or (None if unclear.reason else _suggest_reading(tokens, unclear.index))
    if unclear.index >= len(tokens):
        reason = unclear.reason or "is incomplete"
        return InvalidSchedule(text, reason, position=len(text.rstrip()), hint=hint)
    first = tokens[unclear.index]
    last = tokens[min(unclear.index + unclear.count, len(tokens)) - 1]
    shown = first.source if first.kind is TokenKind.QUOTED else f'"{first.source}"'
    reason = unclear.reason or f"has {shown}, which is not understood here"
    length = last.at + len(last.source) - first.at
    return InvalidSchedule(text, reason, position=first.at, length=length, hint=hint)


def _suggest_reading(tokens: list[WordToken], index: int) -> str:
    """Return a hint with the nearest sentence that has a reading, or examples."""
    if any(token.text in _PAST_WORDS for token in tokens):
        return 'a schedule is in the future; try "tomorrow at 9am", "in 2 hours" or "2027-01-01T09:00:00Z"'
    for candidate in _candidates(tokens, index):
        try:
            reading = _read(candidate)
        except Unclear:
            continue
        shown = " ".join(token.source for token in candidate).replace(" ,", ",")
        zone = f" in {reading.timezone}" if reading.timezone else ""
        translation = "" if reading.delay else f" = {reading.expression}{zone}"
        return f'nearest reading: "{shown}"{translation}'
    return _EXAMPLES


def _candidates(tokens: list[WordToken], index: int) -> Iterator[list[WordToken]]:
    """Yield the sentence respelt, then without unknown words, then its understood beginnings, longest first."""
    unknown = [token for token in tokens if not is_known(token)]
    respelt = tokens
    if 0 < len(unknown) <= _MAX_RESPELT_WORDS:
        respelt = [(not is_known(token) and respell(token)) or token for token in tokens]
        yield respelt
    if unknown:
        yield [token for token in respelt if is_known(token)]
    if len(unknown) < len(tokens):
        yield [WordToken(TokenKind.WORD, "every", "every", 0), *tokens]
    for end in range(min(index, len(tokens)), max(0, index - _MAX_DROPPED_WORDS), -1):
        yield tokens[:end]
