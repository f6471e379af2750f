"""Runs of a job: trigger, backfill, next runs, executions, explanation."""

from aiohttp import web

from chronos.api.auth.permissions import Permission
from chronos.api.handlers.executions import (
    DETAIL,
    EXECUTIONS_RESPONSE,
    RUN_FILTERS,
    TIMEZONE,
    accepted_response,
    list_response,
    read_filter,
    read_timezone,
    why_response,
)
from chronos.api.openapi import examples
from chronos.api.request import BodyReader, RequestContext
from chronos.api.responses import json_response
from chronos.api.routing import CURSOR, LIMIT, Body, Param, ResponseDoc, RouteTable, ref
from chronos.core.calendar import rfc3339
from chronos.core.job import JobState
from chronos.core.planner import MAX_PREVIEW
from chronos.service.enqueue import MAX_ENQUEUED
from chronos.service.run_requests import PlainPayload, to_stored_payload
from chronos.service.serializers import id_text
from chronos.service.start_times import choose_start_times
from chronos.service.views.json_shapes import write_upcoming

route = RouteTable("Executions")
REASON = {"type": ["string", "null"], "maxLength": 1000, "description": "recorded with the run"}
_INSTANT = {"type": "string", "format": "date-time"}
START_TIMES = {
    "at": {
        "type": ["string", "null"],
        "format": "date-time",
        "description": "the time that the run stands for; if it is in the future, the run waits until then",
    },
    "delay": {"type": ["string", "null"], "description": "how long the run waits, such as `10m`; instead of `at`"},
    "expires": {
        "type": ["string", "null"],
        "description": "a time, or a duration from now on, such as `1h`; a run that has not started by then is skipped",
    },
}
_MAX_TIME_BYTES = 100
_DRY_RUN_RESPONSE = ResponseDoc("the result of a dry run", ref("Anything"), {"dry_run": True})


@route.post(
    "/jobs/{ref}/trigger",
    permission=Permission.OPERATE,
    summary="Trigger a job: run it once, now or later",
    body=Body.of_fields(
        {
            "payload": {"description": "replaces the payload of the job"},
            **START_TIMES,
            "reason": REASON,
        },
        example={"payload": {"day": "2027-01-01"}, "reason": "asked for by accounting"},
    ),
    returns={202: ResponseDoc("the new execution", ref("Asked"), examples.ASKED), 200: _DRY_RUN_RESPONSE},
    idempotent_by_key=True,
    is_rate_limited=True,
)
async def trigger(context: RequestContext) -> web.StreamResponse:
    """Run a job once, even if it is paused. The same Idempotency-Key returns the same execution."""
    body = await context.read_object()
    payload = body.payload()
    at_us, delay, expires = read_start_times(body)
    reason = body.text("reason", max_bytes=4_000)
    body.raise_problems()
    if context.dry_run:
        to_stored_payload(payload)
        choose_start_times(context.api.clock.now_us(), at_us=at_us, delay=delay, expires=expires)
        return json_response({"dry_run": True, "job_id": id_text(context.job.id)})
    execution_request = await context.api.service.runs.trigger(
        id_text(context.job.id),
        payload,
        at_us=at_us,
        delay=delay,
        expires=expires,
        reason=reason,
        idempotency=context.key_for("trigger", context.job.id),
        actor=context.actor,
    )
    return accepted_response(context, execution_request)


@route.post(
    "/jobs/{ref}/enqueue",
    permission=Permission.OPERATE,
    summary="Enqueue many runs of a job, one per payload",
    body=Body.of_fields(
        {
            "payloads": {
                "type": "array",
                "items": {"description": "the payload of a run"},
                "maxItems": MAX_ENQUEUED,
            },
            **START_TIMES,
        },
        required=("payloads",),
        example={"payloads": [{"to": "ana"}, {"to": "ben"}], "delay": "10m"},
    ),
    returns={
        202: ResponseDoc("the new executions, in the order of the payloads", ref("Enqueued"), examples.ENQUEUED),
        200: _DRY_RUN_RESPONSE,
    },
    idempotent_by_key=True,
    is_rate_limited=True,
)
async def enqueue(context: RequestContext) -> web.StreamResponse:
    """Create one run per payload, even if the job is paused. Up to 500 runs are created together or not at all."""
    body = await context.read_object()
    if not body.present("payloads"):
        body.fault("payloads", "is required")
    _, payloads = body.items("payloads", max_items=MAX_ENQUEUED)
    at_us, delay, expires = read_start_times(body)
    body.raise_problems()
    enqueues = context.api.service.enqueues
    plain = [PlainPayload(payload) for payload in payloads]
    if context.dry_run:
        await enqueues.prepare(context.job, plain, at_us=at_us, delay=delay, expires=expires)
        return json_response({"dry_run": True, "job_id": id_text(context.job.id), "count": len(plain)})
    created = await enqueues.run(
        context.job,
        plain,
        at_us=at_us,
        delay=delay,
        expires=expires,
        idempotency=context.key_for("enqueue", context.job.id),
        actor=context.actor,
    )
    return json_response({"execution_ids": [id_text(run.id) for run in created], "count": len(created)}, status=202)


