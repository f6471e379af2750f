"""Aliases of routes under the paths and names of the job schedulers' guide: ``/api/jobs``, ``job_id``, …

Each alias calls one of the API's own handlers and adds the guide's names to its response.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import msgspec
from aiohttp import web

from chronos.api.handlers import job_runs, job_state, jobs
from chronos.api.request import RequestContext
from chronos.api.routing import V1, Handler, ResponseDoc, Route, ref

Translate = Callable[[dict[str, Any]], dict[str, Any]]
_BASE = "/api"
_STATUS_NAMES = {"succeeded": "SUCCESS"}


def with_job_names(job: dict[str, Any]) -> dict[str, Any]:
    """Add the guide's names to a job."""
    translated = job | {
        "job_id": job.get("id"),
        "status": str(job.get("state", "")).upper(),
        "next_run_time": job.get("next_run_at"),
    }
    if last := job.get("last_execution"):
        translated["last_execution"] = with_execution_names(last)
    return translated


def with_execution_names(execution: dict[str, Any]) -> dict[str, Any]:
    """Add the guide's names to an execution."""
    status = str(execution.get("status", ""))
    return execution | {
        "execution_id": execution.get("id", execution.get("execution_id")),
        "status": _STATUS_NAMES.get(status, status.upper()),
        "completed_at": execution.get("finished_at"),
    }


def _page_of_jobs(page: dict[str, Any]) -> dict[str, Any]:
    return page | {"items": [with_job_names(job) for job in page["items"]]}


def _page_of_executions(page: dict[str, Any]) -> dict[str, Any]:
    return page | {"items": [with_execution_names(one) for one in page["items"]]}


def _with_trigger_names(answer: dict[str, Any]) -> dict[str, Any]:
    return answer if answer.get("dry_run") else answer | {"status": str(answer["status"]).upper()}


def _translated(handler: Handler, translate: Translate) -> Handler:
    async def translated(context: RequestContext) -> web.StreamResponse:
        response = await handler(context)
        if isinstance(response, web.Response) and isinstance(response.body, bytes):
            response.body = msgspec.json.encode(translate(msgspec.json.decode(response.body)))
        return response

    translated.__doc__ = handler.__doc__
    return translated


def _to_alias(route: Route, translate: Translate) -> Route:
    returns = {
        status: ResponseDoc(f"{response.description}; with the guide's names", ref("Anything"))
        for status, response in route.returns.items()
    }
    return replace(
        route,
        path=_BASE + route.path.removeprefix(V1),
        handler=_translated(route.handler, translate),
        tag="The guide's paths",
        returns=returns,
    )


_TRANSLATED: tuple[tuple[Handler, Translate], ...] = (
    (jobs.create, with_job_names),
    (jobs.list_jobs, _page_of_jobs),
    (jobs.get, with_job_names),
    (jobs.put, with_job_names),
    (jobs.delete, with_job_names),
    (job_state.pause, with_job_names),
    (job_state.resume, with_job_names),
    (job_runs.trigger, _with_trigger_names),
    (job_runs.executions, _page_of_executions),
)
_ROUTES = jobs.route.by_handler | job_state.route.by_handler | job_runs.route.by_handler

ROUTES = tuple(_to_alias(_ROUTES[handler], translate) for handler, translate in _TRANSLATED)
