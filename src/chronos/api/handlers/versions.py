"""Versions of a job: list, look, compare, go back."""

from typing import Any

from aiohttp import web

from chronos.api import examples
from chronos.api.access import Permission
from chronos.api.answers import answer, expected, job_answer, raced
from chronos.api.call import Call
from chronos.api.commands import require_targets
from chronos.api.errors import Malformed
from chronos.api.plans import changed_runs, write_saved, write_version_diff
from chronos.api.routes import CURSOR, DRY_RUN, LIMIT, NAMESPACE, V1, Answer, Body, Param, Route, Scope, page_of, ref
from chronos.core.calendar import rfc3339
from chronos.core.job import JobVersion
from chronos.errors import Conflict
from chronos.service.shapes import id_text, write_spec

_LAST = 999_999_999


async def list_versions(call: Call) -> web.StreamResponse:
    """Newest first."""
    cursor = call.text("cursor")
    before = None if cursor is None else call.whole("cursor", 0, low=1, high=_LAST)
    limit = call.limit
    found = await call.parts.store.versions(call.job.id, limit=limit + 1, before=before)
    more = len(found) > limit
    items = [_written(version) for version in found[:limit]]
    return answer({"items": items, "next_cursor": str(items[-1]["version"]) if more else None})


async def get_version(call: Call) -> web.StreamResponse:
    """What a job said in one version."""
    number = call.path_number("version")
    return answer(_written(await call.parts.service.jobs.version(id_text(call.job.id), number)))


async def diff(call: Call) -> web.StreamResponse:
    """What differs between two versions; without numbers, between the newest and the one before."""
    newest = call.job.version
    new = call.whole("to", newest, low=1, high=_LAST)
    old = call.whole("from", max(1, new - 1), low=1, high=_LAST)
    return answer(write_version_diff(await call.parts.service.jobs.diff(id_text(call.job.id), old, new)))


async def rollback(call: Call) -> web.StreamResponse:
    """Make a job say again what it said; that is a new version."""
    body = await call.form()
    version = body.whole("version", low=1, high=_LAST)
    if version is None and not body.problems:
        body.fault("version", "is missing: say which version to go back to")
    body.done()
    if version is None:
        raise Malformed("the version is missing")
    known = await expected(call, call.job)
    jobs, ref_text = call.parts.service.jobs, id_text(call.job.id)
    require_targets(call, call.job.namespace, (await jobs.version(ref_text, version)).spec)
    try:
        saved = await jobs.rollback(ref_text, version, expect=known, actor=call.actor, dry_run=call.dry_run)
    except Conflict as error:
        raise await raced(call, known, error) from None
    if call.dry_run:
        return answer(write_saved(saved) | {"dry_run": True})
    return await job_answer(call, await jobs.get(ref_text), extra=changed_runs(saved))


def _written(version: JobVersion) -> dict[str, Any]:
    return {
        "version": version.version,
        "saved_at": rfc3339(version.saved_us),
        "author": version.author,
        "spec": write_spec(version.spec),
    }


_NUMBER = {"type": "integer", "minimum": 1, "maximum": _LAST}

ROUTES = (
    Route(
        method="GET",
        path=f"{V1}/jobs/{{ref}}/versions",
        handler=list_versions,
        permission=Permission.LOOK,
        scope=Scope.JOB,
        tag="Versions",
        summary="List the versions of a job, newest first",
        query=(NAMESPACE, LIMIT, CURSOR),
        answers={
            200: Answer(
                about="a page",
                schema=page_of("Version"),
                example={"items": [examples.VERSION], "next_cursor": None},
            )
        },
    ),
    Route(
        method="GET",
        path=f"{V1}/jobs/{{ref}}/versions/{{version}}",
        handler=get_version,
        permission=Permission.LOOK,
        scope=Scope.JOB,
        tag="Versions",
        summary="Look at one version of a job",
        query=(NAMESPACE,),
        answers={200: Answer(about="the version", schema=ref("Version"), example=examples.VERSION)},
    ),
    Route(
        method="GET",
        path=f"{V1}/jobs/{{ref}}/diff",
        handler=diff,
        permission=Permission.LOOK,
        scope=Scope.JOB,
        tag="Versions",
        summary="Compare two versions of a job, fields and coming runs",
        query=(
            NAMESPACE,
            Param(name="from", about="the older version; the one before `to` without it", schema=_NUMBER),
            Param(name="to", about="the newer version; the one in force without it", schema=_NUMBER),
        ),
        answers={200: Answer(about="what differs", schema=ref("VersionDiff"), example=examples.VERSION_DIFF)},
    ),
    Route(
        method="POST",
        path=f"{V1}/jobs/{{ref}}/rollback",
        handler=rollback,
        permission=Permission.ADMINISTER,
        scope=Scope.JOB,
        tag="Versions",
        summary="Go back to an old version, as a new one",
        query=(NAMESPACE, DRY_RUN),
        body=Body(
            schema={
                "type": "object",
                "required": ["version"],
                "additionalProperties": False,
                "properties": {"version": _NUMBER},
            },
            example={"version": 6},
        ),
        answers={200: Answer(about="the job as it is now", schema=ref("JobOrSaved"), example=examples.JOB)},
        matches=True,
        submits=True,
    ),
)
