"""EffectiveSettings: every setting of a job or execution, with its value and the level it came from."""

from collections.abc import Mapping, Sequence
from typing import Any

from chronos.core.config import DEFAULTS, Settings, merge
from chronos.core.execution import Execution
from chronos.core.job import Job, JobSpec, Task, ensure_readable
from chronos.core.settings.cascade import NESTED, Level, find_origins
from chronos.core.settings.levels import Levels
from chronos.errors import NotFound
from chronos.service.serializers.settings import write_settings
from chronos.store.contract import Store
from chronos.store.level_cache import LevelCache, UpperSettings

#: The settings that a task may override.
TASK_SETTINGS = ("on_failure", "retry", "task_timeout", "delivery")
#: Fields of ``core.config`` that have another name in JSON.
_JSON_FIELDS = {"initial_us": "initial_interval", "max_us": "max_interval"}
_ONLY_FIELDS = {"recovery": "strategy", "update": "policy"}  # the field of an object that is written as a name


class EffectiveSettingsService:
    """Explains settings as JSON."""

    def __init__(self, store: Store) -> None:
        self._store, self._levels = store, LevelCache(store)

    async def of_job(self, job: Job) -> dict[str, Any]:
        """Return the settings that the next execution of a job gets. Raises ``Invalid`` if the job is unreadable."""
        upper = await self._levels.read(job.namespace, job.levels)
        return write_effective(ensure_readable(job.spec), upper, version=job.version, levels=job.levels)

    async def of_execution(self, execution: Execution) -> dict[str, Any]:
        """Return the settings that an execution was admitted under, whatever has changed since.

        Raises ``NotFound`` if the version of its job is no longer kept.
        """
        key = (execution.job, execution.job_version)
        spec = (await self._store.specs_at([key])).get(key)
        if spec is None:
            raise NotFound(f"version {execution.job_version} of the job is no longer kept; the job was deleted")
        names = await self._store.names_of([execution.job])
        namespace = names[execution.job].namespace if execution.job in names else ""
        upper = await self._levels.read(namespace, execution.levels)
        return write_effective(ensure_readable(spec), upper, version=execution.job_version, levels=execution.levels)


def write_effective(spec: JobSpec, upper: UpperSettings, *, version: int, levels: int) -> dict[str, Any]:
    """Write each setting as ``{value, from}``, those that tasks override under ``tasks``, and the versions."""
    by_level = {Level.SERVER: upper.defaults, Level.NAMESPACE: upper.namespace, Level.JOB: spec.settings}
    numbers = Levels.unpack(levels)
    return {
        **_write_settings(by_level),
        "tasks": _write_tasks(spec.tasks, by_level),
        "versions": {"job": version, "defaults": numbers.defaults, "namespace": numbers.namespace},
    }


def _write_tasks(tasks: Sequence[Task], by_level: Mapping[Level, Settings]) -> dict[str, Any]:
    return {task.name: _write_settings({**by_level, Level.TASK: task.settings}, TASK_SETTINGS) for task in tasks}


def _write_settings(by_level: Mapping[Level, Settings], names: Sequence[str] = ()) -> dict[str, Any]:
    merged = DEFAULTS
    for settings in by_level.values():
        merged = merge(merged, settings)
    values = write_settings(merged)
    written: dict[str, Any] = {}
    for field, origin in find_origins(by_level).items():
        name = _to_json_name(field)
        if names and name not in names:
            continue
        value = values[name]
        if field in NESTED and isinstance(value, str):
            value = {_ONLY_FIELDS[field]: value}
        written[name] = {"value": value, "from": origin.level.value}
        if origin.fields:
            written[name]["fields"] = {_to_json_name(one): level.value for one, level in origin.fields.items()}
    return written


def _to_json_name(field: str) -> str:
    return _JSON_FIELDS.get(field, field.removesuffix("_us"))
