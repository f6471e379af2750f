"""Versions of a job: list, get, compare, roll back."""

from typing import Any

from aiohttp import web

from chronos.api.auth.command_permission import require_targets
from chronos.api.auth.permissions import Permission
from chronos.api.errors import Malformed
from chronos.api.handlers.save_results import save_facts, write_saved, write_version_diff
from chronos.api.openapi import examples
from chronos.api.request import RequestContext
from chronos.api.responses import job_response, json_response, read_expected_version, to_stale_if_changed
from chronos.api.routing import (
    CURSOR,
    LIMIT,
    UPDATE,
    Body,
    Param,
    ResponseDoc,
    RouteTable,
    ref,
)
from chronos.core.calendar import rfc3339
from chronos.core.job import JobVersion
from chronos.errors import Conflict
from chronos.service.serializers import id_text, write_spec

_MAX_VERSION = 999_999_999

route = RouteTable("Versions")
_NUMBER = {"type": "integer", "minimum": 1, "maximum": _MAX_VERSION}


@route.get(
    "/jobs/{ref}/versions",
    permission=Permission.VIEW,
    summary="List the versions of a job, newest first",
    query=(LIMIT, CURSOR),
    returns={200: ResponseDoc.page_of("Version", examples.VERSION)},
)
async def list_versions(context: RequestContext) -> web.StreamResponse:
    """List the versions of a job, newest first."""
    cursor = context.text("cursor")
    before = None if cursor is None else context.integer("cursor", 0, low=1, high=_MAX_VERSION)
    limit = context.limit
    versions = await context.api.store.versions(context.job.id, limit=limit + 1, before=before)
    has_more = len(versions) > limit
    items = [_write_version(version) for version in versions[:limit]]
    return json_response({"items": items, "next_cursor": str(items[-1]["version"]) if has_more else None})


@route.get(
    "/jobs/{ref}/versions/{version}",
    permission=Permission.VIEW,
    summary="Get a version of a job",
    returns={200: ResponseDoc("the version", ref("Version"), examples.VERSION)},
)
async def get_version(context: RequestContext) -> web.StreamResponse:
    """Get the definition of a job in one version."""
    number = context.path_number("version")
    return json_response(_write_version(await context.api.service.jobs.version(id_text(context.job.id), number)))


@route.get(
    "/jobs/{ref}/diff",
    permission=Permission.VIEW,
    summary="Compare two versions of a job: fields and upcoming runs",
    query=(
        Param(name="from", description="the older version; by default the one before `to`", schema=_NUMBER),
        Param(name="to", description="the newer version; by default the current one", schema=_NUMBER),
    ),
    returns={200: ResponseDoc("the differences", ref("VersionDiff"), examples.VERSION_DIFF)},
)
async def diff(context: RequestContext) -> web.StreamResponse:
    """Compare two versions of a job; by default the current one and the one before."""
    newest = context.job.version
    new = context.integer("to", newest, low=1, high=_MAX_VERSION)
    old = context.integer("from", max(1, new - 1), low=1, high=_MAX_VERSION)
    return json_response(write_version_diff(await context.api.service.jobs.diff(id_text(context.job.id), old, new)))


@route.post(
    "/jobs/{ref}/rollback",
    permission=Permission.ADMINISTER,
    summary="Roll back to an old version, as a new version",
    query=(UPDATE,),
    body=Body.of_fields({"version": _NUMBER}, required=("version",), example={"version": 6}),
    returns={200: ResponseDoc("the job after the rollback", ref("JobOrSaved"), examples.JOB)},
    honours_if_match=True,
    is_rate_limited=True,
)
async def rollback(context: RequestContext) -> web.StreamResponse:
    """Save the definition of an old version as a new version."""
    body = await context.read_object()
    version = body.integer("version", low=1, high=_MAX_VERSION)
    if version is None and not body.problems:
        body.fault("version", "is required; give the version to roll back to")
    body.raise_problems()
    if version is None:
        raise Malformed("the version is required")
    known = await read_expected_version(context, context.job)
    jobs, ref_text = context.api.service.jobs, id_text(context.job.id)
    require_targets(context, context.job.namespace, (await jobs.version(ref_text, version)).spec)
    try:
        saved = await jobs.rollback(
            ref_text,
            version,
            expect=known,
            actor=context.actor,
            dry_run=context.dry_run,
            update_policy=context.update_policy,
        )
    except Conflict as error:
        raise await to_stale_if_changed(context, known, error) from None
    if context.dry_run:
        return json_response(write_saved(saved) | {"dry_run": True})
    return await job_response(context, await jobs.get(ref_text), extra=save_facts(saved))


def _write_version(version: JobVersion) -> dict[str, Any]:
    return {
        "version": version.version,
        "saved_at": rfc3339(version.saved_us),
        "author": version.author,
        "spec": write_spec(version.spec),
    }
