"""SqliteStore: one writer, several readers, every commit on disk before it is acknowledged.

One thread writes the file. Reads use a small pool of threads, each with its own connection, and see the last commit
(WAL). Two processes may share a file; their transactions alternate. A store in memory has no disk to wait for. It runs
everything on the caller's thread, so it is deterministic.
"""

import asyncio
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import apsw

from chronos.errors import ChronosError, StoreBroken, StoreUnavailable
from chronos.store.command_merge import merge_commands, split_result
from chronos.store.commands import HOT, Command
from chronos.store.commands.validation import check_storable, lone_surrogate_error
from chronos.store.group_commit import BatchOutcome, GroupCommit
from chronos.store.hints import NO_HINT, hint_of
from chronos.store.sql.base_store import ResentRequests, SqlStore
from chronos.store.sql.command_handlers import CommandHandlers
from chronos.store.sql.migrations import SchemaUse
from chronos.store.sql.query import Query, Row, Steps
from chronos.store.sql.sqlite.checkpoint import Checkpointer
from chronos.store.sql.sqlite.connection import FileMoveCheck, connect_reader, connect_writer, copy_to
from chronos.store.sql.sqlite.dialect import SqliteDialect, to_json_rows
from chronos.store.sql.sqlite.errors import execute_user_statement, to_store_error
from chronos.store.sql.sqlite.hot_path import SqliteHotPath
from chronos.store.sql.sqlite.lock_guard import OPEN_CLOSE_LOCK, LockGuard
from chronos.store.sql.sqlite.writer_thread import WriterThread

R = TypeVar("R")
T = TypeVar("T")
READERS = 3
_DIALECT = SqliteDialect()

#: Called with every applied command, in order; used by the determinism tests.
Journal = Callable[[Command[Any]], None]


class _TransactionUndoneError(Exception):
    """A user's statement failed and rolled back the whole transaction (``or rollback``)."""

    def __init__(self, error: ChronosError) -> None:
        self.error = error


