"""LevelCache: the settings above jobs, read once per version. A version never changes, so an entry is never stale."""

from collections.abc import Iterable
from typing import NamedTuple

from chronos.core.config import NOTHING_SET, Settings, merge
from chronos.core.settings.levels import NO_LEVELS, Levels
from chronos.store.contract import Store

_CAPACITY = 4_096


class UpperSettings(NamedTuple):
    """The settings above a job: the server's defaults, its namespace's settings, and both merged."""

    defaults: Settings
    namespace: Settings
    merged: Settings


NOTHING_ABOVE = UpperSettings(NOTHING_SET, NOTHING_SET, NOTHING_SET)


class LevelCache:
    """Reads the settings of levels from the store."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._known: dict[tuple[str, int], UpperSettings] = {}

    async def read(self, namespace: str, levels: int) -> UpperSettings:
        """Return the settings above the jobs of a namespace."""
        return (await self.read_all([(namespace, levels)]))[namespace, levels]

    async def read_all(self, pairs: Iterable[tuple[str, int]]) -> dict[tuple[str, int], UpperSettings]:
        """Return the settings of each (namespace, levels). A version that no longer exists sets nothing."""
        wanted = dict.fromkeys(pairs)
        if missing := [pair for pair in wanted if pair[1] != NO_LEVELS and pair not in self._known]:
            await self._fetch(missing)
        return {pair: self._known[pair] if pair[1] != NO_LEVELS else NOTHING_ABOVE for pair in wanted}

    async def _fetch(self, missing: list[tuple[str, int]]) -> None:
        numbers = {pair: Levels.unpack(pair[1]) for pair in missing}
        versions = {("", levels.defaults) for levels in numbers.values() if levels.defaults}
        versions |= {(pair[0], levels.namespace) for pair, levels in numbers.items() if levels.namespace and pair[0]}
        found = await self._store.settings_at(sorted(versions))
        if len(self._known) + len(missing) > _CAPACITY:
            self._known.clear()
        for pair, levels in numbers.items():
            defaults = found.get(("", levels.defaults), NOTHING_SET)
            namespace = found.get((pair[0], levels.namespace), NOTHING_SET)
            self._known[pair] = UpperSettings(defaults, namespace, merge(defaults, namespace))
