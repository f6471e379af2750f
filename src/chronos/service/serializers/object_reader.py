"""ObjectReader: reads one JSON object field by field and rejects the fields that are left over.

Problems are collected, not raised, so that the client gets all of them at once. A field that is null counts as absent.
Jobs arrive by the thousand with few fields each, so ``lacks`` skips whole groups of absent fields in one check.
"""

import re
from collections.abc import Collection, Mapping
from difflib import get_close_matches
from enum import StrEnum
from functools import lru_cache
from typing import Any, TypeVar

from chronos.core.calendar import DAY_S, SECOND_US
from chronos.core.schedule.durations import go_duration
from chronos.core.schedule.interval import parse_go_duration
from chronos.core.schedule.iso8601 import parse_period
from chronos.core.schedule.parser import MAX_LENGTH
from chronos.errors import InvalidSchedule
from chronos.service.serializers.json_values import extend_pointer
from chronos.service.serializers.problems import MAX_PROBLEMS, Problem

E = TypeVar("E", bound=StrEnum)

#: A field, or the path to a value within it: ``("tasks", 0)``.
FieldPath = str | tuple[str | int, ...]

MAX_DURATION_US = 36_525 * DAY_S * SECOND_US  # a hundred years
_DAYS = re.compile(r"(?:(\d{1,5})w)?(?:(\d{1,6})d)?(.*)", re.ASCII | re.DOTALL)
_ZERO = re.compile(r"0+(?:\.0+)?(?:ns|us|ms|s|m|h|d|w)?", re.ASCII)
_MAX_TEXT = 10 * 1024
_MAX_HINTED = 10  # unknown fields per object that get a suggestion
_MAX_HINTED_CHARS = 64  # characters
_MAX_CHAR_BYTES = 4  # of a character in UTF-8


