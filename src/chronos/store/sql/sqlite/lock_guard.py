"""Two copies of SQLite in one process: the other one may look at a store's file, and can do no harm.

Chronos brings a SQLite of its own; the standard library's ``sqlite3`` is another copy. A file's locks belong to the
process as a whole, so the two do not see each other's. Left alone, a program that merely looked at its store with
``sqlite3`` would take itself for the last one when it closes the file, and delete the log that the store writes to,
with all that was acknowledged since; and two writers that do not see each other would break the file. So, while a
store is open, the other copy has it open, too, twice:

    to read     then nobody there is the last one; and having only read, it leaves no trace when it is closed
    to write    without ever doing so: whoever else wants to, there, is told that the database is locked

It takes itself for the first one when it opens the file, too, and begins the index of the log anew, under the hands of
our own copy. So stores of one process open and close files in turn, under ``OPEN_CLOSE_LOCK``.
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
_guards_by_file: dict[_File, tuple[list["Connection"], int]] = {}  # with the number of stores that have the file open


class LockGuard:
    """The other copy's hold on the file of an open store; those of one file share it."""

    def __init__(self, path: Path) -> None:
        """The store has the file open already, in the same turn, and must let go of it after this."""
        found = path.stat()
        self._file = found.st_dev, found.st_ino
        with OPEN_CLOSE_LOCK:
            connections, stores = _guards_by_file.get(self._file) or (_open_guard_connections(path), 0)
            _guards_by_file[self._file] = connections, stores + 1

    def close(self) -> None:
        """Let go, unless another store has the file."""
        with OPEN_CLOSE_LOCK:
            connections, stores = _guards_by_file.pop(self._file)
            if stores > 1:
                _guards_by_file[self._file] = connections, stores - 1
            else:
                _close(connections)


def _open_guard_connections(path: Path) -> "list[Connection]":
    if not apsw.using_amalgamation:
        return []  # apsw was built with the system's SQLite, which is most likely the standard library's, too
    try:
        import sqlite3  # noqa: PLC0415 - a Python without it has nothing to be guarded against
    except ImportError:
        return []
    connections: list[Connection] = []
    address = f"file:{quote(str(path.absolute()))}"
    try:
        # Neither looks at the tables: an older copy may not understand what ours made of them.
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
            f"{path} is being written to by another connection of this process or of another one ({error}); "
            "commit or close it, then try again"
        ) from error
    return connections


def _close(connections: "list[Connection]") -> None:
    """The one that reads comes last."""
    while connections:
        connections.pop().close()


def _release_process_lock(path: Path) -> None:
    """The lock to write was the whole process's: other processes must have it, too, and our own copy gives it back."""
    with closing(apsw.Connection(str(path))) as connection:
        connection.set_busy_timeout(round(_BUSY_S * 1000))
        connection.execute("begin immediate")
        connection.execute("rollback")
