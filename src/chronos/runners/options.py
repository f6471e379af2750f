"""Readers for single options of a target. A value of the wrong type raises ``Invalid`` with what is expected."""

import re
from collections.abc import Mapping

from chronos.core.schedule.interval import parse_go_duration
from chronos.errors import Invalid, InvalidSchedule

MAX_TEXT_CHARS = 1 << 20  # of one option: a body, a script


def text(where: str, value: object, *, limit: int = MAX_TEXT_CHARS) -> str:
    """Read a text that can be passed to a program or a server: bounded, without NUL."""
    if not isinstance(value, str):
        raise Invalid(f"{where} must be text, got {describe_type(value)}")
    if len(value) > limit:
        raise Invalid(f"{where} has {len(value)} characters, allowed {limit}")
    if "\0" in value:
        raise Invalid(f"{where} contains a NUL character; remove it")
    return value


def text_or_number(where: str, value: object) -> str:
    """Read a text, or a number as text."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return str(value)
    return text(where, value)


def flag(where: str, value: object) -> bool:
    """Read true or false."""
    if not isinstance(value, bool):
        raise Invalid(f"{where} must be true or false, got {describe_type(value)}")
    return value


def whole_number(where: str, value: object, low: int, high: int) -> int:
    """Read a whole number within bounds."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise Invalid(f"{where} must be a whole number, got {describe_type(value)}")
    if not low <= value <= high:
        raise Invalid(f"{where} is {value}, allowed {low} to {high}")
    return value


def duration_us(where: str, value: object) -> int:
    """Read a duration such as ``1h30m``. A number means seconds."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        value = f"{value}s"
    try:
        return parse_go_duration(text(where, value, limit=256))
    except InvalidSchedule as error:
        raise Invalid(f"{where}: {error}") from None


def size_bytes(where: str, value: object) -> int:
    """Read a number of bytes, or a size with a unit: ``512KiB``, ``256MiB``, ``2GB``."""
    match = _SIZE_PATTERN.fullmatch(text_or_number(where, value))
    if match is None:
        raise Invalid(f'{where} is "{str(value)[:40]}", expected a number of bytes or a size such as 256MiB')
    number, unit = match.groups()
    return int(number) * _UNITS[unit.lower()]


_UNITS: dict[str, int] = {"": 1, "b": 1} | {
    f"{letter}{tail}": int(base**power)
    for power, letter in enumerate("kmgt", 1)
    for tail, base in (("", 1024), ("ib", 1024), ("b", 1000))
}
_SIZE_PATTERN = re.compile(r"([0-9]{1,15}) ?([kmgt]i?b?|b?)", re.ASCII | re.IGNORECASE)


def describe_type(value: object) -> str:
    """Return the JSON type of a value in words, for a message."""
    match value:
        case None:
            return "null"
        case bool():
            return "true or false"
        case Mapping():
            return "an object"
        case str():
            return "text"
        case int() | float():
            return "a number"
        case list() | tuple():
            return "a list"
        case _:
            return type(value).__name__
