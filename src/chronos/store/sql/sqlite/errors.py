"""SQLite errors as messages for a person, and the execution of users' statements."""

from pathlib import Path

import apsw

from chronos.errors import ChronosError, StoreBroken, StoreUnavailable
from chronos.store.sql.query import Query, Row
from chronos.store.sql.sqlite.dialect import SqliteDialect
from chronos.store.sql.user_statements import statement_failed

_STORE_FAULTS = (
    *(apsw.FullError, apsw.ReadOnlyError, apsw.CorruptError, apsw.BusyError, apsw.LockedError),
    *(apsw.IOError, apsw.NoMemError),
)
_ROW_OPERATIONS = (
    *(apsw.SQLITE_SELECT, apsw.SQLITE_READ, apsw.SQLITE_FUNCTION, apsw.SQLITE_RECURSIVE),
    *(apsw.SQLITE_INSERT, apsw.SQLITE_UPDATE, apsw.SQLITE_DELETE),
)
_DAMAGED = "{path} is not a SQLite database, or it is damaged ({error}); restore a backup or use another file"
_FILE_FORMAT_MESSAGES = ("unsupported file format",)  # SQLite has no error code for such a header
_SENTENCES: tuple[tuple[tuple[type[apsw.Error], ...], type[ChronosError], str], ...] = (
    (
        (apsw.FullError,),
        StoreUnavailable,
        "the disk of {path} is full; free some space, then try again (no acknowledged change is lost)",
    ),
    (
        (apsw.ReadOnlyError, apsw.PermissionsError, apsw.AuthError),
        StoreUnavailable,
        "{path} cannot be written; check the permissions of the file and of its folder",
    ),
    (
        (apsw.CantOpenError,),
        StoreUnavailable,
        "{path} cannot be opened; check that its folder exists and is writable",
    ),
    (
        (apsw.NotADBError, apsw.CorruptError),
        StoreBroken,
        _DAMAGED,
    ),
    (
        (apsw.BusyError, apsw.LockedError),
        StoreUnavailable,
        "{path} is locked by another process; stop that process, or wait and try again",
    ),
    (
        (apsw.IOError, apsw.NoMemError),
        StoreUnavailable,
        "reading or writing {path} failed ({error}); check the disk, then try again",
    ),
)


def to_store_error(error: apsw.Error, path: Path | None) -> ChronosError:
    """Return the error for a person: what is wrong with the file (None: in memory) and what to do."""
    for kinds, build, sentence in _SENTENCES:
        if isinstance(error, kinds):
            return build(sentence.format(path=path or "memory", error=error))
    if str(error) in _FILE_FORMAT_MESSAGES:
        return StoreBroken(_DAMAGED.format(path=path or "memory", error=error))
    return StoreBroken(f"{path or 'memory'}: unexpected SQLite error ({error}); run chronos doctor")


def execute_user_statement(connection: apsw.Connection, query: Query) -> list[Row]:
    """Run a user's statement, which may only read and write rows."""
    connection.authorizer = _authorize_row_operation
    try:
        return connection.execute(SqliteDialect().to_driver_sql(query.sql), query.args).fetchall()
    except _STORE_FAULTS:
        raise
    except (apsw.Error, TypeError, ValueError, OverflowError) as error:
        raise statement_failed(error) from error
    finally:
        connection.authorizer = None


def _authorize_row_operation(operation: int, *_: object) -> int:
    return apsw.SQLITE_OK if operation in _ROW_OPERATIONS else apsw.SQLITE_DENY
