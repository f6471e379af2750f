"""Executions: list, get, explain, signal, cancel, replay."""

import re
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypedDict, TypeVar

from aiohttp import web

from chronos.api.auth.permissions import Permission
from chronos.api.errors import Malformed
from chronos.api.openapi import examples
from chronos.api.pagination import read_id_cursor, write_cursor
from chronos.api.request import RequestContext
from chronos.api.responses import json_response
from chronos.api.routing import CURSOR, LIMIT, NAMESPACE_FILTER, V1, Body, Param, ResponseDoc, RouteTable, Scope, ref
from chronos.core.calendar import rfc3339
from chronos.core.credentials import hide_userinfo
from chronos.core.execution import Execution, Span, Status
from chronos.core.ids import ID_BYTES
from chronos.errors import Conflict, NotFound
from chronos.service.replayed_tasks import PlannedReplay
from chronos.service.run_requests import to_stored_payload
from chronos.service.serializers import id_text, read_id
from chronos.service.serializers.job import MAX_TASKS
from chronos.service.why import WhyStep
from chronos.store.commands import Triggered
from chronos.store.contract import ExecutionFilter, JobName, Page

T = TypeVar("T")

TROUBLED = "troubled"
_STATUS_ALIASES = {"SUCCESS": "SUCCEEDED", "CANCELLED": "CANCELED"}  # as the guide's paths write it
_ID_PREFIX = re.compile(r"[0-9a-fA-F-]{1,36}", re.ASCII)
_MAX_PAGES = 20  # that one request may read to find visible items

route = RouteTable("Executions")
STATUS = Param(
    name="status",
    description=(
        "only executions of this status; `troubled` selects all that failed, were missed, were canceled or are stale; "
        "`cancelled` is accepted for `canceled`"
    ),
    schema={"type": "string", "enum": [*(status.name.lower() for status in Status), TROUBLED]},
)
EXECUTIONS_RESPONSE = {
    200: ResponseDoc.page_of(
        "ExecutionItem",
        examples.EXECUTION,
        examples.SPAN,
        description="a page; a series of skipped or missed scheduled times is one item of the kind `span`",
    )
}
_REASON = {"type": ["string", "null"], "maxLength": 1000}
REPLAY_BODY = Body.of_fields(
    {
        "reason": _REASON,
        "from_failed": {"type": ["boolean", "null"], "description": "skip the tasks that succeeded"},
        "tasks": {
            "type": ["array", "null"],
            "items": {"type": "string"},
            "description": "run only these tasks; the others keep their results, or are skipped if they have none",
        },
        "payload": {"description": "replaces the payload of the original"},
    },
    example={"reason": "the target is back", "from_failed": True},
)
REPLAY_RESPONSE = {202: ResponseDoc("the new execution", ref("Asked"), examples.REPLAYED)}


@route.get(
    "/executions",
    permission=Permission.VIEW,
    scope=Scope.SEEN,
    summary="List the executions of all jobs, newest first",
    query=(
        LIMIT,
        CURSOR,
        STATUS,
        NAMESPACE_FILTER,
        Param(name="job", description="only executions of this job, an id or a name"),
        Param(
            name="id_prefix",
            description="only executions whose id starts with this, with or without dashes",
            schema={"type": "string", "pattern": "^[0-9a-fA-F-]{1,36}$"},
        ),
    ),
    returns=EXECUTIONS_RESPONSE,
)
async def list_executions(context: RequestContext) -> web.StreamResponse:
    """List the executions of all jobs, newest first."""
    named = context.text("job")
    job = None if named is None else (await context.find_job(named)).id
    prefix = _read_id_prefix(context.text("id_prefix"))
    return await list_response(context, read_filter(context, job), check=job is None, id_prefix=prefix)


@route.get(
    "/executions/{id}",
    permission=Permission.VIEW,
    summary="Get an execution with its tasks, attempts and report",
    returns={200: ResponseDoc("the execution", ref("Execution"), examples.EXECUTION_SHOWN)},
)
async def get(context: RequestContext) -> web.StreamResponse:
    """Get an execution with its tasks, attempts and report."""
    return json_response(await context.api.service.runs.get_json(context.view.execution.id))


@route.get(
    "/executions/{id}/why",
    permission=Permission.VIEW,
    summary="Explain what happened to an execution",
    returns={200: ResponseDoc("the decisions, in order", ref("Why"), examples.WHY)},
)
async def why(context: RequestContext) -> web.StreamResponse:
    """Explain what happened to an execution and why. Times in sentences are in the zone of the job."""
    steps = await context.api.service.why.why_execution(context.view.execution.id)
    return json_response({"steps": [write_step(step) for step in steps]})


