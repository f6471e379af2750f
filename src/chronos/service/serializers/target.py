"""Reads the targets of tasks and hooks, and lets the runners check their options."""

import json
import re
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from chronos.core.job import JobSpec, Target
from chronos.errors import Invalid, InvalidOptions
from chronos.runners.target_kinds import KIND_ALIASES, list_target_fields
from chronos.service.serializers.object_reader import ObjectReader
from chronos.service.serializers.problems import InvalidJob, Problem

Check = Callable[[Mapping[str, Any]], None]

MAX_OPTIONS = 256 * 1024
_MAX_EXAMPLE = 200  # characters of an example in a message


def find_target_fields(reader: ObjectReader, checks: Mapping[str, Check]) -> list[str]:
    """Return the fields of an object that are targets."""
    return reader.present(*list_target_fields(checks))


def read_target(reader: ObjectReader, field: str, checks: Mapping[str, Check]) -> Target | None:
    """Read a target; returns None if it is not an object."""
    _, value = reader.take(field)
    if not isinstance(value, dict):
        if value is not None:
            reader.fault(field, f"must be an object{_describe_target_shape(field, value)}")
        return None
    kind, options = KIND_ALIASES.get(field, field), value
    if len(msgspec.json.encode(options)) > MAX_OPTIONS:
        reader.fault(field, f"is larger than {MAX_OPTIONS // 1024} KiB")
    else:
        check_target(reader, field, kind, options, checks)
    return Target(kind=kind, options=options)


def _describe_target_shape(field: str, value: Any) -> str:
    """Show the object that a text or a list was probably meant to be."""
    match KIND_ALIASES.get(field, field), value:
        case "command", str():
            example: dict[str, Any] = {"argv": value.split()}
        case "command", list():
            example = {"argv": value}
        case "http", str():
            example = {"url": value}
        case "python", str():
            example = {"name": value}
        case _:
            return ""
    text = json.dumps(example, ensure_ascii=False)
    return f" like {text}" if len(text) <= _MAX_EXAMPLE else ""


def check_target(
    reader: ObjectReader, field: str, kind: str, options: dict[str, Any], checks: Mapping[str, Check]
) -> None:
    """Let the runner check the options of a target."""
    check = checks.get(kind)
    if check is None:
        reader.fault(field, f'unsupported target "{kind}"; use one of {", ".join(sorted(checks))}')
        return
    try:
        check(options)
    except InvalidOptions as error:
        for path, message in error.faults:
            reader.fault((field, *path), message)
    except Invalid as error:
        reader.fault((field, *_find_option(kind, str(error))), str(error))


def check_targets(name: str, spec: JobSpec, checks: Mapping[str, Check]) -> None:
    """Raise ``InvalidJob`` if a stored job has a target that would now be rejected."""
    problems: list[Problem] = []
    targets = [(f"/tasks/{index}", task.target) for index, task in enumerate(spec.tasks)]
    targets += [("/on_start", spec.on_start)] if spec.on_start is not None else []
    targets += [("/on_complete", spec.on_complete)] if spec.on_complete is not None else []
    for pointer, target in targets:
        check_target(ObjectReader({}, pointer, problems), target.kind, target.kind, target.options, checks)
    if problems:
        raise InvalidJob(problems, name=name)


def _find_option(kind: str, message: str) -> tuple[str, ...]:
    """Return the path of the option that a runner's message starts with: ``http.auth.token``, ``http has no option
    "urll"``.
    """
    if unknown := re.match(rf'{re.escape(kind)} has no option "([^"]+)"', message):
        return (unknown.group(1),)
    named = re.match(rf"{re.escape(kind)}((?:\.[A-Za-z0-9_-]+|\[\d+\])+)", message)
    return () if named is None else tuple(re.findall(r"[A-Za-z0-9_-]+", named.group(1)))
