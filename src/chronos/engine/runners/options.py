"""Reading a target's options: unknown ones are refused by name, wrong types with what was expected."""

import re
from collections.abc import Collection, Mapping
from difflib import get_close_matches
from typing import Any

from chronos.core.every import parse_go_duration
from chronos.errors import Invalid, InvalidSchedule

MAX_TEXT = 1 << 20  # of one option: a body, a script


def check_known(where: str, options: Mapping[str, Any], known: Collection[str]) -> None:
    """Refuse what a target does not know, with the nearest that it does."""
    if not isinstance(options, Mapping):
        raise Invalid(f"{where} must be an object of options, got {_kind(options)}")
    for name in options:
        if name not in known:
            near = get_close_matches(str(name), known, n=1, cutoff=0.5)
            hint = f'did you mean "{near[0]}"?' if near else f"known: {', '.join(sorted(known))}"
            raise Invalid(f'{where} has no option "{str(name)[:80]}"; {hint}')


def text(where: str, value: object, *, limit: int = MAX_TEXT) -> str:
    """A text that a program or a peer can be given: bounded, without NUL."""
    if not isinstance(value, str):
        raise Invalid(f"{where} must be text, got {_kind(value)}")
    if len(value) > limit:
        raise Invalid(f"{where} has {len(value)} characters, allowed {limit}")
    if "\0" in value:
        raise Invalid(f"{where} has a NUL character, which nothing can be given")
    return value


def texts(where: str, value: object, *, most: int = 1_000) -> dict[str, str]:
    """An object of texts; numbers are taken as they are written."""
    if not isinstance(value, Mapping):
        raise Invalid(f"{where} must be an object of texts, got {_kind(value)}")
    if len(value) > most:
        raise Invalid(f"{where} has {len(value)} entries, allowed {most}")
    return {text(f"a name in {where}", name): plain(f"{where}.{name}", item) for name, item in value.items()}


def plain(where: str, value: object) -> str:
    """A text, or a number written as one."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return str(value)
    return text(where, value)


def flag(where: str, value: object) -> bool:
    """True or false, and nothing that merely looks like it."""
    if not isinstance(value, bool):
        raise Invalid(f"{where} must be true or false, got {_kind(value)}")
    return value


def whole(where: str, value: object, low: int, high: int) -> int:
    """A whole number within bounds."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise Invalid(f"{where} must be a whole number, got {_kind(value)}")
    if not low <= value <= high:
        raise Invalid(f"{where} is {value}, allowed {low} to {high}")
    return value


def duration_us(where: str, value: object) -> int:
    """A duration such as ``1h30m``; a number is seconds."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        value = f"{value}s"
    try:
        return parse_go_duration(text(where, value, limit=256))
    except InvalidSchedule as error:
        raise Invalid(f"{where}: {error}") from None


def size_bytes(where: str, value: object) -> int:
    """A number of bytes, or one with a unit: ``512KiB``, ``256MiB``, ``2GB``."""
    match = _SIZE.fullmatch(plain(where, value))
    if match is None:
        raise Invalid(f'{where} is "{str(value)[:40]}", expected bytes or a size such as 256MiB')
    number, unit = match.groups()
    return int(number) * _UNITS[unit.lower()]


_UNITS: dict[str, int] = {"": 1, "b": 1} | {
    f"{letter}{tail}": int(base**power)
    for power, letter in enumerate("kmgt", 1)
    for tail, base in (("", 1024), ("ib", 1024), ("b", 1000))
}
_SIZE = re.compile(r"([0-9]{1,15}) ?([kmgt]i?b?|b?)", re.ASCII | re.IGNORECASE)


def _kind(value: object) -> str:
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
