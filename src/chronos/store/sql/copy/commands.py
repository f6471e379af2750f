"""The writes of a copy, and the marks of an unfinished one."""

from dataclasses import dataclass

from chronos.store.commands import Command
from chronos.store.sql.copy.tables import CopiedTable, Key
from chronos.store.sql.query import Dialect, Query, Row, Steps


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplaceRows(Command[None]):
    """Replace all rows of a table after one key up to another. None means from the start or to the end.

    - Atomic, and safe to resend.
    """

    table: CopiedTable
    after: Key | None
    until: Key | None
    rows: tuple[Row, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SetMeta(Command[None]):
    """Set numbers of the table ``meta`` by name; None removes one."""

    values: tuple[tuple[str, int | None], ...]


class CopyHandler:
    """Steps of the writes of a copy."""

    def __init__(self, d: Dialect) -> None:
        self._d = d

    def replace_rows(self, command: ReplaceRows) -> Steps[None]:
        """See ``ReplaceRows``."""
        yield from command.table.replace(self._d, command.after, command.until, command.rows)

    def set_meta(self, command: SetMeta) -> Steps[None]:
        """See ``SetMeta``."""
        for name, value in command.values:
            if value is None:
                yield Query("delete from meta where name = $1", (name,))
            else:
                yield Query(_SET_META, (name, str(value)))


_SET_META = "insert into meta (name, value) values ($1, $2) on conflict (name) do update set value = excluded.value"
