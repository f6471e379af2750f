"""The file of a SQLite store: connecting to it, checking it, bringing its schema up to date, copying it."""

from pathlib import Path

import apsw

from chronos.errors import Invalid, NotFound, StoreBroken
from chronos.store.sql import migrations
from chronos.store.sql.creating import Creating
from chronos.store.sql.dialect import Row, Sqlite
from chronos.store.sql.hot_sqlite import temporary
from chronos.store.sql.records import Records
from chronos.store.sql.sqlite_errors import explained

_BUSY_MS = 10_000
_CHECK_STEPS = 2_000_000  # of the virtual machine: a look at a small file whole, at a large one in part
_WRITER_CACHE_KB = 32 * 1024  # more than that costs: where a page splits, the commit looks at every page that is kept
_STATEMENTS = 500  # that a connection keeps prepared: more than there are
_DIALECT = Sqlite()


def connect(path: Path | None) -> apsw.Connection:
    """A connection to a file, or to a new store in memory."""
    connection = apsw.Connection(":memory:" if path is None else str(path), statementcachesize=_STATEMENTS)
    connection.set_busy_timeout(_BUSY_MS)
    # Plans do not look at the values they are run with; else a statement with a limit is prepared anew each time.
    connection.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 1)
    connection.execute("pragma cache_size = -65536")
    connection.execute("pragma temp_store = memory")
    connection.execute("pragma mmap_size = 268435456")
    return connection


def connect_reader(path: Path | None) -> apsw.Connection:
    """A connection that cannot write."""
    connection = connect(path)
    connection.execute("pragma query_only = on")
    return connection


def connect_writer(path: Path | None) -> apsw.Connection:
    """The connection that writes: the file is sound, of this release's schema, and every commit is on disk."""
    connection = connect(path)
    check(connection, path)
    connection.execute("pragma journal_mode = wal")
    connection.execute("pragma synchronous = full")
    connection.execute(f"pragma cache_size = -{_WRITER_CACHE_KB}")
    _migrate(connection, path)
    make_views(connection)
    return connection


def make_views(connection: apsw.Connection) -> None:
    """What a connection that writes needs beside the tables."""
    connection.execute(temporary(_DIALECT))
    connection.execute(Creating(_DIALECT, Records(_DIALECT)).few())


def check(connection: apsw.Connection, path: Path | None) -> None:
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
    try:
        connection = connect(copy)
        try:
            check(connection, copy)
            if not connection.execute("select 1 from sqlite_schema where name = 'gate'").fetchall():
                raise StoreBroken(f"{copy} is no backup of a Chronos store")
            copy_to(connection, target)
        finally:
            connection.close()
    except apsw.Error as error:
        raise explained(error, copy) from error


def copy_to(connection: apsw.Connection, target: Path) -> None:
    """SQLite's own online backup, a few pages at a time; the target is there when it is whole.

    All of it is read in one transaction: else it would begin again whenever somebody has written meanwhile.
    """
    if target.exists():
        raise Invalid(f"{target} exists already; move it away or give another name")
    partial = target.with_name(target.name + ".partial")
    try:
        copy = apsw.Connection(str(partial))
        connection.execute("begin")
        try:
            connection.execute("select 1 from sqlite_schema").fetchall()
            with copy.backup("main", connection, "main") as backup:
                while not backup.done:
                    backup.step(1024)
        finally:
            connection.execute("commit")
            copy.close()
    except apsw.Error as error:
        raise explained(error, target) from error
    partial.rename(target)


def _migrate(connection: apsw.Connection, path: Path | None) -> None:
    """Bring the schema up to date. A user's own tables may be there, and stay as they are."""
    connection.execute("begin immediate")
    try:
        connection.execute(migrations.META)
        found, minimum = _schema(connection, path)
        for migration in migrations.pending(found, minimum):
            for statement in migration.statements(_DIALECT):
                try:
                    connection.execute(statement)
                except apsw.SQLError as error:
                    if found == 0 and "already exists" in str(error):
                        raise _taken(path, str(error)) from error
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
        raise _taken(path, "table meta already exists") from error
    return meta.get("schema", 0), meta.get("schema_minimum", 0)


def _taken(path: Path | None, what: str) -> StoreBroken:
    return StoreBroken(
        f"{path} holds something else than a Chronos store, which would be in its way ({what}); give another file"
    )
