"""What saving did, or would do, as it is answered."""

from typing import Any

from chronos.core.calendar import rfc3339
from chronos.core.diff import Diff, Listed
from chronos.core.job import JobState
from chronos.errors import ChronosError
from chronos.service.comparing import VersionDiff
from chronos.service.jobs import Plan, SavedJob
from chronos.service.shapes import InvalidJob, id_text, write_job
from chronos.service.shapes.job import instant

_STATES = tuple(state.name.lower() for state in JobState)  # by their numbers


def write_saved(saved: SavedJob) -> dict[str, Any]:
    """What became of one job."""
    next_us = saved.next_us if saved.state is JobState.ACTIVE else None
    said: dict[str, Any] = {
        "id": id_text(saved.job_id),
        "namespace": saved.namespace,
        "name": saved.name,
        "version": saved.version,
        "result": "created" if saved.created else "changed" if saved.changed else "unchanged",
        "state": _STATES[saved.state],
        "next_run_at": None if next_us is None else instant(next_us),
    }
    if saved.diff is not None:
        said["diff"] = write_diff(saved.diff)
    return said


def changed_runs(saved: SavedJob) -> dict[str, Any]:
    """How the coming runs change, where a new schedule changes them."""
    return {} if saved.diff is None else {"diff": write_diff(saved.diff)}


def write_refused(error: ChronosError, *, code: str, status: int, name: str | None) -> dict[str, Any]:
    """A job of many that could not be saved."""
    said: dict[str, Any] = {"name": name, "result": "failed", "code": code, "status": status, "message": str(error)}
    if isinstance(error, InvalidJob):
        said["errors"] = [{"pointer": one.pointer, "message": one.message} for one in error.problems]
    return said


def write_plan(plan: Plan, *, dry_run: bool) -> dict[str, Any]:
    """What applying changed."""
    return {
        "dry_run": dry_run,
        "created": [write_saved(one) for one in plan.created],
        "changed": [write_saved(one) for one in plan.changed],
        "unchanged": [write_saved(one) for one in plan.unchanged],
        "pruned": [write_job(job) for job in plan.pruned],
    }


def write_diff(diff: Diff) -> dict[str, Any]:
    """How the coming runs change."""
    return {
        "added": _listed(diff.added),
        "cancelled": _listed(diff.cancelled),
        "kept": _listed(diff.kept),
        "until": rfc3339(diff.until_us),
        "whole": diff.whole,
    }


def write_version_diff(diff: VersionDiff) -> dict[str, Any]:
    """From one version to another."""
    return {
        "from": diff.old,
        "to": diff.new,
        "fields": [{"pointer": one.pointer, "old": one.old, "new": one.new} for one in diff.fields],
        "runs": write_diff(diff.runs),
    }


def _listed(listed: Listed) -> dict[str, Any]:
    return {"first": [rfc3339(us) for us in listed.first_us], "count": listed.count}
