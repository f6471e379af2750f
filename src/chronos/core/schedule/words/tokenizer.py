"""Splits plain words into tokens, and defines the vocabulary.

Linear in the text. Case and accents are ignored; digits are ASCII only. Words without blanks are split where they have
parts: ``mon-fri`` is three tokens, ``1h30m`` four.
"""

import re
from dataclasses import dataclass, replace
from difflib import get_close_matches
from enum import Enum, auto
from unicodedata import combining, normalize

from chronos.core.calendar import SECOND_US
from chronos.core.schedule.cron_parser import MONTH_NAMES, WEEKDAY_NAMES
from chronos.core.schedule.durations import HOUR_US, MINUTE_US
from chronos.core.schedule.iso8601 import Period, is_instant
from chronos.core.schedule.words.timezone_names import find_zones


class TokenKind(Enum):
    """The kind of a token."""

    WORD = auto()
    NUMBER = auto()
    DECIMAL = auto()
    ORDINAL = auto()  # 1st, first
    TIME = auto()  # 9am, 09:30:15, noon; its value is the second of the day
    DATE = auto()  # a date or an instant, ISO 8601
    QUOTED = auto()
    COMMA = auto()


@dataclass(frozen=True, slots=True)
class WordToken:
    """One token: ``text`` in lower case, ``source`` as written, ``at`` its position."""

    kind: TokenKind
    text: str
    source: str
    at: int
    value: int = 0


WEEKDAYS = {
    **{form: i for i, name in enumerate(WEEKDAY_NAMES) for form in (name, f"{name}s", name[:3])},
    "tues": 2,
    "weds": 3,
    "thur": 4,
    "thurs": 4,
}
MONTHS = {
    **{form: i for i, name in enumerate(MONTH_NAMES, 1) for form in (name, name[:3])},
    "sept": 9,
}
UNITS = {
    **dict.fromkeys(("microsecond", "microseconds", "us"), Period(us=1)),
    **dict.fromkeys(("millisecond", "milliseconds", "ms"), Period(us=1_000)),
    **dict.fromkeys(("second", "seconds", "sec", "secs", "s"), Period(us=SECOND_US)),
    **dict.fromkeys(("minute", "minutes", "min", "mins", "m"), Period(us=MINUTE_US)),
    **dict.fromkeys(("hour", "hours", "hr", "hrs", "h"), Period(us=HOUR_US)),
    **dict.fromkeys(("day", "days", "d"), Period(days=1)),
    **dict.fromkeys(("week", "weeks", "w"), Period(days=7)),
    **dict.fromkeys(("fortnight", "fortnights"), Period(days=14)),
    **dict.fromkeys(("month", "months"), Period(months=1)),
    **dict.fromkeys(("quarter", "quarters"), Period(months=3)),
    **dict.fromkeys(("year", "years", "y"), Period(months=12)),
}
FREQUENCIES = {
    "hourly": "hour",
    "daily": "day",
    "weekly": "week",
    "fortnightly": "fortnight",
    "monthly": "month",
    "quarterly": "quarter",
    "yearly": "year",
    "annually": "year",
}
RANGE_WORDS = frozenset({"to", "through", "thru"})
_TO_TWELVE = "one two three four five six seven eight nine ten eleven twelve"
_NUMBERS = {
    **{name: i for i, name in enumerate(_TO_TWELVE.split(), 1)},
    "fifteen": 15,
    "twenty": 20,
    "thirty": 30,
    "forty": 40,
    "fifty": 50,
    "sixty": 60,
    "ninety": 90,
}
_ORDINALS = {"first": 1, "third": 3, "fourth": 4, "fifth": 5}  # "second" is also a unit: the reader decides
_TIMES = {"midnight": 0, "noon": 12 * 3600, "midday": 12 * 3600}
_KEYWORDS = """
    a an and as at before beginning between by calendar changes clock counted cron each ending every except excluding
    expression from half if in intervals is it jitter last literally nearest now o'clock of on once or other past per
    real schedule start starting taking the till time times today tomorrow until up weekday weekdays weekend weekends
    with zone
"""
VOCABULARY = frozenset(
    {*WEEKDAYS, *MONTHS, *UNITS, *FREQUENCIES, *RANGE_WORDS, *_NUMBERS, *_ORDINALS, *_TIMES, *_KEYWORDS.split()}
)

_CHUNK = re.compile(r'"[^"]*"|[,;&]|[^\s,;&"]+|"')
_NUMBER = re.compile(r"[0-9]{1,9}")
_DECIMAL = re.compile(r"[0-9]{1,9}\.[0-9]{1,9}")
_ORDINAL = re.compile(r"([1-9][0-9]?)(?:st|nd|rd|th)")
_TIME = re.compile(r"([0-9]{1,2})(?::([0-9]{2})(?::([0-9]{2}))?)?(am|pm|a\.m|p\.m)?")
_AMOUNT_PART = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,9})?)([a-z]+)")
_DASH = re.compile("[-\N{EN DASH}]")
_LONGEST_WORD = 20  # longer than every word of the vocabulary


