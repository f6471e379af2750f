"""PostgresStore: a few writing connections, a pool for reads, and one connection that listens for hints.

Many nodes share one database. Gates and tokens coordinate them, without a leader. Within a node, the commands about
one job use one connection, in order (``routing``). Commands that wait share a transaction (``store.group_commit``).
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any, TypeVar
from uuid import UUID

import asyncpg

from chronos.core.config import resolve_settings
from chronos.core.settings.gate_profile import longest_retention_us
from chronos.errors import ChronosError, Invalid, StoreUnavailable
from chronos.store.commands import Command, Enqueue, SaveJobs, SetDefaults
from chronos.store.commands.validation import check_storable, lone_surrogate_error
from chronos.store.contract import Hint
from chronos.store.enqueued_items import ENQUEUE_ITEM, Statement, write_item
from chronos.store.group_commit import GroupCommit, begin_in_task
from chronos.store.sql.append_only import time_ordered_id
from chronos.store.sql.base_store import ResentRequests, SqlStore
from chronos.store.sql.command_handlers import CommandHandlers
from chronos.store.sql.migrations import SchemaUse
from chronos.store.sql.postgres import partitions
from chronos.store.sql.postgres.connection import (
    REPLAN_S,
    Connection,
    ReconnectPolicy,
    build_connect_options,
    connect,
    set_up_session,
)
from chronos.store.sql.postgres.database_url import DatabaseUrl
from chronos.store.sql.postgres.dialect import PostgresDialect
from chronos.store.sql.postgres.errors import DRIVER_ERRORS, is_connection_lost, to_store_error
from chronos.store.sql.postgres.hot_path import PostgresHotPath
from chronos.store.sql.postgres.notify import HintChannel
from chronos.store.sql.postgres.pooler import check_pooler, connect_without_session
from chronos.store.sql.postgres.routing import CONTROL_CONNECTION, join_part_results, route
from chronos.store.sql.postgres.session_settings import SessionKind
from chronos.store.sql.postgres.startup import check_rights, check_server, migrate
from chronos.store.sql.postgres.write_connection import TransactionSteps, WriteConnection
from chronos.store.sql.query import Steps
from chronos.store.sql.statements import collect_statements

R = TypeVar("R")
T = TypeVar("T")
WORK_CONNECTIONS = 2
READERS = 3
RECONNECT_LIMIT_S = 20.0
_INSERT_ENQUEUED = """
    with item as (
        insert into "{schema}".outbox (id, kind, target, execution, body, created_us)
        values (cast($1 as uuid), cast($2 as text), cast($2 as text), cast($3 as uuid), cast($4 as text),
            cast($5 as bigint))
        returning 1
    )
    select pg_notify(cast($6 as text), cast($7 as text)) from item"""
_BEGIN_READ = "begin isolation level repeatable read, read only"
_SET_NEXT_NUMBER = """
    select setval(pg_get_serial_sequence('gate', 'number'), greatest(1, (select max(number) from gate),
        (select max(number) from gone)))"""
_CLOCK = "select (extract(epoch from clock_timestamp()) * 1000000)::bigint"


class PostgresStore(SqlStore):
    """The store on one PostgreSQL database. It uses at most ``work_connections + readers + 2`` connections.

    - ``reconnect_limit_s``: how long a command waits for a server that cannot be reached.
    - ``allow_unsafe``: open a server that may lose acknowledged commits.
    - ``trigrams``: index the names of a new store for substring search.
    - ``schema_use``: what to do with an older schema or an unfinished copy.
    """

    def __init__(
        self,
        url: str,
        *,
        allow_unsafe: bool = False,
        work_connections: int = WORK_CONNECTIONS,
        readers: int = READERS,
        reconnect_limit_s: float = RECONNECT_LIMIT_S,
        trigrams: bool = True,
        schema_use: SchemaUse = SchemaUse.UPGRADE,
    ) -> None:
        self._url = DatabaseUrl.parse(url)
        self._place = self._url.place
        self._dialect = PostgresDialect(self._url.schema)
        super().__init__(self._dialect)
        self._allow_unsafe, self._trigrams, self._schema_use = allow_unsafe, trigrams, schema_use
        self._work_connections, self._readers = work_connections, readers
        self._reconnect_policy = ReconnectPolicy(self._place, reconnect_limit_s)
        self._resent_requests = ResentRequests()
        self._write_connections: list[WriteConnection] = []
        self._group_commits: list[GroupCommit] = []
        self._pool: Any = None
        self._listener: HintChannel | None = None
        self._plans_discarded_s: dict[int, float] = {}
        self._longest_retention_us = 0

    # --- opening and closing

    async def open(self) -> None:
        """See ``Store.open``."""
        self._url.check_files()
        try:
            await self._prepare_database()
            self._pool = await asyncpg.create_pool(
                min_size=0,
                max_size=self._readers,
                init=lambda connection: set_up_session(connection, self._url, SessionKind.READER),
                reset=_skip_reset,
                **build_connect_options(self._url),
            )
            connect_listener = partial(connect, self._url, SessionKind.LISTENER)
            self._listener = HintChannel(connect_listener, self._url.schema, self._hint)
            await self._listener.start()
        except (ValueError, *DRIVER_ERRORS) as error:
            await self.close()
            raise to_store_error(error, self._place) from error
        except BaseException:
            await self.close()
            raise
        handlers = CommandHandlers(self._dialect, PostgresHotPath(self._dialect))
        for _ in range(CONTROL_CONNECTION + 1 + self._work_connections):
            connects = partial(connect, self._url, SessionKind.WRITER)
            writer = WriteConnection(
                connects, handlers, self._place, self._reconnect_policy, self._resent_requests, self._announce
            )
            self._write_connections.append(writer)
            self._group_commits.append(GroupCommit(begin_in_task(writer.run), on_commit=self._notify_commit_listeners))
        try:
            await self._profile_gates()
        except BaseException:
            await self.close()
            raise

    async def _prepare_database(self) -> None:
        """Check the way to the database and the database itself, and migrate its schema."""
        connection = await connect_without_session(self._url)
        try:
            await check_pooler(connection, self._url)
            await set_up_session(connection, self._url, SessionKind.LISTENER)
            await check_server(connection, self._place, allow_unsafe=self._allow_unsafe)
            await check_rights(connection, self._url)
            await migrate(connection, self._url, trigrams=self._trigrams, schema_use=self._schema_use)
            now_us = await connection.fetchval(_CLOCK)
            await partitions.maintain_partitions(connection, self._url.schema, now_us)
        finally:
            await connection.close()

    async def close(self) -> None:
        """See ``Store.close``."""
        group_commits, self._group_commits = self._group_commits, []
        await asyncio.gather(*(group_commit.drain() for group_commit in group_commits))
        listener, self._listener = self._listener, None
        if listener is not None:
            await listener.stop()
        await asyncio.gather(*(writer.close() for writer in self._write_connections))
        self._write_connections = []
        pool, self._pool = self._pool, None
        if pool is not None:
            try:
                async with asyncio.timeout(10):
                    await pool.close()
            except DRIVER_ERRORS:
                pool.terminate()
        self._drop_listeners()

    async def clock_us(self) -> int | None:
        """Return the server's clock, which all nodes share."""
        return int(await self._run_on_reader(lambda connection: connection.fetchval(_CLOCK)))

    async def backup(self, path: str) -> None:
        """Not supported: PostgreSQL has its own backup tools."""
        raise Invalid(f"cannot back up {self._place} from here; use pg_dump or your server's backup tool")

    async def maintain(self, now_us: int) -> None:
        """See ``Store.maintain``: creates weekly partitions ahead and drops expired ones."""
        await self._run_on_reader(
            lambda connection: partitions.maintain_partitions(connection, self._url.schema, now_us)
        )

    async def prepare_history(self, find_execution: Callable[[bytes], Awaitable[bytes | None]]) -> None:
        """See ``SqlStore.prepare_history``: creates the weekly partitions of a copy."""
        weeks = await partitions.list_weeks(find_execution)
        await self._run_on_reader(lambda connection: partitions.create_weeks(connection, weeks))

    async def finish_copy(self) -> None:
        """See ``SqlStore.finish_copy``: the next number of a job, and the longest retention."""
        await self._run_on_reader(_finish_copy)

    async def check_statements(self) -> list[str]:
        """See ``Store.check_statements``: all statements that write or read."""
        return await self._run_on_reader(self._list_rejected_statements)

    async def _list_rejected_statements(self, connection: Connection) -> list[str]:
        rejected = []
        handlers = CommandHandlers(self._dialect, PostgresHotPath(self._dialect))
        for statement, place in collect_statements(handlers, self).items():
            try:
                await connection.prepare(statement)
            except asyncpg.PostgresError as error:
                if is_connection_lost(error):
                    raise
                version = connection.get_server_version().major
                rejected.append(f"PostgreSQL {version} rejects {place}: {error}")
        return rejected

    # --- writing

    async def apply(self, command: Command[R]) -> R:
        """See ``Store.apply``. Rows of ``Admit`` and ``Settle`` may use different connections."""
        check_storable(command)
        if isinstance(command, SaveJobs | SetDefaults):
            await self._raise_longest_retention(command)
        if not self._group_commits:
            raise StoreUnavailable("the store is not open; open it first")
        (connection, part), *others = route(command, self._work_connections)
        if not others:
            try:
                return await self._group_commits[connection].apply(part)
            except UnicodeEncodeError as error:
                raise lone_surrogate_error() from error
        try:
            sent = [self._group_commits[connection].submit(part) for connection, part in ((connection, part), *others)]
            return join_part_results(command, await _gather_results(sent))  # type: ignore[no-any-return]
        except ChronosError:
            self._resent_requests.add(command)  # some parts may have been applied
            raise

    def enqueue_statement(self, command: Enqueue) -> Statement:
        """See ``EnqueuesInTransactions``. The statement also sends the hint, which waits for the commit."""
        check_storable(command)
        execution = str(UUID(bytes=command.runs[0].id))
        item = str(UUID(bytes=time_ordered_id(command.now_us, b"outbox", command.runs[0].id, ENQUEUE_ITEM.encode())))
        schema, hint = self._url.schema, str(int(Hint.OUTBOX))
        args = (item, ENQUEUE_ITEM, execution, write_item(command), command.now_us, schema, hint)
        return Statement(_INSERT_ENQUEUED.format(schema=schema), args)

    async def _raise_longest_retention(self, command: SaveJobs | SetDefaults) -> None:
        """Before a change that keeps history longer than ever, make sure that no partition is dropped too early."""
        if isinstance(command, SaveJobs):
            gates = {id(row.gate): row.gate for row in command.rows}
            longest_us = max(map(longest_retention_us, gates.values()), default=0)
        else:
            longest_us = resolve_settings(command.settings).keep_age_us
        if longest_us > self._longest_retention_us:
            await self._run_on_reader(lambda connection: partitions.raise_longest_retention(connection, longest_us))
            self._longest_retention_us = max(self._longest_retention_us, longest_us)

    def _announce(self, hint: Hint) -> None:
        self._hint(hint)
        if self._listener is not None:
            self._listener.send(hint)

    # --- reading

    async def _read(self, steps: Steps[T]) -> T:
        """Run a read on one snapshot. It is retried if the connection is lost at its first statement."""
        walk = TransactionSteps(steps)
        first = walk.query

        async def run(connection: Connection) -> None:
            if walk.query is None or walk.query.standalone:
                await walk.finish(connection)
                return
            await connection.execute(_BEGIN_READ)
            try:
                await walk.finish(connection)
            except Exception:
                if not connection.is_closed():
                    await connection.execute("rollback")
                raise
            await connection.execute("commit")

        if first is not None:
            await self._run_on_reader(run, may_retry=lambda: walk.query is first)
        return walk.answer  # type: ignore[no-any-return]

    async def _call_or_terminate(self, connection: Connection, call: Callable[[Connection], Awaitable[T]]) -> T:
        """Call with a connection. If the caller is canceled, terminate the connection.

        The pool would wait for the answer of the canceled call, which does not come while the network hangs.
        """
        try:
            await self._discard_old_plans(connection)
            return await call(connection)
        except asyncio.CancelledError:
            connection.terminate()
            raise

    async def _discard_old_plans(self, connection: Connection) -> None:
        """Discard plans that were made for tables of another size (see ``session_settings``)."""
        session, now_s = connection.get_server_pid(), asyncio.get_running_loop().time()
        if now_s - self._plans_discarded_s.get(session, 0.0) >= REPLAN_S:
            await connection.execute("discard plans")
            self._plans_discarded_s = {
                s: at_s for s, at_s in self._plans_discarded_s.items() if now_s - at_s < 10 * REPLAN_S
            }
            self._plans_discarded_s[session] = now_s

    async def _run_on_reader(
        self, call: Callable[[Connection], Awaitable[T]], *, may_retry: Callable[[], bool] = lambda: True
    ) -> T:
        """Call with a connection of the pool. If it is lost, try another one while ``may_retry`` allows it."""
        while True:
            if self._pool is None:
                raise StoreUnavailable("the store is not open; open it first")
            try:
                async with self._pool.acquire() as connection:
                    result = await self._call_or_terminate(connection, call)
            except DRIVER_ERRORS as error:
                if not is_connection_lost(error) or not may_retry():
                    raise to_store_error(error, self._place) from error
                await self._reconnect_policy.wait_or_raise(error)
            else:
                self._reconnect_policy.reset()
                return result


async def _finish_copy(connection: Connection) -> None:
    await connection.execute(_SET_NEXT_NUMBER)
    longest_us = await connection.fetchval("select max(keep_age_us) from gate")
    await partitions.raise_longest_retention(connection, longest_us or 0)


async def _skip_reset(connection: Connection) -> None:
    """No-op: the settings of a read end with its transaction or its connection."""


async def _gather_results(sent: Sequence[asyncio.Future[Any]]) -> list[Any]:
    """Wait for all answers. Raises the first error among them."""
    answers = await asyncio.gather(*map(asyncio.shield, sent), return_exceptions=True)
    for answer in answers:
        if isinstance(answer, BaseException):
            raise answer
    return answers
