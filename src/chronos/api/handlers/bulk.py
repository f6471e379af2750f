"""Many jobs at once: each for itself, or all of an owner's in one change."""

from collections.abc import Callable
from functools import partial
from typing import Any

import msgspec
from aiohttp import web

from chronos.api.auth.command_permission import require_targets
from chronos.api.auth.permissions import Permission
from chronos.api.errors import Forbidden, InvalidBody
from chronos.api.handlers.readonly_fields import check_state, says_another_state
from chronos.api.handlers.save_results import to_saved_response, write_plan, write_refused
from chronos.api.json_body import write_json
from chronos.api.openapi import examples
from chronos.api.problems import kind_of
from chronos.api.request import RequestContext
from chronos.api.responses import json_response
from chronos.api.routing import NAMESPACE, Body, ResponseDoc, RouteTable, Scope, ref
from chronos.errors import ChronosError
from chronos.service.save_jobs import MAX_APPLIED, SavedJob
from chronos.service.serializers import Draft, InvalidJob, Problem
from chronos.service.serializers.problems import MOST_PROBLEMS

MAX_BULK = 50_000
_LONGEST_NAME = 1_024  # characters of one that is refused
_LARGE_JOB_BYTES = 16 << 10  # bytes of one job: a larger one is read beside the event loop

route = RouteTable("Jobs")


@route.post(
    "/jobs/bulk",
    permission=Permission.ADMINISTER,
    scope=Scope.BODY,
    summary="Create or replace many jobs, each for itself",
    query=(NAMESPACE,),
    body=Body.of_fields(
        {"jobs": {"type": "array", "items": {}, "description": "of `JobInput`"}},
        required=("jobs",),
        example={"jobs": [examples.JOB_INPUT]},
    ),
    returns={200: ResponseDoc("one result for each, in order", ref("Bulk"), examples.BULK)},
    submits=True,
)
async def bulk(call: RequestContext) -> web.StreamResponse:
    """Create or replace many jobs; what is wrong with one does not hold up the others."""
    data = await call.json()
    given = _jobs(data, {"jobs"}, most=MAX_BULK)
    read = await _drafts(call, given)
    if (denied := next((one for one in read if isinstance(one, Forbidden)), None)) is not None:
        call.tell_denied(denied)
    drafts = [draft for draft in read if isinstance(draft, Draft)]
    done = iter(await call.parts.service.job_saver.save_each(drafts, actor=call.actor, dry_run=call.dry_run))
    counts = dict.fromkeys(("created", "changed", "unchanged", "failed"), 0)
    results: list[msgspec.Raw] = []

    left = MOST_PROBLEMS

    def tell(one_of_them: tuple[Any, Draft | ChronosError]) -> None:
        nonlocal left
        data, draft = one_of_them
        became = next(done) if isinstance(draft, Draft) else draft
        if isinstance(became, SavedJob):
            one = to_saved_response(became)
            counts[one.result] += 1
            results.append(msgspec.Raw(msgspec.json.encode(one)))
        else:
            counts["failed"] += 1
            told = _refused(became, data, left)
            left -= len(told.get("errors", ()))
            results.append(msgspec.Raw(write_json(told)))

    await call.parts.turns.each(list(zip(given, read, strict=True)), tell)
    return json_response({**counts, "dry_run": call.dry_run, "results": results})


@route.post(
    "/apply",
    permission=Permission.ADMINISTER,
    scope=Scope.BODY,
    summary="Make some jobs those of an owner, all or nothing",
    query=(NAMESPACE,),
    body=Body.of_fields(
        {
            "jobs": {"type": "array", "items": ref("JobInput")},
            "owner": {"type": "string", "minLength": 1, "maxLength": 200},
            "prune": {"type": ["boolean", "null"], "description": "delete what the owner no longer names"},
            "dry_run": {"type": ["boolean", "null"], "description": "answer the plan only"},
        },
        required=("jobs", "owner"),
        example={"jobs": [examples.JOB_INPUT], "owner": "billing", "prune": True},
    ),
    returns={200: ResponseDoc("the plan", ref("Plan"), examples.PLAN)},
    submits=True,
)
async def apply(call: RequestContext) -> web.StreamResponse:
    """Make some jobs those of an owner, all or nothing; ``prune`` deletes what it had before and does not name."""
    data = await call.json()
    given = _jobs(data, {"jobs", "owner", "prune", "dry_run"}, most=MAX_APPLIED)
    owner, prune, dry_run = _owner(data), _truth(data, "prune"), _truth(data, "dry_run") or call.dry_run
    problems: list[Problem] = []
    more = 0
    drafts: list[Draft] = []
    places: dict[tuple[str, str], int] = {}
    read = await _drafts(call, given)

    def gather(place: int) -> None:
        nonlocal more
        draft = read[place]
        if isinstance(draft, Draft):
            drafts.append(draft)
            first = places.setdefault((draft.namespace, draft.name), place)
            if first != place:
                problems.append(Problem(f"/jobs/{place}/name", f'is "{draft.name}", as that of /jobs/{first} is'))
            if draft.spec.owner not in (None, owner):
                problems.append(Problem(f"/jobs/{place}/owner", f'is "{draft.spec.owner}", and all are "{owner}"\'s'))
        elif isinstance(draft, InvalidJob):
            more += draft.more
            problems.extend(Problem(f"/jobs/{place}{one.pointer}", one.message) for one in draft.problems)
        else:
            raise draft

    await call.parts.turns.each(range(len(read)), gather)
    if problems:
        raise InvalidBody(problems, more=more)
    if not drafts:
        call.require(call.namespace)  # which is pruned then
    try:
        plan = await call.parts.service.job_saver.apply(
            drafts, owner=owner, prune=prune, namespace=call.namespace, dry_run=dry_run, actor=call.actor
        )
    except InvalidJob as error:  # what only the job that is there, or the time, could tell
        at = next((at for (_, name), at in places.items() if name == error.name), None)
        if at is None:
            raise
        raise InvalidBody([Problem(f"/jobs/{at}{one.pointer}", one.message) for one in error.problems]) from None
    return json_response(await write_plan(plan, call.parts.turns, dry_run=dry_run))


