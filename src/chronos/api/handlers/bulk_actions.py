"""Bulk actions: pause, resume, enable, disable, trigger or delete every job that a filter selects."""

from typing import Any

from aiohttp import web

from chronos.api.auth.permissions import Permission
from chronos.api.errors import InvalidBody
from chronos.api.handlers.job_selection import SELECTION, read_selection
from chronos.api.openapi import examples
from chronos.api.problems import kind_of
from chronos.api.request import BodyReader, RequestContext
from chronos.api.responses import json_response
from chronos.api.routing import Body, ResponseDoc, RouteTable, Scope, ref
from chronos.errors import Conflict
from chronos.service.bulk_actions import MAX_JOBS, Action, ActionResult
from chronos.service.job_state import MAX_NOTE
from chronos.service.serializers import Problem, id_text

_ACTIONS_WITH_REASON = (Action.PAUSE, Action.DISABLE, Action.TRIGGER)

route = RouteTable("Jobs")


@route.post(
    "/jobs/actions",
    permission=Permission.OPERATE,
    scope=Scope.BODY,
    summary="Apply one action to many jobs",
    query=SELECTION,
    body=Body.of_fields(
        {
            "action": {"type": "string", "enum": list(Action)},
            "all": {
                "type": ["boolean", "null"],
                "description": "true: all jobs of the namespace, if no parameter selects any",
            },
            "expect": {
                "type": ["integer", "null"],
                "minimum": 0,
                "maximum": MAX_JOBS,
                "description": "the number of jobs you expect; 409 and no change if it differs",
            },
            "reason": {
                "type": ["string", "null"],
                "maxLength": MAX_NOTE,
                "description": "for pause, disable and trigger",
            },
            "payload": {"description": "for trigger: replaces the payload of the jobs"},
        },
        required=("action",),
        example={"action": "pause", "reason": "the database is being moved"},
    ),
    returns={
        200: ResponseDoc(
            f"one result per job, by name; 422 if more than {MAX_JOBS} jobs match", ref("Acted"), examples.ACTED
        )
    },
    idempotent_by_key=True,
    is_rate_limited=True,
)
async def act(context: RequestContext) -> web.StreamResponse:
    """Pause, resume, enable, disable, trigger or delete every job that the parameters select, each independently.

    Deleting needs the admin role. With an Idempotency-Key each job is triggered once, however often the request is
    sent.
    """
    body = await context.read_object()
    action, reason, payload = _read_action(body)
    all_jobs, expect = body.boolean("all"), body.integer("expect", low=0, high=MAX_JOBS)
    body.raise_problems()
    assert action is not None
    selection = read_selection(context, Permission.ADMINISTER if action is Action.DELETE else Permission.OPERATE)
    if selection.narrows == bool(all_jobs):
        raise InvalidBody([Problem("/all", _NO_SELECTION if not all_jobs else _TWO_SELECTIONS)])
    jobs = await selection.all(context, MAX_JOBS)
    if jobs is None:
        raise InvalidBody([Problem("", f"more than {MAX_JOBS} jobs match, and none was changed; select fewer")])
    if expect is not None and len(jobs) != expect:
        raise Conflict(f"{len(jobs)} jobs match now, {expect} were expected, and none was changed; list them again")
    outcomes = await context.api.service.bulk_actions.act(
        action,
        jobs,
        actor=context.actor,
        reason=reason,
        payload=payload,
        key=lambda job: context.key_for(action.value, job.id),
        dry_run=context.dry_run,
    )
    results = [_write_result(outcome) for outcome in outcomes]
    counts = {word: sum(outcome["result"] == word for outcome in results) for word in ("done", "unchanged", "failed")}
    answer = {"action": action.value, "dry_run": context.dry_run, "matched": len(jobs), **counts, "results": results}
    return json_response(answer)


_NO_SELECTION = "must be true if no parameter (q, prefix, tag, state, owner) selects jobs"
_TWO_SELECTIONS = "is true, but parameters select jobs; leave one of them out"


def _read_action(body: BodyReader) -> tuple[Action | None, str | None, Any]:
    """Read the action, its reason and its payload; the last two only where they apply."""
    action = body.one_of(Action, "action")
    if action is None and not body.problems:
        body.fault("action", f"is required; use one of {', '.join(Action)}")
    reason = body.text("reason", max_bytes=4 * MAX_NOTE) if action in _ACTIONS_WITH_REASON else None
    if reason is not None and len(reason) > MAX_NOTE:
        body.fault("reason", f"has {len(reason)} characters, allowed {MAX_NOTE}")
    payload = body.payload() if action is Action.TRIGGER else None
    return action, reason, payload


def _write_result(outcomes: ActionResult) -> dict[str, Any]:
    job, error = outcomes.job, outcomes.error
    answer: dict[str, Any] = {"id": id_text(job.id), "namespace": job.namespace, "name": job.name}
    if error is not None:
        kind = kind_of(error)
        return answer | {"result": "failed", "code": kind.code, "status": kind.status, "message": str(error)}
    answer["result"] = "done" if outcomes.changed else "unchanged"
    return answer if outcomes.execution is None else answer | {"execution_id": id_text(outcomes.execution)}
