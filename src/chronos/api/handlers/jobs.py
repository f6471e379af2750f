"""Jobs: create, list, look at, replace, change in part, delete."""

import hashlib
from functools import partial
from typing import Any

import msgspec
from aiohttp import web

from chronos.api import examples
from chronos.api.access import Permission
from chronos.api.answers import answer, expected, job_answer, matches, stale, tag_of
from chronos.api.call import Call
from chronos.api.choosing import CHOICE, read_choice
from chronos.api.commands import require_save
from chronos.api.cursors import read_name_cursor, write_cursor
from chronos.api.errors import Malformed, Stale
from chronos.api.facts import check_facts, check_kept, check_state, version_said
from chronos.api.merge import merge
from chronos.api.plans import changed_runs, write_saved
from chronos.api.routes import (
    CURSOR,
    DRY_RUN,
    JSON,
    LIMIT,
    NAMESPACE,
    V1,
    Answer,
    Body,
    Route,
    Scope,
    page_of,
    ref,
)
from chronos.core.job import Job, readable
from chronos.errors import Conflict, NotFound
from chronos.service.jobs import Jobs
from chronos.service.shapes import Draft, InvalidJob, Problem, id_text, write_job
from chronos.service.shapes.names import read_id
from chronos.service.writing import SavedJob
from chronos.service.writing import stale as of_another_version

MERGE_PATCH = "application/merge-patch+json"
_LARGE = 16 << 10  # bytes of a job as it is stored
_RACES = 50  # times that somebody else may be faster than a patch that names no version


async def create(call: Call) -> web.StreamResponse:
    """A new job. What was sent before with the same Idempotency-Key is answered by the job that it created then."""
    data = await call.json()
    service = call.parts.service
    draft = await call.work(partial(service.jobs.read, data, namespace=call.namespace))
    require_save(call, draft)
    check_state(data, draft, None)
    key, dry_run, save = _key(call, data), call.dry_run, service.job_saver.save
    [saved] = await save([draft], actor=call.actor, create_only=True, idempotency=key, dry_run=dry_run)
    if dry_run:
        return answer(write_saved(saved) | {"dry_run": True})
    job = call.found_job = saved.job or await _by_id(call, saved)
    if saved.created and not (draft.immediate or draft.now):
        return answer(write_job(job), status=201, headers={"ETag": tag_of(job)})
    return await job_answer(call, job, status=201)


async def list_jobs(call: Call) -> web.StreamResponse:
    """By namespace and name."""
    choice = read_choice(call, Permission.LOOK)
    page = await choice.page(call, call.limit, read_name_cursor(call.text("cursor")))
    last = await call.parts.service.runs.latest(page.items)
    items = [write_job(job, last_execution=last.get(job.id)) for job in page.items]
    return answer({"items": items, "next_cursor": write_cursor(page.cursor)})


async def get(call: Call) -> web.StreamResponse:
    """One job, by id or name."""
    return await job_answer(call, call.job)


async def put(call: Call) -> web.StreamResponse:
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
        raise Stale(f'a job named "{name}" exists already')
    check_facts(data, draft, existing, call.parts.clock.now_us())
    version = version_said(data)
    if existing is None and version is not None:
        raise Conflict(
            f'"{name}" does not exist (any more): you have version {version}; leave it out to create the job'
        )
    return await _replace(call, draft, existing, version=version)


async def patch(call: Call) -> web.StreamResponse:
    """Change some fields of a job (RFC 7396): null takes a field away."""
    changes = await call.json()
    if not isinstance(changes, dict):
        raise Malformed("a merge patch is an object with the fields to change")
    jobs = call.parts.service.jobs
    for race in range(_RACES):
        job = call.job
        readable(job.spec)  # else all that is not sent would be lost
        merged = partial(_merged, jobs, job, changes)
        draft = await call.work(merged, much=call.has_much or _is_large(job))
        _same_job(draft, job.name, job.namespace)
        check_kept(changes, job.name)
        check_facts(changes, draft, job, call.parts.clock.now_us())
        try:
            return await _replace(call, draft, job, made_from_it=True, version=version_said(changes))
        except Conflict:
            if matches(call) is not None or version_said(changes) is not None or race == _RACES - 1:
                raise
            call.found_job = await jobs.get(id_text(job.id))
    raise AssertionError("the last race is won or raised")


async def delete(call: Call) -> web.StreamResponse:
    """Delete a job; its history remains. Answers what it was."""
    job = call.job
    expect = await expected(call, job)
    if not call.dry_run:
        try:
            await call.parts.service.jobs.delete(id_text(job.id), expect=expect, actor=call.actor)
        except Conflict:
            raise await _as_stale(call, job) from None
    return answer(write_job(job))


# --- helpers


async def _replace(
    call: Call, draft: Draft, existing: Job | None, *, made_from_it: bool = False, version: int | None = None
) -> web.StreamResponse:
    """Save a draft over what is there. What was made from a version is saved over that one only.

    Who sends an Idempotency-Key with an old version, and says just what is there already, has said it before and was
    not answered: that is no conflict.
    """
    require_save(call, draft)
    try:
        expect = await expected(call, existing)
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
        return answer(write_saved(saved) | {"dry_run": True})
    job = call.found_job = await _by_id(call, saved)
    return await job_answer(call, job, status=201 if saved.created else 200, extra=changed_runs(saved))