def read_start_times(body: BodyReader) -> tuple[int | None, str | None, str | None]:
    """Read when a run may start: at, delay, expires."""
    return (
        body.instant_us("at"),
        body.text("delay", max_bytes=_MAX_TIME_BYTES),
        body.text("expires", max_bytes=_MAX_TIME_BYTES),
    )


@route.post(
    "/jobs/{ref}/backfill",
    permission=Permission.OPERATE,
    summary="Backfill a job: run the scheduled times of a past range",
    body=Body.of_fields(
        {"from": _INSTANT, "to": _INSTANT, "reason": REASON},
        required=("from", "to"),
        example={"from": "2027-01-01T00:00:00Z", "to": "2027-01-07T00:00:00Z"},
    ),
    returns={
        202: ResponseDoc(
            "the new executions; if not all fit into one request, continue from `next_from`",
            ref("Backfilled"),
            examples.BACKFILLED,
        ),
        200: _DRY_RUN_RESPONSE,
    },
    idempotent_by_key=True,
    is_rate_limited=True,
)
async def backfill(context: RequestContext) -> web.StreamResponse:
    """Run the scheduled times of a past range, both ends included, oldest first."""
    body = await context.read_object()
    from_us, to_us = body.instant_us("from", required=True), body.instant_us("to", required=True)
    if from_us is not None and to_us is not None and from_us > to_us:
        body.fault("to", "is before from; a backfill goes from an earlier time to a later one")
    elif to_us is not None and to_us > context.api.clock.now_us():
        body.fault("to", "is in the future; a backfill ends in the past")
    reason = body.text("reason", max_bytes=4_000)
    body.raise_problems()
    assert from_us is not None
    assert to_us is not None
    backfills = context.api.service.backfills
    if context.dry_run:
        planned, next_us = backfills.would_run(context.job, from_us, to_us)
        return json_response(
            {"dry_run": True, "count": planned, "next_from": None if next_us is None else rfc3339(next_us)}
        )
    execution_request = await backfills.run(
        context.job,
        from_us,
        to_us,
        reason=reason,
        idempotency=context.key_for("backfill", context.job.id),
        actor=context.actor,
        within_us=round(context.api.options.request_timeout_s * 1e6 / 3),
    )
    return json_response(
        {
            "execution_ids": [id_text(one) for one in execution_request.ids],
            "count": len(execution_request.ids),
            "next_from": None if execution_request.next_us is None else rfc3339(execution_request.next_us),
        },
        status=202,
    )


@route.get(
    "/jobs/{ref}/next",
    permission=Permission.VIEW,
    tag="Jobs",
    summary="List the next scheduled times of a job",
    query=(
        Param(
            name="count",
            description="the number of scheduled times",
            schema={"type": "integer", "minimum": 1, "maximum": MAX_PREVIEW, "default": 10},
        ),
        DETAIL,
    ),
    returns={
        200: ResponseDoc(
            "the scheduled times; of a paused job those that resuming it would run, marked as `held`; with `detail`, "
            "objects with the clock of the schedule's zone, and the effects of clock changes within a year",
            {
                "type": "object",
                "required": ["items"],
                "properties": {
                    "items": {"type": "array", "items": {"anyOf": [_INSTANT, ref("UpcomingRun")]}},
                    "held": {"type": "boolean", "description": "true while the job is paused"},
                },
            },
            {"items": ["2027-01-01T08:00:00Z", "2027-01-04T08:00:00Z"]},
        )
    },
)
async def next_runs(context: RequestContext) -> web.StreamResponse:
    """List the next scheduled times of a job."""
    count = context.integer("count", 10, low=1, high=MAX_PREVIEW)
    if context.boolean("detail"):
        return json_response(write_upcoming(context.api.service.views.upcoming.of(context.job, count)))
    runs_us = await context.api.service.jobs.next_runs(id_text(context.job.id), count)
    held = {"held": True} if context.job.state is JobState.PAUSED else {}
    return json_response({"items": [rfc3339(us) for us in runs_us], **held})


@route.get(
    "/jobs/{ref}/executions",
    permission=Permission.VIEW,
    summary="List the executions of a job, newest first",
    query=(LIMIT, CURSOR, *RUN_FILTERS),
    returns=EXECUTIONS_RESPONSE,
)
async def executions(context: RequestContext) -> web.StreamResponse:
    """List the executions of a job, newest first."""
    return await list_response(context, await read_filter(context, context.job.id), check=False)


@route.get(
    "/jobs/{ref}/why",
    permission=Permission.VIEW,
    tag="Jobs",
    summary="Explain why a job ran or did not run",
    query=(
        Param(name="at", description="the time to explain; by default the last runs and the next", schema=_INSTANT),
        DETAIL,
        TIMEZONE,
    ),
    returns={200: ResponseDoc("the decisions, in order", ref("Why"), examples.WHY)},
)
async def why(context: RequestContext) -> web.StreamResponse:
    """Explain why a job ran or did not run at a time; by default, explain its last runs and the next one.

    Times in sentences are in the zone of the job.
    """
    detail = context.boolean("detail")
    steps = await context.api.service.why.why(
        id_text(context.job.id), context.instant_us("at"), detail=detail, zone=read_timezone(context)
    )
    return why_response(steps, detail=detail)
