"""Compares two versions of a job: the fields that differ, and the effect on upcoming runs."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from chronos.core.job import Job, JobState, JobVersion, ensure_readable
from chronos.core.schedule.occurrences import Instants
from chronos.core.schedule_change import ScheduleDiff, diff, parse_stored, resolve_instants, start_at_cursor
from chronos.service.save_plan import DIFF_WINDOW_US
from chronos.service.serializers import write_spec
from chronos.service.serializers.json_values import extend_pointer


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldChange:
    """A field that differs; None means absent. If both values look the same, a masked part differs."""

    pointer: str
    old: Any
    new: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionDiff:
    """The difference from one version to another."""

    old: int
    new: int
    fields: tuple[FieldChange, ...]
    runs: ScheduleDiff  # from now on: the runs of the current version as they come, of others by their schedule alone


def compare(job: Job, old: JobVersion, new: JobVersion, now_us: int) -> VersionDiff:
    """Compare two versions of a job. Raises ``Invalid`` if one of them is unreadable."""
    before, after = (_find_instants(job, version, now_us) for version in (old, new))
    return VersionDiff(
        old=old.version,
        new=new.version,
        fields=list_field_changes(old, new),
        runs=diff(before, after, now_us, now_us + DIFF_WINDOW_US),
    )


def list_field_changes(old: JobVersion, new: JobVersion) -> tuple[FieldChange, ...]:
    """Return the fields that differ between two readable versions."""
    return tuple(_changes("", _Side.of(old), _Side.of(new)))


def _find_instants(job: Job, version: JobVersion, now_us: int) -> Instants | None:
    """Return the instants of a version. Those of the current one include what an update keeps for now."""
    schedule = ensure_readable(version.spec).schedule
    is_live = job.state in (JobState.ACTIVE, JobState.PAUSED) and job.next_us is not None
    if version.version == job.version and is_live:
        return start_at_cursor(resolve_instants(job.spec, job.name), job.next_us)
    return None if schedule is None else parse_stored(schedule, job.name).anchor(now_us)


@dataclass(frozen=True, slots=True)
class _Side:
    """A part of one version: the stored value, for comparing, and the masked one, for showing. Both have the same
    structure.
    """

    stored: Any
    shown: Any

    @classmethod
    def of(cls, version: JobVersion) -> "_Side":
        return cls(write_spec(version.spec, masked=False), write_spec(version.spec))

    def field(self, name: str) -> "_Side":
        return _Side(self.stored.get(name), self.shown.get(name) if isinstance(self.shown, dict) else self.shown)

    def item(self, index: int) -> "_Side":
        return _Side(self.stored[index], self.shown[index])


def _changes(pointer: str, old: _Side, new: _Side) -> Iterator[FieldChange]:
    if isinstance(old.stored, dict) and isinstance(new.stored, dict):
        for key in dict.fromkeys((*old.stored, *new.stored)):
            yield from _changes(extend_pointer(pointer, key), old.field(key), new.field(key))
    elif isinstance(old.stored, list) and isinstance(new.stored, list) and len(old.stored) == len(new.stored):
        for index in range(len(old.stored)):
            yield from _changes(f"{pointer}/{index}", old.item(index), new.item(index))
    elif old.stored != new.stored:
        yield FieldChange(pointer=pointer, old=old.shown, new=new.shown)
