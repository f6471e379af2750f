"""The same jobs under the paths and names that the job schedulers' guide uses: ``/api/jobs``, ``job_id``, …

Each route is one of the API's own, whose answer gets the guide's names in addition.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import msgspec
from aiohttp import web

from chronos.api import asking, jobs, switches
from chronos.api.call import Call
from chronos.api.routes import V1, Answer, Handler, Route, ref

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


def _asked(said: dict[str, Any]) -> dict[str, Any]:
    return said if said.get("dry_run") else said | {"status": str(said["status"]).upper()}


def _named(handler: Handler, translate: Translate) -> Handler:
    async def named(call: Call) -> web.StreamResponse:
        response = await handler(call)
        if isinstance(response, web.Response) and isinstance(response.body, bytes):
            response.body = msgspec.json.encode(translate(msgspec.json.decode(response.body)))
        return response

    return named


def _alike(route: Route, translate: Translate) -> Route:
    answers = {
        status: Answer(about=f"{answer.about}; with the guide's names", schema=ref("Anything"))
        for status, answer in route.answers.items()
    }
    return replace(
        route,
        path=_BASE + route.path.removeprefix(V1),
        handler=_named(route.handler, translate),
        tag="The guide's paths",
        answers=answers,
    )


_TRANSLATED: tuple[tuple[Handler, Translate], ...] = (
    (jobs.create, with_job_names),
    (jobs.list_jobs, _page_of_jobs),
    (jobs.get, with_job_names),
    (jobs.put, with_job_names),
    (jobs.delete, with_job_names),
    (switches.pause, with_job_names),
    (switches.resume, with_job_names),
    (asking.trigger, _asked),
    (asking.executions, _page_of_executions),
)
_OWN = {route.handler: route for route in (*jobs.ROUTES, *switches.ROUTES, *asking.ROUTES)}

ROUTES = tuple(_alike(_OWN[handler], translate) for handler, translate in _TRANSLATED)
