"""What the shapes accept, asked of themselves: a field that nobody knows is refused with a list of those that are.

So neither the documentation nor the schema is held against a list that somebody wrote by hand.
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

#: The way to an object within a job; ITEM is any entry of a list.
Path = tuple[str, ...]
ITEM = "[]"

_NOBODY = "?"  # no field, and like none
_FAR = 10**15  # beyond every bound
_KNOWN = re.compile(r"(?:unknown field; known fields:|has no option \"\?\"; (?:known:|use one of)) ([a-z0-9_, ]+)$")
_TYPES = re.compile(r'whose "type" is one of ([a-z_, ]+)$')
_WORDS = re.compile(r"allowed: ([a-z0-9_, ]+)$")
_BOUNDS = re.compile(r"is 1000000000000000(?:\.0)?, allowed (\S+) to (\S+)$")
#: What an object needs beside the field that is looked at.
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
#: What a field of an object needs beside it instead.
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
    """What can be said of the values of one field."""

    words: tuple[str, ...] = ()  # the only texts that it takes; empty: any
    bounds: tuple[str, str] | None = None


@cache
def objects() -> dict[Path, dict[str, Field]]:
    """Every object of a job that takes certain fields only, and these; the job itself is at ``()``."""
    return dict(_crawl(()))


def job(path: Path, field: str, value: Any) -> dict[str, Any]:
    """A job with a field of one of its objects set, and all that has to stand beside it."""
    inner = {**_beside(path, field), field: value}
    for rivals in _ONE_OF:
        if field in rivals:
            inner = {name: said for name, said in inner.items() if name == field or name not in rivals}
    whole = _placed(path, inner)
    return whole if whole.keys() & _ONE_OF[0] else {**whole, "command": {"argv": ["true"]}}


def problems(data: Any) -> list[Problem]:
    """All that is wrong with a job; empty: it is accepted."""
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
    """The fields that an object takes; empty: it is none, or takes any."""
    found = _told(_KNOWN, _placed(path, {**_beside(path), _NOBODY: 1}))
    for kind in _told(_TYPES, _placed(path, {_NOBODY: 1})):
        found |= _told(_KNOWN, _placed(path, {"type": kind, _NOBODY: 1}))
    return found


def _field(path: Path, name: str) -> Field:
    bounds = [
        (match[1], match[2])
        for problem in problems(job(path, name, _FAR))
        if (match := _BOUNDS.search(problem.message)) and problem.pointer.endswith(f"/{name}")
    ]
    words = _told(_WORDS, job(path, name, _NOBODY))
    return Field(words=tuple(sorted(words)), bounds=bounds[0] if bounds else None)


def _told(pattern: re.Pattern[str], data: Any) -> set[str]:
    matches = [match for problem in problems(data) if (match := pattern.search(problem.message))]
    return set(matches[0][1].split(", ")) if matches else set()


def _beside(path: Path, field: str = "") -> dict[str, Any]:
    names = [part for part in path if part != ITEM]
    if not names:
        return {"name": "a"}
    name = _SAME.get(names[-1], names[-1])
    return _BESIDE_FIELD.get((name, field), _BESIDE.get(name, {}))


def _placed(path: Path, value: Any) -> dict[str, Any]:
    """A job that has an object at a place."""
    if not path:
        return dict(value)
    *above, last = path
    if last == ITEM:
        return _placed(tuple(above), [value])
    outer = {**_beside(tuple(above)), last: value}
    for rivals in _ONE_OF:
        if last in rivals:
            outer = {name: said for name, said in outer.items() if name == last or name not in rivals}
    return _placed(tuple(above), outer)
