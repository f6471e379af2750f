"""Job versions made ready: schedule parsed, settings cascaded, tasks laid out. Kept while they are in use.

A version never changes, so what is kept is never stale; only which version is in force is asked of the store.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Generic, TypeVar

from chronos.core.config import NOTHING_SET, UNLIMITED, EffectiveSettings, Overlap, Settings, resolve_settings
from chronos.core.events import JobUnschedulable
from chronos.core.job import Job, JobSpec, Target
from chronos.core.lane import Lane, build_lane
from chronos.core.schedule.occurrences import Instants
from chronos.core.schedule_change import resolve_instants
from chronos.core.task_group import Layout, build_layout
from chronos.engine.event_bus import EventBus
from chronos.errors import ChronosError
from chronos.store.contract import Store

CATALOG_CAPACITY = 20_000
T = TypeVar("T")


class _lazy(Generic[T]):  # noqa: N801 - a decorator
    """As ``functools.cached_property``, whose lock costs more than most of what is worked out here."""

    def __init__(self, make: Callable[[Any], T]) -> None:
        self._make, self._name = make, make.__name__
        self.__doc__ = make.__doc__

    def __get__(self, instance: Any, owner: type | None = None) -> T:
        value = instance.__dict__[self._name] = self._make(instance)
        return value


class CatalogEntry:
    """One version of one job."""

    def __init__(self, job: bytes, version: int, namespace: str, name: str, spec: JobSpec, defaults: Settings) -> None:
        self.job, self.version = job, version
        self.namespace, self.name = namespace, name
        self.spec = spec
        self._defaults = defaults
        self.effective: EffectiveSettings = resolve_settings(defaults, spec.settings)
        self._timeout_said: dict[str, bool] = {}

    @_lazy
    def instants(self) -> Instants | None:
        """When it is due; None: only when it is asked for. Raises ``Invalid``."""
        return resolve_instants(self.spec, self.name)

    @_lazy
    def layout(self) -> Layout:
        """Its tasks. Raises ``Invalid``."""
        return build_layout(self.spec, self._defaults)

    @property
    def has_valid_layout(self) -> bool:
        """Whether anybody can tell what its tasks are."""
        try:
            return bool(self.layout)
        except ChronosError:
            return False

    @_lazy
    def lane(self) -> Lane:
        return build_lane(self.spec, self.effective)

    def precompute(self) -> None:
        """Work out now what its start will need. Raises ``Invalid``."""
        _ = self.lane, self.may_queue, self.plain and self.timeout_us

    @_lazy
    def may_queue(self) -> bool:
        """Whether an execution may be queued behind another, to be handed over when that one ends."""
        effective = self.effective
        if effective.key is not None or effective.limit != UNLIMITED:
            return True
        return effective.overlap is not Overlap.SKIP and effective.overlap is not Overlap.ALLOW

    @_lazy
    def only_target(self) -> Target | None:
        """Its one task's target, where there is nothing else to an execution: no other task, no hook."""
        if len(self.spec.tasks) != 1 or self.spec.on_start is not None or self.spec.on_complete is not None:
            return None
        return self.spec.tasks[0].target

    @_lazy
    def short(self) -> bool:
        """Whether the one task's own timeout ends it in time, so that nobody has to look at the execution's."""
        task_us, whole_us = self.layout.tasks[0].effective.task_timeout_us, self.layout.execution_timeout_us
        return not whole_us or 0 < task_us <= whole_us

    @_lazy
    def plain(self) -> bool:
        """Whether a first attempt may take the fast path; the full one tells what cannot even be laid out."""
        try:
            return self.only_target is not None and self.short
        except ChronosError:
            return False

    @_lazy
    def timeout_us(self) -> int:
        """Of its first task; 0: without limit."""
        return self.layout.tasks[0].effective.task_timeout_us

    def timeout_said(self, task: str) -> bool:
        """Whether any level sets a timeout for a task."""
        said = self._timeout_said.get(task)
        if said is None:
            said = self._timeout_said[task] = self._has_timeout_setting(task)
        return said

    def _has_timeout_setting(self, task: str) -> bool:
        own = next((each.settings for each in self.spec.tasks if each.name == task), NOTHING_SET)
        return any(level.task_timeout_us is not None for level in (own, self.spec.settings, self._defaults))

    def target(self, task: str) -> Target:
        return self.spec.tasks[self.layout.index_of(task)].target


class JobCatalog:
    """Entries by job and version, the least recently used forgotten first."""

    def __init__(self, store: Store, defaults: Settings, bus: EventBus, *, capacity: int = CATALOG_CAPACITY) -> None:
        self._store, self._defaults, self._bus = store, defaults, bus
        self._capacity = capacity
        self._entries: OrderedDict[tuple[bytes, int], CatalogEntry] = OrderedDict()
        self._newest: dict[bytes, CatalogEntry] = {}

    def get(self, job: bytes, version: int) -> CatalogEntry | None:
        """An entry that is at hand."""
        entry = self._entries.get((job, version))
        if entry is not None:
            self._entries.move_to_end((job, version))
        return entry

    def newest(self, job: bytes) -> CatalogEntry | None:
        """The entry of a job that was made ready last, if it is still at hand."""
        return self._newest.get(job)

    async def fetch(self, pairs: Iterable[tuple[bytes, int]]) -> dict[tuple[bytes, int], CatalogEntry]:
        """Entries of these jobs and versions, read together where they are not at hand.

        A job that is gone is among them under no name, if its version is still known; what is unknown is left out.
        """
        wanted = list(dict.fromkeys(pairs))
        found = {pair: entry for pair in wanted if (entry := self.get(*pair)) is not None}
        missing = [pair for pair in wanted if pair not in found]
        if missing:
            jobs = await self._store.jobs_by_id([job for job, _ in missing])
            old = [pair for pair in missing if pair[0] not in jobs or jobs[pair[0]].version != pair[1]]
            specs = await self._store.specs_at(old) if old else {}
            for pair in missing:
                job = jobs.get(pair[0])
                spec = job.spec if job is not None and job.version == pair[1] else specs.get(pair)
                if spec is not None:
                    found[pair] = self._add(pair, job, spec)
        return found

    async def current(self, jobs: Sequence[bytes]) -> dict[bytes, CatalogEntry]:
        """The versions in force, whatever is at hand."""
        found = await self._store.jobs_by_id(jobs)
        return {id_: self._add((id_, job.version), job, job.spec) for id_, job in found.items()}

    def broken(self, entry: CatalogEntry, error: ChronosError, now_us: int) -> None:
        """Tell that a job cannot be scheduled or run here."""
        self._bus.emit(JobUnschedulable(at_us=now_us, job=entry.job, error=f"{entry.name}: {error}"))

    def _add(self, pair: tuple[bytes, int], job: Job | None, spec: JobSpec) -> CatalogEntry:
        known = self._entries.get(pair)
        if known is not None:
            return known
        namespace, name = (job.namespace, job.name) if job is not None else ("", "")
        entry = self._entries[pair] = CatalogEntry(pair[0], pair[1], namespace, name, spec, self._defaults)
        self._newest[pair[0]] = entry
        if len(self._entries) > self._capacity:
            _, oldest = self._entries.popitem(last=False)
            if self._newest.get(oldest.job) is oldest:
                del self._newest[oldest.job]
        return entry
