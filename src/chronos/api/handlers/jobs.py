"""Jobs: create, list, get, replace, patch, delete."""

import hashlib
from functools import partial
from typing import Any

import msgspec
from aiohttp import web
from msgspec.structs import replace

from chronos.api.auth.command_permission import require_save
from chronos.api.auth.permissions import Permission
from chronos.api.errors import Malformed, StaleVersion
from chronos.api.handlers.job_details import (
    DERIVED_SELECTION,
    DETAIL,
    INCLUDE,
    JOB_PAGE,
    SORT,
    read_derived_selection,
    read_job_details,
    read_sort,
)
from chronos.api.handlers.job_selection import SELECTION, read_selection
from chronos.api.handlers.readonly_fields import check_kept, check_readonly_fields, check_state, read_sent_version
from chronos.api.handlers.save_results import save_facts, write_saved
from chronos.api.merge_patch import merge
from chronos.api.openapi import examples
from chronos.api.pagination import read_job_cursor, write_cursor
from chronos.api.request import RequestContext
from chronos.api.responses import (
    job_response,
    json_response,
    make_stale_error,
    read_expected_version,
    read_if_match,
    to_etag,
)
from chronos.api.routing import (
    CURSOR,
    JSON,
    LIMIT,
    NAMESPACE,
    UPDATE,
    Body,
    ResponseDoc,
    RouteTable,
    Scope,
    ref,
)
from chronos.core.job import Job, ensure_readable
from chronos.errors import Conflict, NotFound
from chronos.service.jobs import JobService
from chronos.service.save_jobs import SavedJob
from chronos.service.save_jobs import version_conflict as version_conflict_of
from chronos.service.serializers import Draft, InvalidJob, Problem, id_text, write_job
from chronos.service.serializers.identifiers import read_id
from chronos.service.views.json_shapes import write_job_facts

MERGE_PATCH = "application/merge-patch+json"
_LARGE = 16 << 10  # bytes of a stored job that is read in a thread
_MAX_RACES = 50  # lost races before a patch without a version gives up

route = RouteTable("Jobs")
_JOB_RESPONSE = ResponseDoc("the job, with its ETag", ref("Job"), examples.JOB)
_CREATED_RESPONSE = ResponseDoc("the new job, with its ETag", ref("ChangedJob"), examples.JOB)
_REPLACED_RESPONSE = ResponseDoc("the job after the change", ref("JobOrSaved"), examples.JOB)
_DRY_RUN_RESPONSE = ResponseDoc("the result of a dry run", ref("JobOrSaved"), examples.JOB)


@route.post(
    "/jobs",
    permission=Permission.ADMINISTER,
    scope=Scope.BODY,
    summary="Create a job",
    query=(NAMESPACE,),
    body=Body(ref("JobInput"), examples.JOB_INPUT),
    returns={201: _CREATED_RESPONSE, 200: _DRY_RUN_RESPONSE},
    idempotent_by_key=True,
    is_rate_limited=True,
)
async def create(context: RequestContext) -> web.StreamResponse:
    """Create a job. A repeated request with the same Idempotency-Key returns the job that the first one created."""
    data = await context.json()
    service = context.api.service
    draft = await context.run(partial(service.jobs.read, data, namespace=context.namespace))
    require_save(context, draft)
    check_state(data, draft, None)
    key, dry_run, save = _idempotency_key(context, data), context.dry_run, service.job_saver.save
    [saved] = await save([draft], actor=context.actor, create_only=True, idempotency=key, dry_run=dry_run)
    if dry_run:
        return json_response(write_saved(saved) | {"dry_run": True})
    job = context.found_job = saved.job or await _read_saved(context, saved)
    if saved.created and not (draft.runs_on_creation or draft.runs_on_every_change):
        return json_response(write_job(job) | save_facts(saved), status=201, headers={"ETag": to_etag(job)})
    return await job_response(context, job, status=201, extra=save_facts(saved))


@route.get(
    "/jobs",
    permission=Permission.VIEW,
    scope=Scope.BODY,
    summary="List jobs by name",
    query=(LIMIT, CURSOR, SORT, *SELECTION, *DERIVED_SELECTION, DETAIL, INCLUDE),
    returns={200: JOB_PAGE},
)
async def list_jobs(context: RequestContext) -> web.StreamResponse:
    """List jobs, each with its last execution. A page that is not `complete` is short: `next_cursor` continues it."""
    selection = read_selection(context, Permission.VIEW)
    where, sort = read_derived_selection(context, selection), read_sort(context)
    cursor = read_job_cursor(context.text("cursor"), sort)
    page = await context.api.store.list_jobs(where, limit=context.limit, cursor=cursor, sort=sort)
    last = await context.api.service.runs.latest_json(page.items)
    now_us = context.api.clock.now_us()
    extra = await read_job_details(context, page.items)
    items = [
        write_job(job, now_us=now_us, last_execution=last.get(job.id)) | extra.get(job.id, {}) for job in page.items
    ]
    answer = {
        "items": items,
        "next_cursor": write_cursor(page.cursor),
        "previous_cursor": write_cursor(page.previous),
        "complete": page.complete,
    }
    return json_response(answer)


