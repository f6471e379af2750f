"""The short way to read the jobs that most are: a name, a schedule as text, one target, tags, some settings.

Such jobs come by the thousand and say much the same. Whatever several of them share is read once, by the careful
reader's own functions, and kept if it is in order; what cannot be told at a glance is left to the careful reader
altogether, which alone says what is wrong. So this one never refuses a job, and never reads one otherwise (a test
holds it to that).
"""

from collections.abc import Hashable, Mapping
from functools import lru_cache
from typing import Any, TypeVar

import msgspec
from msgspec import Struct

from chronos.core.config import NOTHING_SET, Settings
from chronos.core.job import NAMELESS, JobSpec, ScheduleSpec, Task
from chronos.core.parse import MAX_LENGTH
from chronos.core.schedule import Schedule
from chronos.service.shapes.form import Form
from chronos.service.shapes.job import (
    DEFAULT_NAMESPACE,
    MASKED,
    MAX_DESCRIPTION,
    MAX_TAGS,
    ONLY_TASK,
    Check,
    Draft,
    read_job,
    read_target,
)
from chronos.service.shapes.names import NAME, UUID_LENGTHS
from chronos.service.shapes.plain import plain
from chronos.service.shapes.problems import Problem
from chronos.service.shapes.schedule import When, read_text
from chronos.service.shapes.settings import FIELDS, read_settings

_TARGETS = ("http", "webhook", "command", "python")
_OTHERS = frozenset(("name", "namespace", "schedule", "timezone", "tags", "description"))
_USUAL = _OTHERS | FIELDS | set(_TARGETS)
_LONGEST_TAG = 256
_LONGEST_ZONE = 256
_LARGE = 2 * 1024  # bytes of what is kept, and of options or settings that need no look at the size of the whole
_MOST_KEPT = 4_096
_matches = NAME.fullmatch

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class _Rest(Struct, frozen=True, kw_only=True):
    """All that a job says besides its name."""

    namespace: str | None
    spec: JobSpec
    parsed: tuple[ScheduleSpec, Schedule] | None


class JobReader:
    """Reads jobs that were sent as JSON."""

    def __init__(self, checks: Mapping[str, Check]) -> None:
        self._checks = checks
        self._rests: dict[bytes, _Rest] = {}
        self._tasks: dict[tuple[str, bytes], tuple[Task, ...]] = {}
        self._settings: dict[bytes, Settings] = {}

    def read(self, data: Any, *, namespace: str = DEFAULT_NAMESPACE) -> Draft:
        """The job that somebody wrote; ``data`` is what JSON can say, no other objects. Raises ``InvalidJob``."""
        draft = self._quickly(data, namespace)
        return read_job(data, checks=self._checks, namespace=namespace) if draft is None else draft

    def _quickly(self, data: Any, default: str) -> Draft | None:
        """The job, if it is a usual one and in order."""
        if type(data) is not dict:
            return None
        name: Any = data.get("name")
        if not _is_name(name):
            return None
        rest = data.copy()
        del rest["name"]
        key = _encoded(rest)
        found = self._rests.get(key)
        if found is None:
            found = self._read_rest(rest)
            if found is None:
                return None
            if key:
                _keep(self._rests, key, found)
        return Draft(
            namespace=default if found.namespace is None else found.namespace,
            name=name,
            spec=found.spec,
            parsed=found.parsed,
            common=key != b"",
        )

    def _read_rest(self, data: dict[str, Any]) -> _Rest | None:
        """What a job without its name says, if it is a usual one and in order."""
        namespace = data.get("namespace")
        if not data.keys() <= _USUAL or ("namespace" in data and not _is_name(namespace)):
            return None
        when = _when(data)
        tasks = self._only_task(data)
        settings = NOTHING_SET if FIELDS.isdisjoint(data) else self._set(data)
        tags, description = data.get("tags", {}), data.get("description", "")
        if when is None or tasks is None or settings is None or not _are_tags(tags):
            return None
        if description != "" and not _is_text(description, MAX_DESCRIPTION):
            return None
        spec = JobSpec(schedule=when.spec, tasks=tasks, settings=settings, tags=dict(tags), description=description)
        parsed = None if when.spec is None or when.schedule is None else (when.spec, when.schedule)
        return _Rest(namespace=namespace, spec=spec, parsed=parsed)

    def _only_task(self, data: dict[str, Any]) -> tuple[Task, ...] | None:
        given = [field for field in _TARGETS if field in data]
        if len(given) != 1:
            return None
        field = given[0]
        key = (field, _encoded(data[field]))
        if MASKED in key[1]:
            return None
        found = self._tasks.get(key)
        if found is None and key[1]:
            found = self._read_task(field, data[field])
            if found is not None:
                _keep(self._tasks, key, found)
        return found

    def _read_task(self, field: str, options: Any) -> tuple[Task, ...] | None:
        problems: list[Problem] = []
        form = Form(plain({field: options}, problems), "", problems)
        target = None if problems or field not in form.data else read_target(form, field, self._checks)
        return None if problems or target is None else (Task(name=ONLY_TASK, target=target),)

    def _set(self, data: dict[str, Any]) -> Settings | None:
        said = {name: value for name, value in data.items() if name in FIELDS}
        key = _encoded(said)
        found = self._settings.get(key)
        if found is None and key:
            found = _read_settings(said)
            if found is not None:
                _keep(self._settings, key, found)
        return found


def _when(data: dict[str, Any]) -> When | None:
    """A schedule that has nothing to do with the job's name."""
    text, zone = data.get("schedule"), data.get("timezone")
    if type(text) is not str or not (type(zone) is str or (zone is None and "timezone" not in data)):
        return None
    return _read_when(text, zone) if len(text) <= MAX_LENGTH and len(zone or "") <= MAX_LENGTH else None


@lru_cache(maxsize=4_096)
def _read_when(text: str, zone: str | None) -> When | None:
    if not NAMELESS.fullmatch(text) or not (zone is None or _is_text(zone, _LONGEST_ZONE)) or zone == "":
        return None
    return read_text(text, zone)


def _read_settings(said: dict[str, Any]) -> Settings | None:
    problems: list[Problem] = []
    form = Form(plain(said, problems), "", problems)
    settings = read_settings(form)
    form.finish()
    return None if problems else settings


def _encoded(value: Any) -> bytes:
    """What makes two values the same; empty: it is too large for that, or cannot be told."""
    try:
        key = msgspec.json.encode(value)
    except (UnicodeEncodeError, OverflowError, RecursionError):
        return b""
    return key if len(key) <= _LARGE else b""


def _keep(seen: dict[K, V], key: K, value: V) -> None:
    if len(seen) >= _MOST_KEPT:
        seen.clear()
    seen[key] = value


def _is_name(value: Any) -> bool:
    return type(value) is str and _matches(value) is not None and len(value) not in UUID_LENGTHS


def _is_text(value: Any, longest: int) -> bool:
    return type(value) is str and len(value) <= longest and value.isascii() and "\0" not in value


def _are_tags(value: Any) -> bool:
    if type(value) is not dict or len(value) > MAX_TAGS:
        return False
    return all(key and _is_text(key, _LONGEST_TAG) and _is_text(text, _LONGEST_TAG) for key, text in value.items())
