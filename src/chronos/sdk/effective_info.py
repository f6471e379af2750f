"""EffectiveSetting: one setting of a job in force, with the level it came from."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class EffectiveSetting:
    """The value of a setting, and the level it came from: default, server, namespace, job or task.

    ``fields`` has the level of each field of a setting that is an object, such as ``retry``.
    """

    value: Any
    level: str
    fields: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class EffectiveInfo(Mapping[str, EffectiveSetting]):
    """The settings of a job by name. ``tasks`` has those that tasks may override, by task.

    ``versions`` has the numbers of the job's version, the server's defaults and the namespace's settings.
    """

    settings: Mapping[str, EffectiveSetting]
    tasks: Mapping[str, Mapping[str, EffectiveSetting]]
    versions: Mapping[str, int]

    def __getitem__(self, name: str) -> EffectiveSetting:
        return self.settings[name]

    def __iter__(self) -> Any:
        return iter(self.settings)

    def __len__(self) -> int:
        return len(self.settings)


def to_effective_info(written: Mapping[str, Any]) -> EffectiveInfo:
    """Build the settings from their JSON."""
    return EffectiveInfo(
        settings=_to_settings({name: one for name, one in written.items() if name not in ("tasks", "versions")}),
        tasks={name: _to_settings(task) for name, task in written["tasks"].items()},
        versions=written["versions"],
    )


def _to_settings(written: Mapping[str, Any]) -> dict[str, EffectiveSetting]:
    return {
        name: EffectiveSetting(value=one["value"], level=one["from"], fields=one.get("fields", {}))
        for name, one in written.items()
    }
