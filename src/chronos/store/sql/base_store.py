"""What both drivers share: reads, hints, and that is all. A driver opens, runs steps, applies and looks after."""

import logging
from collections.abc import Callable, Sequence
from typing import TypeVar, TypeVarTuple

from chronos.store.contract import Hint
from chronos.store.sql.dialect import Dialect
from chronos.store.sql.reads import Reads

T = TypeVar("T")
Ts = TypeVarTuple("Ts")
log = logging.getLogger("chronos.store")


class SqlStore(Reads):
    """Reads, and listeners of what was written; see ``contract.Store`` for what each method promises."""

    def __init__(self, dialect: Dialect) -> None:
        super().__init__(dialect)
        self._hints: list[Callable[[Hint], None]] = []
        self._commits: list[Callable[[int, float], None]] = []

    def on_hint(self, callback: Callable[[Hint], None]) -> None:
        self._hints.append(callback)

    def on_commit(self, callback: Callable[[int, float], None]) -> None:
        self._commits.append(callback)

    def _committed(self, rows: int, took_s: float) -> None:
        _tell(self._commits, rows, took_s)

    def _hint(self, hint: Hint) -> None:
        _tell(self._hints, hint)

    async def check_statements(self) -> list[str]:
        return []


def _tell(listeners: Sequence[Callable[[*Ts], None]], *news: *Ts) -> None:
    """A listener's own trouble must not become that of a commit, which would be made once more."""
    for listener in listeners:
        try:
            listener(*news)
        except Exception:
            log.exception("a listener of the store failed")
