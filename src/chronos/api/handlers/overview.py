"""Overviews: counts, facets, days, run statistics, delays and log windows, as the web interface shows them."""

from aiohttp import web

from chronos.api.auth.permissions import Permission
from chronos.api.errors import Malformed
from chronos.api.handlers.event_streams import check_task
from chronos.api.openapi import view_examples as examples
from chronos.api.request import RequestContext, make_forbidden
from chronos.api.responses import json_response
from chronos.api.routing import Param, ResponseDoc, RouteTable, Scope, ref
from chronos.core.calendar import SECOND_US
from chronos.errors import InvalidSchedule
from chronos.service.serializers.object_reader import read_duration_us
from chronos.service.views.job_days import MAX_DAYS
from chronos.service.views.json_shapes import (
    write_counts,
    write_days,
    write_delays,
    write_facets,
    write_log_window,
    write_run_stats,
)
from chronos.service.views.log_windows import DEFAULT_LINES, MAX_LINES, MAX_SEARCH

route = RouteTable("Server")
ALL_NAMESPACES = "*"
_EVERY_NAMESPACE = Param(name="namespace", description='"default" if not given; `*` means all namespaces')
_INSTANT = {"type": "string", "format": "date-time"}
_DAY_US = 86_400 * SECOND_US
_MAX_BYTE = 1 << 30


@route.get(
    "/stats/jobs",
    permission=Permission.VIEW,
    scope=Scope.BODY,
    tag="Jobs",
    summary="Count jobs by status",
    query=(_EVERY_NAMESPACE,),
    returns={200: ResponseDoc("the counts; each stops at one more than `cap`", ref("JobCounts"), examples.JOB_COUNTS)},
)
async def job_counts(context: RequestContext) -> web.StreamResponse:
    """Count the jobs of a namespace by status: failing, late, running, retrying, paused, disabled and done."""
    namespace = read_namespace(context)
    return json_response(write_counts(await context.api.service.views.jobs.counts(namespace)))


@route.get(
    "/stats/facets",
    permission=Permission.VIEW,
    scope=Scope.BODY,
    tag="Jobs",
    summary="List the tags, owners, zones, targets and queues of jobs",
    query=(_EVERY_NAMESPACE,),
    returns={200: ResponseDoc("the most used of each, at most 50", ref("Facets"), examples.FACETS)},
)
async def facets(context: RequestContext) -> web.StreamResponse:
    """List what jobs have in common, with the number of jobs. The answer may be a minute old."""
    namespace = read_namespace(context)
    return json_response(write_facets(await context.api.service.views.facets.get(namespace)))


@route.get(
    "/stats/runs",
    permission=Permission.VIEW,
    scope=Scope.BODY,
    tag="Executions",
    summary="Count finished runs per stretch of time, by outcome",
    query=(
        _EVERY_NAMESPACE,
        Param(name="from", description="the start of the range; by default a day before its end", schema=_INSTANT),
        Param(name="to", description="the end of the range; by default now", schema=_INSTANT),
        Param(name="bucket", description="the width of a stretch, such as `15m` (the default) or `1d`"),
        Param(name="job", description="only runs of this job, an id or a name"),
    ),
    returns={
        200: ResponseDoc(
            "consecutive stretches, oldest first; `counts` is null where they are not counted yet: ask again",
            ref("RunStats"),
            examples.RUN_STATS,
        )
    },
)
async def run_stats(context: RequestContext) -> web.StreamResponse:
    """Count the runs that ended, by outcome. A skipped or missed span counts its scheduled times."""
    named = context.text("job")
    job = None if named is None else await context.find_job(named)
    if job is not None:
        context.require(job.namespace)
    namespace = None if job is not None else read_namespace(context)
    to_us = context.instant_us("to") or context.api.clock.now_us()
    from_us = context.instant_us("from")
    bucket_us = _read_duration_us(context.text("bucket") or "15m", "bucket")
    stats = await context.api.service.views.stats.runs(
        to_us - _DAY_US if from_us is None else from_us,
        to_us,
        bucket_us,
        job=None if job is None else job.id,
        namespace=namespace,
    )
    return json_response(write_run_stats(stats))


@route.get(
    "/stats/delays",
    permission=Permission.VIEW,
    scope=Scope.EVERYWHERE,
    summary="Show how late runs started and how long commits took, on this node",
    query=(
        Param(
            name="step",
            description="minutes per entry of `series`",
            schema={"type": "integer", "minimum": 1, "maximum": 60, "default": 5},
        ),
    ),
    returns={200: ResponseDoc("the last 5 minutes, and the last 6 hours", ref("Delays"), examples.DELAYS)},
)
async def delays(context: RequestContext) -> web.StreamResponse:
    """Return percentiles of the delay from due to started and of commits: of the last 5 minutes, and over 6 hours."""
    step = context.integer("step", 5, low=1, high=60)
    history = context.api.delays
    series = [write_delays(minutes) for minutes in history.series(step=step)]
    return json_response({"recent": write_delays(history.recent()), "series": series})


