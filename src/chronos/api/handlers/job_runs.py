"""Asking something of a job: run it, run what it missed, say when it runs and why it did or did not."""

from aiohttp import web

from chronos.api.auth.permissions import Permission
from chronos.api.handlers.executions import (
    EXECUTIONS_RESPONSE,
    STATUS,
    accepted_response,
    filter_of,
    list_page,
    write_step,
)
from chronos.api.openapi import examples
from chronos.api.request import RequestContext
from chronos.api.responses import json_response
from chronos.api.routing import CURSOR, LIMIT, Body, Param, ResponseDoc, RouteTable, ref
from chronos.core.calendar import rfc3339
from chronos.core.planner import MAX_PREVIEW
from chronos.service.run_requests import to_stored_payload
from chronos.service.serializers import id_text

route = RouteTable("Executions")
_REASON = {"type": ["string", "null"], "maxLength": 1000, "description": "why, for those who look later"}
_INSTANT = {"type": "string", "format": "date-time"}
_WOULD = ResponseDoc("of a dry run: what would be asked for", ref("Anything"), {"dry_run": True})


@route.post(
    "/jobs/{ref}/trigger",
    permission=Permission.OPERATE,
    summary="Run a job now",
    body=Body.of_fields(
        {
            "payload": {"description": "instead of the job's own"},
            "at": {
                "type": ["string", "null"],
                "format": "date-time",
                "description": "the past instant that the run stands for",
            },
            "reason": _REASON,
        },
        example={"payload": {"day": "2027-01-01"}, "reason": "asked for by accounting"},
    ),
    returns={202: ResponseDoc("it will run", ref("Asked"), examples.ASKED), 200: _WOULD},
    idempotent_by_key=True,
    submits=True,
)
async def trigger(call: RequestContext) -> web.StreamResponse:
    """Run a job now, paused or not. The same Idempotency-Key answers the same execution."""
    body = await call.form()
    payload = body.payload()
    at_us = body.instant_us("at")
    if at_us is not None and at_us > call.parts.clock.now_us():
        message = "is still to come, and a trigger runs now; save a job with that schedule instead"
        body.fault("at", message)
    reason = body.text("reason", longest=4_000)
    body.done()
    if call.dry_run:
        to_stored_payload(payload)
        return json_response({"dry_run": True, "job_id": id_text(call.job.id)})
    asked = await call.parts.service.runs.trigger(
        id_text(call.job.id),
        payload,
        at_us=at_us,
        reason=reason,
        idempotency=call.key_for("trigger", call.job.id),
        actor=call.actor,
    )
    return accepted_response(call, asked)


@route.post(
    "/jobs/{ref}/backfill",
    permission=Permission.OPERATE,
    summary="Run the instants of a past range",
    body=Body.of_fields(
        {"from": _INSTANT, "to": _INSTANT, "reason": _REASON},
        required=("from", "to"),
        example={"from": "2027-01-01T00:00:00Z", "to": "2027-01-07T00:00:00Z"},
    ),
    returns={
        202: ResponseDoc(
            "they will run; `next_from` says where to go on when there were too many for one request",
            ref("Backfilled"),
            examples.BACKFILLED,
        ),
        200: _WOULD,
    },
    idempotent_by_key=True,
    submits=True,
)
async def backfill(call: RequestContext) -> web.StreamResponse:
    """Run the instants of a past range, both ends included."""
    body = await call.form()
    from_us, to_us = body.instant_us("from", needed=True), body.instant_us("to", needed=True)
    if from_us is not None and to_us is not None and from_us > to_us:
        body.fault("to", "is before from; a backfill goes from a past instant to a later one")
    elif to_us is not None and to_us > call.parts.clock.now_us():
        body.fault("to", "is still to come; a backfill ends at an instant that has passed")
    reason = body.text("reason", longest=4_000)
    body.done()
    assert from_us is not None
    assert to_us is not None
    backfills = call.parts.service.backfills
    if call.dry_run:
        would, next_us = backfills.would_run(call.job, from_us, to_us)
        return json_response(
            {"dry_run": True, "count": would, "next_from": None if next_us is None else rfc3339(next_us)}
        )
    asked = await backfills.run(
        call.job,
        from_us,
        to_us,
        reason=reason,
        idempotency=call.key_for("backfill", call.job.id),
        actor=call.actor,
        within_us=round(call.parts.options.request_timeout_s * 1e6 / 3),
    )
    return json_response(
        {
            "execution_ids": [id_text(one) for one in asked.ids],
            "count": len(asked.ids),
            "next_from": None if asked.next_us is None else rfc3339(asked.next_us),
        },
        status=202,
    )


@route.get(
    "/jobs/{ref}/next",
    permission=Permission.LOOK,
    tag="Jobs",
    summary="When a job runs next",
    query=(
        Param(
            name="count",
            about="how many instants",
            schema={"type": "integer", "minimum": 1, "maximum": MAX_PREVIEW, "default": 10},
        ),
    ),
    returns={
        200: ResponseDoc(
            "instants; none while it is not active",
            {
                "type": "object",
                "required": ["items"],
                "properties": {"items": {"type": "array", "items": _INSTANT}},
            },
            {"items": ["2027-01-01T08:00:00Z", "2027-01-04T08:00:00Z"]},
        )
    },
)
async def next_runs(call: RequestContext) -> web.StreamResponse:
    """When a job runs next."""
    count = call.whole("count", 10, low=1, high=MAX_PREVIEW)
    runs_us = await call.parts.service.jobs.next_runs(id_text(call.job.id), count)
    return json_response({"items": [rfc3339(us) for us in runs_us]})


@route.get(
    "/jobs/{ref}/executions",
    permission=Permission.LOOK,
    summary="List the executions of a job, newest first",
    query=(LIMIT, CURSOR, STATUS),
    returns=EXECUTIONS_RESPONSE,
)
async def executions(call: RequestContext) -> web.StreamResponse:
    """The executions of a job, newest first."""
    return await list_page(call, filter_of(call, call.job.id), check=False)


@route.get(
    "/jobs/{ref}/why",
    permission=Permission.LOOK,
    tag="Jobs",
    summary="Why a job ran, or did not",
    query=(Param(name="at", about="the instant; the last ones and the next without it", schema=_INSTANT),),
    returns={200: ResponseDoc("what was decided, in order", ref("Why"), examples.WHY)},
)
async def why(call: RequestContext) -> web.StreamResponse:
    """Why a job ran or did not run at an instant; without one, its last instants and the next."""
    steps = await call.parts.service.why.why(id_text(call.job.id), call.instant_us("at"))
    return json_response({"steps": [write_step(step) for step in steps]})