@route.get(
    "/jobs/{ref}",
    permission=Permission.VIEW,
    summary="Get a job",
    query=(DETAIL,),
    returns={200: _JOB_RESPONSE},
)
async def get(context: RequestContext) -> web.StreamResponse:
    """Get a job by id or name, with its last execution; with `detail`, also its status, recent runs and relations."""
    if not context.boolean("detail"):
        return await job_response(context, context.job)
    facts = await context.api.service.views.job_facts.get(context.job)
    return await job_response(context, context.job, extra=write_job_facts(facts))


@route.put(
    "/jobs/{ref}",
    permission=Permission.ADMINISTER,
    scope=Scope.BODY,
    summary="Create or replace a job",
    query=(NAMESPACE, UPDATE),
    body=Body(ref("JobFields"), examples.JOB_INPUT),
    returns={200: _REPLACED_RESPONSE, 201: _CREATED_RESPONSE},
    honours_if_match=True,
    is_rate_limited=True,
)
async def put(context: RequestContext) -> web.StreamResponse:
    """Replace the definition of a job, or create the job if it does not exist."""
    ref_text = context.path("ref")
    data = await context.json()
    existing = await find_existing(context, ref_text)
    if existing is not None:
        name, namespace = existing.name, existing.namespace
    else:
        name, namespace = ref_text, context.namespace
        context.require(namespace)
    if isinstance(data, dict):
        data = {"name": name, **data}
    draft = await context.run(partial(context.api.service.jobs.read, data, namespace=namespace))
    _check_identity(draft, name, namespace)
    if context.request.headers.get("If-None-Match", "").strip() == "*" and existing is not None:
        raise StaleVersion(f'job "{name}" already exists; leave If-None-Match out to replace it')
    check_readonly_fields(data, draft, existing, context.api.clock.now_us())
    version = read_sent_version(data)
    if existing is None and version is not None:
        raise Conflict(
            f'job "{name}" not found, but you sent version {version}; leave the version out to create the job'
        )
    return await _replace(context, draft, existing, version=version)


@route.patch(
    "/jobs/{ref}",
    permission=Permission.ADMINISTER,
    summary="Change some fields of a job",
    query=(UPDATE,),
    body=Body(ref("JobPatch"), {"schedule": "0 10 * * *", "description": None}, types=(MERGE_PATCH, JSON)),
    returns={200: _REPLACED_RESPONSE},
    honours_if_match=True,
    is_rate_limited=True,
)
async def patch(context: RequestContext) -> web.StreamResponse:
    """Change some fields of a job with a merge patch (RFC 7396). Null removes a field."""
    changes = await context.json()
    if not isinstance(changes, dict):
        raise Malformed("a merge patch must be an object with the fields to change")
    jobs = context.api.service.jobs
    for race in range(_MAX_RACES):
        job = context.job
        ensure_readable(job.spec)  # otherwise the fields that are not sent would be lost
        merged = partial(_read_merged_draft, jobs, job, changes)
        draft = await context.run(merged, is_large=context.has_large_body or _is_large(job))
        _check_identity(draft, job.name, job.namespace)
        check_kept(changes, job.name)
        check_readonly_fields(changes, draft, job, context.api.clock.now_us())
        try:
            return await _replace(context, draft, job, is_based_on_existing=True, version=read_sent_version(changes))
        except Conflict:
            if read_if_match(context) is not None or read_sent_version(changes) is not None or race == _MAX_RACES - 1:
                raise
            context.found_job = await jobs.get(id_text(job.id))
    raise AssertionError("the last race is won or raised")


@route.delete(
    "/jobs/{ref}",
    permission=Permission.ADMINISTER,
    summary="Delete a job; its history remains",
    returns={200: ResponseDoc("the deleted job", ref("Job"), examples.JOB)},
    honours_if_match=True,
)
async def delete(context: RequestContext) -> web.StreamResponse:
    """Delete a job and return it. Its history remains."""
    job = context.job
    expect = await read_expected_version(context, job)
    if not context.dry_run:
        try:
            await context.api.service.jobs.delete(id_text(job.id), expect=expect, actor=context.actor)
        except Conflict:
            raise await _to_conflict(context, job) from None
    return json_response(write_job(job))


