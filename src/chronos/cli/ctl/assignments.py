"""Assignments on the command line: ``priority=8``, ``retry.max_attempts=5``, ``tags.team=billing``, ``description-``.

A value is JSON where it can be read as JSON, else text. Tags, labels, headers and variables are always text.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import click

from chronos.runners.target_kinds import list_target_fields

#: Objects whose values are texts, and whose keys may contain dots.
_TEXT_OBJECTS = (("tags",), ("placement", "labels"), ("http", "headers"), ("webhook", "headers"), ("command", "env"))
_TARGETS = list_target_fields()
_TASKS = "tasks"


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignment:
    """A field, as the names that lead to it, and its new value. None removes the field."""

    path: tuple[str, ...]
    value: Any

    @property
    def key(self) -> str:
        return ".".join(self.path)


def read_assignments(texts: Iterable[str]) -> list[Assignment]:
    """Read ``KEY=VALUE`` and ``KEY-``. Raises ``click.UsageError`` for any other text and for a key given twice."""
    assignments = [_read_assignment(text) for text in texts]
    keys = [assignment.key for assignment in assignments]
    for key in keys:
        if keys.count(key) > 1:
            raise click.UsageError(f'"{key}" is set twice; set it once')
    return assignments


def _read_assignment(text: str) -> Assignment:
    key, separator, value = text.partition("=")
    removes = not separator and key.endswith("-")
    path = _split_key(key[:-1] if removes else key)
    if not all(path) or not (separator or removes):
        raise click.UsageError(f'"{text}" is not a setting; write KEY=VALUE, or KEY- to remove it')
    if removes:
        return Assignment(path=path, value=None)
    return Assignment(path=path, value=value if _is_text(path) else _read_value(value))


def _split_key(key: str) -> tuple[str, ...]:
    path = tuple(key.split("."))
    skipped = 2 if path[0] == _TASKS else 0
    for prefix in _TEXT_OBJECTS:
        length = skipped + len(prefix)
        if path[skipped:length] == prefix and len(path) > length:
            return (*path[:length], ".".join(path[length:]))
    return path


def _is_text(path: tuple[str, ...]) -> bool:
    inner = path[2:] if path[0] == _TASKS else path
    return inner[:-1] in _TEXT_OBJECTS


def _read_value(text: str) -> Any:
    import json

    try:
        return json.loads(text)
    except ValueError:
        return text


def assign(target: dict[str, Any], assignments: Iterable[Assignment]) -> None:
    """Set the fields in a new definition of a job; None removes a field."""
    for assignment in assignments:
        _set(target, assignment.path, assignment.value, keeps_null=False)


def build_patch(job: dict[str, Any], assignments: Iterable[Assignment]) -> dict[str, Any]:
    """Return the merge patch that changes a stored job. A field of a target changes the task that has this target.

    Raises ``click.UsageError`` where it is not clear which task is meant.
    """
    import copy

    patch: dict[str, Any] = {}
    tasks: list[dict[str, Any]] = copy.deepcopy(job.get(_TASKS) or [])
    for assignment in assignments:
        if assignment.path[0] in (*_TARGETS, _TASKS) and len(assignment.path) > 1:
            task, path = _find_task(job["name"], tasks, assignment)
            _set(task, path, assignment.value, keeps_null=False)
            patch[_TASKS] = tasks
        else:
            _set(patch, assignment.path, assignment.value, keeps_null=True)
    return patch


def _find_task(job: str, tasks: list[dict[str, Any]], assignment: Assignment) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Return the task that an assignment changes, and the path within it."""
    names = ", ".join(task["name"] for task in tasks)
    path = assignment.path
    if path[0] == _TASKS:
        for task in tasks:
            if task["name"] == path[1] and len(path) > 2:
                return task, path[2:]
        raise click.UsageError(f'"{assignment.key}" is not a field of a task; {job} has the tasks {names}')
    if len(tasks) != 1:
        raise click.UsageError(f'"{assignment.key}": {job} has the tasks {names}; write tasks.NAME.{assignment.key}')
    kind = next((kind for kind in _TARGETS if kind in tasks[0]), None)
    if path[0] != kind and kind is not None:
        raise click.UsageError(f'"{assignment.key}": the target of {job} is {kind}, not {path[0]}')
    return tasks[0], path


def _set(target: dict[str, Any], path: tuple[str, ...], value: Any, *, keeps_null: bool) -> None:
    *parents, name = path
    for parent in parents:
        below = target.get(parent)
        if not isinstance(below, dict):
            below = target[parent] = {}
        target = below
    if value is None and not keeps_null:
        target.pop(name, None)
    else:
        target[name] = value
