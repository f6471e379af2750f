"""Facets: what the jobs of a namespace have in common, to choose from in a filter. Remembered for a minute."""

from dataclasses import dataclass

from chronos.clock import Clock
from chronos.core.calendar import SECOND_US
from chronos.core.job import find_zone
from chronos.core.lane import read_lane
from chronos.store.contract import JobFilter, Store
from chronos.store.overview import Facet

MAX_FACETS = 50
_SEARCHED_FACETS = 200
_MAX_JOBS = 2_000  # that are read to find their zones
_REMEMBERED_US = 60 * SECOND_US
_MAX_NAMESPACES = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Facets:
    """Values and the number of their jobs, most used first, at most 50 each. Counts go up to ``COUNT_CAP + 1``.

    Zones and targets are those of the first 2,000 jobs by name; with more jobs, the counts are not ``complete``.
    """

    tags: tuple[Facet, ...]
    owners: tuple[Facet, ...]
    zones: tuple[Facet, ...]
    targets: tuple[Facet, ...]
    queues: tuple[str, ...]
    complete: bool


class FacetView:
    """Reads facets."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store, self._clock = store, clock
        self._remembered: dict[str | None, tuple[int, Facets]] = {}

    async def get(self, namespace: str | None) -> Facets:
        """Return the facets of a namespace (None: of all)."""
        now_us = self._clock.now_us()
        at_us, facets = self._remembered.get(namespace, (0, None))
        if facets is None or not at_us <= now_us < at_us + _REMEMBERED_US:
            facets = await self._read(namespace)
            if len(self._remembered) >= _MAX_NAMESPACES:
                self._remembered.clear()
            self._remembered[namespace] = now_us, facets
        return facets

    async def _read(self, namespace: str | None) -> Facets:
        page = await self._store.list_jobs(JobFilter(namespace=namespace), limit=_MAX_JOBS)
        zones: dict[str, int] = {}
        targets: dict[str, int] = {}
        for job in page.items:
            if (zone := find_zone(job)) is not None:
                zones[zone] = zones.get(zone, 0) + 1
            for kind in {task.target.kind for task in job.spec.tasks}:
                targets[kind] = targets.get(kind, 0) + 1
        lanes = await self._store.lanes()
        return Facets(
            tags=_most_used(await self._store.tag_facets(namespace, limit=_SEARCHED_FACETS)),
            owners=_most_used(await self._store.owner_facets(namespace, limit=_SEARCHED_FACETS)),
            zones=_most_used([Facet(*entry) for entry in zones.items()]),
            targets=_most_used([Facet(*entry) for entry in targets.items()]),
            queues=tuple(sorted({read_lane(text).queue for text in lanes.values()}))[:MAX_FACETS],
            complete=page.cursor is None,
        )


def _most_used(facets: list[Facet]) -> tuple[Facet, ...]:
    return tuple(sorted(facets, key=lambda facet: (-facet.jobs, facet.value))[:MAX_FACETS])
