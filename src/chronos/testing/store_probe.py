"""A look into a SQLite store below its contract, for tests: raw rows, and what the database does for a call."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol, cast, runtime_checkable

import apsw

from chronos.errors import Invalid
from chronos.store.contract import Store

STEPS = 1_000  # of the virtual machine, between two counts
_TRANSACTION_STATEMENTS = ("begin immediate", "commit")


@runtime_checkable
class Probed(Protocol):
    """A store that shows its connection."""

    def connection(self) -> apsw.Connection:
        """The connection that writes."""


class StoreProbe:
    """Probes an open SQLite store.

    Use it between calls to the store: of a store in a file it has the connection of the writer thread. In memory
    reads go through that connection as well, so only there their statements and steps are counted. Raises ``Invalid``
    for another engine.
    """

    def __init__(self, store: Store) -> None:
        if not isinstance(store, Probed):
            raise Invalid("only a SQLite store can be probed; open one in memory or in a file")
        self._store: Probed = store

    @property
    def connection(self) -> apsw.Connection:
        """SQLite's own connection, for hooks and pragmas."""
        return self._store.connection()

    def execute(self, sql: str, *args: Any) -> list[tuple[Any, ...]]:
        """The rows of a statement, which may change the tables behind the store's back."""
        return cast("list[tuple[Any, ...]]", self.connection.execute(sql, args).fetchall())

    @contextmanager
    def statements(self) -> Iterator[list[str]]:
        """The statements that run meanwhile, without the transaction around them."""
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
        """The steps that SQLite's virtual machine makes meanwhile: one item of ``STEPS`` for each so many."""
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
