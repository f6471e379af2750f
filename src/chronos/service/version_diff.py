"""Compares two versions of a job: the fields that differ, and the effect on upcoming runs."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from chronos.core.job import JobVersion, ensure_readable
from chronos.core.schedule_change import ScheduleDiff, diff, parse_stored
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
    runs: ScheduleDiff  # from now on, comparing the two schedules alone


def compare(name: str, old: JobVersion, new: JobVersion, now_us: int) -> VersionDiff:
    """Compare two versions of a job. Raises ``Invalid`` if one of them is unreadable."""
    left, right = ensure_readable(old.spec).schedule, ensure_readable(new.spec).schedule
    before = None if left is None else parse_stored(left, name).anchor(now_us)
    after = None if right is None else parse_stored(right, name).anchor(now_us)
    return VersionDiff(
        old=old.version,
        new=new.version,
        fields=tuple(_changes("", _Side.of(old), _Side.of(new))),
        runs=diff(before, after, now_us, now_us + DIFF_WINDOW_US),
    )


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
