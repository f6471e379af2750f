"""Many rows of an answer as one, on SQLite.

Each row that is fetched is a step, and each step hands the interpreter lock over (see ``query``). So each column
comes as one value: ids behind each other in a blob, everything else as JSON.
"""

from collections.abc import Sequence
from typing import Any

import msgspec

from chronos.core.ids import ID_BYTES
from chronos.store.sql.query import Row


def pack_columns_sql(ids: Sequence[str], others: Sequence[str]) -> str:
    """What to select: columns of ids that are never null, then the others; in the order of the rows."""
    blobs = [f"cast(group_concat({column}, '') as blob)" for column in ids]
    return ", ".join([*blobs, *(f"json_group_array({column})" for column in others)])


def unpack_columns(found: Row, ids: int) -> list[list[Any]]:
    """The columns of such an answer, of which so many are ids."""
    return [*(split_ids(blob) for blob in found[:ids]), *(msgspec.json.decode(text) for text in found[ids:])]


def split_ids(blob: bytes | None) -> list[bytes]:
    """The ids of a blob; None: of no rows."""
    return [] if blob is None else [blob[i : i + ID_BYTES] for i in range(0, len(blob), ID_BYTES)]
