"""Results of saving, or of a dry run, as JSON."""

from collections.abc import Iterable
from typing import Any

from msgspec import UNSET, Raw, Struct, UnsetType, to_builtins
from msgspec.json import encode

from chronos.api.json_body import write_json
from chronos.core.calendar import rfc3339
from chronos.core.job import JobState
from chronos.core.schedule.surprises import Surprise
from chronos.core.schedule_change import ComingRuns, ScheduleDiff
from chronos.errors import ChronosError
from chronos.service.cooperative import TimeSlicer
from chronos.service.save_jobs import SavedJob, SavePreview
from chronos.service.serializers import InvalidJob, id_text, write_job
from chronos.service.serializers.job import format_instant
from chronos.service.version_diff import VersionDiff

_STATES = tuple(state.name.lower() for state in JobState)  # by number


class SavedResponse(Struct, frozen=True, gc=False):
    """The result of saving one job. A struct, because bulk responses have thousands and dictionaries cost more."""

    id: str
    namespace: str
    name: str
    version: int
    result: str
    state: str
    next_run_at: str | None
    diff: dict[str, Any] | UnsetType = UNSET
    warnings: list[dict[str, str]] | UnsetType = UNSET


def to_saved_response(saved: SavedJob) -> SavedResponse:
    """Convert the result of saving one job."""
    next_us = saved.next_us if saved.state is JobState.ACTIVE else None
    return SavedResponse(
        id_text(saved.job_id),
        saved.namespace,
        saved.name,
        saved.version,
        "created" if saved.created else "changed" if saved.changed else "unchanged",
        _STATES[saved.state],
        None if next_us is None else format_instant(next_us),
        UNSET if saved.diff is None else write_diff(saved.diff),
        write_warnings(saved.warnings) or UNSET,
    )


def write_saved(saved: SavedJob) -> dict[str, Any]:
    """Write the result of saving one job as a dictionary."""
    answer: dict[str, Any] = to_builtins(to_saved_response(saved))
    return answer


def save_facts(saved: SavedJob) -> dict[str, Any]:
    """Return the ``diff`` of upcoming runs, if a new schedule changes them, and the ``warnings``, if it has any."""
    facts: dict[str, Any] = {} if saved.diff is None else {"diff": write_diff(saved.diff)}
    return facts | ({"warnings": write_warnings(saved.warnings)} if saved.warnings else {})


def write_warnings(warnings: Iterable[Surprise]) -> list[dict[str, str]]:
    """Write what may surprise in a schedule."""
    return [{"kind": warning.kind.value, "message": warning.message} for warning in warnings]


def write_refused(error: ChronosError, *, code: str, status: int, name: str | None, limit: int) -> dict[str, Any]:
    """Write a job of a bulk request that could not be saved.

    At most ``limit`` problems are listed; the message has the first one.
    """
    answer: dict[str, Any] = {"name": name, "result": "failed", "code": code, "status": status, "message": str(error)}
    if isinstance(error, InvalidJob):
        answer["errors"] = [{"pointer": one.pointer, "message": one.message} for one in error.problems[:limit]]
        if error.more or len(error.problems) > limit:
            brief = InvalidJob(error.problems[:1], name=error.name, more=error.more + len(error.problems) - 1)
            answer["message"] = str(brief)
            unlisted = error.more + max(0, len(error.problems) - limit)
            if limit and unlisted:
                answer["errors"].append({"pointer": "", "message": f"and {unlisted:,} more"})
    return answer


async def write_plan(plan: SavePreview, slicer: TimeSlicer, *, dry_run: bool) -> dict[str, Any]:
    """Write the changes of an apply, in time slices, because there can be thousands of jobs."""

    def saved(one: SavedJob) -> Raw:
        return Raw(encode(to_saved_response(one)))

    return {
        "dry_run": dry_run,
        "created": await slicer.map(plan.created, saved),
        "changed": await slicer.map(plan.changed, saved),
        "unchanged": await slicer.map(plan.unchanged, saved),
        "pruned": await slicer.map(plan.pruned, lambda job: Raw(write_json(write_job(job)))),
    }


def write_diff(diff: ScheduleDiff) -> dict[str, Any]:
    """Write the changes of the upcoming runs. ``cancelled`` repeats ``canceled`` for older clients."""
    canceled = _write_coming_runs(diff.cancelled)
    return {
        "added": _write_coming_runs(diff.added),
        "canceled": canceled,
        "cancelled": canceled,
        "kept": _write_coming_runs(diff.kept),
        "until": rfc3339(diff.until_us),
        "whole": diff.whole,
    }


def write_version_diff(diff: VersionDiff) -> dict[str, Any]:
    """Write the difference between two versions."""
    return {
        "from": diff.old,
        "to": diff.new,
        "fields": [{"pointer": one.pointer, "old": one.old, "new": one.new} for one in diff.fields],
        "runs": write_diff(diff.runs),
    }


def _write_coming_runs(runs: ComingRuns) -> dict[str, Any]:
    return {"first": [rfc3339(us) for us in runs.first_us], "count": runs.count}
