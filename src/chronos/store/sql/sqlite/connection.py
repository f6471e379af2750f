"""The file of a SQLite store: connecting to it, checking it, bringing its schema up to date, copying it."""

import os
from contextlib import closing, suppress
from pathlib import Path
from tempfile import mkstemp
from time import monotonic
from urllib.parse import quote

import apsw

from chronos.errors import Invalid, NotFound, StoreBroken, StoreUnavailable
from chronos.store.sql import migrations
from chronos.store.sql.query import Row
from chronos.store.sql.sqlite.dialect import SqliteDialect
from chronos.store.sql.sqlite.errors import to_store_error
from chronos.store.sql.sqlite.hot_path import build_temp_views_sql

_BUSY_MS = 10_000
_CHECK_STEPS = 2_000_000  # of the virtual machine: a look at a small file whole, at a large one in part
_WRITER_CACHE_KB = 32 * 1024  # more than that costs: where a page splits, the commit looks at every page that is kept
_STATEMENT_CACHE_SIZE = 500  # that a connection keeps prepared: more than there are
_MODE = 0o600  # of a file that is made here: jobs may hold what is nobody else's business
_SIDE_FILES = ("-wal", "-shm", "-journal")
_LOOK_S = 1.0
_DIALECT = SqliteDialect()


class FilePlace:
    """Where the file of an open store is, which somebody may move away or replace: it would be written on, in vain."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file = _read_file_id(path)
        self._look_s = 0.0

    def check(self) -> None:
        """Raises ``StoreBroken`` when another file is there, or none. It looks once a second at most."""
        now_s = monotonic()
        if now_s < self._look_s:
            return
        if _read_file_id(self._path) != self._file:
            raise StoreBroken(
                f"{self._path} is not the file any more that was opened: somebody has moved, removed or replaced it; "
                "stop whatever uses it, see to it that the right file is there, and start again"
            )
        self._look_s = now_s + _LOOK_S


def connect(path: Path | None) -> apsw.Connection:
    """A connection to a file, or to a new store in memory."""
    connection = apsw.Connection(":memory:" if path is None else str(path), statementcachesize=_STATEMENT_CACHE_SIZE)
    _prepare(connection)
    return connection


def _prepare(connection: apsw.Connection) -> None:
    connection.set_busy_timeout(_BUSY_MS)
    # Plans do not look at the values they are run with; else a statement with a limit is prepared anew each time.
    connection.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 1)
    connection.execute("pragma cache_size = -65536")
    connection.execute("pragma temp_store = memory")
    connection.execute("pragma mmap_size = 268435456")


def connect_reader(path: Path | None) -> apsw.Connection:
    """A connection that cannot write."""
    connection = connect(path)
    connection.execute("pragma query_only = on")
    return connection


def connect_writer(path: Path | None) -> apsw.Connection:
    """The connection that writes: the file is sound, of this release's schema, and every commit is on disk."""
    if path is not None:
        _make(path)
    connection = connect(path)
    if connection.readonly("main"):
        raise StoreUnavailable(f"{path} can be read, but not written; check the permissions of the file")
    check_file(connection, path)
    connection.execute("pragma journal_mode = wal")
    connection.execute("pragma synchronous = full")
    connection.execute(f"pragma cache_size = -{_WRITER_CACHE_KB}")
    _migrate(connection, path)
    create_temp_views(connection)
    return connection


def _make(path: Path) -> None:
    """An empty file, if there is none; SQLite itself would let everybody read it."""
    log = path.with_name(path.name + "-wal")
    if log.exists() and log.stat().st_size and not path.exists():  # it would be deleted, with what it holds
        raise StoreBroken(
            f"{log} is there, and the file that it belongs to is not; bring {path.name} back to it, "
            "or move the log to where that file is now"
        )
    with suppress(OSError):  # it is there already, or SQLite will tell what is wrong
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, _MODE))


def create_temp_views(connection: apsw.Connection) -> None:
    """What a connection that writes needs beside the tables."""
    connection.execute(build_temp_views_sql(_DIALECT))


def check_file(connection: apsw.Connection, path: Path | None) -> None:
    """A quick look at the file: whole when it is small, as far as a moment allows when it is large."""
    connection.set_progress_handler(lambda: True, _CHECK_STEPS)
    try:
        found = connection.execute("pragma quick_check(1)").fetchall()
    except apsw.InterruptError:
        return
    finally:
        connection.set_progress_handler(None)
    if found != [("ok",)]:
        raise StoreBroken(f"{path} is damaged ({found[0][0]}); restore a backup")


