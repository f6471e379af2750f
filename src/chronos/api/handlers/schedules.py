"""Schedules: preview without a job."""

from aiohttp import web

from chronos.api.auth.permissions import Permission
from chronos.api.handlers.save_results import write_warnings
from chronos.api.openapi import examples
from chronos.api.openapi.schema_builders import one_of
from chronos.api.request import RequestContext
from chronos.api.responses import json_response
from chronos.api.routing import Body, ResponseDoc, RouteTable, ref
from chronos.core.calendar import SECOND_US, rfc3339
from chronos.core.planner import MAX_PREVIEW
from chronos.core.schedule.parser import DST_POLICIES
from chronos.core.schedule.union import MAX_EXPRESSIONS
from chronos.service.schedule_preview import preview_spec
from chronos.service.serializers.schedule import read_schedule

route = RouteTable("Schedules")


@route.post(
    "/schedule/preview",
    permission=Permission.VIEW,
    summary="Preview a schedule",
    body=Body.of_fields(
        {
            "schedule": {
                "anyOf": [
                    {"type": "string"},
                    {"type": "array", "minItems": 1, "maxItems": MAX_EXPRESSIONS, "items": {"type": "string"}},
                    ref("Schedule"),
                ]
            },
            "timezone": {"type": ["string", "null"]},
            "dst": one_of("how daylight saving changes are handled; robust by default", DST_POLICIES),
            "start": {"type": ["string", "null"]},
            "end": {"type": ["string", "null"]},
            "jitter": {"type": ["string", "null"]},
            "exclude": {"type": ["array", "string", "null"], "items": {"type": "string"}},
            "count": {"type": ["integer", "null"], "minimum": 1, "maximum": MAX_PREVIEW},
            "key": {
                "type": ["string", "null"],
                "description": "the value that `H` and jitter hash: the name of the job",
            },
            "name": {"type": ["string", "null"], "description": "another name of `key`"},
        },
        required=("schedule",),
        example={"schedule": "30 2 * * *", "timezone": "Europe/Paris", "count": 3},
    ),
    returns={200: ResponseDoc("the preview", ref("Preview"), examples.PREVIEW)},
)
async def preview(context: RequestContext) -> web.StreamResponse:
    """Describe a schedule in words, with its next runs and the effects of daylight saving changes."""
    body = await context.read_object()
    count = body.integer("count", low=1, high=MAX_PREVIEW) or 10
    key = body.text("key", "name", max_bytes=200) or ""
    schedule_input = read_schedule(body, key)
    if schedule_input.now or schedule_input.manual:
        body.raise_problems()
        now = [rfc3339(context.api.clock.now_us())] if schedule_input.now else []
        words = "Now, as soon as a slot is free" if schedule_input.now else "Only when triggered"
        return json_response({"words": words, "understood_as": None, "timezone": "UTC", "next": now, "warnings": []})
    if schedule_input.spec is None and not body.problems:
        body.fault("schedule", 'is required; use text of any dialect, or an object such as {"cron": "0 9 * * *"}')
    body.raise_problems()
    now_us = context.api.clock.now_us()
    spec = schedule_input.spec_at(now_us)
    assert spec is not None
    result = preview_spec(spec, now_us=now_us, count=count, key=key)
    return json_response(
        {
            "words": result.words,
            "understood_as": result.understood_as,
            "timezone": result.timezone,
            "next": [rfc3339(us) for us in result.next_us],
            "warnings": [
                *write_warnings(result.surprises),
                *(
                    {
                        "kind": oddity.kind.value,
                        "at": rfc3339(oddity.at_us),
                        "wall": rfc3339(oddity.wall * SECOND_US).removesuffix("Z"),
                        "count": oddity.count,
                        "message": oddity.message,
                    }
                    for oddity in result.oddities
                ),
            ],
        }
    )
