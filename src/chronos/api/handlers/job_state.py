"""Changes of a job's state: enable, disable, pause, resume."""

from aiohttp import web

from chronos.api.auth.permissions import Permission
from chronos.api.openapi import examples
from chronos.api.request import RequestContext
from chronos.api.responses import job_response, read_expected_version, to_stale_if_changed
from chronos.api.routing import Body, ResponseDoc, RouteTable, ref
from chronos.errors import Conflict
from chronos.service.job_state import StateChange

route = RouteTable("Jobs")
_NO_FIELDS = Body.of_fields({}, example={})
_WITH_REASON = Body.of_fields(
    {"reason": {"type": ["string", "null"], "maxLength": 1000}}, example={"reason": "the target is being moved"}
)
_CHANGED = {200: ResponseDoc("the job after the change", ref("Job"), examples.JOB)}


@route.post(
    "/jobs/{ref}/enable",
    permission=Permission.OPERATE,
    summary="Enable a job",
    body=_NO_FIELDS,
    returns=_CHANGED,
    honours_if_match=True,
)
async def enable(context: RequestContext) -> web.StreamResponse:
    """Enable a job. Its schedule counts from now."""
    return await _change(context, StateChange.ENABLE)


@route.post(
    "/jobs/{ref}/disable",
    permission=Permission.OPERATE,
    summary="Disable a job",
    body=_WITH_REASON,
    returns=_CHANGED,
    honours_if_match=True,
)
async def disable(context: RequestContext) -> web.StreamResponse:
    """Disable a job. It has no scheduled times until it is enabled."""
    return await _change(context, StateChange.DISABLE, takes_reason=True)


@route.post(
    "/jobs/{ref}/pause",
    permission=Permission.OPERATE,
    summary="Pause a job",
    body=_WITH_REASON,
    returns=_CHANGED,
    honours_if_match=True,
)
async def pause(context: RequestContext) -> web.StreamResponse:
    """Pause a job. Its scheduled times pass and are recorded as skipped."""
    return await _change(context, StateChange.PAUSE, takes_reason=True)


@route.post(
    "/jobs/{ref}/resume",
    permission=Permission.OPERATE,
    summary="Resume a paused job",
    body=_NO_FIELDS,
    returns=_CHANGED,
    honours_if_match=True,
)
async def resume(context: RequestContext) -> web.StreamResponse:
    """Resume a paused job."""
    return await _change(context, StateChange.RESUME)


async def _change(context: RequestContext, change: StateChange, *, takes_reason: bool = False) -> web.StreamResponse:
    body = await context.read_object()
    reason = (body.text("reason", max_bytes=4_000) or "") if takes_reason else ""
    body.raise_problems()
    known, states = await read_expected_version(context, context.job), context.api.service.job_states
    try:
        job = await states.change(context.job, change, reason=reason, actor=context.actor, dry_run=context.dry_run)
    except Conflict as error:
        raise await to_stale_if_changed(context, known, error) from None
    return await job_response(context, job)
