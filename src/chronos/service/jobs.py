"""JobService: parses, finds, compares, rolls back and deletes jobs."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace as with_fields
from itertools import islice
from typing import Any

from msgspec.structs import replace

from chronos.clock import Clock
from chronos.core.config import NOTHING_SET, EffectiveSettings, Settings, UpdatePolicy, resolve_settings
from chronos.core.execution import Execution
from chronos.core.job import DEFAULT_NAMESPACE, Job, JobSpec, JobState, JobVersion, ensure_readable
from chronos.core.node import Actor
from chronos.core.planner import MAX_PREVIEW
from chronos.core.schedule.occurrences import walk
from chronos.core.schedule_change import find_next_run_us, parse_stored, resolve_instants
from chronos.core.settings.levels import NO_LEVELS
from chronos.core.task_group import Layout, build_layout
from chronos.errors import Conflict, MissingSchedule, NotFound
from chronos.runners.target_kinds import list_target_fields
from chronos.service.save_jobs import JobSaver, SavedJob, version_conflict
from chronos.service.schedule_preview import Preview, preview_schedule, preview_spec
from chronos.service.serializers import Check, Draft, JobReader, check_targets, id_text, read_id, write_job
from chronos.service.serializers.object_reader import suggest
from chronos.service.version_diff import VersionDiff, compare
from chronos.store.commands import SYSTEM, DeleteJob
from chronos.store.contract import JobFilter, Page, Store
from chronos.store.level_cache import LevelCache

ALL_JOBS = JobFilter()
_FOREVER_US = 1 << 62
_MAX_RACES = 50  # lost races before an edit gives up


class JobService:
    """The jobs of a store. ``checks`` are the runners' checks by kind of target."""

    def __init__(self, store: Store, clock: Clock, saver: JobSaver, *, checks: Mapping[str, Check]) -> None:
        self._store, self._clock, self._saver = store, clock, saver
        self._checks = checks
        self.levels = LevelCache(store)
        self._reader = JobReader(checks)

    # --- reading

    def read(self, data: Any, *, namespace: str = DEFAULT_NAMESPACE) -> Draft:
        """Read a job from JSON. Raises ``InvalidJob``."""
        return self._reader.read(data, namespace=namespace)

    @property
    def target_kinds(self) -> tuple[str, ...]:
        """The kinds of targets that can run."""
        return tuple(sorted(self._checks))

    @property
    def target_fields(self) -> tuple[str, ...]:
        """The fields of a job or task that can hold a target."""
        return list_target_fields(self._checks)

    async def effective_settings(self, job: Job) -> EffectiveSettings:
        """Return the settings that the next execution of a job gets."""
        upper = await self.levels.read(job.namespace, job.levels)
        return resolve_settings(upper.merged, job.spec.settings)

    async def settings_of(self, execution: Execution, spec: JobSpec) -> EffectiveSettings:
        """Return the settings that an execution was admitted under. ``spec`` is its version of the job."""
        return resolve_settings(await self._read_upper(execution), spec.settings)

    async def layout(self, execution: Execution, spec: JobSpec) -> Layout:
        """Return the tasks of an execution as it runs them. ``spec`` is its version of the job."""
        return build_layout(spec, await self._read_upper(execution))

    async def _read_upper(self, execution: Execution) -> Settings:
        """Return the settings above the job of an execution, which may be deleted."""
        if execution.levels == NO_LEVELS:
            return NOTHING_SET
        names = await self._store.names_of([execution.job])
        namespace = names[execution.job].namespace if execution.job in names else ""
        return (await self.levels.read(namespace, execution.levels)).merged

    async def edit(
        self,
        ref: str,
        change: Callable[[Mapping[str, Any]], Mapping[str, Any]],
        *,
        namespace: str = DEFAULT_NAMESPACE,
        actor: Actor = SYSTEM,
    ) -> SavedJob:
        """Save a job as ``change`` returns it, from its JSON. After a lost race the change is made again.

        Raises ``NotFound``, ``InvalidJob``, ``Conflict``, and the errors of ``change``.
        """
        job = await self.get(ref, namespace)
        for race in range(1, _MAX_RACES + 1):
            ensure_readable(job.spec)  # otherwise the fields that are not changed would be lost
            draft = self.read(change(write_job(job)), namespace=job.namespace)
            try:
                [saved] = await self._saver.save([draft], actor=actor, expect=job.version)
            except Conflict:
                if race == _MAX_RACES:
                    raise
                job = await self.get(id_text(job.id))
            else:
                return saved
        raise AssertionError("the last race is won or raised")

    async def delete(
        self, ref: str, *, namespace: str = DEFAULT_NAMESPACE, expect: int | None = None, actor: Actor = SYSTEM
    ) -> Job:
        """Delete a job and return it; its history remains. Raises ``Conflict`` if its version is not ``expect``."""
        job = await self.get(ref, namespace)
        await self._store.apply(DeleteJob(job=job.id, now_us=self._clock.now_us(), expect=expect, actor=actor))
        return job

    # --- finding

    async def get(self, ref: str, namespace: str = DEFAULT_NAMESPACE) -> Job:
        """Return the job of an id (hex or UUID) or a name. Raises ``NotFound`` with similar names."""
        id_ = read_id(ref)
        if id_ is not None:
            job = (await self._store.jobs_by_id([id_])).get(id_)
        else:
            job = await self._store.job_named(namespace, ref)
        if job is not None:
            return job
        hint = "" if id_ is not None else await self._suggest(ref, namespace) or "; list the jobs to see their names"
        raise NotFound(f'job "{ref[:200]}" not found in the namespace "{namespace}"{hint}')

    async def list(self, where: JobFilter = ALL_JOBS, *, limit: int = 100, cursor: bytes | None = None) -> Page[Job]:
        """List jobs by namespace and name."""
        return await self._store.list_jobs(where, limit=limit, cursor=cursor)

    async def next_runs(self, ref: str, count: int = 10, *, namespace: str = DEFAULT_NAMESPACE) -> tuple[int, ...]:
        """Return the next instants of a job, at most ``MAX_PREVIEW``.

        A paused job has those that would run if it were resumed now, a disabled one has none.
        """
        job = await self.get(ref, namespace)
        ensure_readable(job.spec)
        next_us = find_next_run_us(job, self._clock.now_us())
        if next_us is None:
            return ()
        try:
            instants = resolve_instants(job.spec, job.name)
        except MissingSchedule:  # only the instant that the store holds is known here
            return (next_us,) if count > 0 else ()
        if instants is None:
            return ()
        return tuple(islice(walk(instants, next_us, _FOREVER_US), min(count, MAX_PREVIEW)))

    async def preview_job(self, ref: str, count: int = 10, *, namespace: str = DEFAULT_NAMESPACE) -> Preview | None:
        """Preview the schedule of a job; None without a schedule. A job that is not active is shown as if it were."""
        job = await self.get(ref, namespace)
        schedule = ensure_readable(job.spec).schedule
        if schedule is None:
            return None
        parse_stored(schedule, job.name)  # raises for one that is not registered here
        preview = preview_spec(schedule, now_us=self._clock.now_us(), count=count, key=job.name)
        if job.state is not JobState.ACTIVE:
            return preview
        return with_fields(preview, next_us=await self.next_runs(ref, count, namespace=namespace))

    def preview(self, data: Any, *, count: int = 10, key: str = "") -> Preview:
        """Preview a schedule. Raises ``InvalidJob``."""
        return preview_schedule(data, now_us=self._clock.now_us(), count=count, key=key)

    # --- versions

    async def versions(
        self, ref: str, *, namespace: str = DEFAULT_NAMESPACE, limit: int = 100, before: int | None = None
    ) -> Sequence[JobVersion]:
        """List the versions of a job, newest first."""
        job = await self.get(ref, namespace)
        return await self._store.versions(job.id, limit=limit, before=before)

    async def version(self, ref: str, version: int, *, namespace: str = DEFAULT_NAMESPACE) -> JobVersion:
        """Return one version of a job. Raises ``NotFound``."""
        return await self._version(await self.get(ref, namespace), version)

    async def diff(self, ref: str, old: int, new: int, *, namespace: str = DEFAULT_NAMESPACE) -> VersionDiff:
        """Compare two versions of a job."""
        job = await self.get(ref, namespace)
        return compare(job, await self._version(job, old), await self._version(job, new), self._clock.now_us())

    async def rollback(
        self,
        ref: str,
        version: int,
        *,
        namespace: str = DEFAULT_NAMESPACE,
        expect: int | None = None,
        actor: Actor = SYSTEM,
        dry_run: bool = False,
        update_policy: UpdatePolicy | None = None,
    ) -> SavedJob:
        """Save the definition of an old version as a new version. ``update_policy`` overrides the job's, this once.

        Raises ``InvalidJob`` if that version has a target that would now be rejected.
        """
        job = await self.get(ref, namespace)
        if expect is not None and job.version != expect:
            raise version_conflict(job.name, job.version, expect)
        old = await self._version(job, version)
        spec = replace(ensure_readable(old.spec), outgoing=None)
        draft = Draft(namespace=job.namespace, name=job.name, spec=spec, update_policy=update_policy)
        check_targets(job.name, draft.spec, self._checks)
        [saved] = await self._saver.save(
            [draft], actor=actor, expect=job.version, dry_run=dry_run, rollback_to=old.version
        )
        return saved

    # --- helpers

    async def _version(self, job: Job, version: int) -> JobVersion:
        versions = await self._store.versions(job.id, limit=1, before=version + 1)
        if not versions or versions[0].version != version:
            raise NotFound(f'version {version} of "{job.name}" not found; the newest is {job.version}')
        return versions[0]

    async def _suggest(self, name: str, namespace: str) -> str:
        for prefix in (name[:3], name[:1], ""):
            page = await self._store.list_jobs(JobFilter(namespace=namespace, prefix=prefix), limit=200)
            if hint := suggest(name, [job.name for job in page.items]):
                return hint
        return ""