def tokenise(text: str) -> list[WordToken]:
    """Return the tokens of a text in order, without blanks."""
    return [token for match in _CHUNK.finditer(text) for token in _tokens(match.group(), match.start())]


def is_known(token: WordToken) -> bool:
    """Whether the grammar or a time zone has this token, in any position."""
    return token.kind is not TokenKind.WORD or token.text in VOCABULARY or bool(find_zones(token.text))


def respell(token: WordToken) -> WordToken | None:
    """Return the token with the nearest word of the vocabulary, or None if no word is similar."""
    if len(token.text) > _LONGEST_WORD:
        return None
    for word in get_close_matches(token.text, sorted(VOCABULARY), n=1, cutoff=0.7):
        return replace(_classify(word, word, token.at), source=word)
    return None


def to_24_hours(second: int, half: str) -> int | None:
    """Convert a time on a 12-hour clock to the second of the day; None if its hour is not 1 to 12."""
    hour = second // 3600
    if not 1 <= hour <= 12:
        return None
    return second % (12 * 3600) + (12 * 3600 if half.startswith("p") else 0)


def _tokens(chunk: str, at: int) -> list[WordToken]:
    if chunk[0] == '"':
        kind = TokenKind.QUOTED if len(chunk) > 1 and chunk[-1] == '"' else TokenKind.WORD
        return [WordToken(kind, chunk.strip('"'), chunk, at)]
    if chunk in ",;":
        return [WordToken(TokenKind.COMMA, ",", chunk, at)]
    folded = _fold(chunk).rstrip(".") or chunk
    token = _classify(folded, chunk, at)
    if token.kind is not TokenKind.WORD or token.text in VOCABULARY:
        return [token]
    return _range_tokens(chunk, at) or _amount_tokens(folded, chunk, at) or [token]


def _fold(chunk: str) -> str:
    if chunk.isascii():
        return chunk.lower()
    letters = "".join(char for char in normalize("NFD", chunk.lower()) if not combining(char))
    return letters.replace("\N{RIGHT SINGLE QUOTATION MARK}", "'")


def _classify(text: str, source: str, at: int) -> WordToken:
    if text in _TIMES:
        return WordToken(TokenKind.TIME, text, source, at, _TIMES[text])
    if text in _NUMBERS:
        return WordToken(TokenKind.NUMBER, text, source, at, _NUMBERS[text])
    if text in _ORDINALS:
        return WordToken(TokenKind.ORDINAL, text, source, at, _ORDINALS[text])
    if text == "&":
        return WordToken(TokenKind.WORD, "and", source, at)
    if text == "each":
        return WordToken(TokenKind.WORD, "every", source, at)
    if not text[0].isdigit():
        return WordToken(TokenKind.WORD, text.replace(".", "") if text in ("a.m", "p.m") else text, source, at)
    if _NUMBER.fullmatch(text):
        return WordToken(TokenKind.NUMBER, text, source, at, int(text))
    if match := _ORDINAL.fullmatch(text):
        return WordToken(TokenKind.ORDINAL, text, source, at, int(match.group(1)))
    if _DECIMAL.fullmatch(text):
        return WordToken(TokenKind.DECIMAL, text, source, at)
    if (second := _second_of_day(text)) is not None:
        return WordToken(TokenKind.TIME, text, source, at, second)
    return WordToken(TokenKind.DATE if is_instant(text) else TokenKind.WORD, text, source, at)


def _second_of_day(text: str) -> int | None:
    match = _TIME.fullmatch(text)
    if match is None:
        return None
    hour, minute, second = (int(part or 0) for part in match.groups()[:3])
    if hour > 23 or minute > 59 or second > 59:
        return None
    of_day = hour * 3600 + minute * 60 + second
    half = match.group(4)
    return to_24_hours(of_day, half) if half else of_day


def _range_tokens(chunk: str, at: int) -> list[WordToken]:
    """Read ``mon-fri`` as ``mon to fri``, unless it is the name of a place."""
    parts = list(_DASH.finditer(chunk))
    if len(parts) != 1 or find_zones(chunk.lower()):
        return []
    dash = parts[0].start()
    left, right = _fold(chunk[:dash]), _fold(chunk[dash + 1 :]).rstrip(".")
    if not left or not right:
        return []
    ends = [_classify(left, chunk[:dash], at), _classify(right, chunk[dash + 1 :], at + dash + 1)]
    if any(end.kind is TokenKind.WORD and end.text not in WEEKDAYS and end.text not in MONTHS for end in ends):
        return []
    return [ends[0], WordToken(TokenKind.WORD, "to", "to", at + dash), ends[1]]


def _amount_tokens(text: str, source: str, at: int) -> list[WordToken]:
    """Read ``1h30m`` as ``1 h 30 m``."""
    tokens: list[WordToken] = []
    position = 0
    while match := _AMOUNT_PART.match(text, position):
        number, unit = match.groups()
        if unit not in UNITS:
            return []
        tokens.append(_classify(number, number, at + position))
        tokens.append(WordToken(TokenKind.WORD, unit, unit, at + match.start(2)))
        position = match.end()
    return tokens if position == len(text) else []
