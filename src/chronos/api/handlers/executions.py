"""Executions: list, get, explain, signal, cancel, replay."""

import re
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
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
from chronos.core.execution import Cause, Execution, Span, Status
from chronos.core.ids import ID_BYTES
from chronos.core.schedule.timezones import get_zone
from chronos.errors import Conflict, Invalid, NotFound
from chronos.service.execution_filter import STATUS_WORDS, ExecutionSelection, select_executions
from chronos.service.replayed_tasks import PlannedReplay
from chronos.service.run_requests import to_stored_payload
from chronos.service.serializers import id_text, read_id
from chronos.service.serializers.job import MAX_TASKS
from chronos.service.views.json_shapes import write_neighbours, write_why_step
from chronos.service.why import WhyStep
from chronos.store.commands import Triggered
from chronos.store.contract import JobName, Page

T = TypeVar("T")

_INSTANT = {"type": "string", "format": "date-time"}
_ID_PREFIX = re.compile(r"[0-9a-fA-F-]{1,36}", re.ASCII)
_MAX_PAGES = 20  # that one request may read to find visible items

route = RouteTable("Executions")
STATUS = Param(
    name="status",
    description=(
        "only executions of this status; if repeated, of any. `troubled` selects those that failed, were missed, "
        "are stale or completed with errors; `pending` those that have not started; `in_progress` those that have "
        "started and are not over, also while they wait; `timed_out` those that failed because of a timeout; `not_run` "
        "those that were skipped or missed. `success` is accepted for `succeeded`, and `cancelled` for `canceled`"
    ),
    schema={"type": "array", "items": {"type": "string", "enum": list(STATUS_WORDS)}, "maxItems": 20},
)
RUN_FILTERS = (
    STATUS,
    Param(
        name="trigger",
        description="only executions that exist for this reason; if repeated, for any of them",
        schema={
            "type": "array",
            "items": {"type": "string", "enum": [cause.name.lower() for cause in Cause]},
            "maxItems": 10,
        },
    ),
    Param(name="node", description="only executions that this node ran last, its name or number"),
    Param(name="from", description="only executions due or requested from then on", schema=_INSTANT),
    Param(name="to", description="only executions due or requested before then", schema=_INSTANT),
)
DETAIL = Param(name="detail", description="add what people look for", schema={"type": "boolean", "default": False})
TIMEZONE = Param(name="timezone", description="the zone of times in sentences; by default that of the job")
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
        *RUN_FILTERS,
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
    return await list_response(context, await read_filter(context, job), check=job is None, id_prefix=prefix)


@route.get(
    "/executions/{id}",
    permission=Permission.VIEW,
    summary="Get an execution with its tasks, attempts and report",
    query=(DETAIL,),
    returns={200: ResponseDoc("the execution", ref("Execution"), examples.EXECUTION_SHOWN)},
)
async def get(context: RequestContext) -> web.StreamResponse:
    """Get an execution with its tasks, attempts and report.

    With `detail`, also its queue and labels, what its tasks need, their progress, and the runs before and after it.
    """
    if not context.boolean("detail"):
        return json_response(await context.api.service.runs.get_json(context.view.execution.id))
    views, execution = context.api.service.views, context.view.execution
    body = await views.run_detail.body(context.view)
    return json_response(body | write_neighbours(await views.runs.neighbours(execution)))


@route.get(
    "/executions/{id}/why",
    permission=Permission.VIEW,
    summary="Explain what happened to an execution",
    query=(DETAIL, TIMEZONE),
    returns={200: ResponseDoc("the decisions, in order", ref("Why"), examples.WHY)},
)
async def why(context: RequestContext) -> web.StreamResponse:
    """Explain what happened to an execution and why. Times in sentences are in the zone of the job.

    With `detail`, each step also has its task, attempt, references and numbers, and there are more steps: claims,
    limits, backoff and what followed.
    """
    detail, zone = context.boolean("detail"), read_timezone(context)
    steps = await context.api.service.why.why_execution(context.view.execution.id, detail=detail, zone=zone)
    return why_response(steps, detail=detail)


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


