"""Answers: JSON, entity tags, and what If-Match means."""

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

#: What every answer carries, unless it says something else.
HEADERS = (
    (istr("Cache-Control"), "no-store"),
    (istr("Content-Security-Policy"), "default-src 'none'; frame-ancestors 'none'"),
    (istr("Referrer-Policy"), "no-referrer"),
    (istr("Server"), "chronos"),
    (istr("X-Content-Type-Options"), "nosniff"),
)
_TAG = re.compile(r'(?:W/)?"([\x21\x23-\x7e]*)"|([0-9]+(?:-[0-9]+)?)', re.ASCII)


def json_response(data: Any, *, status: int = 200, headers: dict[str, str] | None = None) -> web.Response:
    """Something as JSON."""
    return web.Response(status=status, body=write_json(data), content_type=JSON, headers=headers)


async def write_within(limit_s: float, request: web.Request, writing: Awaitable[None]) -> None:
    """Wait no longer than this for a client to take what is written to it; hang up on one that does not."""
    try:
        async with asyncio.timeout(limit_s):
            await writing
    except TimeoutError:
        if request.transport is not None:
            request.transport.abort()


def tag_of(job: Job) -> str:
    """The version of a job as an entity tag. A name that was deleted and created anew counts its versions anew."""
    return f'"{job.version}"' if job.incarnation == 1 else f'"{job.version}-{job.incarnation}"'


async def job_response(
    call: RequestContext, job: Job, *, status: int = 200, extra: dict[str, Any] | None = None
) -> web.Response:
    """One job with its last execution."""
    last = (await call.parts.service.runs.latest([job])).get(job.id)
    return json_response(
        write_job(job, last_execution=last) | (extra or {}), status=status, headers={"ETag": tag_of(job)}
    )


async def read_expected_version(call: RequestContext, job: Job | None) -> int | None:
    """The version that a change is made from: that of the job, when the client said which it knows, else None.

    Raises ``StaleVersion`` when the client knows another one.
    """
    tags = read_if_match(call)
    if tags is None:
        return None
    if job is None:
        raise StaleVersion("it does not exist any more; leave If-Match out to create it")
    if "*" in tags or tag_of(job).strip('"') in tags:
        return job.version
    raise await stale(call, job, tags)


async def stale(call: RequestContext, job: Job, tags: list[str]) -> StaleVersion:
    """The sentence for somebody whose knowledge is old."""
    versions = await call.parts.store.versions(job.id, limit=1)
    author = f", by {versions[0].author}" if versions else ""
    known = ", ".join(f"v{tag}" for tag in tags)[:64] or "none"
    return StaleVersion(f"{job.name} changed since you read it (you have {known}, it is v{job.version}{author})")


async def to_stale_if_changed(call: RequestContext, known: int | None, error: Conflict) -> Conflict:
    """What to answer to a conflict: ``StaleVersion`` where the job has another version than the client knows."""
    there = (await call.parts.store.jobs_by_id([call.job.id])).get(call.job.id)
    return error if known is None or there is None or there.version == known else await stale(call, there, [str(known)])


def read_if_match(call: RequestContext) -> list[str] | None:
    """The tags of If-Match; None: it was not sent."""
    header = call.request.headers.get("If-Match")
    if header is None:
        return None
    if header.strip() == "*":
        return ["*"]
    found: list[str] = []
    for part in header.split(","):
        match = _TAG.fullmatch(part.strip())
        if match is None or len(found) == 16:
            raise Malformed('If-Match has to be the ETag of an answer, like "7"')
        found.append(match.group(1) if match.group(1) is not None else match.group(2))
    return found
