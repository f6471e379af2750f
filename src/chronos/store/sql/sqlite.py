"""The SQLite driver: one writer, several readers, every commit on disk before it is acknowledged.

A file is written by one thread of its own; reads go to a small pool, each thread with its own connection, and see the
last commit (WAL). In memory there is nothing to wait for, so everything happens at once, on the caller's own thread,
which also makes it deterministic. Two processes may share a file: their transactions take turns.
"""

import asyncio
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

import apsw

from chronos.errors import ChronosError, Invalid, NotFound, StoreBroken, StoreUnavailable
from chronos.store.commands import HOT, Command
from chronos.store.hints import NOTHING, hint_of
from chronos.store.merge import merge, split
from chronos.store.pump import Pump
from chronos.store.sql import migrations
from chronos.store.sql.dialect import Query, Row, Sqlite, Steps, json_rows
from chronos.store.sql.hot_sqlite import TEMPORARY, HotSqlite
from chronos.store.sql.store import SqlStore
from chronos.store.sql.theirs import refused
from chronos.store.sql.writes import Writes

R = TypeVar("R")
T = TypeVar("T")
READERS = 3
_BUSY_MS = 10_000
_LOG_PAGES = 1_000  # of the write-ahead log, after which it is copied into the file, beside the writer
_LOG_PAGES_MAX = 64_000  # after which the writer itself has to do it
_CHECK_STEPS = 2_000_000  # of the virtual machine: a look at a small file whole, at a large one in part
_DIALECT = Sqlite()

#: Called with every command in the order of application; the determinism tests listen here.
Journal = Callable[[Command[Any]], None]


class _Swept(Exception):
    """A user's statement failed in a way (``or rollback``) that undid the whole transaction."""

    def __init__(self, error: ChronosError) -> None:
        self.error = error


