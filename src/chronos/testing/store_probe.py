"""The store probe: reads raw rows of a SQLite store and counts its statements, for tests."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol, cast, runtime_checkable

import apsw

from chronos.errors import Invalid
from chronos.store.contract import Store

STEPS = 1_000  # steps of the virtual machine between two counts
_TRANSACTION_STATEMENTS = ("begin immediate", "commit")


@runtime_checkable
class Probed(Protocol):
    """A store that exposes its SQLite connection."""

    def writer_connection(self) -> apsw.Connection:
        """Return the connection that writes."""


class StoreProbe:
    """Inspects an open SQLite store below its contract. Raises ``Invalid`` for another engine.

    Use it between calls to the store, because it shares the connection of the writer thread. Reads use that connection
    only in a store in memory, so only there are their statements and steps counted.
    """

    def __init__(self, store: Store) -> None:
        if not isinstance(store, Probed):
            raise Invalid("only a SQLite store can be probed; open one with sqlite:// or sqlite:///file.db")
        self._store: Probed = store

    @property
    def connection(self) -> apsw.Connection:
        """The SQLite connection, for hooks and pragmas."""
        return self._store.writer_connection()

    def execute(self, sql: str, *args: Any) -> list[tuple[Any, ...]]:
        """Run a statement and return its rows. It may change tables without the store noticing."""
        return cast("list[tuple[Any, ...]]", self.connection.execute(sql, args).fetchall())

    @contextmanager
    def statements(self) -> Iterator[list[str]]:
        """Collect the statements that run during the block, without ``begin`` and ``commit``."""
        seen: list[str] = []

        def trace(_: object, sql: str, __: object) -> bool:
            if sql not in _TRANSACTION_STATEMENTS:
                seen.append(sql)
            return True

        connection = self.connection
        connection.exec_trace = trace
        try:
            yield seen
        finally:
            connection.exec_trace = None

    @contextmanager
    def steps(self) -> Iterator[list[int]]:
        """Count the steps of SQLite's virtual machine during the block: one item per ``STEPS`` steps."""
        seen: list[int] = []

        def tick() -> bool:
            seen.append(STEPS)
            return False

        connection = self.connection
        connection.set_progress_handler(tick, STEPS)
        try:
            yield seen
        finally:
            connection.set_progress_handler(None)
