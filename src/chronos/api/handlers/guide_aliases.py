"""The same jobs under the paths and names that the job schedulers' guide uses: ``/api/jobs``, ``job_id``, …

Each route is one of the API's own, whose answer gets the guide's names in addition.
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
_WORDS = {"succeeded": "SUCCESS"}


def with_job_names(job: dict[str, Any]) -> dict[str, Any]:
    """A job with the guide's names."""
    named = job | {
        "job_id": job.get("id"),
        "status": str(job.get("state", "")).upper(),
        "next_run_time": job.get("next_run_at"),
    }
    if last := job.get("last_execution"):
        named["last_execution"] = with_execution_names(last)
    return named


def with_execution_names(execution: dict[str, Any]) -> dict[str, Any]:
    """An execution with the guide's names."""
    status = str(execution.get("status", ""))
    return execution | {
        "execution_id": execution.get("id", execution.get("execution_id")),
        "status": _WORDS.get(status, status.upper()),
        "completed_at": execution.get("finished_at"),
    }


def _page_of_jobs(page: dict[str, Any]) -> dict[str, Any]:
    return page | {"items": [with_job_names(job) for job in page["items"]]}


def _page_of_executions(page: dict[str, Any]) -> dict[str, Any]:
    return page | {"items": [with_execution_names(one) for one in page["items"]]}


def _with_trigger_names(said: dict[str, Any]) -> dict[str, Any]:
    return said if said.get("dry_run") else said | {"status": str(said["status"]).upper()}


def _named(handler: Handler, translate: Translate) -> Handler:
    async def named(call: RequestContext) -> web.StreamResponse:
        response = await handler(call)
        if isinstance(response, web.Response) and isinstance(response.body, bytes):
            response.body = msgspec.json.encode(translate(msgspec.json.decode(response.body)))
        return response

    return named


def _alike(route: Route, translate: Translate) -> Route:
    returns = {
        status: ResponseDoc(f"{response.about}; with the guide's names", ref("Anything"))
        for status, response in route.returns.items()
    }
    return replace(
        route,
        path=_BASE + route.path.removeprefix(V1),
        handler=_named(route.handler, translate),
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
_OWN = jobs.route.by_handler | job_state.route.by_handler | job_runs.route.by_handler

ROUTES = tuple(_alike(_OWN[handler], translate) for handler, translate in _TRANSLATED)
