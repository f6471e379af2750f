"""Dead letters: what failed for good and waits for somebody to run it again, or to drop it."""

from typing import Any

from aiohttp import web

from chronos.api import examples
from chronos.api.access import Permission
from chronos.api.answers import answer
from chronos.api.call import Call
from chronos.api.cursors import read_id_cursor, write_cursor
from chronos.api.executions import REPLAY_BODY, REPLAYED, accepted, replay_wishes, seen_only, would_replay
from chronos.api.routes import CURSOR, DRY_RUN, LIMIT, SPACES, V1, Answer, Route, Scope, page_of, ref
from chronos.core.calendar import rfc3339
from chronos.core.credentials import hide_userinfo
from chronos.core.execution import DeadLetter
from chronos.errors import NotFound
from chronos.service.shapes import id_text
from chronos.store.contract import Page


async def list_dead_letters(call: Call) -> web.StreamResponse:
    """Newest first."""

    async def read(limit: int, cursor: bytes | None) -> Page[DeadLetter]:
        return await call.parts.service.runs.dead_letters(namespace=call.named_namespace, limit=limit, cursor=cursor)

    page = await seen_only(
        read,
        lambda letter: call.shows(letter.namespace),
        limit=call.limit,
        cursor=read_id_cursor(call.text("cursor")),
    )
    jobs = await call.parts.store.names_of(sorted({letter.job for letter in page.items}))
    items = [_written(one, jobs[one.job].name if one.job in jobs else None) for one in page.items]
    return answer({"items": items, "next_cursor": write_cursor(page.cursor)})


async def replay(call: Call) -> web.StreamResponse:
    """Run it again, and take it off the list. Asked for twice, it runs once."""
    first = call.view.execution
    reason, from_failed, payload = await replay_wishes(call)
    if call.dry_run:
        return would_replay(first)
    asked = await call.parts.service.runs.replay_dead_letter(
        first.id, reason=reason, from_failed=from_failed, payload=payload, actor=call.actor
    )
    return accepted(call, asked, again=first)


async def discard(call: Call) -> web.StreamResponse:
    """Forget one; its execution stays in the history."""
    execution, runs = call.view.execution.id, call.parts.service.runs
    if call.dry_run:
        found = await runs.is_dead_letter(execution)
    else:
        found = await runs.drop_dead_letters([execution], actor=call.actor) > 0
    if not found:
        raise NotFound(f'"{id_text(execution)}" is no dead letter')
    return answer({"dry_run": True, "id": id_text(execution)}) if call.dry_run else web.Response(status=204)


def _written(letter: DeadLetter, job_name: str | None) -> dict[str, Any]:
    return {
        "id": id_text(letter.execution),
        "execution_id": id_text(letter.execution),
        "job_id": id_text(letter.job),
        "job_name": job_name,
        "namespace": letter.namespace,
        "failed_at": rfc3339(letter.failed_us),
        "reason": {"code": letter.reason.code.value, "message": hide_userinfo(letter.reason.message)},
    }


ROUTES = (
    Route(
        method="GET",
        path=f"{V1}/dead-letters",
        handler=list_dead_letters,
        permission=Permission.LOOK,
        scope=Scope.SEEN,
        tag="Dead letters",
        summary="List what failed for good, newest first",
        query=(LIMIT, CURSOR, SPACES),
        answers={
            200: Answer(
                about="a page",
                schema=page_of("DeadLetter"),
                example={"items": [examples.DEAD_LETTER], "next_cursor": None},
            )
        },
    ),
    Route(
        method="POST",
        path=f"{V1}/dead-letters/{{id}}/replay",
        handler=replay,
        permission=Permission.OPERATE,
        scope=Scope.EXECUTION,
        tag="Dead letters",
        summary="Run a dead letter again, and take it off the list",
        query=(DRY_RUN,),
        body=REPLAY_BODY,
        answers=REPLAYED,
        submits=True,
    ),
    Route(
        method="DELETE",
        path=f"{V1}/dead-letters/{{id}}",
        handler=discard,
        permission=Permission.OPERATE,
        scope=Scope.EXECUTION,
        tag="Dead letters",
        summary="Forget a dead letter",
        query=(DRY_RUN,),
        answers={
            204: Answer(about="it is gone"),
            200: Answer(about="of a dry run", schema=ref("Anything"), example={"dry_run": True}),
        },
        conflicts=False,
    ),
)
