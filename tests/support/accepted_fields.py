"""The fields that job shapes accept.

The readers tell them: they refuse an unknown field with a list of the known ones. So the tests of the documentation and
of the schema need no list written by hand.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from chronos.assembly import collect_target_checks, make_runners
from chronos.clock import SystemClock
from chronos.runners.python.function_registry import FunctionRegistry
from chronos.service.serializers import Check, InvalidJob, Problem, read_job

CHECKS: Mapping[str, Check] = collect_target_checks(make_runners(FunctionRegistry(), clock=SystemClock()))

#: The path to an object within a job; ITEM is any entry of a list.
Path = tuple[str, ...]
ITEM = "[]"

_UNKNOWN = "?"  # not a field, and similar to none
_TOO_LARGE = 10**15  # beyond every bound
_KNOWN = re.compile(r"(?:unknown field; known fields:|has no option \"\?\"; (?:known:|use one of)) ([a-z0-9_, ]+)$")
_TYPES = re.compile(r'whose "type" is one of ([a-z_, ]+)$')
_WORDS = re.compile(r"allowed: ([a-z][A-Za-z0-9_, ]*)$")
_BOUNDS = re.compile(r"is 1000000000000000(?:\.0)?, allowed (\S+) to (\S+)$")
#: What an object needs besides the field under test.
_BESIDE: Mapping[str, dict[str, Any]] = {
    "schedule": {"cron": "@daily"},
    "tasks": {"name": "a", "command": {"argv": ["true"]}},
    "on_start": {"command": {"argv": ["true"]}},
    "after": {"job": "b"},
    "http": {"url": "https://a.example"},
    "command": {"argv": ["true"]},
    "python": {"name": "f"},
    "wait": {"for": "1s"},
}
#: What a field needs besides it instead.
_BESIDE_FIELD: Mapping[tuple[str, str], dict[str, Any]] = {
    ("auth", "type"): {"username": "u"},
    ("auth", "username"): {"type": "basic"},
    ("auth", "password"): {"type": "basic", "username": "u"},
    ("auth", "token"): {"type": "bearer"},
    ("auth", "secret"): {"type": "hmac"},
    **{("auth", name): {"type": "api_key", "value": "v"} for name in ("value", "name", "in")},
    ("command", "command"): {"shell": True},
    ("command", "shell"): {"command": "true"},
    ("wait", "timeout"): {"signal": "go"},
    ("wait", "timezone"): {"until": "2027-01-01T00:00:00"},
}
_SAME = {"cron_expression": "schedule", "execute_at": "schedule", "webhook": "http", "on_complete": "on_start"}
_ONE_OF = (
    {"http", "webhook", "command", "python", "grpc", "wait", "job_type", "tasks"},
    {"cron", "every", "iso8601", "at", "in", "words"},
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """The known restrictions on the values of one field."""

    words: tuple[str, ...] = ()  # the only texts that it takes; empty: any
    bounds: tuple[str, str] | None = None


@cache
def objects() -> dict[Path, dict[str, Field]]:
    """Every object of a job that takes fixed fields, and these fields. The job itself is at ``()``."""
    return dict(_crawl(()))


def job(path: Path, field: str, value: Any) -> dict[str, Any]:
    """A job with one field of one of its objects set, and everything that the field needs."""
    inner = {**_beside(path, field), field: value}
    for rivals in _ONE_OF:
        if field in rivals:
            inner = {name: value for name, value in inner.items() if name == field or name not in rivals}
    shape = _placed(path, inner)
    return shape if shape.keys() & _ONE_OF[0] else {**shape, "command": {"argv": ["true"]}}


def problems(data: Any) -> list[Problem]:
    """The problems of a job; empty: it is accepted."""
    try:
        read_job(data, checks=CHECKS)
    except InvalidJob as error:
        return error.problems
    return []


def _crawl(path: Path) -> Iterator[tuple[Path, dict[str, Field]]]:
    names = _names(path)
    yield path, {name: _field(path, name) for name in sorted(names)}
    for name in sorted(names):
        for below in ((*path, name), (*path, name, ITEM)):
            if _names(below):
                yield from _crawl(below)


def _names(path: Path) -> set[str]:
    """The fields that an object takes. Empty: it is not an object, or takes any field."""
    names = _find_listed(_KNOWN, _placed(path, {**_beside(path), _UNKNOWN: 1}))
    for kind in _find_listed(_TYPES, _placed(path, {_UNKNOWN: 1})):
        names |= _find_listed(_KNOWN, _placed(path, {"type": kind, _UNKNOWN: 1}))
    return names


def _field(path: Path, name: str) -> Field:
    bounds = [
        (match[1], match[2])
        for problem in problems(job(path, name, _TOO_LARGE))
        if (match := _BOUNDS.search(problem.message)) and problem.pointer.endswith(f"/{name}")
    ]
    words = _find_listed(_WORDS, job(path, name, _UNKNOWN))
    return Field(words=tuple(sorted(words)), bounds=bounds[0] if bounds else None)


def _find_listed(pattern: re.Pattern[str], data: Any) -> set[str]:
    matches = [match for problem in problems(data) if (match := pattern.search(problem.message))]
    return set(matches[0][1].split(", ")) if matches else set()


def _beside(path: Path, field: str = "") -> dict[str, Any]:
    names = [part for part in path if part != ITEM]
    if not names:
        return {"name": "a"}
    name = _SAME.get(names[-1], names[-1])
    return _BESIDE_FIELD.get((name, field), _BESIDE.get(name, {}))


def _placed(path: Path, value: Any) -> dict[str, Any]:
    """A job with a value at a path."""
    if not path:
        return dict(value)
    *above, last = path
    if last == ITEM:
        return _placed(tuple(above), [value])
    outer = {**_beside(tuple(above)), last: value}
    for rivals in _ONE_OF:
        if last in rivals:
            outer = {name: value for name, value in outer.items() if name == last or name not in rivals}
    return _placed(tuple(above), outer)
