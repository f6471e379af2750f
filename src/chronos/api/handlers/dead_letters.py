"""Dead letters: list, replay, discard."""

from typing import Any

from aiohttp import web

from chronos.api.auth.permissions import Permission
from chronos.api.handlers.executions import (
    REPLAY_BODY,
    REPLAY_RESPONSE,
    accepted_response,
    collect_visible_page,
    read_replay_body,
    replay_dry_run_response,
)
from chronos.api.openapi import examples
from chronos.api.pagination import read_id_cursor, write_cursor
from chronos.api.request import RequestContext
from chronos.api.responses import json_response
from chronos.api.routing import CURSOR, LIMIT, NAMESPACE_FILTER, ResponseDoc, RouteTable, Scope
from chronos.core.calendar import rfc3339
from chronos.core.credentials import hide_userinfo
from chronos.core.execution import DeadLetter
from chronos.service.executions import not_a_dead_letter
from chronos.service.serializers import id_text
from chronos.store.contract import Page

route = RouteTable("Dead letters")


@route.get(
    "/dead-letters",
    permission=Permission.VIEW,
    scope=Scope.SEEN,
    summary="List dead letters, newest first",
    query=(LIMIT, CURSOR, NAMESPACE_FILTER),
    returns={200: ResponseDoc.page_of("DeadLetter", examples.DEAD_LETTER)},
)
async def list_dead_letters(context: RequestContext) -> web.StreamResponse:
    """List failed runs that someone has to replay or discard, newest first."""

    async def read(limit: int, cursor: bytes | None) -> Page[DeadLetter]:
        return await context.api.service.runs.dead_letters(
            namespace=context.requested_namespace, limit=limit, cursor=cursor
        )

    page = await collect_visible_page(
        read,
        lambda letter: context.is_visible(letter.namespace),
        limit=context.limit,
        cursor=read_id_cursor(context.text("cursor")),
    )
    jobs = await context.api.store.names_of(sorted({letter.job for letter in page.items}))
    items = [_write_dead_letter(letter, jobs[letter.job].name if letter.job in jobs else None) for letter in page.items]
    return json_response({"items": items, "next_cursor": write_cursor(page.cursor)})


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


def _write_dead_letter(letter: DeadLetter, job_name: str | None) -> dict[str, Any]:
    return {
        "id": id_text(letter.execution),
        "execution_id": id_text(letter.execution),
        "job_id": id_text(letter.job),
        "job_name": job_name,
        "namespace": letter.namespace,
        "failed_at": rfc3339(letter.failed_us),
        "reason": {"code": letter.reason.code.value, "message": hide_userinfo(letter.reason.message)},
    }
