"""Packs many result rows into one, on SQLite.

Each fetched row is a step, and each step releases the interpreter lock (see ``query``). So each column is returned as
one value: ids concatenated in a blob, everything else as a JSON array.
"""

from collections.abc import Sequence
from typing import Any

import msgspec

from chronos.core.ids import ID_BYTES
from chronos.store.sql.query import Row


def pack_columns_sql(ids: Sequence[str], others: Sequence[str]) -> str:
    """Return the columns to select: id columns, which must not be null, then the others."""
    blobs = [f"cast(group_concat({column}, '') as blob)" for column in ids]
    return ", ".join([*blobs, *(f"json_group_array({column})" for column in others)])


def unpack_columns(row: Row, ids: int) -> list[list[Any]]:
    """Return the columns of a packed row. The first ``ids`` columns are ids."""
    return [*(split_ids(blob) for blob in row[:ids]), *(msgspec.json.decode(text) for text in row[ids:])]


def split_ids(blob: bytes | None) -> list[bytes]:
    """Split a blob into ids. None, the blob of no rows, gives an empty list."""
    return [] if blob is None else [blob[i : i + ID_BYTES] for i in range(0, len(blob), ID_BYTES)]
