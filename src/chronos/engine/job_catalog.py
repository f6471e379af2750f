"""JobCatalog: parsed job versions under their levels of settings, cached while they are in use.

A version never changes, so an entry is never stale. Only the numbers of the current versions are read from the store.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Generic, TypeVar

from chronos.core.config import NOTHING_SET, UNLIMITED, EffectiveSettings, Overlap, Settings, resolve_settings
from chronos.core.events import JobLeftAlone, JobUnschedulable
from chronos.core.job import Job, JobSpec, Target
from chronos.core.lane import Lane, build_lane
from chronos.core.schedule.occurrences import Instants
from chronos.core.schedule_change import resolve_instants
from chronos.core.settings.levels import NO_LEVELS
from chronos.core.task_group import Layout, build_layout
from chronos.engine.event_bus import EventBus
from chronos.errors import ChronosError, MissingSchedule
from chronos.store.contract import Store
from chronos.store.level_cache import LevelCache

CATALOG_CAPACITY = 20_000
EntryKey = tuple[bytes, int, int]  # job, version, levels
T = TypeVar("T")


class _lazy(Generic[T]):  # noqa: N801 - a decorator
    """Like ``functools.cached_property``, without its lock, which costs more than most of these values."""

    def __init__(self, make: Callable[[Any], T]) -> None:
        self._make, self._name = make, make.__name__
        self.__doc__ = make.__doc__

    def __get__(self, instance: Any, owner: type | None = None) -> T:
        value = instance.__dict__[self._name] = self._make(instance)
        return value


class CatalogEntry:
    """One version of one job under given levels: schedule parsed, settings resolved, tasks laid out."""

    def __init__(
        self, job: bytes, version: int, levels: int, namespace: str, name: str, spec: JobSpec, upper: Settings
    ) -> None:
        self.job, self.version, self.levels = job, version, levels
        self.namespace, self.name = namespace, name
        self.spec = spec
        self._upper = upper
        self.effective: EffectiveSettings = resolve_settings(upper, spec.settings)
        self._timeout_set: dict[str, bool] = {}

    @_lazy
    def instants(self) -> Instants | None:
        """The instants of its schedule; None if the job runs only when triggered. Raises ``Invalid``."""
        return resolve_instants(self.spec, self.name)

    @_lazy
    def layout(self) -> Layout:
        """Its tasks. Raises ``Invalid``."""
        return build_layout(self.spec, self._upper)

    @property
    def has_valid_layout(self) -> bool:
        """Whether its tasks can be read."""
        try:
            return bool(self.layout)
        except ChronosError:
            return False

    @_lazy
    def lane(self) -> Lane:
        return build_lane(self.spec, self.effective)

    def precompute(self) -> None:
        """Compute in advance the values that the start of an execution needs. Raises ``Invalid``."""
        _ = self.lane, self.may_queue, self.can_use_fast_path and self.timeout_us

    @_lazy
    def may_queue(self) -> bool:
        """Whether an execution may be queued behind another, and handed over when that one ends."""
        effective = self.effective
        if effective.key is not None or effective.limit != UNLIMITED:
            return True
        return effective.overlap is not Overlap.SKIP and effective.overlap is not Overlap.ALLOW

    @_lazy
    def only_target(self) -> Target | None:
        """The target of its only task; None if it has more tasks or a hook."""
        if len(self.spec.tasks) != 1 or self.spec.on_start is not None or self.spec.on_complete is not None:
            return None
        return self.spec.tasks[0].target

    @_lazy
    def is_bounded_by_task_timeout(self) -> bool:
        """Whether the timeout of its only task also enforces the timeout of the execution."""
        task_us, execution_us = self.layout.tasks[0].effective.task_timeout_us, self.layout.execution_timeout_us
        return not execution_us or 0 < task_us <= execution_us

    @_lazy
    def can_use_fast_path(self) -> bool:
        """Whether a first attempt may take the fast path. The full path reports an invalid layout."""
        try:
            return self.only_target is not None and self.is_bounded_by_task_timeout
        except ChronosError:
            return False

    @_lazy
    def timeout_us(self) -> int:
        """The timeout of its first task; 0 means no limit."""
        return self.layout.tasks[0].effective.task_timeout_us

    def has_timeout(self, task: str) -> bool:
        """Whether any level sets a timeout for a task."""
        is_set = self._timeout_set.get(task)
        if is_set is None:
            is_set = self._timeout_set[task] = self._has_timeout_setting(task)
        return is_set

    def _has_timeout_setting(self, task: str) -> bool:
        own = next((each.settings for each in self.spec.tasks if each.name == task), NOTHING_SET)
        return any(level.task_timeout_us is not None for level in (own, self.spec.settings, self._upper))

    def target(self, task: str) -> Target:
        return self.spec.tasks[self.layout.index_of(task)].target


class JobCatalog:
    """Entries by job, version and levels. The least recently used entries are dropped first."""

    def __init__(self, store: Store, bus: EventBus, *, capacity: int = CATALOG_CAPACITY) -> None:
        self._store, self._bus = store, bus
        self._levels = LevelCache(store)
        self._capacity = capacity
        self._entries: OrderedDict[EntryKey, CatalogEntry] = OrderedDict()
        self._newest: dict[bytes, CatalogEntry] = {}

    def get(self, key: EntryKey) -> CatalogEntry | None:
        """Return a cached entry, or None."""
        entry = self._entries.get(key)
        if entry is not None:
            self._entries.move_to_end(key)
        return entry

    def newest(self, job: bytes) -> CatalogEntry | None:
        """Return the entry of a job that was added last, if it is still cached."""
        return self._newest.get(job)

    async def fetch(self, keys: Iterable[EntryKey]) -> dict[EntryKey, CatalogEntry]:
        """Return the entries of these jobs, versions and levels. Entries that are not cached are read together.

        The entry of a deleted job has an empty name, if its version is still stored. Unknown versions are left out.
        """
        wanted = list(dict.fromkeys(keys))
        entries = {key: entry for key in wanted if (entry := self.get(key)) is not None}
        missing = [key for key in wanted if key not in entries]
        if missing:
            jobs = await self._store.jobs_by_id([key[0] for key in missing])
            old = [key[:2] for key in missing if key[0] not in jobs or jobs[key[0]].version != key[1]]
            specs = await self._store.specs_at(old) if old else {}
            found: list[tuple[EntryKey, Job | None, JobSpec]] = []
            for key in missing:
                job = jobs.get(key[0])
                spec = job.spec if job is not None and job.version == key[1] else specs.get(key[:2])
                if spec is not None:
                    found.append((key, job, spec))
            entries |= await self._add_all(found)
        return entries

    async def fetch_current(self, jobs: Sequence[bytes]) -> dict[bytes, CatalogEntry]:
        """Return the entries of the current versions and levels, as the store has them now."""
        current = await self._store.jobs_by_id(jobs)
        found = [((id_, job.version, job.levels), job, job.spec) for id_, job in current.items()]
        return {key[0]: entry for key, entry in (await self._add_all(found)).items()}

    async def find_fault(self, job: Job) -> ChronosError | None:
        """Return why this node cannot schedule a job, or None. The entry is not cached."""
        upper = (await self._levels.read(job.namespace, job.levels)).merged
        try:
            entry = CatalogEntry(job.id, job.version, job.levels, job.namespace, job.name, job.spec, upper)
            _ = entry.instants
            entry.precompute()
        except ChronosError as error:
            return error
        return None

    def report_unschedulable(self, entry: CatalogEntry, error: ChronosError, now_us: int) -> None:
        """Emit a ``JobUnschedulable`` event: this node cannot schedule or run the job."""
        self._bus.emit(JobUnschedulable(at_us=now_us, job=entry.job, error=f"{entry.name}: {error}"))

    def report_left_alone(self, entry: CatalogEntry, error: MissingSchedule, now_us: int) -> None:
        """Emit a ``JobLeftAlone`` event: this node leaves the job to programs that have its schedule."""
        self._bus.emit(JobLeftAlone(at_us=now_us, job=entry.job, reason=str(error)))

    async def _add_all(self, found: Sequence[tuple[EntryKey, Job | None, JobSpec]]) -> dict[EntryKey, CatalogEntry]:
        namespaces = {key[0]: job.namespace for key, job, _ in found if job is not None}
        deleted = [key[0] for key, job, _ in found if job is None and key[2] != NO_LEVELS]
        if deleted:
            namespaces |= {id_: name.namespace for id_, name in (await self._store.names_of(deleted)).items()}
        upper = await self._levels.read_all((namespaces.get(key[0], ""), key[2]) for key, _, _ in found)
        return {
            key: self._add(key, job, spec, upper[namespaces.get(key[0], ""), key[2]].merged) for key, job, spec in found
        }

    def _add(self, key: EntryKey, job: Job | None, spec: JobSpec, upper: Settings) -> CatalogEntry:
        entry = self._entries.get(key)
        if entry is not None:
            return entry
        namespace, name = (job.namespace, job.name) if job is not None else ("", "")
        entry = self._entries[key] = CatalogEntry(*key, namespace, name, spec, upper)
        self._newest[key[0]] = entry
        if len(self._entries) > self._capacity:
            _, oldest = self._entries.popitem(last=False)
            if self._newest.get(oldest.job) is oldest:
                del self._newest[oldest.job]
        return entry
