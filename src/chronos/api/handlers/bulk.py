"""Many jobs in one request: saved independently (bulk), or as one change of an owner (apply)."""

from collections.abc import Callable
from functools import partial
from typing import Any

import msgspec
from aiohttp import web
from msgspec.structs import replace

from chronos.api.auth.command_permission import require_targets
from chronos.api.auth.permissions import Permission
from chronos.api.errors import Forbidden, InvalidBody
from chronos.api.handlers.readonly_fields import check_state, has_unusual_state
from chronos.api.handlers.save_results import to_saved_response, write_plan, write_refused
from chronos.api.json_body import write_json
from chronos.api.openapi import examples
from chronos.api.problems import kind_of
from chronos.api.request import RequestContext
from chronos.api.responses import json_response
from chronos.api.routing import NAMESPACE, UPDATE, Body, ResponseDoc, RouteTable, Scope, ref
from chronos.errors import ChronosError
from chronos.service.save_jobs import MAX_APPLIED, SavedJob
from chronos.service.serializers import Draft, InvalidJob, Problem
from chronos.service.serializers.problems import MAX_PROBLEMS

MAX_BULK = 50_000
_MAX_NAME = 1_024  # characters of a rejected name in the response
_LARGE_JOB_BYTES = 16 << 10  # larger jobs are read in a thread

route = RouteTable("Jobs")


@route.post(
    "/jobs/bulk",
    permission=Permission.ADMINISTER,
    scope=Scope.BODY,
    summary="Create or replace many jobs independently",
    query=(NAMESPACE,),
    body=Body.of_fields(
        {"jobs": {"type": "array", "items": {}, "description": "each a `JobInput`"}},
        required=("jobs",),
        example={"jobs": [examples.JOB_INPUT]},
    ),
    returns={200: ResponseDoc("one result per job, in order", ref("Bulk"), examples.BULK)},
    is_rate_limited=True,
)
async def bulk(context: RequestContext) -> web.StreamResponse:
    """Create or replace many jobs. An invalid job does not affect the others."""
    data = await context.json()
    items = _read_jobs(data, {"jobs"}, limit=MAX_BULK)
    read = await _read_drafts(context, items)
    if (denied := next((one for one in read if isinstance(one, Forbidden)), None)) is not None:
        context.record_denial(denied)
    drafts = [draft for draft in read if isinstance(draft, Draft)]
    done = iter(await context.api.service.job_saver.save_each(drafts, actor=context.actor, dry_run=context.dry_run))
    counts = dict.fromkeys(("created", "changed", "unchanged", "failed"), 0)
    results: list[msgspec.Raw] = []

    errors_left = MAX_PROBLEMS

    def write_one(pair: tuple[Any, Draft | ChronosError]) -> None:
        nonlocal errors_left
        data, draft = pair
        result = next(done) if isinstance(draft, Draft) else draft
        if isinstance(result, SavedJob):
            saved = to_saved_response(result)
            counts[saved.result] += 1
            results.append(msgspec.Raw(msgspec.json.encode(saved)))
        else:
            counts["failed"] += 1
            refusal = _write_refused(result, data, errors_left)
            errors_left -= len(refusal.get("errors", ()))
            results.append(msgspec.Raw(write_json(refusal)))

    await context.api.slicer.each(list(zip(items, read, strict=True)), write_one)
    return json_response({**counts, "dry_run": context.dry_run, "results": results})


@route.post(
    "/apply",
    permission=Permission.ADMINISTER,
    scope=Scope.BODY,
    summary="Apply the jobs of an owner, all or nothing",
    query=(NAMESPACE, UPDATE),
    body=Body.of_fields(
        {
            "jobs": {"type": "array", "items": ref("JobInput")},
            "owner": {"type": "string", "minLength": 1, "maxLength": 200},
            "prune": {"type": ["boolean", "null"], "description": "delete the owner's jobs that are not listed"},
            "dry_run": {"type": ["boolean", "null"], "description": "return the plan without changing anything"},
        },
        required=("jobs", "owner"),
        example={"jobs": [examples.JOB_INPUT], "owner": "billing", "prune": True},
    ),
    returns={200: ResponseDoc("the plan", ref("Plan"), examples.PLAN)},
    is_rate_limited=True,
)
async def apply(context: RequestContext) -> web.StreamResponse:
    """Make the listed jobs those of an owner, all or nothing. `prune` deletes the owner's other jobs."""
    data = await context.json()
    items = _read_jobs(data, {"jobs", "owner", "prune", "dry_run"}, limit=MAX_APPLIED)
    owner, prune, dry_run = (
        _read_owner(data),
        _read_boolean(data, "prune"),
        _read_boolean(data, "dry_run") or context.dry_run,
    )
    problems: list[Problem] = []
    unlisted = 0
    drafts: list[Draft] = []
    index_of: dict[tuple[str, str], int] = {}
    read = await _read_drafts(context, items)

    def collect(index: int) -> None:
        nonlocal unlisted
        draft = read[index]
        if isinstance(draft, Draft):
            drafts.append(draft)
            first = index_of.setdefault((draft.namespace, draft.name), index)
            if first != index:
                problems.append(
                    Problem(f"/jobs/{index}/name", f'is "{draft.name}", the name of /jobs/{first}; name each job once')
                )
            if draft.spec.owner not in (None, owner):
                problems.append(
                    Problem(
                        f"/jobs/{index}/owner",
                        f'is "{draft.spec.owner}", but the owner of this request is "{owner}"; leave it out',
                    )
                )
        elif isinstance(draft, InvalidJob):
            unlisted += draft.more
            problems.extend(Problem(f"/jobs/{index}{one.pointer}", one.message) for one in draft.problems)
        else:
            raise draft

    await context.api.slicer.each(range(len(read)), collect)
    if problems:
        raise InvalidBody(problems, more=unlisted)
    if not drafts:
        context.require(context.namespace)  # this namespace is pruned
    try:
        if (policy := context.update_policy) is not None:
            drafts = await context.api.slicer.map(drafts, lambda draft: replace(draft, update_policy=policy))
        plan = await context.api.service.job_saver.apply(
            drafts, owner=owner, prune=prune, namespace=context.namespace, dry_run=dry_run, actor=context.actor
        )
    except InvalidJob as error:  # a problem that depends on the stored job or the time
        at = next((at for (_, name), at in index_of.items() if name == error.name), None)
        if at is None:
            raise
        raise InvalidBody([Problem(f"/jobs/{at}{one.pointer}", one.message) for one in error.problems]) from None
    return json_response(await write_plan(plan, context.api.slicer, dry_run=dry_run))


