"""Many rows as one, on SQLite.

Of an answer, because a row that is fetched is a step, and each step hands the interpreter lock over (see ``dialect``):
each column comes as one value, ids behind each other in a blob, everything else as JSON. And of what is inserted, as
half of that is to take JSON apart: what all rows have in common is an argument of its own.
"""

from collections.abc import Sequence
from typing import Any

import msgspec

from chronos.store.sql.dialect import Row, Rows, Sqlite, json_rows

_ID_BYTES = 16
_DIALECT = Sqlite()


def packed(ids: Sequence[str], others: Sequence[str]) -> str:
    """What to select: columns of ids that are never null, then the others; in the order of the rows."""
    blobs = [f"cast(group_concat({column}, '') as blob)" for column in ids]
    return ", ".join([*blobs, *(f"json_group_array({column})" for column in others)])


def unpacked(found: Row, ids: int) -> list[list[Any]]:
    """The columns of such an answer, of which so many are ids."""
    return [*(cut(blob) for blob in found[:ids]), *(msgspec.json.decode(text) for text in found[ids:])]


def cut(blob: bytes | None) -> list[bytes]:
    """The ids of a blob; None: of no rows."""
    return [] if blob is None else [blob[i : i + _ID_BYTES] for i in range(0, len(blob), _ID_BYTES)]


def inserting(table: str, names: Sequence[str], rows: Rows) -> tuple[str, Row]:
    """A statement that inserts rows as they are into these columns of a table, and its arguments."""
    columns = list(zip(*rows.values, strict=True))
    own = [i for i, column in enumerate(columns) if column.count(column[0]) < len(column)]
    common = [i for i in range(len(columns)) if i not in own]
    kinds = "".join(rows.types[i] for i in own)
    listed = [names[i] for i in (*common, *own)]
    said = [f"?{i + 2}" for i in range(len(common))]
    source = _DIALECT.rows(1, " ".join(f"{names[i]}:{rows.types[i]}" for i in own))
    sql = f"""
        insert into {table} ({", ".join(listed)}) select {", ".join([*said, *listed[len(common) :]])} from {source}"""
    values = list(zip(*(columns[i] for i in own), strict=True))
    return _DIALECT.final(sql), (json_rows(Rows(kinds, values)), *(columns[i][0] for i in common))