async def _is_so_already(call: Call, draft: Draft) -> bool:
    """Whether saving a draft would change nothing."""
    [planned] = await call.parts.service.job_saver.save([draft], actor=call.actor, dry_run=True)
    return not (planned.changed or planned.created)


async def _as_stale(call: Call, job: Job) -> Exception:
    """Somebody was faster: 412 for those who said what they know, 409 for the others."""
    there = (await call.parts.store.jobs_by_id([job.id])).get(job.id)
    if there is None:
        return Stale(f'"{job.name}" does not exist any more') if matches(call) else NotFound(f'no job "{job.name}"')
    if matches(call) is not None:
        return await stale(call, there, [str(job.version)])
    return Conflict(f'"{job.name}" changed meanwhile, to version {there.version}; read it again')


async def _existing(call: Call, ref_text: str) -> Job | None:
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


async def _by_id(call: Call, saved: SavedJob) -> Job:
    if saved.job is not None:
        return saved.job
    found = (await call.parts.store.jobs_by_id([saved.job_id])).get(saved.job_id)
    if found is None:
        raise NotFound(f'"{saved.name}" was saved, and deleted by somebody else since')
    return found


def _merged(jobs: Jobs, job: Job, changes: dict[str, Any]) -> Draft:
    return jobs.read(merge(write_job(job), changes), namespace=job.namespace)


def _is_large(job: Job) -> bool:
    """Whether reading a job again takes long."""
    return len(msgspec.json.encode(job.spec)) > _LARGE


def _key(call: Call, data: Any) -> str | None:
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


_PLANNED = Answer(about="of a dry run: what would become of it", schema=ref("JobOrSaved"), example=examples.JOB)

ROUTES = (
    Route(
        method="POST",
        path=f"{V1}/jobs",
        handler=create,
        permission=Permission.ADMINISTER,
        scope=Scope.BODY,
        tag="Jobs",
        summary="Create a job",
        query=(NAMESPACE, DRY_RUN),
        body=Body(schema=ref("JobInput"), example=examples.JOB_INPUT),
        answers={201: Answer(about="the job, with its ETag", schema=ref("Job"), example=examples.JOB), 200: _PLANNED},
        idempotent_by_key=True,
        submits=True,
    ),
    Route(
        method="GET",
        path=f"{V1}/jobs",
        handler=list_jobs,
        permission=Permission.LOOK,
        scope=Scope.BODY,
        tag="Jobs",
        summary="List jobs, by name",
        query=(LIMIT, CURSOR, *CHOICE),
        answers={
            200: Answer(
                about="a page",
                schema=page_of("Job"),
                example={"items": [examples.JOB], "next_cursor": None},
            )
        },
    ),
    Route(
        method="GET",
        path=f"{V1}/jobs/{{ref}}",
        handler=get,
        permission=Permission.LOOK,
        scope=Scope.JOB,
        tag="Jobs",
        summary="Look at a job",
        query=(NAMESPACE,),
        answers={200: Answer(about="the job, with its ETag", schema=ref("Job"), example=examples.JOB)},
    ),
    Route(
        method="PUT",
        path=f"{V1}/jobs/{{ref}}",
        handler=put,
        permission=Permission.ADMINISTER,
        scope=Scope.BODY,
        tag="Jobs",
        summary="Create or replace a job",
        query=(NAMESPACE, DRY_RUN),
        body=Body(schema=ref("JobFields"), example=examples.JOB_INPUT),
        answers={
            200: Answer(about="the job as it is now", schema=ref("JobOrSaved"), example=examples.JOB),
            201: Answer(about="it was created", schema=ref("Job"), example=examples.JOB),
        },
        matches=True,
        submits=True,
    ),
    Route(
        method="PATCH",
        path=f"{V1}/jobs/{{ref}}",
        handler=patch,
        permission=Permission.ADMINISTER,
        scope=Scope.JOB,
        tag="Jobs",
        summary="Change some fields of a job (merge patch)",
        query=(NAMESPACE, DRY_RUN),
        body=Body(
            schema=ref("JobPatch"),
            example={"schedule": "0 10 * * *", "description": None},
            types=(MERGE_PATCH, JSON),
        ),
        answers={200: Answer(about="the job as it is now", schema=ref("JobOrSaved"), example=examples.JOB)},
        matches=True,
        submits=True,
    ),
    Route(
        method="DELETE",
        path=f"{V1}/jobs/{{ref}}",
        handler=delete,
        permission=Permission.ADMINISTER,
        scope=Scope.JOB,
        tag="Jobs",
        summary="Delete a job; its history remains",
        query=(NAMESPACE, DRY_RUN),
        answers={200: Answer(about="the job as it was", schema=ref("Job"), example=examples.JOB)},
        matches=True,
    ),
)