# --- helpers


async def _drafts(call: RequestContext, given: list[Any]) -> list[Draft | ChronosError]:
    """Each job as it is understood, or what is wrong with it."""
    found: list[Draft | ChronosError] = []
    doubtful: list[int] = []  # places of those whose state has to be looked at
    allowed: set[str] = set()  # namespaces that the caller has been found to have a say in
    read, namespace = call.parts.service.jobs.read, call.namespace

    def read_one(data: Any) -> None:
        try:
            draft = read(data, namespace=namespace)
            if draft.namespace not in allowed:
                call.require(draft.namespace)
                allowed.add(draft.namespace)
            require_targets(call, draft.namespace, draft.spec)
            if says_another_state(data, draft):  # as few do
                doubtful.append(len(found))
            found.append(draft)
        except ChronosError as error:
            found.append(error)

    if call.has_much:
        await _read_each(call, given, read_one)
    else:
        await call.parts.turns.each(given, read_one)
    for place in doubtful:
        draft = found[place]
        assert isinstance(draft, Draft)
        try:
            check_state(given[place], draft, await call.parts.store.job_named(draft.namespace, draft.name))
        except InvalidJob as error:
            found[place] = error
    return found


async def _read_each(call: RequestContext, given: list[Any], read: Callable[[Any], None]) -> None:
    """Read jobs in turns, and each large one by itself beside the event loop."""
    large: set[int] = set()

    def weigh(place: int) -> None:
        try:
            if len(msgspec.json.encode(given[place])) > _LARGE_JOB_BYTES:
                large.add(place)
        except UnicodeEncodeError:  # half a character
            large.add(place)

    await call.parts.turns.each(range(len(given)), weigh)
    begin = 0
    for place in sorted(large):
        await call.parts.turns.each(given[begin:place], read)
        await call.parts.turns.run_in_thread(partial(read, given[place]))
        begin = place + 1
    await call.parts.turns.each(given[begin:], read)


def _refused(error: ChronosError, data: Any, most: int) -> dict[str, Any]:
    kind = kind_of(error)
    name = data.get("name") if isinstance(data, dict) and isinstance(data.get("name"), str) else None
    name = None if name is None else name[:_LONGEST_NAME]
    return write_refused(error, code=kind.code, status=kind.status, name=name, most=most)


def _jobs(data: Any, known: set[str], *, most: int) -> list[Any]:
    jobs = data.get("jobs") if isinstance(data, dict) else None
    if not isinstance(data, dict) or not isinstance(jobs, list):
        raise InvalidBody([Problem("/jobs", "is missing: send an object with a list of jobs")])
    if unknown := sorted(set(data) - known):
        raise InvalidBody([Problem(f"/{unknown[0][:64]}", f"is no known field; known are {', '.join(sorted(known))}")])
    if len(jobs) > most:
        raise InvalidBody([Problem("/jobs", f"has {len(jobs)} entries, allowed {most}; send them in parts")])
    return jobs


def _owner(data: dict[str, Any]) -> str:
    owner = data.get("owner")
    if not isinstance(owner, str) or not 0 < len(owner.encode("utf-8", "replace")) <= 200 or not owner.isprintable():
        raise InvalidBody([Problem("/owner", "is missing: say whose jobs these are, in up to 200 characters")])
    return owner


def _truth(data: dict[str, Any], name: str) -> bool:
    value = data.get(name)
    if value is None or isinstance(value, bool):
        return bool(value)
    raise InvalidBody([Problem(f"/{name}", "has to be true or false")])
