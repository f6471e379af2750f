"""JobSaver: creates, replaces and applies jobs. ``save_plan`` decides what to write, and decides again after a lost
race.
"""

import asyncio
from collections import Counter, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from msgspec import Struct
from msgspec.structs import replace as with_fields

from chronos.clock import Clock
from chronos.core.config import merge
from chronos.core.ids import job_id, job_ids
from chronos.core.job import DEFAULT_NAMESPACE, Job, JobState
from chronos.core.node import Actor
from chronos.core.schedule.surprises import Surprise, find_surprises
from chronos.core.schedule_change import MAX_COMPARED, ScheduleDiff
from chronos.errors import ChronosError, Conflict, Invalid, NotFound, QueueFull
from chronos.service.cooperative import TimeSlicer
from chronos.service.dependency_check import check_dependencies
from chronos.service.save_plan import PlanCache, SavePlan, plan_new_job, plan_save
from chronos.service.serializers import Draft, InvalidJob
from chronos.store.commands import SYSTEM, DeleteRow, Saved, SaveJobs
from chronos.store.contract import JobFilter, Store

CHUNK = 2_500  # jobs per command, unless they must be one transaction; larger chunks cost less per job
MAX_APPLIED = 10_000  # jobs per atomic change
_MAX_JOBS_READ_BY_NAME = 10  # more jobs are read by id, in one query
_PORTIONS_IN_FLIGHT = 4  # while some are written, in one transaction, the next are prepared
_COMPARED_IN_BULK = 100  # upcoming runs that each diff of a bulk save compares
_PAGE = 1_000
_MAX_CACHES = 64
_MAX_RACES = 10  # lost races before a save gives up


class SavedJob(Struct, frozen=True, kw_only=True, gc=False):
    """The result of saving a draft; for a dry run, the planned result."""

    job_id: bytes
    namespace: str
    name: str
    version: int
    created: bool
    changed: bool  # includes being enabled or disabled, which makes no new version
    state: JobState
    next_us: int | None
    diff: ScheduleDiff | None = None  # of the upcoming runs, if the schedule changed
    warnings: tuple[Surprise, ...] = ()  # what may surprise in the schedule
    job: Job | None = None  # the new job, if it was created by itself


@dataclass(frozen=True, slots=True, kw_only=True)
class SavePreview:
    """The changes that applying a set of jobs makes."""

    created: list[SavedJob]
    changed: list[SavedJob]
    unchanged: list[SavedJob]
    pruned: list[Job]


class _JobChange(Struct, frozen=True, kw_only=True):
    """The options of one save."""

    actor: Actor
    create_only: bool = False
    expect: int | None = None
    dry_run: bool = False
    idempotency: str | None = None
    rollback_to: int | None = None  # the version that a rollback restores
    owner: str | None = None  # the owner of all the jobs; none may have another owner
    pruned_in: frozenset[str] = frozenset()  # namespaces in which the owner's other jobs are deleted


