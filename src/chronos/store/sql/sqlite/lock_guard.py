"""Guards a store's file against a second SQLite library in the same process.

Chronos uses its own SQLite (apsw); the standard library's ``sqlite3`` is another copy. POSIX file locks belong to the
process, so the two copies do not see each other's locks. Without a guard:

- A program that only reads its store with ``sqlite3`` would consider itself the last user when it closes the file, and
  delete the WAL that the store writes to, with acknowledged commits.
- Two writers that do not see each other would damage the file.

So while a store is open, ``sqlite3`` has the file open too, with two connections:

    read     then no other ``sqlite3`` connection is the last one; closing it leaves no trace
    write    holds the write lock without writing: other ``sqlite3`` writers get "database is locked"

When ``sqlite3`` opens the file, it also considers itself the first user and resets the index of the WAL while our copy
uses it. So the stores of one process open and close files one at a time, under ``OPEN_CLOSE_LOCK``.
"""

from contextlib import closing
from pathlib import Path
from threading import RLock
from typing import TYPE_CHECKING
from urllib.parse import quote

import apsw

from chronos.errors import StoreUnavailable

if TYPE_CHECKING:
    from sqlite3 import Connection

_BUSY_S = 10.0
_File = tuple[int, int]  # device and inode
OPEN_CLOSE_LOCK = RLock()
_guards_by_file: dict[_File, tuple[list["Connection"], int]] = {}  # connections, and the number of open stores


class LockGuard:
    """The guard connections of an open store. Stores of the same file share them."""

    def __init__(self, path: Path) -> None:
        """Guard a file that the store has already opened under ``OPEN_CLOSE_LOCK``, and closes after the guard."""
        stat = path.stat()
        self._file = stat.st_dev, stat.st_ino
        with OPEN_CLOSE_LOCK:
            connections, stores = _guards_by_file.get(self._file) or (_open_guard_connections(path), 0)
            _guards_by_file[self._file] = connections, stores + 1

    def close(self) -> None:
        """Close the guard, unless another store uses the same file."""
        with OPEN_CLOSE_LOCK:
            connections, stores = _guards_by_file.pop(self._file)
            if stores > 1:
                _guards_by_file[self._file] = connections, stores - 1
            else:
                _close(connections)


def _open_guard_connections(path: Path) -> "list[Connection]":
    if not apsw.using_amalgamation:
        return []  # apsw uses the system's SQLite, most likely the same as the standard library
    try:
        import sqlite3  # noqa: PLC0415 - a Python without it needs no guard
    except ImportError:
        return []
    connections: list[Connection] = []
    address = f"file:{quote(str(path.absolute()))}"
    try:
        # Neither statement reads tables: an older library may not understand our schema.
        for mode, statement in (("ro", "pragma schema_version"), ("rw", "begin immediate")):
            url = f"{address}?mode={mode}"
            connections.append(
                sqlite3.connect(url, uri=True, timeout=_BUSY_S, isolation_level=None, check_same_thread=False)
            )
            connections[-1].execute(statement).fetchall()
        _release_process_lock(path)
    except (sqlite3.Error, apsw.Error) as error:
        _close(connections)
        raise StoreUnavailable(
            f"{path} is being written by another connection, in this process or another ({error}); "
            "commit or close it, then try again"
        ) from error
    return connections


def _close(connections: "list[Connection]") -> None:
    """Close the connections, the reading one last."""
    while connections:
        connections.pop().close()


def _release_process_lock(path: Path) -> None:
    """Release the write lock, which the process now holds, by taking and releasing it with our library.

    Other processes must be able to write.
    """
    with closing(apsw.Connection(str(path))) as connection:
        connection.set_busy_timeout(round(_BUSY_S * 1000))
        connection.execute("begin immediate")
        connection.execute("rollback")