# --- helpers


async def _read_drafts(context: RequestContext, items: list[Any]) -> list[Draft | ChronosError]:
    """Read each job as a draft, or return its error."""
    drafts: list[Draft | ChronosError] = []
    unusual_states: list[int] = []  # indexes of jobs whose state must be checked
    allowed: set[str] = set()  # namespaces whose permission is already checked
    read, namespace = context.api.service.jobs.read, context.namespace

    def read_one(data: Any) -> None:
        try:
            draft = read(data, namespace=namespace)
            if draft.namespace not in allowed:
                context.require(draft.namespace)
                allowed.add(draft.namespace)
            require_targets(context, draft.namespace, draft.spec)
            if has_unusual_state(data, draft):  # rare
                unusual_states.append(len(drafts))
            drafts.append(draft)
        except ChronosError as error:
            drafts.append(error)

    if context.has_large_body:
        await _read_each(context, items, read_one)
    else:
        await context.api.slicer.each(items, read_one)
    for index in unusual_states:
        draft = drafts[index]
        assert isinstance(draft, Draft)
        try:
            check_state(items[index], draft, await context.api.store.job_named(draft.namespace, draft.name))
        except InvalidJob as error:
            drafts[index] = error
    return drafts


async def _read_each(context: RequestContext, items: list[Any], read: Callable[[Any], None]) -> None:
    """Read jobs in time slices, and each large one in a thread."""
    large: set[int] = set()

    def note_if_large(index: int) -> None:
        try:
            if len(msgspec.json.encode(items[index])) > _LARGE_JOB_BYTES:
                large.add(index)
        except UnicodeEncodeError:  # an unpaired surrogate
            large.add(index)

    await context.api.slicer.each(range(len(items)), note_if_large)
    begin = 0
    for index in sorted(large):
        await context.api.slicer.each(items[begin:index], read)
        await context.api.slicer.run_in_thread(partial(read, items[index]))
        begin = index + 1
    await context.api.slicer.each(items[begin:], read)


def _write_refused(error: ChronosError, data: Any, limit: int) -> dict[str, Any]:
    kind = kind_of(error)
    name = data.get("name") if isinstance(data, dict) and isinstance(data.get("name"), str) else None
    name = None if name is None else name[:_MAX_NAME]
    return write_refused(error, code=kind.code, status=kind.status, name=name, limit=limit)


def _read_jobs(data: Any, known_fields: set[str], *, limit: int) -> list[Any]:
    jobs = data.get("jobs") if isinstance(data, dict) else None
    if not isinstance(data, dict) or not isinstance(jobs, list):
        raise InvalidBody([Problem("/jobs", "is required; send an object with a list of jobs")])
    if unknown := sorted(set(data) - known_fields):
        raise InvalidBody(
            [Problem(f"/{unknown[0][:64]}", f"unknown field; known fields: {', '.join(sorted(known_fields))}")]
        )
    if len(jobs) > limit:
        raise InvalidBody([Problem("/jobs", f"has {len(jobs)} entries, allowed {limit}; send them in parts")])
    return jobs


def _read_owner(data: dict[str, Any]) -> str:
    owner = data.get("owner")
    if not isinstance(owner, str) or not 0 < len(owner.encode("utf-8", "replace")) <= 200 or not owner.isprintable():
        raise InvalidBody([Problem("/owner", "is required; name the owner of these jobs in up to 200 characters")])
    return owner


def _read_boolean(data: dict[str, Any], name: str) -> bool:
    value = data.get(name)
    if value is None or isinstance(value, bool):
        return bool(value)
    raise InvalidBody([Problem(f"/{name}", "must be true or false")])
