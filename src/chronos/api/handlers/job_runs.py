"""Asking something of a job: run it, run what it missed, say when it runs and why it did or did not."""

from aiohttp import web

from chronos.api import examples
from chronos.api.access import Permission
from chronos.api.answers import answer
from chronos.api.call import Call
from chronos.api.executions import EXECUTIONS_ANSWER, STATUS, accepted, filter_of, listed, write_step
from chronos.api.routes import CURSOR, DRY_RUN, LIMIT, NAMESPACE, V1, Answer, Body, Param, Route, Scope, ref
from chronos.core.calendar import rfc3339
from chronos.core.planner import MAX_PREVIEW
from chronos.service.asking import checked_payload
from chronos.service.shapes import id_text


async def trigger(call: Call) -> web.StreamResponse:
    """Run a job now, paused or not. The same Idempotency-Key answers the same execution."""
    body = await call.form()
    payload = body.payload()
    at_us = body.instant_us("at")
    if at_us is not None and at_us > call.parts.clock.now_us():
        message = "is still to come, and a trigger runs now; save a job with that schedule instead"
        body.fault("at", message)
    reason = body.text("reason", longest=4_000)
    body.done()
    if call.dry_run:
        checked_payload(payload)
        return answer({"dry_run": True, "job_id": id_text(call.job.id)})
    asked = await call.parts.service.runs.trigger(
        id_text(call.job.id),
        payload,
        at_us=at_us,
        reason=reason,
        idempotency=call.key_for("trigger", call.job.id),
        actor=call.actor,
    )
    return accepted(call, asked)


async def backfill(call: Call) -> web.StreamResponse:
    """Run the instants of a past range, both ends included."""
    body = await call.form()
    from_us, to_us = body.instant_us("from", needed=True), body.instant_us("to", needed=True)
    if from_us is not None and to_us is not None and from_us > to_us:
        body.fault("to", "is before from; a backfill goes from a past instant to a later one")
    elif to_us is not None and to_us > call.parts.clock.now_us():
        body.fault("to", "is still to come; a backfill ends at an instant that has passed")
    reason = body.text("reason", longest=4_000)
    body.done()
    assert from_us is not None
    assert to_us is not None
    backfills = call.parts.service.backfills
    if call.dry_run:
        would, next_us = backfills.would_run(call.job, from_us, to_us)
        return answer({"dry_run": True, "count": would, "next_from": None if next_us is None else rfc3339(next_us)})
    asked = await backfills.run(
        call.job,
        from_us,
        to_us,
        reason=reason,
        idempotency=call.key_for("backfill", call.job.id),
        actor=call.actor,
        within_us=round(call.parts.options.request_timeout_s * 1e6 / 3),
    )
    return answer(
        {
            "execution_ids": [id_text(one) for one in asked.ids],
            "count": len(asked.ids),
            "next_from": None if asked.next_us is None else rfc3339(asked.next_us),
        },
        status=202,
    )


async def next_runs(call: Call) -> web.StreamResponse:
    """When a job runs next."""
    count = call.whole("count", 10, low=1, high=MAX_PREVIEW)
    runs_us = await call.parts.service.jobs.next_runs(id_text(call.job.id), count)
    return answer({"items": [rfc3339(us) for us in runs_us]})


async def executions(call: Call) -> web.StreamResponse:
    """The executions of a job, newest first."""
    return await listed(call, filter_of(call, call.job.id), check=False)


async def why(call: Call) -> web.StreamResponse:
    """Why a job ran or did not run at an instant; without one, its last instants and the next."""
    steps = await call.parts.service.why.why(id_text(call.job.id), call.instant_us("at"))
    return answer({"steps": [write_step(step) for step in steps]})


_REASON = {"type": ["string", "null"], "maxLength": 1000, "description": "why, for those who look later"}
_INSTANT = {"type": ["string", "null"], "format": "date-time"}
_WOULD = Answer(about="of a dry run: what would be asked for", schema=ref("Anything"), example={"dry_run": True})

ROUTES = (
    Route(
        method="POST",
        path=f"{V1}/jobs/{{ref}}/trigger",
        handler=trigger,
        permission=Permission.OPERATE,
        scope=Scope.JOB,
        tag="Executions",
        summary="Run a job now",
        query=(NAMESPACE, DRY_RUN),
        body=Body(
            schema={
                "type": "object",
                "additionalProperties": False,
                "properties": {
                    "payload": {"description": "instead of the job's own"},
                    "at": _INSTANT | {"description": "the past instant that the run stands for"},
                    "reason": _REASON,
                },
            },
            example={"payload": {"day": "2027-01-01"}, "reason": "asked for by accounting"},
            required=False,
        ),
        answers={202: Answer(about="it will run", schema=ref("Asked"), example=examples.ASKED), 200: _WOULD},
        idempotent_by_key=True,
        submits=True,
    ),
    Route(
        method="POST",
        path=f"{V1}/jobs/{{ref}}/backfill",
        handler=backfill,
        permission=Permission.OPERATE,
        scope=Scope.JOB,
        tag="Executions",
        summary="Run the instants of a past range",
        query=(NAMESPACE, DRY_RUN),
        body=Body(
            schema={
                "type": "object",
                "required": ["from", "to"],
                "additionalProperties": False,
                "properties": {
                    "from": {"type": "string", "format": "date-time"},
                    "to": {"type": "string", "format": "date-time"},
                    "reason": _REASON,
                },
            },
            example={"from": "2027-01-01T00:00:00Z", "to": "2027-01-07T00:00:00Z"},
        ),
        answers={
            202: Answer(
                about="they will run; `next_from` says where to go on when there were too many for one request",
                schema=ref("Backfilled"),
                example=examples.BACKFILLED,
            ),
            200: _WOULD,
        },
        idempotent_by_key=True,
        submits=True,
    ),
    Route(
        method="GET",
        path=f"{V1}/jobs/{{ref}}/next",
        handler=next_runs,
        permission=Permission.LOOK,
        scope=Scope.JOB,
        tag="Jobs",
        summary="When a job runs next",
        query=(
            NAMESPACE,
            Param(
                name="count",
                about="how many instants",
                schema={"type": "integer", "minimum": 1, "maximum": MAX_PREVIEW, "default": 10},
            ),
        ),
        answers={
            200: Answer(
                about="instants; none while it is not active",
                schema={
                    "type": "object",
                    "required": ["items"],
                    "properties": {"items": {"type": "array", "items": {"type": "string", "format": "date-time"}}},
                },
                example={"items": ["2027-01-01T08:00:00Z", "2027-01-04T08:00:00Z"]},
            )
        },
    ),
    Route(
        method="GET",
        path=f"{V1}/jobs/{{ref}}/executions",
        handler=executions,
        permission=Permission.LOOK,
        scope=Scope.JOB,
        tag="Executions",
        summary="List the executions of a job, newest first",
        query=(NAMESPACE, LIMIT, CURSOR, STATUS),
        answers=EXECUTIONS_ANSWER,
    ),
    Route(
        method="GET",
        path=f"{V1}/jobs/{{ref}}/why",
        handler=why,
        permission=Permission.LOOK,
        scope=Scope.JOB,
        tag="Jobs",
        summary="Why a job ran, or did not",
        query=(
            NAMESPACE,
            Param(
                name="at",
                about="the instant; the last ones and the next without it",
                schema={"type": "string", "format": "date-time"},
            ),
        ),
        answers={200: Answer(about="what was decided, in order", schema=ref("Why"), example=examples.WHY)},
    ),
)
