"""One-off runs: work that runs once, without a job of its own."""

from functools import partial
from typing import Any

from aiohttp import web

from chronos.api.auth.command_permission import require_save
from chronos.api.auth.permissions import Permission
from chronos.api.handlers.executions import accepted_response
from chronos.api.handlers.job_runs import REASON, START_TIMES, read_start_times
from chronos.api.openapi import examples
from chronos.api.openapi.job_schema import ONE_OFF_SETTINGS
from chronos.api.openapi.target_schema import OTHER_TARGETS, TARGETS
from chronos.api.request import BodyReader, RequestContext, find_key_fault
from chronos.api.responses import json_response
from chronos.api.routing import NAMESPACE, Body, ResponseDoc, RouteTable, Scope, ref
from chronos.core.job import Job
from chronos.service.one_off_runs import SETTINGS
from chronos.service.serializers import Draft, InvalidJob, Problem, id_text

route = RouteTable("Executions")


@route.post(
    "/executions",
    permission=Permission.ADMINISTER,
    scope=Scope.BODY,
    summary="Run work once, without a job of its own",
    query=(NAMESPACE,),
    body=Body(
        {
            "type": "object",
            "properties": {
                **TARGETS,
                "payload": {"description": "passed to the target"},
                **ONE_OFF_SETTINGS,
                **START_TIMES,
                "reason": REASON,
                "idempotency_key": {
                    "type": ["string", "null"],
                    "maxLength": 255,
                    "description": "another place for the header Idempotency-Key",
                },
            },
            **OTHER_TARGETS,
        },
        {"http": {"url": "https://api.example.com/rebuild", "method": "POST"}, "payload": {"day": "2027-01-01"}},
    ),
    returns={202: ResponseDoc("the new execution", ref("OneOff"), examples.ONE_OFF)},
    idempotent_by_key=True,
    is_rate_limited=True,
)
async def run(context: RequestContext) -> web.StreamResponse:
    """Run one target once, now or later, and keep the run with its history.

    The body has exactly one target. Runs of equal work belong to one job, which is done and which retention removes.
    The same Idempotency-Key with the same work returns the same execution.
    """
    body = await context.read_object()
    payload = body.payload()
    at_us, delay, expires = read_start_times(body)
    reason = body.text("reason", max_bytes=4_000)
    key = _read_key(context, body)
    draft = await context.run(partial(_read_work, context, body))
    require_save(context, draft)
    runs = context.api.service.one_off_runs
    if context.dry_run:
        runs.check(payload, at_us=at_us, delay=delay, expires=expires, reason=reason)
        return json_response({"dry_run": True, "job_name": draft.name})

    def to_idempotency(job: Job) -> str | None:
        return None if key is None else f"api:one-off:{job.id.hex()}:{key}"

    requested = await runs.run(
        draft,
        payload,
        at_us=at_us,
        delay=delay,
        expires=expires,
        reason=reason,
        to_idempotency=to_idempotency,
        actor=context.actor,
    )
    context.found_job = requested.job
    return accepted_response(
        context, requested.triggered, job_id=id_text(requested.job.id), job_name=requested.job.name
    )


def _read_work(context: RequestContext, body: BodyReader) -> Draft:
    """Read the target and its settings. Raises ``InvalidBody`` with every problem of the body."""
    jobs, runs = context.api.service.jobs, context.api.service.one_off_runs
    targets, settings = body.present(*jobs.target_fields), body.present(*SETTINGS)
    draft: Draft | None = None
    if len(targets) == 1:
        work: dict[str, Any] = {name: body.data[name] for name in (*targets, *settings)}
        try:
            draft = runs.read(work, namespace=context.namespace)
        except InvalidJob as error:
            body.problems += error.problems
    else:
        kinds = ", ".join(jobs.target_kinds)
        message = f"has {' and '.join(targets)}; give one target" if targets else f"has no target; give one of {kinds}"
        body.problems.append(Problem("", message))
    body.raise_problems()
    assert draft is not None
    return draft


def _read_key(context: RequestContext, body: BodyReader) -> str | None:
    """Read the idempotency key, from the header or from the body."""
    header, key = context.idempotency, body.text("idempotency_key", max_bytes=1024)
    if key is not None and (fault := find_key_fault(key)):
        body.fault("idempotency_key", fault)
    elif key is not None and header not in (None, key):
        body.fault("idempotency_key", "differs from the header Idempotency-Key; give one of them")
    return header if key is None else key
