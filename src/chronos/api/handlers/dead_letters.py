"""Dead letters: list, replay, discard."""

from typing import Any

from aiohttp import web

from chronos.api.auth.permissions import Permission
from chronos.api.errors import Malformed
from chronos.api.handlers.executions import (
    REPLAY_BODY,
    REPLAY_RESPONSE,
    accepted_response,
    read_replay_body,
    replay_dry_run_response,
)
from chronos.api.openapi import examples, view_examples
from chronos.api.pagination import read_id_cursor, write_cursor
from chronos.api.request import RequestContext
from chronos.api.responses import json_response
from chronos.api.routing import CURSOR, LIMIT, NAMESPACE_FILTER, Param, ResponseDoc, RouteTable, Scope, ref
from chronos.core.execution import DeadLetter
from chronos.service.executions import not_a_dead_letter
from chronos.service.serializers import id_text
from chronos.service.serializers.execution import count_attempts, read_detail
from chronos.service.views.dead_letter_groups import GroupBy, to_error_key
from chronos.service.views.json_shapes import write_dead_letter, write_letter_detail, write_letter_groups
from chronos.store.commands import PROGRESS

route = RouteTable("Dead letters")
_JOB = Param(name="job", description="only dead letters of this job, an id or a name")
_TEXT = Param(name="q", description="only dead letters whose error or job name contains this text")
_MAX_DETAILED = 100
_TAIL_LINES = 20  # of the last output


@route.get(
    "/dead-letters",
    permission=Permission.VIEW,
    scope=Scope.SEEN,
    summary="List dead letters, newest first",
    query=(
        LIMIT,
        CURSOR,
        NAMESPACE_FILTER,
        _JOB,
        _TEXT,
        Param(name="group", description="only dead letters of this group, a `key` of `/dead-letters/groups`"),
        Param(
            name="detail",
            description="add the group, the payload, the attempts and the last output; at most 100 items",
            schema={"type": "boolean", "default": False},
        ),
    ),
    returns={200: ResponseDoc.page_of("DeadLetter", examples.DEAD_LETTER)},
)
async def list_dead_letters(context: RequestContext) -> web.StreamResponse:
    """List failed runs that someone has to replay or discard, newest first."""
    letters = context.api.service.views.dead_letters
    items, cursor = await letters.letters(
        namespace=context.requested_namespace,
        job=await _read_job(context),
        text=context.text("q"),
        group=context.text("group"),
        limit=min(context.limit, _MAX_DETAILED) if context.boolean("detail") else context.limit,
        cursor=read_id_cursor(context.text("cursor")),
        sees=None if context.sees_everything else context.is_visible,
    )
    written = [write_dead_letter(letter, name) for letter, name in items]
    if context.boolean("detail"):
        written = [body | await _read_detail(context, letter) for (letter, _), body in zip(items, written, strict=True)]
    return json_response({"items": written, "next_cursor": write_cursor(cursor)})


@route.get(
    "/dead-letters/groups",
    permission=Permission.VIEW,
    scope=Scope.SEEN,
    summary="Group dead letters by their error or job",
    query=(
        NAMESPACE_FILTER,
        _JOB,
        _TEXT,
        Param(
            name="by",
            description="what the dead letters of a group have in common",
            schema={"type": "string", "enum": [by.value for by in GroupBy], "default": GroupBy.ERROR.value},
        ),
    ),
    returns={200: ResponseDoc("the groups, the largest first", ref("LetterGroups"), view_examples.LETTER_GROUPS)},
)
async def group_dead_letters(context: RequestContext) -> web.StreamResponse:
    """Group dead letters, the largest group first. Reads the newest 10,000."""
    text = context.text("by") or GroupBy.ERROR.value
    if text not in GroupBy.__members__.values():
        raise Malformed(f'invalid by "{text[:64]}"; use one of {", ".join(GroupBy)}')
    found = await context.api.service.views.dead_letters.groups(
        namespace=context.requested_namespace,
        job=await _read_job(context),
        text=context.text("q"),
        by=GroupBy(text),
        sees=None if context.sees_everything else context.is_visible,
    )
    return json_response(write_letter_groups(found))


@route.post(
    "/dead-letters/{id}/replay",
    permission=Permission.OPERATE,
    summary="Replay a dead letter and remove it from the list",
    body=REPLAY_BODY,
    returns=REPLAY_RESPONSE,
    is_rate_limited=True,
)
async def replay(context: RequestContext) -> web.StreamResponse:
    """Replay a dead letter and remove it from the list. Repeated requests run it once.

    404 if the execution is not a dead letter: it was discarded, or did not fail.
    """
    first, runs = context.view.execution, context.api.service.runs
    options = await read_replay_body(context)
    if context.dry_run:
        planned = await runs.plan_replay(first.id, **options)
        if not await runs.is_dead_letter(first.id):
            raise not_a_dead_letter(first.id)
        return replay_dry_run_response(planned)
    execution_request = await runs.replay_dead_letter(first.id, **options, actor=context.actor)
    return accepted_response(context, execution_request, replayed=first)


@route.delete(
    "/dead-letters/{id}",
    permission=Permission.OPERATE,
    summary="Discard a dead letter",
    returns={204: ResponseDoc("the dead letter was discarded")},
    can_conflict=False,
)
async def discard(context: RequestContext) -> web.StreamResponse:
    """Discard a dead letter. Its execution stays in the history."""
    execution, runs = context.view.execution.id, context.api.service.runs
    if context.dry_run:
        exists = await runs.is_dead_letter(execution)
    else:
        exists = await runs.drop_dead_letters([execution], actor=context.actor) > 0
    if not exists:
        raise not_a_dead_letter(execution)
    return json_response({"dry_run": True, "id": id_text(execution)}) if context.dry_run else web.Response(status=204)


async def _read_job(context: RequestContext) -> bytes | None:
    named = context.text("job")
    return None if named is None else (await context.find_job(named)).id


async def _read_detail(context: RequestContext, letter: DeadLetter) -> dict[str, Any]:
    """Return what helps to decide about a dead letter. Its execution may already be trimmed."""
    store, group = context.api.store, to_error_key(letter.reason.message)
    view = await store.execution(letter.execution)
    if view is None:
        return write_letter_detail(None, None, None, group)
    detail = read_detail(view.execution)
    rows = [row for row in await store.output(letter.execution) if row.part != PROGRESS]
    last = max(((row.task, row.number) for row in rows), key=lambda key: key[1], default=None)
    text = "".join(row.text for row in rows if (row.task, row.number) == last)
    tail = "\n".join(text.splitlines()[-_TAIL_LINES:]) if text else None
    return write_letter_detail(detail.payload, count_attempts(view.execution, detail), tail, group)