class SqliteStore(SqlStore):
    """The contract on one SQLite file, or in memory (``path`` None)."""

    def __init__(self, path: str | Path | None = None, *, journal: Journal | None = None) -> None:
        super().__init__(_DIALECT)
        self.path = None if path is None else Path(path)
        self._journal = journal
        self._writes = Writes(_DIALECT, HotSqlite(_DIALECT))
        self._sql: dict[str, str] = {}
        self._pump = Pump(self._run, watch=self._committed)
        self._writer: apsw.Connection | None = None
        self._write_thread: ThreadPoolExecutor | None = None
        self._read_threads: ThreadPoolExecutor | None = None
        self._checkpoint_thread: ThreadPoolExecutor | None = None
        self._checkpoint: Future[None] | None = None
        self._local = threading.local()
        self._readers: list[apsw.Connection] = []

    # --- life

    async def open(self) -> None:
        """See ``Store.open``."""
        if self.path is None:
            self._writer = self._connect_writer()
            return
        self._write_thread = ThreadPoolExecutor(1, thread_name_prefix="chronos-sqlite-writer")
        self._read_threads = ThreadPoolExecutor(READERS, thread_name_prefix="chronos-sqlite-reader")
        self._checkpoint_thread = ThreadPoolExecutor(1, thread_name_prefix="chronos-sqlite-checkpoint")
        try:
            self._writer = await self._in_writer(self._connect_writer)
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        """See ``Store.close``."""
        await self._pump.drain()
        for threads in (self._read_threads, self._checkpoint_thread, self._write_thread):
            if threads is not None:
                threads.shutdown(wait=True)
        for connection in (*self._readers, *([self._writer] if self._writer else [])):
            connection.close()
        self._readers.clear()
        self._writer = self._write_thread = self._read_threads = self._checkpoint_thread = None

    async def apply(self, command: Command[R]) -> R:
        """See ``Store.apply``."""
        return await self._pump.apply(command)

    async def clock_us(self) -> int | None:
        """This machine's clock is the store's."""
        return None

    async def maintain(self, now_us: int) -> None:
        """Nothing to do: history needs no partitions here, as its oldest rows lie together (see ``Trim``)."""

    async def backup(self, path: str) -> None:
        """See ``Store.backup``: SQLite's own online backup, a few pages at a time."""
        await self._in_reader(lambda connection: _copy(connection, Path(path)))

    # --- writing

    async def _run(self, commands: Sequence[Command[Any]]) -> list[Any]:
        answers = await self._in_writer(lambda: self._transaction(commands))
        hint = NOTHING
        for command, answer in zip(commands, answers, strict=True):
            hint |= hint_of(command, answer)
        if hint:
            self._hint(hint)
        return answers

    def _transaction(self, commands: Sequence[Command[Any]]) -> list[Any]:
        """Apply a batch; an error of one command undoes that command only."""
        writer = self._open_writer()
        answers: list[Any] = [None] * len(commands)
        applied: list[Command[Any]] = []
        try:
            writer.execute("begin immediate")
            for command, positions in merge(commands):
                answer = self._one(writer, command)
                if isinstance(answer, ChronosError):
                    parts: list[Any] = [answer] * len(positions)
                else:
                    parts = split(command, [commands[i] for i in positions], answer)
                    applied.append(command)
                for position, part in zip(positions, parts, strict=True):
                    answers[position] = part
            writer.execute("commit")
        except _Swept as swept:
            if len(commands) > 1:
                raise  # each is sent again by itself
            raise swept.error from swept
        except apsw.Error as error:
            with suppress(apsw.Error):
                writer.execute("rollback")
            explained = self._explain(error)
            if isinstance(explained, StoreBroken) and len(commands) > 1:
                raise  # it may be one of them only: each is sent again by itself
            raise explained from error
        except BaseException:
            with suppress(apsw.Error):
                writer.execute("rollback")
            raise
        if self._journal is not None:
            for command in applied:
                self._journal(command)
        return answers

    def _one(self, writer: apsw.Connection, command: Command[Any]) -> Any:
        """The command's answer, or the error that is its own alone. Hot commands have none, so need no savepoint."""
        if isinstance(command, HOT):
            return self._step_through(writer, self._writes.steps(command))
        writer.execute("savepoint one")
        answer: Any
        try:
            answer = self._step_through(writer, self._writes.steps(command))
        except ChronosError as error:
            if not writer.in_transaction:
                raise _Swept(error) from error
            writer.execute("rollback to one")
            answer = error
        writer.execute("release one")
        return answer

    # --- reading

    async def _read(self, steps: Steps[T]) -> T:
        return await self._in_reader(lambda connection: self._consistently(connection, steps))

    def _consistently(self, connection: apsw.Connection, steps: Steps[T]) -> T:
        """All of a read's statements see the same commit."""
        try:
            if connection is self._writer:
                return self._step_through(connection, steps)
            connection.execute("begin")
            try:
                return self._step_through(connection, steps)
            finally:
                connection.execute("commit")
        except apsw.Error as error:
            raise self._explain(error) from error

    # --- connections

    def _step_through(self, connection: apsw.Connection, steps: Steps[T]) -> T:
        rows: list[Row] | None = None
        try:
            while True:
                query = steps.send(rows)  # type: ignore[arg-type]
                rows = self._execute(connection, query)
        except StopIteration as stop:
            return stop.value  # type: ignore[no-any-return]

    def _execute(self, connection: apsw.Connection, query: Query) -> list[Row]:
        if query.theirs:
            return _execute_theirs(connection, query)
        sql = self._sql.get(query.sql)
        if sql is None:
            sql = self._sql[query.sql] = _DIALECT.final(query.sql)
        args = query.args if query.rows is None else (*query.args, json_rows(query.rows))
        return connection.execute(sql, args).fetchall()

    def _connect_writer(self) -> apsw.Connection:
        try:
            connection = self._connect()
            self._check(connection)
            connection.execute("pragma journal_mode = wal")
            connection.execute("pragma synchronous = full")
            self._migrate(connection)
            connection.execute(TEMPORARY)
            connection.set_wal_hook(self._log_grew)
        except apsw.Error as error:
            raise self._explain(error) from error
        return connection

    def _connect(self) -> apsw.Connection:
        connection = apsw.Connection(":memory:" if self.path is None else str(self.path))
        connection.set_busy_timeout(_BUSY_MS)
        connection.execute("pragma cache_size = -65536")
        connection.execute("pragma temp_store = memory")
        connection.execute("pragma mmap_size = 268435456")
        return connection

    def _log_grew(self, connection: apsw.Connection, _: str, pages: int) -> int:
        """Called after each commit: the log is copied into the file beside the writer, not on its time."""
        if pages >= _LOG_PAGES_MAX:
            connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)
        elif pages >= _LOG_PAGES and self._checkpoint_thread and (self._checkpoint is None or self._checkpoint.done()):
            self._checkpoint = self._checkpoint_thread.submit(self._copy_log)
        return apsw.SQLITE_OK

    def _copy_log(self) -> None:
        with suppress(apsw.BusyError):  # the next commit asks again
            self._reader().wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)

    def _check(self, connection: apsw.Connection) -> None:
        """A quick look at the file: whole when it is small, as far as a moment allows when it is large."""
        connection.set_progress_handler(lambda: True, _CHECK_STEPS)
        try:
            found = connection.execute("pragma quick_check(1)").fetchall()
        except apsw.InterruptError:
            return
        finally:
            connection.set_progress_handler(None)
        if found != [("ok",)]:
            raise StoreBroken(f"{self.path} is damaged ({found[0][0]}); restore a backup")

    def _migrate(self, connection: apsw.Connection) -> None:
        connection.execute("begin immediate")
        try:
            connection.execute(migrations.META)
            rows: list[Row] = connection.execute("select name, value from meta").fetchall()
            meta = {name: int(value) for name, value in rows}
            found, minimum = meta.get("schema", 0), meta.get("schema_minimum", 0)
            if (
                found == 0
                and connection.execute("select 1 from sqlite_schema where type = 'table' and name <> 'meta'").fetchall()
            ):
                raise StoreBroken(f"{self.path} holds something else than a Chronos store; give another file")
            for migration in migrations.pending(found, minimum):
                for statement in migration.statements(_DIALECT):
                    connection.execute(statement)
                for name, value in (("schema", migration.version), ("schema_minimum", migration.minimum)):
                    connection.execute("insert or replace into meta values (?, ?)", (name, str(value)))
        except BaseException:
            connection.execute("rollback")
            raise
        connection.execute("commit")

    def _open_writer(self) -> apsw.Connection:
        if self._writer is None:
            raise StoreUnavailable("the store is not open")
        return self._writer

    async def _in_writer(self, call: Callable[[], T]) -> T:
        if self._write_thread is None:
            return call()
        return await asyncio.get_running_loop().run_in_executor(self._write_thread, call)

    async def _in_reader(self, call: Callable[[apsw.Connection], T]) -> T:
        if self._read_threads is None:
            return call(self._open_writer())
        return await asyncio.get_running_loop().run_in_executor(self._read_threads, lambda: call(self._reader()))

    def _reader(self) -> apsw.Connection:
        connection: apsw.Connection | None = getattr(self._local, "connection", None)
        if connection is None:
            connection = self._local.connection = self._connect()
            connection.execute("pragma query_only = on")
            self._readers.append(connection)
        return connection

    def _explain(self, error: apsw.Error) -> ChronosError:
        """What went wrong in a sentence, and what to do."""
        for kinds, build, sentence in _SENTENCES:
            if isinstance(error, kinds):
                return build(sentence.format(path=self.path or "memory", error=error))
        return StoreBroken(f"SQLite: {error}")