class JobSaver:
    """Saves drafts into a store."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store, self._clock = store, clock
        self._caches: dict[tuple[str, int], PlanCache] = {}  # by namespace and levels
        self._slicer = TimeSlicer()

    async def save(
        self,
        drafts: Sequence[Draft],
        *,
        actor: Actor = SYSTEM,
        create_only: bool = False,
        expect: int | None = None,
        idempotency: str | None = None,
        dry_run: bool = False,
        rollback_to: int | None = None,
    ) -> list[SavedJob]:
        """Create or replace jobs, in portions of ``CHUNK``; each portion is atomic.

        - ``create_only``: raises ``Conflict`` if a job exists, unless the same ``idempotency`` key created it. Then the
          result is that job.
        - ``expect``: the version that the only draft was made from. Raises ``Conflict`` if the job has another.
        - ``rollback_to``: the version that a rollback restores, for the audit log.
        - Raises ``InvalidJob``, and ``QueueFull`` if a job that runs at once does not fit.
        """
        await check_dependencies(self._store, drafts)
        change = _JobChange(
            actor=actor,
            create_only=create_only,
            expect=expect,
            dry_run=dry_run,
            idempotency=idempotency,
            rollback_to=rollback_to,
        )
        saved: list[SavedJob] = []
        for start_index in range(0, len(drafts), CHUNK):
            part = drafts[start_index : start_index + CHUNK]
            saved_part, _ = await self._save(part, change)
            saved += saved_part
        return saved

    async def save_each(
        self, drafts: Sequence[Draft], *, actor: Actor = SYSTEM, dry_run: bool = False
    ) -> list[SavedJob | ChronosError]:
        """Create or replace jobs independently. A job that cannot be saved yields its error."""
        save = partial(self._save_portion, actor=actor, dry_run=dry_run)
        results: list[SavedJob | ChronosError] = []
        pending: deque[asyncio.Task[list[SavedJob | ChronosError]]] = deque()
        in_flight = _PORTIONS_IN_FLIGHT if await self._are_independent(drafts) else 1
        try:
            for start_index in range(0, len(drafts), CHUNK):
                if len(pending) == in_flight:
                    results += await pending.popleft()
                pending.append(asyncio.create_task(save(drafts[start_index : start_index + CHUNK])))
            while pending:
                results += await pending.popleft()
        finally:
            for task in pending:
                task.cancel()
        for index in _upstream_first(drafts, results):  # its upstream job may have been saved after it
            [results[index]] = await save([drafts[index]])
        return results

    async def _are_independent(self, drafts: Sequence[Draft]) -> bool:
        """Return whether the portions can be saved in any order."""
        names: set[tuple[str, str]] = set()

        def collect(draft: Draft) -> None:
            if not draft.spec.after:
                names.add((draft.namespace, draft.name))

        await self._slicer.each(drafts, collect)
        return len(names) == len(drafts)

    async def _save_portion(
        self, drafts: Sequence[Draft], *, actor: Actor, dry_run: bool
    ) -> list[SavedJob | ChronosError]:
        """Save the drafts together. If one fails, save the halves separately, until the failing one is found."""
        try:
            return [*await self.save(drafts, actor=actor, dry_run=dry_run)]
        except (Invalid, Conflict, QueueFull) as error:
            if len(drafts) == 1:
                return [error]
        middle = len(drafts) // 2
        halves = drafts[:middle], drafts[middle:]
        return [result for half in halves for result in await self._save_portion(half, actor=actor, dry_run=dry_run)]

    async def apply(
        self,
        drafts: Sequence[Draft],
        *,
        owner: str,
        prune: bool = False,
        namespace: str = DEFAULT_NAMESPACE,
        dry_run: bool = False,
        actor: Actor = SYSTEM,
    ) -> SavePreview:
        """Make the drafts the jobs of ``owner``, atomically. ``prune`` deletes the owner's other jobs.

        Pruning is limited to the namespaces of the drafts, or to ``namespace`` without drafts. Raises ``Conflict`` if a
        job belongs to another owner.
        """
        if len(drafts) > MAX_APPLIED:
            raise Invalid(f"{len(drafts)} jobs exceed the limit of {MAX_APPLIED} per change; apply them in parts")
        names = Counter((draft.namespace, draft.name) for draft in drafts)
        if duplicates := [name for (_, name), count in names.items() if count > 1]:
            raise Invalid(f'"{duplicates[0]}" appears twice in one change; name each job once')
        owned = await self._slicer.map(
            drafts, lambda draft: with_fields(draft, spec=with_fields(draft.spec, owner=owner))
        )
        await check_dependencies(self._store, owned)
        pruned_in = ({draft.namespace for draft in owned} or {namespace}) if prune else set()
        saved, pruned = await self._save(
            owned, _JobChange(actor=actor, dry_run=dry_run, owner=owner, pruned_in=frozenset(pruned_in))
        )
        return SavePreview(
            created=[one for one in saved if one.created],
            changed=[one for one in saved if one.changed and not one.created],
            unchanged=[one for one in saved if not one.changed],
            pruned=pruned,
        )

    async def _list_jobs_to_prune(self, drafts: Sequence[Draft], change: _JobChange) -> list[Job]:
        """List the owner's jobs in the pruned namespaces that no draft names."""
        if not change.pruned_in:
            return []
        names = {(draft.namespace, draft.name) for draft in drafts}
        jobs: list[Job] = []
        for namespace in sorted(change.pruned_in):
            where = JobFilter(namespace=namespace, owner=change.owner)
            cursor: bytes | None = None
            while True:
                page = await self._store.list_jobs(where, limit=_PAGE, cursor=cursor)
                jobs += [job for job in page.items if (job.namespace, job.name) not in names]
                cursor = page.cursor
                if cursor is None:
                    break
        return jobs

    async def _save(self, drafts: Sequence[Draft], change: _JobChange) -> tuple[list[SavedJob], list[Job]]:
        """Save one portion; returns the saved and the pruned jobs. Plans again after a lost race."""
        existing = await self._find_existing(drafts, change)
        for race in range(_MAX_RACES):
            caches = await self._find_caches({draft.namespace for draft in drafts})
            now_us = self._clock.now_us()
            try:
                plans = await self._plan_all(drafts, existing, change, caches, now_us)
            except InvalidJob:
                if change.create_only:  # a name that is taken is reported first
                    existing_ = await self._read_by_name(drafts)
                    for draft in drafts:
                        _check_expected(draft.name, existing_.get((draft.namespace, draft.name)), change)
                raise
            pruned = await self._list_jobs_to_prune(drafts, change)
            if change.dry_run:
                return await self._slicer.map(plans, partial(_to_planned_job, now_us=now_us)), pruned
            try:
                saved = await self._write(plans, pruned, now_us, change)
            except (Conflict, NotFound):
                if change.create_only or race == _MAX_RACES - 1:
                    raise
                existing = await self._read_by_name(drafts)
                continue
            return saved, pruned
        raise AssertionError("the last race is won or raised")

    async def _find_caches(self, namespaces: set[str]) -> dict[str, PlanCache]:
        """Return the caches for the settings that are in force above the jobs of each namespace."""
        current = await self._store.current_levels(sorted(namespaces))
        if len(self._caches) + len(current) > _MAX_CACHES:
            self._caches.clear()
        caches: dict[str, PlanCache] = {}
        for namespace, (levels, defaults, own) in current.items():
            key = (namespace, levels.pack())
            if key not in self._caches:
                self._caches[key] = PlanCache(merge(defaults, own))
            caches[namespace] = self._caches[key]
        return caches

    async def _plan_all(
        self,
        drafts: Sequence[Draft],
        existing: Mapping[tuple[str, str], Job],
        change: _JobChange,
        caches: Mapping[str, PlanCache],
        now_us: int,
    ) -> list[SavePlan]:
        if not existing and change.expect is None:
            if len(caches) == 1:
                return await self._slicer.map(
                    drafts, partial(plan_new_job, now_us=now_us, cache=next(iter(caches.values())))
                )
            return await self._slicer.map(
                drafts, lambda draft: plan_new_job(draft, now_us=now_us, cache=caches[draft.namespace])
            )
        max_compared = MAX_COMPARED if len(drafts) <= _MAX_JOBS_READ_BY_NAME else _COMPARED_IN_BULK

        def plan_one(draft: Draft) -> SavePlan:
            current = existing.get((draft.namespace, draft.name))
            _check_expected(draft.name, current, change)
            return plan_save(draft, current, cache=caches[draft.namespace], now_us=now_us, max_compared=max_compared)

        return await self._slicer.map(drafts, plan_one)

    async def _write(
        self, plans: Sequence[SavePlan], pruned: Sequence[Job], now_us: int, change: _JobChange
    ) -> list[SavedJob]:
        rows = tuple(plan.row for plan in plans if plan.row is not None)
        delete = tuple(DeleteRow(job.id, job.version) for job in pruned)
        command = SaveJobs(
            rows=rows,
            now_us=now_us,
            actor=change.actor,
            delete=delete,
            idempotency=change.idempotency,
            rollback_to=change.rollback_to,
        )
        stored = await self._store.apply(command) if rows or delete else []
        saved_rows, is_single = iter(stored), len(plans) == 1

        def saved(plan: SavePlan) -> SavedJob:
            return (
                _to_planned_job(plan, now_us=now_us)
                if plan.row is None
                else _to_saved_job(plan, next(saved_rows), now_us, is_single=is_single)
            )

        return await self._slicer.map(plans, saved)

    async def _find_existing(self, drafts: Sequence[Draft], change: _JobChange) -> dict[tuple[str, str], Job]:
        """Find the existing jobs, as far as they must be known before the write.

        Many jobs are read at once, by the ids of names that were never deleted. Drafts with masked values, which depend
        on the stored job, and all drafts of a dry run, where the write would not report an overlooked job, are also
        read by name.
        """
        if change.create_only and not change.dry_run:
            return {}
        if len(drafts) <= _MAX_JOBS_READ_BY_NAME:
            return await self._read_by_name(drafts)
        jobs = await self._store.jobs_by_id(job_ids((draft.namespace, draft.name, 1) for draft in drafts))
        existing = {(job.namespace, job.name): job for job in jobs.values()}
        unread = [draft for draft in drafts if change.dry_run or draft.target_pointers is not None]
        return existing | await self._read_by_name(
            [draft for draft in unread if (draft.namespace, draft.name) not in existing]
        )

    async def _read_by_name(self, drafts: Sequence[Draft]) -> dict[tuple[str, str], Job]:
        jobs = [await self._store.job_named(draft.namespace, draft.name) for draft in drafts]
        return {(job.namespace, job.name): job for job in jobs if job is not None}


