"""MemoryStore: the SQLite store in memory, for tests.

A new store is a copy of an empty one, because creating its tables takes longer than most tests. Commands are applied
immediately, without group commit, because nothing is written to disk.
"""

from functools import cache
from typing import TypeVar

import apsw

from chronos.store.commands import Command
from chronos.store.commands.validation import check_storable, lone_surrogate_error
from chronos.store.hints import hint_of
from chronos.store.sql.sqlite.connection import connect, connect_writer, create_temp_views
from chronos.store.sql.sqlite.store import SqliteStore

R = TypeVar("R")


class MemoryStore(SqliteStore):
    """A SQLite store in memory that applies each command immediately."""

    async def apply(self, command: Command[R]) -> R:
        """See ``Store.apply``."""
        check_storable(command)
        try:
            [answer] = self._transaction((command,))
        except UnicodeEncodeError as error:
            raise lone_surrogate_error() from error
        if isinstance(answer, Exception):
            raise answer
        if hint := hint_of(command, answer):
            self._hint(hint)
        return answer  # type: ignore[no-any-return]

    def _connect_writer(self) -> apsw.Connection:
        connection = connect(None)
        with connection.backup("main", _connect_empty_store(), "main") as copy:
            copy.step()
        create_temp_views(connection)
        return connection


@cache
def _connect_empty_store() -> apsw.Connection:
    return connect_writer(None)
