"""Opens, checks, migrates, copies and restores the file of a SQLite store."""

import os
from contextlib import closing, suppress
from pathlib import Path
from tempfile import mkstemp
from time import monotonic
from urllib.parse import quote

import apsw

from chronos.errors import Invalid, NotFound, StoreBroken, StoreUnavailable
from chronos.store.sql import migrations
from chronos.store.sql.migrations import SchemaUse
from chronos.store.sql.query import Row
from chronos.store.sql.sqlite.dialect import SqliteDialect
from chronos.store.sql.sqlite.errors import to_store_error
from chronos.store.sql.sqlite.hot_path import build_temp_views_sql

_BUSY_MS = 10_000
_CHECK_STEPS = 2_000_000  # of SQLite's virtual machine: checks all of a small file and a part of a large one
_WRITER_CACHE_KB = 32 * 1024  # a larger cache is slower: after a page split, the commit visits every cached page
_STATEMENT_CACHE_SIZE = 500  # more than there are statements
_MODE = 0o600  # jobs may contain secrets
_SIDE_FILES = ("-wal", "-shm", "-journal")
_CHECK_INTERVAL_S = 1.0
_SELECT_OWN_TABLES = "select name from sqlite_schema where type = 'table' and name in ('meta', 'gate')"
_DIALECT = SqliteDialect()


class FileMoveCheck:
    """Detects that the file of an open store was moved or replaced. Writes to it would be lost."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file = _read_file_id(path)
        self._next_check_s = 0.0

    def check(self) -> None:
        """Raise ``StoreBroken`` if the path has no file or another one. Checks at most once per second."""
        now_s = monotonic()
        if now_s < self._next_check_s:
            return
        if _read_file_id(self._path) != self._file:
            raise StoreBroken(
                f"{self._path} was moved, removed or replaced while the store was open; "
                "stop every process that uses it, put the right file back, and start again"
            )
        self._next_check_s = now_s + _CHECK_INTERVAL_S


def connect(path: Path | None) -> apsw.Connection:
    """Open a connection to a file, or to a new store in memory."""
    connection = apsw.Connection(":memory:" if path is None else str(path), statementcachesize=_STATEMENT_CACHE_SIZE)
    _prepare(connection)
    return connection


def _prepare(connection: apsw.Connection) -> None:
    connection.set_busy_timeout(_BUSY_MS)
    # Plans do not depend on argument values; otherwise a statement with a limit would be prepared again each time.
    connection.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 1)
    connection.execute("pragma cache_size = -65536")
    connection.execute("pragma temp_store = memory")
    connection.execute("pragma mmap_size = 268435456")


def connect_reader(path: Path | None) -> apsw.Connection:
    """Open a connection that cannot write."""
    connection = connect(path)
    connection.execute("pragma query_only = on")
    return connection


def connect_writer(path: Path | None, schema_use: SchemaUse = SchemaUse.UPGRADE) -> apsw.Connection:
    """Open the writing connection: check and migrate the file, and make every commit durable."""
    if path is not None:
        _create_file(path)
    connection = connect(path)
    if connection.readonly("main"):
        raise StoreUnavailable(f"{path} is read-only; check the permissions of the file")
    check_file(connection, path)
    connection.execute("pragma journal_mode = wal")
    connection.execute("pragma synchronous = full")
    connection.execute(f"pragma cache_size = -{_WRITER_CACHE_KB}")
    _migrate(connection, path, schema_use)
    create_temp_views(connection)
    return connection


def _create_file(path: Path) -> None:
    """Create an empty file unless it exists. SQLite itself would make it readable for every user."""
    log = path.with_name(path.name + "-wal")
    if log.exists() and log.stat().st_size and not path.exists():  # SQLite would delete the log with its commits
        raise StoreBroken(
            f"found {log}, but not the database file it belongs to; move {path.name} back next to it, "
            "or move the log to where that file is now"
        )
    with suppress(OSError):  # it exists, or SQLite reports the problem
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, _MODE))


def create_temp_views(connection: apsw.Connection) -> None:
    """Create the temporary views of the hot path, which a writing connection needs."""
    connection.execute(build_temp_views_sql(_DIALECT))


def check_file(connection: apsw.Connection, path: Path | None) -> None:
    """Run SQLite's quick check: all of a small file, and a part of a large one."""
    connection.set_progress_handler(lambda: True, _CHECK_STEPS)
    try:
        result = connection.execute("pragma quick_check(1)").fetchall()
    except apsw.InterruptError:
        return
    finally:
        connection.set_progress_handler(None)
    if result != [("ok",)]:
        raise StoreBroken(f"{path} is damaged ({result[0][0]}); restore a backup")


