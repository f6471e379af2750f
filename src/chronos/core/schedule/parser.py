"""Parses text to a schedule: detects the dialect by its shape and calls the parser of that dialect."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from functools import lru_cache
from types import UnionType
from typing import Any

from chronos.core.calendar import FIRST_US, LAST_US, to_us
from chronos.core.schedule.cron import CronRule
from chronos.core.schedule.cron_parser import MACROS, parse_cron
from chronos.core.schedule.exclusions import NO_EXCLUSIONS, Exclusions, parse_exclusions
from chronos.core.schedule.interval import EveryRule, parse_go_duration
from chronos.core.schedule.iso8601 import (
    PeriodRule,
    is_instant,
    parse_instant,
    parse_interval,
    parse_wall,
)
from chronos.core.schedule.once import DelayRule, OnceRule
from chronos.core.schedule.plugins import is_custom, parse_custom
from chronos.core.schedule.random_interval import RandomRule
from chronos.core.schedule.schedule import Rule, Schedule
from chronos.core.schedule.timezones import Zone, get_zone
from chronos.core.schedule.union import MAX_EXPRESSIONS, UnionRule, join_expressions, split_expressions
from chronos.core.schedule.words import Reading, read_words
from chronos.errors import InvalidSchedule

DIALECTS = ("auto", "standard", "seconds", "posix", "quartz", "iso8601", "words")
DST_POLICIES = ("robust", "literal")
MAX_LENGTH = 256
MAX_EXCLUSIONS = 1_000
_LONGEST_JITTER = timedelta(days=36_525)
_TEXT_OR_NONE = str | None

_ZONE_PREFIXES = ("CRON_TZ=", "TZ=")
_EVERY = "@every "
_LENIENT_EVERY = re.compile(r"@every[ \t]+(.*)", re.ASCII | re.IGNORECASE)
_TO = re.compile(r"[ \t]+to[ \t]+", re.ASCII | re.IGNORECASE)
_BLANKS = " \t\r\n"
_WITHOUT_MACROS = ("posix", "quartz")
_WITH_UNIONS = ("auto", "words")
_ISO8601 = re.compile(r"P[0-9T].*|R[0-9]*/.*", re.ASCII | re.DOTALL)
_CLOCK_FIELD = re.compile(r"[0-9*?,/\-()H]+", re.ASCII)
_INSTANT_HINT = "write it like 2027-01-01T09:00:00Z"
_SPLIT = re.compile(r"[ \t]+")


def parse_schedule(
    expression: str | Sequence[str],
    *,
    timezone: str | None = None,
    dialect: str = "auto",
    dst: str = "robust",
    start: datetime | str | None = None,
    end: datetime | str | None = None,
    jitter: timedelta | str | None = None,
    exclude: Iterable[str] = (),
    key: str = "",
) -> Schedule:
    """Parse a schedule. Raises ``InvalidSchedule``, whose message says what is wrong, where, and what to do.

    * ``expression``: text of any dialect, or a list of texts, whose instants are united.
    * ``timezone``: an IANA name, UTC by default. The text itself overrides the arguments.
    * ``start``, ``end``: bounds of the instants, both included. ``start`` anchors intervals.
    * ``key``: hashed for ``H``, ``jitter`` and random intervals.
    """
    _check_choice("dialect", dialect, DIALECTS)
    _check_choice("dst policy", dst, DST_POLICIES)
    _check_type("timezone", timezone, _TEXT_OR_NONE, "the name of a time zone")
    _check_type("key", key, str, "text")
    if isinstance(exclude, Iterable) and not isinstance(exclude, str):
        exclude = tuple(exclude)
    options: dict[str, Any] = {
        "timezone": timezone,
        "dialect": dialect,
        "dst": dst,
        "start": start,
        "end": end,
        "jitter": jitter,
        "exclude": exclude,
        "key": key,
    }
    if isinstance(expression, list | tuple):
        return _parse_list(expression, options)
    _check_type("schedule", expression, str, "text, or a list of texts")
    assert isinstance(expression, str)
    if dialect in _WITH_UNIONS and ";" in expression:
        return _parse_union(expression, options)
    return _parse_one(expression, **options)


def _parse_list(expressions: Sequence[Any], options: dict[str, Any]) -> Schedule:
    _check_count(len(expressions))
    members: list[Schedule] = []
    for number, text in enumerate(expressions, 1):
        try:
            _check_type("schedule", text, str, "text")
            if len(split_expressions(text)) > 1:
                raise InvalidSchedule(text, 'contains "; also"; make each expression an item of the list')
            members.append(_parse_one(text, **options))
        except InvalidSchedule as error:
            if len(expressions) == 1:
                raise
            raise error.named(f"expression {number} of {len(expressions)}: {error.subject}") from None
    return _unite(members, join_expressions(member.text for member in members))


def _parse_union(expression: str, options: dict[str, Any]) -> Schedule:
    """Parse text that may be several expressions."""
    _check_length("schedule", expression, MAX_EXPRESSIONS * (MAX_LENGTH + 1))
    parts = split_expressions(expression)
    if len(parts) == 1:
        return _parse_one(expression, **options)
    _check_count(len(parts))
    members: list[Schedule] = []
    for text, at in parts:
        stripped = text.strip(_BLANKS)
        try:
            members.append(_parse_one(stripped, **options))
        except InvalidSchedule as error:
            if error.expression != stripped:
                raise
            raise error.within(expression, at + len(text) - len(text.lstrip(_BLANKS))) from None
    return _unite(members, expression)


def _unite(members: list[Schedule], text: str) -> Schedule:
    if len(members) == 1:
        return members[0]
    rule = UnionRule(tuple(members))
    return Schedule(rule=rule, zone=members[0].zone, jitter_us=max(m.jitter_us for m in members), text=text)


def _parse_one(
    expression: str,
    *,
    timezone: str | None,
    dialect: str,
    dst: str,
    start: datetime | str | None,
    end: datetime | str | None,
    jitter: timedelta | str | None,
    exclude: Iterable[str],
    key: str,
) -> Schedule:
    """Parse a single expression. ``auto`` ignores blanks and line ends around it."""
    if dialect == "auto":
        expression = expression.strip(_BLANKS)
    _check_length("schedule", expression)
    text, zone_name = split_zone(expression, dialect)
    timezone = timezone if zone_name is None else zone_name
    reading = Reading(expression=text)
    try:
        kind = _detect_dialect(text) if dialect == "auto" else dialect
        if kind == "words":
            reading = read_words(text)
            kind = _detect_dialect(reading.expression)
        return _build_schedule(
            expression,
            reading,
            kind,
            zone=_find_zone(timezone if reading.timezone is None else reading.timezone),
            literal=reading.literal or dst == "literal",
            start=reading.start or start,
            end=reading.end or end,
            jitter=reading.jitter or jitter,
            exclude=_collect_exclusions(exclude, reading.exclude),
            key=key,
        )
    except InvalidSchedule as error:
        if error.expression == text != expression:  # show the zone prefix too
            raise error.within(expression, len(expression) - len(text)) from None
        if error.expression == reading.expression != text:  # the error is in the translation of the words
            raise error.translated(expression) from None
        raise


def _build_schedule(
    expression: str,
    reading: Reading,
    kind: str,
    *,
    zone: Zone,
    literal: bool,
    start: datetime | str | None,
    end: datetime | str | None,
    jitter: timedelta | str | None,
    exclude: list[str],
    key: str,
) -> Schedule:
    start_us = parse_bound("start", start, zone)
    end_us = parse_bound("end", end, zone)
    if start_us is not None and end_us is not None and end_us < start_us:
        raise InvalidSchedule(expression, "ends before it starts")
    rule: Rule
    if reading.delay is not None:
        rule = DelayRule(reading.delay, zone, start_us)
    else:
        rule = _parse_rule(reading.expression, kind, zone=zone, literal=literal, start_us=start_us, key=key)
        if reading.second_of_day is not None and isinstance(rule, PeriodRule):
            rule = replace(rule, second_of_day=reading.second_of_day, weekday=reading.weekday)
    jitter_us = _parse_jitter(jitter)
    schedule = Schedule(
        rule=rule,
        zone=zone,
        start_us=start_us,
        end_us=end_us,
        jitter_us=jitter_us,
        exclude=_parse_exclusions(tuple(exclude), key) if exclude else NO_EXCLUSIONS,
        key=key if jitter_us else "",
        text=expression,
    )
    if exclude and _is_fully_excluded(schedule):
        raise InvalidSchedule(expression, "never runs: its exclusions leave no run")
    return schedule


def _parse_rule(text: str, kind: str, *, zone: Zone, literal: bool, start_us: int | None, key: str) -> Rule:
    if kind == "once":
        at_us = parse_instant(text, zone)
        if at_us is None:
            raise InvalidSchedule(
                text,
                "is not a valid date and time",
                subject="instant",
                position=0,
                length=len(text),
                hint=_INSTANT_HINT,
            )
        return OnceRule(at_us, parse_wall(text))
    if kind == "iso8601":
        return parse_interval(text, zone=zone, start_us=start_us)
    if kind == "auto" and (every := _LENIENT_EVERY.fullmatch(text)):
        return _parse_lenient_every(text, every.start(1), start_us, key)
    if kind not in _WITHOUT_MACROS and text.startswith(_EVERY):
        duration = text.removeprefix(_EVERY)
        return EveryRule(parse_go_duration(duration, expression=text, at=len(_EVERY)), start_us)
    if kind not in _WITHOUT_MACROS and text not in MACROS and is_custom(text):
        return parse_custom(text, zone)
    return CronRule(parse_cron(text, dialect=kind, key=key), zone, literal)


def _parse_lenient_every(text: str, at: int, start_us: int | None, key: str) -> Rule:
    """Parse ``@every 5d`` or ``@every 5m to 10m``; the durations begin at ``at``."""
    shortest, *longest = _TO.split(text[at:], maxsplit=1)
    shortest_us = parse_go_duration(shortest, expression=text, at=at, days=True)
    if not longest:
        return EveryRule(shortest_us, start_us)
    longest_at = len(text) - len(longest[0])
    longest_us = parse_go_duration(longest[0], expression=text, at=longest_at, days=True)
    if longest_us <= shortest_us:
        reason = "has a random interval that is not longer at its end"
        raise InvalidSchedule(text, reason, position=at, length=len(text) - at, hint="write the shorter one first")
    return RandomRule(shortest_us, longest_us, key, start_us)


@lru_cache(maxsize=64)
def _parse_exclusions(texts: tuple[str, ...], key: str) -> Exclusions:
    """Parse exclusions once for all expressions of a union."""
    return parse_exclusions(texts, key=key)


def is_cron(text: str) -> bool:
    """Whether ``auto`` reads a text as cron fields, a macro, ``@every`` or a custom schedule."""
    return _detect_dialect(split_zone(text.strip(_BLANKS), "auto")[0]) == "auto"


def _detect_dialect(text: str) -> str:
    """Return the dialect of a text, judged by its shape; ``auto`` for cron."""
    if text.startswith("@"):
        return "auto"
    if _ISO8601.fullmatch(text):
        return "iso8601"
    if is_instant(text):
        return "once"
    fields = _SPLIT.split(text.strip(" \t"))
    starred = "*" in fields and '"' not in text  # in words, a star stands only in quoted expressions
    if starred or (len(fields) >= 2 and all(_CLOCK_FIELD.fullmatch(field) for field in fields[:2])):
        return "auto"
    return "words"


def split_zone(expression: str, dialect: str) -> tuple[str, str | None]:
    """Split ``CRON_TZ=Europe/Paris 0 9 * * *`` into the expression and the zone; ``TZ=`` too if it is ``auto``.

    Without a prefix, the zone is None.
    """
    prefixes = () if dialect == "posix" else _ZONE_PREFIXES if dialect == "auto" else _ZONE_PREFIXES[:1]
    prefix = next((prefix for prefix in prefixes if expression.startswith(prefix)), None)
    if prefix is None:
        return expression, None
    name, _, text = expression.removeprefix(prefix).partition(" ")
    return text.lstrip(" \t"), name


def _find_zone(name: str | None) -> Zone:
    if name is None:
        return get_zone("UTC")
    _check_length("timezone", name)
    try:
        return get_zone(name)
    except LookupError as error:
        reason = str(error.args[0]).removeprefix("unknown time zone ")
        raise InvalidSchedule(name, reason, subject="unknown time zone") from None


def parse_bound(subject: str, value: datetime | str | None, zone: Zone) -> int | None:
    """Return the microseconds of a start or an end; None if it is not given. Raises ``InvalidSchedule``."""
    if value is None:
        return None
    _check_type(subject, value, datetime | str, "a datetime with a time zone, or text")
    us: int | None
    if isinstance(value, str):
        _check_length(subject, value)
        us = parse_instant(value, zone)
    elif value.utcoffset() is None:
        raise InvalidSchedule(str(value), "needs a time zone; add tzinfo=UTC", subject=subject)
    else:
        us = to_us(value)
    if us is None or not FIRST_US <= us <= LAST_US:
        raise InvalidSchedule(
            str(value), f'is "{value}", which is not a date and time', subject=subject, hint=_INSTANT_HINT
        )
    return us


def _parse_jitter(value: timedelta | str | None) -> int:
    if value is None:
        return 0
    _check_type("jitter", value, timedelta | str, 'a timedelta or a duration like "30s"')
    if isinstance(value, str):
        _check_length("jitter", value)
        return parse_go_duration(value)
    if not timedelta(0) <= value <= _LONGEST_JITTER:
        raise InvalidSchedule(str(value), f"is {value}, allowed 0 to 100 years", subject="jitter")
    return value // timedelta(microseconds=1)


def _collect_exclusions(exclude: Iterable[str], from_words: tuple[str, ...]) -> list[str]:
    if exclude == () == from_words:
        return []
    if isinstance(exclude, str) or not isinstance(exclude, Iterable):
        raise InvalidSchedule(str(exclude), f"must be a list of texts, got {type(exclude).__name__}", subject="exclude")
    texts = [*exclude, *from_words]
    if len(texts) > MAX_EXCLUSIONS:
        raise InvalidSchedule("", f"has {len(texts)} entries, allowed {MAX_EXCLUSIONS}", subject="exclude")
    for text in texts:
        if not isinstance(text, str) or len(text) > MAX_LENGTH:
            raise InvalidSchedule(
                str(text)[:MAX_LENGTH], "is not a date, date range or cron expression", subject="exclusion"
            )
    return texts


def _is_fully_excluded(schedule: Schedule) -> bool:
    """Whether the exclusions remove every run."""
    if isinstance(schedule.rule, DelayRule) and not schedule.anchored:
        return False  # "in 2 hours" is counted from the current time
    before_us = (schedule.start_us or 0) - 1
    unrestricted = replace(schedule, exclude=NO_EXCLUSIONS)
    return schedule.next_us(before_us) is None and unrestricted.next_us(before_us) is not None


def _check_type(subject: str, value: object, allowed: type | UnionType, expected: str) -> None:
    """Raise ``InvalidSchedule`` for a type that a type checker would reject."""
    if not isinstance(value, allowed):
        raise InvalidSchedule(
            repr(value)[:MAX_LENGTH], f"must be {expected}, got {type(value).__name__}", subject=subject
        )


def _check_length(subject: str, text: str, limit: int = MAX_LENGTH) -> None:
    if len(text) > limit:
        raise InvalidSchedule(text, f"has {len(text)} characters, allowed {limit}", subject=subject)


def _check_count(count: int) -> None:
    if not 1 <= count <= MAX_EXPRESSIONS:
        raise InvalidSchedule("", f"has {count} expressions, allowed 1 to {MAX_EXPRESSIONS}")


def _check_choice(subject: str, value: str, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise InvalidSchedule(str(value), f"is {value!r}, allowed: {', '.join(allowed)}", subject=subject)
