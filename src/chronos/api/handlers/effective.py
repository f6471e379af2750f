"""Effective settings: every setting of a job or execution, with the level it came from."""

from aiohttp import web

from chronos.api.auth.permissions import Permission
from chronos.api.openapi import examples
from chronos.api.request import RequestContext
from chronos.api.responses import json_response
from chronos.api.routing import ResponseDoc, RouteTable, ref

route = RouteTable("Settings")


@route.get(
    "/jobs/{ref}/effective",
    permission=Permission.VIEW,
    summary="Show the settings of a job and where each comes from",
    returns={200: ResponseDoc("each setting with its value and level", ref("EffectiveSettings"), examples.EFFECTIVE)},
)
async def job_effective(context: RequestContext) -> web.StreamResponse:
    """Show every setting that the next execution of a job gets, with its value and the level it came from.

    The levels are default, server, namespace, job and task. ``versions`` has the numbers of their versions.
    """
    return json_response(await context.api.service.effective.of_job(context.job))


@route.get(
    "/executions/{id}/effective",
    permission=Permission.VIEW,
    summary="Show the settings of an execution and where each came from",
    returns={200: ResponseDoc("each setting with its value and level", ref("EffectiveSettings"), examples.EFFECTIVE)},
)
async def execution_effective(context: RequestContext) -> web.StreamResponse:
    """Show every setting that an execution was admitted under, whatever has changed since."""
    return json_response(await context.api.service.effective.of_execution(context.view.execution))
