"""Merge patches (RFC 7396) on a job.

A field of a patch replaces fields that mean the same under another name: ``{"command": …}`` replaces the tasks of a job
instead of conflicting with them.
"""

from collections.abc import Collection
from typing import Any

#: Fields of a patch, and the fields of the job that they replace. A target also replaces the tasks.
_REPLACES = {
    "job_type": ("tasks",),
    "cron_expression": ("schedule",),
    "execute_at": ("schedule",),
    "retry_policy": ("retry",),
    "max_retries": ("retry",),
    "timeout": ("task_timeout",),
    "timeout_secs": ("task_timeout",),
}


def merge(job: dict[str, Any], changes: dict[str, Any], target_fields: Collection[str]) -> dict[str, Any]:
    """Apply a merge patch to a job. ``target_fields`` are the fields that can hold a target."""
    base = dict(job)
    for name, value in changes.items():
        if value is not None:
            for replaced in _REPLACES.get(name, ("tasks",) if name in target_fields else ()):
                base.pop(replaced, None)
    schedule = changes.get("schedule")
    if schedule is not None:
        base.pop("schedule", None)  # replaced, not merged
    if isinstance(schedule, dict) and "in" in schedule:
        base.pop("start", None)  # the delay counts from now
    merged: dict[str, Any] = _merge_values(base, changes)
    removed = {name: None for name, value in changes.items() if value is None}
    return removed | merged  # keep the nulls, so that unknown names are rejected


def _merge_values(target: Any, changes: Any) -> Any:
    if not isinstance(changes, dict):
        return changes
    merged = dict(target) if isinstance(target, dict) else {}
    for name, value in changes.items():
        if value is None:
            merged.pop(name, None)
        else:
            merged[name] = _merge_values(merged.get(name), value)
    return merged
