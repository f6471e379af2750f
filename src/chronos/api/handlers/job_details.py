"""Job details: the parameters that select and sort jobs by what is derived of them, and the fields they add."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from chronos.api.errors import Malformed
from chronos.api.handlers.job_selection import JobSelection
from chronos.api.openapi import examples
from chronos.api.request import RequestContext
from chronos.api.routing import Param, ResponseDoc, ref
from chronos.core.job import Job, JobStatus
from chronos.service.views.json_shapes import write_job_detail, write_recent
from chronos.store.contract import JobFilter
from chronos.store.overview import JobSort

RECENT = "recent"
_MAX_RECENT = 60
_CURSOR_OR_NULL = {"type": ["string", "null"]}

SORT = Param(
    name="sort",
    description=(
        "the order: by `name`, by `next_run_at` (soonest first, only jobs that have a next run), or by `last_run_at` "
        "(newest first, only jobs that have run)"
    ),
    schema={"type": "string", "enum": [sort.value for sort in JobSort], "default": JobSort.NAME.value},
)
DERIVED_SELECTION = (
    Param(
        name="status",
        description="only jobs with this status now",
        schema={"type": "string", "enum": [status.value for status in JobStatus]},
    ),
    Param(name="zone", description="only jobs whose schedule has this time zone"),
    Param(name="queue", description="only jobs of this queue"),
    Param(name="target", description="only jobs that have a task with this kind of target"),
    Param(
        name="next_before",
        description="only jobs whose next run is before this time",
        schema={"type": "string", "format": "date-time"},
    ),
)
DETAIL = Param(
    name="detail",
    description="add the status, the schedule in words, and since when the job fails",
    schema={"type": "boolean", "default": False},
)
INCLUDE = Param(
    name="include",
    description="`recent` adds the last 60 runs, each as `[status, duration_ms, retried]`, and `p50_ms` and `p95_ms`",
    schema={"type": "string", "enum": [RECENT]},
)
JOB_PAGE = ResponseDoc(
    "a page",
    {
        "type": "object",
        "required": ["items", "next_cursor", "previous_cursor", "complete"],
        "properties": {
            "items": {"type": "array", "items": ref("Job")},
            "next_cursor": _CURSOR_OR_NULL | {"description": "the `cursor` of the next page; null on the last page"},
            "previous_cursor": _CURSOR_OR_NULL | {"description": "the `cursor` of the page before; null on the first"},
            "complete": {
                "type": "boolean",
                "description": "false if the page is short because the search was long; `next_cursor` continues it",
            },
        },
    },
    {"items": [examples.JOB], "next_cursor": None, "previous_cursor": None, "complete": True},
)


def read_sort(context: RequestContext) -> JobSort:
    """Read the order of a list of jobs."""
    text = context.text("sort") or JobSort.NAME.value
    try:
        return JobSort(text)
    except ValueError:
        raise Malformed(f'invalid sort "{text[:64]}"; use one of {", ".join(JobSort)}') from None


def read_derived_selection(context: RequestContext, selection: JobSelection) -> JobFilter:
    """Read the rest of the filter of a list of jobs."""
    text = context.text("status")
    if text is not None and text not in JobStatus.__members__.values():
        raise Malformed(f'invalid status "{text[:64]}"; use one of {", ".join(JobStatus)}')
    return replace(
        selection.where,
        more_tags=selection.more_tags,
        status=None if text is None else JobStatus(text),
        now_us=context.api.clock.now_us(),
        zone=context.text("zone"),
        queue=context.text("queue"),
        target=context.text("target"),
        next_before_us=context.instant_us("next_before"),
    )


async def read_job_details(context: RequestContext, jobs: Sequence[Job]) -> dict[bytes, dict[str, Any]]:
    """Return the fields that `detail` and `include` add, by job."""
    included, detail = context.text("include"), context.boolean("detail")
    if included not in (None, RECENT):
        raise Malformed(f'invalid include "{included[:64]}"; use {RECENT}')
    if included is None and not detail:
        return {}
    rows = await context.api.service.views.jobs.rows_of(jobs, recent=_MAX_RECENT if included else 0)
    return {
        row.job.id: (write_job_detail(row) if detail else {}) | (write_recent(row) if included else {}) for row in rows
    }
