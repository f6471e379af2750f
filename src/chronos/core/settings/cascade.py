"""The cascade of settings, explained: the value of each setting and the level it came from.

    default ─► server ─► namespace ─► job ─► task        a lower level overrides an upper one, field by field

``config.resolve_settings`` computes the same values for the hot path, without their origins.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import NamedTuple

from chronos.core.config import Concurrency, Definition, Placement, Recovery, Retention, Retry, Settings, Update

#: The settings that are objects, with their types.
NESTED: Mapping[str, type[Definition]] = {
    "retry": Retry,
    "recovery": Recovery,
    "update": Update,
    "concurrency": Concurrency,
    "retention": Retention,
    "placement": Placement,
}


class Level(StrEnum):
    """A level of the cascade, outermost first."""

    DEFAULT = "default"
    SERVER = "server"
    NAMESPACE = "namespace"
    JOB = "job"
    TASK = "task"


class Origin(NamedTuple):
    """The origin of one setting. ``fields`` has the origin of each field of a setting that is an object."""

    level: Level
    fields: Mapping[str, Level]


def find_origins(levels: Mapping[Level, Settings]) -> dict[str, Origin]:
    """Return where the value of each setting comes from. The level of an object is its innermost one that sets a field.

    A field that no level sets comes from the built-in default.
    """
    ordered = [(level, levels[level]) for level in Level if level in levels]
    return {name: _find_origin(name, ordered) for name in Settings.__struct_fields__}


def _find_origin(name: str, ordered: list[tuple[Level, Settings]]) -> Origin:
    level, fields = Level.DEFAULT, dict.fromkeys(_list_fields(name), Level.DEFAULT)
    for one, settings in ordered:
        value = getattr(settings, name)
        if value is None:
            continue
        level = one
        if isinstance(value, Definition):
            fields |= {field: one for field in fields if getattr(value, field) is not None}
    return Origin(level, fields)


def _list_fields(name: str) -> tuple[str, ...]:
    kind = NESTED.get(name)
    return () if kind is None else kind.__struct_fields__