def _check_expected(name: str, existing: Job | None, change: _JobChange) -> None:
    expect = change.expect
    if change.create_only and existing is not None:
        raise Conflict(f'a job named "{name}" exists already; choose another name, or replace it')
    if expect is not None and existing is None:
        raise Conflict(f'job "{name}" was deleted since you read version {expect}')
    if expect is not None and existing is not None and existing.version != expect:
        raise version_conflict(name, existing.version, expect)
    if change.owner is not None and existing is not None and existing.spec.owner not in (None, change.owner):
        raise Conflict(
            f'job "{name}" belongs to the owner "{existing.spec.owner}", not to "{change.owner}"; '
            "choose another name, or remove the job there first"
        )


def version_conflict(name: str, version: int, expect: int) -> Conflict:
    """Return the error for a job that another client has changed."""
    return Conflict(f'"{name}" changed since you read it: you have version {expect}, the current one is {version}')


def _upstream_first(drafts: Sequence[Draft], results: Sequence[SavedJob | ChronosError]) -> list[int]:
    """Return the indexes of rejected drafts that have upstream jobs, ordered so that upstream jobs come first."""
    refused = [index for index, draft in enumerate(drafts) if draft.spec.after and isinstance(results[index], Invalid)]
    index_of = {(drafts[index].namespace, drafts[index].name): index for index in refused}
    order: list[int] = []
    seen: set[int] = set()
    pending = [(index, False) for index in reversed(refused)]
    while pending:
        index, is_visited = pending.pop()
        if is_visited:
            order.append(index)
        elif index not in seen:
            seen.add(index)
            draft = drafts[index]
            followed = [(draft.namespace, after.job) for after in draft.spec.after]
            pending += [(index, True), *((index_of[name], False) for name in followed if name in index_of)]
    return order


