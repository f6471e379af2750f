"""The same done to many jobs, which are chosen as a list of jobs is."""

from typing import Any

from aiohttp import web

from chronos.api.auth.permissions import Permission
from chronos.api.errors import InvalidBody
from chronos.api.handlers.job_selection import CHOICE, read_choice
from chronos.api.openapi import examples
from chronos.api.problems import kind_of
from chronos.api.request import BodyReader, RequestContext
from chronos.api.responses import json_response
from chronos.api.routing import Body, ResponseDoc, RouteTable, Scope, ref
from chronos.errors import Conflict
from chronos.service.bulk_actions import MAX_ACTED, Action, ActionResult
from chronos.service.job_state import MAX_NOTE
from chronos.service.serializers import Problem, id_text

_TAKE_A_REASON = (Action.PAUSE, Action.DISABLE, Action.TRIGGER)

route = RouteTable("Jobs")


@route.post(
    "/jobs/actions",
    permission=Permission.OPERATE,
    scope=Scope.BODY,
    summary="Do the same to many jobs, each for itself",
    query=CHOICE,
    body=Body.of_fields(
        {
            "action": {"type": "string", "enum": list(Action)},
            "all": {"type": ["boolean", "null"], "description": "where no parameter says which jobs"},
            "expect": {
                "type": ["integer", "null"],
                "minimum": 0,
                "maximum": MAX_ACTED,
                "description": "how many you have seen; 409, and none is touched, when that is not so any more",
            },
            "reason": {
                "type": ["string", "null"],
                "maxLength": MAX_NOTE,
                "description": "of pause, disable and trigger",
            },
            "payload": {"description": "of trigger: instead of the jobs' own"},
        },
        required=("action",),
        example={"action": "pause", "reason": "the database is being moved"},
    ),
    returns={
        200: ResponseDoc(
            f"one result for each job, by name; 422 when there are more than {MAX_ACTED}", ref("Acted"), examples.ACTED
        )
    },
    idempotent_by_key=True,
    submits=True,
)
async def act(call: RequestContext) -> web.StreamResponse:
    """Pause, resume, enable, disable, run or delete all jobs that the parameters choose, each for itself.

    Deleting needs the role admin. With an Idempotency-Key each job runs once, however often this is sent.
    """
    body = await call.form()
    action, reason, payload = _read_action(body)
    everything, expect = body.truth("all"), body.whole("expect", low=0, high=MAX_ACTED)
    body.done()
    assert action is not None
    choice = read_choice(call, Permission.ADMINISTER if action is Action.DELETE else Permission.OPERATE)
    if choice.narrows == bool(everything):
        raise InvalidBody([Problem("/all", _WHICH if not everything else _BOTH)])
    jobs = await choice.all(call, MAX_ACTED)
    if jobs is None:
        raise InvalidBody([Problem("", f"is about more than {MAX_ACTED} jobs; choose fewer, and none was touched")])
    if expect is not None and len(jobs) != expect:
        raise Conflict(f"{len(jobs)} jobs match by now, and {expect} were expected; look at them again")
    acted = await call.parts.service.bulk_actions.act(
        action,
        jobs,
        actor=call.actor,
        reason=reason,
        payload=payload,
        key=lambda job: call.key_for(action.value, job.id),
        dry_run=call.dry_run,
    )
    results = [_write_result(one) for one in acted]
    counts = {word: sum(one["result"] == word for one in results) for word in ("done", "unchanged", "failed")}
    said = {"action": action.value, "dry_run": call.dry_run, "matched": len(jobs), **counts, "results": results}
    return json_response(said)


_WHICH = "has to be true where no parameter (q, prefix, tag, state, owner) says which jobs"
_BOTH = "is true, and parameters say which jobs; leave one of them out"


def _read_action(body: BodyReader) -> tuple[Action | None, str | None, Any]:
    """What to do, why, and with which payload; the last two where they mean something."""
    action = body.one_of(Action, "action")
    if action is None and not body.problems:
        body.fault("action", f"is missing: one of {', '.join(Action)}")
    reason = body.text("reason", longest=4 * MAX_NOTE) if action in _TAKE_A_REASON else None
    if reason is not None and len(reason) > MAX_NOTE:
        body.fault("reason", f"has {len(reason)} characters, allowed {MAX_NOTE}")
    payload = body.payload() if action is Action.TRIGGER else None
    return action, reason, payload


def _write_result(acted: ActionResult) -> dict[str, Any]:
    job, error = acted.job, acted.error
    said: dict[str, Any] = {"id": id_text(job.id), "namespace": job.namespace, "name": job.name}
    if error is not None:
        kind = kind_of(error)
        return said | {"result": "failed", "code": kind.code, "status": kind.status, "message": str(error)}
    said["result"] = "done" if acted.changed else "unchanged"
    return said if acted.execution is None else said | {"execution_id": id_text(acted.execution)}
