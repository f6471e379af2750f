"""Hashes every table of a SQLite store, to compare whole states."""

from hashlib import blake2b
from pathlib import Path

import apsw


def digest(path: Path) -> dict[str, str]:
    """A hash per table, over all rows, ordered by all columns."""
    connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
    try:
        names = connection.execute(
            "select name from sqlite_schema where type = 'table' and name not like 'sqlite_%' order by name"
        ).fetchall()
        digests = {}
        for (name,) in names:
            columns = len(connection.execute(f"pragma table_info({name})").fetchall())
            order = ", ".join(str(i + 1) for i in range(columns))
            state = blake2b(digest_size=16)
            for row in connection.execute(f"select * from {name} order by {order}"):
                state.update(repr(row).encode())
            digests[str(name)] = state.hexdigest()
        return digests
    finally:
        connection.close()
