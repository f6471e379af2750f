"""Switching a job: enable and disable, pause and resume."""

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
_CHANGED = {200: ResponseDoc("the job as it is now", ref("Job"), examples.JOB)}


@route.post(
    "/jobs/{ref}/enable",
    permission=Permission.OPERATE,
    summary="Switch a job on, from now",
    body=_NO_FIELDS,
    returns=_CHANGED,
    matches=True,
)
async def enable(call: RequestContext) -> web.StreamResponse:
    """Switch a job on, from now."""
    return await _change(call, StateChange.ENABLE)


@route.post(
    "/jobs/{ref}/disable",
    permission=Permission.OPERATE,
    summary="Switch a job off: it has no instants until it is enabled",
    body=_WITH_REASON,
    returns=_CHANGED,
    matches=True,
)
async def disable(call: RequestContext) -> web.StreamResponse:
    """Switch a job off: no instants at all."""
    return await _change(call, StateChange.DISABLE, takes_reason=True)


@route.post(
    "/jobs/{ref}/pause",
    permission=Permission.OPERATE,
    summary="Hold a job: its instants pass and are recorded as skipped",
    body=_WITH_REASON,
    returns=_CHANGED,
    matches=True,
)
async def pause(call: RequestContext) -> web.StreamResponse:
    """Hold a job."""
    return await _change(call, StateChange.PAUSE, takes_reason=True)


@route.post(
    "/jobs/{ref}/resume",
    permission=Permission.OPERATE,
    summary="Let a paused job go on",
    body=_NO_FIELDS,
    returns=_CHANGED,
    matches=True,
)
async def resume(call: RequestContext) -> web.StreamResponse:
    """Let it go on."""
    return await _change(call, StateChange.RESUME)


async def _change(call: RequestContext, change: StateChange, *, takes_reason: bool = False) -> web.StreamResponse:
    body = await call.form()
    reason = (body.text("reason", longest=4_000) or "") if takes_reason else ""
    body.done()
    known, states = await read_expected_version(call, call.job), call.parts.service.job_states
    try:
        job = await states.change(call.job, change, reason=reason, actor=call.actor, dry_run=call.dry_run)
    except Conflict as error:
        raise await to_stale_if_changed(call, known, error) from None
    return await job_response(call, job)
