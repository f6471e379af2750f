"""Switching a job: enable and disable, pause and resume."""

from aiohttp import web

from chronos.api import examples
from chronos.api.access import Permission
from chronos.api.answers import expected, job_answer, raced
from chronos.api.call import Call
from chronos.api.routes import DRY_RUN, NAMESPACE, V1, Answer, Body, Handler, Route, Scope, ref
from chronos.errors import Conflict
from chronos.service.switching import StateChange


async def enable(call: Call) -> web.StreamResponse:
    """Switch a job on, from now."""
    return await _change(call, StateChange.ENABLE)


async def disable(call: Call) -> web.StreamResponse:
    """Switch a job off: no instants at all."""
    return await _change(call, StateChange.DISABLE, takes_reason=True)


async def pause(call: Call) -> web.StreamResponse:
    """Hold a job."""
    return await _change(call, StateChange.PAUSE, takes_reason=True)


async def resume(call: Call) -> web.StreamResponse:
    """Let it go on."""
    return await _change(call, StateChange.RESUME)


async def _change(call: Call, change: StateChange, *, takes_reason: bool = False) -> web.StreamResponse:
    body = await call.form()
    reason = (body.text("reason", longest=4_000) or "") if takes_reason else ""
    body.done()
    known, states = await expected(call, call.job), call.parts.service.job_states
    try:
        job = await states.change(call.job, change, reason=reason, actor=call.actor, dry_run=call.dry_run)
    except Conflict as error:
        raise await raced(call, known, error) from None
    return await job_answer(call, job)


def _route(verb: str, handler: Handler, summary: str, *, takes_reason: bool) -> Route:
    properties = {"reason": {"type": ["string", "null"], "maxLength": 1000}} if takes_reason else {}
    return Route(
        method="POST",
        path=f"{V1}/jobs/{{ref}}/{verb}",
        handler=handler,
        permission=Permission.OPERATE,
        scope=Scope.JOB,
        tag="Jobs",
        summary=summary,
        query=(NAMESPACE, DRY_RUN),
        body=Body(
            schema={"type": "object", "additionalProperties": False, "properties": properties},
            example={"reason": "the target is being moved"} if takes_reason else {},
            required=False,
        ),
        answers={200: Answer(about="the job as it is now", schema=ref("Job"), example=examples.JOB)},
        matches=True,
    )


ROUTES = (
    _route("enable", enable, "Switch a job on, from now", takes_reason=False),
    _route("disable", disable, "Switch a job off: it has no instants until it is enabled", takes_reason=True),
    _route("pause", pause, "Hold a job: its instants pass and are recorded as skipped", takes_reason=True),
    _route("resume", resume, "Let a paused job go on", takes_reason=False),
)
