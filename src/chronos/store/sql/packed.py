"""Many rows as one, on SQLite.

Of an answer, because a row that is fetched is a step, and each step hands the interpreter lock over (see ``dialect``):
each column comes as one value, ids behind each other in a blob, everything else as JSON. And of what is inserted, as
half of that is to take JSON apart: ids come in the same way, and what all rows have in common is said once.
"""

from collections.abc import Sequence
from typing import Any

import msgspec

from chronos.core.ids import ID_BYTES
from chronos.store.sql.dialect import Columns, Row


def packed(ids: Sequence[str], others: Sequence[str]) -> str:
    """What to select: columns of ids that are never null, then the others; in the order of the rows."""
    blobs = [f"cast(group_concat({column}, '') as blob)" for column in ids]
    return ", ".join([*blobs, *(f"json_group_array({column})" for column in others)])


def unpacked(found: Row, ids: int) -> list[list[Any]]:
    """The columns of such an answer, of which so many are ids."""
    return [*(cut(blob) for blob in found[:ids]), *(msgspec.json.decode(text) for text in found[ids:])]


def cut(blob: bytes | None) -> list[bytes]:
    """The ids of a blob; None: of no rows."""
    return [] if blob is None else [blob[i : i + ID_BYTES] for i in range(0, len(blob), ID_BYTES)]


def inserting(rows: Columns) -> tuple[str, Row]:
    """A statement that inserts the rows, and its arguments.

    ``or fail``: a row that cannot be inserted undoes the whole transaction anyway (see ``SqliteStore``), so SQLite need
    not be ready to undo this statement alone, for which it would keep a copy of each page that it changes.
    """
    args: list[Any] = []
    parts: dict[str, str] = {}
    own: list[tuple[str, Sequence[Any]]] = []
    for name, kind, column in zip(rows.names, rows.types, rows.values, strict=True):
        place = f"?{len(args) + 2}"
        if isinstance(column, range):
            parts[name] = f"{place} + i.key"
            args.append(column.start)
        elif column.count(column[0]) == len(column):
            parts[name] = place
            args.append(column[0])
        elif kind == "i":
            parts[name] = f"substr({place}, {ID_BYTES} * i.key + 1, {ID_BYTES})"
            args.append(b"".join(column))
        else:
            parts[name] = f"i.value->>{len(own)}"
            own.append((name, column))
    values: Sequence[Any] = list(zip(*(column for _, column in own), strict=True))
    if len(own) == 1:
        [(name, values)] = own
        parts[name] = "i.value"
    names, selected = ", ".join(parts), ", ".join(parts.values())
    sql = f"insert or fail into {rows.table} ({names}) select {selected} from jsonb_each(?1) as i"
    return sql, (msgspec.json.encode(values or [0] * len(rows.values[0])).decode(), *args)
