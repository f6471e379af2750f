"""The SQLite driver: one writer, several readers, every commit on disk before it is acknowledged.

A file is written by one thread of its own; reads go to a small pool, each thread with its own connection, and see the
last commit (WAL). In memory there is nothing to wait for, so everything happens at once, on the caller's own thread,
which also makes it deterministic. Two processes may share a file: their transactions take turns.
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
from chronos.store.commands import HOT, Command
from chronos.store.commands.storable import check_storable, half_a_character
from chronos.store.hints import NOTHING, hint_of
from chronos.store.merge import merge, split
from chronos.store.pump import Outcome, Pump
from chronos.store.sql.dialect import Query, Row, Sqlite, Steps, json_rows
from chronos.store.sql.doubts import Doubts
from chronos.store.sql.hot_sqlite import HotSqlite
from chronos.store.sql.sqlite_alone import TURN, Guard
from chronos.store.sql.sqlite_errors import execute_theirs, explained
from chronos.store.sql.sqlite_file import Place, connect_reader, connect_writer, copy_to
from chronos.store.sql.sqlite_log import Log
from chronos.store.sql.sqlite_writer import Writer
from chronos.store.sql.store import SqlStore
from chronos.store.sql.writes import Writes

R = TypeVar("R")
T = TypeVar("T")
READERS = 3
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
        self._doubts = Doubts()
        self._pump = Pump(self._begin, watch=self._committed)
        self._writer: apsw.Connection | None = None
        self._write_thread: Writer | None = None
        self._read_threads: ThreadPoolExecutor | None = None
        self._log: Log | None = None
        self._guard: Guard | None = None
        self._place: Place | None = None
        self._local = threading.local()
        self._readers: list[apsw.Connection] = []

    # --- life

    async def open(self) -> None:
        """See ``Store.open``."""
        if self.path is None:
            self._writer = self._connect_writer()
            return
        self._write_thread = Writer()
        self._read_threads = ThreadPoolExecutor(READERS, thread_name_prefix="chronos-sqlite-reader")
        self._log = Log(self.path)
        try:
            await self._in_writer(partial(self._open_file, self.path))
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        """See ``Store.close``."""
        await self._pump.drain()
        if self._read_threads is not None:
            self._read_threads.shutdown(wait=True)
        if self._log is not None:
            self._log.close()
        if self._write_thread is not None:
            self._write_thread.close()
        with TURN:
            if self._guard is not None:
                self._guard.close()
            for connection in (*self._readers, *([self._writer] if self._writer else [])):
                connection.close()
        self._readers.clear()
        self._writer = self._write_thread = self._read_threads = self._log = self._guard = self._place = None

    async def apply(self, command: Command[R]) -> R:
        """See ``Store.apply``."""
        check_storable(command)
        try:
            return await self._pump.apply(command)
        except UnicodeEncodeError as error:
            raise half_a_character() from error

    async def clock_us(self) -> int | None:
        """This machine's clock is the store's."""
        return None

    async def maintain(self, now_us: int) -> None:
        """Nothing to do: history needs no partitions here, as its oldest rows lie together (see ``Trim``)."""

    async def backup(self, path: str) -> None:
        """See ``Store.backup``."""
        await self._in_reader(lambda connection: copy_to(connection, Path(path)))

    # --- writing

    def _begin(self, commands: Sequence[Command[Any]], done: Callable[[Outcome], None]) -> None:
        if self._write_thread is not None:
            self._write_thread.begin(lambda: self._transaction(commands), partial(self._ended, commands, done))
            return
        answers: list[Any] = []
        error: BaseException | None = None
        try:
            answers = self._transaction(commands)
        except Exception as raised:  # noqa: BLE001 - it goes to whoever waits
            error = raised
        asyncio.get_running_loop().call_soon(self._ended, commands, done, answers, error)

    def _ended(
        self,
        commands: Sequence[Command[Any]],
        done: Callable[[Outcome], None],
        answers: list[Any],
        error: BaseException | None,
    ) -> None:
        if error is None:
            hint = NOTHING
            for command, answer in zip(commands, answers, strict=True):
                if left := hint_of(command, answer):
                    hint |= left
            if hint:
                self._hint(hint)
        done(answers if error is None else error)

    def _transaction(self, commands: Sequence[Command[Any]]) -> list[Any]:
        """Apply a batch; an error of one command undoes that command only."""
        writer = self.connection()
        if self._place is not None:
            self._place.check()
        applied: list[Command[Any]] = []
        try:
            writer.execute("begin immediate")
            answers = self._answers(writer, commands, applied)
            writer.execute("commit")
        except _Swept as swept:
            if len(commands) > 1:
                raise  # each is sent again by itself
            raise swept.error from swept
        except apsw.Error as error:
            with suppress(apsw.Error):
                writer.execute("rollback")
            for command in commands:  # it may have come after the commit, from what follows that
                self._doubts.add(command)
            broken = explained(error, self.path)
            if isinstance(broken, StoreBroken) and len(commands) > 1:
                raise  # it may be one of them only: each is sent again by itself
            raise broken from error
        except BaseException:
            with suppress(apsw.Error):
                writer.execute("rollback")
            raise
        if self._journal is not None:
            for command in applied:
                self._journal(command)
        return answers

    def _answers(
        self, writer: apsw.Connection, commands: Sequence[Command[Any]], applied: list[Command[Any]]
    ) -> list[Any]:
        """The answer of each command; those that can be are applied as one."""
        if len(commands) == 1:
            return [self._apart(writer, commands[0], applied)]
        answers: list[Any] = [None] * len(commands)
        for command, positions in merge(commands):
            parts = [commands[i] for i in positions]
            for position, part in zip(positions, self._together(writer, command, parts, applied), strict=True):
                answers[position] = part
        return answers

    def _together(
        self, writer: apsw.Connection, command: Command[Any], parts: list[Command[Any]], applied: list[Command[Any]]
    ) -> list[Any]:
        """The answers of commands that were merged into one; should that be refused, of each by itself."""
        answer = self._apart(writer, command, applied)
        if not isinstance(answer, ChronosError):
            return split(command, parts, answer)
        if len(parts) == 1:
            return [answer]
        return [self._apart(writer, part, applied) for part in parts]

    def _apart(self, writer: apsw.Connection, command: Command[Any], applied: list[Command[Any]]) -> Any:
        answer = self._one(writer, command, first=not applied)
        if not isinstance(answer, ChronosError):
            applied.append(command)
        return answer

    def _one(self, writer: apsw.Connection, command: Command[Any], *, first: bool) -> Any:
        """The command's answer, or the error that is its own alone.

        A savepoint is for what came before it: the first of a transaction, and hot commands, which are never refused,
        do without.
        """
        if isinstance(command, HOT):
            steps = self._writes.steps(command, resent=self._doubts.about(command))
            return self._step_through(writer, steps)
        if not first:
            writer.execute("savepoint one")
        answer: Any
        try:
            answer = self._step_through(writer, self._writes.steps(command))
        except ChronosError as error:
            if not writer.in_transaction:
                raise _Swept(error) from error
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
        return await self._in_reader(lambda connection: self._consistently(connection, steps))

    def _consistently(self, connection: apsw.Connection, steps: Steps[T]) -> T:
        """All of a read's statements see the same commit."""
        apart = connection is not self._writer
        try:
            try:
                return self._step_through(connection, steps, begin=apart)
            finally:
                if apart and connection.in_transaction:
                    connection.execute("commit")
        except apsw.Error as error:
            raise explained(error, self.path) from error

    # --- connections

    def _step_through(self, connection: apsw.Connection, steps: Steps[T], *, begin: bool = False) -> T:
        """Run the steps; if asked to, begin a transaction, unless the first statement stands alone."""
        rows: list[Row] | None = None
        send, execute = steps.send, self._execute
        try:
            while True:
                query = send(rows)  # type: ignore[arg-type]
                if begin:
                    begin = False
                    if not query.alone:
                        connection.execute("begin")
                rows = execute(connection, query)
        except StopIteration as stop:
            return stop.value  # type: ignore[no-any-return]

    def _execute(self, connection: apsw.Connection, query: Query) -> list[Row]:
        if query.theirs:
            return execute_theirs(connection, query)
        sql = self._sql.get(query.sql)
        if sql is None:
            sql = self._sql[query.sql] = _DIALECT.final(query.sql)
        args = query.args if query.rows is None else (*query.args, json_rows(query.rows))
        return connection.execute(sql, args).fetchall()

    def _open_file(self, path: Path) -> None:
        with TURN:
            self._writer = self._connect_writer()
            self._guard = Guard(path)
            self._place = Place(path)

    def _connect_writer(self) -> apsw.Connection:
        try:
            connection = connect_writer(self.path)
            if self._log is not None:
                connection.set_wal_hook(self._log.grew)
        except apsw.Error as error:
            raise explained(error, self.path) from error
        return connection

    def connection(self) -> apsw.Connection:
        """The connection that writes, for a probe (see ``chronos.testing``). Raises ``StoreUnavailable``."""
        if self._writer is None:
            raise StoreUnavailable("the store is not open")
        return self._writer

    async def _in_writer(self, call: Callable[[], T]) -> T:
        if self._write_thread is None:
            return call()
        return await self._write_thread.run(call)

    async def _in_reader(self, call: Callable[[apsw.Connection], T]) -> T:
        if self._read_threads is None:
            return call(self.connection())
        return await asyncio.get_running_loop().run_in_executor(self._read_threads, lambda: call(self._reader()))

    def _reader(self) -> apsw.Connection:
        connection: apsw.Connection | None = getattr(self._local, "connection", None)
        if connection is None:
            try:
                connection = self._local.connection = connect_reader(self.path)
            except apsw.Error as error:
                raise explained(error, self.path) from error
            self._readers.append(connection)
        return connection
