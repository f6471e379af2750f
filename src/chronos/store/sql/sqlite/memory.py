"""The store of a test: the real one, in memory, with what only many writers at once would need left out.

A new one is a copy of an empty one, as making its tables takes longer than most tests do. A command is applied by
itself and at once, on the caller's own turn: there is no disk whose writes would be worth collecting.
"""

from functools import cache
from typing import TypeVar

import apsw

from chronos.store.commands import Command
from chronos.store.commands.storable import check_storable, half_a_character
from chronos.store.hints import hint_of
from chronos.store.sql.sqlite import SqliteStore
from chronos.store.sql.sqlite_file import connect, connect_writer, make_views

R = TypeVar("R")


class MemoryStore(SqliteStore):
    """See the module."""

    async def apply(self, command: Command[R]) -> R:
        """See ``Store.apply``."""
        check_storable(command)
        try:
            [answer] = self._transaction((command,))
        except UnicodeEncodeError as error:
            raise half_a_character() from error
        if isinstance(answer, Exception):
            raise answer
        if hint := hint_of(command, answer):
            self._hint(hint)
        return answer  # type: ignore[no-any-return]

    def _connect_writer(self) -> apsw.Connection:
        connection = connect(None)
        with connection.backup("main", _empty(), "main") as copy:
            copy.step()
        make_views(connection)
        return connection


@cache
def _empty() -> apsw.Connection:
    return connect_writer(None)
