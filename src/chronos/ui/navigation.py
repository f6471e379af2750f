"""Navigation: what the top bar of every page shows, cached for a few seconds."""

from dataclasses import dataclass

from chronos.clock import Clock
from chronos.core.calendar import SECOND_US
from chronos.store.contract import Store
from chronos.ui.accounts import Account

MAX_LETTERS = 99  # the count of dead letters stops here
_MAX_NAMESPACES = 200
_MAX_CACHED = 1_000
_CACHE_US = 5 * SECOND_US


@dataclass(frozen=True, slots=True, kw_only=True)
class _Known:
    at_us: int
    letters: int


class Navigation:
    """Reads the namespaces and the number of dead letters."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store, self._clock = store, clock
        self._letters: dict[str, _Known] = {}
        self._namespaces: tuple[int, list[str]] = (-_CACHE_US, [])

    async def namespaces(self, account: Account) -> list[str]:
        """Return the namespaces that have jobs and that the account may see."""
        at_us, names = self._namespaces
        if not 0 <= self._clock.now_us() - at_us < _CACHE_US:
            names = await self._store.namespaces(limit=_MAX_NAMESPACES)
            self._namespaces = (self._clock.now_us(), names)
        return [name for name in names if account.sees(name)]

    async def count_letters(self, namespace: str) -> int:
        """Return the number of dead letters of a namespace, at most one more than ``MAX_LETTERS``."""
        known, now_us = self._letters.get(namespace), self._clock.now_us()
        if known is not None and 0 <= now_us - known.at_us < _CACHE_US:
            return known.letters
        page = await self._store.list_dead_letters(namespace=namespace, limit=MAX_LETTERS + 1)
        if len(self._letters) >= _MAX_CACHED:
            self._letters.clear()
        self._letters[namespace] = _Known(at_us=now_us, letters=len(page.items))
        return len(page.items)
