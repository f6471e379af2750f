"""RFC 7396: a merge patch, on a job as it is answered.

What says the same thing under another name gives way, so that ``{"command": …}`` replaces the tasks of a job instead of
quarrelling with them.
"""

from typing import Any

#: A field of a patch, and the fields of the answer that it stands in for.
_REPLACES = {
    **dict.fromkeys(("http", "webhook", "command", "python", "grpc", "wait", "job_type"), ("tasks",)),
    "cron_expression": ("schedule",),
    "execute_at": ("schedule",),
    "retry_policy": ("retry",),
    "max_retries": ("retry",),
    "timeout": ("task_timeout",),
    "timeout_secs": ("task_timeout",),
}


def merge(job: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    """A job with some of its fields changed."""
    base = dict(job)
    for name, value in changes.items():
        if value is not None:
            for replaced in _REPLACES.get(name, ()):
                base.pop(replaced, None)
    schedule = changes.get("schedule")
    if schedule is not None:
        base.pop("schedule", None)  # another one, not a mixture of both
    if isinstance(schedule, dict) and "in" in schedule:
        base.pop("start", None)  # it is counted from now
    merged: dict[str, Any] = _merge_values(base, changes)
    removed = {name: None for name, value in changes.items() if value is None}
    return removed | merged  # a name that is no field is refused, though nothing is to stand under it


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