def restore(copy: Path, target: Path) -> None:
    """Check a backup and copy it to ``target``, which must not exist.

    Stop every process that uses the store first: a running server would continue to write to its open file.
    """
    if not copy.exists():
        raise NotFound(f"backup {copy} does not exist; check the path")
    _check_target_is_free(target)
    try:
        with closing(_connect_copy(copy)) as connection:
            check_file(connection, copy)
            if not connection.execute("select 1 from sqlite_schema where name = 'gate'").fetchall():
                raise StoreBroken(f"{copy} is not a backup of a Chronos store; choose another file")
            copy_to(connection, target)
    except apsw.Error as error:
        raise to_store_error(error, copy) from error


def copy_to(connection: apsw.Connection, target: Path) -> None:
    """Copy a store with SQLite's online backup, a few pages at a time. The target appears when it is complete.

    The copy is read in one transaction. Otherwise SQLite would restart it after every write.
    """
    _check_target_is_free(target)
    try:
        handle, name = mkstemp(prefix=f"{target.name}.", suffix=".partial", dir=target.parent)
    except OSError as error:
        raise StoreUnavailable(
            f"{target} cannot be written ({error.strerror}); check that its folder exists and is writable"
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
    """Raise ``Invalid`` if the target or a side file exists: SQLite would replay an old log into the new file."""
    if target.exists():
        raise Invalid(f"{target} exists already; move it or choose another name")
    left = [name for name in (target.name + suffix for suffix in _SIDE_FILES) if target.with_name(name).exists()]
    if left:
        raise Invalid(
            f"found {' and '.join(left)} of an earlier {target.name} in {target.parent.absolute()}; "
            "stop its server and move all of its files together, or choose another name"
        )


def _connect_copy(path: Path) -> apsw.Connection:
    """Open a connection to a backup. Without side files it is opened as immutable, so its folder may be read-only."""
    if any(path.with_name(path.name + suffix).exists() for suffix in _SIDE_FILES):
        return connect(path)
    address = f"file:{quote(str(path.absolute()))}?immutable=1"
    connection = apsw.Connection(address, apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI)
    _prepare(connection)
    return connection


def _read_file_id(path: Path) -> tuple[int, int] | None:
    """Return the device and inode of a file, or None."""
    try:
        stat = path.stat()
    except OSError:
        return None
    return stat.st_dev, stat.st_ino


def _migrate(connection: apsw.Connection, path: Path | None, schema_use: SchemaUse) -> None:
    """Bring the schema up to date. Tables of the user in the same file are not touched."""
    connection.execute("begin immediate")
    try:
        connection.execute(migrations.CREATE_META)
        current, minimum = _read_versions(connection, path)
        for migration in migrations.find_pending(current, minimum, schema_use):
            for statement in migration.statements(_DIALECT):
                try:
                    connection.execute(statement)
                except apsw.SQLError as error:
                    if current == 0 and "already exists" in str(error):
                        raise _to_foreign_file_error(path, str(error)) from error
                    raise
            oldest = max(migration.minimum, migration.sqlite_minimum)
            for name, value in (("schema", migration.version), ("schema_minimum", oldest)):
                connection.execute("insert or replace into meta values (?, ?)", (name, str(value)))
    except BaseException:
        connection.execute("rollback")
        raise
    connection.execute("commit")


def read_schema(connection: apsw.Connection, path: Path) -> tuple[int, int]:
    """Return the versions of an existing store, as ``_read_versions``. Raises ``StoreBroken`` for another file."""
    try:
        if len(connection.execute(_SELECT_OWN_TABLES).fetchall()) < 2:
            raise StoreBroken(f"{path} is not a Chronos store; check the path of the store")
        return _read_versions(connection, path)
    except apsw.Error as error:
        raise to_store_error(error, path) from error


def _read_versions(connection: apsw.Connection, path: Path | None) -> tuple[int, int]:
    """Return the schema version of the file and the oldest one that can work with it; 0 for a new file."""
    try:
        rows: list[Row] = connection.execute("select name, value from meta").fetchall()
        meta = {name: int(value) for name, value in rows}
    except (apsw.SQLError, TypeError, ValueError) as error:
        raise _to_foreign_file_error(path, "table meta already exists") from error
    return meta.get("schema", 0), meta.get("schema_minimum", 0)


def _to_foreign_file_error(path: Path | None, problem: str) -> StoreBroken:
    return StoreBroken(f"{path} contains tables of another program with the same names ({problem}); use another file")
