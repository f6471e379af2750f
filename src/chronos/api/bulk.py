"""Many jobs at once: each for itself, or all of an owner's in one change."""

from typing import Any

from aiohttp import web

from chronos.api import examples
from chronos.api.access import Permission
from chronos.api.answers import answer
from chronos.api.call import Call
from chronos.api.errors import Forbidden, InvalidBody
from chronos.api.facts import check_state, says_another_state
from chronos.api.plans import SavedAnswer, saved_answer, write_plan, write_refused
from chronos.api.problems import kind_of
from chronos.api.routes import DRY_RUN, NAMESPACE, V1, Answer, Body, Route, Scope, ref
from chronos.errors import ChronosError
from chronos.service.jobs import SavedJob
from chronos.service.shapes import Draft, InvalidJob, Problem
from chronos.service.writing import MAX_APPLIED

MAX_BULK = 50_000


async def bulk(call: Call) -> web.StreamResponse:
    """Create or replace many jobs; what is wrong with one does not hold up the others."""
    data = await call.json()
    given = _jobs(data, {"jobs"}, most=MAX_BULK)
    read = await _drafts(call, given)
    if (denied := next((one for one in read if isinstance(one, Forbidden)), None)) is not None:
        call.tell_denied(denied)
    drafts = [draft for draft in read if isinstance(draft, Draft)]
    done = iter(await call.parts.service.jobs.save_each(drafts, actor=call.actor, dry_run=call.dry_run))
    counts = dict.fromkeys(("created", "changed", "unchanged", "failed"), 0)
    results: list[SavedAnswer | dict[str, Any]] = []

    def tell(one_of_them: tuple[Any, Draft | ChronosError]) -> None:
        data, draft = one_of_them
        became = next(done) if isinstance(draft, Draft) else draft
        if isinstance(became, SavedJob):
            one = saved_answer(became)
            counts[one.result] += 1
            results.append(one)
        else:
            counts["failed"] += 1
            results.append(_refused(became, data))

    await call.parts.turns.each(list(zip(given, read, strict=True)), tell)
    return answer({**counts, "dry_run": call.dry_run, "results": results})


async def apply(call: Call) -> web.StreamResponse:
    """Make some jobs those of an owner, all or nothing; ``prune`` deletes what it had before and does not name."""
    data = await call.json()
    given = _jobs(data, {"jobs", "owner", "prune", "dry_run"}, most=MAX_APPLIED)
    owner, prune, dry_run = _owner(data), _truth(data, "prune"), _truth(data, "dry_run") or call.dry_run
    problems: list[Problem] = []
    drafts: list[Draft] = []
    places: dict[tuple[str, str], int] = {}
    for place, draft in enumerate(await _drafts(call, given)):
        if isinstance(draft, Draft):
            drafts.append(draft)
            first = places.setdefault((draft.namespace, draft.name), place)
            if first != place:
                problems.append(Problem(f"/jobs/{place}/name", f'is "{draft.name}", as that of /jobs/{first} is'))
            if draft.spec.owner not in (None, owner):
                problems.append(Problem(f"/jobs/{place}/owner", f'is "{draft.spec.owner}", and all are "{owner}"\'s'))
        elif isinstance(draft, InvalidJob):
            problems += [Problem(f"/jobs/{place}{one.pointer}", one.message) for one in draft.problems]
        else:
            raise draft
    if problems:
        raise InvalidBody(problems)
    if not drafts:
        call.require(call.namespace)  # which is pruned then
    plan = await call.parts.service.jobs.apply(
        drafts, owner=owner, prune=prune, namespace=call.namespace, dry_run=dry_run, actor=call.actor
    )
    return answer(write_plan(plan, dry_run=dry_run))


# --- helpers


async def _drafts(call: Call, given: list[Any]) -> list[Draft | ChronosError]:
    """Each job as it is understood, or what is wrong with it."""
    found: list[Draft | ChronosError] = []
    allowed: set[str] = set()  # namespaces that the caller has been found to have a say in
    read, namespace = call.parts.service.jobs.read_sent, call.namespace

    def read_one(data: Any) -> None:
        try:
            draft = read(data, namespace=namespace)
            if draft.namespace not in allowed:
                call.require(draft.namespace)
                allowed.add(draft.namespace)
            found.append(draft)
        except ChronosError as error:
            found.append(error)

    await call.parts.turns.each(given, read_one)
    for place, (data, draft) in enumerate(zip(given, found, strict=True)):
        if isinstance(draft, Draft) and says_another_state(data, draft):  # as few do
            try:
                check_state(data, draft, await call.parts.store.job_named(draft.namespace, draft.name))
            except InvalidJob as error:
                found[place] = error
    return found


def _refused(error: ChronosError, data: Any) -> dict[str, Any]:
    kind = kind_of(error)
    name = data.get("name") if isinstance(data, dict) and isinstance(data.get("name"), str) else None
    return write_refused(error, code=kind.code, status=kind.status, name=name)


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


_MANY = {"type": "array", "items": ref("JobInput")}

ROUTES = (
    Route(
        method="POST",
        path=f"{V1}/jobs/bulk",
        handler=bulk,
        permission=Permission.ADMINISTER,
        scope=Scope.BODY,
        tag="Jobs",
        summary="Create or replace many jobs, each for itself",
        query=(NAMESPACE, DRY_RUN),
        body=Body(
            schema={
                "type": "object",
                "required": ["jobs"],
                "additionalProperties": False,
                "properties": {"jobs": {"type": "array", "items": {}, "description": "of `JobInput`"}},
            },
            example={"jobs": [examples.JOB_INPUT]},
        ),
        answers={200: Answer(about="one result for each, in order", schema=ref("Bulk"), example=examples.BULK)},
        submits=True,
    ),
    Route(
        method="POST",
        path=f"{V1}/apply",
        handler=apply,
        permission=Permission.ADMINISTER,
        scope=Scope.BODY,
        tag="Jobs",
        summary="Make some jobs those of an owner, all or nothing",
        query=(NAMESPACE, DRY_RUN),
        body=Body(
            schema={
                "type": "object",
                "required": ["jobs", "owner"],
                "additionalProperties": False,
                "properties": {
                    "jobs": _MANY,
                    "owner": {"type": "string", "minLength": 1, "maxLength": 200},
                    "prune": {"type": ["boolean", "null"], "description": "delete what the owner no longer names"},
                    "dry_run": {"type": ["boolean", "null"], "description": "answer the plan only"},
                },
            },
            example={"jobs": [examples.JOB_INPUT], "owner": "billing", "prune": True},
        ),
        answers={200: Answer(about="the plan", schema=ref("Plan"), example=examples.PLAN)},
        submits=True,
    ),
)