class SqliteStore(SqlStore):
    """The store on one SQLite file, or in memory (``path`` None)."""

    def __init__(
        self,
        path: str | Path | None = None,
        *,
        journal: Journal | None = None,
        schema_use: SchemaUse = SchemaUse.UPGRADE,
    ) -> None:
        super().__init__(_DIALECT)
        self.path = None if path is None else Path(path)
        self._journal, self._schema_use = journal, schema_use
        self._handlers = CommandHandlers(_DIALECT, SqliteHotPath(_DIALECT))
        self._driver_sql_by_sql: dict[str, str] = {}
        self._resent_requests = ResentRequests()
        self._group_commit = GroupCommit(self._begin_batch, on_commit=self._notify_commit_listeners)
        self._writer: apsw.Connection | None = None
        self._write_thread: WriterThread | None = None
        self._read_threads: ThreadPoolExecutor | None = None
        self._checkpointer: Checkpointer | None = None
        self._guard: LockGuard | None = None
        self._file_move_check: FileMoveCheck | None = None
        self._local = threading.local()
        self._readers: list[apsw.Connection] = []

    # --- opening and closing

    async def open(self) -> None:
        """See ``Store.open``."""
        if self.path is None:
            self._writer = self._connect_writer()
            return
        self._write_thread = WriterThread()
        self._read_threads = ThreadPoolExecutor(READERS, thread_name_prefix="chronos-sqlite-reader")
        self._checkpointer = Checkpointer(self.path)
        try:
            await self._run_on_writer(partial(self._open_file, self.path))
            await self._profile_gates()
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        """See ``Store.close``."""
        await self._group_commit.drain()
        if self._read_threads is not None:
            self._read_threads.shutdown(wait=True)
        if self._checkpointer is not None:
            self._checkpointer.close()
        if self._write_thread is not None:
            self._write_thread.close()
        with OPEN_CLOSE_LOCK:
            if self._guard is not None:
                self._guard.close()
            for connection in (*self._readers, *([self._writer] if self._writer else [])):
                connection.close()
        self._readers.clear()
        self._writer = self._write_thread = self._read_threads = self._checkpointer = self._guard = (
            self._file_move_check
        ) = None
        self._drop_listeners()

    async def apply(self, command: Command[R]) -> R:
        """See ``Store.apply``."""
        check_storable(command)
        try:
            return await self._group_commit.apply(command)
        except UnicodeEncodeError as error:
            raise lone_surrogate_error() from error

    async def clock_us(self) -> int | None:
        """Return None: the store uses this machine's clock."""
        return None

    async def maintain(self, now_us: int) -> None:
        """No-op: SQLite needs no partitions, because the oldest rows of history are stored together."""

    async def backup(self, path: str) -> None:
        """See ``Store.backup``."""
        await self._run_on_reader(lambda connection: copy_to(connection, Path(path)))

    # --- writing

    def _begin_batch(self, commands: Sequence[Command[Any]], done: Callable[[BatchOutcome], None]) -> None:
        if self._write_thread is not None:
            self._write_thread.begin(lambda: self._transaction(commands), partial(self._finish_batch, commands, done))
            return
        answers: list[Any] = []
        error: BaseException | None = None
        try:
            answers = self._transaction(commands)
        except Exception as raised:  # noqa: BLE001 - raised to the callers
            error = raised
        asyncio.get_running_loop().call_soon(self._finish_batch, commands, done, answers, error)

    def _finish_batch(
        self,
        commands: Sequence[Command[Any]],
        done: Callable[[BatchOutcome], None],
        answers: list[Any],
        error: BaseException | None,
    ) -> None:
        if error is None:
            hint = NO_HINT
            for command, answer in zip(commands, answers, strict=True):
                if command_hint := hint_of(command, answer):
                    hint |= command_hint
            if hint:
                self._hint(hint)
        done(answers if error is None else error)

    def _transaction(self, commands: Sequence[Command[Any]]) -> list[Any]:
        """Apply a batch. An error of one command undoes only that command."""
        writer = self.writer_connection()
        if self._file_move_check is not None:
            self._file_move_check.check()
        applied: list[Command[Any]] = []
        try:
            writer.execute("begin immediate")
            answers = self._apply_all(writer, commands, applied)
            writer.execute("commit")
        except _TransactionUndoneError as undone:
            if len(commands) > 1:
                raise  # each command is sent again alone
            raise undone.error from undone
        except apsw.Error as error:
            with suppress(apsw.Error):
                writer.execute("rollback")
            for command in commands:  # the error may have come after the commit
                self._resent_requests.add(command)
            broken = to_store_error(error, self.path)
            if isinstance(broken, StoreBroken) and len(commands) > 1:
                raise  # one command may be the cause: each is sent again alone
            raise broken from error
        except BaseException:
            with suppress(apsw.Error):
                writer.execute("rollback")
            raise
        if self._journal is not None:
            for command in applied:
                self._journal(command)
        return answers

    def _apply_all(
        self, writer: apsw.Connection, commands: Sequence[Command[Any]], applied: list[Command[Any]]
    ) -> list[Any]:
        """Return the answer of each command. Mergeable commands are applied as one."""
        if len(commands) == 1:
            return [self._apply_one(writer, commands[0], applied)]
        answers: list[Any] = [None] * len(commands)
        for command, positions in merge_commands(commands):
            parts = [commands[i] for i in positions]
            for position, part in zip(positions, self._apply_merged(writer, command, parts, applied), strict=True):
                answers[position] = part
        return answers

    def _apply_merged(
        self, writer: apsw.Connection, command: Command[Any], parts: list[Command[Any]], applied: list[Command[Any]]
    ) -> list[Any]:
        """Return the answers of merged commands. If the merged command fails, apply each part."""
        answer = self._apply_one(writer, command, applied)
        if not isinstance(answer, ChronosError):
            return split_result(command, parts, answer)
        if len(parts) == 1:
            return [answer]
        return [self._apply_one(writer, part, applied) for part in parts]

    def _apply_one(self, writer: apsw.Connection, command: Command[Any], applied: list[Command[Any]]) -> Any:
        answer = self._apply_in_savepoint(writer, command, first=not applied)
        if not isinstance(answer, ChronosError):
            applied.append(command)
        return answer

    def _apply_in_savepoint(self, writer: apsw.Connection, command: Command[Any], *, first: bool) -> Any:
        """Return the command's answer, or its error.

        A savepoint lets one command fail without undoing the earlier ones. The first command needs none: its error
        rolls back the transaction. Hot commands need none, because they are never rejected.
        """
        if isinstance(command, HOT):
            steps = self._handlers.steps(command, resent=self._resent_requests.contains(command))
            return self._step_through(writer, steps)
        if not first:
            writer.execute("savepoint one")
        answer: Any
        try:
            answer = self._step_through(writer, self._handlers.steps(command))
        except ChronosError as error:
            if not writer.in_transaction:
                raise _TransactionUndoneError(error) from error
            if first:
                writer.execute("rollback")
                writer.execute("begin immediate")
                return error
            writer.execute("rollback to one")
            answer = error
        if not first:
            writer.execute("release one")
        return answer

    # --- reading

    async def _read(self, steps: Steps[T]) -> T:
        return await self._run_on_reader(lambda connection: self._read_in_transaction(connection, steps))

    def _read_in_transaction(self, connection: apsw.Connection, steps: Steps[T]) -> T:
        """Run a read whose statements see the same commit."""
        own_connection = connection is not self._writer
        try:
            try:
                return self._step_through(connection, steps, begin=own_connection)
            finally:
                if own_connection and connection.in_transaction:
                    connection.execute("commit")
        except apsw.Error as error:
            raise to_store_error(error, self.path) from error

    # --- connections

    def _step_through(self, connection: apsw.Connection, steps: Steps[T], *, begin: bool = False) -> T:
        """Run the steps. With ``begin``, start a transaction unless the first statement is standalone."""
        rows: list[Row] | None = None
        send, execute = steps.send, self._execute
        try:
            while True:
                query = send(rows)  # type: ignore[arg-type]
                if begin:
                    begin = False
                    if not query.standalone:
                        connection.execute("begin")
                rows = execute(connection, query)
        except StopIteration as stop:
            return stop.value  # type: ignore[no-any-return]

    def _execute(self, connection: apsw.Connection, query: Query) -> list[Row]:
        if query.from_user:
            return execute_user_statement(connection, query)
        sql = self._driver_sql_by_sql.get(query.sql)
        if sql is None:
            sql = self._driver_sql_by_sql[query.sql] = _DIALECT.to_driver_sql(query.sql)
        args = query.args if query.rows is None else (*query.args, to_json_rows(query.rows))
        return connection.execute(sql, args).fetchall()

    def _open_file(self, path: Path) -> None:
        with OPEN_CLOSE_LOCK:
            self._writer = self._connect_writer()
            self._guard = LockGuard(path)
            self._file_move_check = FileMoveCheck(path)

    def _connect_writer(self) -> apsw.Connection:
        try:
            connection = connect_writer(self.path, self._schema_use)
            if self._checkpointer is not None:
                connection.set_wal_hook(self._checkpointer.copy_log_after_commit)
        except apsw.Error as error:
            raise to_store_error(error, self.path) from error
        return connection

    def writer_connection(self) -> apsw.Connection:
        """Return the writing connection; also used by probes of ``chronos.testing``. Raises ``StoreUnavailable``."""
        if self._writer is None:
            raise StoreUnavailable("the store is not open; open it first")
        return self._writer

    async def _run_on_writer(self, call: Callable[[], T]) -> T:
        if self._write_thread is None:
            return call()
        return await self._write_thread.run(call)

    async def _run_on_reader(self, call: Callable[[apsw.Connection], T]) -> T:
        if self._read_threads is None:
            return call(self.writer_connection())
        return await asyncio.get_running_loop().run_in_executor(self._read_threads, lambda: call(self._reader()))

    def _reader(self) -> apsw.Connection:
        connection: apsw.Connection | None = getattr(self._local, "connection", None)
        if connection is None:
            try:
                connection = self._local.connection = connect_reader(self.path)
            except apsw.Error as error:
                raise to_store_error(error, self.path) from error
            self._readers.append(connection)
        return connection
