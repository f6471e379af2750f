"""JobCatalog: parsed job versions, cached while they are in use.

A version never changes, so an entry is never stale. Only the number of the current version is read from the store.
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
from chronos.core.task_group import Layout, build_layout
from chronos.engine.event_bus import EventBus
from chronos.errors import ChronosError, MissingSchedule
from chronos.store.contract import Store

CATALOG_CAPACITY = 20_000
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
    """One version of one job: schedule parsed, settings resolved, tasks laid out."""

    def __init__(self, job: bytes, version: int, namespace: str, name: str, spec: JobSpec, defaults: Settings) -> None:
        self.job, self.version = job, version
        self.namespace, self.name = namespace, name
        self.spec = spec
        self._defaults = defaults
        self.effective: EffectiveSettings = resolve_settings(defaults, spec.settings)
        self._timeout_set: dict[str, bool] = {}

    @_lazy
    def instants(self) -> Instants | None:
        """The instants of its schedule; None if the job runs only when triggered. Raises ``Invalid``."""
        return resolve_instants(self.spec, self.name)

    @_lazy
    def layout(self) -> Layout:
        """Its tasks. Raises ``Invalid``."""
        return build_layout(self.spec, self._defaults)

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
        """Whether the task, the job or the defaults set a timeout for a task."""
        is_set = self._timeout_set.get(task)
        if is_set is None:
            is_set = self._timeout_set[task] = self._has_timeout_setting(task)
        return is_set

    def _has_timeout_setting(self, task: str) -> bool:
        own = next((each.settings for each in self.spec.tasks if each.name == task), NOTHING_SET)
        return any(level.task_timeout_us is not None for level in (own, self.spec.settings, self._defaults))

    def target(self, task: str) -> Target:
        return self.spec.tasks[self.layout.index_of(task)].target


class JobCatalog:
    """Entries by job and version. The least recently used entries are dropped first."""

    def __init__(self, store: Store, defaults: Settings, bus: EventBus, *, capacity: int = CATALOG_CAPACITY) -> None:
        self._store, self._defaults, self._bus = store, defaults, bus
        self._capacity = capacity
        self._entries: OrderedDict[tuple[bytes, int], CatalogEntry] = OrderedDict()
        self._newest: dict[bytes, CatalogEntry] = {}

    def get(self, job: bytes, version: int) -> CatalogEntry | None:
        """Return a cached entry, or None."""
        entry = self._entries.get((job, version))
        if entry is not None:
            self._entries.move_to_end((job, version))
        return entry

    def newest(self, job: bytes) -> CatalogEntry | None:
        """Return the entry of a job that was added last, if it is still cached."""
        return self._newest.get(job)

    async def fetch(self, pairs: Iterable[tuple[bytes, int]]) -> dict[tuple[bytes, int], CatalogEntry]:
        """Return the entries of these jobs and versions. Entries that are not cached are read together.

        The entry of a deleted job has an empty name, if its version is still stored. Unknown versions are left out.
        """
        keys = list(dict.fromkeys(pairs))
        entries = {pair: entry for pair in keys if (entry := self.get(*pair)) is not None}
        missing = [pair for pair in keys if pair not in entries]
        if missing:
            jobs = await self._store.jobs_by_id([job for job, _ in missing])
            old = [pair for pair in missing if pair[0] not in jobs or jobs[pair[0]].version != pair[1]]
            specs = await self._store.specs_at(old) if old else {}
            for pair in missing:
                job = jobs.get(pair[0])
                spec = job.spec if job is not None and job.version == pair[1] else specs.get(pair)
                if spec is not None:
                    entries[pair] = self._add(pair, job, spec)
        return entries

    async def fetch_current(self, jobs: Sequence[bytes]) -> dict[bytes, CatalogEntry]:
        """Return the entries of the current versions, as the store has them now."""
        current = await self._store.jobs_by_id(jobs)
        return {id_: self._add((id_, job.version), job, job.spec) for id_, job in current.items()}

    def find_fault(self, job: Job) -> ChronosError | None:
        """Return why this node cannot schedule a job, or None. The entry is not cached."""
        try:
            entry = CatalogEntry(job.id, job.version, job.namespace, job.name, job.spec, self._defaults)
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

    def _add(self, pair: tuple[bytes, int], job: Job | None, spec: JobSpec) -> CatalogEntry:
        entry = self._entries.get(pair)
        if entry is not None:
            return entry
        namespace, name = (job.namespace, job.name) if job is not None else ("", "")
        entry = self._entries[pair] = CatalogEntry(pair[0], pair[1], namespace, name, spec, self._defaults)
        self._newest[pair[0]] = entry
        if len(self._entries) > self._capacity:
            _, oldest = self._entries.popitem(last=False)
            if self._newest.get(oldest.job) is oldest:
                del self._newest[oldest.job]
        return entry
