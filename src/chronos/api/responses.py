"""Responses: JSON, entity tags and the rules of If-Match."""

import asyncio
import re
from collections.abc import Awaitable
from typing import Any

from aiohttp import web
from multidict import istr

from chronos.api.errors import Malformed, StaleVersion
from chronos.api.json_body import write_json
from chronos.api.request import RequestContext
from chronos.api.routing import JSON
from chronos.core.job import Job
from chronos.errors import Conflict
from chronos.service.serializers import write_job

#: Default headers of every response.
HEADERS = (
    (istr("Cache-Control"), "no-store"),
    (istr("Content-Security-Policy"), "default-src 'none'; frame-ancestors 'none'"),
    (istr("Referrer-Policy"), "no-referrer"),
    (istr("Server"), "chronos"),
    (istr("X-Content-Type-Options"), "nosniff"),
)
_TAG = re.compile(r'(?:W/)?"([\x21\x23-\x7e]*)"|([0-9]+(?:-[0-9]+)?)', re.ASCII)


def json_response(data: Any, *, status: int = 200, headers: dict[str, str] | None = None) -> web.Response:
    """Return a JSON response."""
    return web.Response(status=status, body=write_json(data), content_type=JSON, headers=headers)


async def write_within(limit_s: float, request: web.Request, write: Awaitable[None]) -> None:
    """Wait for a write to the client, and abort the connection after ``limit_s``."""
    try:
        async with asyncio.timeout(limit_s):
            await write
    except TimeoutError:
        if request.transport is not None:
            request.transport.abort()


def to_etag(job: Job) -> str:
    """Return the ETag of a job: its version. A job created again under the same name counts its versions from one."""
    return f'"{job.version}"' if job.incarnation == 1 else f'"{job.version}-{job.incarnation}"'


async def job_response(
    context: RequestContext, job: Job, *, status: int = 200, extra: dict[str, Any] | None = None
) -> web.Response:
    """Return a job with its last execution."""
    last = (await context.api.service.runs.latest_json([job])).get(job.id)
    body = write_job(job, now_us=context.api.clock.now_us(), last_execution=last) | (extra or {})
    return json_response(body, status=status, headers={"ETag": to_etag(job)})


async def read_expected_version(context: RequestContext, job: Job | None) -> int | None:
    """Return the version that a change is based on, or None if the client sent no If-Match.

    Raises ``StaleVersion`` if If-Match names another version.
    """
    tags = read_if_match(context)
    if tags is None:
        return None
    if job is None:
        raise StaleVersion("the job was deleted since you read it; leave If-Match out to create it")
    if "*" in tags or to_etag(job).strip('"') in tags:
        return job.version
    raise await make_stale_error(context, job, tags)


async def make_stale_error(context: RequestContext, job: Job, tags: list[str]) -> StaleVersion:
    """Return the error for a client that read an older version."""
    versions = await context.api.store.versions(job.id, limit=1)
    author = f", by {versions[0].author}" if versions else ""
    known = ", ".join(f"v{tag}" for tag in tags)[:64] or "none"
    return StaleVersion(f"{job.name} changed since you read it (you have {known}, it is v{job.version}{author})")


async def to_stale_if_changed(context: RequestContext, known: int | None, error: Conflict) -> Conflict:
    """Return ``StaleVersion`` instead of ``error`` if the job is no longer at the client's version."""
    current = (await context.api.store.jobs_by_id([context.job.id])).get(context.job.id)
    return (
        error
        if known is None or current is None or current.version == known
        else await make_stale_error(context, current, [str(known)])
    )


def read_if_match(context: RequestContext) -> list[str] | None:
    """Read the tags of If-Match; None if the header is absent."""
    header = context.request.headers.get("If-Match")
    if header is None:
        return None
    if header.strip() == "*":
        return ["*"]
    tags: list[str] = []
    for part in header.split(","):
        match = _TAG.fullmatch(part.strip())
        if match is None or len(tags) == 16:
            raise Malformed('invalid If-Match; send the ETag of a response, like "7"')
        tags.append(match.group(1) if match.group(1) is not None else match.group(2))
    return tags
