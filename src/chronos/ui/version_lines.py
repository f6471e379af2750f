"""Versions of a job for people: what changed from one to the next."""

from typing import Any

from chronos.core.job import JobVersion, Unreadable
from chronos.service.version_diff import FieldChange, list_field_changes
from chronos.ui.json_text import format_json


def describe_change(change: FieldChange) -> tuple[str, list[tuple[str, str]]]:
    """Return the path of a field, and its old and new lines with their signs."""
    path = " / ".join(part for part in change.pointer.split("/") if part)
    lines = [("-", line) for line in _lines(change.old)] + [("+", line) for line in _lines(change.new)]
    return path, lines


def list_changes(old: JobVersion, new: JobVersion) -> list[FieldChange]:
    """Return the fields that differ between two versions; none if one cannot be read."""
    if isinstance(old.spec, Unreadable) or isinstance(new.spec, Unreadable):
        return []
    return list(list_field_changes(old, new))


def _lines(value: Any) -> list[str]:
    if value is None:
        return []
    return (value if isinstance(value, str) else format_json(value)).splitlines() or [""]