def restore(copy: Path, target: Path) -> None:
    """Make a backup the store again, under a name that is free; what it holds is checked first.

    Stop whatever uses the store before: a running server would go on writing into the file it has open.
    """
    if not copy.exists():
        raise NotFound(f"{copy} does not exist; name the file that a backup wrote")
    _check_target_is_free(target)
    try:
        with closing(_connect_copy(copy)) as connection:
            check_file(connection, copy)
            if not connection.execute("select 1 from sqlite_schema where name = 'gate'").fetchall():
                raise StoreBroken(f"{copy} is no backup of a Chronos store")
            copy_to(connection, target)
    except apsw.Error as error:
        raise to_store_error(error, copy) from error


def copy_to(connection: apsw.Connection, target: Path) -> None:
    """SQLite's own online backup, a few pages at a time; the target is there when it is whole.

    All of it is read in one transaction: else it would begin again whenever somebody has written meanwhile.
    """
    _check_target_is_free(target)
    try:
        handle, name = mkstemp(prefix=f"{target.name}.", suffix=".partial", dir=target.parent)
    except OSError as error:
        raise StoreUnavailable(
            f"{target} cannot be written ({error.strerror}); check that its folder exists and may be written"
        ) from error
    os.close(handle)
    partial = Path(name)
    try:
        copy = apsw.Connection(name)
        connection.execute("begin")
        try:
            connection.execute("select 1 from sqlite_schema").fetchall()
            with copy.backup("main", connection, "main") as backup:
                while not backup.done:
                    backup.step(1024)
        finally:
            connection.execute("commit")
            copy.close()
        partial.rename(target)
    except apsw.Error as error:
        raise to_store_error(error, target) from error
    finally:
        partial.unlink(missing_ok=True)


def _check_target_is_free(target: Path) -> None:
    """A log that is left of another store would be played into the new file, which breaks it or undoes it."""
    if target.exists():
        raise Invalid(f"{target} exists already; move it away or give another name")
    left = [name for name in (target.name + suffix for suffix in _SIDE_FILES) if target.with_name(name).exists()]
    if left:
        raise Invalid(
            f"{' and '.join(left)} in {target.parent.absolute()} belong to the store that was {target.name}; "
            "stop its server, and move all of its files away together, or give another name"
        )


def _connect_copy(path: Path) -> apsw.Connection:
    """A connection to a backup. A whole one is only read, so it may lie where nobody can write."""
    if any(path.with_name(path.name + suffix).exists() for suffix in _SIDE_FILES):
        return connect(path)
    address = f"file:{quote(str(path.absolute()))}?immutable=1"
    connection = apsw.Connection(address, apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI)
    _prepare(connection)
    return connection


def _read_file_id(path: Path) -> tuple[int, int] | None:
    """Which file it is: device and inode."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _migrate(connection: apsw.Connection, path: Path | None) -> None:
    """Bring the schema up to date. A user's own tables may be there, and stay as they are."""
    connection.execute("begin immediate")
    try:
        connection.execute(migrations.CREATE_META)
        found, minimum = _schema(connection, path)
        for migration in migrations.find_pending(found, minimum):
            for statement in migration.statements(_DIALECT):
                try:
                    connection.execute(statement)
                except apsw.SQLError as error:
                    if found == 0 and "already exists" in str(error):
                        raise _to_foreign_file_error(path, str(error)) from error
                    raise
            oldest = max(migration.minimum, migration.sqlite_minimum)
            for name, value in (("schema", migration.version), ("schema_minimum", oldest)):
                connection.execute("insert or replace into meta values (?, ?)", (name, str(value)))
    except BaseException:
        connection.execute("rollback")
        raise
    connection.execute("commit")


def _schema(connection: apsw.Connection, path: Path | None) -> tuple[int, int]:
    """The version that the file has, and the oldest one that can work on it; 0: it is no store yet."""
    try:
        rows: list[Row] = connection.execute("select name, value from meta").fetchall()
        meta = {name: int(value) for name, value in rows}
    except (apsw.SQLError, TypeError, ValueError) as error:
        raise _to_foreign_file_error(path, "table meta already exists") from error
    return meta.get("schema", 0), meta.get("schema_minimum", 0)


def _to_foreign_file_error(path: Path | None, what: str) -> StoreBroken:
    return StoreBroken(
        f"{path} holds something else than a Chronos store, which would be in its way ({what}); give another file"
    )