class ObjectReader:
    """Reads the fields of one object and records their problems."""

    __slots__ = ("_known", "data", "pointer", "problems")

    def __init__(self, data: dict[str, Any], pointer: str, problems: list[Problem]) -> None:
        self.pointer = pointer
        self.problems = problems
        self.data = data
        self._known: list[str] = []

    # --- fields

    def at(self, name: FieldPath) -> str:
        """Return the pointer of a field, or of a value within it."""
        if isinstance(name, str):
            return extend_pointer(self.pointer, name)
        pointer = self.pointer
        for part in name:
            pointer = extend_pointer(pointer, str(part))
        return pointer

    def fault(self, name: FieldPath, message: str) -> None:
        """Record a problem of a field."""
        self.problems.append(Problem(self.at(name), message))

    def present(self, *names: str) -> list[str]:
        """Return those of the fields that are present and not null. Marks all of them as known."""
        self._known += names
        return [name for name in names if self.data.get(name) is not None]

    def lacks(self, names: frozenset[str]) -> bool:
        """Return whether all of the fields are absent, not even null. Marks them as known."""
        self._known += names
        return names.isdisjoint(self.data)

    def is_null(self, name: str) -> bool:
        """Return whether a field is present and null, for fields where null has a meaning."""
        self._known.append(name)
        return name in self.data and self.data[name] is None

    def take(self, *names: str) -> tuple[str, Any]:
        """Return the name under which a field is given, and its value, or None if the field is absent."""
        if len(names) == 1:
            self._known.append(names[0])
            return names[0], self.data.get(names[0])
        given = self.present(*names)
        for duplicate in given[1:]:
            self.fault(duplicate, f'duplicates "{given[0]}"; give only one of them')
        return (given[0], self.data[given[0]]) if given else (names[0], None)

    def finish(self) -> None:
        """Record a problem for every field that was not read."""
        known = set(self._known)
        if self.data.keys() <= known:
            return
        names = tuple(sorted(known))
        unknown = [name for name in self.data if name not in known]
        known_clause = f"; known fields: {', '.join(names)}" if known else "; no fields are allowed here"
        for index, name in enumerate(unknown[: MAX_PROBLEMS + 1]):
            near = _find_near(name[:_MAX_HINTED_CHARS], names) if index < _MAX_HINTED else []
            hint, known_clause = (f'; did you mean "{near[0]}"?', known_clause) if near else (known_clause, "")
            self.fault(name, f"unknown field{hint}")
        self.problems += [Problem(self.pointer, "has more unknown fields")] * (len(unknown) - MAX_PROBLEMS - 1)

    # --- values of one type

    def text(self, *names: str, max_bytes: int = _MAX_TEXT) -> str | None:
        """Read a string of at most ``max_bytes``."""
        name, value = self.take(*names)
        if value is None:
            return None
        if not isinstance(value, str):
            self._type_fault(name, "text", value)
            return None
        if len(value) * _MAX_CHAR_BYTES > max_bytes and len(value.encode()) > max_bytes:
            self.fault(name, f"has {len(value.encode())} bytes, allowed {max_bytes}")
            return None
        return value

    def integer(self, *names: str, low: int, high: int) -> int | None:
        """Read an integer within bounds."""
        name, value = self.take(*names)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int):
            self._type_fault(name, "an integer", value)
            return None
        return value if self._is_within(name, value, low, high) else None

    def number(self, *names: str, low: float, high: float) -> float | None:
        """Read a number within bounds."""
        name, value = self.take(*names)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int | float):
            self._type_fault(name, "a number", value)
            return None
        return float(value) if self._is_within(name, value, low, high) else None

    def boolean(self, name: str) -> bool | None:
        _, value = self.take(name)
        if value is None or isinstance(value, bool):
            return value
        self._type_fault(name, "true or false", value)
        return None

    def one_of(self, kind: type[E], *names: str, aliases: Mapping[str, E] | None = None) -> E | None:
        """Read an enum value. ``aliases`` maps other accepted words to values."""
        name, value = self.take(*names)
        return None if value is None else self.choice(kind, name, value, aliases=aliases)

    def choice(self, kind: type[E], name: str, value: Any, *, aliases: Mapping[str, E] | None = None) -> E | None:
        """Convert a value that was already taken to an enum value."""
        if isinstance(value, str) and value in kind.__members__.values():
            return kind(value)
        if isinstance(value, str) and aliases is not None and value in aliases:
            return aliases[value]
        allowed = [*(member.value for member in kind), *(aliases or ())]
        text = f'"{value}"' if isinstance(value, str) else repr(value)
        self.fault(name, f"is {text[:64]}, allowed: {', '.join(allowed)}")
        return None

    def duration_us(self, *names: str, low_us: int = 1) -> int | None:
        """Read a duration such as ``1h30m``, ``90d`` or ``PT5M``."""
        name, value = self.take(*names)
        if value is None:
            return None
        if not isinstance(value, str):
            self._type_fault(name, 'a duration like "30s", "1h30m" or "PT5M"', value)
            return None
        try:
            duration_us = read_duration_us(value)
        except InvalidSchedule as error:
            self.fault(name, str(error))
            return None
        if duration_us < low_us:
            self.fault(name, f"is {value}, allowed {go_duration(low_us)} or more")
            return None
        if duration_us > MAX_DURATION_US:
            self.fault(name, "is longer than 100 years, the maximum")
            return None
        return duration_us

    def seconds_us(self, *names: str) -> int | None:
        """Read a duration given as a number of seconds."""
        seconds = self.number(*names, low=0.000_001, high=MAX_DURATION_US / SECOND_US)
        return None if seconds is None else max(1, round(seconds * SECOND_US))

    # --- objects and lists

    def object(self, *names: str) -> "ObjectReader | None":
        """Read an object; returns a reader for it."""
        name, value = self.take(*names)
        return None if value is None else self.to_object(name, value)

    def to_object(self, name: FieldPath, value: Any) -> "ObjectReader | None":
        """Return a reader for a value that was already taken."""
        if not isinstance(value, dict):
            self._type_fault(name, "an object", value)
            return None
        return ObjectReader(value, self.at(name), self.problems)

    def items(self, *names: str, max_items: int) -> tuple[str, list[Any]]:
        """Read a list; empty if the field is absent."""
        name, value = self.take(*names)
        if value is None:
            return name, []
        if not isinstance(value, list):
            self._type_fault(name, "a list", value)
            return name, []
        if len(value) > max_items:
            self.fault(name, f"has {len(value)} entries, allowed {max_items}")
            return name, []
        return name, value

    def texts(self, *names: str, max_items: int, max_bytes: int = 256) -> tuple[str, ...]:
        """Read a list of strings. A single string is a list of one."""
        given = self.present(*names)
        if given and isinstance(self.data[given[0]], str):
            text = self.text(*names, max_bytes=max_bytes)
            return () if text is None else (text,)
        name, values = self.items(*names, max_items=max_items)
        for index, value in enumerate(values):
            if not isinstance(value, str) or len(value) > max_bytes:
                self.fault((name, index), f"must be text of at most {max_bytes} characters")
        return tuple(value for value in values if isinstance(value, str))

    def text_map(self, name: str, *, max_items: int, max_bytes: int = 256, listed: bool = False) -> dict[str, str]:
        """Read an object of strings. With ``listed``, a list of strings means keys with empty values."""
        _, value = self.take(name)
        if value is None:
            return {}
        if isinstance(value, dict | list) and len(value) > max_items:
            self.fault(name, f"has {len(value)} entries, allowed {max_items}")
            return {}
        if listed and isinstance(value, list):
            for index, item in enumerate(value):
                if not isinstance(item, str):
                    self.fault((name, index), "must be text")
            value = {item: "" for item in value if isinstance(item, str)}
        if not isinstance(value, dict):
            self._type_fault(name, "an object of texts", value)
            return {}
        for key, text in value.items():
            if not key or len(key) > max_bytes or not isinstance(text, str) or len(text) > max_bytes:
                self.fault((name, key), f"must be text of at most {max_bytes} characters")
        return {key: text for key, text in value.items() if isinstance(text, str)}

    def _is_within(self, name: str, value: float, low: float, high: float) -> bool:
        if low <= value <= high:
            return True
        self.fault(name, f"is {value}, allowed {_format_bound(low)} to {_format_bound(high)}")
        return False

    def _type_fault(self, name: FieldPath, expected: str, value: Any) -> None:
        self.fault(name, f"must be {expected}, got {_describe_value(value)}")


