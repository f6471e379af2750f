"""Jobs: create, list, look at, replace, change in part, delete."""

import hashlib
from functools import partial
from typing import Any

import msgspec
from aiohttp import web

from chronos.api.auth.command_permission import require_save
from chronos.api.auth.permissions import Permission
from chronos.api.errors import Malformed, StaleVersion
from chronos.api.handlers.job_selection import CHOICE, read_choice
from chronos.api.handlers.readonly_fields import check_kept, check_readonly_fields, check_state, read_sent_version
from chronos.api.handlers.save_results import changed_runs, write_saved
from chronos.api.merge_patch import merge
from chronos.api.openapi import examples
from chronos.api.pagination import read_name_cursor, write_cursor
from chronos.api.request import RequestContext
from chronos.api.responses import job_response, json_response, read_expected_version, read_if_match, stale, tag_of
from chronos.api.routing import (
    CURSOR,
    JSON,
    LIMIT,
    NAMESPACE,
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
from chronos.service.save_jobs import version_conflict as of_another_version
from chronos.service.serializers import Draft, InvalidJob, Problem, id_text, write_job
from chronos.service.serializers.identifiers import read_id

MERGE_PATCH = "application/merge-patch+json"
_LARGE = 16 << 10  # bytes of a job as it is stored
_MAX_RACES = 50  # times that somebody else may be faster than a patch that names no version

route = RouteTable("Jobs")
_JOB = ResponseDoc("the job, with its ETag", ref("Job"), examples.JOB)
_REPLACED = ResponseDoc("the job as it is now", ref("JobOrSaved"), examples.JOB)
_PLANNED = ResponseDoc("of a dry run: what would become of it", ref("JobOrSaved"), examples.JOB)


@route.post(
    "/jobs",
    permission=Permission.ADMINISTER,
    scope=Scope.BODY,
    summary="Create a job",
    query=(NAMESPACE,),
    body=Body(ref("JobInput"), examples.JOB_INPUT),
    returns={201: _JOB, 200: _PLANNED},
    idempotent_by_key=True,
    submits=True,
)
async def create(call: RequestContext) -> web.StreamResponse:
    """A new job. What was sent before with the same Idempotency-Key is answered by the job that it created then."""
    data = await call.json()
    service = call.parts.service
    draft = await call.work(partial(service.jobs.read, data, namespace=call.namespace))
    require_save(call, draft)
    check_state(data, draft, None)
    key, dry_run, save = _key(call, data), call.dry_run, service.job_saver.save
    [saved] = await save([draft], actor=call.actor, create_only=True, idempotency=key, dry_run=dry_run)
    if dry_run:
        return json_response(write_saved(saved) | {"dry_run": True})
    job = call.found_job = saved.job or await _by_id(call, saved)
    if saved.created and not (draft.immediate or draft.now):
        return json_response(write_job(job), status=201, headers={"ETag": tag_of(job)})
    return await job_response(call, job, status=201)


@route.get(
    "/jobs",
    permission=Permission.LOOK,
    scope=Scope.BODY,
    summary="List jobs, by name",
    query=(LIMIT, CURSOR, *CHOICE),
    returns={200: ResponseDoc.page_of("Job", examples.JOB)},
)
async def list_jobs(call: RequestContext) -> web.StreamResponse:
    """By namespace and name."""
    choice = read_choice(call, Permission.LOOK)
    page = await choice.page(call, call.limit, read_name_cursor(call.text("cursor")))
    last = await call.parts.service.runs.latest(page.items)
    items = [write_job(job, last_execution=last.get(job.id)) for job in page.items]
    return json_response({"items": items, "next_cursor": write_cursor(page.cursor)})


@route.get(
    "/jobs/{ref}",
    permission=Permission.LOOK,
    summary="Look at a job",
    returns={200: _JOB},
)
async def get(call: RequestContext) -> web.StreamResponse:
    """One job, by id or name."""
    return await job_response(call, call.job)


@route.put(
    "/jobs/{ref}",
    permission=Permission.ADMINISTER,
    scope=Scope.BODY,
    summary="Create or replace a job",
    query=(NAMESPACE,),
    body=Body(ref("JobFields"), examples.JOB_INPUT),
    returns={200: _REPLACED, 201: ResponseDoc("it was created", ref("Job"), examples.JOB)},
    matches=True,
    submits=True,
)
async def put(call: RequestContext) -> web.StreamResponse:
    """The job of a name becomes what the body says; it is created when there is none."""
    ref_text = call.path("ref")
    data = await call.json()
    existing = await _existing(call, ref_text)
    if existing is not None:
        name, namespace = existing.name, existing.namespace
    else:
        name, namespace = ref_text, call.namespace
        call.require(namespace)
    if isinstance(data, dict):
        data = {"name": name, **data}
    draft = await call.work(partial(call.parts.service.jobs.read, data, namespace=namespace))
    _same_job(draft, name, namespace)
    if call.request.headers.get("If-None-Match", "").strip() == "*" and existing is not None:
        raise StaleVersion(f'a job named "{name}" exists already')
    check_readonly_fields(data, draft, existing, call.parts.clock.now_us())
    version = read_sent_version(data)
    if existing is None and version is not None:
        raise Conflict(
            f'"{name}" does not exist (any more): you have version {version}; leave it out to create the job'
        )
    return await _replace(call, draft, existing, version=version)


@route.patch(
    "/jobs/{ref}",
    permission=Permission.ADMINISTER,
    summary="Change some fields of a job (merge patch)",
    body=Body(ref("JobPatch"), {"schedule": "0 10 * * *", "description": None}, types=(MERGE_PATCH, JSON)),
    returns={200: _REPLACED},
    matches=True,
    submits=True,
)
async def patch(call: RequestContext) -> web.StreamResponse:
    """Change some fields of a job (RFC 7396): null takes a field away."""
    changes = await call.json()
    if not isinstance(changes, dict):
        raise Malformed("a merge patch is an object with the fields to change")
    jobs = call.parts.service.jobs
    for race in range(_MAX_RACES):
        job = call.job
        ensure_readable(job.spec)  # else all that is not sent would be lost
        merged = partial(_read_merged_draft, jobs, job, changes)
        draft = await call.work(merged, much=call.has_much or _is_large(job))
        _same_job(draft, job.name, job.namespace)
        check_kept(changes, job.name)
        check_readonly_fields(changes, draft, job, call.parts.clock.now_us())
        try:
            return await _replace(call, draft, job, made_from_it=True, version=read_sent_version(changes))
        except Conflict:
            if read_if_match(call) is not None or read_sent_version(changes) is not None or race == _MAX_RACES - 1:
                raise
            call.found_job = await jobs.get(id_text(job.id))
    raise AssertionError("the last race is won or raised")


@route.delete(
    "/jobs/{ref}",
    permission=Permission.ADMINISTER,
    summary="Delete a job; its history remains",
    returns={200: ResponseDoc("the job as it was", ref("Job"), examples.JOB)},
    matches=True,
)
async def delete(call: RequestContext) -> web.StreamResponse:
    """Delete a job; its history remains. Answers what it was."""
    job = call.job
    expect = await read_expected_version(call, job)
    if not call.dry_run:
        try:
            await call.parts.service.jobs.delete(id_text(job.id), expect=expect, actor=call.actor)
        except Conflict:
            raise await _as_stale(call, job) from None
    return json_response(write_job(job))


# --- helpers


async def _replace(
    call: RequestContext, draft: Draft, existing: Job | None, *, made_from_it: bool = False, version: int | None = None
) -> web.StreamResponse:
    """Save a draft over what is there. What was made from a version is saved over that one only.

    Who sends an Idempotency-Key with an old version, and says just what is there already, has said it before and was
    not answered: that is no conflict.
    """
    require_save(call, draft)
    try:
        expect = await read_expected_version(call, existing)
        if existing is not None and version not in (None, existing.version):
            assert version is not None
            raise of_another_version(existing.name, existing.version, version)
    except Conflict:
        if existing is None or call.idempotency is None or not await _is_so_already(call, draft):
            raise
        expect = existing.version
    if existing is not None and (made_from_it or version is not None):
        expect = existing.version
    try:
        save = call.parts.service.job_saver.save
        [saved] = await save([draft], actor=call.actor, expect=expect, dry_run=call.dry_run)
    except Conflict:
        if existing is None or expect is None:
            raise
        raise await _as_stale(call, existing) from None
    if call.dry_run:
        return json_response(write_saved(saved) | {"dry_run": True})
    job = call.found_job = await _by_id(call, saved)
    return await job_response(call, job, status=201 if saved.created else 200, extra=changed_runs(saved))


async def _is_so_already(call: RequestContext, draft: Draft) -> bool:
    """Whether saving a draft would change nothing."""
    [planned] = await call.parts.service.job_saver.save([draft], actor=call.actor, dry_run=True)
    return not (planned.changed or planned.created)


async def _as_stale(call: RequestContext, job: Job) -> Exception:
    """Somebody was faster: 412 for those who said what they know, 409 for the others."""
    there = (await call.parts.store.jobs_by_id([job.id])).get(job.id)
    if there is None:
        return (
            StaleVersion(f'"{job.name}" does not exist any more')
            if read_if_match(call)
            else NotFound(f'no job "{job.name}"')
        )
    if read_if_match(call) is not None:
        return await stale(call, there, [str(job.version)])
    return Conflict(f'"{job.name}" changed meanwhile, to version {there.version}; read it again')


async def _existing(call: RequestContext, ref_text: str) -> Job | None:
    """The job that a PUT addresses; an id has to be there, a name need not."""
    try:
        job = await call.parts.service.jobs.get(ref_text, call.namespace)
    except NotFound:
        if read_id(ref_text) is not None:
            raise
        return None
    if not call.principal.sees(job.namespace):
        raise NotFound(f'there is no job "{ref_text[:200]}" in the namespace "{call.namespace}"')
    call.require(job.namespace)
    return job


async def _by_id(call: RequestContext, saved: SavedJob) -> Job:
    if saved.job is not None:
        return saved.job
    found = (await call.parts.store.jobs_by_id([saved.job_id])).get(saved.job_id)
    if found is None:
        raise NotFound(f'"{saved.name}" was saved, and deleted by somebody else since')
    return found


def _read_merged_draft(jobs: JobService, job: Job, changes: dict[str, Any]) -> Draft:
    return jobs.read(merge(write_job(job), changes), namespace=job.namespace)


def _is_large(job: Job) -> bool:
    """Whether reading a job again takes long."""
    return len(msgspec.json.encode(job.spec)) > _LARGE


def _key(call: RequestContext, data: Any) -> str | None:
    """The client's key for creating just this: with another body it is another request."""
    if call.idempotency is None:
        return None
    return call.key_for("create", hashlib.sha256(msgspec.json.encode(data, order="sorted")).digest())


def _same_job(draft: Draft, name: str, namespace: str) -> None:
    """A job keeps its name: it is what links its history."""
    problems: list[Problem] = []
    if draft.name != name:
        problems.append(Problem("/name", f'is "{draft.name}", and the path names "{name}"; a job keeps its name'))
    if draft.namespace != namespace:
        problems.append(Problem("/namespace", f'is "{draft.namespace}", and the job is in "{namespace}"'))
    if problems:
        raise InvalidJob(problems, name=name)
