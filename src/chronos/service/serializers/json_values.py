"""Normalizes JSON values: plain types only, bounded depth, nothing that stores treat differently.

Nearly all input is valid, so ``to_plain_json`` first copies it without tracking pointers. Only invalid input is walked
a second time, to locate each fault.
"""

import datetime
import math
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from chronos.service.serializers.problems import Problem

MAX_DEPTH = 32
_INT64 = 1 << 63


class _Unusual(Exception):
    """A fault, or a type that needs a closer look."""


def to_plain_json(data: Any, problems: list[Problem]) -> Any:
    """Copy ``data`` as dicts, lists, strings, numbers, booleans and None. Faults are added to ``problems`` and left
    out.
    """
    try:
        return _copy(data, 0)
    except (_Unusual, UnicodeEncodeError):
        return _copy_checked(data, problems, "", 0)


def _copy(data: Any, depth: int) -> Any:
    """Copy valid data of exactly the usual types. Raises ``_Unusual`` for anything else."""
    type_ = type(data)
    if type_ is str:
        if "\0" in data or not (data.isascii() or data.encode()):
            raise _Unusual
        return data
    if data is None or type_ is bool or (type_ is int and -_INT64 <= data < _INT64):
        return data
    if depth >= MAX_DEPTH:
        raise _Unusual
    depth += 1
    if type_ is dict:
        copy = {}
        for key, value in data.items():
            if type(key) is not str or not key.isascii() or "\0" in key:
                raise _Unusual
            is_usual = type(value) is str and value.isascii() and "\0" not in value
            copy[key] = value if is_usual else _copy(value, depth)
        return copy
    if type_ is list or type_ is tuple:
        return [_copy(item, depth) for item in data]
    if type_ is float and math.isfinite(data):
        return data
    raise _Unusual


def _copy_checked(data: Any, problems: list[Problem], pointer: str, depth: int) -> Any:
    if depth > MAX_DEPTH:
        problems.append(Problem(pointer, f"is nested deeper than {MAX_DEPTH} levels"))
        return None
    if isinstance(data, Mapping):
        return _copy_mapping(data, problems, pointer, depth)
    if isinstance(data, list | tuple):
        return [_copy_checked(item, problems, f"{pointer}/{index}", depth + 1) for index, item in enumerate(data)]
    fault = _find_fault(data)
    if fault is not None:
        problems.append(Problem(pointer, fault))
        return None
    return str(data) if isinstance(data, str) else data


def extend_pointer(pointer: str, name: str) -> str:
    """Append a field name to a JSON pointer."""
    if "~" in name or "/" in name:
        name = name.replace("~", "~0").replace("/", "~1")
    return f"{pointer}/{name}"


def _copy_mapping(data: Mapping[Any, Any], problems: list[Problem], pointer: str, depth: int) -> dict[str, Any]:
    copy: dict[str, Any] = {}
    for key, value in data.items():
        fault = _find_fault(key) if isinstance(key, str) else f"has the key {key!r}; keys must be text"
        if fault is not None:
            problems.append(Problem(pointer, fault))
            continue
        copy[str(key)] = _copy_checked(value, problems, extend_pointer(pointer, key), depth + 1)
    return copy


def _find_fault(data: Any) -> str | None:
    match data:
        case None | bool():
            return None
        case str():
            if "\0" in data:
                return "has a NUL character, which PostgreSQL cannot store; remove it"
            try:
                data.encode()
            except UnicodeEncodeError:
                return "is not valid Unicode"
            return None
        case int():
            return None if -_INT64 <= data < _INT64 else "is an integer of more than 64 bits; write it as text"
        case float():
            return None if math.isfinite(data) else f"is {data}, which is not JSON; leave it out, or use null"
        case _:
            return f"is a {type(data).__name__}, which is not JSON; {_suggest_json(data)}"


def _suggest_json(data: Any) -> str:
    """Suggest a replacement for a Python value that is not JSON."""
    match data:
        case set() | frozenset():
            return "use a list"
        case bytes() | bytearray():
            return "use text, such as base64"
        case datetime.date() | datetime.time():
            return "use text, such as value.isoformat()"
        case Decimal():
            return "use text or a float"
        case _:
            return "use an object, a list, text, a number, a boolean or null"
