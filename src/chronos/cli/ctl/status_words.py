"""The status of a server in words, for people. JSON and YAML show the fields themselves."""

from collections.abc import Mapping
from typing import Any

from chronos.cli.ctl.tables import format_instant

_TOLD = {
    *("now", "node", "number", "version", "ready", "reason", "schedules", "works", "slots", "executions_here"),
    *("jobs", "jobs_persisted", "jobs_held", "executions", "jobs_recovered", "jobs_failed_to_recover"),
}


def describe_status(address: str, status: Mapping[str, Any]) -> dict[str, Any]:
    """Return the lines of the status by their names. Facts that the caller may not see are left out."""
    version = f", Chronos {status['version']}" if status.get("version") else ""
    return {
        "server": f"{address}{version}",
        "time": format_instant(status["now"]),
        "node": _describe_node(status),
        "jobs": _describe_jobs(status),
        "executions": _describe_executions(status),
        "recovery": _describe_recovery(status),
        **{name.replace("_", " "): value for name, value in status.items() if name not in _TOLD},
    }


def _describe_node(status: Mapping[str, Any]) -> str | None:
    if "node" not in status:
        return None
    if not status.get("ready", True):
        return f"{status['node']} is not ready: {status.get('reason') or 'it is starting or stopping'}"
    if "schedules" not in status:
        return f"{status['node']} is ready"
    duties = {
        (True, True): "schedules jobs and runs them",
        (True, False): "schedules jobs; other nodes run them",
        (False, True): "runs jobs that other nodes schedule",
        (False, False): "serves the API; other nodes schedule and run jobs",
    }[bool(status["schedules"]), bool(status.get("works"))]
    return f"{status['node']} is ready; it {duties}"


def _describe_jobs(status: Mapping[str, Any]) -> str | None:
    if "jobs" not in status:
        return None
    total = sum(status["jobs"].values())
    return f"{total} in all: {_list_counts(status['jobs'])}" if total else "none"


def _describe_executions(status: Mapping[str, Any]) -> str | None:
    if "executions" not in status:
        return None
    counts = _list_counts(status["executions"]) or "none is active"
    if "executions_here" not in status or not status.get("slots"):
        return counts
    return f"{counts}; {status['executions_here']} of {status['slots']} slots of {status['node']} are in use"


def _describe_recovery(status: Mapping[str, Any]) -> str | None:
    """Say what happened to the jobs when the node started, if something happened."""
    recovered, broken = status.get("jobs_recovered") or 0, status.get("jobs_failed_to_recover") or 0
    if not recovered and not broken:
        return None
    sentence = f"{_count_jobs(recovered)} recovered when the node started"
    if not broken:
        return sentence
    return f"{sentence}; {_count_jobs(broken)} cannot be scheduled: chronosctl jobs get NAME says why"


def _list_counts(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{count} {word.replace('_', ' ')}" for word, count in counts.items() if count)


def _count_jobs(count: int) -> str:
    return f"{count} job{'' if count == 1 else 's'}"