def _to_saved_job(plan: SavePlan, saved_row: Saved, now_us: int, *, is_single: bool) -> SavedJob:
    return SavedJob(
        job_id=saved_row.id,
        namespace=plan.draft.namespace,
        name=plan.draft.name,
        version=saved_row.version,
        created=saved_row.created,
        changed=saved_row.changed,
        state=plan.state,
        next_us=plan.next_us,
        diff=plan.diff,
        warnings=_find_warnings(plan.draft, now_us),
        job=_to_created_job(plan, saved_row, now_us) if is_single and saved_row.created else None,
    )


def _to_created_job(plan: SavePlan, saved_row: Saved, now_us: int) -> Job | None:
    """Return a job that has just been created."""
    if plan.row is None or plan.state is JobState.PAUSED:
        return None
    return Job(
        id=saved_row.id,
        namespace=plan.draft.namespace,
        name=plan.draft.name,
        incarnation=saved_row.incarnation,
        version=saved_row.version,
        state=plan.state,
        spec=plan.row.spec,
        next_us=plan.next_us,
        created_us=now_us,
        updated_us=now_us,
    )


def _to_planned_job(plan: SavePlan, *, now_us: int) -> SavedJob:
    existing, changed = plan.existing, plan.row is not None
    # Only the store knows whether a name was used before; this id assumes that it was not.
    return SavedJob(
        job_id=job_id(plan.draft.namespace, plan.draft.name, 1) if existing is None else existing.id,
        namespace=plan.draft.namespace,
        name=plan.draft.name,
        version=1 if existing is None else existing.version + (changed and not plan.is_state_change),
        created=existing is None,
        changed=changed,
        state=plan.state,
        next_us=plan.next_us,
        diff=plan.diff,
        warnings=_find_warnings(plan.draft, now_us),
    )


def _find_warnings(draft: Draft, now_us: int) -> tuple[Surprise, ...]:
    spec, schedule = draft.spec.schedule, draft.schedule
    return () if spec is None or schedule is None else tuple(find_surprises(schedule, spec.dialect, now_us))