@route.post(
    "/executions/{id}/signal",
    permission=Permission.OPERATE,
    summary="Send a signal to a waiting execution",
    body=Body.of_fields(
        {
            "name": {"type": "string", "minLength": 1, "maxLength": 200},
            "payload": {"description": "passed to the task that waits"},
        },
        required=("name",),
        example={"name": "approved", "payload": {"by": "ana"}},
    ),
    returns={
        202: ResponseDoc(
            "the signal was delivered", ref("Signalled"), {"execution_id": examples.EXECUTION_ID, "signal": "approved"}
        )
    },
)
async def signal(context: RequestContext) -> web.StreamResponse:
    """Send a signal, which ends a wait for it. 409 if the execution does not wait for this signal."""
    body = await context.read_object()
    name = body.text("name", max_bytes=200)
    if not name and not body.problems:
        body.fault("name", "is required; give the name of the signal")
    payload = body.payload()
    body.raise_problems()
    execution = context.view.execution
    if execution.status.final:
        raise _already_finished(execution)
    if context.dry_run:
        to_stored_payload(payload)
        return json_response({"dry_run": True, "waiting": execution.status is Status.WAITING})
    taken = await context.api.service.runs.signal(execution.id, name or "", payload, actor=context.actor)
    if not taken:
        raise Conflict(f'the execution does not wait for the signal "{name}"; see its why for what it waits for')
    return json_response({"execution_id": id_text(execution.id), "signal": name}, status=202)


@route.post(
    "/executions/{id}/cancel",
    permission=Permission.OPERATE,
    summary="Cancel an execution",
    body=Body.of_fields({"reason": _REASON}, example={"reason": "started by mistake"}),
    returns={
        202: ResponseDoc(
            "`canceled`, or `running` if the execution was asked to stop",
            ref("Cancelled"),
            {"execution_id": examples.EXECUTION_ID, "status": "canceled"},
        )
    },
)
async def cancel(context: RequestContext) -> web.StreamResponse:
    """Cancel an execution. One that has not started is canceled immediately; a running one is asked to stop."""
    body = await context.read_object()
    reason = body.text("reason", max_bytes=1_000)
    body.raise_problems()
    execution = context.view.execution
    if context.dry_run:
        if execution.status.final and execution.status is not Status.CANCELED:  # canceling twice is allowed
            raise _already_finished(execution)
        planned = Status.RUNNING if execution.status is Status.RUNNING else Status.CANCELED
        answer = {"dry_run": True, "execution_id": id_text(execution.id), "status": planned.name.lower()}
        return json_response(answer)
    status = await context.api.service.runs.cancel(execution.id, message=reason, actor=context.actor)
    return json_response({"execution_id": id_text(execution.id), "status": status.name.lower()}, status=202)


@route.post(
    "/executions/{id}/replay",
    permission=Permission.OPERATE,
    summary="Replay an execution as a new one",
    body=REPLAY_BODY,
    returns=REPLAY_RESPONSE,
    idempotent_by_key=True,
    is_rate_limited=True,
)
async def replay(context: RequestContext) -> web.StreamResponse:
    """Run an execution again, as a new one that is linked to it."""
    first, runs = context.view.execution, context.api.service.runs
    options = await read_replay_body(context)
    if context.dry_run:
        return replay_dry_run_response(await runs.plan_replay(first.id, **options))
    execution_request = await runs.replay(
        first.id, **options, idempotency=context.key_for("replay", first.id), actor=context.actor
    )
    return accepted_response(context, execution_request, replayed=first)


# --- shared with other handlers


class ReplayOptions(TypedDict):
    """The arguments of a replay."""

    reason: str | None
    from_failed: bool
    tasks: tuple[str, ...] | None
    payload: Any


async def read_replay_body(context: RequestContext) -> ReplayOptions:
    """Read the body of a replay."""
    body = await context.read_object()
    options = ReplayOptions(
        reason=body.text("reason", max_bytes=4_000),
        from_failed=body.boolean("from_failed") or False,
        tasks=body.texts("tasks", max_items=MAX_TASKS) if body.present("tasks") else None,
        payload=body.payload(),
    )
    body.raise_problems()
    return options


def replay_dry_run_response(planned: PlannedReplay) -> web.Response:
    """Return the response to a dry run of a replay."""
    return json_response({"dry_run": True, "replay_of": id_text(planned.original.id)})


