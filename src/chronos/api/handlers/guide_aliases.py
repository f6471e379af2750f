"""Aliases of routes under the paths and names of the job schedulers' guide: ``/api/jobs``, ``job_id``, …

Each alias calls one of the API's own handlers, in whose names it puts the request, and adds the guide's names to the
response.
"""

from dataclasses import replace
from typing import Any

import msgspec
from aiohttp import web

from chronos.api.handlers import job_runs, job_state, jobs
from chronos.api.handlers.guide_names import (
    Json,
    Translate,
    page_of,
    to_own_names,
    to_status_name,
    with_execution_names,
    with_job_names,
)
from chronos.api.openapi.guide_schema import GUIDE_JOB_EXAMPLE
from chronos.api.request import RequestContext
from chronos.api.routing import V1, Body, Handler, ResponseDoc, Route, ref
from chronos.service.serializers import InvalidJob, write_job

_BASE = "/api"


def _with_trigger_names(answer: Json) -> Json:
    return answer if answer.get("dry_run") else answer | {"status": to_status_name(str(answer["status"]))}


def _translated(handler: Handler, translate: Translate) -> Handler:
    async def translated(context: RequestContext) -> web.StreamResponse:
        response = await _call_with_own_names(handler, context) if handler in _SAVES else await handler(context)
        if isinstance(response, web.Response) and isinstance(response.body, bytes):
            response.body = msgspec.json.encode(translate(msgspec.json.decode(response.body)))
        return response

    translated.__doc__ = handler.__doc__
    return translated


async def _call_with_own_names(handler: Handler, context: RequestContext) -> web.StreamResponse:
    """Call a handler that saves a job with the body in the job's own names."""
    sent = await context.json()
    existing = None if handler is jobs.create else await jobs.find_existing(context, context.path("ref"))
    body = to_own_names(sent, None if existing is None else write_job(existing))
    context.translated_body = body.data
    try:
        return await handler(context)
    except InvalidJob as error:
        raise body.rename_problems(error) from None


def _to_alias(route: Route, translate: Translate, schema: str) -> Route:
    returns: dict[int, ResponseDoc] = {
        status: ResponseDoc(f"{response.description}; with the guide's names", ref(schema))
        for status, response in route.returns.items()
    }
    body: Any = Body(ref("GuideJobInput"), GUIDE_JOB_EXAMPLE) if route.handler in _SAVES else route.body
    return replace(
        route,
        path=_BASE + route.path.removeprefix(V1),
        handler=_translated(route.handler, translate),
        tag="The guide's paths",
        returns=returns,
        body=body,
    )


_SAVES = (jobs.create, jobs.put)
_TRANSLATED: tuple[tuple[Handler, Translate, str], ...] = (
    (jobs.create, with_job_names, "GuideJob"),
    (jobs.list_jobs, page_of(with_job_names), "GuideJobs"),
    (jobs.get, with_job_names, "GuideJob"),
    (jobs.put, with_job_names, "GuideJob"),
    (jobs.delete, with_job_names, "GuideJob"),
    (job_state.pause, with_job_names, "GuideJob"),
    (job_state.resume, with_job_names, "GuideJob"),
    (job_runs.trigger, _with_trigger_names, "Anything"),
    (job_runs.executions, page_of(with_execution_names), "GuideExecutions"),
)
_ROUTES = jobs.route.by_handler | job_state.route.by_handler | job_runs.route.by_handler

ROUTES = tuple(_to_alias(_ROUTES[handler], translate, schema) for handler, translate, schema in _TRANSLATED)
