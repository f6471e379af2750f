"""Two versions of a job side by side: which fields differ, and what that does to the coming runs."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from chronos.core.diff import Diff, diff
from chronos.core.job import JobVersion, readable
from chronos.service.saving import COMPARED_US
from chronos.service.shapes import write_spec
from chronos.service.shapes.plain import step


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldChange:
    """One field that differs; None: it is not said in that version."""

    pointer: str
    old: Any
    new: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionDiff:
    """From one version to another."""

    old: int
    new: int
    fields: tuple[FieldChange, ...]
    runs: Diff  # from now on, as if each had been in force alone


def compare(name: str, old: JobVersion, new: JobVersion, now_us: int) -> VersionDiff:
    """What differs between two versions of the job of this name. Raises ``Invalid`` where one cannot be read."""
    left, right = readable(old.spec).schedule, readable(new.spec).schedule
    before = None if left is None else left.parse(name).anchor(now_us)
    after = None if right is None else right.parse(name).anchor(now_us)
    return VersionDiff(
        old=old.version,
        new=new.version,
        fields=tuple(_changes("", write_spec(old.spec), write_spec(new.spec))),
        runs=diff(before, after, now_us, now_us + COMPARED_US),
    )


def _changes(pointer: str, old: Any, new: Any) -> Iterator[FieldChange]:
    if isinstance(old, dict) and isinstance(new, dict):
        for key in dict.fromkeys((*old, *new)):
            yield from _changes(step(pointer, key), old.get(key), new.get(key))
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for place, (one, two) in enumerate(zip(old, new, strict=True)):
            yield from _changes(f"{pointer}/{place}", one, two)
    elif old != new:
        yield FieldChange(pointer=pointer, old=old, new=new)