def _execute_theirs(connection: apsw.Connection, query: Query) -> list[Row]:
    """Run a user's statement, which may touch rows and nothing else."""
    connection.authorizer = _touches_rows
    try:
        return connection.execute(_DIALECT.final(query.sql), query.args).fetchall()
    except _NOT_ITS_FAULT:
        raise
    except (apsw.Error, TypeError, ValueError, OverflowError) as error:
        raise refused(error) from error
    finally:
        connection.authorizer = None


def _touches_rows(operation: int, *_: object) -> int:
    return apsw.SQLITE_OK if operation in _ROWS else apsw.SQLITE_DENY


def restore(copy: Path, target: Path) -> None:
    """Make a backup the store again, under a name that is free; what it holds is checked first.

    Stop whatever uses the store before: a running server would go on writing into the file it has open.
    """
    if not copy.exists():
        raise NotFound(f"{copy} does not exist; name the file that a backup wrote")
    store = SqliteStore(copy)
    try:
        connection = store._connect()
        try:
            store._check(connection)
            if not connection.execute("select 1 from sqlite_schema where name = 'gate'").fetchall():
                raise StoreBroken(f"{copy} is no backup of a Chronos store")
            _copy(connection, target)
        finally:
            connection.close()
    except apsw.Error as error:
        raise store._explain(error) from error


def _copy(connection: apsw.Connection, target: Path) -> None:
    if target.exists():
        raise Invalid(f"{target} exists already; move it away or give another name")
    partial = target.with_name(target.name + ".partial")
    copy = apsw.Connection(str(partial))
    try:
        with copy.backup("main", connection, "main") as backup:
            while not backup.done:
                backup.step(1024)
    finally:
        copy.close()
    partial.rename(target)


_NOT_ITS_FAULT = (
    *(apsw.FullError, apsw.ReadOnlyError, apsw.CorruptError, apsw.BusyError, apsw.LockedError),
    *(apsw.IOError, apsw.NoMemError),
)
_ROWS = (
    *(apsw.SQLITE_SELECT, apsw.SQLITE_READ, apsw.SQLITE_FUNCTION, apsw.SQLITE_RECURSIVE),
    *(apsw.SQLITE_INSERT, apsw.SQLITE_UPDATE, apsw.SQLITE_DELETE),
)
_SENTENCES: tuple[tuple[tuple[type[apsw.Error], ...], type[ChronosError], str], ...] = (
    (
        (apsw.FullError,),
        StoreUnavailable,
        "the disk that holds {path} is full; free some space, then try again: nothing was lost",
    ),
    (
        (apsw.ReadOnlyError, apsw.PermissionsError, apsw.AuthError),
        StoreUnavailable,
        "{path} cannot be written; check the permissions of the file and of its folder",
    ),
    (
        (apsw.CantOpenError,),
        StoreUnavailable,
        "{path} cannot be opened; check that its folder exists and may be written",
    ),
    (
        (apsw.NotADBError, apsw.CorruptError),
        StoreBroken,
        "{path} is no SQLite database, or a damaged one ({error}); restore a backup or give another file",
    ),
    (
        (apsw.BusyError, apsw.LockedError),
        StoreUnavailable,
        "{path} is kept locked by another process; find it and stop it, or wait",
    ),
    (
        (apsw.IOError, apsw.NoMemError),
        StoreUnavailable,
        "reading or writing {path} failed ({error}); check the disk, then try again",
    ),
)