# --- helpers


async def _replace(
    context: RequestContext,
    draft: Draft,
    existing: Job | None,
    *,
    is_based_on_existing: bool = False,
    version: int | None = None,
) -> web.StreamResponse:
    """Save a draft over the existing job. A draft that is based on a version is saved over that version only.

    A request with an Idempotency-Key and an old version whose draft equals the current job is a retry, not a conflict:
    its first response was lost.
    """
    require_save(context, draft)
    draft = replace(draft, update_policy=context.update_policy)
    try:
        expect = await read_expected_version(context, existing)
        if existing is not None and version not in (None, existing.version):
            assert version is not None
            raise version_conflict_of(existing.name, existing.version, version)
    except Conflict:
        if existing is None or context.idempotency is None or not await _is_unchanged(context, draft):
            raise
        expect = existing.version
    if existing is not None and (is_based_on_existing or version is not None):
        expect = existing.version
    try:
        save = context.api.service.job_saver.save
        [saved] = await save([draft], actor=context.actor, expect=expect, dry_run=context.dry_run)
    except Conflict:
        if existing is None or expect is None:
            raise
        raise await _to_conflict(context, existing) from None
    if context.dry_run:
        return json_response(write_saved(saved) | {"dry_run": True})
    job = context.found_job = await _read_saved(context, saved)
    return await job_response(context, job, status=201 if saved.created else 200, extra=save_facts(saved))


async def _is_unchanged(context: RequestContext, draft: Draft) -> bool:
    """Return whether saving the draft would change nothing."""
    [planned] = await context.api.service.job_saver.save([draft], actor=context.actor, dry_run=True)
    return not (planned.changed or planned.created)


async def _to_conflict(context: RequestContext, job: Job) -> Exception:
    """Return the error after a lost race: 412 if the client sent If-Match, 409 otherwise."""
    current = (await context.api.store.jobs_by_id([job.id])).get(job.id)
    if current is None:
        return (
            StaleVersion(f'job "{job.name}" was deleted since you read it')
            if read_if_match(context)
            else NotFound(f'job "{job.name}" not found')
        )
    if read_if_match(context) is not None:
        return await make_stale_error(context, current, [str(job.version)])
    return Conflict(f'"{job.name}" was changed meanwhile to version {current.version}; read it again')


async def find_existing(context: RequestContext, ref_text: str) -> Job | None:
    """Find the job of a PUT. An id must exist; a name need not."""
    try:
        job = await context.api.service.jobs.get(ref_text, context.namespace)
    except NotFound:
        if read_id(ref_text) is not None:
            raise
        return None
    if not context.principal.sees(job.namespace):
        raise NotFound(f'job "{ref_text[:200]}" not found in the namespace "{context.namespace}"')
    context.require(job.namespace)
    return job


async def _read_saved(context: RequestContext, saved: SavedJob) -> Job:
    if saved.job is not None:
        return saved.job
    job = (await context.api.store.jobs_by_id([saved.job_id])).get(saved.job_id)
    if job is None:
        raise NotFound(f'"{saved.name}" was saved, but another client has deleted it since')
    return job


def _read_merged_draft(jobs: JobService, job: Job, changes: dict[str, Any]) -> Draft:
    return jobs.read(merge(write_job(job), changes, jobs.target_fields), namespace=job.namespace)


def _is_large(job: Job) -> bool:
    """Return whether reading the job again takes long."""
    return len(msgspec.json.encode(job.spec)) > _LARGE


def _idempotency_key(context: RequestContext, data: Any) -> str | None:
    """Return the client's key, scoped to this body: the same key with another body is another request."""
    if context.idempotency is None:
        return None
    return context.key_for("create", hashlib.sha256(msgspec.json.encode(data, order="sorted")).digest())


def _check_identity(draft: Draft, name: str, namespace: str) -> None:
    """Raise ``InvalidJob`` if the draft changes the name or namespace, which link a job to its history."""
    problems: list[Problem] = []
    if draft.name != name:
        problems.append(Problem("/name", f'is "{draft.name}", but the path has "{name}"; a job cannot be renamed'))
    if draft.namespace != namespace:
        problems.append(
            Problem("/namespace", f'is "{draft.namespace}", but the job is in "{namespace}"; a job cannot be moved')
        )
    if problems:
        raise InvalidJob(problems, name=name)
