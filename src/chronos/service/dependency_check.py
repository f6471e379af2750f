"""Checks the ``after`` of jobs: upstream jobs must exist and must not form a cycle."""

from collections.abc import Awaitable, Callable, Iterable, Sequence

from chronos.core.job import UpstreamJob
from chronos.service.serializers import Draft, InvalidJob, Problem
from chronos.store.contract import Store

_Upstream = Callable[[str, str], Awaitable[tuple[UpstreamJob, ...] | None]]

MAX_WALKED = 10_000  # upstream jobs per change


async def check_dependencies(store: Store, drafts: Sequence[Draft]) -> None:
    """Raise ``InvalidJob`` for a job whose upstream job does not exist, or that depends on itself."""
    dependent = [draft for draft in drafts if draft.spec.after]
    if not dependent:
        return
    known: dict[tuple[str, str], tuple[UpstreamJob, ...] | None] = {
        (draft.namespace, draft.name): draft.spec.after for draft in drafts
    }

    async def upstream(namespace: str, name: str) -> tuple[UpstreamJob, ...] | None:
        if (namespace, name) not in known:
            job = await store.job_named(namespace, name) if len(known) < len(drafts) + MAX_WALKED else None
            known[namespace, name] = None if job is None else job.spec.after
        return known[namespace, name]

    for draft in dependent:
        for index, upstream_job in enumerate(draft.spec.after):
            if await upstream(draft.namespace, upstream_job.job) is None:
                reason = f'job "{upstream_job.job}" not found in the namespace "{draft.namespace}"'
                raise InvalidJob([Problem(f"/after/{index}/job", reason)], name=draft.name)
        cycle = await _find_cycle(draft, upstream)
        if cycle:
            reason = f"forms a cycle: {' → '.join(cycle)}; remove one of these dependencies"
            raise InvalidJob([Problem("/after", reason)], name=draft.name)


async def _find_cycle(draft: Draft, upstream: _Upstream) -> list[str]:
    """Return the path from a job back to itself, downstream first; empty without a cycle."""
    came_from: dict[str, str] = {}
    stack = [draft.name]
    while stack:
        name = stack.pop()
        for upstream_job in await upstream(draft.namespace, name) or ():
            if upstream_job.job == draft.name:
                return [upstream_job.job, *_path_back(came_from, name, draft.name)]
            if upstream_job.job not in came_from:
                came_from[upstream_job.job] = name
                stack.append(upstream_job.job)
    return []


def _path_back(came_from: dict[str, str], name: str, end: str) -> Iterable[str]:
    while name != end:
        yield name
        name = came_from[name]
    yield end
