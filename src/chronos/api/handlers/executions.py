"""Executions: list, look at, signal, cancel, replay."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar

from aiohttp import web

from chronos.api import examples
from chronos.api.access import Permission
from chronos.api.answers import answer
from chronos.api.call import Call
from chronos.api.cursors import read_id_cursor, write_cursor
from chronos.api.errors import Malformed
from chronos.api.routes import CURSOR, DRY_RUN, LIMIT, SPACES, V1, Answer, Body, Param, Route, Scope, page_of, ref
from chronos.core.calendar import rfc3339
from chronos.core.credentials import hide_userinfo
from chronos.core.execution import Execution, Span, Status
from chronos.errors import Conflict, NotFound
from chronos.service.asking import checked_payload
from chronos.service.shapes import id_text, read_id
from chronos.service.why import Step
from chronos.store.commands import Triggered
from chronos.store.contract import ExecutionFilter, JobName, Page

T = TypeVar("T")

TROUBLED = "troubled"
_OTHER_WORDS = {"SUCCESS": "SUCCEEDED"}  # as the guide's paths answer it
_MAX_PAGES = 20  # that one request may read to find what the caller may see


async def list_executions(call: Call) -> web.StreamResponse:
    """Newest first, over all jobs."""
    named = call.text("job")
    job = None if named is None else (await call.find_job(named)).id
    return await listed(call, filter_of(call, job), check=job is None)


async def get(call: Call) -> web.StreamResponse:
    """One execution: tasks, attempts, report."""
    return answer(await call.parts.service.runs.shown(call.view.execution.id))


async def why(call: Call) -> web.StreamResponse:
    """What happened to an execution, and for what reason."""
    steps = await call.parts.service.why.why_execution(call.view.execution.id)
    return answer({"steps": [write_step(step) for step in steps]})


async def signal(call: Call) -> web.StreamResponse:
    """End a wait for a signal."""
    body = await call.form()
    name = body.text("name", longest=200)
    if not name and not body.problems:
        body.fault("name", "is missing: say which signal")
    payload = body.payload()
    body.done()
    execution = call.view.execution
    if execution.status.final:
        raise Conflict(f"it has ended already: {execution.status.name.lower()}")
    if call.dry_run:
        checked_payload(payload)
        return answer({"dry_run": True, "waiting": execution.status is Status.WAITING})
    taken = await call.parts.service.runs.signal(execution.id, name or "", payload, actor=call.actor)
    if not taken:
        raise Conflict(f'it does not wait for the signal "{name}"')
    return answer({"execution_id": id_text(execution.id), "signal": name}, status=202)


async def cancel(call: Call) -> web.StreamResponse:
    """Cancel an execution: what has not started ends now, what runs is asked to stop."""
    body = await call.form()
    reason = body.text("reason", longest=1_000)
    body.done()
    execution = call.view.execution
    if call.dry_run:
        if execution.status.final and execution.status is not Status.CANCELED:  # as often as one likes
            raise Conflict(f"it has ended already: {execution.status.name.lower()}")
        would = Status.RUNNING if execution.status is Status.RUNNING else Status.CANCELED
        said = {"dry_run": True, "execution_id": id_text(execution.id), "status": would.name.lower()}
        return answer(said)
    status = await call.parts.service.runs.cancel(execution.id, message=reason, actor=call.actor)
    return answer({"execution_id": id_text(execution.id), "status": status.name.lower()}, status=202)


async def replay(call: Call) -> web.StreamResponse:
    """Run an execution again, as a new one that is linked to it."""
    first = call.view.execution
    reason, from_failed, payload = await replay_wishes(call)
    if call.dry_run:
        return would_replay(first)
    asked = await call.parts.service.runs.replay(
        first.id,
        reason=reason,
        from_failed=from_failed,
        payload=payload,
        idempotency=call.key_for("replay", first.id),
        actor=call.actor,
    )
    return accepted(call, asked, again=first)


# --- shared with other nouns


async def replay_wishes(call: Call) -> tuple[str | None, bool, Any]:
    """What the body of a replay says: reason, from_failed, payload."""
    body = await call.form()
    reason = body.text("reason", longest=4_000)
    from_failed = body.truth("from_failed") or False
    payload = body.payload()
    body.done()
    return reason, from_failed, payload


def would_replay(first: Execution) -> web.Response:
    """The answer of a dry run."""
    if not first.status.final:
        raise Conflict(f"it is {first.status.name.lower()}; wait for its end, or cancel it")
    return answer({"dry_run": True, "replay_of": id_text(first.id)})


def accepted(call: Call, asked: Triggered, *, again: Execution | None = None) -> web.Response:
    """An execution that was asked for, now or, with the same key, before; ``again``: which one it repeats."""
    call.asked = asked.id
    id_ = id_text(asked.id)
    said: dict[str, Any] = {"execution_id": id_, "status": asked.status.name.lower(), "created": asked.created}
    if again is not None:
        said["replay_of"] = id_text(again.id)
    where = f"{call.parts.options.base_path}{V1}/executions/{id_}"
    return answer(said, status=202, headers={"Location": where})


def filter_of(call: Call, job: bytes | None) -> ExecutionFilter:
    """Which executions the query asks for."""
    text = call.text("status")
    if text is None:
        return ExecutionFilter(job=job)
    if text == TROUBLED:
        return ExecutionFilter(job=job, troubled=True)
    try:
        return ExecutionFilter(job=job, status=Status[_OTHER_WORDS.get(text.upper(), text.upper())])
    except KeyError:
        allowed = ", ".join((*(status.name.lower() for status in Status), TROUBLED))
        raise Malformed(f'the status "{text[:64]}" is none of {allowed}') from None


async def listed(call: Call, where: ExecutionFilter, *, check: bool) -> web.Response:
    """A page of executions; where ``check``, without those of namespaces that the caller does not see."""
    runs, store, cursor = call.parts.service.runs, call.parts.store, read_id_cursor(call.text("cursor"))
    if not check or call.shows_everything:
        page = await runs.listed(where, limit=call.limit, cursor=cursor)
        return answer({"items": page.items, "next_cursor": write_cursor(page.cursor)})
    jobs: dict[bytes, JobName] = {}

    async def read(limit: int, at: bytes | None) -> Page[Execution | Span]:
        page = await runs.list(where, limit=limit, cursor=at)
        jobs.update(await store.names_of(sorted({item.job for item in page.items} - jobs.keys())))
        return page

    def keep(item: Execution | Span) -> bool:
        return item.job in jobs and call.shows(jobs[item.job].namespace)

    kept = await seen_only(read, keep, limit=call.limit, cursor=cursor)
    items = await runs.written(kept.items, jobs)
    return answer({"items": items, "next_cursor": write_cursor(kept.cursor)})


async def seen_only(
    read: Callable[[int, bytes | None], Awaitable[Page[T]]],
    keep: Callable[[T], bool],
    *,
    limit: int,
    cursor: bytes | None,
) -> Page[T]:
    """A page of what may be kept, out of as many pages as one request may read; it may be short, with more behind."""
    kept: list[T] = []
    for _ in range(_MAX_PAGES):
        page = await read(limit - len(kept), cursor)
        kept += [item for item in page.items if keep(item)]
        cursor = page.cursor
        if cursor is None or len(kept) >= limit:
            break
    return Page(items=kept, cursor=cursor)


def write_step(step: Step) -> dict[str, Any]:
    """One decision."""
    return {"at": rfc3339(step.at_us), "verdict": step.verdict.value, "sentence": hide_userinfo(step.sentence)}


def execution_id(text: str) -> bytes:
    """The id in a path; anything else names nothing."""
    found = read_id(text)
    if found is None:
        raise NotFound(f'there is no execution "{text[:200]}"')
    return found


_STATUSES: Sequence[str] = (*(status.name.lower() for status in Status), TROUBLED)
STATUS = Param(
    name="status",
    about="only those; `troubled` is everything that went wrong",
    schema={"type": "string", "enum": list(_STATUSES)},
)
EXECUTIONS_ANSWER = {
    200: Answer(
        about="a page; a run of skipped or missed instants is one item of the kind `span`",
        schema=page_of("ExecutionItem"),
        example={"items": [examples.EXECUTION, examples.SPAN], "next_cursor": None},
    )
}
_DRY = Answer(about="of a dry run", schema=ref("Anything"), example={"dry_run": True})
_OF_ONE = f"{V1}/executions/{{id}}"
REPLAY_BODY = Body(
    schema={
        "type": "object",
        "additionalProperties": False,
        "properties": {
            "reason": {"type": ["string", "null"], "maxLength": 1000},
            "from_failed": {"type": ["boolean", "null"], "description": "without the tasks that succeeded before"},
            "payload": {"description": "instead of the one it had"},
        },
    },
    example={"reason": "the target is back", "from_failed": True},
    required=False,
)
REPLAYED = {202: Answer(about="it will run", schema=ref("Asked"), example=examples.REPLAYED), 200: _DRY}

ROUTES = (
    Route(
        method="GET",
        path=f"{V1}/executions",
        handler=list_executions,
        permission=Permission.LOOK,
        scope=Scope.SEEN,
        tag="Executions",
        summary="List executions of all jobs, newest first",
        query=(LIMIT, CURSOR, STATUS, SPACES, Param(name="job", about="only of this job, an id or a name")),
        answers=EXECUTIONS_ANSWER,
    ),
    Route(
        method="GET",
        path=_OF_ONE,
        handler=get,
        permission=Permission.LOOK,
        scope=Scope.EXECUTION,
        tag="Executions",
        summary="Look at an execution: its tasks, their attempts, its report",
        answers={200: Answer(about="the execution", schema=ref("Execution"), example=examples.EXECUTION_SHOWN)},
    ),
    Route(
        method="GET",
        path=f"{_OF_ONE}/why",
        handler=why,
        permission=Permission.LOOK,
        scope=Scope.EXECUTION,
        tag="Executions",
        summary="What happened to an execution, and for what reason",
        answers={200: Answer(about="what was decided, in order", schema=ref("Why"), example=examples.WHY)},
    ),
    Route(
        method="POST",
        path=f"{_OF_ONE}/signal",
        handler=signal,
        permission=Permission.OPERATE,
        scope=Scope.EXECUTION,
        tag="Executions",
        summary="End a wait for a signal",
        query=(DRY_RUN,),
        body=Body(
            schema={
                "type": "object",
                "required": ["name"],
                "additionalProperties": False,
                "properties": {
                    "name": {"type": "string", "minLength": 1, "maxLength": 200},
                    "payload": {"description": "what the one who waits is given"},
                },
            },
            example={"name": "approved", "payload": {"by": "ana"}},
        ),
        answers={
            202: Answer(
                about="it goes on",
                schema=ref("Signalled"),
                example={"execution_id": examples.EXECUTION_ID, "signal": "approved"},
            ),
            200: _DRY,
        },
    ),
    Route(
        method="POST",
        path=f"{_OF_ONE}/cancel",
        handler=cancel,
        permission=Permission.OPERATE,
        scope=Scope.EXECUTION,
        tag="Executions",
        summary="Cancel an execution",
        query=(DRY_RUN,),
        body=Body(
            schema={
                "type": "object",
                "additionalProperties": False,
                "properties": {"reason": {"type": ["string", "null"], "maxLength": 1000}},
            },
            example={"reason": "started by mistake"},
            required=False,
        ),
        answers={
            202: Answer(
                about="`canceled`; or `running`, when it was asked to stop",
                schema=ref("Cancelled"),
                example={"execution_id": examples.EXECUTION_ID, "status": "canceled"},
            ),
            200: _DRY,
        },
    ),
    Route(
        method="POST",
        path=f"{_OF_ONE}/replay",
        handler=replay,
        permission=Permission.OPERATE,
        scope=Scope.EXECUTION,
        tag="Executions",
        summary="Run an execution again, as a new one",
        query=(DRY_RUN,),
        body=REPLAY_BODY,
        answers=REPLAYED,
        idempotent_by_key=True,
        submits=True,
    ),
)