async def read_filter(context: RequestContext, job: bytes | None) -> ExecutionSelection:
    """Read the filter of a list of executions."""
    try:
        selection = select_executions(_read_words(context, "status"), job)
    except Invalid as error:
        raise Malformed(str(error)) from None
    causes = []
    for text in _read_words(context, "trigger"):
        if text.upper() not in Cause.__members__:
            allowed = ", ".join(cause.name.lower() for cause in Cause)
            raise Malformed(f'invalid trigger "{text[:64]}"; use one of {allowed}')
        causes.append(Cause[text.upper()])
    where = replace(
        selection.where,
        causes=tuple(causes),
        node=await _read_node(context),
        from_us=context.instant_us("from"),
        to_us=context.instant_us("to"),
    )
    return replace(selection, where=where)


def _read_words(context: RequestContext, name: str) -> list[str]:
    """Return the values of a parameter, which may be repeated or separated by commas."""
    return [word for text in context.texts(name) for word in text.split(",")]


async def _read_node(context: RequestContext) -> int | None:
    """Return the number of the requested node. Of several incarnations with its name, the latest counts."""
    text = context.text("node")
    if text is None:
        return None
    if text.isascii() and text.isdigit() and len(text) < 10:
        return int(text)
    numbers = [node.number for node in await context.api.store.nodes() if node.name == text]
    if not numbers:
        raise NotFound(f'node "{text[:200]}" not found; list the nodes to see their names')
    return max(numbers)


def read_timezone(context: RequestContext) -> str | None:
    """Return the requested time zone. Raises ``Malformed`` for an unknown one."""
    zone = context.text("timezone")
    if zone is not None:
        try:
            get_zone(zone)
        except ValueError as error:
            raise Malformed(str(error)) from None
    return zone


def why_response(steps: Sequence[WhyStep], *, detail: bool) -> web.Response:
    """Return an explanation; with ``detail``, in full."""
    return json_response({"steps": [write_why_step(step) if detail else write_step(step) for step in steps]})


async def list_response(
    context: RequestContext, selection: ExecutionSelection, *, check: bool, id_prefix: str = ""
) -> web.Response:
    """Return a page of executions. With ``check``, those in namespaces that the caller may not see are left out."""
    runs, store = context.api.service.runs, context.api.store
    cursor = read_id_cursor(context.text("cursor")) or _cursor_before(id_prefix)
    where, sees_all = selection.where, not check or context.sees_everything
    if sees_all and selection.keep is None:
        page = await runs.list_json(where, limit=context.limit, cursor=cursor)
        return _write_page(page.items, page.cursor, id_prefix, complete=page.complete)
    jobs: dict[bytes, JobName] = {}

    async def read(limit: int, at: bytes | None) -> Page[Execution | Span]:
        page = await runs.list(where, limit=limit, cursor=at)
        jobs.update(await store.names_of(sorted({item.job for item in page.items} - jobs.keys())))
        return page

    def keep(item: Execution | Span) -> bool:
        if selection.keep is not None and not selection.keep(item):
            return False
        return sees_all or (item.job in jobs and context.is_visible(jobs[item.job].namespace))

    kept = await collect_visible_page(read, keep, limit=context.limit, cursor=cursor)
    return _write_page(await runs.write_items(kept.items, jobs), kept.cursor, id_prefix, complete=kept.complete)


def _write_page(
    items: Sequence[dict[str, Any]], cursor: bytes | None, id_prefix: str, *, complete: bool
) -> web.Response:
    """Return a page. The list is in the order of ids, so the first id without the prefix ends it."""
    matching = [item for item in items if item["id"].replace("-", "").startswith(id_prefix)]
    is_last = len(matching) < len(items)
    next_cursor = None if is_last else write_cursor(cursor)
    return json_response({"items": matching, "next_cursor": next_cursor, "complete": is_last or complete})


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
    return Page(items=kept, cursor=cursor, complete=cursor is None or len(kept) >= limit)


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