def accepted_response(
    context: RequestContext, execution_request: Triggered, *, replayed: Execution | None = None, **fields: Any
) -> web.Response:
    """Return a requested execution, new or created earlier with the same key. ``replayed`` is the replay's original."""
    context.requested_execution = execution_request.id
    id_ = id_text(execution_request.id)
    answer: dict[str, Any] = {
        "execution_id": id_,
        "status": execution_request.status.name.lower(),
        "created": execution_request.created,
        **fields,
    }
    if replayed is not None:
        answer["replay_of"] = id_text(replayed.id)
    where = f"{context.api.options.base_path}{V1}/executions/{id_}"
    return json_response(answer, status=202, headers={"Location": where})


def read_filter(context: RequestContext, job: bytes | None) -> ExecutionFilter:
    """Read the filter of a list of executions."""
    text = context.text("status")
    if text is None:
        return ExecutionFilter(job=job)
    if text == TROUBLED:
        return ExecutionFilter(job=job, troubled=True)
    try:
        return ExecutionFilter(job=job, status=Status[_STATUS_ALIASES.get(text.upper(), text.upper())])
    except KeyError:
        allowed = ", ".join((*(status.name.lower() for status in Status), TROUBLED))
        raise Malformed(f'invalid status "{text[:64]}"; use one of {allowed}') from None


async def list_response(
    context: RequestContext, where: ExecutionFilter, *, check: bool, id_prefix: str = ""
) -> web.Response:
    """Return a page of executions. With ``check``, those in namespaces that the caller may not see are left out."""
    runs, store = context.api.service.runs, context.api.store
    cursor = read_id_cursor(context.text("cursor")) or _cursor_before(id_prefix)
    if not check or context.sees_everything:
        page = await runs.list_json(where, limit=context.limit, cursor=cursor)
        return _write_page(page.items, page.cursor, id_prefix)
    jobs: dict[bytes, JobName] = {}

    async def read(limit: int, at: bytes | None) -> Page[Execution | Span]:
        page = await runs.list(where, limit=limit, cursor=at)
        jobs.update(await store.names_of(sorted({item.job for item in page.items} - jobs.keys())))
        return page

    def keep(item: Execution | Span) -> bool:
        return item.job in jobs and context.is_visible(jobs[item.job].namespace)

    kept = await collect_visible_page(read, keep, limit=context.limit, cursor=cursor)
    return _write_page(await runs.write_items(kept.items, jobs), kept.cursor, id_prefix)


def _write_page(items: Sequence[dict[str, Any]], cursor: bytes | None, id_prefix: str) -> web.Response:
    """Return a page. The list is in the order of ids, so the first id without the prefix ends it."""
    matching = [item for item in items if item["id"].replace("-", "").startswith(id_prefix)]
    is_last = len(matching) < len(items)
    return json_response({"items": matching, "next_cursor": None if is_last else write_cursor(cursor)})


def _read_id_prefix(text: str | None) -> str:
    if text is None:
        return ""
    if not _ID_PREFIX.fullmatch(text):
        raise Malformed(f'invalid id_prefix "{text[:64]}"; use the first digits of an id, such as 0199c3')
    return text.replace("-", "").lower()


def _cursor_before(id_prefix: str) -> bytes | None:
    """Return the cursor of a list that begins with the newest id that has the prefix."""
    after = int(id_prefix.ljust(2 * ID_BYTES, "f"), 16) + 1 if id_prefix else 0
    return after.to_bytes(ID_BYTES) if 0 < after < 1 << 8 * ID_BYTES else None


async def collect_visible_page(
    read: Callable[[int, bytes | None], Awaitable[Page[T]]],
    keep: Callable[[T], bool],
    *,
    limit: int,
    cursor: bytes | None,
) -> Page[T]:
    """Read pages until ``limit`` visible items are found. The result may be shorter and still have a cursor."""
    kept: list[T] = []
    for _ in range(_MAX_PAGES):
        page = await read(limit - len(kept), cursor)
        kept += [item for item in page.items if keep(item)]
        cursor = page.cursor
        if cursor is None or len(kept) >= limit:
            break
    return Page(items=kept, cursor=cursor)


def write_step(step: WhyStep) -> dict[str, Any]:
    """Write one step of an explanation."""
    return {"at": rfc3339(step.at_us), "verdict": step.verdict.value, "sentence": hide_userinfo(step.sentence)}


def read_execution_id(text: str) -> bytes:
    """Read the id in a path. Raises ``NotFound`` if it is not an id."""
    found = read_id(text)
    if found is None:
        raise NotFound(f'execution "{text[:200]}" not found; use the id of an execution')

    return found


def _already_finished(execution: Execution) -> Conflict:
    return Conflict(f"the execution has already ended: {execution.status.name.lower()}")