@lru_cache(maxsize=1024)
def _find_near(name: str, known: tuple[str, ...]) -> list[str]:
    """Find the known name nearest to ``name``. Cached, because many jobs repeat the same mistake."""
    return get_close_matches(name, known, n=1)


def _format_bound(number: float) -> str:
    """Format a bound without an exponent: 1000000 and 0.000001, not 1e+06 and 1e-06."""
    return str(int(number)) if number == int(number) else f"{number:f}".rstrip("0")


@lru_cache(maxsize=1024)
def read_duration_us(text: str) -> int:
    """Parse a duration: Go syntax extended with days and weeks, or an ISO 8601 period without months or years.

    Returns microseconds. Raises ``InvalidSchedule``.
    """
    if len(text) > MAX_LENGTH:
        raise InvalidSchedule(text[:64], f"has {len(text)} characters, allowed {MAX_LENGTH}", subject="duration")
    if _ZERO.fullmatch(text):
        return 0
    if text.startswith("P"):
        period = parse_period(text)
        if period.months:
            raise InvalidSchedule(text, "has months or years, whose length varies; use days", subject="duration")
        return period.days * DAY_S * SECOND_US + period.us
    match = _DAYS.fullmatch(text)
    weeks, days, rest = match.groups() if match else (None, None, text)
    counted_us = (int(weeks or 0) * 7 + int(days or 0)) * DAY_S * SECOND_US
    if counted_us and not rest:
        return counted_us
    return counted_us + parse_go_duration(rest, expression=text, at=len(text) - len(rest))


def suggest(name: str, known: Collection[str]) -> str:
    """Return a "did you mean" clause with the nearest known names; empty if none is near."""
    near = get_close_matches(name, sorted(known), n=3)
    return f"; did you mean {' or '.join(repr(one) for one in near)}?" if near else ""


def _describe_value(value: Any) -> str:
    match value:
        case bool():
            return str(value).lower()
        case str():
            return f'"{value[:64]}"'
        case int() | float():
            return str(value)
        case list():
            return "a list"
        case _:
            return "an object"