@route.get(
    "/jobs/{ref}/days",
    permission=Permission.VIEW,
    tag="Jobs",
    summary="Count the runs of a job per day",
    query=(
        Param(
            name="back",
            description="days up to today",
            schema={"type": "integer", "minimum": 1, "maximum": MAX_DAYS, "default": 280},
        ),
        Param(
            name="ahead",
            description="days after today, with planned runs",
            schema={"type": "integer", "minimum": 0, "maximum": MAX_DAYS, "default": 84},
        ),
    ),
    returns={200: ResponseDoc("days of the schedule's zone, oldest first", ref("Days"), examples.DAYS)},
)
async def days(context: RequestContext) -> web.StreamResponse:
    """Count the runs of a job per day, by outcome, for 400 days. Counts outlive the job's retention."""
    answer = await context.api.service.views.job_days.get(
        context.job,
        back=context.integer("back", 280, low=1, high=MAX_DAYS),
        ahead=context.integer("ahead", 84, low=0, high=MAX_DAYS),
    )
    return json_response(write_days(answer))


@route.get(
    "/executions/{id}/log/lines",
    permission=Permission.VIEW,
    tag="Executions",
    summary="Get a window of the log of an attempt, line by line",
    query=(
        Param(name="task", description="the task; by default the first that wrote output"),
        Param(
            name="attempt",
            description="the attempt, counted from 1; by default the last that wrote output",
            schema={"type": "integer", "minimum": 0, "maximum": 1_000_000},
        ),
        Param(
            name="from_byte",
            description="start with the line that has this byte",
            schema={"type": "integer", "minimum": 0, "maximum": _MAX_BYTE},
        ),
        Param(
            name="line",
            description="start a little before this line",
            schema={"type": "integer", "minimum": 1, "maximum": _MAX_BYTE},
        ),
        Param(
            name="tail",
            description="only the last lines, this many",
            schema={"type": "integer", "minimum": 1, "maximum": MAX_LINES},
        ),
        Param(
            name="max_lines",
            description="the maximum number of lines",
            schema={"type": "integer", "minimum": 1, "maximum": MAX_LINES, "default": DEFAULT_LINES},
        ),
        Param(
            name="search",
            description="mark and count the lines that contain this text, ignoring case",
            schema={"type": "string", "minLength": 1, "maxLength": MAX_SEARCH},
        ),
        Param(
            name="whole",
            description="do not cut lines at 4 KiB",
            schema={"type": "boolean", "default": False},
        ),
    ),
    returns={200: ResponseDoc("the lines, and the logs that the run has", ref("LogWindow"), examples.LOG_WINDOW)},
)
async def log_lines(context: RequestContext) -> web.StreamResponse:
    """Get a window of the log of one attempt, with line numbers, totals and search results."""
    execution, logs = context.view.execution.id, context.api.service.views.logs
    parts = await logs.parts(execution)
    task, attempt = context.text("task"), context.integer("attempt", 0, low=0, high=1_000_000)
    if task is not None:
        await check_task(context, task)
    elif parts:
        task = parts[0].task
    else:
        tasks = (await context.api.service.runs.get_json(execution))["tasks"]
        task = tasks[0]["name"] if tasks else ""
    attempt = attempt or max((part.attempt for part in parts if part.task == task), default=1)
    window = await logs.window(
        execution,
        task,
        attempt,
        from_byte=_read_optional(context, "from_byte", 0, _MAX_BYTE),
        line=_read_optional(context, "line", 1, _MAX_BYTE),
        tail=_read_optional(context, "tail", 1, MAX_LINES),
        max_lines=context.integer("max_lines", DEFAULT_LINES, low=1, high=MAX_LINES),
        search=context.text("search"),
        whole_lines=context.boolean("whole"),
    )
    return json_response(write_log_window(window, parts))


def read_namespace(context: RequestContext) -> str | None:
    """Return the requested namespace, which the caller may view; None for ``*``, all namespaces."""
    if context.text("namespace") == ALL_NAMESPACES:
        if not context.principal.may(Permission.VIEW):
            raise make_forbidden(context.principal, Permission.VIEW, everywhere=True)
        return None
    context.require(context.namespace)
    return context.namespace


def _read_optional(context: RequestContext, name: str, low: int, high: int) -> int | None:
    return None if context.text(name) is None else context.integer(name, 0, low=low, high=high)


def _read_duration_us(text: str, name: str) -> int:
    try:
        return read_duration_us(text)
    except (InvalidSchedule, ValueError):
        raise Malformed(f'parameter "{name}" is "{text[:64]}"; write a duration like 15m or 1d') from None
